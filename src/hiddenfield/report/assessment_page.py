"""An assessment for a person: as text in a terminal, and as a page."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

from hiddenfield.data.paths import write_text
from hiddenfield.evaluation.assessment.measuring import NAMES, capital
from hiddenfield.evaluation.assessment.outcome import Assessment
from hiddenfield.report.assessment_curves import detail_plots
from hiddenfield.report.assessment_figures import box_plots, curve_plot
from hiddenfield.report.page import Section, escape, facts, page

__all__ = ["assessment_as_text", "write_assessment"]

# Of a setting that is selected, so many values are listed.
MOST_VALUES = 12


def assessment_as_text(found: Assessment) -> str:
    """Return a table: the simple models, then the model, and below it what a reader must know."""
    from rich.console import Console
    from rich.markup import escape as plain
    from rich.table import Table

    content = found.content
    table = Table(title=plain(f"{NAMES[found.metric]} of {content['target']}"), title_justify="left")
    for heading in ("model", "mean", "± std", "95 % interval", "the model is", "p"):
        table.add_column(heading, justify="left" if heading in ("model", "the model is") else "right")
    for name, entry in content["baselines"].items():
        against = entry.get("model_against_it", {})
        table.add_row(plain(name), *_cells(entry), against.get("verdict", ""), _p_value(against))
    table.add_row(plain(content["model"]), *_cells(content), "", "", style="bold")
    if "as_published" in content:
        table.add_row("as published (too good)", *_cells(content["as_published"]), "", "", style="dim")
    console = Console(file=io.StringIO(), width=max(100, shutil.get_terminal_size((100, 24)).columns))
    console.print(table)
    lines = [console.file.getvalue().rstrip()]  # type: ignore[attr-defined]
    counted = structures_in_words(content["structures"])
    lines += [counted] * bool(counted)
    lines += [f"protocol: {content['protocol']['text']}"]
    if content["leakage"] is not None:
        lines.append(f"leakage: {leakage_in_words(content)}")
    return "\n".join([*lines, f"{content['seconds']:.1f} s"])


def structures_in_words(counts: Any) -> str:
    """Say how many structures there are, if some are without a target or in no split; nothing if all take part.

    Examples
    --------
    >>> structures_in_words({"used": 180, "without target": 2, "tested": 100, "in no split": 8})
    '180 structures; 2 without a target left out; 8 in no split'
    """
    told = [
        f"{counts.get(key, 0):,} {words}" * bool(counts.get(key))
        for key, words in (
            ("without target", "without a target left out"),
            ("in no split", "in no split"),
        )
    ]
    return "; ".join([f"{counts['used']:,} structures", *filter(None, told)]) if any(told) else ""


def leakage_in_words(content: Any) -> str:
    """Say how many test structures were copies of training ones, and what that is worth."""
    leakage = content["leakage"]
    if not leakage["count"]:
        return "no test structure has a copy among those it was trained on"
    text = f"{leakage['count']} test structures ({leakage['share']:.1%}) have a copy among those trained on"
    if leakage["contradicting"]:
        text += f", {leakage['contradicting']} of them only with another target"
    if leakage["mean_without"] is not None:
        text += f"; without them the mean is {number(leakage['mean_without'])}"
    return text


def _cells(entry: Any) -> tuple[str, str, str]:
    interval = entry.get("interval")
    return (
        number(entry["mean"]),
        "" if entry["std"] is None else number(entry["std"]),
        "" if not interval else f"{number(interval[0])} to {number(interval[1])}",
    )


def number(value: float) -> str:
    """Return a value with four digits that matter."""
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}"


def _p_value(against: Any) -> str:
    value = against.get("p_value")
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
    content = found.content
    low_high = content.get("interval")
    interval = "" if not low_high else f" (95 % interval {number(low_high[0])} to {number(low_high[1])})"
    lead = f"{content['model']}: {NAMES[found.metric]} {number(found.mean)}{interval}. {_sentence(content)}"
    text = page(title, lead, _sections(content), "Made by hiddenfield. This file holds all it needs.")
    write_text(path, text)
    return path


def _sentence(content: Any) -> str:
    return capital(str(content["protocol"]["text"])) + "."


def _sections(content: Any) -> list[Section]:
    sections: list[Section] = [("Comparison", _comparison(content))]
    pictures = [box_plots(content, NAMES[content["metric"]])]
    if "learning_curve" in content:
        pictures.append(curve_plot(content, NAMES[content["metric"]]))
    sections.append(("Folds", f'<div class="figures">{"".join(pictures)}</div>'))
    details = detail_plots(content)
    if details:
        sections.append(("Training and errors", f'<div class="figures">{"".join(details)}</div>'))
    sections.append(("Every split", _folds(content)))
    if content["leakage"] is not None:
        sections.append(("Leakage", _leakage(content)))
    sections.append(("Protocol", facts(_facts(content))))
    return sections


def _comparison(content: Any) -> str:
    sized = "num_parameters" in content
    heads = ("mean", "± std", "95 % interval", *(["weights"] if sized else []))
    header = "<tr><th>model</th>" + "".join(f'<th class="number">{name}</th>' for name in heads)
    rows = [
        _row(name, entry, _verdict(entry.get("model_against_it", {})), sized=sized)
        for name, entry in content["baselines"].items()
    ]
    rows.append(_row(content["model"], content, "", "own", sized=sized))
    if "as_published" in content:
        remark = "too good: chosen on these folds"
        rows.append(_row("as published", content["as_published"], remark, sized=sized))
    return (
        f'<p>{_note(content)}</p><div class="scroll"><table class="scores">'
        f"<thead>{header}<th>the model, beside it, is</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _note(content: Any) -> str:
    """Say what the numbers are, and where intervals and p come from."""
    if len(content["folds"]) > 1:
        return (
            "Means over the test parts, which had no part in any choice. Intervals and p are corrected for folds that "
            "share their training structures (Nadeau and Bengio 2003)."
        )
    return (
        "Values on the test part, which had no part in any choice. Intervals and p come from its structures, drawn "
        "again with replacement (bootstrap): they do not know how much another training part would change."
    )


def _verdict(against: Any) -> str:
    return f"{against['verdict']}, p {_p_value(against)}" if _p_value(against) else against.get("verdict", "")


def _row(name: str, entry: Any, remark: str, kind: str = "", *, sized: bool = False) -> str:
    size = entry.get("num_parameters")
    texts = [*_cells(entry), *(["" if size is None else f"{size:,}"] if sized else [])]
    cells = "".join(f'<td class="number">{escape(text)}</td>' for text in texts)
    opening = f'<tr class="{kind}">' if kind else "<tr>"
    return f"{opening}<td>{escape(name)}</td>{cells}<td>{escape(remark)}</td></tr>"


def _folds(content: Any) -> str:
    """Return a table of the folds: sizes, value, epochs, what was selected."""
    several = content["protocol"]["seeds"] > 1
    selected = any(fold["selected"] for fold in content["folds"])
    epochs = any("epochs" in fold for fold in content["folds"])
    heads = ["train", "test", NAMES[content["metric"]]] + ["by seed"] * several + ["epochs kept"] * epochs
    header = "<tr><th>split</th>" + "".join(f'<th class="number">{escape(name)}</th>' for name in heads)
    rows = []
    for fold in content["folds"]:
        cells = [f"{fold['train']:,}", f"{fold['test']:,}", number(fold["value"])]
        cells += [" ".join(map(number, fold["seeds"]))] * several
        cells += [" ".join(map(str, fold.get("epochs", [])))] * epochs
        chosen = ", ".join(f"{name} {value}" for name, value in fold["selected"].items())
        numbers = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
        rows.append(
            f'<tr><td style="white-space: nowrap">{escape(fold["name"])}</td>{numbers}'
            + f"<td>{escape(chosen)}</td>" * selected
            + "</tr>"
        )
    return (
        f'<div class="scroll"><table class="scores"><thead>{header}{"<th>selected</th>" * selected}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _leakage(content: Any) -> str:
    text = f"<p>{escape(capital(leakage_in_words(content)))}.</p>"
    pairs = content["leakage"]["ids"]
    if not pairs:
        return text
    shown = ", ".join(f"{first} = {second}" for first, second in pairs[:20])
    more = f", and {content['leakage']['count'] - 20} more" if content["leakage"]["count"] > 20 else ""
    return f"{text}<p>Test structure = training structure: {escape(shown + more)}.</p>"


def _facts(content: Any) -> list[tuple[str, list[tuple[str, object]]]]:
    protocol, structures = content["protocol"], content["structures"]
    how = [
        ("split", f"{protocol['split']}, {protocol['folds']} in all"),
        ("selection", _selection(protocol)),
        ("final fits", f"{protocol['seeds']} a split"),
        ("interval", protocol["interval"]),
    ]
    data: list[tuple[str, object]] = [
        ("structures", f"{structures['used']:,}"),
        ("without target", structures["without target"]),
        *[(name, f"{structures[name]:,}") for name in ("tested", "in no split") if name in structures],
        ("target", content["target"]),
        ("task", content["task"]),
    ]
    again: list[tuple[str, object]] = [
        ("seed", protocol["seed"]),
        ("data", protocol["data"]),
        ("splits", protocol["splits"]),
        ("time", f"{content['seconds']:.1f} s"),
    ]
    if len(protocol["candidates"]) > 1:
        how.insert(2, ("candidates", _candidates(protocol["candidates"])))
    return [("How", list(how)), ("Data", data), ("To have it again", again)]


def _selection(protocol: Any) -> str:
    if not protocol["inner"]:
        return "none: settings given, none selected"
    return str(protocol["inner"]) if len(protocol["candidates"]) > 1 else "none: 1 candidate"


def _candidates(candidates: Any) -> str:
    """Say how many there are, and which values of each setting occur in them.

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
