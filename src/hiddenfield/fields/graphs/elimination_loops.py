"""Compiled loops that eliminate variables: greedily by a cost, and symbolically in a given order."""

from __future__ import annotations

import numpy as np

from hiddenfield.ops.compile import compiled
from hiddenfield.ops.heap import sift_down, sift_up


@compiled(watched=True)
def initial_fill(stop, later_ptr, later, weight, fill):  # type: ignore[no-untyped-def]
    """Take from `fill` the products of weights over the pairs of neighbours that are joined: the triangles at a node.

    ``later[later_ptr[v]:later_ptr[v + 1]]`` are the neighbours of v of higher degree (or number, where it is equal),
    so that each triangle is met once, in time proportional to the edges to the power 3/2 at most.
    """
    stop[1] = 1
    stamp = np.full(fill.size, -1, np.int64)
    for a in range(fill.size):
        if stop[0]:
            return
        for i in range(later_ptr[a], later_ptr[a + 1]):
            stamp[later[i]] = a
        for i in range(later_ptr[a], later_ptr[a + 1]):
            b = later[i]
            for j in range(later_ptr[b], later_ptr[b + 1]):
                c = later[j]
                if stamp[c] == a:
                    fill[a] -= weight[b] * weight[c]
                    fill[b] -= weight[a] * weight[c]
                    fill[c] -= weight[a] * weight[b]


@compiled(watched=True)
def greedy_order(  # type: ignore[no-untyped-def]
    stop, ptr, neighbour, weight, log_states, stage, tie, first_fill, by_weight, limit, order, totals
):
    """Eliminate the cheapest node again and again, keeping every cost up to date.

    ``fill[v]`` is the sum of ``weight[a] * weight[b]`` over pairs of v's neighbours that are not joined; it changes
    only where an edge is added or a node leaves. Nodes of a lower stage go first. Adjacency lists lie in a pool and
    move to its end when they outgrow their place; eliminated nodes stay in them until half of a list is dead.

    `totals` receives: nodes eliminated (fewer than all when a clique exceeds `limit`, a log2 of states), width, log2 of
    the largest clique's states, sum of all buckets' states.
    """
    stop[1] = 1
    n = ptr.size - 1
    start = ptr[:-1].copy()
    length = np.empty(n, np.int64)
    room = np.empty(n, np.int64)
    alive = np.empty(n, np.int64)  # living neighbours
    around = np.zeros(n)  # their weights, summed
    clique = np.empty(n)  # log2 states of the node with its neighbours
    fill = first_fill.copy()
    gone = np.zeros(n, np.bool_)
    stamp = np.full(n, -1, np.int64)
    changed = np.full(n, -1, np.int64)
    touched = np.empty(n, np.int64)
    pool = np.empty(2 * neighbour.size + 16, np.int64)
    used = neighbour.size
    pool[:used] = neighbour
    for node in range(n):
        length[node] = room[node] = alive[node] = ptr[node + 1] - ptr[node]
        clique[node] = log_states[node]
        for i in range(ptr[node], ptr[node + 1]):
            around[node] += weight[neighbour[i]]
            clique[node] += log_states[neighbour[i]]
    primary, secondary = (clique, fill) if by_weight else (fill, clique)
    # The heap compares copies, so that it stays a heap while costs change one after another; the cheapest on top.
    key = np.empty((n, 3))
    key[:, 2] = -tie
    heap = np.empty(n, np.int64)
    place = np.full(n, -1, np.int64)
    size = 0
    current = np.int64(0)
    last = stage.max() if n else 0
    mark = 0
    done = 0
    width, largest, total = 0, 0.0, 0.0
    while done < n:
        if size == 0:
            while size == 0 and current <= last:
                for node in range(n):
                    if stage[node] == current and not gone[node]:
                        key[node, 0], key[node, 1] = -primary[node], -secondary[node]
                        heap[size] = node
                        sift_up(size, heap, place, key)
                        size += 1
                current += 1
        node = heap[0]
        size -= 1
        if size > 0:
            heap[0] = heap[size]
            sift_down(0, heap[:size], place, key)
        place[node] = -1
        largest = max(largest, clique[node])
        if clique[node] > limit:
            width = max(width, alive[node])
            break
        order[done] = node
        done += 1
        gone[node] = True
        width = max(width, alive[node])
        total += 2.0 ** clique[node]
        count = 0
        begin, end = start[node], start[node] + length[node]
        keep = begin
        for i in range(begin, end):
            if not gone[pool[i]]:
                pool[keep] = pool[i]
                keep += 1
        end = keep
        if fill[node] > 0.0:
            for i in range(begin, end):
                if stop[0]:
                    return
                a = pool[i]
                mark += 1
                for k in range(start[a], start[a] + length[a]):
                    stamp[pool[k]] = mark
                for j in range(i + 1, end):
                    b = pool[j]
                    if stamp[b] == mark:
                        continue
                    common, apart = 0.0, 0.0
                    keep = start[b]
                    for k in range(start[b], start[b] + length[b]):
                        other = pool[k]
                        if gone[other]:
                            continue
                        pool[keep] = other
                        keep += 1
                        if stamp[other] == mark:
                            common += weight[other]
                            fill[other] -= weight[a] * weight[b]
                            if changed[other] != done:
                                changed[other] = done
                                touched[count] = other
                                count += 1
                        else:
                            apart += weight[other]
                    length[b] = keep - start[b]
                    # `around` still counts the node that leaves, which is a common neighbour.
                    fill[a] += weight[b] * (around[a] - weight[node] - common)
                    fill[b] += weight[a] * apart
                    around[a] += weight[b]
                    around[b] += weight[a]
                    clique[a] += log_states[b]
                    clique[b] += log_states[a]
                    alive[a] += 1
                    alive[b] += 1
                    stamp[b] = mark
                    for side in range(2):
                        one, two = (a, b) if side == 0 else (b, a)
                        if length[one] == room[one]:
                            more = 2 * room[one] + 4
                            if used + more > pool.size:
                                larger = np.empty(2 * (used + more), np.int64)
                                larger[:used] = pool[:used]
                                pool = larger
                            for k in range(length[one]):
                                pool[used + k] = pool[start[one] + k]
                            start[one], room[one] = used, more
                            used += more
                        pool[start[one] + length[one]] = two
                        length[one] += 1
        for i in range(begin, end):
            a = pool[i]
            apart = around[a] - weight[node] - (around[node] - weight[a])
            fill[a] -= weight[node] * apart
            around[a] -= weight[node]
            clique[a] -= log_states[node]
            alive[a] -= 1
            if length[a] > 2 * alive[a] + 8:
                keep = start[a]
                for k in range(start[a], start[a] + length[a]):
                    if not gone[pool[k]]:
                        pool[keep] = pool[k]
                        keep += 1
                length[a] = keep - start[a]
            if changed[a] != done:
                changed[a] = done
                touched[count] = a
                count += 1
        for i in range(count):
            other = touched[i]
            if place[other] >= 0:
                key[other, 0], key[other, 1] = -primary[other], -secondary[other]
                sift_up(place[other], heap, place, key)
                sift_down(place[other], heap[:size], place, key)
    totals[0], totals[1], totals[2], totals[3] = done, width, largest, total


