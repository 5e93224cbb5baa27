"""How training went: recorded epoch by epoch in the cells, averaged over folds and seeds in the assessment."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hiddenfield.evaluation.assessment.measuring import finite
from hiddenfield.shapes import Array, Int

__all__ = ["training_curve", "training_records"]

# Points of a curve, at most.
POINTS = 200


def training_records(model: Any) -> list[dict[str, list[float | None]]] | None:
    """Return, of every network of a fitted estimator, the steps done and the losses and metrics after each epoch.

    None of an estimator that keeps no history, or does not count its steps. Times are left out: they differ from run
    to run.
    """
    histories = getattr(model, "histories_", None)
    if not histories or not all(history.rows and "steps" in history.rows[0] for history in histories):
        return None
    return [
        {name: [_rounded(row.get(name), 6) for row in history.rows] for name in _names(history.rows[0])}
        for history in histories
    ]


def _names(row: Mapping[str, float]) -> list[str]:
    return ["steps", "train_loss", *sorted(name for name in row if name.startswith("valid_"))]


def training_curve(records: Sequence[Mapping[str, Sequence[float | None]]], metric: str) -> dict[str, Any]:
    """Return the means over the records after each epoch, at most 200 of them, evenly spread, the last always there.

    Networks that stopped early count as long as they trained; ``runs`` says how many those were.

    Parameters
    ----------
    records
        As `training_records` gives them.
    metric
        The one that the assessment is about.

    Returns
    -------
    dict
        ``metric``, the name of the column to look at: the metric itself where it was recorded, else the loss;
        ``epochs``, ``steps``, ``runs`` and a column for each loss and metric.

    Examples
    --------
    >>> records = [
    ...     {"steps": [5, 10], "valid_loss": [1.0, 0.5]},
    ...     {"steps": [5, 10, 15], "valid_loss": [2.0, 1.5, 0.3]},
    ... ]
    >>> found = training_curve(records, "roc_auc")
    >>> found["metric"], found["steps"], found["runs"], found["valid_loss"]
    ('valid_loss', [5, 10, 15], [2, 2, 1], [1.5, 1.0, 0.3])
    """
    shown = _thinned(max(len(record["steps"]) for record in records))
    columns = [name for name in records[0] if name != "steps" and all(name in record for record in records)]
    chosen = next((name for name in (f"valid_{metric}", "valid_loss") if name in columns), "train_loss")
    tables = {name: _table([record[name] for record in records]) for name in ("steps", *columns)}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice", RuntimeWarning)
        means = {name: np.nanmean(table, axis=0)[shown] for name, table in tables.items()}
    return {
        "metric": chosen,
        "epochs": (shown + 1).tolist(),
        "steps": [round(value) for value in means["steps"].tolist()],
        "runs": (~np.isnan(tables["steps"])).sum(axis=0)[shown].tolist(),
        **{name: [_rounded(value, 5) for value in means[name].tolist()] for name in columns},
    }


def _thinned(count: int) -> Int[Array, " shown"]:
    """Return positions, evenly spread, among them the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(np.int64))


def _table(several: Sequence[Sequence[float | None]]) -> Array:
    """Return (records, epochs), NaN where there is nothing."""
    table = np.full((len(several), max(map(len, several))), np.nan)
    for row, values in zip(table, several, strict=True):
        row[: len(values)] = [np.nan if value is None else value for value in values]
    return table


def _rounded(value: float | None, digits: int) -> float | None:
    """Return the digits that matter; None for what JSON has no number for."""
    if value is None or finite(value) is None or isinstance(value, int):
        return value if isinstance(value, int) else None
    return float(f"{value:.{digits}g}")
