"""Compiled loops over networks kept as bits: what one more edge changes, chains of Gibbs sampling, lists of networks.

Every chain has its own random numbers (xoroshiro128++, Blackman and Vigna 2021), so that what is drawn does not depend
on the number of threads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.shapes import Array

MANY = 5000
"""Pairs from which on networks count as sparse where they have few edges."""


class Schedule(NamedTuple):
    """How long to run: free pairs (none listed: all), proposals before and between samples, how many samples.

    From `many` free pairs on, sparse networks are sampled by edges. A chain with more than `most` edges stays as it is.
    """

    first: Array
    second: Array
    burn_in: int
    thin: int
    samples: int
    many: int = MANY
    most: int = 2**62


VISITS = 2
"""Proposals for each edge (or each vertex, where there are fewer edges) in a sweep of a sparse network."""
BLOCKS = 16
"""Parts of the burn-in; before each it is decided anew whether the network is sparse."""


DEGREES, PARTNERS = 0, 1
"""Kinds of functions that are added up over vertices and over edges: of degrees, and of shared partners."""


class Changes(NamedTuple):
    """How statistics change with an edge: edges, triangles, cycles of four, functions, numbers of pairs, patterns.

    Parameters
    ----------
    triangles, cycles
        Whether triangles and cycles of four are needed; walks would count these too, in twice the time.
    kinds, gains, among
        Of each function of degrees or shared partners its kind, what one more edge or partner adds after k, and whose
        degrees count.
    pairs
        Numbers of all pairs.
    walks
        A pattern with one of its edges laid on the pair, one row each: the number of the pattern; first step and one
        after the last, first atom and one after the last, first value.
    steps
        A step for each vertex of a walk but the first: row of `masks`, first check and one after the last. The first
        step of a walk is to the other end of the pair.
    checks
        What a vertex must be to an earlier one: its depth, and whether an edge leads there (1) or from there (0), or
        the two are only to be different (2), as the ends of an edge always are.
    atoms
        Attributes of vertices: depth, row of `codes`, stride among the values of the walk.
    values
        What an occurrence counts for each value of the attributes.
    masks, codes
        Vertices of each type as bits, and the attributes of all vertices.
    """

    triangles: bool
    cycles: bool
    kinds: Array
    gains: Array
    among: Array
    pairs: Array
    walks: Array
    steps: Array
    checks: Array
    atoms: Array
    values: Array
    masks: Array
    codes: Array


class Scratch(NamedTuple):
    """Where a walk is: the vertex at each depth, the word of candidates it is among, and which of these are left."""

    chosen: Array
    place: Array
    left: Array


@subroutine(allocates=False, fast=True)
def _ones(word: Any) -> Any:
    """Count the bits of a word; compilers know this pattern and make one instruction of it."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@subroutine(allocates=False, fast=True)
def _common(net: Array, i: int, j: int) -> int:
    """Count the common neighbours of two vertices."""
    count = 0
    for w in range(net.shape[2]):
        count += _ones(net[0, i, w] & net[0, j, w])
    return count


@subroutine(allocates=False, fast=True)
def _coefficient(by: Changes, walk: int, chosen: Array) -> Any:
    """Return what an occurrence counts, given the attributes of its vertices."""
    index = by.walks[walk, 5]
    for a in range(by.walks[walk, 3], by.walks[walk, 4]):
        index += by.atoms[a, 2] * by.codes[by.atoms[a, 1], chosen[by.atoms[a, 0]]]
    return by.values[index]


@subroutine(allocates=False, fast=True)
def _candidates(net: Array, by: Changes, step: int, w: int, chosen: Array) -> Any:
    """Return which vertices of a word of bits a step may go to, given the vertices before."""
    word = by.masks[by.steps[step, 0], w]
    for c in range(by.steps[step, 1], by.steps[step, 2]):
        vertex, side = chosen[by.checks[c, 0]], by.checks[c, 1]
        if side < 2:
            word &= net[side & (net.shape[0] - 1), vertex, w]
        elif vertex >> 6 == w:
            word &= ~(np.uint64(1) << np.uint64(vertex & 63))
    return word


