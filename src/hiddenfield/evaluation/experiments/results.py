"""The page of an experiment, from its result alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hiddenfield.evaluation.assessment.measuring import METRICS

__all__ = ["results_page"]


def results_page(content: Mapping[str, Any]) -> str:
    """Return a result as Markdown: the protocol beside every number, and where it falls short of a published one.

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
    >>> page = results_page(
    ...     {"experiment": "x", "title": "T", "about": "", "scale": {}, "versions": {}, "rows": [row]}
    ... )
    >>> print(page.splitlines()[-1].split(" | ")[-1])
    0.9000 (GIN; nested): short by 0.1000 |
    """
    partial = any(value not in (None, False) for value in content["scale"].values())
    lines = [f"# {content['title']}", "", content["about"], ""]
    if partial:
        lines += [
            f"**A part only**, to show that it runs: {_scale(content['scale'])}. The figures are not the experiment's.",
            "",
        ]
    lines += [f"`hiddenfield reproduce {content['experiment']}`; {_versions(content['versions'])}.", ""]
    lines += ["## Protocols and what stands beside", ""]
    for row in content["rows"]:
        beside = ", ".join(f"{name} {entry['mean']:.4f}" for name, entry in row["baselines"].items())
        leaked = row["leakage"]["count"] if row["leakage"] else 0
        lines.append(
            f"- **{_name(row)}**: {_protocol(row)}."
            + (f" Beside it: {beside}." if beside else "")
            + (f" {leaked} test structures have a copy in training." if leaked else "")
        )
    lines += ["", "## Results", ""]
    lines += [
        "| data | model | protocol | metric | here | 95 % interval | published |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_line(row, partial) for row in content["rows"]]
    with_ranges = [row for row in content["rows"] if row.get("ranges")]
    if with_ranges:
        lines += ["", "## Errors by range of the target", ""]
        lines += [f"- {_name(row)}: {_ranges(row['ranges'])}" for row in with_ranges]
    return "\n".join(lines)


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['data']}, {row['model']}, {row['column']}"


def _ranges(ranges: list[Mapping[str, Any]]) -> str:
    return "; ".join(
        f"{part['low']:.3g} to {part['high']:.3g}: {part['mae']:.3g} ({part['count']:,})" for part in ranges
    )


def _protocol(row: Mapping[str, Any]) -> str:
    if "as_published" not in row:
        return str(row["protocol"]["text"])
    return f"{row['protocol']['text'].split(';')[0]}; {row['as_published']['text']}"


def _line(row: Mapping[str, Any], partial: bool) -> str:
    own = row.get("as_published", row)
    spread = "" if own["std"] is None else f" ± {own['std']:.4f}"
    interval = own.get("interval")
    cells = [
        row["data"],
        row["model"],
        row["column"],
        row["metric"],
        f"{own['mean']:.4f}{spread}",
        "" if not interval else f"{interval[0]:.4f} to {interval[1]:.4f}",
        "; ".join(_figure(figure, own["mean"], row["metric"], partial) for figure in row["figures"]),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def _figure(figure: Mapping[str, Any], own: float, metric: str, partial: bool) -> str:
    gap = own - figure["value"] if METRICS[metric].higher_is_better else figure["value"] - own
    verdict = "" if partial else ": reached" if gap >= 0 else f": short by {-gap:.4f}"
    return f"{figure['value']:.4f} ({figure['source']}; {figure['protocol']}){verdict}"


def _scale(scale: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {', '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for name, value in scale.items()
        if value not in (None, False)
    )


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
