"""Assessment: what came out, with everything that is needed to judge it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.errors import InputError, ReadError
from hiddenfield.evaluation.assessment.measuring import METRICS, Metric, finite
from hiddenfield.evaluation.significance import Comparison, confidence_interval, corrected_t_test

__all__ = ["Assessment", "compare", "summarise"]


@dataclass(frozen=True)
class Assessment:
    """How good a model is on structures that it has not seen, as far as these data can tell.

    Parameters
    ----------
    content
        Plain values: ``metric``, ``mean``, ``std``, ``interval``, ``metrics``, ``folds`` (of each its value, metrics,
        sizes and selected settings), ``protocol``, ``baselines``, ``leakage``, ``seconds``; ``num_parameters`` and
        ``training_curve`` of networks; ``ranges`` of a number, ``roc`` of two classes; ``learning_curve`` and
        ``as_published`` where they were asked for.
    """

    content: Mapping[str, Any] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return str(self.content["metric"])

    @property
    def mean(self) -> float:
        """Mean over the folds."""
        return float(self.content["mean"])

    @property
    def values(self) -> list[float]:
        """The metric, fold by fold."""
        return [float(fold["value"]) for fold in self.content["folds"]]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, as they are written."""
        return dict(self.content)

    @classmethod
    def read(cls, path: str | Path) -> Assessment:
        """Read what ``hiddenfield evaluate --json`` or its folder holds."""
        file = Path(path)
        file = file / "assessment.json" if file.is_dir() else file
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if not {"metric", "mean", "folds", "protocol"} <= content.keys():
                raise ValueError("keys are missing")
        except (OSError, ValueError, AttributeError) as error:
            raise ReadError(f"is not a finished assessment ({error})", file=file) from None
        return cls(content)

    def __repr__(self) -> str:
        """Metric, mean, deviation and protocol on one line."""
        spread = "" if self.content["std"] is None else f" ± {self.content['std']:.4g}"
        return f"Assessment({self.metric} {self.mean:.4g}{spread}; {self.content['protocol']['text']})"


def summarise(values: list[float], test_share: float, metric: Metric) -> dict[str, Any]:
    """Return mean, standard deviation over the folds (n - 1) and the corrected 95 % interval of the mean.

    The interval ends where the metric does.

    Examples
    --------
    >>> summarise([0.8, 0.9], 1.0, METRICS["accuracy"])["interval"]
    [0.0, 1.0]
    """
    low, high = np.clip(confidence_interval(values, test_share), metric.lowest, metric.highest).tolist()
    known = np.isfinite(low)
    return {
        "mean": float(np.mean(values)),
        "std": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "interval": [low, high] if known else None,
    }


def compare(first: Assessment, second: Assessment) -> Comparison:
    """Test whether the first model is better than the second, by the corrected resampled t-test.

    Both must be of the same metric on the same splits of the same data.

    Returns
    -------
    Comparison
        With the difference of the first less the second.
    """
    for name, where in (("metric", "metric"), ("data", "protocol"), ("splits", "protocol")):
        one, two = (
            (a.content[where] if where == "metric" else a.content[where][name]) for a in (first, second)
        )
        if one != two:
            raise InputError(
                f"the assessments cannot be compared: {name} is {one} in one and {two} in the other; assess both on "
                f"the same data, splits and metric"
            )
    share = float(first.content["protocol"]["test_share"])
    return corrected_t_test(first.values, second.values, share)


def comparison_as_dict(found: Comparison, metric: str) -> dict[str, Any]:
    """Return plain values, and in a word which of the two is better: a difference counts where p < 0.05.

    p and the interval are None where they cannot be told.
    """
    better = found.difference > 0 if METRICS[metric].higher_is_better else found.difference < 0
    verdict = "not told apart" if not found.p_value < 0.05 else "better" if better else "worse"
    bounds = [finite(found.low), finite(found.high)]
    return {
        "difference": finite(found.difference),
        "interval": None if bounds[0] is None else bounds,
        "p_value": finite(found.p_value),
        "verdict": verdict,
    }