@subroutine(allocates=False, fast=True)
def _occurrences(net: Array, by: Changes, walk: int, i: int, j: int, scratch: Scratch) -> Any:
    """Add up the coefficients of all occurrences of a pattern with the edge from i to j, which is not in `net`."""
    chosen, place, left = scratch.chosen, scratch.place, scratch.left
    begin, one = by.walks[walk, 1], np.uint64(1)
    last = by.walks[walk, 2] - begin
    chosen[0], chosen[1] = i, j
    for c in range(by.steps[begin, 1], by.steps[begin, 2]):
        if not net[by.checks[c, 1] & (net.shape[0] - 1), i, j >> 6] & (one << np.uint64(j & 63)):
            return 0.0
    if last == 1:
        return _coefficient(by, walk, chosen)
    plain = by.walks[walk, 3] == by.walks[walk, 4]
    total, depth = 0.0, 2
    place[2], left[2] = -1, np.uint64(0)
    while depth > 1:
        if depth == last and plain:
            for w in range(net.shape[2]):
                total += (
                    _ones(_candidates(net, by, begin + depth - 1, w, chosen)) * by.values[by.walks[walk, 5]]
                )
            depth -= 1
        elif left[depth] == 0:
            place[depth] += 1
            if place[depth] == net.shape[2]:
                depth -= 1
            else:
                left[depth] = _candidates(net, by, begin + depth - 1, place[depth], chosen)
        else:
            low = left[depth] & (~left[depth] + one)
            left[depth] ^= low
            chosen[depth] = 64 * place[depth] + _ones(low - one)
            if depth == last:
                total += _coefficient(by, walk, chosen)
            else:
                depth += 1
                place[depth], left[depth] = -1, np.uint64(0)
    return total


@subroutine(allocates=False, fast=True)
def _change(net: Array, degree: Array, i: int, j: int, by: Changes, scratch: Scratch, out: Array) -> None:
    """Write what the edge from i to j, which is not in `net`, adds to each of the statistics."""
    out[0] = 1.0
    out[1] = _common(net, i, j) if by.triangles else 0
    for f in range(2, out.size):
        out[f] = 0.0
    partners = False
    for f in range(by.kinds.size):
        if by.kinds[f] == PARTNERS:
            partners = True
        else:
            if by.among[f, i]:
                out[3 + f] += by.gains[f, degree[i]]
            if by.among[f, j]:
                out[3 + f] += by.gains[f, degree[j]]
    if by.cycles or partners:
        shared = 0
        for w in range(net.shape[2]):
            word = net[0, i, w] if by.cycles else net[0, i, w] & net[0, j, w]
            while word:
                low = word & (~word + np.uint64(1))
                word ^= low
                k = 64 * w + _ones(low - np.uint64(1))
                second = _common(net, j, k)
                out[2] += second
                if partners and net[0, j, w] & low:
                    first = _common(net, i, k)
                    for f in range(by.kinds.size):
                        if by.kinds[f] == PARTNERS:
                            out[3 + f] += by.gains[f, first] + by.gains[f, second] + by.gains[f, shared]
                    shared += 1
    further = 3 + by.kinds.size
    for p in range(by.pairs.shape[0]):
        out[further + p] = by.pairs[p, i, j]
    further += by.pairs.shape[0]
    for walk in range(len(by.walks)):
        out[further + by.walks[walk, 0]] += _occurrences(net, by, walk, i, j, scratch)


@subroutine(allocates=False, fast=True)
def _toggle(net: Array, degree: Array, i: int, j: int, more: int) -> None:
    """Set or clear the edge from i to j: in the rows of both or, of a directed network, in a row and a column."""
    net[0, i, j >> 6] ^= np.uint64(1) << np.uint64(j & 63)
    net[net.shape[0] - 1, j, i >> 6] ^= np.uint64(1) << np.uint64(i & 63)
    degree[i] += more
    degree[j] += more


@subroutine(allocates=False, fast=True)
def _next(s0: Any, s1: Any) -> tuple[Any, Any, Any]:
    """Return 64 random bits and the state after them."""
    total = s0 + s1
    out = ((total << np.uint64(17)) | (total >> np.uint64(47))) + s0
    s1 ^= s0
    s0 = ((s0 << np.uint64(49)) | (s0 >> np.uint64(15))) ^ s1 ^ (s1 << np.uint64(21))
    s1 = (s1 << np.uint64(28)) | (s1 >> np.uint64(36))
    return out, s0, s1


@subroutine(allocates=False, fast=True)
def _choose(bits: Any, size: int, schedule: Schedule) -> tuple[Any, Any]:
    """Return a free pair, uniformly."""
    high, low = bits >> np.uint64(32), bits & np.uint64(0xFFFFFFFF)
    if schedule.first.size:
        k = np.int64((high * np.uint64(schedule.first.size)) >> np.uint64(32))
        return np.int64(schedule.first[k]), np.int64(schedule.second[k])
    i = np.int64((high * np.uint64(size)) >> np.uint64(32))
    j = np.int64((low * np.uint64(size - 1)) >> np.uint64(32))
    return i, j + (1 if j >= i else 0)


