"""Queries to a field: marginals, partition function or most likely assignment."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hiddenfield.errors import InputError
from hiddenfield.evaluation.records import finite
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers.uai import write_result
from hiddenfield.inference.infer import infer, map_state
from hiddenfield.inference.posterior import MapState, Posterior
from hiddenfield.shapes import Array

__all__ = ["Answer", "Query", "ask", "named_evidence"]

Query = Literal["marginals", "map", "partition"]


@dataclass(frozen=True, eq=False)
class Answer:
    """A query and its answer: a posterior, or a joint assignment.

    Parameters
    ----------
    query
        The query.
    field
        The field, with its evidence.
    outcome
        The result of `infer` or `map_state`.
    seconds
        Wall-clock time.
    """

    query: Query
    field: FactorGraph
    outcome: Posterior | MapState
    seconds: float

    @property
    def marginals(self) -> list[Array]:
        """The marginal distribution of every variable."""
        if not isinstance(self.outcome, Posterior):
            raise InputError("marginals were not asked for")
        bounds = self.field.state_ptr.tolist()
        packed = self.outcome.log_marginals.detach().exp().cpu().numpy()
        return [packed[begin:end] for begin, end in itertools.pairwise(bounds)]

    @property
    def assignment(self) -> list[int]:
        """The state of every variable."""
        if not isinstance(self.outcome, MapState):
            raise InputError("the most likely assignment was not asked for")
        return [int(state) for state in self.outcome.assignment]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, by name where the field has names; what was not asked for, or is not finite, is None."""
        outcome = self.outcome
        result: dict[str, Any] = {
            "log_partition": None,
            "marginals": None,
            "map": None,
            "guarantee": outcome.guarantee,
            "status": outcome.status,
            "iterations": None,
            "residual": None,
            "seconds": round(self.seconds, 6),
        }
        if isinstance(outcome, MapState):
            result["map"] = _by_name(self.field, self._named_states())
            return result
        result["log_partition"] = finite(float(outcome.log_partition[0]))
        result["iterations"] = int(outcome.iterations.max())
        result["residual"] = finite(float(outcome.residual.max()))
        if self.query == "marginals":
            rows = [[finite(p) for p in row] for row in self.marginals]
            names = self.field.state_names
            named = [dict(zip(names[v], row, strict=True)) for v, row in enumerate(rows)] if names else rows
            result["marginals"] = _by_name(self.field, named)
        return result

    def write(self, path: str | Path) -> None:
        """Write it as a result file of the UAI competitions: MAR, PR (to base 10) or MPE."""
        if isinstance(self.outcome, MapState):
            write_result(path, assignment=self.assignment)
        elif self.query == "partition":
            write_result(path, log_partition=float(self.outcome.log_partition[0]))
        else:
            write_result(path, marginals=self.marginals)

    def _named_states(self) -> list[Any]:
        names = self.field.state_names
        return [names[v][state] if names else state for v, state in enumerate(self.assignment)]


def ask(
    field: FactorGraph,
    query: Query = "marginals",
    method: str = "loopy_bp",
    *,
    evidence: Mapping[Any, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Answer:
    """Answer a question by an algorithm, whose options are named in `options`.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> answer = ask(ising_grid(1, 2, 1.0), evidence={0: 1})
    >>> answer.as_dict()["marginals"]
    [[0.0, 1.0], [0.1192, 0.8807]]
    """
    given = field if evidence is None else field.given(evidence)
    start = time.perf_counter()
    outcome: Posterior | MapState
    if query == "map":
        outcome = map_state(given, method, **(options or {}))
    else:
        outcome = infer(given, method, **(options or {}))
    return Answer(query, given, outcome, time.perf_counter() - start)


def named_evidence(field: FactorGraph, texts: Sequence[str]) -> dict[int | str, int | str]:
    """Read ``VARIABLE=STATE``, each a name that the field has or a number.

    Examples
    --------
    >>> from hiddenfield.fields import from_factors
    >>> field = from_factors([[0]], [[0.0, 0.0]], variable_names=["rain"], state_names=[["no", "yes"]])
    >>> named_evidence(field, ["rain=yes"]), named_evidence(field, ["0=1"])
    ({'rain': 'yes'}, {0: 1})
    """
    found: dict[int | str, int | str] = {}
    for text in texts:
        variable, equals, state = (part.strip() for part in text.rpartition("="))
        if not equals or not variable or not state:
            raise InputError(f"evidence must be VARIABLE=STATE, got {text!r}")
        key = int(variable) if variable not in field.variable_names and variable.isdecimal() else variable
        states = {name for names in field.state_names for name in names}
        found[key] = int(state) if state not in states and state.isdecimal() else state
    return found


def _by_name(field: FactorGraph, values: list[Any]) -> Any:
    return dict(zip(field.variable_names, values, strict=True)) if field.variable_names else values
