"""Compiled loops of Gibbs sampling: change statistics on edges kept as bits, or from the state of ground features.

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


DEGREES, PARTNERS, TRIANGLES = 0, 1, 2
"""Kinds of further statistics: functions of degrees or of shared partners, and triangles of some vertices."""


class Extra(NamedTuple):
    """Further statistics: functions of degrees or of shared partners, triangles of some vertices, numbers of pairs.

    Of each there are its kind, what one more edge or partner adds after k, and whose degrees or triangles count.
    """

    kinds: Array
    gains: Array
    among: Array
    pairs: Array


class FlatFeatures(NamedTuple):
    """Ground features end to end: the feature of each, where its values begin, and both by pair."""

    feature: Array
    table: Array
    values: Array
    by_pair: Array
    bit: Array
    pair_ptr: Array


@subroutine(allocates=False)
def _ones(word: Any) -> Any:
    """Count the bits of a word; compilers know this pattern and make one instruction of it."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@subroutine(allocates=False)
def _common(rows: Array, i: int, j: int) -> int:
    """Count the common neighbours of two vertices."""
    count = 0
    for w in range(rows.shape[1]):
        count += _ones(rows[i, w] & rows[j, w])
    return count


@subroutine(allocates=False)
def _paths(rows: Array, i: int, j: int, present: int) -> int:
    """Count the paths i - a - b - j: the cycles of four that the edge between i and j would close."""
    count = 0
    for w in range(rows.shape[1]):
        word = rows[i, w]
        while word:
            low = word & (~word + np.uint64(1))
            word ^= low
            a = 64 * w + _ones(low - np.uint64(1))
            if a != j:
                count += _common(rows, a, j) - present
    return count


@subroutine(allocates=False)
def _change(rows: Array, degree: Array, i: int, j: int, present: int, cycles: bool) -> tuple[int, int, int]:
    """Return how many two-stars, three-stars and, where asked for, cycles of four the edge between i and j adds."""
    di, dj = degree[i] - present, degree[j] - present
    closed = 0
    if cycles:
        closed = _paths(rows, i, j, present) if di <= dj else _paths(rows, j, i, present)
    return di + dj, (di * (di - 1) + dj * (dj - 1)) // 2, closed


@subroutine(allocates=False)
def _extra_change(rows: Array, degree: Array, i: int, j: int, present: int, extra: Extra, out: Array) -> None:
    """Write what the edge between i and j adds to each of the further statistics."""
    kinds, gains, among = extra.kinds, extra.gains, extra.among
    partners, triangles = False, False
    for t in range(kinds.size):
        out[t] = 0.0
        if kinds[t] == DEGREES:
            if among[t, i]:
                out[t] += gains[t, degree[i] - present]
            if among[t, j]:
                out[t] += gains[t, degree[j] - present]
        elif kinds[t] == PARTNERS:
            partners = True
        else:
            triangles = triangles or (among[t, i] and among[t, j])
    if partners or triangles:
        shared = 0
        for w in range(rows.shape[1]):
            word = rows[i, w] & rows[j, w]
            while word:
                low = word & (~word + np.uint64(1))
                word ^= low
                k = 64 * w + _ones(low - np.uint64(1))
                first, second = 0, 0
                if partners:
                    first, second = _common(rows, i, k) - present, _common(rows, j, k) - present
                for t in range(kinds.size):
                    if kinds[t] == PARTNERS:
                        out[t] += gains[t, first] + gains[t, second] + gains[t, shared]
                    elif kinds[t] == TRIANGLES and among[t, i] and among[t, j] and among[t, k]:
                        out[t] += 1.0
                shared += 1
    for p in range(extra.pairs.shape[0]):
        out[kinds.size + p] = extra.pairs[p, i, j]


@subroutine(allocates=False)
def _next(s0: Any, s1: Any) -> tuple[Any, Any, Any]:
    """Return 64 random bits and the state after them."""
    total = s0 + s1
    out = ((total << np.uint64(17)) | (total >> np.uint64(47))) + s0
    s1 ^= s0
    s0 = ((s0 << np.uint64(49)) | (s0 >> np.uint64(15))) ^ s1 ^ (s1 << np.uint64(21))
    s1 = (s1 << np.uint64(28)) | (s1 >> np.uint64(36))
    return out, s0, s1