@compiled(watched=True)
def bucket_members(stop, ptr, neighbour, order, position, member_ptr, members, parent, status):  # type: ignore[no-untyped-def]
    """For each node, by position in the order: who is joined to it when it leaves, latest in the order first.

    The bucket of a node is its later neighbours and what its children's buckets hold besides it; its parent is the
    earliest of them. Nodes are named by position throughout. ``status[0]`` is 1 where `members` is too short.
    """
    stop[1] = 1
    n = order.size
    first_child = np.full(n, -1, np.int64)
    next_child = np.full(n, -1, np.int64)
    seen = np.full(n, -1, np.int64)
    used = 0
    member_ptr[0] = 0
    status[0] = 0
    for at in range(n):
        if stop[0]:
            return
        begin = used
        node = order[at]
        for i in range(ptr[node], ptr[node + 1]):
            other = position[neighbour[i]]
            if other > at and seen[other] != at:
                seen[other] = at
                if used == members.size:
                    status[0] = 1
                    return
                members[used] = other
                used += 1
        child = first_child[at]
        while child >= 0:
            for i in range(member_ptr[child], member_ptr[child + 1]):
                other = members[i]
                if other != at and seen[other] != at:
                    seen[other] = at
                    if used == members.size:
                        status[0] = 1
                        return
                    members[used] = other
                    used += 1
            child = next_child[child]
        here = members[begin:used]
        here[:] = -np.sort(-here)
        member_ptr[at + 1] = used
        parent[at] = -1
        if used > begin:
            above = members[used - 1]
            parent[at] = above
            next_child[at] = first_child[above]
            first_child[above] = at
