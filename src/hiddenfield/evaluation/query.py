"""Queries to a field: marginals, partition function or most likely assignment; and algorithms compared on one field."""

from __future__ import annotations

import inspect
import itertools
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hiddenfield.errors import ConvergenceWarning, HiddenfieldError, InputError
from hiddenfield.evaluation.records import finite
from hiddenfield.fields.build import from_factors
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers.uai import write_result
from hiddenfield.inference.infer import infer, map_state
from hiddenfield.inference.posterior import METHODS, MapState, Posterior
from hiddenfield.ops import segment_sum
from hiddenfield.shapes import Array, Float, Tensor

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
            "log_value": None,
            "upper_bound": None,
            "guarantee": outcome.guarantee,
            "status": outcome.status,
            "note": outcome.note,
            "iterations": None,
            "residual": None,
            "diagnostics": None,
            "seconds": round(self.seconds, 6),
        }
        names = self.field.state_names
        if isinstance(outcome, MapState):
            states = enumerate(self.assignment)
            result["map"] = _by_name(self.field, [names[v][k] if names else k for v, k in states])
            result["log_value"] = finite(float(outcome.log_value[0]))
            if outcome.upper_bound is not None:
                result["upper_bound"] = finite(float(outcome.upper_bound[0]))
            return result
        result["log_partition"] = finite(float(outcome.log_partition[0]))
        result["iterations"] = int(outcome.iterations.max())
        result["residual"] = finite(float(outcome.residual.max()))
        if self.query == "marginals":
            rows = [[finite(p) for p in row] for row in self.marginals]
            named = [dict(zip(names[v], row, strict=True)) for v, row in enumerate(rows)] if names else rows
            result["marginals"] = _by_name(self.field, named)
        if "r_hat" in outcome.extra:
            result["diagnostics"] = self._diagnostics(outcome)
        return result

    def _diagnostics(self, outcome: Posterior) -> dict[str, Any]:
        """Return what sampling says of itself: of each variable, of each marginal, and of the log partition."""
        of_variables = {
            name: _by_name(self.field, [finite(value) for value in outcome.extra[name].tolist()])
            for name in ("r_hat", "effective_samples")
        }
        bounds, errors = self.field.state_ptr.tolist(), outcome.extra["standard_error"].tolist()
        rows = [[finite(error) for error in errors[begin:end]] for begin, end in itertools.pairwise(bounds)]
        names = self.field.state_names
        named = [dict(zip(names[v], row, strict=True)) for v, row in enumerate(rows)] if names else rows
        return {
            **of_variables,
            "standard_error": _by_name(self.field, named),
            "log_partition_error": finite(float(outcome.extra["log_partition_error"][0])),
        }

    def write(self, path: str | Path) -> None:
        """Write it as a result file of the UAI competitions: MAR, PR (to base 10) or MPE."""
        if isinstance(self.outcome, MapState):
            write_result(path, assignment=self.assignment)
        elif self.query == "partition":
            write_result(path, log_partition=float(self.outcome.log_partition[0]))
        else:
            write_result(path, marginals=self.marginals)


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
    outcome = (map_state if query == "map" else infer)(given, method, **(options or {}))
    return Answer(query, given, outcome, time.perf_counter() - start)


def named_evidence(
    field: FactorGraph, texts: Sequence[str], observed: Mapping[Any, Any] | None = None
) -> dict[int | str, int | str]:
    """Read ``VARIABLE=STATE``, each a name that the field has or a number; they are added to what was observed before.

    Examples
    --------
    >>> from hiddenfield.fields import from_factors
    >>> field = from_factors([[0]], [[0.0, 0.0]], variable_names=["rain"], state_names=[["no", "yes"]])
    >>> named_evidence(field, ["rain=yes"]), named_evidence(field, ["0=1"])
    ({'rain': 'yes'}, {0: 1})
    """
    found: dict[int | str, int | str] = dict(observed or {})
    for text in texts:
        variable, equals, state = (part.strip() for part in text.rpartition("="))
        if not equals or not variable or not state:
            raise InputError(f"evidence must be VARIABLE=STATE, got {text!r}")
        key = int(variable) if variable not in field.variable_names and variable.isdecimal() else variable
        if key in found:
            raise InputError(f"variable {variable} is observed twice, the second time by {text}")
        states = {name for names in field.state_names for name in names}
        found[key] = int(state) if state not in states and state.isdecimal() else state
    return found


def _by_name(field: FactorGraph, values: list[Any]) -> Any:
    return dict(zip(field.variable_names, values, strict=True)) if field.variable_names else values


