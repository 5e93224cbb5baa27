"""Ask every question, print the tables, write benchmarks/results.json and docs/benchmarks.md.

``python -m benchmarks [--quick] [names ...]``: with ``--quick`` sizes are small and nothing is written; with names
only those questions are asked, and the results of the others are kept.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
from pathlib import Path
from typing import Any

from benchmarks.environment import environment, table

QUESTIONS = (
    "loader",
    "ops",
    "reading",
    "huckel",
    "kernels",
    "training",
    "together",
    "cep",
    "exact",
    "propagation",
    "regions",
    "relational",
)
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
PAGE = ROOT / "docs" / "benchmarks.md"


def page(results: dict[str, Any]) -> str:
    """Write the documentation's page from the results; nothing in it is typed by hand."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; do not edit. Each table is one run, side by side.",
        "",
    ]
    for name, result in results.items():
        module = importlib.import_module(f"benchmarks.{name}")
        text = inspect.cleandoc(module.__doc__ or "")
        machine = result["environment"]
        versions = ", ".join(
            f"{package} {version}" for package, version in machine["packages"].items() if version
        )
        lines += [f"## {name.capitalize()}", "", text, "", table(result["rows"]), ""]
        lines += [
            f"Measured {machine['date']}, revision {machine.get('revision') or 'unknown'}, on {machine['processor']}, "
            f"{machine['cores']} cores, {machine['memory_gib']} GiB"
            + (f", {machine['gpu']}" if machine["gpu"] else "")
            + f"; {machine['system']}, Python {machine['python']}, {versions}.",
            "",
        ]
    return "\n".join(lines)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*QUESTIONS, []], help="questions to ask; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes; write nothing")
    arguments = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in arguments.names or QUESTIONS:
        result = importlib.import_module(f"benchmarks.{name}").run(quick=arguments.quick)
        results[name] = {"environment": environment(), **result}
        print(f"\n## {name}\n\n{table(result['rows'])}", flush=True)
        if not arguments.quick:
            results = {question: results[question] for question in QUESTIONS if question in results}
            RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
            PAGE.write_text(page(results))


if __name__ == "__main__":
    main()