@compiled
def count_bits(begin: Array, rows: Array, degree: Array, totals: Array, by: Changes) -> None:
    """Copy networks into empty rows, edge by edge, adding up the statistics, and the degrees."""
    for chain in prange(begin.shape[0]):
        net, size = rows[chain], begin.shape[1]
        depths = by.steps.shape[0] + 3
        scratch = Scratch(np.zeros(depths, np.int64), np.zeros(depths, np.int64), np.zeros(depths, np.uint64))
        change = np.zeros(totals.shape[1])
        for i in range(size):
            for j in range(i + 1 if net.shape[0] == 1 else 0, size):
                if begin[chain, i, j >> 6] & (np.uint64(1) << np.uint64(j & 63)):
                    _change(net, degree[chain], i, j, by, scratch, change)
                    for f in range(change.size):
                        totals[chain, f] += change[f]
                    _toggle(net, degree[chain], i, j, 1)


@compiled(watched=True)
def count_changes(
    stop: Array, net: Array, degree: Array, pairs: Array, by: Changes, combine: Array, out: Array
) -> None:
    """Add up by how much each pair changes combinations of the statistics, all else as in `net`."""
    stop[1] = 1
    depths = by.steps.shape[0] + 3
    scratch = Scratch(np.zeros(depths, np.int64), np.zeros(depths, np.int64), np.zeros(depths, np.uint64))
    change = np.zeros(combine.shape[1])
    for p in range(len(pairs)):
        if stop[0]:
            break
        i, j = pairs[p, 0], pairs[p, 1]
        there = (net[0, i, j >> 6] & (np.uint64(1) << np.uint64(j & 63))) != 0
        if there:
            _toggle(net, degree, i, j, -1)
        _change(net, degree, i, j, by, scratch, change)
        if there:
            _toggle(net, degree, i, j, 1)
        for f in range(out.shape[1]):
            for c in range(change.size):
                out[p, f] += combine[f, c] * change[c]


@subroutine(allocates=True)
def _list_edges(net: Array, schedule: Schedule) -> tuple[Array, int]:
    """Return the edges among the free pairs as i * size + j, with room for more, and their number."""
    size, count = net.shape[1], 0
    known = np.empty(64, dtype=np.int64)
    listed, ordered = schedule.first.size, net.shape[0] == 2
    for i in range(1 if listed else size):
        for j in range(0 if listed or ordered else i + 1, listed or size):
            a, b = (np.int64(schedule.first[j]), np.int64(schedule.second[j])) if listed else (i, j)
            if net[0, a, b >> 6] & (np.uint64(1) << np.uint64(b & 63)):
                if count == known.size:
                    known = np.concatenate((known, np.empty(count, dtype=np.int64)))
                known[count] = a * size + b if ordered else min(a, b) * size + max(a, b)
                count += 1
    return known, count


@subroutine(allocates=False, fast=True)
def _accept(uniform: Any, score: Any, present: int, count: int, pairs: int) -> Any:
    """Return whether to change a pair of a sparse network, where every second proposal is one of its `count` edges."""
    every = 1.0 / pairs
    if present:
        back = 0.5 * every if count > 1 else every
        return uniform * math.exp(min(score, 700.0)) * (0.5 / count + 0.5 * every) < back
    forward = 0.5 * every if count > 0 else every
    return uniform * forward < math.exp(min(score, 700.0)) * (0.5 / (count + 1) + 0.5 * every)


