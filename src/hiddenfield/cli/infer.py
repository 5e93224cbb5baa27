"""``hiddenfield infer``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from typer import Argument, Option, echo

from hiddenfield.cli.options import Json, check_writable, emit, ends_promptly, named_values
from hiddenfield.errors import InputError

if TYPE_CHECKING:
    from hiddenfield.evaluation.comparing import MethodResult
    from hiddenfield.fields.factor_graph import FactorGraph

COMPARISON_SECONDS = 60.0
UNITS = {"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2**10, "mib": 2**20, "gib": 2**30}
SIZE = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*([kmgt]?i?b)?", re.IGNORECASE)


def infer(
    path: Path = Argument(
        metavar="MODEL", help="A .uai, .fg, .bif, .xmlbif or .net file.", show_default=False
    ),
    evidence: Path | None = Option(None, help="A UAI evidence file (.evid)."),
    sample: int | None = Option(
        None, min=0, help="Number of the evidence set, if the file has several; from 0."
    ),
    given: list[str] | None = Option(
        None, "--given", "-g", metavar="VARIABLE=STATE", help="An observation, by names or numbers."
    ),
    method: str = Option(
        "auto",
        help="Algorithm: auto chooses within the limits; or exact, loopy_bp, gibbs, ... (see --compare).",
    ),
    time_limit: float | None = Option(
        None, help="In seconds. By default 5 for auto, 60 per method for --compare, none for a named method."
    ),
    memory_limit: str | None = Option(
        None, metavar="SIZE", help="Such as 500MB or 4GB; by default half of the free memory."
    ),
    query: Literal["marginals", "joint", "map", "partition", "marginal-map", "samples"] = Option(
        "marginals", help="What to compute; joint and marginal-map are of the named variables together."
    ),
    variable: list[str] | None = Option(
        None, "--variable", "-v", metavar="NAME", help="Answer for this variable only; may be repeated."
    ),
    samples: int | None = Option(None, min=1, help="Number of samples, with --query samples; by default 10."),
    parameter: list[str] | None = Option(
        None, "--parameter", "-p", metavar="NAME=VALUE", help="An option of the algorithm, e.g. damping=0.5."
    ),
    compare: bool = Option(False, "--compare", help="Run all algorithms and compare time, log Z and errors."),
    out: Path | None = Option(
        None,
        "--out",
        "-o",
        help="Also write the answer: .csv or .tsv, else a UAI file: MAR, PR (log10) or MPE.",
    ),
    plot: Path | None = Option(
        None, help="Also draw the model with its marginals into this .png, .svg or .pdf."
    ),
    format: str | None = Option(None, "--format", help="Format of MODEL; by default chosen by its suffix."),
    json: Json = False,
) -> None:
    """Infer marginals, the partition function, likely assignments or samples of a given model.

    The method is chosen automatically: exact if that fits the limits, otherwise the best approximation in the time. The
    answer states the method and its guarantee. Logarithms are natural, except in a UAI result file.
    """
    with ends_promptly():
        from hiddenfield.evaluation.query import ask, named_evidence, named_variables
        from hiddenfield.fields.readers import read
        from hiddenfield.fields.readers.uai import read_evidence
        from hiddenfield.report.field_picture import draw_field
        from hiddenfield.report.terminal import answer_as_text, write_table

        _check_options(compare, query, variable, samples, out, plot)
        if evidence is not None and "=" in str(evidence) and not evidence.exists():
            raise InputError(
                f"--evidence takes a UAI evidence file; give observations by name with --given {evidence}"
            )
        if sample is not None and evidence is None:
            raise InputError("--sample chooses among the sets of an evidence file: give --evidence too")
        memory = None if memory_limit is None else memory_size(memory_limit)
        field = read(path, format)
        observed = named_evidence(
            field, given or [], {} if evidence is None else read_evidence(evidence, sample)
        )
        options = named_values(parameter, "--parameter")
        if compare:
            if memory is not None:
                options["memory_limit"] = options["max_memory"] = memory
            _compare(path, field, observed, options, time_limit, json)
            return
        answer = ask(
            field,
            query,
            method,
            evidence=observed,
            options=options,
            variables=named_variables(field, variable) if variable else None,
            time_limit=time_limit,
            memory_limit=memory,
            num_samples=10 if samples is None else samples,
        )
        told = [repr(field), answer_as_text(answer)]
        if out is not None:
            if out.suffix.lower() in (".csv", ".tsv"):
                write_table(out, answer.columns())
            else:
                answer.write(out)
            told.append(f"result file: {out}")
        if plot is not None:
            draw_field(answer.field, answer.marginals, plot, title=path.name)
            told.append(f"plot: {plot}")
        emit(answer.as_dict(), "\n".join(told), json)


def _check_options(
    compare: bool,
    query: str,
    variable: list[str] | None,
    samples: int | None,
    out: Path | None,
    plot: Path | None,
) -> None:
    """Refuse, before any work, options that contradict each other or would have no effect."""
    if plot is not None and (compare or query != "marginals"):
        raise InputError("a picture shows marginals: give --plot with --query marginals")
    if compare and out is not None:
        raise InputError("a result file holds one answer: give --out without --compare")
    if variable and (compare or query == "partition"):
        raise InputError("--variable restricts marginals, assignments and samples: leave it out here")
    if query in ("marginal-map", "joint") and not variable:
        raise InputError(f"--query {query} is about some variables together: give --variable")
    if samples is not None and query != "samples":
        raise InputError("--samples goes with --query samples")
    if out is not None and out.suffix.lower() not in (".csv", ".tsv") and (variable or query == "samples"):
        raise InputError(
            "a UAI result file holds an answer for all variables: give --out the name of a .csv file"
        )
    check_writable(out, "--out")


def _compare(
    path: Path,
    field: FactorGraph,
    observed: dict[Any, Any],
    options: dict[str, Any],
    time_limit: float | None,
    json: bool,
) -> None:
    """Run all methods, printing the row of each as soon as it is done."""
    from hiddenfield.evaluation.comparing import compare_methods
    from hiddenfield.evaluation.query import contradiction
    from hiddenfield.report.terminal import method_row, methods_heading, methods_remarks

    seconds = COMPARISON_SECONDS if time_limit is None else time_limit
    if not seconds > 0:
        raise InputError(f"a time limit is a number of seconds above 0, got {seconds}")
    results: list[MethodResult] = []

    def show(result: MethodResult) -> None:
        if not json:
            echo(method_row(result) if results else f"{heading}\n{method_row(result)}")
        results.append(result)

    heading = f"{field!r}, {len(observed)} observed\n{methods_heading()}"
    compare_methods(field, evidence=observed, options=options, time_limit=seconds, each=show)
    rows = [result.as_dict() for result in results]
    told = {"model": str(path), "evidence": len(observed), "time_limit": seconds, "comparison": rows}
    remarks = methods_remarks(results)
    if json or remarks:
        emit(told, remarks, json)
    if any(result.guarantee == "exact" and result.log_partition == float("-inf") for result in results):
        raise InputError(contradiction(field, observed) or "the evidence is impossible")


def memory_size(text: str) -> float:
    """Read a number of bytes with or without a unit.

    Examples
    --------
    >>> memory_size("1.5GB"), memory_size("4 MiB"), memory_size("1000")
    (1500000000.0, 4194304.0, 1000.0)
    """
    match = SIZE.fullmatch(text.strip())
    unit = (match[2] or "").lower() if match else ""
    if not match or unit not in UNITS or not float(match[1]) > 0:
        raise InputError(f"--memory-limit is a size such as 500MB or 4GB, got {text!r}")
    return float(match[1]) * UNITS[unit]
