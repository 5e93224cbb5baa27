"""Factors sorted by the shape of their tables, each shape stacked into one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Float, Int, Tensor

__all__ = ["MOST_PORTS", "TableStack", "stack_tables"]

# NumPy and torch have at most 64 axes, and algorithms need a few for themselves.
MOST_PORTS = 56


@dataclass(frozen=True, eq=False)
class TableStack:
    """The factors of one shape.

    Parameters
    ----------
    factors
        Their numbers in the list that they came in.
    scopes
        Their variables, port by port.
    tables
        The distinct log tables; factors that were given the same object share one.
    index
        The table of each factor.
    """

    factors: Int[Array, " factors"]
    scopes: Int[Array, "factors arity"]
    tables: Float[Tensor, " tables *states"]
    index: Int[Tensor, " factors"]

    @property
    def arity(self) -> int:
        """Number of ports."""
        return self.scopes.shape[1]


def stack_tables(
    scopes: Sequence[Sequence[int]], log_tables: Sequence[Any], dtype: torch.dtype
) -> list[TableStack]:
    """Sort factors by shape, in the order in which shapes first appear, and stack their tables.

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
        stacks.append(
            TableStack(
                np.array(factors), ports.astype(np.int64), tables, torch.tensor(index, device=tables.device)
            )
        )
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
