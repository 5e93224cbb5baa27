"""Standard errors by the observed information."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hiddenfield.errors import TooLargeError, TrainingError
from hiddenfield.learning.em import side_by_side
from hiddenfield.learning.protocol import Arrays, Fill
from hiddenfield.learning.turns import add_up
from hiddenfield.shapes import Array, Float

MOST_FREE = 5000
"""Free parameters of which the matrix of information, and its inverse, are still small."""

PACE = 0.05
"""Steps of differences, in the standard errors that parameters would have if nothing were hidden."""


def observed_information(
    model: Any, data: Any, parameters: Arrays
) -> tuple[Float[Array, " free"], Float[Array, "free free"]]:
    r"""Return the free coordinates of parameters, and minus the Hessian of the objective there.

    The slope of the objective is that of the filled-in data (Fisher's identity), which a model's ``gradient`` makes of
    the statistics of one E step,

    .. math:: \nabla \log p(x \mid v) = E[\nabla \log p(x, z \mid v) \mid x, v],

    and its central differences are the Hessian: 2 p E steps for p free parameters, side by side.
    """
    at = model.as_vector(parameters)
    if len(at) > MOST_FREE:
        raise TooLargeError(
            f"the information of {len(at):,} free parameters is a matrix of {8 * len(at) ** 2 / 1e9:.1f} GB, and takes "
            f"{2 * len(at):,} passes over the data; it is computed for at most {MOST_FREE:,}. Learn with fill='gibbs', "
            "whose draws (learned_.draws) have the deviations of all parameters, or learn a smaller model"
        )

    def slope(vector: Array, statistics: Arrays | None = None) -> Array:
        given = model.from_vector(vector, parameters)
        return model.gradient(statistics or add_up(model, data, given, Fill()), given)

    filled = add_up(model, data, model.from_vector(at, parameters), Fill())
    steps = [_step(lambda vector: slope(vector, filled), at, j) for j in range(len(at))]

    def row(j: int) -> Array:
        ahead = np.zeros(len(at))
        ahead[j] = steps[j]
        return (slope(at - ahead) - slope(at + ahead)) / (2 * steps[j])

    found = np.array(side_by_side([partial(row, j) for j in range(len(at))])).reshape(len(at), -1)
    return at, 0.5 * (found + found.T)


def _step(slope: Callable[[Array], Array], at: Array, j: int) -> float:
    """Return a step of `PACE` standard errors by the curvature at fixed statistics, or less where it changes."""
    ahead = np.zeros(len(at))

    def curvature(step: float) -> float:
        ahead[j] = step
        return float((slope(at - ahead) - slope(at + ahead))[j]) / (2 * step)

    step = first = 1e-4 * max(1.0, abs(at[j]))
    wanted = curvature(first)
    if wanted > 0:
        step = PACE / math.sqrt(wanted)
        while step > 2 * first and not 0.7 < curvature(step) / wanted < 1.5:
            step = math.sqrt(step * first)
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
