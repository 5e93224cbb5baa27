"""Rows of a result: what they are called, which number is theirs, and Markdown tables of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from hiddenfield.evaluation.measuring import METRICS, capital
from hiddenfield.evaluation.significance import confidence_interval

__all__ = [
    "Row",
    "best_of",
    "by",
    "group_of",
    "headings",
    "interval_of",
    "label_of",
    "number",
    "own_of",
    "plain_label_of",
    "protocol_of",
    "rounds_of",
    "run_of",
    "short_source",
    "table",
    "value_of",
]

Row = Mapping[str, Any]
K = TypeVar("K")
V = TypeVar("V")

# Protocols that there is room for above a table.
FEW = 2

ROUNDS = re.compile(r"T = \d+")


def label_of(row: Row) -> str:
    """Return the model, its variant and, where rows differ in it, its number of rounds.

    Examples
    --------
    >>> label_of({"model": "loopy_bp", "variant": "plain", "column": "T = 3"})
    'loopy_bp (plain, T = 3)'
    """
    return _with(row, row.get("variant"), rounds_of(row))


def plain_label_of(row: Row) -> str:
    """Return the same without the variant, which has a column of its own."""
    return _with(row, rounds_of(row))


def _with(row: Row, *details: str | None) -> str:
    told = ", ".join(filter(None, details))
    return f"{row['model']} ({told})" if told else str(row["model"])


def rounds_of(row: Row) -> str:
    """Return ``"T = k"`` where rows differ in it, else nothing."""
    return str(row["column"]) if ROUNDS.fullmatch(row["column"]) else ""


def protocol_of(row: Row) -> str:
    """Return in words how the row's number was come by.

    Examples
    --------
    >>> protocol_of({"protocol": {"text": "10 splits; fixed"}, "as_published": {"text": "selected on them"}})
    '10 splits; selected on them'
    """
    text = str(row["protocol"]["text"])
    return text if "as_published" not in row else f"{text.split(';')[0]}; {row['as_published']['text']}"


def group_of(row: Row) -> str:
    """Return the heading under which rows are compared; a number of rounds is a setting and no heading."""
    return "" if rounds_of(row) else str(row["column"])


def headings(rows: Iterable[Row], letters: Mapping[str, str]) -> list[tuple[list[str], list[Row]]]:
    """Return the rows that are compared with each other, each time with the lines above them: heading and protocol.

    Parameters
    ----------
    rows
        Of the result.
    letters
        By the text of a protocol, the letter that stands for it.
    """
    groups = by(rows, group_of)
    found = []
    for group, members in groups.items():
        lines = [f"### {capital(group)}", ""] if len(groups) > 1 else []
        used = by(members, protocol_of)
        if len(used) > FEW:
            names = ", ".join(letters[text] for text in used)
            told = f"{names}, at the end; under *Every number* each row has its letter"
        else:
            told = "; ".join(f"{letters[text]}: {text}" for text in used)
        lines += [f"Protocol{'s' * (len(used) > 1)} {told}.", ""]
        found.append((lines, members))
    return found


def short_source(source: str) -> str:
    """Return what comes before the first comma: whose figure it is."""
    return source.split(",")[0]


def run_of(row: Row) -> str:
    """Return, as text, when, where and with what the row was computed; rows of one run have the same."""
    return json.dumps(row.get("run"), sort_keys=True)


def own_of(row: Row) -> Row:
    """Return where the row's number is: in what selection on the reported folds gave, if the row is about that."""
    found: Row = row.get("as_published", row)
    return found


def interval_of(row: Row) -> tuple[float, float] | None:
    """Return the 95 % interval of the row's number; that of a number as published is computed from its folds."""
    own = own_of(row)
    if own.get("interval"):
        low, high = own["interval"]
        return float(low), float(high)
    if own is row or len(own.get("folds", ())) < 2 or "test_share" not in row["protocol"]:
        return None
    metric = METRICS[row["metric"]]
    found = confidence_interval(own["folds"], row["protocol"]["test_share"])
    low, high = np.clip(found, metric.lowest, metric.highest).tolist()
    return (low, high) if np.isfinite([low, high]).all() else None


def value_of(entry: Mapping[str, Any]) -> str:
    """Return the mean and, where it is known, the deviation.

    Examples
    --------
    >>> value_of({"mean": 0.8828, "std": 0.05})
    '0.8828 ± 0.0500'
    """
    spread = "" if entry.get("std") is None else f" ± {number(entry['std'])}"
    return number(entry["mean"]) + spread


def number(value: float) -> str:
    """Return a value with four digits that matter."""
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}"


def best_of(rows: Iterable[Row]) -> Row:
    """Return the row with the best number; of equals the first."""
    rows = list(rows)
    sign = 1.0 if METRICS[rows[0]["metric"]].higher_is_better else -1.0
    return max(rows, key=lambda row: sign * own_of(row)["mean"])


def by(rows: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    """Return the rows by what the key gives, in order of appearance."""
    found: dict[K, list[V]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: int = 1) -> list[str]:
    """Return the lines of a Markdown table, numbers to the right.

    Examples
    --------
    >>> table(["model", "value"], [["a", "1"]])
    ['| model | value |', '|---|--:|', '| a | 1 |', '']
    """
    rule = "|" + "|".join("---" if k < text_columns else "--:" for k in range(len(heads))) + "|"
    lines = [_line(heads), rule, *(_line(row) for row in rows)]
    return [*lines, ""]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
