"""A field as flat NumPy arrays in double precision: what ragged compiled loops and exact inference read."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.ops import counting_sort, segment_sum
from hiddenfield.ops.compile import as_array
from hiddenfield.ops.equal_rows import ranges
from hiddenfield.shapes import Array


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

    def own_tables(self) -> Array | None:
        """Return each factor's table times its count, one after another; None where all counts are 1."""
        if (self.factor_count == 1).all():
            return None
        entry, factor = ranges(self.table_start, self.table_size)
        return self.tables[entry] * self.factor_count[factor]


def flatten(field: FactorGraph) -> FlatField:
    """Lay a field out for compiled loops, on the CPU and in double precision. Linear in the size of all tables."""
    wiring, groups = field.wiring, field.groups
    order, scope_ptr = (as_array(part) for part in wiring.by_factor)
    scope, place_factor = as_array(wiring.port_variable)[order], as_array(wiring.port_factor)[order]
    strides = [np.cumprod((1, *group.states[:0:-1]))[::-1] for group in groups]
    sizes = np.array([math.prod(group.states) for group in groups], np.int64)
    count, counts = _joined([_double(group.count) for group in groups]), _double(field.counts)
    place, port_ptr = map(as_array, counting_sort(torch.from_numpy(scope), field.num_variables))
    return FlatField(
        as_array(field.state_ptr),
        as_array(field.variable_ptr),
        _double(field.log_unary),
        counts,
        scope_ptr,
        scope,
        _joined([np.tile(each, g.num_factors) for each, g in zip(strides, groups, strict=True)], np.int64),
        as_array(field.table_begin),
        np.repeat(sizes, [group.num_factors for group in groups]),
        _joined([_double(group.log_tables).reshape(-1) for group in groups]),
        count,
        port_ptr,
        place,
        count[place_factor[place]] / counts[scope[place]],
        place_factor,
    )


def free_variables(field: FactorGraph) -> Array:
    """Return which variables have more than one possible state."""
    possible = segment_sum((field.log_unary > -math.inf).to(field.dtype), field.state_ptr)
    return (possible > 1).cpu().numpy()


class FlatTables(NamedTuple):
    """Tables as flat logarithms, each scaled to a maximum of 1, of all terms: every variable, then every factor.

    Parameters
    ----------
    logs
        Scaled logarithms of all tables.
    top, least
        Of each term what its table was scaled by, and the logarithm of its least positive entry after that.
    begin
        Where its table begins.
    marginal_begin
        Where its marginal begins: as `begin`, but factors that share a table have marginals of their own.
    port_ptr, port_variable, port_stride
        Its variables and their strides.
    num_marginals
        Numbers in all marginals.
    """

    logs: Array
    top: Array
    least: Array
    begin: Array
    marginal_begin: Array
    port_ptr: Array
    port_variable: Array
    port_stride: Array
    num_marginals: int


def flat_tables(field: FactorGraph) -> FlatTables:
    """Lay out the tables of a field; a factor that counts k times has its logarithms multiplied by k."""
    flat = flatten(field)
    tables, start, size = flat.tables, flat.table_start, flat.table_size
    lengths = np.repeat(
        np.array([math.prod(group.states) for group in field.groups], np.int64),
        [group.log_tables.shape[0] for group in field.groups],
    )
    own = np.cumsum(size) - size
    counted = flat.own_tables()
    if counted is not None:
        tables, start, lengths = counted, own, size
    logs = np.concatenate([flat.log_unary, tables])
    ptr = np.concatenate(
        [flat.state_ptr[:-1], len(flat.log_unary) + np.cumsum(lengths) - lengths, [len(logs)]]
    )
    logs, top, least = scaled(logs, ptr)
    states, variables = len(flat.log_unary), np.arange(field.num_variables)
    begin = np.concatenate([flat.state_ptr[:-1], states + start])
    number = np.searchsorted(ptr, begin)
    return FlatTables(
        logs,
        top[number],
        least[number],
        begin,
        np.concatenate([flat.state_ptr[:-1], states + own]),
        np.concatenate([variables, field.num_variables + flat.scope_ptr]),
        np.concatenate([variables, flat.scope]),
        np.concatenate([np.ones_like(variables), flat.stride]),
        states + int(size.sum()),
    )


def scaled(logs: Array, ptr: Array) -> tuple[Array, Array, Array]:
    """Return logarithms less the largest of their segment, these, and the least of each segment but for -inf.

    Segments of -inf alone stay as they are; none is empty.
    """
    if not len(logs):
        return logs, logs[:0], logs[:0]
    top = np.maximum.reduceat(logs, ptr[:-1])
    top = np.where(top == -np.inf, np.zeros_like(top), top)
    relative = logs - np.repeat(top, np.diff(ptr))
    least = np.where(relative == -np.inf, np.zeros_like(relative), relative)
    return relative, top, np.minimum.reduceat(least, ptr[:-1])


def scaled_tables(tables: Array, begin: Array) -> tuple[Array, Array]:
    """Return tables end to end, each scaled to a maximum of 1, and of each factor the least entry, all as logarithms.

    Factors whose tables begin at the same place share one.
    """
    starts = np.sort(np.append(begin, 0))
    bounds = starts[np.append(True, np.diff(starts) > 0)]
    relative, _, least = scaled(tables, np.append(bounds, len(tables)))
    return relative, least[np.searchsorted(bounds, begin)]


def _joined(parts: list[Array], dtype: type = np.float64) -> Array:
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype)


def _double(tensor: torch.Tensor) -> Array:
    return as_array(tensor.detach().to("cpu", torch.float64))