@compiled(watched=True)
def sample_bits(
    stop: Array,
    rows: Array,
    degree: Array,
    totals: Array,
    weights: Array,
    by: Changes,
    random: Array,
    schedule: Schedule,
    trace: Array,
    kept: Array,
    flips: Array,
) -> None:
    """Run all chains: rows (chains, 1 or 2, vertices, words), the degrees, and totals and weights of the statistics.

    A directed network has rows for arcs from each vertex and for arcs to it. In a sparse network, where nearly every
    pair is none and stays so, every second proposal is an edge (Morris, Handcock and Hunter 2008), and a sweep takes as
    many fewer of them; whether it is sparse, and how long a sweep is, is settled when the burn-in ends.
    """
    stop[1] = 1
    size, ordered = rows.shape[2], rows.shape[1] == 2
    pairs = schedule.first.size or size * (size - 1) // (1 if ordered else 2)
    depths = by.steps.shape[0] + 3
    for chain in prange(rows.shape[0]):
        s0, s1 = random[chain, 0], random[chain, 1]
        net, total, weight = rows[chain], totals[chain], weights[chain]
        scratch = Scratch(np.zeros(depths, np.int64), np.zeros(depths, np.int64), np.zeros(depths, np.uint64))
        change = np.zeros(total.size)
        changed = 0
        known = np.empty(1, dtype=np.int64)
        count: Any = -1
        share = 1.0
        for sample in range(-BLOCKS, schedule.samples):
            if sample <= 0:
                share = VISITS * max(total[0], size) / pairs
                if pairs < schedule.many or share >= 1.0:
                    share, count = 1.0, -1
                elif count < 0:
                    known, count = _list_edges(net, schedule)
            steps = schedule.thin
            if sample < 0:
                done = sample + BLOCKS
                steps = schedule.burn_in * (done + 1) // BLOCKS - schedule.burn_in * done // BLOCKS
            if count >= 0 and steps > 0:
                steps = max(1, int(steps * share))
            for _ in range(steps):
                if stop[0] or total[0] > schedule.most:
                    break
                bits, s0, s1 = _next(s0, s1)
                i, j = _choose(bits, size, schedule)
                chosen = bits >> np.uint64(32)
                bits, s0, s1 = _next(s0, s1)
                uniform = np.float64(bits >> np.uint64(11)) * (1.0 / 9007199254740992.0)
                place: Any = -1
                if count > 0 and bits & np.uint64(1):
                    place = np.int64((chosen * np.uint64(count)) >> np.uint64(32))
                    i, j = known[place] // size, known[place] % size
                present = np.int64((net[0, i, j >> 6] & (np.uint64(1) << np.uint64(j & 63))) != 0)
                if present:
                    _toggle(net, degree[chain], i, j, -1)
                _change(net, degree[chain], i, j, by, scratch, change)
                score = 0.0
                for f in range(change.size):
                    score += weight[f] * change[f]
                if count >= 0:
                    new = 1 - present if _accept(uniform, score, present, count, pairs) else present
                else:
                    new = np.int64(uniform * (1.0 + math.exp(-score)) < 1.0)
                if new:
                    _toggle(net, degree[chain], i, j, 1)
                if new != present:
                    sign = new - present
                    for f in range(change.size):
                        total[f] += sign * change[f]
                    changed += 1
                    if count >= 0:
                        pair = i * size + j if ordered else min(i, j) * size + max(i, j)
                        if new:
                            if count == known.size:
                                known = np.concatenate((known, np.empty(count, dtype=np.int64)))
                            known[count] = pair
                        else:
                            if place < 0:
                                place = 0
                                while known[place] != pair:
                                    place += 1
                            known[place] = known[count - 1]
                        count += sign
            if sample >= 0:
                for f in range(total.size):
                    trace[chain, sample, f] = total[f]
                if kept.shape[1]:
                    for v in range(size):
                        for w in range(net.shape[2]):
                            kept[chain, sample, v, w] = net[0, v, w]
        random[chain, 0], random[chain, 1] = s0, s1
        flips[chain] = changed


CHUNKS = 64
"""Parts of a list of networks, each counted on its own thread."""


@compiled
def count_masks(masks: Array, pairs: Array, sides: int, by: Changes, out: Array) -> None:
    """Add up the statistics of networks given as bits over the pairs, each from the one before by what differs."""
    for chunk in prange(CHUNKS):
        size, depths = by.among.shape[1], by.steps.shape[0] + 3
        scratch = Scratch(np.zeros(depths, np.int64), np.zeros(depths, np.int64), np.zeros(depths, np.uint64))
        net = np.zeros((sides, size, 1), dtype=np.uint64)
        degree, change, total = np.zeros(size, np.int64), np.zeros(out.shape[1]), np.zeros(out.shape[1])
        before = np.int64(0)
        for m in range(masks.size * chunk // CHUNKS, masks.size * (chunk + 1) // CHUNKS):
            differs = masks[m] ^ before
            pair = 0
            while differs >> pair:
                if differs >> pair & 1:
                    i, j, sign = pairs[pair, 0], pairs[pair, 1], 1 - 2 * (before >> pair & 1)
                    if sign < 0:
                        _toggle(net, degree, i, j, -1)
                    _change(net, degree, i, j, by, scratch, change)
                    if sign > 0:
                        _toggle(net, degree, i, j, 1)
                    for f in range(total.size):
                        total[f] += sign * change[f]
                pair += 1
            before = masks[m]
            for f in range(total.size):
                out[m, f] = total[f]
