"""Algorithms compared on one field: time, log partition and errors against the exact answer."""

from __future__ import annotations

import contextlib
import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.errors import ConvergenceWarning, HiddenfieldError, InputError
from hiddenfield.evaluation.records import finite
from hiddenfield.fields.build import from_factors
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.infer import infer
from hiddenfield.inference.posterior import METHODS, Posterior
from hiddenfield.limits import OutOfTimeError, time_limit as limited
from hiddenfield.ops import segment_sum
from hiddenfield.shapes import Float, Tensor


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
    note
        What `auto` chose, and why.
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
    note: str = ""

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
    time_limit: float | None = None,
    each: Callable[[MethodResult], None] | None = None,
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
    time_limit
        Seconds for each algorithm; by default none, except that `auto` has its own.
    each
        Called with every result as soon as there is one. The method "exact" comes first, as the others are measured
        against it.

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
    found = {}
    for name in sorted(names, key=lambda name: name != "exact"):
        mine = {key: value for key, value in (options or {}).items() if key in accepted[name]}
        for warm_up in _small_fields(given):
            _run(warm_up, name, mine, None)
        if time_limit is not None and "time_limit" in accepted[name]:
            mine = {"time_limit": time_limit, **mine}
        outcome = _run(given, name, mine, time_limit)
        if name == "exact" and isinstance(outcome, Posterior) and exact == (None, None):
            exact = outcome.log_marginals.exp(), float(outcome.log_partition[0])
        found[name] = _measured(name, outcome, *exact)
        if each is not None:
            each(found[name])
    return [found[name] for name in names]


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


def _run(field: FactorGraph, name: str, options: Mapping[str, Any], seconds: float | None) -> Posterior | str:
    try:
        with warnings.catch_warnings(), contextlib.nullcontext() if seconds is None else limited(seconds):
            warnings.simplefilter("ignore", ConvergenceWarning)  # the status says it
            return infer(field, name, **options)
    except OutOfTimeError:
        return (
            f"stopped: no answer within the time limit of {seconds:g} s"
            if seconds
            else "stopped: out of time"
        )
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
        note=outcome.note,
    )
