"""Queries to a field: marginals, partition function, assignments and samples."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.evaluation.records import finite
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers.uai import write_result
from hiddenfield.inference.exact import joint, marginal_map, sample
from hiddenfield.inference.gibbs import gibbs_sample
from hiddenfield.inference.infer import (
    check_options,
    infer,
    log_partition,
    log_partition_alone,
    map_state,
)
from hiddenfield.inference.posterior import Joint, MapState, Posterior, state_key
from hiddenfield.limits import OutOfTimeError, seconds_left, time_limit as limited
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Int, Tensor

Query = Literal["marginals", "joint", "map", "partition", "marginal-map", "samples"]

DEFAULT_SECONDS = 5.0
"""Time limit of what is left to `auto` here, as of `auto` itself."""

KEYS = (
    "method", "note", "log_partition", "log_value", "marginals", "joint", "map", "upper_bound", "samples", "guarantee",
    "status", "iterations", "residual", "diagnostics", "seconds",
)  # fmt: skip
"""What every answer has as plain values."""

MOST_NAMED = 8
"""So many observations an error message names."""

EXPLAINING = 3.0
"""Seconds that may be spent on finding out which observations contradict each other."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Drawn assignments.

    Parameters
    ----------
    states
        One row per sample.
    guarantee
        "exact": independent draws from the field's distribution. "estimate": states of Markov chains.
    status
        How it ended.
    note
        Which method drew them, and why.
    """

    states: Int[Tensor, "samples variables"]
    guarantee: str
    status: str = "converged"
    note: str = ""


@dataclass(frozen=True, eq=False)
class Answer:
    """A query and its answer: a posterior, a joint assignment or samples.

    Parameters
    ----------
    query
        The query.
    field
        The field, with its evidence.
    outcome
        The result of `infer`, `joint`, `map_state`, `marginal_map` or `sample`.
    seconds
        Wall-clock time.
    method
        The algorithm that was asked for.
    variables
        Numbers of the variables that were asked for; by default all.
    """

    query: Query
    field: FactorGraph
    outcome: Posterior | Joint | MapState | Samples
    seconds: float
    method: str = "auto"
    variables: tuple[int, ...] | None = None

    @property
    def shown(self) -> Sequence[int]:
        """Numbers of the variables that were asked for."""
        return range(self.field.num_variables) if self.variables is None else self.variables

    @property
    def marginals(self) -> list[Array]:
        """The marginal distribution of every variable."""
        if not isinstance(self.outcome, Posterior) or self.query == "partition":
            raise InputError("marginals were not asked for")
        bounds = self.field.state_ptr.tolist()
        packed = self.outcome.log_marginals.detach().exp().cpu().numpy()
        return [packed[begin:end] for begin, end in itertools.pairwise(bounds)]

    @property
    def assignment(self) -> list[int]:
        """The state of every variable; -1 where it was summed over."""
        if not isinstance(self.outcome, MapState):
            raise InputError("the most likely assignment was not asked for")
        return [int(state) for state in self.outcome.assignment]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, by name where the field has names; what was not asked for, or is not finite, is None."""
        outcome = self.outcome
        result: dict[str, Any] = dict.fromkeys(KEYS) | {
            "method": outcome.method if isinstance(outcome, Posterior) else self.method,
            "note": outcome.note,
            "guarantee": outcome.guarantee,
            "status": outcome.status,
            "seconds": round(self.seconds, 6),
        }
        if isinstance(outcome, MapState):
            result["log_value"] = finite(float(outcome.log_value[0]))
            if outcome.upper_bound is not None:
                result["upper_bound"] = finite(float(outcome.upper_bound[0]))
            states = self.assignment
            result["map"] = self._by_name({v: state_key(self.field, v, states[v]) for v in self.shown})
        elif isinstance(outcome, Samples):
            rows = outcome.states.tolist()
            result["samples"] = [
                self._by_name({v: state_key(self.field, v, row[v]) for v in self.shown}) for row in rows
            ]
        elif isinstance(outcome, Joint):
            columns = self.columns()
            result["joint"] = [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ]
        else:
            result["log_partition"] = finite(float(outcome.log_partition[0]))
            result["iterations"] = int(outcome.iterations.max())
            result["residual"] = finite(float(outcome.residual.max()))
            if self.query == "marginals":
                result["marginals"] = self._by_name({v: self._distribution(v) for v in self.shown})
            if "r_hat" in outcome.extra:
                result["diagnostics"] = self._diagnostics(outcome)
        return result

    def _diagnostics(self, outcome: Posterior) -> dict[str, Any]:
        """Return what sampling says of itself: of each variable, of each marginal, and of the log partition."""
        bounds, names = self.field.state_ptr.tolist(), self.field.state_names
        errors = [finite(error) for error in outcome.extra["standard_error"].tolist()]
        rows = {v: errors[bounds[v] : bounds[v + 1]] for v in self.shown}
        named = {v: dict(zip(names[v], row, strict=True)) for v, row in rows.items()} if names else rows
        return {
            **{
                name: self._by_name({v: finite(float(outcome.extra[name][v])) for v in self.shown})
                for name in ("r_hat", "effective_samples")
            },
            "standard_error": self._by_name(named),
            "log_partition_error": finite(float(outcome.extra["log_partition_error"][0])),
        }

    def _distribution(self, variable: int) -> dict[str, float | None] | list[float | None]:
        row = [finite(float(p)) for p in self.marginals[variable]]
        names = self.field.state_names
        return dict(zip(names[variable], row, strict=True)) if names else row

    def _by_name(self, values: dict[int, Any]) -> Any:
        """Key values by the names of variables; without names, a list of all or a mapping from numbers."""
        names = self.field.variable_names
        if names:
            return {names[variable]: value for variable, value in values.items()}
        return list(values.values()) if self.variables is None else {str(v): x for v, x in values.items()}

    def columns(self) -> dict[str, list[Any]]:
        """Return the answer as columns of a table.

        Marginals: variable, state, probability. A joint distribution: one column per variable, probability. An
        assignment: variable, state. Samples: one column per variable. A log partition: itself and its guarantee.
        """
        keys, outcome = self.field.variable_names or range(self.field.num_variables), self.outcome
        if isinstance(outcome, Joint):
            return {str(name): column for name, column in outcome.columns().items()}
        if isinstance(outcome, Samples):
            drawn = outcome.states.T.tolist()
            return {str(keys[v]): [state_key(self.field, v, k) for k in drawn[v]] for v in self.shown}
        if isinstance(outcome, MapState):
            states = self.assignment
            named = [state_key(self.field, v, states[v]) for v in self.shown]
            return {"variable": [keys[v] for v in self.shown], "state": named}
        if self.query == "partition":
            return {"log_partition": [float(outcome.log_partition[0])], "guarantee": [outcome.guarantee]}
        rows = self.marginals
        cells = [(v, k) for v in self.shown for k in range(len(rows[v]))]
        return {
            "variable": [keys[v] for v, _ in cells],
            "state": [state_key(self.field, v, k) for v, k in cells],
            "probability": [float(rows[v][k]) for v, k in cells],
        }

    def write(self, path: str | Path) -> None:
        """Write it as a result file of the UAI competitions: MAR, PR (to base 10) or MPE; all variables are in it."""
        if isinstance(self.outcome, (Samples, Joint)) or self.variables is not None:
            raise InputError(
                "a UAI result file holds an answer for all variables; give the name of a .csv file for "
                + ("samples" if isinstance(self.outcome, Samples) else "some of them")
            )
        if isinstance(self.outcome, MapState):
            write_result(path, assignment=self.assignment)
        elif self.query == "partition":
            write_result(path, log_partition=float(self.outcome.log_partition[0]))
        else:
            write_result(path, marginals=self.marginals)


