"""The tables of a page: models by data, what each ingredient is worth, and every number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from hiddenfield.evaluation.measuring import NAMES, capital
from hiddenfield.report.results_pages.rows import (
    Row,
    best_of,
    by,
    group_of,
    headings,
    interval_of,
    label_of,
    number,
    own_of,
    plain_label_of,
    protocol_of,
    run_of,
    short_source,
    table,
    value_of,
)

__all__ = ["every_number", "summary"]

# Columns that a page has room for, beside the first.
WIDE = 6

# Simple models that there is room to name in a cell.
FEW = 2

# Simple models that look at nothing.
TRIVIAL = ("class frequencies", "mean predictor")


def summary(rows: Sequence[Row], letters: Mapping[str, str]) -> list[str]:
    """Return, for each protocol, a table of models by data, with the published figures beside; the longer side down."""
    lines = []
    for above, members in headings(rows, letters):
        lines += above
        data, models = list(by(members, _data)), list(by(members, label_of))
        cells = _cells(members)
        if len(data) > len(models) or len(data) > WIDE:
            lines += _wide("data", data, [*models, *_sources(members)], cells, False)
        else:
            lines += _wide("model", [*models, *_sources(members)], data, cells, True)
    return lines


def _wide(
    head: str,
    down: Sequence[str],
    across: Sequence[str],
    cells: Mapping[tuple[str, str], str],
    models_down: bool,
) -> list[str]:
    """Return one table, or several below each other where there are too many columns."""
    lines = []
    for start in range(0, len(across), WIDE):
        part = across[start : start + WIDE]
        body = [
            [one, *(cells.get((two, one) if models_down else (one, two), "") for two in part)] for one in down
        ]
        lines += table([head, *part], body)
    return lines


def _cells(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    """Return the text for each set of data and model or source; the best here is bold."""
    cells = {}
    for data, members in by(rows, _data).items():
        best = best_of(members)
        for row in members:
            text = value_of(own_of(row))
            cells[data, label_of(row)] = f"**{text}**" if row is best and len(members) > 1 else text
        for name, entry in _compared_with(members):
            cells[data, f"*{name}*"] = value_of(entry)
        for source, figures in by(_figures(members), lambda figure: short_source(figure["source"])).items():
            values = sorted({float(figure["value"]) for figure in figures})
            cells[data, _published(source)] = " / ".join(map(number, values))
    return cells


def _sources(rows: Sequence[Row]) -> list[str]:
    """Return what stands beside the models: simple models, and who published."""
    simple = [f"*{name}*" for name, _ in _compared_with(rows)]
    return list(by([*simple, *(_published(short_source(f["source"])) for f in _figures(rows))], str))


def _compared_with(rows: Sequence[Row]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the simple models that see something of the structures, with their numbers; the best of each name."""
    pairs = [(name, entry, row) for row in rows for name, entry in row["baselines"].items()]
    found = by([pair for pair in pairs if pair[0] not in TRIVIAL], lambda pair: pair[0])
    return [
        (name, best_of([{**entry, "metric": row["metric"]} for _, entry, row in same]))
        for name, same in found.items()
    ]


def _figures(rows: Sequence[Row]) -> list[Mapping[str, Any]]:
    return [figure for row in rows for figure in row["figures"]]


def _data(row: Row) -> str:
    return str(row["data"])


def _published(source: str) -> str:
    return f"*{source}*"


# -- every number ------------------------------------------------------------------------------------------


def every_number(rows: Sequence[Row], letters: Mapping[str, str]) -> list[str]:
    """Return a table for each set of data: simple models, then all rows, with interval, size and protocol.

    Parameters
    ----------
    rows
        Of the result.
    letters
        By the text of a protocol, the letter that stands for it.
    """
    lines = []
    runs = list(by(rows, run_of))
    for data, members in by(rows, _data).items():
        used = members[0].get("structures", {}).get("used")
        lines += [f"### {data}", "", *([f"{used:,} structures.", ""] if used else [])]
        metric = members[0]["metric"]
        heads = ["model", "variant", "protocol", "remark"]
        texts = len(heads)
        heads += [NAMES[metric], "95 % interval", _other(metric), "weights"]
        body = [*_simple(members, letters), *(_full(row, letters, runs) for row in members)]
        # What no row has takes no room.
        filled = [k for k in range(len(heads)) if k == 0 or any(line[k] for line in body)]
        body = [[line[k] for k in filled] for line in body]
        lines += table([heads[k] for k in filled], body, text_columns=sum(k < texts for k in filled))
        lines += [line for row in members for line in _learning_curve(row)]
        lines += _leakage(members)
    return lines


def _other(metric: str) -> str:
    """Return the error that stands beside another, by its short name: papers report both."""
    return {"rmse": "MAE", "mae": "RMSE"}.get(metric, "")


def _other_value(entry: Mapping[str, Any], metric: str) -> str:
    value = (entry.get("metrics") or {}).get(_other(metric).lower())
    return "" if value is None else number(value)


