"""Maximum likelihood by gradient ascent: traces, standard errors, and an honest account of where an ascent ended."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.learning.protocol import Objective
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float

OPTIMISERS = {"lbfgs": "L-BFGS-B", "conjugate_gradient": "CG"}
MOST_TRACED = 10_000
"""Parameters beyond which a trace has the first and the last step only."""
BOUND = 50.0
"""A parameter beyond this has run away: there is no maximum in sight."""
NEWTON_STEPS = 8
MOST_ON_RIDGE = 4
"""Parameters for which a simplex is tried where gradients fail."""
FLAT = 1e-7
"""Curvature, in units in which each parameter alone has 1, below which a direction says nothing about them."""


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
        The parameters after each step; the first and the last alone where there are more than `MOST_TRACED`.
    standard_errors
        From the curvature at a maximum; None where none was confirmed.
    ran_away
        Whether a parameter went beyond `BOUND`.
    """

    parameters: Float[Array, " parameters"]
    value: float
    gradient: Float[Array, " parameters"]
    converged: bool
    status: str
    trace: Float[Array, "steps parameters"]
    standard_errors: Float[Array, " parameters"] | None = None
    ran_away: bool = False


def maximise(
    objective: Objective,
    start: Float[Array, " parameters"],
    *,
    optimiser: str = "lbfgs",
    tolerance: float = 1e-5,
    max_iterations: int = 200,
    scale: Float[Array, " parameters"] | None = None,
    bound: float = BOUND,
) -> Ascent:
    """Climb from a start to a stationary point of an objective.

    Parameters
    ----------
    objective
        What is maximised.
    start
        Where to begin.
    optimiser
        "lbfgs" or "conjugate_gradient".
    tolerance
        Largest component of the gradient at a stationary point, relative to max(1, |value|).
    max_iterations
        After these it ends.
    scale
        Units of the parameters, 1 by default: the first step is about one unit long, and the tolerance is that of the
        gradient in these units.
    bound
        A parameter beyond this has run away, and the ascent ends.

    Examples
    --------
    >>> import numpy as np
    >>> class Bowl:
    ...     def batch(self, rows):
    ...         return -(rows**2).sum(1), -2 * rows
    >>> ascent = maximise(Bowl(), np.array([3.0, -1.0]))
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
        value, gradient = _at(objective, x * unit)
        return -value, -gradient * unit

    class _Runaway(Exception):
        pass

    def look(x: Array) -> None:
        if len(begin) > MOST_TRACED:
            del trace[1:]
        trace.append(np.array(x) * unit)
        if np.abs(trace[-1]).max() > bound:
            raise _Runaway

    ran_away, last, left = False, math.inf, max_iterations
    try:
        # What is small beside the value at the start may be large beside that at the end.
        while (goal := tolerance * max(1.0, abs(_at(objective, trace[-1])[0]))) < last / 2 and left > 0:
            options = {"maxiter": left, "gtol": goal}
            if optimiser == "lbfgs":  # the gradient says when it ends, not how little the last steps gained
                options["ftol"] = 1e-14
            found = minimize(
                descend, trace[-1] / unit, jac=True, method=method, callback=look, options=options
            )
            left -= found.nit
            if left > 0:
                _backtrack(descend, trace[-1] / unit, goal, look)
            last = goal
    except _Runaway:
        ran_away = True
    end = trace[-1]
    value, gradient = _at(objective, end)
    steepest = float(np.abs(gradient * unit).max(initial=0.0))
    converged = not ran_away and steepest <= 10 * tolerance * max(1.0, abs(value))
    status, slope = "converged", float(np.abs(gradient).max(initial=0.0))
    if ran_away:
        status = (
            f"no stationary point: the parameters run away (beyond {bound:g}) and the likelihood still rises"
        )
    elif not converged:
        status = (
            f"no stationary point was reached from this start: it stopped where the gradient is {slope:.3g}"
        )
    return Ascent(end, value, gradient, converged, status, np.array(trace), ran_away=ran_away)


def climb_ridge(objective: Objective, ascent: Ascent) -> Ascent:
    """Go on from where gradients failed: along the ridge where two phases meet, on which there is no gradient.

    The log-likelihood is that of the better phase, so that it has a crease where phases change place. Nelder and Mead's
    simplex climbs creases; what it finds is the best there is, and still not a stationary point.
    """
    from scipy.optimize import minimize

    count = len(ascent.parameters)
    if ascent.converged or ascent.ran_away or count > MOST_ON_RIDGE:
        return ascent
    scale = 0.1 / np.sqrt(np.maximum(np.abs(np.diag(_hessian(objective, ascent.parameters))), 1.0))
    scale = np.maximum(scale, 1e-3)
    simplex = ascent.parameters + np.concatenate([np.zeros((1, count)), np.diag(scale)])
    options = {"initial_simplex": simplex, "maxfev": 60 * count, "xatol": 1e-5, "fatol": 1e-3}
    found = minimize(
        lambda row: -_at(objective, row)[0], ascent.parameters, method="Nelder-Mead", options=options
    )
    end = found.x if -found.fun > ascent.value else ascent.parameters
    value, gradient = _at(objective, end)
    steepest = float(np.abs(gradient).max(initial=0.0))
    good, status = steepest <= 1e-4 * max(1.0, abs(value)), "converged"
    if not good:
        status = (
            f"no stationary point: the best lies on a ridge, where one phase takes over from another and the gradient "
            f"({steepest:.3g}) does not vanish"
        )
    trace = np.concatenate([ascent.trace, end[None]])
    return Ascent(np.asarray(end), value, gradient, good, status, trace)


def confirm_maximum(objective: Objective, ascent: Ascent, names: Sequence[str]) -> Ascent:
    """Polish the end of an ascent by Newton's method, and call it converged only if that settles at a maximum.

    Where the likelihood runs away, its gradient becomes small as well: the tail is exponential, gradient and curvature
    shrink together, and each Newton step is as long as the last. At a maximum the steps vanish, and the inverse of
    minus the Hessian has the squared standard errors on its diagonal.
    """
    if not ascent.converged:
        return ascent
    theta, trace, length = ascent.parameters, [ascent.trace], np.inf
    for turn in range(NEWTON_STEPS + 1):
        value, gradient = _at(objective, theta)
        curvature = -_hessian(objective, theta)
        # In units in which every parameter has curvature 1: abundant features would hide the others.
        unit = 1 / np.sqrt(np.maximum(np.abs(np.diag(curvature)), FLAT**2))
        eigenvalues, vectors = np.linalg.eigh(curvature * unit[:, None] * unit)
        if eigenvalues.min() <= FLAT:
            direction = unit * vectors[:, int(np.argmin(eigenvalues))]
            status = _no_maximum(direction, names, bool(eigenvalues.min() < -1e-3))
            return dataclasses.replace(ascent, converged=False, status=status)
        largest = max(1.0, float(np.abs(theta).max()))
        settled = turn == NEWTON_STEPS and length <= 1e-3 * largest
        step = unit * (vectors @ ((vectors.T @ (gradient * unit)) / eigenvalues))
        length = float(np.abs(step).max())
        if settled or length <= 1e-6 * largest:
            return dataclasses.replace(
                ascent,
                parameters=theta,
                value=value,
                gradient=gradient,
                trace=np.concatenate([*trace, theta[None]]),
                standard_errors=np.sqrt(np.diag(np.linalg.inv(curvature))),
            )
        theta = theta + step * min(1.0, 0.5 / length)
        trace.append(theta[None])
    return dataclasses.replace(ascent, converged=False, status=_no_maximum(step, names, False))


def _no_maximum(direction: Array, names: Sequence[str], rises: bool) -> str:
    """Say along which parameters there is no maximum."""
    main = np.abs(direction) >= 0.3 * np.abs(direction).max()
    along = ", ".join(name for name, there in zip(names, main, strict=True) if there)
    if rises:
        return f"no stationary point: the likelihood curves upwards there along {along} (a saddle, not a maximum)"
    return (
        f"no stationary point: the likelihood runs away or is flat along {along}; fix a weight or add a ridge"
    )


def _hessian(objective: Objective, theta: Array) -> Array:
    """Return the Hessian by central differences of the gradient, over steps of a fiftieth of a standard error.

    Standard errors may differ by orders of magnitude: a first Hessian over equal steps tells how small each is.
    """
    step = 1e-5 * np.maximum(1.0, np.abs(theta))
    for last in (False, True):
        moves = np.diag(step)
        _, gradients = objective.batch(np.concatenate([theta + moves, theta - moves]))
        count = len(theta)
        hessian = (gradients[:count] - gradients[count:]) / (2 * step[:, None])
        if not last:
            curvature = np.maximum(-np.diag(hessian), 1e-6)
            step = np.clip(0.02 / np.sqrt(curvature), 1e-8, 1e-3)
    return np.asarray((hessian + hessian.T) / 2)


def _at(objective: Objective, row: Array) -> tuple[float, Array]:
    values, gradients = objective.batch(row[None])
    return float(values[0]), gradients[0]


def _backtrack(
    descend: Callable[[Array], tuple[float, Array]], x: Array, goal: float, look: Callable[[Array], None]
) -> None:
    """Go on by steepest descent with halved steps where a line search gave up, as it does before a crease."""
    step = 1.0
    for _ in range(30):
        value, gradient = descend(x)
        slope = float(np.sqrt((gradient**2).sum()))
        if float(np.abs(gradient).max(initial=0.0)) <= goal or not np.isfinite(slope):
            return
        while step > 1e-5 and not descend(x - step * gradient / slope)[0] <= value - 1e-4 * step * slope:
            step /= 2
        if step <= 1e-5:
            return
        x = x - step * gradient / slope
        look(x)
        step *= 2
