"""A field as flat NumPy arrays, factor after factor and variable after variable: what ragged compiled loops read."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.ops.compile import as_array
from hiddenfield.shapes import Array

__all__ = ["FlatField", "flatten"]


class FlatField(NamedTuple):
    """The arrays of a field. Entry e of factor f's table is ``tables[table_start[f] + e]``, rows first.

    Parameters
    ----------
    state_ptr, variable_ptr
        Bounds of every variable's states, and of every graph's variables.
    log_unary, counts
        Log potentials of the packed states; ground variables that each variable stands for.
    scope_ptr, scope, stride
        The variables of factor f are ``scope[scope_ptr[f]:scope_ptr[f + 1]]``; a step along one of them is `stride`
        entries of the table.
    table_start, table_size, tables, factor_count
        Where each factor's table begins and how long it is, all tables, and ground factors that each stands for.
    port_ptr, port_place, port_weight
        The places in `scope` where each variable occurs, variable after variable, and the multiplicity there.
    place_factor
        The factor of each place in `scope`.
    """

    state_ptr: Array
    variable_ptr: Array
    log_unary: Array
    counts: Array
    scope_ptr: Array
    scope: Array
    stride: Array
    table_start: Array
    table_size: Array
    tables: Array
    factor_count: Array
    port_ptr: Array
    port_place: Array
    port_weight: Array
    place_factor: Array


def flatten(field: FactorGraph) -> FlatField:
    """Lay a field out for compiled loops, on the CPU and in double precision. Linear in the size of all tables."""
    wiring = field.wiring
    order, scope_ptr = (as_array(part) for part in wiring.by_factor)
    scope, place_factor = as_array(wiring.port_variable)[order], as_array(wiring.port_factor)[order]
    stride, size = [], []
    for group in field.groups:
        steps = [math.prod(group.states[port + 1 :]) for port in range(group.arity)]
        stride.append(np.tile(np.array(steps, np.int64), group.num_factors))
        size.append(np.full(group.num_factors, math.prod(group.states)))
    count, counts = (
        _joined([_double(group.count) for group in field.groups], np.float64),
        _double(field.counts),
    )
    place = np.argsort(scope, kind="stable")
    return FlatField(
        as_array(field.state_ptr),
        as_array(field.variable_ptr),
        _double(field.log_unary),
        counts,
        scope_ptr,
        scope,
        _joined(stride, np.int64),
        as_array(field.table_begin),
        _joined(size, np.int64),
        _joined([_double(group.log_tables).reshape(-1) for group in field.groups], np.float64),
        count,
        as_array(wiring.by_variable[1]),
        place,
        count[place_factor[place]] / counts[scope[place]],
        place_factor,
    )


def _joined(parts: list[Array], dtype: type) -> Array:
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype)


def _double(tensor: torch.Tensor) -> Array:
    return as_array(tensor.detach().to("cpu", torch.float64))
