"""What a single split can tell: its test structures drawn again and again, with replacement."""

from __future__ import annotations

import math

import numpy as np

from hiddenfield.evaluation.assessment.cells import Context
from hiddenfield.evaluation.assessment.finished import Finished
from hiddenfield.evaluation.assessment.measuring import Predictions
from hiddenfield.evaluation.assessment.simple import BLIND_NAME
from hiddenfield.evaluation.significance import Comparison
from hiddenfield.shapes import Array, Float

__all__ = ["METHOD", "OWN", "difference", "draw_again", "interval"]

RESAMPLES = 1000
METHOD = "paired bootstrap of the test structures"

# The model itself, among the names of those that stand beside it.
OWN = ""


def draw_again(context: Context, finished: Finished) -> dict[str, Float[Array, " draws"]]:
    """Return the metric of each model on 1000 draws of the test structures, the same draws for all.

    As the value itself is, that of a draw is the mean over the seeds. Simple models are there that kept their
    predictions. What a draw cannot tell, for it holds one class, is NaN.
    """
    truth = context.problem.truth[context.splits[0].test]
    tables = {OWN: [Predictions.kept(result) for result in finished.of("final", 0)]}
    tables |= _beside(finished, len(truth))
    name, generator = context.metric.name, np.random.default_rng(context.seed)
    found = {model: np.empty(RESAMPLES) for model in tables}
    for number in range(RESAMPLES):
        drawn = generator.integers(len(truth), size=len(truth))
        for model, several in tables.items():
            values = [table[drawn].measure(truth[drawn], name)[name] for table in several]
            found[model][number] = np.mean(values)
    return found


def _beside(finished: Finished, count: int) -> dict[str, list[Predictions]]:
    found: dict[str, list[Predictions]] = {}
    for result in finished.of("simple", 0)[:1]:
        for name, rows in result.get("tables", {}).items():
            table = np.asarray(rows, dtype=np.float64)
            # Of a constant one row is kept for all.
            found[name] = [Predictions(np.repeat(table, count, axis=0) if len(table) == 1 else table)]
    blind = finished.of("blind", 0)
    return found | ({BLIND_NAME: [Predictions.kept(result) for result in blind]} if blind else {})


def interval(values: Float[Array, " draws"]) -> list[float] | None:
    """Return the 95 % interval of what was drawn; None where too few draws could tell.

    Examples
    --------
    >>> interval(np.arange(1001.0))
    [25.0, 975.0]
    """
    known = values[np.isfinite(values)]
    return None if len(known) < len(values) / 2 else np.quantile(known, [0.025, 0.975]).tolist()


def difference(mean: float, own: Float[Array, " draws"], other: Float[Array, " draws"]) -> Comparison | None:
    r"""Compare two models by their differences d on the same B draws; None where too few draws could tell.

    .. math:: p = 2 \min\bigl(1 + \#\{d \le 0\},\, 1 + \#\{d \ge 0\}\bigr) / (B + 1)

    and at most 1: how often chance alone would turn the difference round. It knows of the test structures that happen
    to be there, not of the training structures, of which there is one set.

    Parameters
    ----------
    mean
        The difference on the test structures themselves.
    own, other
        The metric of both on the draws.

    References
    ----------
    B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap, 1993, chapters 13 and 15.

    Examples
    --------
    >>> difference(0.1, np.full(999, 0.9), np.full(999, 0.8)).p_value
    0.002
    """
    differences = own - other
    bounds = interval(differences)
    if bounds is None:
        return None
    known = differences[np.isfinite(differences)]
    fewer = 1 + min(int((known <= 0).sum()), int((known >= 0).sum()))
    return Comparison(mean, bounds[0], bounds[1], math.nan, min(1.0, 2 * fewer / (len(known) + 1)))
