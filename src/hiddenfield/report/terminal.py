"""Text for a terminal, and tables that subcommands write: CSV, TSV, Parquet, or a plain array."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.paths import atomic
from hiddenfield.inference.posterior import Joint, MapState
from hiddenfield.shapes import Array

if TYPE_CHECKING:
    from hiddenfield.evaluation.comparing import MethodResult
    from hiddenfield.evaluation.query import Answer

# A person reads this many variables; a program asks for --json.
MOST_SHOWN = 40
MOST_COLUMNS = 12


def text_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    text: Collection[int] = (0,),
    title: str | None = None,
) -> str:
    """Return a table with lines, as wide as the terminal and never so narrow that numbers break.

    Parameters
    ----------
    heads, rows
        Plain text.
    text
        Columns aligned to the left; the others are numbers.
    title
        Above it.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column, heading in enumerate(heads):
        table.add_column(heading, justify="left" if column in text else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    sink, width = io.StringIO(), max(120, shutil.get_terminal_size((120, 24)).columns)
    Console(file=sink, width=width, markup=False, emoji=False).print(table)
    return sink.getvalue().rstrip()


def answer_as_text(answer: Answer) -> str:
    """Return the answer to a query as lines of text, at most forty variables or samples of it."""
    from hiddenfield.evaluation.query import Samples

    result, outcome = answer.as_dict(), answer.outcome
    lines = [f"{result['method']}: {outcome.status}, {answer.seconds:.3g} s"]
    if isinstance(outcome, MapState):
        lines.append(f"log value {float(outcome.log_value[0]):.8g} ({outcome.guarantee})")
        if outcome.upper_bound is not None and outcome.guarantee != "exact":
            lines[-1] += f"; the best is at most {float(outcome.upper_bound[0]):.8g}"
    elif isinstance(outcome, Samples):
        lines[0] = f"{len(outcome.states):,} samples ({outcome.guarantee}), {answer.seconds:.3g} s"
    elif isinstance(outcome, Joint):
        lines[0] = f"joint distribution ({outcome.guarantee}), {answer.seconds:.3g} s"
    else:
        lines[0] += f", {result['iterations']:,} iterations, residual {float(outcome.residual.max()):.2g}"
        lines.append(f"log partition {float(outcome.log_partition[0]):.8g} ({outcome.guarantee})")
    if outcome.note:
        lines.append(f"note: {outcome.note}")
    if isinstance(outcome, (Samples, Joint)):
        return "\n".join([*lines, *_row_lines(answer.columns())])
    rows = (result["map"] if result["marginals"] is None else result["marginals"]) or ()
    named = list(rows.items() if isinstance(rows, dict) else enumerate(rows))
    width = max((len(str(name)) for name, _ in named[:MOST_SHOWN]), default=0)
    lines += [f"  {name!s:<{width}}  {_distribution(value)}" for name, value in named[:MOST_SHOWN]]
    if len(named) > MOST_SHOWN:
        lines.append(f"  ... and {len(named) - MOST_SHOWN:,} more; --variable, --json or --out has them")
    return "\n".join(lines)


def _row_lines(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return aligned columns, the first rows and columns of them."""
    shown = list(columns.items())[:MOST_COLUMNS]
    cells = [
        [name, *(_number(v, ".4f") if isinstance(v, float) else str(v) for v in values[:MOST_SHOWN])]
        for name, values in shown
    ]
    widths = [max(map(len, column)) for column in cells]
    lines = [
        "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*cells, strict=True)
    ]
    total = len(next(iter(columns.values()), ()))
    if total > MOST_SHOWN or len(columns) > MOST_COLUMNS:
        lines.append(f"  ... of {total:,} rows and {len(columns):,} columns; --json or --out has all")
    return lines


def _distribution(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{state} {_number(p, '.4f')}" for state, p in value.items())
    return "  ".join(_number(p, ".4f") for p in value) if isinstance(value, list) else str(value)


def _number(value: float | None, form: str) -> str:
    return "" if value is None or math.isnan(value) else format(value, form)


HEADS = ("method", "seconds", "log Z", "guarantee", "error of log Z", "mean TV", "max TV", "status")
WIDTHS = (-16, 9, 15, -11, 14, 8, 8, 0)


def methods_heading() -> str:
    """Return the heading of a table of algorithms whose rows come one by one."""
    line = _fixed(HEADS)
    return f"{line}\n{'-' * (len(line) + 10)}"


def method_row(result: MethodResult) -> str:
    """Return the row of one algorithm."""
    return _fixed(
        (
            result.method,
            _number(result.seconds, ".3g"),
            _number(result.log_partition, "z.6f"),
            result.guarantee or "",
            _number(result.log_partition_error, "+.2e"),
            _number(result.mean_error, ".2e"),
            _number(result.max_error, ".2e"),
            _short(result.status),
        )
    )


def methods_remarks(results: Sequence[MethodResult]) -> str:
    """Return what the rows have no room for: reasons and remedies of their status, and what was chosen."""
    lines = [f"{one.method}: {one.status}" for one in results if _short(one.status) != one.status]
    return "\n".join(lines + [f"{one.method}: {one.note}" for one in results if one.note])


def _short(status: str) -> str:
    return re.split(r" \(|[;:] ", status, maxsplit=1)[0]


def _fixed(cells: Sequence[str]) -> str:
    parts = [
        f"{cell:<{-width}}" if width <= 0 else f"{cell:>{width}}"
        for cell, width in zip(cells, WIDTHS, strict=True)
    ]
    return "  ".join(parts).rstrip()


def write_table(path: Path, table: Mapping[str, Array | list[Any]]) -> None:
    """Write columns of equal length, whole or not at all; an array of objects has None where an entry is missing."""
    suffix = path.suffix.lower()
    columns = {name: np.array(c, dtype=object) if isinstance(c, list) else c for name, c in table.items()}
    with atomic(path) as partial:
        if suffix == ".parquet":
            import pyarrow
            from pyarrow import parquet

            arrays = [pyarrow.array(values.tolist()) for values in columns.values()]
            # Text of which all is missing has no type of its own.
            arrays = [a.cast(pyarrow.string()) if pyarrow.types.is_null(a.type) else a for a in arrays]
            parquet.write_table(pyarrow.table(arrays, list(columns)), partial)
        elif suffix == ".npy":
            with open(partial, "wb") as file:
                np.save(file, np.stack(list(columns.values()), axis=1))
        else:
            with open(partial, "w", newline="", encoding="utf-8") as sink:
                writer = csv.writer(sink, delimiter="\t" if suffix == ".tsv" else ",")
                writer.writerow(columns)
                entries = (map(_entry, values.tolist()) for values in columns.values())
                writer.writerows(zip(*entries, strict=True))


def _entry(value: object) -> object:
    """Return what a CSV writer takes; a number that is missing becomes an empty entry."""
    return "" if value is None or value != value else value
