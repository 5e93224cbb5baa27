"""The driver of models that are learned by turns: EM, and Newton steps on sampled statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hiddenfield.learning.protocol import Alternating

Data = TypeVar("Data")
Parameters = TypeVar("Parameters")
Statistics = TypeVar("Statistics")


@dataclass(frozen=True, eq=False)
class Alternation(Generic[Parameters, Statistics]):
    """Where an alternation ended.

    Parameters
    ----------
    parameters, statistics
        The last parameters, and the statistics that led to them; None where no turn was taken.
    converged
        Whether the residual was within the tolerance for as many turns as were asked for.
    scores, residuals
        Of every turn.
    trace
        The parameters from the start on.
    """

    parameters: Parameters
    statistics: Statistics | None
    converged: bool
    scores: list[float] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    trace: list[Parameters] = field(default_factory=list)


def alternate(
    model: Alternating[Data, Parameters, Statistics],
    data: Data,
    start: Parameters,
    *,
    tolerance: float,
    max_iterations: int,
    settle: int = 1,
    advance: Callable[[int], None] | None = None,
) -> Alternation[Parameters, Statistics]:
    r"""Take turns: :math:`s \leftarrow E[s \mid x, \theta]`, then :math:`\theta \leftarrow \arg\max_\theta(s)`.

    Parameters
    ----------
    model, data, start
        What is learned, from what, and the first parameters.
    tolerance
        Of the residual.
    max_iterations
        Turns after which it ends, converged or not.
    settle
        Turns in a row that must be within the tolerance; more than one where the statistics are noisy.
    advance
        Called with 1 after each turn, for a progress bar.

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
    parameters, statistics, good = start, None, 0
    end: Alternation[Parameters, Statistics] = Alternation(start, None, False, trace=[start])
    for _ in range(max_iterations):
        statistics = model.expected_statistics(data, parameters)
        end.scores.append(model.score(statistics))
        end.residuals.append(model.residual(statistics))
        if math.isnan(end.residuals[-1]):
            break
        parameters = model.maximize(statistics, parameters)
        end.trace.append(parameters)
        if advance is not None:
            advance(1)
        good = good + 1 if end.residuals[-1] <= tolerance else 0
        if good >= settle:
            break
    return Alternation(parameters, statistics, good >= settle, end.scores, end.residuals, end.trace)
