"""Whose a row is: sums over components in log space, draws, filling in, and what all mixtures say of rows."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.models.parts import Composed
from hiddenfield.shapes import Array, Float, Int


def _over(function: np.ufunc, values: Float[Array, "first second"], axis: int) -> Float[Array, " others"]:
    """Reduce over the components: one after the other where they are last, where NumPy takes four times as long."""
    return reduce(function, values.T) if axis else function.reduce(values, axis=0)


def _scaled(
    joint: Float[Array, "first second"], axis: int
) -> tuple[Float[Array, " others"], Float[Array, "first second"], Float[Array, " others"]]:
    """Return the largest of the components, exponentials in units of it, and their sum."""
    top = _over(np.maximum, joint, axis)
    top = np.where(np.isfinite(top), top, 0.0)
    shares = np.exp(joint - np.expand_dims(top, axis))
    return top, shares, _over(np.add, shares, axis)


def log_sum(joint: Float[Array, "first second"], axis: int = 1) -> Float[Array, " others"]:
    """Return the logarithm of the sum of exponentials over the components, which an axis has."""
    top, _, total = _scaled(joint, axis)
    with np.errstate(divide="ignore"):
        return np.log(total) + top


def draw_rows(shares: Float[Array, "rows components"], generator: np.random.Generator) -> Int[Array, " rows"]:
    """Draw a component for each row, by its shares."""
    steps = shares.cumsum(axis=1)
    return (generator.random(len(shares))[:, None] * steps[:, -1:] > steps[:, :-1]).sum(axis=1)


def fill_in(
    joint: Float[Array, "first second"], fill: Fill, axis: int = 1
) -> tuple[Float[Array, " others"], Float[Array, "first second"]]:
    """Return the objective of each row and its shares of the components, which an axis has, filled in as asked for."""
    if fill.kind == "mode":
        chosen = joint.argmax(axis=axis)
    else:
        top, shares, total = _scaled(joint, axis)
        shares /= np.expand_dims(total, axis)
        if fill.kind == "expectation":
            return np.log(total) + top, shares
        assert fill.generator is not None
        chosen = draw_rows(np.moveaxis(shares, axis, 1), fill.generator)
    chosen = np.expand_dims(chosen, axis)
    components = np.expand_dims(np.arange(joint.shape[axis]), 1 - axis)
    return np.take_along_axis(joint, chosen, axis).squeeze(axis), (components == chosen).astype(float)


class Mixture(Composed):
    """Base of models in which every row is of one component; a subclass gives `log_joint`."""

    def log_joint(self, data: Any, parameters: Arrays) -> Float[Array, "rows components"]:
        """Return the log joint density of each row and component."""
        raise TypeError(f"{type(self).__name__} has no density; a subclass of Mixture gives `log_joint`")

    def log_likelihood(self, data: Any, parameters: Arrays) -> Float[Array, " rows"]:
        """Return the log-likelihood of each row."""
        return log_sum(self.log_joint(data, parameters))

    def infer(self, data: Any, parameters: Arrays) -> Float[Array, "rows components"]:
        """Return the posterior probability of each component; the prior where none can have the row."""
        joint = self.log_joint(data, parameters)
        total = log_sum(joint)[:, None]
        possible = np.isfinite(total)
        return np.where(possible, np.exp(joint - np.where(possible, total, 0.0)), parameters["weights"])

    def members(self, data: Any, parameters: Arrays, component: int) -> Int[Array, " members"]:
        """Return the rows that are more likely of a component than not."""
        return np.flatnonzero(self.infer(data, parameters)[:, component] > 0.5)
