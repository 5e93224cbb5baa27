"""``hiddenfield infer``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from typer import Argument, Option

from hiddenfield.cli.options import Json, emit, named_values
from hiddenfield.errors import InputError


def infer(
    path: Path = Argument(metavar="MODEL", help="A .uai, .fg or .bif file.", show_default=False),
    evidence: Path | None = Option(None, help="A UAI evidence file (.evid)."),
    sample: int | None = Option(
        None, min=0, help="Which evidence set of the file, if it has several; from 0."
    ),
    given: list[str] | None = Option(
        None, "--given", "-g", metavar="VARIABLE=STATE", help="An observation, by names or numbers."
    ),
    method: str = Option("loopy_bp", help="Algorithm: loopy_bp, mean_field, ..."),
    query: Literal["marginals", "map", "partition"] = Option("marginals", help="What to compute."),
    parameter: list[str] | None = Option(
        None, "--parameter", "-p", metavar="NAME=VALUE", help="An option of the algorithm, e.g. damping=0.5."
    ),
    compare: bool = Option(False, "--compare", help="Run all algorithms and compare time, log Z and errors."),
    out: Path | None = Option(
        None, "--out", "-o", help="Also write a UAI result file: MAR, PR (log10) or MPE."
    ),
    plot: Path | None = Option(
        None, help="Also draw the model with its marginals into this .png, .svg or .pdf."
    ),
    format: str | None = Option(None, "--format", help="Format of MODEL; by default that of its suffix."),
    json: Json = False,
) -> None:
    """Infer marginals, the partition function or the most likely assignment of a given model.

    Logarithms are natural, except in a result file written with --out.
    """
    from hiddenfield.evaluation.query import ask, compare_methods, named_evidence
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
    emit(answer.as_dict(), "\n".join(told), json)
