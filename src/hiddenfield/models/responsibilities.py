"""Whose a row is: sums over components in log space, draws, and filling in; one row of an array per row."""

from __future__ import annotations

import numpy as np

from hiddenfield.learning.em import Fill
from hiddenfield.shapes import Array, Float, Int


def log_sum(joint: Float[Array, "rows components"]) -> Float[Array, " rows"]:
    """Return the logarithm of the sum of exponentials of each row."""
    top = joint.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(joint - top[:, None]).sum(axis=1)) + top


def draw_rows(shares: Float[Array, "rows components"], generator: np.random.Generator) -> Int[Array, " rows"]:
    """Draw a component for each row, by its shares."""
    steps = shares.cumsum(axis=1)
    return (generator.random(len(shares))[:, None] * steps[:, -1:] > steps[:, :-1]).sum(axis=1)


def fill_in(
    joint: Float[Array, "rows components"], fill: Fill
) -> tuple[Float[Array, " rows"], Float[Array, "rows components"]]:
    """Return the objective of each row and its shares of the components, filled in as asked for."""
    values = log_sum(joint)
    if fill.kind == "expectation":
        return values, np.exp(joint - values[:, None])
    if fill.kind == "mode":
        chosen = joint.argmax(axis=1)
    else:
        assert fill.generator is not None
        chosen = draw_rows(np.exp(joint - values[:, None]), fill.generator)
    return joint[np.arange(len(joint)), chosen], np.eye(joint.shape[1])[chosen]
