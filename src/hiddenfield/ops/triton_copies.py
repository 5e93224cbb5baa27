"""Triton kernels that copy segments of rows on a GPU; imported when the first of them runs there."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl

from hiddenfield.ops.cutting import ARCS_OF_REST, NODES_OF_REST
from hiddenfield.shapes import Tensor

WORDS_OF_BLOCK = 256


# Programs that fill what a batch leaves over.
PROGRAMS_OF_REST = 16


def copy_segments(
    values: Tensor, bounds: Tensor, shifts: Tensor | None, num_rows: int, *, fill: bool = False
) -> Tensor:
    """Copy segments of rows end to end, one program per segment.

    Parameters
    ----------
    values
        (rows,) or (rows, width), on a GPU.
    bounds
        (2, chosen + 1) int64 there: where each chosen segment begins in the result and, beneath, in `values`.
    shifts
        The same of another cut: its segments' moves are added to the values, but to negative ones.
    num_rows
        Rows of the result; known by the caller, so that nothing waits for the device.
    fill
        The last segment is filled with zeros instead.

    Returns
    -------
    Tensor
        (num_rows,) or (num_rows, width).
    """
    values = values.contiguous()
    width = values.shape[1] if values.ndim == 2 else 1
    out = torch.empty(num_rows, *values.shape[1:], dtype=values.dtype, device=values.device)
    chosen = bounds.shape[1] - 1
    if out.numel() and chosen:
        with torch.cuda.device(values.device) if values.is_cuda else nullcontext():
            _kernel[(chosen,)](
                values,
                bounds,
                bounds if shifts is None else shifts,
                out,
                chosen,
                width,
                HAS_SHIFT=shifts is not None,
                FILL=fill,
                BLOCK=WORDS_OF_BLOCK,
            )
    return out


@triton.jit
def _kernel(  # type: ignore[no-untyped-def]
    values,
    bounds,
    shifts,
    out,
    chosen,
    width,
    HAS_SHIFT: tl.constexpr,
    FILL: tl.constexpr,
    BLOCK: tl.constexpr,
) -> Any:
    segment = tl.program_id(0)
    new = tl.load(bounds + segment) * width
    length = tl.load(bounds + segment + 1) * width - new
    old = tl.load(bounds + chosen + 1 + segment) * width
    shift = tl.load(shifts + segment) - tl.load(shifts + chosen + 1 + segment) if HAS_SHIFT else 0
    for first in range(0, length, BLOCK):
        word = first + tl.arange(0, BLOCK)
        inside = word < length
        if FILL:
            value = tl.load(values + old + word, mask=inside & (segment < chosen - 1), other=0)
        else:
            value = tl.load(values + old + word, mask=inside)
        if HAS_SHIFT:
            value = tl.where(value >= 0, value + shift, value)
        tl.store(out + new + word, value, mask=inside)


def find_places(
    order: Tensor,
    first: Tensor,
    bounds: tuple[Tensor, Tensor],
    size: int,
    room: tuple[int, int],
    rest: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the places of a batch's nodes and arcs in arrays with more room; one program.

    Parameters
    ----------
    order, first
        An epoch's order, and where in it the batch begins, as a tensor of one number.
    bounds
        Where the nodes and the arcs of each structure begin and end.
    size
        Structures in the batch.
    room
        Rows for nodes and arcs.
    rest
        Structures among which the other nodes are divided.

    Returns
    -------
    tuple
        The batch's structures (size,); for nodes and for arcs the bounds and, beneath, the old starts (2, 2, size + 2)
        as for `copy_segments`, where the last segment is the rest; the bounds of all structures' nodes.
    """
    device = order.device
    index = torch.empty(size, dtype=torch.int64, device=device)
    places = torch.empty(2, 2, size + 2, dtype=torch.int64, device=device)
    node_ptr = torch.empty(size + rest + 1, dtype=bounds[0].dtype, device=device)
    block = min(4096, triton.next_power_of_2(size))
    with torch.cuda.device(device) if order.is_cuda else nullcontext():
        _places[(1,)](
            order, first, *bounds, index, places, node_ptr, size, *room, rest, NODES=NODES_OF_REST,
            BLOCK=block, num_warps=max(1, block // 256),
        )  # fmt: skip
    return index, places, node_ptr


@triton.jit
def _places(  # type: ignore[no-untyped-def]
    order, first, nodes, arcs, index, places, node_ptr, size, node_room, arc_room, rest,
    NODES: tl.constexpr, BLOCK: tl.constexpr,
) -> Any:  # fmt: skip
    order += tl.load(first)
    all_nodes, all_arcs = tl.zeros((), dtype=tl.int64), tl.zeros((), dtype=tl.int64)
    row = size + 2
    for start in range(0, size, BLOCK):
        place = start + tl.arange(0, BLOCK)
        live = place < size
        chosen = tl.load(order + place, mask=live, other=0)
        tl.store(index + place, chosen, mask=live)
        begin = tl.load(nodes + chosen, mask=live, other=0).to(tl.int64)
        length = tl.load(nodes + chosen + 1, mask=live, other=0).to(tl.int64) - begin
        new = all_nodes + tl.cumsum(length, axis=0) - length
        tl.store(places + place, new, mask=live)
        tl.store(places + row + place, begin, mask=live)
        tl.store(node_ptr + place, new.to(node_ptr.dtype.element_ty), mask=live)
        all_nodes += tl.sum(length, axis=0)
        begin = tl.load(arcs + chosen, mask=live, other=0).to(tl.int64)
        length = tl.load(arcs + chosen + 1, mask=live, other=0).to(tl.int64) - begin
        tl.store(places + 2 * row + place, all_arcs + tl.cumsum(length, axis=0) - length, mask=live)
        tl.store(places + 3 * row + place, begin, mask=live)
        all_arcs += tl.sum(length, axis=0)
    two = tl.arange(0, 2)
    tl.store(places + size + two, tl.where(two == 0, all_nodes, node_room))
    tl.store(places + row + size + two, two.to(tl.int64) * 0)
    tl.store(places + 2 * row + size + two, tl.where(two == 0, all_arcs, arc_room))
    tl.store(places + 3 * row + size + two, two.to(tl.int64) * 0)
    for start in range(0, rest + 1, BLOCK):
        place = start + tl.arange(0, BLOCK)
        bound = tl.minimum(all_nodes + place * NODES, node_room).to(node_ptr.dtype.element_ty)
        tl.store(node_ptr + size + place, bound, mask=place <= rest)


def cut_arcs(
    in_ptr: Tensor, source: Tensor, target: Tensor, reverse: Tensor, places: Tensor, room: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cut the arcs of a batch whose places `find_places` found, in one launch; the other arcs are loops at its end.

    Returns
    -------
    tuple
        The same four of the batch; at most `ARCS_OF_REST` loops are at one node.
    """
    size = places.shape[2] - 2
    out = [torch.empty(room[1], dtype=source.dtype, device=source.device) for _ in range(3)]
    ptr = torch.empty(room[0] + 1, dtype=in_ptr.dtype, device=in_ptr.device)
    with torch.cuda.device(source.device) if source.is_cuda else nullcontext():
        _arcs[(size + PROGRAMS_OF_REST,)](
            in_ptr, source, target, reverse, places, ptr, *out, size, *room,
            PROGRAMS=PROGRAMS_OF_REST, ARCS=ARCS_OF_REST, BLOCK=WORDS_OF_BLOCK // 2, num_warps=2,
        )  # fmt: skip
    return ptr, out[0], out[1], out[2]


@triton.jit
def _arcs(  # type: ignore[no-untyped-def]
    in_ptr, source, target, reverse, places, new_ptr, new_source, new_target, new_reverse, size, node_room, arc_room,
    PROGRAMS: tl.constexpr, ARCS: tl.constexpr, BLOCK: tl.constexpr,
) -> Any:  # fmt: skip
    program = tl.program_id(0)
    segment = tl.minimum(program, size)
    node, row = tl.load(places + segment), size + 2
    arc = tl.load(places + 2 * row + segment)
    if program < size:
        nodes = tl.load(places + segment + 1) - node
        arcs = tl.load(places + 2 * row + segment + 1) - arc
        old_node, old_arc = tl.load(places + row + segment), tl.load(places + 3 * row + segment)
        for first in range(0, nodes, BLOCK):
            word = first + tl.arange(0, BLOCK)
            value = tl.load(in_ptr + old_node + word, mask=word < nodes, other=0) + (arc - old_arc)
            tl.store(new_ptr + node + word, value.to(new_ptr.dtype.element_ty), mask=word < nodes)
        for first in range(0, arcs, BLOCK):
            word = first + tl.arange(0, BLOCK)
            inside = word < arcs
            value = tl.load(source + old_arc + word, mask=inside, other=0) + (node - old_node)
            tl.store(new_source + arc + word, value.to(new_source.dtype.element_ty), mask=inside)
            value = tl.load(target + old_arc + word, mask=inside, other=0) + (node - old_node)
            tl.store(new_target + arc + word, value.to(new_target.dtype.element_ty), mask=inside)
            value = tl.load(reverse + old_arc + word, mask=inside, other=0) + (arc - old_arc)
            tl.store(new_reverse + arc + word, value.to(new_reverse.dtype.element_ty), mask=inside)
    else:
        nodes, arcs, begin = node_room + 1 - node, arc_room - arc, (program - size) * BLOCK
        for first in range(begin, nodes, PROGRAMS * BLOCK):
            word = first + tl.arange(0, BLOCK)
            value = tl.minimum(arc + word * ARCS, arc_room)
            tl.store(new_ptr + node + word, value.to(new_ptr.dtype.element_ty), mask=word < nodes)
        for first in range(begin, arcs, PROGRAMS * BLOCK):
            word = first + tl.arange(0, BLOCK)
            inside = word < arcs
            value = (node + word // ARCS).to(new_source.dtype.element_ty)
            tl.store(new_source + arc + word, value, mask=inside)
            tl.store(new_target + arc + word, value, mask=inside)
            tl.store(new_reverse + arc + word, (arc + word).to(new_reverse.dtype.element_ty), mask=inside)


def repeat_rows(values: Tensor, ptr: Tensor, num_rows: int) -> Tensor:
    """Repeat each segment's row in all of the segment's rows, one program per segment.

    Parameters
    ----------
    values
        (segments, width), on a GPU.
    ptr
        (segments + 1,) int32 or int64 there.
    num_rows
        The last number of `ptr`.

    Returns
    -------
    Tensor
        (num_rows, width).
    """
    values = values.contiguous()
    width = values.shape[1]
    out = torch.empty(num_rows, width, dtype=values.dtype, device=values.device)
    if out.numel():
        with torch.cuda.device(values.device):
            _repeat_loop[(values.shape[0],)](values, ptr, out, width, BLOCK=triton.next_power_of_2(width))
    return out


@triton.jit
def _repeat_loop(values, ptr, out, width, BLOCK: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    segment = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(values + segment * width + column, mask=inside)
    begin = tl.load(ptr + segment).to(tl.int64)
    end = tl.load(ptr + segment + 1).to(tl.int64)
    for row in range(begin, end):
        tl.store(out + row * width + column, value, mask=inside)
