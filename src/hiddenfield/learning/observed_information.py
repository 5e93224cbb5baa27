"""Standard errors by the observed information."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hiddenfield.errors import TooLargeError, TrainingError
from hiddenfield.learning.protocol import Arrays, Fill
from hiddenfield.learning.turns import add_up
from hiddenfield.shapes import Array, Float

MOST_FREE = 300
"""Free parameters beyond which twice their square of E steps is too many."""

PACE = 0.05
"""Steps of differences, in standard errors given all other parameters."""


def observed_information(
    model: Any, data: Any, parameters: Arrays
) -> tuple[Float[Array, " free"], Float[Array, "free free"]]:
    r"""Return the free coordinates of parameters, and minus the Hessian of the objective there.

    Second differences of the log-likelihood (plus log prior), with steps of a twentieth of a standard error of each
    coordinate given the others, so that what is cut off is a thousandth or so and rounding less. Costs :math:`2 p^2` E
    steps for p free parameters.
    """
    at = model.as_vector(parameters)
    if len(at) > MOST_FREE:
        raise TooLargeError(
            f"standard errors of {len(at)} free parameters take {2 * len(at) ** 2:,} passes over the data; they are "
            f"computed for at most {MOST_FREE}. Learn with fill='gibbs', whose draws (learned_.draws) have the "
            "deviations of all parameters, or learn a smaller model"
        )

    def objective(vector: Array) -> float:
        given = model.from_vector(vector, parameters)
        return float(add_up(model, data, given, Fill())["objective"]) + float(model.log_prior(given))

    top, unit = objective(at), np.eye(len(at))
    steps = np.array([_step(objective, at, row, top) for row in unit])
    ahead = unit * steps
    above, below = (np.array([objective(at + sign * row) for row in ahead]) for sign in (1, -1))
    hessian = np.diag(above + below - 2 * top)
    for i in range(len(at)):
        for j in range(i):
            both = [
                objective(at + a * ahead[i] + b * ahead[j]) for a, b in ((1, 1), (-1, -1), (1, -1), (-1, 1))
            ]
            hessian[i, j] = hessian[j, i] = (both[0] + both[1] - both[2] - both[3]) / 4
    return at, -hessian / np.outer(steps, steps)


def _step(objective: Callable[[Array], float], at: Array, along: Array, top: float) -> float:
    """Return a step by which the objective falls as over `PACE` standard errors: by a half of its square."""
    wanted, step = 0.5 * PACE**2, 1e-3
    for _ in range(8):
        fall = top - 0.5 * (objective(at + step * along) + objective(at - step * along))
        if fall > 0 and 0.5 < fall / wanted < 2:
            break
        step *= math.sqrt(wanted / fall) if fall > wanted * 1e-6 else 30.0
        step = min(step, 3.0)
    return step


def standard_errors(model: Any, data: Any, parameters: Arrays) -> Arrays:
    r"""Return the standard error of every parameter, by the delta method.

    .. math:: \mathrm{Var}[g(\hat v)] \approx J H^{-1} J^\top, \qquad J = \partial g / \partial v

    with H the observed information in the free coordinates v and g what makes parameters of them. Asymptotic: right for
    many data and a maximum inside of what is possible. Fixed parameters have errors of 0.

    Parameters
    ----------
    model, data, parameters
        What was learned, from what, and where the likelihood has its maximum.

    Raises
    ------
    TrainingError
        Where the information is not positive definite: this is no maximum, or parameters are not identified.

    References
    ----------
    Louis (1982), Finding the observed information matrix when using the EM algorithm.
    """
    at, information = observed_information(model, data, parameters)
    jacobian = _jacobian(lambda v: _flat(model.from_vector(v, parameters)), at)
    scale = np.sqrt(np.maximum(np.abs(np.diag(information)), 1e-300))
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    if not values[0] > 1e-7:
        direction = np.abs(jacobian @ (vectors[:, 0] / scale))
        name = _name_of(parameters, int(direction.argmax()))
        raise TrainingError(
            f"no standard errors: in a direction that changes {name!r} most, the likelihood has no maximum here. Learn "
            "with a smaller tolerance, or have a simpler model, whose parameters the data tell apart"
        )
    root = (vectors / np.sqrt(values)) / scale[:, None]
    errors = np.sqrt(((jacobian @ root) ** 2).sum(1))
    sizes = np.cumsum([value.size for value in parameters.values()])[:-1]
    parts = np.split(errors, sizes)
    return {
        name: part.reshape(value.shape) for (name, value), part in zip(parameters.items(), parts, strict=True)
    }


def scores(model: Any, data: Any, parameters: Arrays) -> Float[Array, "structures free"]:
    """Return the gradient of the log-likelihood of each datum in the free coordinates.

    By the model's own `scores` where it has them, else by central differences: 2 p passes for p coordinates.
    """
    if hasattr(model, "scores"):
        return np.asarray(model.scores(data, parameters))
    at = model.as_vector(parameters)
    return _jacobian(lambda v: model.log_likelihood(data, model.from_vector(v, parameters)), at)


def _flat(parameters: Arrays) -> Float[Array, " entries"]:
    return np.concatenate([np.asarray(value, float).reshape(-1) for value in parameters.values()])


def _jacobian(function: Callable[[Array], Array], at: Float[Array, " free"]) -> Float[Array, "entries free"]:
    steps = 1e-5 * np.maximum(1, np.abs(at))
    sides = [(function(at + row), function(at - row)) for row in np.diag(steps)]
    return np.array(
        [(above - below) / (2 * step) for (above, below), step in zip(sides, steps, strict=True)]
    ).T


def _name_of(parameters: Arrays, entry: int) -> str:
    """Return the name of the array that an entry of the flat vector belongs to."""
    for name, value in parameters.items():
        if entry < value.size:
            return f"{name}[{', '.join(str(i) for i in np.unravel_index(entry, value.shape))}]"
        entry -= value.size
    raise IndexError(entry)
