"""Evidence as log weights over states: hard where a state was observed, soft where weights were."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.shapes import Float, Tensor

if TYPE_CHECKING:
    from hiddenfield.fields.factor_graph import FactorGraph


def log_evidence(field: FactorGraph, evidence: Mapping[Any, Any] | Tensor) -> Float[Tensor, " states"]:
    """Return packed log weights: 0 where nothing was observed, -inf for states that hard evidence excludes.

    See `FactorGraph.given` for what is accepted; a variable or state that is not there is an error.
    """
    total = field.log_unary.shape[0]
    if isinstance(evidence, Tensor):
        if evidence.shape != (total,):
            raise InputError(
                f"packed evidence holds a log weight for each of the {total} states, got {tuple(evidence.shape)}"
            )
        if bool((evidence.isnan() | (evidence == math.inf)).any()):
            raise InputError("packed evidence holds NaN or +inf")
        return evidence.to(field.log_unary)
    weights = torch.zeros(total, dtype=field.dtype)
    start = field.state_ptr.tolist()
    parts: list[tuple[int, Tensor]] = []
    seen: set[int] = set()
    for variable, value in evidence.items():
        number = _variable(field, variable)
        if number in seen:
            raise InputError(
                f"variable {field.name_of(number)} is observed twice, by its number and by its name"
            )
        seen.add(number)
        begin, end = start[number], start[number + 1]
        if isinstance(value, (str, int, np.integer)) or (isinstance(value, Tensor) and value.ndim == 0):
            state = _state(field, number, value)
            weights[begin:end] = -math.inf
            weights[begin + state] = 0.0
            continue
        soft = torch.as_tensor(value, dtype=field.dtype)
        if soft.shape != (end - begin,):
            raise InputError(
                f"evidence on variable {field.name_of(number)} needs {end - begin} log weights, got {tuple(soft.shape)}"
            )
        if bool((soft.isnan() | (soft == math.inf)).any()):
            raise InputError(f"soft evidence on variable {field.name_of(number)} holds NaN or +inf")
        parts.append((begin, soft))
    weights = weights.to(field.device)
    for begin, soft in parts:
        weights = weights.index_add(
            0, torch.arange(begin, begin + len(soft), device=field.device), soft.to(field.device)
        )
    return weights


def _variable(field: FactorGraph, variable: Any) -> int:
    if isinstance(variable, str):
        if variable not in field.variable_names:
            known = (
                f"the first ones are {list(field.variable_names[:5])}"
                if field.variable_names
                else f"they have no names but the numbers 0 to {field.num_variables - 1}"
            )
            raise InputError(f"no variable is called {variable!r}; {known}")
        return field.variable_names.index(variable)
    if isinstance(variable, bool) or not isinstance(variable, (int, np.integer)):
        raise InputError(f"evidence names a variable by its number or name, got {variable!r}")
    if not 0 <= variable < field.num_variables:
        raise InputError(
            f"evidence on variable {variable}, but the variables are 0 to {field.num_variables - 1}"
        )
    return int(variable)


def _state(field: FactorGraph, variable: int, state: Any) -> int:
    states = int(field.cardinalities[variable])
    if isinstance(state, str):
        names = field.state_names[variable] if field.state_names else ()
        if state not in names:
            raise InputError(
                f"variable {field.name_of(variable)} has no state {state!r}; it has {list(names) or states}"
            )
        return names.index(state)
    if isinstance(state, bool) or not 0 <= int(state) < states:
        raise InputError(
            f"variable {field.name_of(variable)} has the states 0 to {states - 1}, the evidence says {state!r}"
        )
    return int(state)
