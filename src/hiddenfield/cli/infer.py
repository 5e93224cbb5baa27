"""``hiddenfield infer``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hiddenfield.cli.options import Json, emit, named_values
from hiddenfield.errors import InputError

if TYPE_CHECKING:
    from hiddenfield.evaluation.query import Answer, MethodResult
    from hiddenfield.fields.factor_graph import FactorGraph

# A person reads this many variables; a program asks for --json.
MOST_SHOWN = 40


class Query(Enum):
    """What can be asked."""

    marginals = "marginals"
    map = "map"
    partition = "partition"


def command(
    path: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A .uai, .fg or .bif file.", show_default=False)
    ],
    evidence: Annotated[Path | None, typer.Option(help="A UAI evidence file (.evid).")] = None,
    sample: Annotated[
        int | None, typer.Option(min=0, help="Which evidence set of the file, if it has several; from 0.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--given", "-g", metavar="VARIABLE=STATE", help="An observation, by names or numbers."),
    ] = None,
    method: Annotated[str, typer.Option(help="Algorithm: loopy_bp, mean_field, ...")] = "loopy_bp",
    query: Annotated[
        Literal["marginals", "map", "partition"], typer.Option(help="What to compute.")
    ] = "marginals",
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter", "-p", metavar="NAME=VALUE", help="An option of the algorithm, e.g. damping=0.5."
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Run all algorithms and compare time, log Z and errors.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write a UAI result file: MAR, PR (log10) or MPE.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the model with its marginals into this .png, .svg or .pdf.")
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", help="Format of MODEL; by default that of its suffix.")
    ] = None,
    json: Json = False,
) -> None:
    """Infer marginals, the partition function or the most likely assignment of a given model.

    Logarithms are natural, except in a result file written with --out.
    """
    from hiddenfield.evaluation.method_comparison import compare_methods
    from hiddenfield.evaluation.query import ask, named_evidence
    from hiddenfield.fields.readers.uai import read_evidence
    from hiddenfield.fields.reading import read
    from hiddenfield.report.field_picture import draw_field
    from hiddenfield.report.terminal import answer_as_text, methods_as_text

    if (compare or query == "map") and plot is not None:
        raise InputError("a picture shows marginals: give --plot with --query marginals")
    if compare and out is not None:
        raise InputError("a result file holds one answer: give --out without --compare")
    if out is not None and out.is_dir():
        raise InputError(f"{out} is a folder; give --out the name of a file")
    if sample is not None and evidence is None:
        raise InputError("--sample chooses among the sets of an evidence file: give --evidence too")
    field = read(path, format)
    observed = named_evidence(field, given or [], {} if evidence is None else read_evidence(evidence, sample))
    options = named_values(parameter, "--parameter")
    if compare:
        results = compare_methods(field, evidence=observed, options=options)
        rows = [result.as_dict() for result in results]
        text = f"{field!r}, {len(observed)} observed\n{methods_as_text(results)}"
        emit({"model": str(path), "evidence": len(observed), "comparison": rows}, text, json)
        return
    answer = ask(field, query, method, evidence=observed, options=options)
    told = [repr(field), answer_as_text(answer, method)]
    if out is not None:
        answer.write(out)
        told.append(f"result file: {out}")
    if plot is not None:
        draw_field(answer.field, answer.marginals, plot, title=path.name)
        told.append(f"plot: {plot}")
    emit(answer.as_dict(), "\n".join([repr(field), *_lines(answer, method), *told]), json)


def _compare(
    field: FactorGraph, evidence: dict[Any, Any], options: dict[str, Any], path: Path, json: bool
) -> None:
    from hiddenfield.evaluation.query import compare_methods

    results = compare_methods(field, evidence=evidence, options=options)
    rows = [result.as_dict() for result in results]
    emit(
        {"model": str(path), "evidence": len(evidence), "comparison": rows},
        f"{field!r}, {len(evidence)} observed\n{_table(results)}",
        json,
    )


def _table(results: list[MethodResult]) -> str:
    from rich.table import Table

    table = Table()
    for heading in (
        "method",
        "seconds",
        "log Z",
        "guarantee",
        "error of log Z",
        "mean TV",
        "max TV",
        "status",
    ):
        numeric = heading in ("seconds", "log Z", "error of log Z", "mean TV", "max TV")
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for result in results:
        table.add_row(
            result.method,
            _number(result.seconds, ".3g"),
            _number(result.log_partition, "z.6f"),
            result.guarantee or "",
            _number(result.log_partition_error, "+.2e"),
            _number(result.mean_error, ".2e"),
            _number(result.max_error, ".2e"),
            _short(result.status),
        )
    longer = [result for result in results if _short(result.status) != result.status]
    return "\n".join([_rendered(table), *(f"{result.method}: {result.status}" for result in longer)])


def _short(status: str) -> str:
    """Return a status without its reasons and remedies, which stand below the table."""
    return re.split(r" \(|[;:] ", status, maxsplit=1)[0]


def _rendered(table: Any) -> str:
    """Return a rich table as text, as wide as the terminal and never so narrow that numbers break."""
    import io
    import shutil

    from rich.console import Console

    width = max(120, shutil.get_terminal_size((120, 24)).columns)
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    return console.file.getvalue().rstrip()  # type: ignore[attr-defined]


def _number(value: float | None, form: str) -> str:
    return "" if value is None or math.isnan(value) else format(value, form)


def _lines(answer: Answer, method: str) -> list[str]:
    """Return what a person reads."""
    result = answer.as_dict()
    lines = [f"{method}: {result['status']}, {answer.seconds:.3g} s"]
    if result["iterations"] is not None:
        value = float(answer.outcome.log_partition[0])  # type: ignore[union-attr]
        lines[0] += (
            f", {result['iterations']:,} iterations, residual {float(answer.outcome.residual.max()):.2g}"  # type: ignore[union-attr]
        )
        lines.append(f"log partition {value:.8g} ({result['guarantee']})")
    else:
        value = float(answer.outcome.log_value[0])  # type: ignore[union-attr]
        lines.append(f"log value {value:.8g} ({result['guarantee']})")
    rows = result["marginals"] if result["marginals"] is not None else result["map"]
    if rows is None:
        return lines
    named = list(rows.items()) if isinstance(rows, dict) else list(enumerate(rows))
    width = max((len(str(name)) for name, _ in named[:MOST_SHOWN]), default=0)
    lines += [f"  {name!s:<{width}}  {_entry(value)}" for name, value in named[:MOST_SHOWN]]
    if len(named) > MOST_SHOWN:
        lines.append(f"  ... and {len(named) - MOST_SHOWN:,} more; --json or --out has all")
    return lines


def _entry(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{state} {_number(p, '.4f')}" for state, p in value.items())
    if isinstance(value, list):
        return "  ".join(_number(p, ".4f") for p in value)
    return str(value)
