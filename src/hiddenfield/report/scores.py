"""The comparison: one row a model, as a table on a page and as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hiddenfield.evaluation.measuring import Score
from hiddenfield.report.page import escape

__all__ = ["scores_as_text", "scores_table"]

HEADINGS = {
    "mae": "test MAE",
    "rmse": "test RMSE",
    "r2": "test R²",
    "accuracy": "test accuracy",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "ROC AUC",
}
LOWER_IS_BETTER = ("mae", "rmse")


def scores_table(scores: Sequence[Score]) -> str:
    """Return the comparison as an HTML table: the last row is the model's own, the best of each column is bold."""
    names = list(scores[0].metrics)
    best = {name: _best(name, scores) for name in names}
    header = "".join(f'<th class="number">{HEADINGS[name]}</th>' for name in names)
    rows = []
    for score in scores:
        cells = [f"<td>{escape(score.name)}</td>"]
        for name in names:
            mark = " best" if score.metrics[name] == best[name] else ""
            cells.append(f'<td class="number{mark}">{_number(score.metrics[name])}</td>')
        cells.append(
            f'<td class="number">{score.parameters:,}</td><td class="number">{_seconds(score.seconds)}</td>'
        )
        cells.append(f"<td>{escape(score.note)}</td>")
        opening = '<tr class="own">' if score is scores[-1] else "<tr>"
        rows.append(f"{opening}{''.join(cells)}</tr>")
    fixed = "".join(f'<th class="number">{name}</th>' for name in ("parameters", "seconds"))
    head = f"<tr><th>model</th>{header}{fixed}<th></th></tr>"
    body = f"<thead>{head}</thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="scroll"><table class="scores">{body}</table></div>'


def scores_as_text(scores: Sequence[Score]) -> str:
    """Return the comparison as lines of text.

    Examples
    --------
    >>> print(scores_as_text([Score("mean predictor", {"mae": 1.5, "rmse": 2.0}, 1)]))
    model           test MAE  test RMSE  parameters
    mean predictor    1.5000     2.0000           1
    """
    names = list(scores[0].metrics)
    lines = [["model", *(HEADINGS[name] for name in names), "parameters"]]
    lines += [[s.name, *(_number(s.metrics[name]) for name in names), f"{s.parameters:,}"] for s in scores]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )


def _best(name: str, scores: Sequence[Score]) -> float:
    values = [score.metrics[name] for score in scores if not math.isnan(score.metrics[name])]
    return (min if name in LOWER_IS_BETTER else max)(values, default=math.nan)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:z.4f}" if abs(value) < 1000 else f"{value:.4g}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
