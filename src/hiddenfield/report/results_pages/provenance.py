"""When, on what machine, with which versions and by which command a result was come by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hiddenfield.report.results_pages.rows import by, run_of

__all__ = ["command_of", "runs_in_words"]

# Words for the entries of a description of a machine; others are shown by their own names.
WORDS = {"cores": "cores", "memory_gib": "GiB of memory"}
APART = ("date", "revision", "packages", "python", "device", "note")


def command_of(content: Mapping[str, Any]) -> str:
    """Return the command that gives the result.

    Examples
    --------
    >>> command_of({"experiment": "inex", "scale": {"folds": 3, "data": ["INEX2005"]}})
    'hiddenfield reproduce inex --quick --only INEX2005'
    """
    if content.get("command"):
        return str(content["command"])
    scale = content["scale"]
    words = ["hiddenfield", "reproduce", str(content["experiment"])]
    if any(value for name, value in scale.items() if name not in ("data", "models")):
        words.append("--quick")
    for option, name in (("--only", "data"), ("--model", "models")):
        for value in scale.get(name) or ():
            words += [option, f'"{value}"' if " " in value else value]
    return " ".join(words)


def runs_in_words(content: Mapping[str, Any]) -> list[str]:
    """Return a line for each run that rows come from: command, date, revision, machine, versions."""
    lines = [f"`{command_of(content)}`", ""]
    common = {name: content.get(name) for name in ("date", "revision", "machine")}
    common["packages"] = content.get("versions")
    runs = by(content["rows"], run_of)
    for place, (text, rows) in enumerate(runs.items(), start=1):
        run = _in_words(json.loads(text) or common)
        if not run:
            continue
        sets = ", ".join(by(rows, lambda row: str(row["data"])))
        lines.append(f"- {run}." if len(runs) == 1 else f"- **{place}** ({sets}): {run}.")
    return [*lines, ""]


def _in_words(run: Mapping[str, Any]) -> str:
    machine = run.get("machine") or {name: value for name, value in run.items() if name not in APART}
    if isinstance(machine, Mapping):
        nested = {name: machine[name] for name in APART if machine.get(name)}
        run = {**nested, **{name: value for name, value in run.items() if value}}
        machine = _machine({name: value for name, value in machine.items() if name not in APART})
    packages = dict(run.get("packages") or {})
    if run.get("python"):
        packages["python"] = run["python"]
    parts = [
        f"on {run['date']}" if run.get("date") else "",
        f"revision {run['revision']}" if run.get("revision") else "",
        f"device {run['device']}" if run.get("device") else "",
        str(machine),
        ", ".join(f"{name} {version}" for name, version in packages.items() if version),
        str(run.get("note") or ""),
    ]
    return "; ".join(filter(None, parts))


def _machine(entries: Mapping[str, Any]) -> str:
    known = {name: value for name, value in entries.items() if value is not None and name != "machine"}
    if "system" in known:
        known["system"] = str(known["system"]).split()[0]  # the build of its kernel tells a reader nothing
    return ", ".join(
        f"{value} {WORDS[name]}" if name in WORDS else str(value) for name, value in known.items()
    )
