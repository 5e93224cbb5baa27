"""The page of an experiment, from its result alone."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from hiddenfield.evaluation.measuring import NAMES, capital
from hiddenfield.report.results_pages.ablation import ablation
from hiddenfield.report.results_pages.pictures import picture_lines
from hiddenfield.report.results_pages.provenance import command_of, runs_in_words
from hiddenfield.report.results_pages.rows import (
    Row,
    by,
    label_of,
    own_of,
    protocol_of,
    run_of,
    table,
)
from hiddenfield.report.results_pages.shortfalls import beside_published, shortfalls
from hiddenfield.report.results_pages.tables import every_number, summary

__all__ = ["results_page"]

CORRECTED = ", for splits share training structures (Nadeau and Bengio 2003)"


def results_page(content: Mapping[str, Any], stem: str | None = None) -> str:
    """Return a result as Markdown: the protocol beside every number, and where it falls short of a published one.

    Parameters
    ----------
    content
        What `run_experiment` gave.
    stem
        What the files of pictures begin with; by default the name of the experiment.

    Examples
    --------
    >>> row = {
    ...     "data": "MUTAG",
    ...     "model": "loopy_bp",
    ...     "column": "honest",
    ...     "metric": "accuracy",
    ...     "mean": 0.8,
    ...     "std": 0.05,
    ...     "interval": [0.75, 0.85],
    ...     "protocol": {"text": "10 splits"},
    ...     "baselines": {},
    ...     "leakage": None,
    ...     "figures": [{"value": 0.9, "source": "GIN", "protocol": "nested"}],
    ... }
    >>> page = results_page({"experiment": "x", "title": "T", "about": "", "scale": {}, "rows": [row]})
    >>> print(next(line for line in page.splitlines() if "Not reached" in line))
    - **MUTAG, honest**: loopy_bp has 0.8000 (95 % interval 0.7500 to 0.8500). **Not reached**: 0.9000 of GIN ...
    """
    rows: list[Row] = list(content["rows"])
    partial = any(value not in (None, False, [], ()) for value in content["scale"].values())
    letters = _letters(rows)
    lines = [f"# {content['title']}", "", content["about"], ""]
    if partial:
        lines += [
            f"**A part only**, to show that it runs: {_scale(content['scale'])}. The figures are not the experiment's.",
            "",
        ]
    lines += ["## Results", "", _lead(content, rows), ""]
    lines += (ablation if content.get("layout") == "ablation" else summary)(rows, letters)
    lines += _section("Beside published figures", beside_published(rows, partial))
    lines += _section(
        "Where this falls short", [*_missing(content), *shortfalls(rows, content.get("remarks", ()), partial)]
    )
    lines += _section("Pictures", picture_lines(content, stem or str(content["experiment"])))
    lines += ["## Every number", "", _explained(rows), "", *every_number(rows, letters)]
    lines += ["## Protocols", "", *_protocols(rows, letters)]
    lines += ["## How it was run", "", *runs_in_words(content)]
    return "\n".join(lines).rstrip()


def _section(heading: str, lines: Sequence[str]) -> list[str]:
    return [f"## {heading}", "", *lines, *([""] if lines[-1] else [])] if lines else []


def _missing(content: Mapping[str, Any]) -> list[str]:
    """Say which trials of the experiment have not been run."""
    found = by(content.get("missing", ()), lambda place: (place[0], place[3]))
    if not found:
        return []
    parts = [
        f"{data}, {column}: "
        + ", ".join(f"{model} ({variant})" if variant else model for _, model, variant, _ in places)
        for (data, column), places in found.items()
    ]
    return [f"- **Not run yet**: {'; '.join(parts)}."]


def _lead(content: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Say what the numbers of the first table are."""
    metrics = " and ".join(by([NAMES[row["metric"]] for row in rows], str))
    text = capital(metrics)
    if any(own_of(row)["std"] is not None for row in rows):
        text += ", mean ± standard deviation over the splits"
    if content.get("layout") == "ablation":
        text += (
            "; the difference from the first row, split by split, with its 95 % interval by the corrected resampled "
            "t test, bold where that excludes 0"
        )
    else:
        text += "; bold is the best of a set here" if len(by(rows, label_of)) > 1 else ""
        beside = ["what others published"] if any(row["figures"] for row in rows) else []
        if any(row["baselines"] for row in rows):
            beside.append("simple models on the same splits")
        text += f"; in italics {' and '.join(beside)}" if beside else ""
    return f"{text}. Seed, machine and versions are at the end; `{command_of(content)}`."


