"""The oracle: every assignment enumerated, in NumPy, sharing no code with the package but the field's own arrays."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from hiddenfield.fields import FactorGraph

__all__ = ["Enumerated", "enumerate_field"]


@dataclass
class Enumerated:
    """All assignments of one graph, their log values, and what follows from them."""

    assignments: np.ndarray
    log_values: np.ndarray
    log_partition: float
    marginals: list[np.ndarray]
    factor_marginals: list[np.ndarray]
    best: float


def enumerate_field(field: FactorGraph) -> Enumerated:
    """Enumerate a field of one graph with variable counts of 1; a factor of count k counts k times."""
    cards = field.cardinalities.tolist()
    start = np.concatenate([[0], np.cumsum(cards)]).astype(int)
    unary = field.log_unary.detach().double().numpy()
    states = np.array(list(itertools.product(*(range(card) for card in cards))), dtype=int).reshape(
        -1, len(cards)
    )
    values = np.full(len(states), float(field.log_constant.sum()))
    for variable in range(len(cards)):
        values = values + unary[start[variable] + states[:, variable]]
    for group in field.groups:
        tables = group.log_tables.detach().double().numpy()
        index = range(group.num_factors) if group.table is None else group.table.tolist()
        for scope, table, count in zip(group.scopes.tolist(), index, group.count.tolist(), strict=True):
            values = values + count * tables[table][tuple(states[:, v] for v in scope)]
    top = values.max()
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.exp(values - top) if np.isfinite(top) else np.zeros_like(values)
        log_partition = float(top + np.log(weight.sum())) if np.isfinite(top) else -np.inf
    probability = weight / max(weight.sum(), 1e-300)
    marginals = [
        np.bincount(states[:, v], weights=probability, minlength=card) for v, card in enumerate(cards)
    ]
    factor_marginals = []
    for group in field.groups:
        out = np.zeros((group.num_factors, *group.states))
        for factor, scope in enumerate(group.scopes.tolist()):
            np.add.at(out[factor], tuple(states[:, v] for v in scope), probability)
        factor_marginals.append(out)
    return Enumerated(states, values, log_partition, marginals, factor_marginals, float(top))
