"""An assessment for a person: as text in a terminal, and as a page."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

from hiddenfield.data.paths import write_text
from hiddenfield.evaluation.measuring import NAMES, capital
from hiddenfield.evaluation.records import (
    AsPublished,
    Assessment,
    BaselineRecord,
    ComparisonRecord,
    Counts,
    LeakageRecord,
    Protocol,
)
from hiddenfield.report.assessment_figures import box_plots, curve_plot, detail_plots
from hiddenfield.report.page import Section, escape, facts, page

__all__ = ["against_as_text", "assessment_as_text", "write_assessment"]

# At most so many values of a selected parameter are listed.
MOST_VALUES = 12

# Verdicts of records, for a reader.
VERDICTS = {"not told apart": "not significantly different"}

Measured = Assessment | BaselineRecord | AsPublished


def assessment_as_text(found: Assessment) -> str:
    """Return a table of the baselines and the model, and below it what a reader must know."""
    from rich.console import Console
    from rich.markup import escape as plain
    from rich.table import Table

    table = Table(title=plain(f"{NAMES[found.metric]} of {found.target}"), title_justify="left")
    for heading in ("model", "mean", "± std", "95 % interval", "the model is", "p"):
        table.add_column(heading, justify="left" if heading in ("model", "the model is") else "right")
    for name, entry in found.baselines.items():
        against = entry.model_against_it
        table.add_row(plain(name), *_cells(entry), _verdict(against), _p_value(against))
    table.add_row(plain(found.model), *_cells(found), "", "", style="bold")
    if found.as_published is not None:
        table.add_row("as published (too good)", *_cells(found.as_published), "", "", style="dim")
    console = Console(file=io.StringIO(), width=max(100, shutil.get_terminal_size((100, 24)).columns))
    console.print(table)
    lines = [console.file.getvalue().rstrip()]  # type: ignore[attr-defined]
    lines += filter(None, [structures_in_words(found.structures)])
    lines += [f"protocol: {found.protocol.text}"]
    if found.leakage is not None:
        lines.append(f"leakage: {leakage_in_words(found.leakage)}")
    return "\n".join([*lines, f"{found.seconds:.1f} s"])


def against_as_text(other: Assessment, found: ComparisonRecord) -> str:
    """Return a line on the comparison with another assessment."""
    p = "" if found.p_value is None else f", p = {found.p_value:.3g}"
    return (
        f"against {other.model} ({other.mean:.4g}): {_verdict(found)}, difference {found.difference:+.4g}{p}"
    )


def structures_in_words(counts: Counts) -> str:
    """Count the structures, if some have no target or are in no split; the empty text if all take part.

    Examples
    --------
    >>> structures_in_words(Counts(180, 2, 100, 8))
    '180 structures; 2 without a target left out; 8 in no split'
    """
    parts = [
        f"{count:,} {words}"
        for count, words in (
            (counts.without_target, "without a target left out"),
            (counts.in_no_split, "in no split"),
        )
        if count
    ]
    return "; ".join([f"{counts.used:,} structures", *parts]) if parts else ""


def leakage_in_words(leakage: LeakageRecord) -> str:
    """Count the test structures with copies in training, and give the mean without them."""
    if not leakage.count:
        return "no test structure has a copy among those it was trained on"
    text = f"{leakage.count} test structures ({leakage.share:.1%}) have a copy among those trained on"
    if leakage.contradicting:
        text += f", {leakage.contradicting} of them only with another target"
    if leakage.mean_without is not None:
        text += f"; without them the mean is {number(leakage.mean_without)}"
    return text


def _cells(entry: Measured) -> tuple[str, str, str]:
    interval = None if isinstance(entry, AsPublished) else entry.interval
    return (
        number(entry.mean),
        "" if entry.std is None else number(entry.std),
        "" if interval is None else f"{number(interval[0])} to {number(interval[1])}",
    )


def number(value: float) -> str:
    """Return a value with four significant digits."""
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}"


def _verdict(against: ComparisonRecord | None) -> str:
    return "" if against is None else VERDICTS.get(against.verdict, against.verdict)


def _p_value(against: ComparisonRecord | None) -> str:
    value = None if against is None else against.p_value
    return "" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


# -- the page ----------------------------------------------------------------------------------------------


def write_assessment(path: str | Path, found: Assessment, *, title: str = "Assessment") -> Path:
    """Write an assessment as one page of HTML that fetches nothing; it is there whole or not at all.

    Parameters
    ----------
    path
        Where to; folders are made.
    found
        What to show.
    title
        Of the page.

    Examples
    --------
    >>> import tempfile, hiddenfield as hf
    >>> from hiddenfield.evaluation import AssessmentSettings, assess
    >>> words = hf.data.from_sequences(["AB" * k for k in range(1, 9)], targets=["short", "long"] * 4)
    >>> quick = {"dim": 4, "epochs": 1, "hidden": 4}
    >>> found = assess("mean_field", words, settings=AssessmentSettings(folds=2), parameters=quick)
    >>> file = write_assessment(Path(tempfile.mkdtemp()) / "assessment.html", found)
    >>> "no arcs, same head" in file.read_text()
    True
    """
    path = Path(path)
    bounds = found.interval
    interval = "" if bounds is None else f" (95 % interval {number(bounds[0])} to {number(bounds[1])})"
    lead = f"{found.model}: {NAMES[found.metric]} {number(found.mean)}{interval}. {capital(found.protocol.text)}."
    write_text(
        path, page(title, lead, _sections(found), "Made by hiddenfield. This file holds all it needs.")
    )
    return path


def _sections(found: Assessment) -> list[Section]:
    sections: list[Section] = [("Comparison", _comparison(found))]
    pictures = [box_plots(found), *([] if found.learning_curve is None else [curve_plot(found)])]
    sections.append(("Folds", f'<div class="figures">{"".join(pictures)}</div>'))
    details = detail_plots(found)
    if details:
        sections.append(("Training and errors", f'<div class="figures">{"".join(details)}</div>'))
    sections.append(("Every split", _folds(found)))
    if found.leakage is not None:
        sections.append(("Leakage", _leakage(found.leakage)))
    sections.append(("Protocol", facts(_facts(found))))
    return sections


def _comparison(found: Assessment) -> str:
    sized = found.num_parameters is not None
    heads = ("mean", "± std", "95 % interval", *(["weights"] if sized else []))
    header = "<tr><th>model</th>" + "".join(f'<th class="number">{name}</th>' for name in heads)
    rows = []
    for name, entry in found.baselines.items():
        parts = [_verdict(entry.model_against_it), _p_value(entry.model_against_it)]
        rows.append(_row(name, entry, ", p ".join(filter(None, parts)), sized=sized))
    rows.append(_row(found.model, found, "", "own", sized=sized))
    if found.as_published is not None:
        rows.append(_row("as published", found.as_published, "too good: chosen on these folds", sized=sized))
    return (
        f'<p>{_note(found)}</p><div class="scroll"><table class="scores">'
        f"<thead>{header}<th>compared with it, the model is</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _note(found: Assessment) -> str:
    """Explain the numbers, and where intervals and p come from."""
    if len(found.folds) > 1:
        return (
            "Means over the test parts, which had no part in any choice. Intervals and p are corrected for folds that "
            "share their training structures (Nadeau and Bengio 2003)."
        )
    return (
        "Values on the test part, which had no part in any choice. Intervals and p come from a bootstrap of its "
        "structures: they do not account for the choice of the training part."
    )


def _row(name: str, entry: Measured, remark: str, kind: str = "", *, sized: bool = False) -> str:
    size = None if isinstance(entry, AsPublished) else entry.num_parameters
    texts = [*_cells(entry), *(["" if size is None else f"{size:,}"] if sized else [])]
    cells = "".join(f'<td class="number">{escape(text)}</td>' for text in texts)
    opening = f'<tr class="{kind}">' if kind else "<tr>"
    return f"{opening}<td>{escape(name)}</td>{cells}<td>{escape(remark)}</td></tr>"


def _folds(found: Assessment) -> str:
    """Return a table of the folds: sizes, value, epochs kept, selected parameters."""
    several = found.protocol.seeds > 1
    selected = any(fold.selected for fold in found.folds)
    epochs = any(fold.epochs is not None for fold in found.folds)
    heads = ["train", "test", NAMES[found.metric]] + ["by seed"] * several + ["epochs kept"] * epochs
    header = "<tr><th>split</th>" + "".join(f'<th class="number">{escape(name)}</th>' for name in heads)
    rows = []
    for fold in found.folds:
        cells = [f"{fold.train:,}", f"{fold.test:,}", number(fold.value)]
        cells += [" ".join(map(number, fold.seeds))] * several
        cells += [" ".join(map(str, fold.epochs or []))] * epochs
        chosen = ", ".join(f"{name} {value}" for name, value in fold.selected.items())
        numbers = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
        rows.append(
            f'<tr><td style="white-space: nowrap">{escape(fold.name)}</td>{numbers}'
            + f"<td>{escape(chosen)}</td>" * selected
            + "</tr>"
        )
    return (
        f'<div class="scroll"><table class="scores"><thead>{header}{"<th>selected</th>" * selected}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _leakage(leakage: LeakageRecord) -> str:
    text = f"<p>{escape(capital(leakage_in_words(leakage)))}.</p>"
    if not leakage.ids:
        return text
    shown = ", ".join(f"{first} = {second}" for first, second in leakage.ids[:20])
    more = f", and {leakage.count - 20} more" if leakage.count > 20 else ""
    return f"{text}<p>Test structure = training structure: {escape(shown + more)}.</p>"


def _facts(found: Assessment) -> list[tuple[str, list[tuple[str, object]]]]:
    protocol, counts = found.protocol, found.structures
    how: list[tuple[str, object]] = [
        ("split", f"{protocol.split}, {protocol.folds} in all"),
        ("selection", _selection(protocol)),
        ("final fits", f"{protocol.seeds} per split"),
        ("interval", protocol.interval),
    ]
    if len(protocol.candidates) > 1:
        how.insert(2, ("candidates", _candidates(protocol.candidates)))
    parts = (("tested", counts.tested), ("in no split", counts.in_no_split))
    data: list[tuple[str, object]] = [
        ("structures", f"{counts.used:,}"),
        ("without target", counts.without_target),
        *[(name, f"{count:,}") for name, count in parts if count is not None],
        ("target", found.target),
        ("task", found.task),
    ]
    again: list[tuple[str, object]] = [
        ("seed", protocol.seed),
        ("data", protocol.data),
        ("splits", protocol.splits),
        ("time", f"{found.seconds:.1f} s"),
    ]
    return [("How", how), ("Data", data), ("To reproduce it", again)]


def _selection(protocol: Protocol) -> str:
    if not protocol.inner:
        return "none: settings given, none selected"
    return protocol.inner if len(protocol.candidates) > 1 else "none: 1 candidate"


def _candidates(candidates: list[dict[str, Any]]) -> str:
    """Count them, and list the values of each parameter.

    Examples
    --------
    >>> _candidates([{"dim": 32, "rounds": 2}, {"dim": 64, "rounds": 2}])
    '2: dim 32, 64; rounds 2'
    """
    values: dict[str, list[str]] = {}
    for candidate in candidates:
        for name, value in candidate.items():
            values.setdefault(name, []).append(str(value))
    parts = []
    for name, several in values.items():
        different = list(dict.fromkeys(several))
        more = f" and {len(different) - MOST_VALUES} more" if len(different) > MOST_VALUES else ""
        parts.append(f"{name} {', '.join(different[:MOST_VALUES])}{more}")
    return f"{len(candidates)}: {'; '.join(parts)}"
