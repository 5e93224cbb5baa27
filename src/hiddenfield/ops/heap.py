"""A binary heap for compiled loops, whose entries know where they are, so that a priority can change in place.

``heap`` holds items, the first one on top; ``where[item]`` is its place. Priorities are the rows of a matrix, compared
column by column: the largest is on top.
"""

from __future__ import annotations

from hiddenfield.ops.compile import subroutine
from hiddenfield.shapes import Array


@subroutine(allocates=False)
def is_above(item: int, other: int, priority: Array) -> bool:
    """Whether an item comes before another one."""
    for column in range(priority.shape[1]):
        if priority[item, column] != priority[other, column]:
            return bool(priority[item, column] > priority[other, column])
    return False


@subroutine(allocates=False)
def sift_up(place: int, heap: Array, where: Array, priority: Array) -> None:
    """Move an entry of the heap towards the top until its parent is no smaller."""
    item = heap[place]
    while place > 0:
        parent = (place - 1) // 2
        if not is_above(item, heap[parent], priority):
            break
        heap[place] = heap[parent]
        where[heap[place]] = place
        place = parent
    heap[place] = item
    where[item] = place


@subroutine(allocates=False)
def sift_down(place: int, heap: Array, where: Array, priority: Array) -> None:
    """Move an entry of the heap away from the top until its children are no larger."""
    item = heap[place]
    while 2 * place + 1 < heap.size:
        child = 2 * place + 1
        if child + 1 < heap.size and is_above(heap[child + 1], heap[child], priority):
            child += 1
        if not is_above(heap[child], item, priority):
            break
        heap[place] = heap[child]
        where[heap[place]] = place
        place = child
    heap[place] = item
    where[item] = place
