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
from hiddenfield.inference.posterior import MapState
from hiddenfield.shapes import Array

if TYPE_CHECKING:
    from hiddenfield.evaluation.query import Answer, MethodResult

# A person reads this many variables; a program asks for --json.
MOST_SHOWN = 40


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


def answer_as_text(answer: Answer, method: str) -> str:
    """Return the answer to a query as lines of text, at most forty variables of it."""
    result, outcome = answer.as_dict(), answer.outcome
    lines = [f"{method}: {outcome.status}, {answer.seconds:.3g} s"]
    if isinstance(outcome, MapState):
        lines.append(f"log value {float(outcome.log_value[0]):.8g} ({outcome.guarantee})")
        if outcome.upper_bound is not None and outcome.guarantee != "exact":
            lines[-1] += f"; the best is at most {float(outcome.upper_bound[0]):.8g}"
    else:
        lines[0] += f", {result['iterations']:,} iterations, residual {float(outcome.residual.max()):.2g}"
        lines.append(f"log partition {float(outcome.log_partition[0]):.8g} ({outcome.guarantee})")
    if outcome.note:
        lines.append(outcome.note)
    rows = (result["map"] if result["marginals"] is None else result["marginals"]) or ()
    named = list(rows.items() if isinstance(rows, dict) else enumerate(rows))
    width = max((len(str(name)) for name, _ in named[:MOST_SHOWN]), default=0)
    lines += [f"  {name!s:<{width}}  {_distribution(value)}" for name, value in named[:MOST_SHOWN]]
    if len(named) > MOST_SHOWN:
        lines.append(f"  ... and {len(named) - MOST_SHOWN:,} more; --json or --out has all")
    return "\n".join(lines)


def _distribution(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{state} {_number(p, '.4f')}" for state, p in value.items())
    return "  ".join(_number(p, ".4f") for p in value) if isinstance(value, list) else str(value)


def _number(value: float | None, form: str) -> str:
    return "" if value is None or math.isnan(value) else format(value, form)


def methods_as_text(results: Sequence[MethodResult]) -> str:
    """Return a comparison of algorithms as a table, with the reasons and remedies of their status below."""
    heads = ("method", "seconds", "log Z", "guarantee", "error of log Z", "mean TV", "max TV", "status")
    short = [re.split(r" \(|[;:] ", result.status, maxsplit=1)[0] for result in results]
    rows = [
        (
            result.method,
            _number(result.seconds, ".3g"),
            _number(result.log_partition, "z.6f"),
            result.guarantee or "",
            _number(result.log_partition_error, "+.2e"),
            _number(result.mean_error, ".2e"),
            _number(result.max_error, ".2e"),
            status,
        )
        for result, status in zip(results, short, strict=True)
    ]
    longer = [
        f"{one.method}: {one.status}"
        for one, status in zip(results, short, strict=True)
        if status != one.status
    ]
    return "\n".join([text_table(heads, rows, text=(0, 3, 7)), *longer])


def write_table(path: Path, columns: Mapping[str, Array]) -> None:
    """Write columns of equal length, whole or not at all; an array of objects has None where an entry is missing."""
    suffix = path.suffix.lower()
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