def _full(row: Row, letters: Mapping[str, str], runs: Sequence[str]) -> list[str]:
    column = group_of(row)
    letter = letters[protocol_of(row)] + (f"{runs.index(run_of(row)) + 1}" if len(runs) > 1 else "")
    # The weights of a row as published would be those of the fits with fixed settings, which it is not about.
    size = None if "as_published" in row else row.get("num_parameters")
    return [
        plain_label_of(row),
        row.get("variant") or "",
        f"{column} ({letter})" if column else letter,
        _remark(row),
        value_of(own_of(row)),
        _interval(interval_of(row)),
        _other_value(own_of(row), row["metric"]),
        "" if size is None else f"{size:,}",
    ]


def _remark(row: Row) -> str:
    """Say which settings a number as published was chosen with, or which simple models the row is better than."""
    if "as_published" in row:
        own = row["as_published"]
        chosen = [f"{name} {value}" for name, value in own.get("selected", {}).items()]
        return ", ".join([*chosen, *([f"epoch {own['epoch']}"] if "epoch" in own else [])])
    verdicts = by(
        [(name, entry["model_against_it"]["verdict"]) for name, entry in _compared(row)], lambda pair: pair[1]
    )
    told = []
    if "better" in verdicts:
        told.append(f"better than {len(verdicts['better'])} of {len(_compared(row))}")
    for verdict, words in (("worse", "worse than"), ("not told apart", "not told apart from")):
        names = [name for name, _ in verdicts.get(verdict, ())]
        few = len(names) <= FEW
        told += (
            [f"{words} {name}" for name in names]
            if few
            else [f"{words} {len(names)} of {len(_compared(row))}"]
        )
    return "; ".join(told)


def _compared(row: Row) -> list[tuple[str, Any]]:
    return [(name, entry) for name, entry in row["baselines"].items() if "model_against_it" in entry]


def _simple(rows: Sequence[Row], letters: Mapping[str, str]) -> list[list[str]]:
    """Return the simple models; one that has the same numbers beside several rows is there once."""
    found = by(
        [(row, name, entry) for row in rows for name, entry in row["baselines"].items()],
        lambda triple: (triple[1], value_of(triple[2]), triple[0]["protocol"].get("splits")),
    )
    lines = []
    for (name, text, splits), triples in found.items():
        entry = triples[0][2]
        there = [row for row, _, _ in triples]
        others = [row for row in rows if row["baselines"] and row["protocol"].get("splits") == splits]
        remark = "" if len(there) == len(others) else "beside " + "; ".join(label_of(row) for row in there)
        used = ", ".join(by(there, lambda row: letters[protocol_of(row)]))
        interval = tuple(entry["interval"]) if entry.get("interval") else None
        size = entry.get("num_parameters")
        line = [f"*{name}*", "", used, remark, text, _interval(interval)]
        metric = there[0]["metric"]
        lines.append([*line, _other_value(entry, metric), "" if size is None else f"{size:,}"])
    return sorted(lines, key=lambda line: bool(line[3]))


def _interval(found: tuple[float, ...] | None) -> str:
    return "" if not found else f"{number(found[0])} to {number(found[1])}"


def _learning_curve(row: Row) -> list[str]:
    """Return the means over the splits for shares of the training structures, the row's own and the simple models'."""
    curve = row.get("learning_curve")
    if not curve:
        return []
    simple = list(curve[0]["baselines"])
    body = [
        [
            f"{point['train']:,.0f}",
            number(fmean(point["values"])),
            *(number(fmean(point["baselines"][name])) for name in simple),
        ]
        for point in curve
    ]
    heads = ["structures to learn from", label_of(row), *(f"*{name}*" for name in simple)]
    title = f"{capital(NAMES[row['metric']])} by how many structures there are to learn from:"
    return [title, "", *table(heads, body)]


def _leakage(rows: Sequence[Row]) -> list[str]:
    """Say, once for each way to split, how many test structures had copies and what the means are without them."""
    lines = []
    for members in by(rows, lambda row: row["protocol"].get("splits")).values():
        leakage = members[0]["leakage"]
        if not leakage:
            continue
        lines += [f"Leakage ({_columns(members)}): {_copies(leakage)}.", ""]
        without = [
            [label_of(row), number(row["mean"]), number(row["leakage"]["mean_without"])]
            for row in members
            if "as_published" not in row and (row["leakage"] or {}).get("mean_without") is not None
        ]
        lines += table(["model", "mean", "without copies"], without) if leakage["count"] and without else []
    return lines


def _copies(leakage: Mapping[str, Any]) -> str:
    """Say how many copies there are.

    Examples
    --------
    >>> _copies({"count": 12, "share": 0.06, "contradicting": 1})
    '12 test structures (6.0%) have a copy in training; 1 is labelled otherwise than all its copies'
    """
    count, against = leakage["count"], leakage.get("contradicting", 0)
    if not count:
        return "no test structure has a copy in training"
    share = f" ({leakage['share']:.1%})" if "share" in leakage else ""
    noun, verb = ("test structures", "have") if count > 1 else ("test structure", "has")
    text = f"{count:,} {noun}{share} {verb} a copy in training"
    whose = "are labelled otherwise than all their" if against > 1 else "is labelled otherwise than all its"
    return f"{text}; {against:,} {whose} copies" if against else text


def _columns(rows: Sequence[Row]) -> str:
    return ", ".join(by(rows, lambda row: group_of(row) or "all rows"))
