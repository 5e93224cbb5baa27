"""Counts of terms that no template holds, and how they change with one pair."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hiddenfield.fields.relational import Feature, RelationalScheme, Term
from hiddenfield.models.relational.observations import Network, covariate_of, pair_attribute
from hiddenfield.shapes import Array, Float


def check_terms(scheme: RelationalScheme) -> None:
    """Raise an `InputError` where a term is not for networks of the scheme: directed, or two-mode."""
    terms = [feature.term for feature in scheme.features.values() if feature.term is not None]
    if terms:
        kind = pair_attribute(scheme).type
        for term in terms:
            term.check_pairs(two_mode=kind.two_mode, ordered=not kind.unordered)


def _term(feature: Feature) -> Term:
    assert feature.term is not None
    return feature.term


def count_term(feature: Feature, network: Network) -> float:
    """Count a term in a complete network. Cost: a product of adjacency matrices for shared partners."""
    term, rows = _term(feature), next(iter(network.pairs.values()))
    if term.independent:
        return float(covariate_of(network, feature)[rows[:, 0], rows[:, 1]].sum())
    if term.mode is not None:
        degree = np.bincount(rows[:, term.mode], minlength=network.shape[term.mode])
        return float(term.weighted(network.shape[1 - term.mode])[degree].sum())
    size = network.shape[0]
    if term.kind == "gwdegree":
        return float(term.weighted(size)[np.bincount(rows.reshape(-1), minlength=size)].sum())
    near = network.adjacency().astype(np.float64)
    return float(term.weighted(size)[(near @ near).astype(np.int64)[rows[:, 0], rows[:, 1]]].sum())


def change_term(feature: Feature, network: Network, pairs: Array) -> Float[Array, " pairs"]:
    r"""Return for each pair how much a term grows when the pair goes from 0 to 1.

    With :math:`r = 1 - e^{-\alpha}` and all counts without the pair: :math:`r^{d_i} + r^{d_j}` for gwdegree, and
    :math:`e^\alpha (1 - r^{p_{ij}}) + \sum_k (r^{p_{ik}} + r^{p_{jk}})` over the common neighbours k for gwesp.
    """
    term, (first, second) = _term(feature), (pairs[:, 0], pairs[:, 1])
    if term.independent:
        return covariate_of(network, feature)[first, second]
    near = network.adjacency()
    size, present = max(near.shape), near[first, second]
    powers = term.powers(size)
    if term.mode is not None:
        return np.asarray(powers[near.sum(1 - term.mode)[pairs[:, term.mode]] - present])
    if term.kind == "gwdegree":
        degree = near.sum(1)
        return np.asarray(powers[degree[first] - present] + powers[degree[second] - present])
    edges = near.astype(np.float64)
    shared = (edges @ edges).astype(np.int64)
    change = term.weighted(size)[shared[first, second]]
    for there in (
        False,
        True,
    ):  # where the pair is an edge, each is a shared partner of the other's neighbours
        further = (edges * powers[np.maximum(shared - there, 0)]) @ edges
        further = further + further.T
        change = change + np.where(present == there, further[first, second], 0.0)
    return change


def count_term_of_masks(
    feature: Feature, present: Array, where: Array, sizes: Mapping[str, int]
) -> Float[Array, " networks"]:
    """Count a term that joins pairs in many small networks at once, each a column of its pairs, which `where` lists."""
    term = _term(feature)
    weighted, out = term.weighted(sum(sizes.values())), np.zeros(present.shape[1])
    if term.kind != "gwesp":  # of degrees, of all vertices or of one type
        ends = where if term.mode is None else where[:, [term.mode]]
        for vertex in range(int(ends.max(initial=-1)) + 1):
            out += weighted[present[(ends == vertex).any(1)].sum(0)]
        return out
    place = {tuple(pair): i for i, pair in enumerate(where.tolist())}
    size = next(iter(sizes.values()))
    for (i, j), pair in place.items():
        shared = np.zeros(present.shape[1], dtype=np.int64)
        for k in set(range(size)) - {i, j}:
            shared += (
                present[place[min(i, k), max(i, k)]].astype(np.int64) * present[place[min(j, k), max(j, k)]]
            )
        out += present[pair] * weighted[shared]
    return out
