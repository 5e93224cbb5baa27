"""Models with something hidden, for a reader: what the data are and lack, what was learned, as text and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.table import Table
from hiddenfield.estimators import LATENT, load
from hiddenfield.estimators.sizes import CRITERIA
from hiddenfield.evaluation.latent import MODEL, LearnData, LearnRecord
from hiddenfield.report.drawing import draw
from hiddenfield.report.learned_pictures import paint_patterns, paint_sizes, paint_traces
from hiddenfield.report.learned_sections import found_sections
from hiddenfield.report.page import (
    escape,
    facts,
    figure_box,
    figures,
    html_table,
    write_html,
)
from hiddenfield.report.terminal import text_table
from hiddenfield.shapes import Array, Int

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LINES = 10
"""Patterns that are listed."""


# -- text --------------------------------------------------------------------------------------------------


def data_as_text(data: LearnData) -> str:
    """Say what each column was taken for, what is missing in which pattern, and which columns the model leaves out."""
    lines = [data.table.describe(), *_pattern_lines(data.table)]
    if data.lengths is not None:
        lines.insert(0, _sequences_in_words(data.lengths))
    for reason in dict.fromkeys(data.left_out.values()):
        names = [name for name, own in data.left_out.items() if own == reason]
        lines.append(f"left out, as {reason}: {', '.join(names)}")
    return "\n".join(lines)


def _pattern_lines(table: Table) -> list[str]:
    patterns = table.patterns()
    if not table.missing.any():
        return ["nothing is missing"]
    lines = [f"{len(patterns)} patterns of missingness:"]
    lines += [
        f"  {count:>7,} {_lacking(patterns.missing(number), len(table.names), int(count))}"
        for number, count in enumerate(patterns.counts[:MOST_LINES])
    ]
    if len(patterns) > MOST_LINES:
        rest = int(patterns.counts[MOST_LINES:].sum())
        lines.append(f"  {rest:>7,} rows in {len(patterns) - MOST_LINES:,} other patterns")
    return lines


def _sequences_in_words(lengths: Int[Array, " sequences"]) -> str:
    least, most = (int(each) for each in (lengths.min(), lengths.max()))
    span = f"{most:,} steps" if least == most else f"{least:,} to {most:,} steps"
    return f"{len(lengths):,} sequence{'s' * (len(lengths) != 1)} of {span}"


def _lacking(names: Sequence[str], columns: int, rows: int) -> str:
    one = rows == 1
    if not names:
        return "row is complete" if one else "rows are complete"
    if len(names) == columns:
        return "row is empty" if one else "rows are empty"
    return f"{'row lacks' if one else 'rows lack'} {', '.join(names)}"


def learned_as_text(record: LearnRecord) -> str:
    """Return a table of the sizes that were tried, and below it which was chosen."""
    heads, rows = _size_table(record)
    lines = [text_table(heads, rows, text=(len(heads) - 1,))]
    if len(record.sizes) > 1:
        lines.append(f"chosen by {CRITERIA[record.criterion].split(',')[0]}: {record.chosen}")
    lines += [f"warning: {warning}" for warning in record.best.warnings]
    return "\n".join(lines)


def _head(name: str) -> str:
    return "held out" if name == "cross_validation" else name.upper()


def _word(record: LearnRecord) -> str:
    return (record.size_parameter or "size").removeprefix("num_")


def _size_table(record: LearnRecord) -> tuple[list[str], list[list[str]]]:
    """Return the heads and rows of a table of sizes."""
    names = [name for name in CRITERIA if any(name in one.criteria for one in record.sizes)]
    heads = [_word(record), "log-likelihood", "free", *(_head(name) for name in names), "turns", "status"]
    rows = []
    for one in record.sizes:
        values = [one.log_likelihood, *(one.criteria.get(name) for name in names)]
        shown = ["" if value is None else f"{value:,.2f}" for value in values]
        free, turns = ("" if value is None else f"{value:,}" for value in (one.free, one.iterations))
        size = "" if one.size is None else str(one.size)
        rows.append([size, shown[0], free, *shown[1:], turns, one.error or one.status])
    return heads, rows


def learned_record(data: LearnData, record: LearnRecord) -> dict[str, Any]:
    """Return what a program needs: the record, and what is missing in which pattern."""
    patterns, gone = data.table.patterns(), data.table.missing.sum(axis=0)
    columns = [plain | {"missing": int(count)} for plain, count in zip(record.columns, gone, strict=True)]
    listed = [
        {"rows": int(count), "missing": patterns.missing(number)}
        for number, count in enumerate(patterns.counts)
    ]
    return record.as_dict() | {"columns": columns, "patterns": listed, "left_out": list(data.left_out)}


def imputed_columns(tables: Sequence[Table], *, numbered: bool, ids: str = "id") -> dict[str, list[Any]]:
    """Return the columns of filled tables, one below the other; `numbered` draws have a column that counts them."""
    columns: dict[str, list[Any]] = {}
    if numbered:
        columns["draw"] = [number for number, table in enumerate(tables, 1) for _ in range(len(table))]
    if tables[0].ids is not None:
        columns[ids] = [name for table in tables for name in table.ids.tolist()]  # type: ignore[union-attr]
    parts = [table.to_dict() for table in tables]
    return columns | {name: [_plain(v) for part in parts for v in part[name]] for name in tables[0].names}


def _plain(value: Any) -> Any:
    """Return whole numbers as such, so that what was observed is written as it came."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# -- the page ----------------------------------------------------------------------------------------------


