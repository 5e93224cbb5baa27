"""Evidence as log weights over states: hard where a state was observed, soft where weights were."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.shapes import Float, Tensor

if TYPE_CHECKING:
    from hiddenfield.fields.factor_graph import FactorGraph


MOST_LISTED = 12
"""Most names that an error message lists."""


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
    if not isinstance(evidence, Mapping):
        raise InputError(
            "evidence maps variables to states, as in {'rain': 'yes'}, or is a tensor of log weights over all states; "
            f"got {type(evidence).__name__}"
        )
    weights = torch.zeros(total, dtype=field.dtype)
    start = field.state_ptr.tolist()
    parts: list[tuple[int, Tensor]] = []
    seen: set[int] = set()
    for variable, value in evidence.items():
        number = variable_number(field, variable)
        if number in seen:
            raise InputError(
                f"variable {field.name_of(number)} is observed twice, by its number and by its name"
            )
        seen.add(number)
        begin, end = start[number], start[number + 1]
        if isinstance(value, (str, int, np.integer)) or (isinstance(value, Tensor) and value.ndim == 0):
            state = state_number(field, number, value)
            weights[begin:end] = -math.inf
            weights[begin + state] = 0.0
            continue
        soft = _weights(field, number, value)
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


def _weights(field: FactorGraph, variable: int, value: Any) -> Tensor:
    try:
        return torch.as_tensor(value, dtype=field.dtype)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"evidence on variable {field.name_of(variable)} is a state or a vector of log weights, got {value!r}"
        ) from None


def variable_number(field: FactorGraph, variable: Any) -> int:
    """Return the number of a variable that is given by number or name; one that is not there is an error.

    Examples
    --------
    >>> from hiddenfield.fields import from_factors
    >>> field = from_factors([[0], [1]], [[0.0, 0.0], [0.0, 0.0]], variable_names=["rain", "grass"])
    >>> variable_number(field, "grass"), variable_number(field, 0)
    (1, 0)
    >>> variable_number(field, "gras")
    Traceback (most recent call last):
    hiddenfield.errors.InputError: no variable is called 'gras' (did you mean 'grass'?); there are: rain, grass
    """
    if isinstance(variable, str):
        names = field.variable_names
        if variable not in names:
            known = (
                f"there are: {_listed(names)}"
                if names
                else f"they have no names but the numbers 0 to {field.num_variables - 1}"
            )
            raise InputError(f"no variable is called {variable!r}{suggestion(variable, names)}; {known}")
        number = names.index(variable)
        if field.num_graphs > 1 and variable in names[number + 1 :]:
            raise InputError(
                f"several variables of the batch are called {variable!r}: give the number of the one that is meant"
            )
        return number
    if isinstance(variable, Tensor) and variable.ndim == 0 and not variable.is_floating_point():
        variable = int(variable)
    if isinstance(variable, bool) or not isinstance(variable, (int, np.integer)):
        raise InputError(f"a variable is given by its number or name, got {variable!r}")
    if not 0 <= variable < field.num_variables:
        raise InputError(f"no variable {variable}: the variables are 0 to {field.num_variables - 1}")
    return int(variable)


def state_number(field: FactorGraph, variable: int, state: Any) -> int:
    """Return the number of a state, given by number or name, of the variable of that number."""
    states = int(field.cardinalities[variable])
    if isinstance(state, str):
        names = field.state_names[variable] if field.state_names else ()
        if state not in names:
            known = _listed(names) if names else f"the numbers 0 to {states - 1}, and no names"
            raise InputError(
                f"variable {field.name_of(variable)} has no state {state!r}{suggestion(state, names)}; it has: {known}"
            )
        return names.index(state)
    if isinstance(state, bool) or not 0 <= int(state) < states:
        raise InputError(
            f"variable {field.name_of(variable)} has the states 0 to {states - 1}, not {state!r}"
        )
    return int(state)


def suggestion(name: str, choices: Iterable[str]) -> str:
    """Return the choice that a misspelt name comes closest to as a question in brackets, or nothing."""
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" (did you mean {by_lower[close[0]]!r}?)" if close else ""


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more