def _explained(rows: Sequence[Row]) -> str:
    text = "Letters stand for the protocols below, which also say how intervals are come by"
    text += ", and the numbers after them for the runs at the end." if len(by(rows, run_of)) > 1 else "."
    if any(row["baselines"] for row in rows):
        text += " In italics the simple models on the same splits."
    if any("model_against_it" in entry for row in rows for entry in row["baselines"].values()):
        text += (
            " The remark of a row that they were fitted beside says which of them it is better than, with p < 0.05 by "
            "the corrected t test, of a single split by the bootstrap."
        )
    if any("as_published" in row for row in rows):
        text += " Intervals of numbers as published do not know of the selection, and are too high with them."
    if any("num_parameters" in row for row in rows):
        text += " Weights are the numbers that are trained, the mean over the splits."
    return text


# -- protocols ---------------------------------------------------------------------------------------------


def _letters(rows: Sequence[Row]) -> dict[str, str]:
    """Return a letter for each protocol, in order of appearance: A to Z, then AA and on."""
    texts = list(by(rows, protocol_of))
    return {text: (chr(64 + k // 26) if k >= 26 else "") + chr(65 + k % 26) for k, text in enumerate(texts)}


def _protocols(rows: Sequence[Row], letters: Mapping[str, str]) -> list[str]:
    lines = []
    for text, members in by(rows, protocol_of).items():
        parts = [f"{text}; seed {members[0]['protocol'].get('seed', 0)}"]
        kind = members[0]["protocol"].get("interval")
        parts += [f"interval: {kind}{CORRECTED if 'corrected' in kind else ''}"] if kind else []
        sets = ", ".join(by(members, lambda row: str(row["data"])))
        lines.append(f"- **{letters[text]}** ({sets}): {'. '.join(capital(part) for part in parts)}.")
    lines.append("")
    body = [
        [
            "; ".join(sorted({label_of(row) for row in members})),
            ", ".join(by(members, lambda row: row["data"])),
            text,
        ]
        for text, members in by(rows, _settings).items()
        if text
    ]
    return lines + (
        [
            "Settings, and what was selected from:",
            "",
            *table(["model", "data", "settings"], body, text_columns=3),
        ]
        if body
        else []
    )


def _settings(row: Row) -> str:
    fixed = [f"{name} {_plain(value)}" for name, value in row.get("parameters", {}).items()]
    candidates = row["protocol"].get("candidates", [])
    names = by([name for candidate in candidates for name in candidate], str)
    free = []
    for name in names:
        values = by([json.dumps(candidate.get(name)) for candidate in candidates], str)
        if len(values) > 1:
            free.append(f"{name} of {', '.join(_plain(json.loads(value)) for value in values)}")
        else:
            fixed.append(f"{name} {_plain(candidates[0].get(name))}")
    text = ", ".join(fixed)
    whole = math.prod(len(by([json.dumps(c.get(name)) for c in candidates], str)) for name in names)
    drawn = " combinations drawn at random" if len(candidates) < whole else ""
    return text + (f"; selected from {len(candidates)}{drawn}: {'; '.join(free)}" if free else "")


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _scale(scale: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {', '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for name, value in scale.items()
        if value not in (None, False)
    )
