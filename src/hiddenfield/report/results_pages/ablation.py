"""What each ingredient is worth: its difference from the experiment's first variant, fold by fold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hiddenfield.evaluation.significance import corrected_t_test
from hiddenfield.report.results_pages.rows import Row, by, headings, number, own_of, table, value_of

__all__ = ["ablation"]


def ablation(rows: Sequence[Row], letters: Mapping[str, str]) -> list[str]:
    """Return a table for each protocol: a line for each ingredient, two columns for each set of data.

    A difference is paired by fold, with the 95 % interval of the corrected resampled t test; bold where that has no 0.
    It is from the row of the variant that rows name as their ``reference`` (without that, from the first ingredient of
    the table); where that row is missing there are no differences.
    """
    lines = []
    for above, members in headings(rows, letters):
        lines += above
        data = by(members, lambda row: str(row["data"]))
        names = list(by(members, _name))
        body = [[name] for name in names]
        for column in data.values():
            found = {_name(row): row for row in column}
            for line, name in zip(body, names, strict=True):
                row = found.get(name)
                line += _pair(row, None if row is None else found.get(row.get("reference", names[0])))
        heads = ["ingredient", *(head for name in data for head in (name, f"difference on {name}"))]
        lines += table(heads, body)
    return lines


def _name(row: Row) -> str:
    return str(row.get("variant") or row["model"])


def _pair(row: Row | None, first: Row | None) -> list[str]:
    if row is None:
        return ["", ""]
    text = value_of(own_of(row))
    return [text, "" if first is None or row is first else _difference(row, first)]


def _difference(row: Row, first: Row) -> str:
    values, others = _folds(row), _folds(first)
    gap = own_of(row)["mean"] - own_of(first)["mean"]
    paired = row["protocol"].get("splits") == first["protocol"].get("splits") and len(values) == len(others)
    if not paired or len(values) < 2 or "test_share" not in row["protocol"]:
        return _signed(gap) + (" (other folds)" if not paired else "")
    found = corrected_t_test(values, others, row["protocol"]["test_share"])
    if not math.isfinite(found.low):
        return _signed(gap)
    text = f"{_signed(found.difference)} ({_signed(found.low)} to {_signed(found.high)})"
    return f"**{text}**" if found.low > 0 or found.high < 0 else text


def _signed(value: float) -> str:
    return ("+" if value >= 0 else "−") + number(abs(value))


def _folds(row: Row) -> list[float]:
    if "as_published" in row:
        return [float(value) for value in row["as_published"]["folds"]]
    return [float(fold["value"]) for fold in row.get("folds", ())]
