"""Run several inference algorithms on one field: time, log partition, error against the exact answer."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.errors import ConvergenceWarning, HiddenfieldError, InputError
from hiddenfield.evaluation.records import finite
from hiddenfield.fields.build import from_factors
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.infer import infer
from hiddenfield.inference.posterior import METHODS, Posterior
from hiddenfield.ops import segment_sum
from hiddenfield.shapes import Float, Tensor

__all__ = ["MethodResult", "compare_methods", "total_variation"]


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
    accepted = {name: _accepted(name) for name in names}
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


def _accepted(name: str) -> set[str]:
    return set(inspect.signature(METHODS.choose(name)).parameters)


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
    errors = (
        None if marginals is None else total_variation(outcome.field, outcome.log_marginals.exp(), marginals)
    )
    value = float(outcome.log_partition[0])
    return MethodResult(
        method=name,
        seconds=outcome.seconds,
        log_partition=value,
        guarantee=outcome.guarantee,
        converged=bool(outcome.converged.all()),
        iterations=int(outcome.iterations.max()),
        mean_error=None if errors is None else float(errors.mean()) if len(errors) else 0.0,
        max_error=None if errors is None else float(errors.max()) if len(errors) else 0.0,
        log_partition_error=None if log_partition is None else value - log_partition,
        status=outcome.status,
    )
