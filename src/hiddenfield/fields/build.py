"""Build a factor graph from a list of scopes and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.shapes import Tensor

__all__ = ["concatenate_fields", "from_factors"]


def from_factors(
    scopes: Sequence[Sequence[int]],
    log_tables: Sequence[Any],
    cardinalities: Sequence[int] | None = None,
    *,
    counts: Sequence[float] | None = None,
    factor_counts: Sequence[float] | None = None,
    dtype: torch.dtype = torch.float64,
    variable_names: Sequence[str] = (),
    state_names: Sequence[Sequence[str]] = (),
) -> FactorGraph:
    r"""Build :math:`p(x) \propto \prod_f \exp(\text{table}_f(x_{C_f}))` from scopes and log tables.

    Factors of one variable become part of `log_unary`, factors without variables of `log_constant`; the rest is
    grouped by shape, in the order of first appearance. Tables that are the same object are stored once in a group.

    Parameters
    ----------
    scopes
        The variables of each factor, in the order of its table's axes.
    log_tables
        Log potentials: arrays, tensors (gradients flow to them) or nested lists; -inf is a hard zero.
    cardinalities
        Number of states of each variable; read off the tables where it is None.
    counts, factor_counts
        How many ground variables, and ground factors, each one stands for; 1 by default. Only a variable that stands
        for several may be named by several ports of one factor.
    dtype
        Floating type of the field.
    variable_names, state_names
        Names, where there are some.

    Examples
    --------
    The sum-product example of a chain of three: two states each, neighbours like to agree.

    >>> import numpy as np
    >>> agree = np.log([[2.0, 1.0], [1.0, 2.0]])
    >>> field = from_factors([[0, 1], [1, 2], [0]], [agree, agree, np.log([0.9, 0.1])])
    >>> field.groups[0].log_tables.shape, field.log_unary[:2].exp()
    (torch.Size([1, 2, 2]), tensor([0.9000, 0.1000], dtype=torch.float64))
    """
    if len(scopes) != len(log_tables):
        raise InputError(
            f"one log table for each scope, got {len(scopes)} scopes and {len(log_tables)} tables"
        )
    tables = _unique_tables(log_tables, dtype)
    sizes = _cardinalities(scopes, tables, cardinalities)
    factor_count = torch.ones(len(scopes), dtype=dtype)
    if factor_counts is not None:
        factor_count = _positive(factor_counts, len(scopes), "factor", dtype)
    count = torch.ones(len(sizes), dtype=dtype)
    if counts is not None:
        count = _positive(counts, len(sizes), "variable", dtype)
    for factor, scope in enumerate(scopes):
        _check_scope(factor, scope, tables[factor], sizes, count)
    names = _check_names(variable_names, state_names, sizes)
    cards = torch.tensor(sizes, dtype=torch.int64)
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    unary = torch.zeros(int(start[-1]), dtype=dtype)
    constant = torch.zeros(1, dtype=dtype)
    grouped: dict[tuple[int, ...], list[int]] = {}
    for factor, scope in enumerate(scopes):
        weighted = factor_count[factor] * tables[factor]
        if len(scope) == 0:
            constant = constant + weighted.reshape(1)
        elif len(scope) == 1:
            place = torch.arange(start[scope[0]], start[scope[0] + 1])
            unary = unary.index_add(0, place, weighted / count[scope[0]])
        else:
            grouped.setdefault(tuple(tables[factor].shape), []).append(factor)
    groups = tuple(
        _group([scopes[f] for f in members], [tables[f] for f in members], factor_count[members])
        for members in grouped.values()
    )
    bounds = torch.tensor([0, len(sizes)])
    return FactorGraph(cards, unary, groups, bounds, count, constant, *names)


def concatenate_fields(fields: Sequence[FactorGraph]) -> FactorGraph:
    """Join fields end to end into one batch: a disjoint union whose results come graph by graph.

    Groups of one shape are merged. Names are kept where every field has them.
    """
    if not fields:
        raise InputError("concatenate at least one field")
    first = fields[0]
    offsets = np.concatenate([[0], np.cumsum([field.num_variables for field in fields])])
    merged: dict[tuple[int, ...], list[tuple[int, FactorGroup]]] = {}
    for offset, field in zip(offsets.tolist(), fields, strict=False):
        for group in field.groups:
            merged.setdefault(group.states, []).append((offset, group))
    ptrs = [fields[0].variable_ptr[:1]]
    ptrs += [field.variable_ptr[1:] + int(offset) for offset, field in zip(offsets, fields, strict=False)]
    named = all(field.variable_names for field in fields)
    stated = all(field.state_names for field in fields)
    return FactorGraph(
        torch.cat([field.cardinalities for field in fields]),
        torch.cat([field.log_unary for field in fields]),
        tuple(_merge(parts) for parts in merged.values()),
        torch.cat(ptrs),
        torch.cat([field.counts for field in fields]),
        torch.cat([field.log_constant for field in fields]).to(first.dtype),
        tuple(name for field in fields for name in field.variable_names) if named else (),
        tuple(names for field in fields for names in field.state_names) if stated else (),
    )


def _merge(parts: list[tuple[int, FactorGroup]]) -> FactorGroup:
    scopes = torch.cat([group.scopes + offset for offset, group in parts])
    tables = torch.cat([group.log_tables for _, group in parts])
    count = torch.cat([group.count for _, group in parts])
    if all(group.table is None for _, group in parts):
        return FactorGroup(scopes, tables, None, count)
    rows, index = 0, []
    for _, group in parts:
        own = torch.arange(group.num_factors, device=scopes.device) if group.table is None else group.table
        index.append(own + rows)
        rows += group.log_tables.shape[0]
    return FactorGroup(scopes, tables, torch.cat(index), count)


def _unique_tables(log_tables: Sequence[Any], dtype: torch.dtype) -> list[Tensor]:
    """Convert each object once, so that factors that share a table go on sharing it."""
    made: dict[int, Tensor] = {}
    for factor, table in enumerate(log_tables):
        if id(table) in made:
            continue
        try:
            tensor = torch.as_tensor(table).to(dtype)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"the table of factor {factor} is not an array of numbers: {error}") from None
        bad = tensor.detach().isnan() | (tensor.detach() == float("inf"))
        if bool(bad.any()):
            place = tuple(bad.nonzero()[0].tolist())
            raise InputError(
                f"the log table of factor {factor} holds {tensor.detach()[place].item()} at {place}; "
                "log potentials are numbers or -inf (pass logarithms, not probabilities)"
            )
        made[id(table)] = tensor
    return [made[id(table)] for table in log_tables]


def _cardinalities(
    scopes: Sequence[Sequence[int]], tables: Sequence[Tensor], given: Sequence[int] | None
) -> list[int]:
    if given is not None:
        sizes = [int(size) for size in given]
        for variable, size in enumerate(sizes):
            if size < 1:
                raise InputError(f"variable {variable} must have at least one state, got {size}")
        return sizes
    found: dict[int, int] = {}
    for scope, table in zip(scopes, tables, strict=True):
        for variable, size in zip(scope, table.shape, strict=False):
            found.setdefault(int(variable), int(size))
    missing = [variable for variable in range(max(found, default=-1) + 1) if variable not in found]
    if missing:
        raise InputError(
            f"variable {missing[0]} is in no scope; say how many states it has with cardinalities="
        )
    return [found[variable] for variable in range(len(found))]


def _check_scope(factor: int, scope: Sequence[int], table: Tensor, sizes: list[int], count: Tensor) -> None:
    for variable in scope:
        if not 0 <= variable < len(sizes):
            raise InputError(
                f"factor {factor} names variable {variable}, but the variables are 0 to {len(sizes) - 1}"
            )
        repeats = sum(other == variable for other in scope)
        if repeats > 1 and repeats > count[variable] + 0.5:
            raise InputError(
                f"factor {factor} names variable {variable} twice; merge the axes, or give the variable a count"
            )
    wanted = tuple(sizes[variable] for variable in scope)
    if tuple(table.shape) != wanted:
        raise InputError(
            f"the table of factor {factor} over {list(scope)} must have shape {wanted}, got {tuple(table.shape)}"
        )


def _check_names(
    variable_names: Sequence[str], state_names: Sequence[Sequence[str]], sizes: list[int]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    if variable_names and len(variable_names) != len(sizes):
        raise InputError(f"one name for each of the {len(sizes)} variables, got {len(variable_names)}")
    if state_names and [len(names) for names in state_names] != sizes:
        raise InputError("state_names must list the names of all states of each variable")
    return tuple(variable_names), tuple(tuple(names) for names in state_names)


def _positive(values: Sequence[float], length: int, kind: str, dtype: torch.dtype) -> Tensor:
    tensor = torch.as_tensor(values, dtype=dtype)
    if tensor.shape != (length,):
        raise InputError(f"one count for each of the {length} {kind}s, got shape {tuple(tensor.shape)}")
    if not bool(((tensor > 0) & tensor.isfinite()).all()):
        raise InputError(f"counts of {kind}s must be positive and finite")
    return tensor


def _group(scopes: list[Sequence[int]], tables: list[Tensor], count: Tensor) -> FactorGroup:
    places: dict[int, int] = {}
    index = [places.setdefault(id(table), len(places)) for table in tables]
    unique = list({id(table): table for table in tables}.values())
    scope = torch.tensor([list(scope) for scope in scopes], dtype=torch.int64)
    own = len(unique) == len(tables)
    return FactorGroup(scope, torch.stack(unique), None if own else torch.tensor(index), count)