def write_learned_report(
    path: str | Path, data: LearnData, folder: str | Path, record: LearnRecord, *, title: str = "Learned"
) -> Path:
    """Write what was learned as one page of HTML.

    Parameters
    ----------
    path
        Where to.
    data
        What was learned from.
    folder, record
        Of `learn_run`.
    title
        Of the page.
    """
    estimator: Any = load(Path(folder) / MODEL)
    lead = (
        f"{record.model}: {LATENT.facts(record.model).get('summary', '')}. {record.rows:,} rows, "
        f"{record.missing:,} of {data.table.values.size:,} cells missing."
    )
    if data.lengths is not None:
        lead += f" {_sequences_in_words(data.lengths).capitalize()}."
    sections = [
        ("Data", _data_section(data)),
        ("Learning", _learning_section(estimator, record)),
        *found_sections(estimator, data),
        ("Settings", _settings(estimator, record)),
    ]
    return write_html(path, f"{title}: {record.model}", lead, [each for each in sections if each[1]])


def _data_section(data: LearnData) -> str:
    table, gone = data.table, data.table.missing.sum(axis=0)
    rows = [
        [str(column), f"{count:,}", f"{count / max(len(table), 1):.1%}", _role(data, column.name)]
        for column, count in zip(table.columns, gone, strict=True)
    ]
    listed = html_table(["column", "missing", "share", "use"], rows, text=(0, 3))
    if not table.missing.any() or len(table.names) == 1:
        return listed
    patterns = table.patterns()
    height = 1.4 + 0.22 * min(len(patterns), 24)

    def paint(figure: Figure) -> None:
        paint_patterns(figure, table.names, patterns.observed, patterns.counts)

    width = min(9.0, 3.4 + 0.3 * len(table.names))
    box = figure_box(
        draw("patterns", paint, width=width, height=height, title="patterns of missingness"),
        f"The {len(patterns):,} patterns of missingness, the most frequent first: red cells are missing.",
    )
    return listed + figures([box])


def _role(data: LearnData, name: str) -> str:
    return "target" if name in data.targets else "learned from" if name in data.used else "left out"


def _learning_section(estimator: Any, record: LearnRecord) -> str:
    learned = estimator.learned_
    runs = [run for run in learned.runs if run.trace]
    boxes = []
    if runs:
        best = max(range(len(runs)), key=lambda k: runs[k].objective)

        def traces(figure: Figure) -> None:
            paint_traces(figure, [run.trace for run in runs], best)

        caption = f"The objective of {len(runs)} run{'s' * (len(runs) > 1)}, turn by turn."
        boxes.append(figure_box(draw("traces", traces, title="objective by turn"), caption))
    done = [one for one in record.sizes if one.error is None and one.size is not None]
    if len(done) > 1:
        names = [name for name in CRITERIA if all(name in one.criteria for one in done)]
        values = {
            name.upper(): [one.criteria[name] or np.nan for one in done] for name in names if name != "cv"
        }

        def sizes(figure: Figure) -> None:
            paint_sizes(figure, [one.size or 0 for one in done], values, record.chosen or 0, _word(record))

        caption = f"Criteria by the number of {_word(record)}; the line marks the one that was chosen."
        boxes.append(figure_box(draw("sizes", sizes, title="criteria by size"), caption))
    heads, rows = _size_table(record)
    own = next(k for k, one in enumerate(record.sizes) if one.size == record.chosen)
    text = html_table(heads, rows, text=(len(heads) - 1,), own=own)
    text += "".join(f"<p>{escape(warning)}</p>" for warning in record.best.warnings)
    return figures(boxes) + text


def _settings(estimator: Any, record: LearnRecord) -> str:
    from hiddenfield.machine import version

    own = [
        (name, value)
        for name, value in estimator.get_params().items()
        if value is not None and name != "checkpoint"
    ]
    run: list[tuple[str, object]] = [("seed", record.seed), ("criterion", record.criterion)]
    run += [("command", record.command)] if record.command else []
    run += [(name, version(name) or "from source") for name in ("hiddenfield", "numpy")]
    return facts([("Model", own), ("Run", run)])
