"""All tables of a field end to end, in double precision, each scaled to a maximum of 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.shapes import Array, Tensor

__all__ = ["FlatTables", "flat_tables"]


@dataclass(frozen=True, eq=False)
class FlatTables:
    """Tables as flat logarithms, and where the table of each term (every variable, then every factor) lies.

    Parameters
    ----------
    logs
        Scaled logarithms of all tables.
    top, least
        Of each term what its table was scaled by, and the logarithm of its least positive entry after that.
    has_zero
        Whether its table holds a zero.
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
    has_zero: Array
    begin: Array
    marginal_begin: Array
    port_ptr: Array
    port_variable: Array
    port_stride: Array
    num_marginals: int


def flat_tables(field: FactorGraph) -> FlatTables:
    """Lay out the tables of a field; a factor that counts k times has its logarithms multiplied by k."""
    logs, top, least, zero = _unary(field)
    count = field.num_variables
    begin = [field.state_ptr[:-1].cpu().numpy()]
    marginal = list(begin)
    arity, variables, strides = [np.ones(count, np.int64)], [np.arange(count)], [np.ones(count, np.int64)]
    tables = outputs = len(logs[0])
    for group in field.groups:
        size, factors = math.prod(group.states), group.num_factors
        flat = group.log_tables.detach().double().cpu().reshape(-1, size)
        row = np.arange(factors) if group.table is None else group.table.cpu().numpy()
        if not bool((group.count == 1).all()):
            flat = flat[torch.from_numpy(row)] * group.count.double().cpu()[:, None]
            row = np.arange(factors)
        highest = _finite(flat.amax(1))
        scaled = flat - highest[:, None]
        lowest = scaled.amin(1)
        holds_zero = (lowest == -math.inf).numpy()
        if holds_zero.any():
            lowest = _finite(scaled).amin(1)
        logs.append(scaled.reshape(-1).numpy())
        top.append(highest.numpy()[row])
        least.append(lowest.numpy()[row])
        zero.append(holds_zero[row])
        begin.append(tables + row * size)
        marginal.append(outputs + np.arange(factors) * size)
        arity.append(np.full(factors, group.arity))
        variables.append(group.scopes.cpu().numpy().reshape(-1))
        steps = [math.prod(group.states[port + 1 :]) for port in range(group.arity)]
        strides.append(np.tile(np.array(steps, np.int64), factors))
        tables, outputs = tables + len(logs[-1]), outputs + factors * size
    return FlatTables(
        np.concatenate(logs),
        np.concatenate(top),
        np.concatenate(least),
        np.concatenate(zero),
        np.concatenate(begin),
        np.concatenate(marginal),
        np.concatenate([[0], np.cumsum(np.concatenate(arity))]).astype(np.int64),
        np.concatenate(variables),
        np.concatenate(strides),
        outputs,
    )


def _unary(field: FactorGraph) -> tuple[list[Array], list[Array], list[Array], list[Array]]:
    unary, owner = field.log_unary.detach().double().cpu(), field.state_variable.cpu()
    empty = torch.full((field.num_variables,), -math.inf, dtype=torch.float64)
    top = _finite(empty.scatter_reduce(0, owner, unary, "amax"))
    scaled = unary - top[owner]
    least = torch.zeros_like(empty).scatter_reduce(0, owner, _finite(scaled), "amin")
    zero = torch.bincount(owner[scaled == -math.inf], minlength=field.num_variables) > 0
    return [scaled.numpy()], [top.numpy()], [least.numpy()], [zero.numpy()]


def _finite(values: Tensor) -> Tensor:
    return torch.where(values == -math.inf, torch.zeros_like(values), values)
