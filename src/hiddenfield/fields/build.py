"""Build a factor graph from a list of scopes and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.shapes import Array, Float, Int, Tensor

# NumPy and torch have at most 64 axes, and algorithms need a few for themselves.
MOST_PORTS = 56


def from_factors(
    scopes: Sequence[Sequence[int]] | Int[Array, "factors arity"],
    log_tables: Sequence[Any] | Array | Tensor,
    cardinalities: Sequence[int] | Int[Array, " variables"] | None = None,
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

    Returns
    -------
    FactorGraph
        One graph; a factor over variables of :math:`k_1, \dots, k_r` states has a table of that shape.

    Notes
    -----
    Linear in the entries of the tables, those that are shared counted once.

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
    refuse_transforms([each for each in log_tables if isinstance(each, torch.Tensor)])
    # A list keeps the rows of an array alive, which are told apart by their identity.
    rows = scopes.tolist() if isinstance(scopes, np.ndarray) else list(scopes)
    stacks = _stack_tables(rows, list(log_tables), dtype)
    device = stacks[0][1].log_tables.device if stacks else torch.device("cpu")
    sizes = _cardinalities(stacks, cardinalities)
    count = torch.ones(len(sizes), dtype=dtype)
    if counts is not None:
        count = _positive(counts, len(sizes), "variable", dtype)
    factor_count = torch.ones(len(scopes), dtype=dtype)
    if factor_counts is not None:
        factor_count = _positive(factor_counts, len(scopes), "factor", dtype)
    constant = torch.zeros(1, dtype=dtype, device=device)
    groups = []
    for factors, group in stacks:
        _check_scopes(factors, group, sizes, count.numpy())
        weighted = replace(group, count=factor_count[factors].to(device))
        if group.arity:
            groups.append(weighted)
        else:
            constant = constant + (weighted.count * group.expanded()).sum()
    names = _check_names(variable_names, state_names, sizes.tolist())
    count = count.to(device)
    bounds = torch.tensor([0, len(sizes)], device=device)
    cards = torch.from_numpy(sizes).to(device)
    return from_groups(cards, groups, bounds, count, constant, *names)


def refuse_transforms(potentials: Sequence[Tensor]) -> None:
    """Refuse potentials that `torch.func` is tracing: its tensors hold no numbers to compute with."""
    if any(torch._C._functorch.is_functorch_wrapped_tensor(each) for each in potentials):
        raise InputError(
            "torch.func.grad, vmap and their kin do not reach through inference: use torch.autograd.grad, or "
            "torch.autograd.functional.hessian, on potentials that require gradients, and a batch of fields for vmap"
        )


def from_groups(
    cardinalities: Int[Tensor, " variables"],
    groups: Sequence[FactorGroup],
    variable_ptr: Int[Tensor, " graph_bounds"],
    counts: Float[Tensor, " variables"],
    log_constant: Float[Tensor, " graphs"],
    *names: Any,
) -> FactorGraph:
    """Make a field of groups, of which those of one port become part of `log_unary`; nothing is checked."""
    start = torch.cat([cardinalities.new_zeros(1), cardinalities.cumsum(0)])
    unary = log_constant.new_zeros(int(start[-1]))
    for group in groups:
        if group.arity == 1:
            place = start[group.scopes] + torch.arange(group.log_tables.shape[1], device=start.device)
            tables = group.log_tables if group.table is None else group.log_tables[group.table]
            each = tables * (group.count / counts[group.scopes[:, 0]])[:, None]
            unary = unary.index_add(0, place.reshape(-1), each.reshape(-1))
    kept = tuple(group for group in groups if group.arity > 1)
    return FactorGraph(cardinalities, unary, kept, variable_ptr, counts, log_constant, *names)


def concatenate_fields(fields: Sequence[FactorGraph]) -> FactorGraph:
    """Join fields end to end into one batch: a disjoint union whose results come graph by graph.

    The variables of each field follow those of the one before, and so do its graphs: a batch may be joined again.
    The first groups of a shape of all fields are merged, then the second ones, and so on: copies of one field keep its
    groups, on which `Wiring.interleave` and `separate` rely. Tables are copied, in linear time. Names are kept where
    every field has them.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> from hiddenfield.inference import log_partition
    >>> batch = concatenate_fields([ising_grid(2, 2), ising_grid(3, 3)])
    >>> batch.variable_ptr, log_partition(batch).shape
    (tensor([ 0,  4, 13]), torch.Size([2]))
    """
    if not fields:
        raise InputError("concatenate at least one field")
    first = fields[0]
    offsets = np.concatenate([[0], np.cumsum([field.num_variables for field in fields])])
    merged: dict[tuple[int, tuple[int, ...]], list[tuple[int, FactorGroup]]] = {}
    for offset, field in zip(offsets.tolist(), fields, strict=False):
        earlier: Counter[tuple[int, ...]] = Counter()
        for group in field.groups:
            merged.setdefault((earlier[group.states], group.states), []).append((offset, group))
            earlier[group.states] += 1
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


def _cardinalities(
    stacks: Sequence[tuple[list[int], FactorGroup]], given: Sequence[int] | Int[Array, " variables"] | None
) -> Int[Array, " variables"]:
    """Return the number of states of each variable, as given or else as the tables have it."""
    if given is not None:
        sizes = np.array([int(size) for size in given], dtype=np.int64)
        if (sizes < 1).any():
            variable = int(np.argmax(sizes < 1))
            raise InputError(f"variable {variable} must have at least one state, got {sizes[variable]}")
        return sizes
    scopes = [group.scopes.numpy(force=True) for _, group in stacks]
    most = max((int(scope.max(initial=-1)) for scope in scopes), default=-1)
    sizes = np.zeros(most + 1, dtype=np.int64)
    for scope, (_, group) in zip(scopes, stacks, strict=True):
        for port, states in enumerate(group.states):
            sizes[scope[scope[:, port] >= 0, port]] = states
    if (sizes == 0).any():
        raise InputError(
            f"variable {int(np.argmin(sizes))} is in no scope; say how many states it has with cardinalities="
        )
    return sizes


def _check_scopes(
    factors: list[int], group: FactorGroup, sizes: Int[Array, " variables"], count: Array
) -> None:
    """Refuse a variable that is not there, a table of another shape, and a repeated variable that has no count."""
    scopes = group.scopes.numpy(force=True)
    outside = (scopes < 0) | (scopes >= len(sizes))
    if outside.any():
        row, port = np.argwhere(outside)[0]
        raise InputError(
            f"factor {factors[row]} names variable {scopes[row, port]}, "
            f"but the variables are 0 to {len(sizes) - 1}"
        )
    wrong = (sizes[scopes] != np.array(group.states, dtype=np.int64)).any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        scope = scopes[row].tolist()
        raise InputError(
            f"the table of factor {factors[row]} over {scope} must have shape "
            f"{tuple(sizes[scope].tolist())}, got {group.states}"
        )
    for port in range(1, group.arity):
        repeats = (scopes == scopes[:, port : port + 1]).sum(axis=1)
        bad = (repeats > 1) & (repeats > count[scopes[:, port]] + 0.5)
        if bad.any():
            row = int(np.argmax(bad))
            raise InputError(
                f"factor {factors[row]} names variable {scopes[row, port]} twice; "
                "merge the axes, or give the variable a count"
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


# -- tables sorted by shape ------------------------------------------------------------------------------


def _stack_tables(
    scopes: Sequence[Sequence[int]], log_tables: Sequence[Any], dtype: torch.dtype
) -> list[tuple[list[int], FactorGroup]]:
    """Sort factors by shape, in the order in which shapes first appear; return the numbers of each shape and its group.

    Python touches every factor once and no number of a table; gradients flow to tables that are tensors.
    """
    arrays = _distinct(log_tables)
    grouped: dict[tuple[int, ...], list[int]] = {}
    for factor, (scope, table) in enumerate(zip(scopes, log_tables, strict=True)):
        shape = tuple(arrays[id(table)].shape)
        if len(scope) != len(shape):
            raise InputError(
                f"the table of factor {factor} over {list(scope)} must have {len(scope)} axes, got shape {shape}"
            )
        if len(shape) > MOST_PORTS:
            raise InputError(f"factor {factor} has {len(shape)} variables; at most {MOST_PORTS} are possible")
        grouped.setdefault(shape, []).append(factor)
    device = next((table.device for table in arrays.values() if isinstance(table, Tensor)), None)
    stacks = []
    for shape, factors in grouped.items():
        places: dict[int, int] = {}
        index = [places.setdefault(id(log_tables[factor]), len(places)) for factor in factors]
        tables = _stack([arrays[key] for key in places], dtype, device)
        _check_numbers(tables, factors, index)
        try:
            ports = np.array([scopes[factor] for factor in factors]).reshape(len(factors), len(shape))
        except ValueError as error:
            raise InputError(f"a scope must list the numbers of variables: {error}") from None
        if ports.size and ports.dtype.kind not in "iu":
            raise InputError(f"a scope must list the numbers of variables, got {ports.flat[0]!r}")
        own = None if len(tables) == len(factors) else torch.tensor(index, device=tables.device)
        variables = torch.from_numpy(ports.astype(np.int64)).to(tables.device)
        stacks.append((factors, FactorGroup(variables, tables, own, tables.new_ones(len(factors)))))
    return stacks


def _distinct(log_tables: Sequence[Any]) -> dict[int, Array | Tensor]:
    """Convert each object once, so that factors that share a table go on sharing it."""
    made: dict[int, Array | Tensor] = {}
    for factor, table in enumerate(log_tables):
        if id(table) in made:
            continue
        if isinstance(table, Tensor):
            made[id(table)] = table
            continue
        try:
            array = np.asarray(table)
        except ValueError as error:
            raise InputError(f"the table of factor {factor} is not an array of numbers: {error}") from None
        if array.dtype.kind not in "fiub":
            raise InputError(f"the table of factor {factor} is not an array of numbers but of {array.dtype}")
        made[id(table)] = array
    return made


def _stack(tables: list[Array | Tensor], dtype: torch.dtype, device: torch.device | None) -> Tensor:
    if any(isinstance(table, Tensor) for table in tables):
        return torch.stack([torch.as_tensor(table).to(device, dtype) for table in tables])
    stacked: Tensor = torch.from_numpy(np.stack(tables).astype(np.float64, copy=False)).to(device, dtype)
    return stacked


def _check_numbers(tables: Tensor, factors: list[int], index: list[int]) -> None:
    values = tables.detach()
    bad = values.isnan() | (values == float("inf"))
    if bool(bad.any()):
        row, *place = bad.nonzero()[0].tolist()
        raise InputError(
            f"the log table of factor {factors[index.index(row)]} holds {values[(row, *place)].item()} at "
            f"{tuple(place)}; log potentials are numbers or -inf (pass logarithms, not probabilities)"
        )
