"""The tables of a page: models by data, what each ingredient is worth, and every number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hiddenfield.evaluation.assessment.measuring import NAMES
from hiddenfield.evaluation.experiments.results.rows import (
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
    table,
    value_of,
)

__all__ = ["every_number", "short_source", "summary"]

# Columns that a page has room for, beside the first.
WIDE = 6

# Simple models that there is room to name in a cell.
FEW = 2


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
        for name, entry in _colours(members):
            cells[data, f"*{name}*"] = value_of(entry)
        for source, figures in by(_figures(members), lambda figure: short_source(figure["source"])).items():
            values = sorted({float(figure["value"]) for figure in figures})
            cells[data, _published(source)] = " / ".join(map(number, values))
    return cells


def _sources(rows: Sequence[Row]) -> list[str]:
    """Return what stands beside the models: linear models on counted colours, and who published."""
    counted = [f"*{name}*" for name, _ in _colours(rows)]
    return list(by([*counted, *(_published(short_source(f["source"])) for f in _figures(rows))], str))


def _colours(rows: Sequence[Row]) -> list[tuple[str, Mapping[str, Any]]]:
    return [pair for row in rows for pair in row["baselines"].items() if pair[0].startswith("WL")]


def _figures(rows: Sequence[Row]) -> list[Mapping[str, Any]]:
    return [figure for row in rows for figure in row["figures"]]


def _data(row: Row) -> str:
    return str(row["data"])


def _published(source: str) -> str:
    return f"*{source}*"


def short_source(source: str) -> str:
    """Return what comes before the first comma: whose figure it is."""
    return source.split(",")[0]


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
    for data, members in by(rows, _data).items():
        used = members[0].get("structures", {}).get("used")
        lines += [f"### {data}", "", *([f"{used:,} structures.", ""] if used else [])]
        metric = members[0]["metric"]
        heads = ["model", "variant", "protocol", "remark"]
        texts = len(heads)
        heads += [NAMES[metric], "95 % interval", _other(metric), "weights"]
        body = [*_simple(members, letters), *(_full(row, letters) for row in members)]
        # What no row has takes no room.
        filled = [k for k in range(len(heads)) if k == 0 or any(line[k] for line in body)]
        body = [[line[k] for k in filled] for line in body]
        lines += table([heads[k] for k in filled], body, text_columns=sum(k < texts for k in filled))
        lines += _leakage(members)
    return lines


def _other(metric: str) -> str:
    """Return the error that stands beside another, by its short name: papers report both."""
    return {"rmse": "MAE", "mae": "RMSE"}.get(metric, "")


def _other_value(entry: Mapping[str, Any], metric: str) -> str:
    value = (entry.get("metrics") or {}).get(_other(metric).lower())
    return "" if value is None else number(value)


def _full(row: Row, letters: Mapping[str, str]) -> list[str]:
    column = group_of(row)
    letter = letters[protocol_of(row)]
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


def _leakage(rows: Sequence[Row]) -> list[str]:
    """Say, once for each way to split, how many test structures had copies and what the means are without them."""
    told = []
    for members in by(rows, lambda row: row["protocol"].get("splits")).values():
        leakage = members[0]["leakage"]
        if not leakage:
            continue
        if not leakage["count"]:
            told.append(f"Leakage ({_columns(members)}): no test structure has a copy in training.")
            continue
        share = f" ({leakage['share']:.1%})" if "share" in leakage else ""
        verb = "has" if leakage["count"] == 1 else "have"
        noun = "test structure" + "s" * (leakage["count"] > 1)
        text = f"Leakage ({_columns(members)}): {leakage['count']:,} {noun}{share} {verb} a copy in training"
        without = [
            f"{label_of(row)} {number(row['leakage']['mean_without'])}"
            for row in members
            if "as_published" not in row and (row["leakage"] or {}).get("mean_without") is not None
        ]
        told.append(text + (f"; means without them: {'; '.join(without)}." if without else "."))
    return [line for text in told for line in (text, "")]


def _columns(rows: Sequence[Row]) -> str:
    return ", ".join(by(rows, lambda row: group_of(row) or "all rows"))
