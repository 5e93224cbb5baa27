"""A field as a list of scopes and log tables, as files want it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.shapes import Array, Float

__all__ = ["cut", "ground_tables", "refuse_what_files_cannot_hold"]


def cut(numbers: Float[Array, " numbers"], shapes: Sequence[Sequence[int]]) -> list[Array]:
    """Cut numbers into tables of the given shapes, in C order."""
    ends = np.cumsum([0, *(math.prod(shape) for shape in shapes)]).tolist()
    return [numbers[ends[k] : ends[k + 1]].reshape(shape) for k, shape in enumerate(shapes)]


def refuse_what_files_cannot_hold(field: FactorGraph) -> None:
    """Refuse batches and variables that stand for several."""
    if field.num_graphs != 1:
        raise InputError(f"a file holds one graph, the field has {field.num_graphs}; write them one by one")
    if not bool((field.counts == 1).all()):
        raise InputError("a file holds ground variables, but some variables of the field stand for several")


def ground_tables(field: FactorGraph) -> list[tuple[list[int], Array]]:
    """Return scopes and log tables whose product is the field: groups in order, single variables, the constant.

    Only what is not zero everywhere is listed of single variables and the constant. A factor of count k is its table
    times k.
    """
    refuse_what_files_cannot_hold(field)
    field = field.detach().to("cpu", torch.float64)
    factors: list[tuple[list[int], Array]] = []
    for group in field.groups:
        tables = group.expanded().numpy()
        rows = range(group.num_factors) if len(tables) == group.num_factors else [0] * group.num_factors
        counts, scopes = group.count.tolist(), group.scopes.tolist()
        for scope, row, count in zip(scopes, rows, counts, strict=True):
            factors.append((scope, tables[row] if count == 1 else count * tables[row]))
    bounds, unary = field.state_ptr.tolist(), field.log_unary.numpy()
    for variable in range(field.num_variables):
        table = unary[bounds[variable] : bounds[variable + 1]]
        if table.any():
            factors.append(([variable], table))
    constant = np.array(field.log_constant[0].item())
    if constant != 0:
        factors.append(([], constant))
    return factors
