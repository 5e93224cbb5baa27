"""Features of many small networks, each a word whose bits are its pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hiddenfield.ops.compile import compiled, prange
from hiddenfield.shapes import Array

__all__ = ["FlatFeatures", "count_features", "every_graph", "flatten_features", "least_relabeling"]


class FlatFeatures(NamedTuple):
    """Ground features end to end: their pairs, the feature of each, where its values begin, and both by pair."""

    pairs: Array
    ptr: Array
    feature: Array
    table: Array
    values: Array
    by_pair: Array
    position: Array
    pair_ptr: Array


def flatten_features(features: Sequence[tuple[Array, Array]], num_pairs: int) -> FlatFeatures:
    """Lay the ground features of all kinds end to end, and list for each pair those that look at it."""
    arity = np.concatenate([np.full(len(scopes), scopes.shape[1]) for scopes, _ in features]).astype(np.int64)
    pairs = np.concatenate([scopes.reshape(-1) for scopes, _ in features]).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(values) for _, values in features])])
    counts = [len(scopes) for scopes, _ in features]
    ptr = np.concatenate([[0], np.cumsum(arity)]).astype(np.int64)
    order = np.argsort(pairs, kind="stable")
    owner = np.repeat(np.arange(len(arity)), arity)
    position = np.arange(len(pairs)) - ptr[owner]
    return FlatFeatures(
        pairs,
        ptr,
        np.repeat(np.arange(len(features)), counts),
        np.repeat(offsets[:-1], counts).astype(np.int64),
        np.concatenate([values for _, values in features]),
        owner[order],
        position[order],
        np.concatenate([[0], np.cumsum(np.bincount(pairs, minlength=num_pairs))]).astype(np.int64),
    )


def every_graph(features: Sequence[tuple[Array, Array]], num_pairs: int) -> tuple[Array, Array]:
    """Return the features and the number of edges of all networks of so many pairs."""
    flat = flatten_features(features, num_pairs)
    out = np.zeros((1 << num_pairs, len(features)))
    edges = np.zeros(1 << num_pairs)
    _every_graph(flat, num_pairs, out, edges)
    return out, edges


def count_features(features: Sequence[tuple[Array, Array]], masks: Array) -> tuple[Array, Array]:
    """Return the features and the number of edges of given networks."""
    flat = flatten_features(features, 0)
    out, edges = np.zeros((len(masks), len(features))), np.zeros(len(masks))
    _count_features(flat, masks, out, edges)
    return out, edges


def least_relabeling(masks: Array, moved: Array) -> Array:
    """Return the least word that a relabeling of the vertices gives: the same for isomorphic networks."""
    out = np.empty_like(masks)
    _least_relabeling(masks, moved, out)
    return out


@compiled
def _every_graph(flat: FlatFeatures, num_pairs: int, out: Array, edges: Array) -> None:
    state = np.zeros(flat.feature.size, np.int64)
    total = np.zeros(out.shape[1])
    for i in range(flat.feature.size):
        total[flat.feature[i]] += flat.values[flat.table[i]]
    present = np.zeros(max(num_pairs, 1), np.bool_)
    degree = 0
    out[0] = total
    for step in range(1, 1 << num_pairs):
        # The pair that changes in a Gray code is the lowest bit that is set in the step's number.
        pair = 0
        while (step >> pair) & 1 == 0:
            pair += 1
        present[pair] = not present[pair]
        degree += 1 if present[pair] else -1
        for k in range(flat.pair_ptr[pair], flat.pair_ptr[pair + 1]):
            i = flat.by_pair[k]
            before = flat.values[flat.table[i] + state[i]]
            state[i] ^= 1 << flat.position[k]
            total[flat.feature[i]] += flat.values[flat.table[i] + state[i]] - before
        for f in range(total.size):
            out[step, f] = total[f]
        edges[step] = degree


@compiled
def _count_features(flat: FlatFeatures, masks: Array, out: Array, edges: Array) -> None:
    for row in prange(masks.size):
        mask = masks[row]
        count = 0
        while mask:
            mask &= mask - 1
            count += 1
        edges[row] = count
        mask = masks[row]
        for i in range(flat.feature.size):
            state = 0
            for k in range(flat.ptr[i], flat.ptr[i + 1]):
                state |= ((mask >> flat.pairs[k]) & 1) << (k - flat.ptr[i])
            out[row, flat.feature[i]] += flat.values[flat.table[i] + state]


@compiled
def _least_relabeling(masks: Array, moved: Array, out: Array) -> None:
    num_pairs = moved.shape[1]
    for row in prange(masks.size):
        least = masks[row]
        for p in range(moved.shape[0]):
            word = 0
            for k in range(num_pairs - 1, -1, -1):
                word |= ((masks[row] >> moved[p, k]) & 1) << k
                if word > least:  # the higher bits are already larger
                    break
            if word < least:
                least = word
        out[row] = least
