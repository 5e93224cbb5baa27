"""``hiddenfield reproduce``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hiddenfield.cli.options import Device, Jobs, Json, check_writable, emit, given_options
from hiddenfield.errors import InputError


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Experiment, such as s2v-graphs or inex; an unknown name lists all.",
            show_default=False,
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Run a part that takes minutes.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder with graphs/ and sequences/; by default $HIDDENFIELD_DATA.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this data set; may be given several times.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Only this model; may be given several times.")
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option("--variant", help="Only this variant of training; may be given several times."),
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", help="Only this protocol; may be given several times.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File for the result (JSON); rows are added to an existing one."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write the page of the result (.md), with its plots beside it.")
    ] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            help="Run nothing, read this result (JSON); may be given several times, to join the rows of several "
            "machines.",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps every finished cell; a later run continues from it."),
    ] = None,
    device: Device = None,
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """Run a published experiment and compare the results with the published figures.

    Full experiments take hours on a GPU; --quick runs a part of each.
    """
    from hiddenfield.evaluation.records import write_json
    from hiddenfield.report.study import read_result, results_page, write_page
    from hiddenfield.studies import EXPERIMENTS, join_results, run_experiment

    experiment = EXPERIMENTS.choose(name)
    check_writable(out, "--out")
    check_writable(page, "--page")
    check_writable(keep, "--keep", folder=True)
    if results:
        part = given_options(quick=quick, only=only, model=model, variant=variant, column=column)
        without = [*part, *given_options(data=data, keep=keep, device=device, jobs=jobs)]
        if without:
            named = ", ".join(f"--{option}" for option in without)
            raise InputError(f"--from reads results and runs nothing; leave out {named}")
        content = join_results(experiment, [read_result(file, name) for file in results])
        if out is not None:
            write_json(out, content.as_dict())
    else:
        content = run_experiment(
            experiment,
            None if experiment.computed else _data(data),
            experiment.scale(quick, only, model, variant, column),
            folder=keep,
            device=device,
            jobs=jobs,
            show_progress=not json,
            before=read_result(out, name) if out is not None and out.exists() else None,
            each=None if out is None else lambda found: write_json(out, found.as_dict()),
        )
    emit(content.as_dict(), results_page(content, None if page is None else page.stem), json)
    if page is not None:
        write_page(page, content)


def _data(given: Path | None) -> Path:
    if given is not None:
        return given
    if "HIDDENFIELD_DATA" not in os.environ:
        raise InputError("no folder of data; give --data, or set HIDDENFIELD_DATA to the folder with graphs/")
    return Path(os.environ["HIDDENFIELD_DATA"])