# -- algorithms compared -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MethodResult:
    """Result of one algorithm on one field; None where it has no such value, or no exact answer is known.

    Parameters
    ----------
    method
        Its name.
    seconds
        Wall-clock time of the algorithm alone; None if it refused the field.
    log_partition
        Natural logarithm, in the sense of `guarantee`.
    guarantee
        Exact, a lower bound, an upper bound or an estimate.
    converged
        Whether it met its tolerance.
    iterations
        How many it took.
    mean_error, max_error
        Total variation between its marginals and the exact ones, over the variables with more than one possible state.
    log_partition_error
        Its log partition less the exact one.
    status
        How it ended, or why it refused.
    """

    method: str
    seconds: float | None = None
    log_partition: float | None = None
    guarantee: str | None = None
    converged: bool | None = None
    iterations: int | None = None
    mean_error: float | None = None
    max_error: float | None = None
    log_partition_error: float | None = None
    status: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values; a number that is not finite becomes None, as JSON has none."""
        return {name: finite(v) if isinstance(v, float) else v for name, v in vars(self).items()}


def compare_methods(
    field: FactorGraph,
    methods: Sequence[str] | None = None,
    *,
    evidence: Mapping[Any, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    exact: tuple[Float[Tensor, " states"] | None, float | None] = (None, None),
) -> list[MethodResult]:
    """Run algorithms one after another on one field of a single graph.

    Parameters
    ----------
    field
        The field.
    methods
        Names; by default all of `METHODS`.
    evidence
        See `FactorGraph.given`.
    options
        Passed to each algorithm that has an option of the name; one that none has is an error.
    exact
        Packed exact marginals and exact log partition where they are known. Otherwise those of the method "exact" are
        used, if it is among the methods and does not refuse.

    Returns
    -------
    list of MethodResult
        In the order of the methods. One that refuses a field is listed with its reason.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> results = compare_methods(ising_grid(1, 4, 0.5), ["loopy_bp", "mean_field"])
    >>> [result.guarantee for result in results]
    ['exact', 'lower bound']
    """
    if field.num_graphs != 1:
        raise InputError(f"methods are compared on one graph at a time, the field has {field.num_graphs}")
    names = list(METHODS if methods is None else methods)
    accepted = {name: set(inspect.signature(METHODS.choose(name)).parameters) for name in names}
    for option in options or {}:
        if not any(option in known for known in accepted.values()):
            raise InputError(f"none of the methods {', '.join(names)} has an option {option!r}")
    given = field if evidence is None else field.given(evidence)
    outcomes: dict[str, Posterior | str] = {}
    for name in names:
        mine = {key: value for key, value in (options or {}).items() if key in accepted[name]}
        for warm_up in _small_fields(given):
            _run(warm_up, name, mine)
        outcomes[name] = _run(given, name, mine)
    oracle = outcomes.get("exact")
    if isinstance(oracle, Posterior) and exact == (None, None):
        exact = oracle.log_marginals.exp(), float(oracle.log_partition[0])
    return [_measured(name, outcomes[name], *exact) for name in names]


def total_variation(
    field: FactorGraph, first: Float[Tensor, " states"], second: Float[Tensor, " states"]
) -> Float[Tensor, " free"]:
    r"""Return :math:`\tfrac12 \sum_x |p(x) - q(x)|` for every variable with more than one possible state.

    Both arguments are packed marginals. What evidence has settled would only dilute a mean.
    """
    possible = (field.log_unary > -math.inf).to(first.dtype)
    free = segment_sum(possible, field.state_ptr) > 1
    return (0.5 * segment_sum((first - second).abs(), field.state_ptr))[free]


def _small_fields(field: FactorGraph) -> list[FactorGraph]:
    """Return small fields on which an algorithm's loops are compiled first, so that times exclude the compiler."""
    pair = np.zeros((2, 2))
    triple = np.zeros((3, 2, 3))
    small = [
        from_factors([[0, 1], [1, 2], [0, 2]], [pair, pair, pair], dtype=field.dtype),
        from_factors([[0, 1, 2], [1, 3], [2]], [triple, pair, np.zeros(3)], dtype=field.dtype),
    ]
    return [each.to(field.device) for each in small]


def _run(field: FactorGraph, name: str, options: Mapping[str, Any]) -> Posterior | str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the status says it
            return infer(field, name, **options)
    except (HiddenfieldError, MemoryError) as error:
        return f"refused: {error}"


def _measured(
    name: str, outcome: Posterior | str, marginals: Tensor | None, log_partition: float | None
) -> MethodResult:
    if isinstance(outcome, str):
        return MethodResult(name, status=outcome)
    mean = worst = None
    if marginals is not None:
        errors = total_variation(outcome.field, outcome.log_marginals.exp(), marginals)
        mean, worst = (float(errors.mean()), float(errors.max())) if len(errors) else (0.0, 0.0)
    value = float(outcome.log_partition[0])
    return MethodResult(
        method=name,
        seconds=outcome.seconds,
        log_partition=value,
        guarantee=outcome.guarantee,
        converged=bool(outcome.converged.all()),
        iterations=int(outcome.iterations.max()),
        mean_error=mean,
        max_error=worst,
        log_partition_error=None if log_partition is None else value - log_partition,
        status=outcome.status,
    )