@subroutine(allocates=False)
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
def count_bits(begin: Array, rows: Array, degree: Array, totals: Array, use: Array, extra: Extra) -> None:
    """Copy networks into empty rows, edge by edge, adding up the statistics that are used, and the degrees."""
    size = begin.shape[1]
    for chain in prange(begin.shape[0]):
        net = rows[chain]
        more = totals.shape[1] - 5
        change = np.zeros(max(more, 1))
        for i in range(size):
            for j in range(i + 1, size):
                bit = np.uint64(1) << np.uint64(j & 63)
                if begin[chain, i, j >> 6] & bit:
                    star2, star3, cycles = _change(net, degree[chain], i, j, 0, use[4])
                    totals[chain, 0] += 1
                    totals[chain, 1] += _common(net, i, j) if use[1] else 0
                    totals[chain, 2] += star2
                    totals[chain, 3] += star3
                    totals[chain, 4] += cycles
                    if more:
                        _extra_change(net, degree[chain], i, j, 0, extra, change)
                        for f in range(more):
                            totals[chain, 5 + f] += change[f]
                    net[i, j >> 6] |= bit
                    net[j, i >> 6] |= np.uint64(1) << np.uint64(i & 63)
                    degree[chain, i] += 1
                    degree[chain, j] += 1


@subroutine(allocates=True)
def _list_edges(net: Array, schedule: Schedule) -> tuple[Array, int]:
    """Return the edges among the free pairs, i < j as i * size + j, with room for more, and their number."""
    size, count = net.shape[0], 0
    known = np.empty(64, dtype=np.int64)
    listed = schedule.first.size
    for i in range(1 if listed else size):
        for j in range(0 if listed else i + 1, listed or size):
            a, b = (np.int64(schedule.first[j]), np.int64(schedule.second[j])) if listed else (i, j)
            if net[a, b >> 6] & (np.uint64(1) << np.uint64(b & 63)):
                if count == known.size:
                    known = np.concatenate((known, np.empty(count, dtype=np.int64)))
                known[count] = min(a, b) * size + max(a, b)
                count += 1
    return known, count


@subroutine(allocates=False)
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
    use: Array,
    extra: Extra,
    random: Array,
    schedule: Schedule,
    trace: Array,
    kept: Array,
    flips: Array,
) -> None:
    """Run all chains: rows (chains, vertices, words) and their degrees, totals and weights of `counts.STATISTICS`.

    `use` says which of the statistics are needed; those of `extra` follow them. With edges and triangles alone
    probabilities come from a table. In a sparse network, where nearly every pair is none and stays so, every second
    proposal is an edge (Morris, Handcock and Hunter 2008), and a sweep takes as many fewer of them; whether it is
    sparse, and how long a sweep is, is settled when the burn-in ends.
    """
    stop[1] = 1
    size = rows.shape[1]
    pairs = schedule.first.size or size * (size - 1) // 2
    more = totals.shape[1] - 5
    plain = not (use[2] or use[3] or use[4] or more)
    for chain in prange(rows.shape[0]):
        s0, s1 = random[chain, 0], random[chain, 1]
        net, total, weight = rows[chain], totals[chain], weights[chain]
        table = np.empty(max(size, 1))
        for c in range(size):
            table[c] = 1.0 / (1.0 + math.exp(-(weight[0] + c * weight[1])))
        change = np.zeros(max(more, 1))
        triangles: Any = 0
        edges: Any = 0
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
                if stop[0] or total[0] + edges > schedule.most:
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
                word, bit = j >> 6, np.uint64(1) << np.uint64(j & 63)
                present = np.int64((net[i, word] & bit) != 0)
                common = _common(net, i, j) if use[1] else 0
                star2, star3, cycles = 0, 0, 0
                score = weight[0] + weight[1] * common
                if not plain:
                    star2, star3, cycles = _change(net, degree[chain], i, j, present, use[4])
                    score += weight[2] * star2 + weight[3] * star3
                    if more:
                        _extra_change(net, degree[chain], i, j, present, extra, change)
                        for f in range(more):
                            score += weight[5 + f] * change[f]
                    score += weight[4] * cycles
                if count >= 0:
                    new = 1 - present if _accept(uniform, score, present, count, pairs) else present
                else:
                    probability = table[common] if plain else 1.0 / (1.0 + math.exp(-score))
                    new = np.int64(uniform < probability)
                if new != present:
                    sign = new - present
                    if count >= 0:
                        pair = min(i, j) * size + max(i, j)
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
                    net[i, word] ^= bit
                    net[j, i >> 6] ^= np.uint64(1) << np.uint64(i & 63)
                    edges += sign
                    triangles += sign * common
                    changed += 1
                    if not plain:
                        degree[chain, i] += sign
                        degree[chain, j] += sign
                        total[2] += sign * star2
                        total[3] += sign * star3
                        total[4] += sign * cycles
                        for f in range(more):
                            total[5 + f] += sign * change[f]
            total[0] += edges
            total[1] += triangles
            edges, triangles = 0, 0
            if sample >= 0:
                for f in range(total.size):
                    trace[chain, sample, f] = total[f]
                if kept.shape[1]:
                    for v in range(size):
                        for w in range(net.shape[1]):
                            kept[chain, sample, v, w] = net[v, w]
        random[chain, 0], random[chain, 1] = s0, s1
        flips[chain] = changed


