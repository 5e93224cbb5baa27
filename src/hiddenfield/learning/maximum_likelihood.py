"""Gradient ascent on a log-likelihood from many starts, with traces, and an honest account of where it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float

__all__ = ["OPTIMISERS", "Ascent", "maximise"]

OPTIMISERS = {"lbfgs": "L-BFGS-B", "conjugate_gradient": "CG"}


@dataclass(frozen=True, eq=False)
class Ascent:
    """Where an ascent ended.

    Parameters
    ----------
    parameters, value, gradient
        At the end.
    converged
        Whether the gradient is small there: a stationary point.
    status
        How it ended, in words.
    trace
        The parameters after each step.
    """

    parameters: Float[Array, " parameters"]
    value: float
    gradient: Float[Array, " parameters"]
    converged: bool
    status: str
    trace: Float[Array, "steps parameters"]


def maximise(
    function: Callable[[Array], tuple[float, Array]],
    start: Float[Array, " parameters"],
    *,
    optimiser: str = "lbfgs",
    tolerance: float = 1e-5,
    max_iterations: int = 200,
    bound: float = 50.0,
    scale: Float[Array, " parameters"] | None = None,
) -> Ascent:
    """Climb from a start to a stationary point of a function that returns its value and gradient.

    Parameters
    ----------
    function
        Returns value and gradient at a point.
    start
        Where to begin.
    optimiser
        "lbfgs" or "conjugate_gradient".
    tolerance
        Largest component of the gradient at a stationary point, relative to max(1, |value|).
    max_iterations
        After these it ends.
    bound
        A parameter beyond this has run away: there is no maximum in sight.
    scale
        Units of the parameters, 1 by default: the first step is about one unit long, and the tolerance is that of the
        gradient in these units.

    Examples
    --------
    >>> import numpy as np
    >>> ascent = maximise(lambda x: (-float((x**2).sum()), -2 * x), np.array([3.0, -1.0]))
    >>> ascent.converged, ascent.parameters.round(6) + 0.0
    (True, array([0., 0.]))
    """
    from scipy.optimize import minimize

    method = choose("optimiser", OPTIMISERS, optimiser)
    begin = np.asarray(start, dtype=np.float64)
    if not np.isfinite(begin).all():
        raise InputError(f"the start must be finite, got {begin}")
    unit = np.ones_like(begin) if scale is None else np.asarray(scale, dtype=np.float64)
    trace = [begin.copy()]

    def descend(x: Array) -> tuple[float, Array]:
        value, gradient = function(x * unit)
        return -value, -np.asarray(gradient) * unit

    class _Runaway(Exception):
        pass

    def look(x: Array) -> None:
        trace.append(np.array(x) * unit)
        if np.abs(trace[-1]).max() > bound:
            raise _Runaway

    ran_away = False
    first, _ = function(begin)
    goal = tolerance * max(1.0, abs(first))
    options = {"maxiter": max_iterations, "gtol": goal}
    try:
        minimize(descend, begin / unit, jac=True, method=method, callback=look, options=options)
        _backtrack(descend, trace[-1] / unit, goal, look)
    except _Runaway:
        ran_away = True
    end = trace[-1]
    value, gradient = function(end)
    steepest = float(np.abs(gradient * unit).max(initial=0.0))
    converged = not ran_away and steepest <= 10 * tolerance * max(1.0, abs(value))
    if ran_away:
        status = (
            f"no stationary point: the parameters run away (beyond {bound:g}) and the likelihood still rises"
        )
    elif converged:
        status = "converged"
    else:
        slope = float(np.abs(gradient).max())
        status = (
            f"no stationary point was reached from this start: it stopped where the gradient is {slope:.3g}"
        )
    return Ascent(end, float(value), np.asarray(gradient), converged, status, np.array(trace))


def _backtrack(
    descend: Callable[[Array], tuple[float, Array]], x: Array, goal: float, look: Callable[[Array], None]
) -> None:
    """Go on by steepest descent with halved steps where a line search gave up, as it does before a crease."""
    step = 1.0
    for _ in range(30):
        value, gradient = descend(x)
        slope = float(np.sqrt((gradient**2).sum()))
        if slope <= goal or not np.isfinite(slope):
            return
        while step > 1e-5 and not descend(x - step * gradient / slope)[0] <= value - 1e-4 * step * slope:
            step /= 2
        if step <= 1e-5:
            return
        x = x - step * gradient / slope
        look(x)
        step *= 2
