"""The page of a study as Markdown, with its pictures as files beside it."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hiddenfield.data.paths import write_text
from hiddenfield.evaluation.measuring import NAMES, capital
from hiddenfield.report.study.comparisons import SEEN_NOTE, conclusion, headline, published_table, shortfalls
from hiddenfield.report.study.pictures import KINDS, picture_file, picture_lines, pictures_of
from hiddenfield.report.study.records import Result, Row, Run, by
from hiddenfield.report.study.tables import ablation, every_number, ordered_runs, summary, table

CORRECTED = ", since splits share training structures (Nadeau and Bengio 2003)"


def result_files(content: Result, stem: str | None = None) -> dict[str, str]:
    """Return the text of the page and of its pictures, by file name.

    Parameters
    ----------
    content
        What `run_experiment` returned.
    stem
        Beginning of the names; by default the name of the experiment.

    Examples
    --------
    >>> from hiddenfield.report.study import Scale
    >>> list(result_files(Result(experiment="x", scale=Scale(), rows=[])))
    ['x.md']
    """
    stem = content.experiment if stem is None else stem
    drawn = {f"{stem}-{picture.name}.svg": picture_file(picture) for picture in pictures_of(content)}
    return drawn | {f"{stem}.md": results_page(content, stem) + "\n"}


def write_page(path: str | Path, content: Result) -> Path:
    """Write the page, and its pictures beside it, each whole or not at all, the page last.

    Pictures of an earlier page of that name which this one does not have are removed.
    """
    path = Path(path)
    files = result_files(content, path.stem)
    files[path.name] = files.pop(f"{path.stem}.md")
    for name, text in files.items():
        write_text(path.with_name(name), text)
    ours = re.compile(rf"{re.escape(path.stem)}-({'|'.join(KINDS)})(-.*)?\.svg")
    for other in path.parent.glob("*.svg"):
        if ours.fullmatch(other.name) and other.name not in files:
            other.unlink()
    return path


def results_page(content: Result, stem: str | None = None) -> str:
    """Return a result as Markdown: conclusion, one small table, then details, and how every number was obtained.

    Parameters
    ----------
    content
        What `run_experiment` returned.
    stem
        Beginning of the names of picture files; by default the name of the experiment.
    """
    rows = content.rows
    lines = [f"# {content.title}", ""]
    lines += [text, ""] if (text := conclusion(content)) else []
    lines += headline(content)
    for text in (content.about, _only_a_part(content)):
        lines += [text, ""] if text else []
    lines += ["## Results", "", _lead(content), ""]
    lines += ablation(rows) if content.layout == "ablation" else summary(rows)
    lines += _section("Comparison with published figures", published_table(content))
    lines += _section("Where this falls short", [*_missing(content), *shortfalls(content)])
    lines += _section("Plots", picture_lines(content, stem or content.experiment))
    lines += ["## Appendix: every number", "", _explained(rows), "", *every_number(rows)]
    lines += ["## Appendix: protocols", "", *_protocols(rows), *_settings_table(rows)]
    lines += ["## Appendix: how it was run", "", f"`{_command(content)}`", "", *_runs(rows)]
    return "\n".join(lines).rstrip()


def _section(heading: str, lines: Sequence[str]) -> list[str]:
    return [f"## {heading}", "", *lines, *([""] if lines[-1] else [])] if lines else []


def _only_a_part(content: Result) -> str:
    if not content.partial:
        return ""
    scale = msgspec.structs.asdict(content.scale)
    words = ", ".join(
        f"{name.replace('_', ' ')} {', '.join(value) if isinstance(value, tuple) else value}"
        for name, value in scale.items()
        if value not in (None, False)
    )
    return f"**Only a part was run**, to show that it works: {words}. The numbers are not those of the experiment."


def _missing(content: Result) -> list[str]:
    """Name the trials of the experiment that have not been run."""
    found = by(content.missing, lambda place: (place[0], place[3]))
    parts = [
        f"{data}, {column}: "
        + ", ".join(f"{model} ({variant})" if variant else model for _, model, variant, _ in places)
        for (data, column), places in found.items()
    ]
    return [f"- **Not run yet**: {'; '.join(parts)}."] if parts else []


def _lead(content: Result) -> str:
    """Explain the numbers of the first table."""
    rows = content.rows
    text = capital(" and ".join(by([NAMES[row.metric] for row in rows], str)))
    if any(row.shown.std is not None for row in rows):
        text += ", mean ± standard deviation over the splits"
    if content.layout == "ablation":
        text += (
            "; difference from the first row, split by split, with its 95 % interval by the corrected resampled "
            "t-test, in bold where it excludes 0"
        )
    else:
        text += (
            "; the best model of each data set in bold" if len(by(rows, lambda row: row.label)) > 1 else ""
        )
        beside = ["published figures"] if any(row.figures for row in rows) else []
        beside += ["baselines on the same splits"] if any(row.baselines for row in rows) else []
        text += f"; {' and '.join(beside)} in italics" if beside else ""
    return f"{text}. {SEEN_NOTE}" if any(row.marked for row in rows) else f"{text}."


def _explained(rows: Sequence[Row]) -> str:
    """Explain the columns of the tables of all numbers."""
    told = []
    if any(row.as_published is not None for row in rows):
        told.append(
            "Rows marked *optimistic* were selected on the folds that they report, and their intervals do not account "
            "for that; no other row was selected on its test parts."
        )
    if any(row.marked for row in rows):
        told.append(SEEN_NOTE)
    if any(row.baselines for row in rows):
        told.append("Baselines on the same splits are in italics.")
    if any(entry.model_against_it for row in rows for entry in row.baselines.values()):
        told.append(
            "Remarks compare a row with the baselines that were run with it: significant means p < 0.05 by the "
            "corrected t-test, on a single split by the bootstrap."
        )
    if any(row.num_parameters for row in rows):
        told.append("Weights are the trained parameters, mean over the splits.")
    if len(ordered_runs(rows)) > 1:
        told.append("Runs are listed at the end.")
    return " ".join(told)


# -- protocols ---------------------------------------------------------------------------------------------


def _protocols(rows: Sequence[Row]) -> list[str]:
    """Return one line per protocol: which rows it is of, how they were measured, and how intervals were computed."""
    lines = []
    for text, members in by(rows, lambda row: row.protocol_text).items():
        protocol, group = members[0].protocol, members[0].group
        labels, data = (list(by(members, key)) for key in (lambda row: row.label, lambda row: row.data))
        same = by([row for row in rows if row.group == group and row.data in data], lambda row: row.label)
        models = "all models" if len(same) == len(labels) and len(labels) > 1 else ", ".join(labels)
        name = f"{capital(group)}: {models}" if group else capital(models)
        interval = protocol.interval + CORRECTED * ("corrected" in protocol.interval)
        told = f"{capital(text)}; seed {protocol.seed}. Interval: {interval}."
        lines.append(f"- **{name}** ({', '.join(data)}). {told}")
    return [*lines, ""]


def _settings_table(rows: Sequence[Row]) -> list[str]:
    body = [
        [
            "; ".join(sorted({row.label for row in members})),
            ", ".join(by(members, lambda row: row.data)),
            text,
        ]
        for text, members in by(rows, _settings).items()
        if text
    ]
    heads = ["model", "data", "settings"]
    return ["How the settings were chosen:", "", *table(heads, body, text_columns=3)] if body else []


def _settings(row: Row) -> str:
    candidates = row.protocol.candidates
    names = by([name for candidate in candidates for name in candidate], str)
    values = {name: list(by([json.dumps(c.get(name)) for c in candidates], str)) for name in names}
    fixed = row.parameters | {name: json.loads(v[0]) for name, v in values.items() if len(v) == 1}
    text = ", ".join(f"{name} {_plain(value)}" for name, value in fixed.items())
    free = [
        f"{name} from {', '.join(_plain(json.loads(value)) for value in v)}"
        for name, v in values.items()
        if len(v) > 1
    ]
    drawn = " combinations drawn at random" if len(candidates) < math.prod(map(len, values.values())) else ""
    return text + (f"; selected from {len(candidates)}{drawn}: {'; '.join(free)}" if free else "")


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# -- provenance --------------------------------------------------------------------------------------------


def _command(content: Result) -> str:
    """Return the command that gives the result.

    Examples
    --------
    >>> from hiddenfield.report.study import Scale
    >>> _command(Result(experiment="inex", scale=Scale(folds=3, data=("INEX2005",)), rows=[]))
    'hiddenfield reproduce inex --quick --only INEX2005'
    """
    scale = content.scale
    words = ["hiddenfield", "reproduce", content.experiment]
    if scale.structures or scale.folds or scale.epochs or scale.small_grid:
        words.append("--quick")
    words += [word for value in scale.data or () for word in ("--only", value)]
    words += [word for value in scale.models or () for word in ("--model", value)]
    return shlex.join(words)


def _runs(rows: Sequence[Row]) -> list[str]:
    """Return one line per run: date, revision, machine, versions."""
    runs = ordered_runs(rows)
    lines = []
    for place, run in enumerate(runs, start=1):
        sets = ", ".join(by([row.data for row in rows if row.run == run], str))
        head = f"**Run {place}** ({sets}): " if len(runs) > 1 else ""
        lines.append(f"- {head}{_run_in_words(run)}.")
    return lines


def _run_in_words(run: Run) -> str:
    versions = {**run.packages, "python": run.python}
    parts = [
        run.date,
        run.revision and f"revision {run.revision}",
        run.device and f"device {run.device}",
        run.processor,
        f"{run.cores} cores" if run.cores else None,
        f"{run.memory_gib} GiB of memory" if run.memory_gib else None,
        run.gpu,
        run.system and run.system.split()[0],
        ", ".join(f"{name} {version}" for name, version in versions.items() if version),
        run.note,
    ]
    return "; ".join(filter(None, parts)) or "not recorded"