@compiled(watched=True)
def sample_any(
    stop: Array,
    present: Array,
    state: Array,
    totals: Array,
    flat: FlatFeatures,
    weights: Array,
    random: Array,
    schedule: Schedule,
    trace: Array,
    kept: Array,
    flips: Array,
) -> None:
    """Run all chains on any ground features: present (chains, pairs), state of each ground feature.

    `schedule.first` lists the free pairs by number.
    """
    stop[1] = 1
    free = np.uint64(schedule.first.size)
    for chain in prange(present.shape[0]):
        s0, s1 = random[chain, 0], random[chain, 1]
        changed = 0
        for sample in range(-1, schedule.samples):
            for _ in range(schedule.burn_in if sample < 0 else schedule.thin):
                if stop[0]:
                    break
                bits, s0, s1 = _next(s0, s1)
                pair = schedule.first[np.int64(((bits >> np.uint64(32)) * free) >> np.uint64(32))]
                bits, s0, s1 = _next(s0, s1)
                uniform = np.float64(bits >> np.uint64(11)) * (1.0 / 9007199254740992.0)
                score = 0.0
                for k in range(flat.pair_ptr[pair], flat.pair_ptr[pair + 1]):
                    i = flat.by_pair[k]
                    without = flat.table[i] + (state[chain, i] & ~flat.bit[k])
                    gain = flat.values[without + flat.bit[k]] - flat.values[without]
                    score += weights[chain, flat.feature[i]] * gain
                new = uniform * (1.0 + math.exp(-score)) < 1.0
                if new != present[chain, pair]:
                    present[chain, pair] = new
                    changed += 1
                    for k in range(flat.pair_ptr[pair], flat.pair_ptr[pair + 1]):
                        i = flat.by_pair[k]
                        before = flat.values[flat.table[i] + state[chain, i]]
                        state[chain, i] ^= flat.bit[k]
                        after = flat.values[flat.table[i] + state[chain, i]]
                        totals[chain, flat.feature[i]] += after - before
            if sample >= 0:
                for f in range(totals.shape[1]):
                    trace[chain, sample, f] = totals[chain, f]
                if kept.shape[1]:
                    for pair in range(present.shape[1]):
                        kept[chain, sample, pair] = present[chain, pair]
        random[chain, 0], random[chain, 1] = s0, s1
        flips[chain] = changed


CHUNKS = 64
"""Parts of a list of networks, each counted on its own thread."""


@compiled
def count_masks(masks: Array, begin: Array, flat: FlatFeatures, out: Array) -> None:
    """Count the features of networks given as bits over the pairs, each from the one before by the pairs that differ.

    `begin` has the features of the network without edges.
    """
    for chunk in prange(CHUNKS):
        state = np.zeros(flat.feature.size, dtype=np.int32)
        total = begin.copy()
        before = np.int64(0)
        for m in range(masks.size * chunk // CHUNKS, masks.size * (chunk + 1) // CHUNKS):
            change = masks[m] ^ before
            before = masks[m]
            pair = 0
            while change:
                if change & 1:
                    for k in range(flat.pair_ptr[pair], flat.pair_ptr[pair + 1]):
                        i = flat.by_pair[k]
                        old = flat.values[flat.table[i] + state[i]]
                        state[i] ^= flat.bit[k]
                        total[flat.feature[i]] += flat.values[flat.table[i] + state[i]] - old
                change >>= 1
                pair += 1
            for f in range(total.size):
                out[m, f] = total[f]
