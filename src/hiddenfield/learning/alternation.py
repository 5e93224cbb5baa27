"""The one loop of models that are learned by turns: EM and its relatives, and Newton steps on sampled statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from hiddenfield.learning.protocol import Alternating

Data = TypeVar("Data")
Parameters = TypeVar("Parameters")
Statistics = TypeVar("Statistics")


@dataclass(frozen=True, eq=False)
class Alternation(Generic[Parameters, Statistics]):
    """How far an alternation has come.

    Parameters
    ----------
    parameters, statistics
        The last parameters, and the statistics that led to them; None where no turn was taken.
    converged
        Whether the residual was within the tolerance for as many turns as were asked for.
    scores, residuals
        Of every turn.
    """

    parameters: Parameters
    statistics: Statistics | None = None
    converged: bool = False
    scores: list[float] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)


def alternate(
    model: Alternating[Data, Parameters, Statistics],
    data: Data,
    start: Parameters | Alternation[Parameters, Statistics],
    *,
    tolerance: float,
    max_iterations: int,
    settle: int = 1,
    after: Callable[[Alternation[Parameters, Statistics]], None] | None = None,
) -> Alternation[Parameters, Statistics]:
    r"""Take turns: :math:`s \leftarrow E[s \mid x, \theta]`, then :math:`\theta \leftarrow \arg\max_\theta(s)`.

    Parameters
    ----------
    model, data
        What is learned, from what.
    start
        The first parameters, or how far an earlier call had come, from where it goes on.
    tolerance
        Of the residual.
    max_iterations
        Turns after which it ends, converged or not.
    settle
        Turns in a row that must be within the tolerance; more than one where the statistics are noisy.
    after
        Called after each turn, to show or save how far it has come.

    Returns
    -------
    Alternation
        Where the residual becomes NaN the model cannot go on: it ends there, not converged, with the statistics that
        say why.

    Examples
    --------
    A mean by turns that go half of the way:

    >>> class Mean:
    ...     def expected_statistics(self, data, parameters):
    ...         return sum(data) / len(data) - parameters
    ...
    ...     def maximize(self, statistics, parameters):
    ...         return parameters + 0.5 * statistics
    ...
    ...     def score(self, statistics):
    ...         return -(statistics**2)
    ...
    ...     def residual(self, statistics):
    ...         return abs(statistics)
    >>> end = alternate(Mean(), [1.0, 3.0], 0.0, tolerance=1e-3, max_iterations=50)
    >>> end.converged, round(end.parameters, 2), len(end.scores)
    (True, 2.0, 12)
    """
    now: Alternation[Parameters, Statistics]
    now = (
        replace(start, scores=[*start.scores], residuals=[*start.residuals])
        if isinstance(start, Alternation)
        else Alternation(start)
    )
    while not now.converged and len(now.scores) < max_iterations:
        statistics = model.expected_statistics(data, now.parameters)
        now.scores.append(model.score(statistics))
        now.residuals.append(model.residual(statistics))
        if math.isnan(now.residuals[-1]):
            return replace(now, statistics=statistics)
        parameters = model.maximize(statistics, now.parameters)
        last = now.residuals[-settle:]
        settled = len(last) == settle and max(last) <= tolerance
        now = replace(now, parameters=parameters, statistics=statistics, converged=settled)
        if after is not None:
            after(now)
    return now