def ask(
    field: FactorGraph,
    query: Query = "marginals",
    method: str = "auto",
    *,
    evidence: Mapping[Any, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    variables: Sequence[str | int] | None = None,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    num_samples: int = 10,
) -> Answer:
    """Answer a question by an algorithm, whose options are named in `options`.

    Parameters
    ----------
    field
        One graph.
    query
        "marginals", "joint" (the distribution of `variables` together, exactly), "map" (the most likely joint
        assignment), "partition", "marginal-map" (the most likely joint state of `variables`, summed over all others) or
        "samples".
    method
        A name from `METHODS`; for assignments "auto", "exact", "loopy_bp" or "tree_reweighted"; for a marginal map
        and a joint distribution "auto" or "exact"; for samples "auto", "exact" or "gibbs".
    evidence
        See `FactorGraph.given`.
    options
        Of the algorithm.
    variables
        Restrict the answer to these, by name or number.
    time_limit, memory_limit
        Seconds and bytes. `auto` chooses a method that fits, within 5 seconds by default; another method ends early
        or with an error.
    num_samples
        How many samples.

    Raises
    ------
    InputError
        Where the evidence has probability 0, naming observations that contradict each other.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> answer = ask(ising_grid(1, 2, 1.0), evidence={0: 1})
    >>> answer.as_dict()["marginals"]
    [[0.0, 1.0], [0.1192, 0.8807]]
    """
    chosen = None if variables is None else tuple(dict.fromkeys(field.index_of(v) for v in variables))
    if query in ("marginal-map", "joint") and not chosen:
        raise InputError(f"{query} is a question about some variables together: name them (--variable)")
    if "marginals" in (options or {}):
        raise InputError("what is computed follows from the query: leave out the option marginals")
    given = field if evidence is None else field.given(evidence)
    run, default = _asked(query, method, chosen, num_samples)
    settings = {**(options or {}), **_limits(method, default, time_limit, memory_limit)}
    start = time.perf_counter()
    bound = time_limit if time_limit is not None else default
    try:
        with contextlib.nullcontext() if bound is None else limited(bound):
            outcome = run(given, **settings)
    except OutOfTimeError:
        raise OutOfTimeError(
            f"{method}: no answer within the time limit of {bound:g} s; raise it, or leave the choice to auto"
        ) from None
    seconds = time.perf_counter() - start
    _check_possible(field, evidence or {}, outcome, method)
    return Answer(query, given, outcome, seconds, method, chosen)


def _asked(
    query: Query, method: str, variables: tuple[int, ...] | None, num_samples: int
) -> tuple[Callable[..., Any], float | None]:
    """Return the function ``(field, **options)`` that answers, and the seconds that it has if nothing else is said.

    `auto` for marginals and assignments keeps its time limit itself.
    """
    if query == "map":
        return lambda field, **options: map_state(field, method, **options), None
    if query in ("marginals", "partition"):
        alone = log_partition_alone(method) if query == "partition" else {}
        return lambda field, **options: infer(field, method, **{**alone, **options}), None
    default = DEFAULT_SECONDS if method == "auto" else None
    if query in ("marginal-map", "joint"):
        choose(f"method for {query}", {"auto": 0, "exact": 0}, method)
        name, function = ("joint", joint) if query == "joint" else ("marginal_map", marginal_map)

        def together(field: FactorGraph, **options: Any) -> Joint | MapState:
            check_options(name, function, options)
            return function(field, variables or (), **options)

        return together, default
    choose("method for samples", {"auto": 0, "exact": 0, "gibbs": 0}, method)
    return lambda field, **options: _draw(field, method, num_samples, options), default


def _limits(
    method: str, default: float | None, seconds: float | None, memory: float | None
) -> dict[str, float]:
    """Return limits as the options that the method has for them; a limit of memory that it cannot keep is an error."""
    found: dict[str, float] = {}
    if seconds is not None and not seconds > 0:
        raise InputError(f"a time limit is a number of seconds above 0, got {seconds}")
    if seconds is not None and method == "auto" and default is None:
        found["time_limit"] = seconds
    if memory is not None:
        if method not in ("auto", "exact"):
            raise InputError(f"{method} keeps no limit of memory: give one to auto or exact only")
        found["memory_limit" if method == "auto" and default is None else "max_memory"] = memory
    return found


def _draw(field: FactorGraph, method: str, num_samples: int, options: Mapping[str, Any]) -> Samples:
    """Draw samples: independent ones where that fits the limits, otherwise from chains."""
    try:
        if method != "gibbs":
            known = {"seed", "order", "max_memory"} if method == "exact" else {"seed", "max_memory"}
            for option in options:
                choose("option of samples", dict.fromkeys(known), option)
            with limited(0.6 * seconds_left() if method == "auto" else math.inf):
                drawn = sample(field, num_samples, **options)
            return Samples(drawn, "exact", note="independent samples from a junction tree")
        why = "method gibbs"
    except (TooLargeError, OutOfTimeError) as error:
        if method == "exact":
            raise
        why = f"chosen by auto: {str(error).split(';')[0]}"
        options = {name: value for name, value in options.items() if name == "seed"}
    check_options("gibbs_sample", gibbs_sample, options)
    drawn = gibbs_sample(field, num_samples, **options)
    return Samples(drawn, "estimate", note=f"states of Markov chains, not independent ({why})")


def _check_possible(
    field: FactorGraph,
    evidence: Mapping[Any, Any],
    outcome: Posterior | Joint | MapState | Samples,
    method: str,
) -> None:
    """Refuse an answer of value 0: a contradiction where that is certain, otherwise a failure of the method."""
    if isinstance(outcome, (Samples, Joint)):
        return
    value = outcome.log_value if isinstance(outcome, MapState) else outcome.log_partition
    if not bool((value == -math.inf).any()):
        return
    bound = outcome.upper_bound if isinstance(outcome, MapState) else None
    certain = outcome.guarantee in ("exact", "upper bound") or (
        bound is not None and bool((bound == -math.inf).any())
    )
    text = contradiction(field, evidence, certain)
    if text is not None:
        raise InputError(text)
    raise InputError(
        f"{method} found no assignment of positive probability, which does not prove that there is none: "
        "leave the choice to auto with a longer time limit, or look at the hard zeros of the model and the evidence"
    )


def contradiction(field: FactorGraph, evidence: Mapping[Any, Any], certain: bool = True) -> str | None:
    """Say that evidence has probability 0, and which observations contradict each other where that is soon found.

    Observations are kept only if leaving them out makes the others possible: one minimal set, found with a number of
    exact inferences that grows with its size and the logarithm of all evidence. Where it is not `certain` that there is
    a contradiction, and exact inference finds none or does not fit, the answer is None.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> field = from_factors([[0, 1], [2]], [[[0.0, -np.inf], [-np.inf, 0.0]], [0.0, 0.0]])
    >>> contradiction(field, {0: 0, 2: 1, 1: 1})
    'the evidence is impossible: 0=0, 1=1 have probability 0 together; correct or leave out one of them'
    """
    pairs = list(evidence.items())
    try:
        with limited(EXPLAINING):
            if not certain and not _is_impossible(field, pairs):
                return None
            certain = True
            if not pairs or _is_impossible(field, []):
                return "the model is impossible by itself: no assignment has positive probability; look at its zeros"
            pairs = _smallest(field, pairs)
    except (OutOfTimeError, TooLargeError):
        if not certain:
            return None
    shown = [f"{variable}={_state_text(value)}" for variable, value in pairs[:MOST_NAMED]]
    if len(pairs) > MOST_NAMED:
        shown.append(f"and {len(pairs) - MOST_NAMED} more")
    verb = "have probability 0 together" if len(pairs) > 1 else "has probability 0"
    remedy = "correct or leave out one of them" if len(pairs) > 1 else "correct it or leave it out"
    return f"the evidence is impossible: {', '.join(shown)} {verb}; {remedy}"


def _state_text(value: Any) -> str:
    return str(value) if isinstance(value, (str, int, np.integer)) else "(weights)"


def _smallest(field: FactorGraph, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return a minimal contradictory part: the last of the shortest contradictory beginning stays, again and again."""
    core: list[tuple[Any, Any]] = []
    while not core or not _is_impossible(field, core):
        low, high = 1, len(pairs)
        while low < high:
            middle = (low + high) // 2
            if _is_impossible(field, [*core, *pairs[:middle]]):
                high = middle
            else:
                low = middle + 1
        core.append(pairs[low - 1])
        pairs = pairs[: low - 1]
    return core[::-1]


def _is_impossible(field: FactorGraph, pairs: list[tuple[Any, Any]]) -> bool:
    value = log_partition(field.detach(), "exact", evidence=dict(pairs))
    return bool((value == -math.inf).any())


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
        if field.index_of(key) in {field.index_of(known) for known in found}:
            raise InputError(f"variable {variable} is observed twice, the second time by {text}")
        states = {name for names in field.state_names for name in names}
        found[key] = int(state) if state not in states and state.isdecimal() else state
    return found


def named_variables(field: FactorGraph, texts: Sequence[str]) -> list[int]:
    """Return the numbers of variables that are given as text: a name that the field has, or a number."""
    return [
        field.index_of(int(text) if text not in field.variable_names and text.isdecimal() else text)
        for text in texts
    ]
