"""``hiddenfield reproduce``."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hiddenfield.cli.options import Json, check_writable, emit, given_options
from hiddenfield.errors import InputError


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="s2v-graphs, s2v-ablation, s2v-strings, s2v-cep, s2v-huckel or inex.",
            show_default=False,
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A part that takes minutes.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder with graphs/ and sequences/; by default $HIDDENFIELD_DATA.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this set of data; may be given several times.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Only this model; may be given several times.")
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option("--variant", help="Only this way to train; may be given several times."),
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", help="Only this protocol; may be given several times.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Where the result goes: one JSON file; rows are added to one that is there."
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write the page (.md) of the result, its pictures beside it.")
    ] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            help="Run nothing: take this JSON file; of several, which may come from different machines, the rows "
            "are put together.",
        ),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Folder that keeps every finished cell; goes on with what it holds.")
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="auto|cpu|cuda", help="Where to compute.")] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Cells at a time; by default by the machine.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Run a published experiment and set its figures beside the published ones.

    The full ones take hours on a GPU; --quick runs a part of each.
    """
    from hiddenfield.evaluation.records import write_json
    from hiddenfield.registry import choose
    from hiddenfield.report.results_pages import results_page
    from hiddenfield.studies import EXPERIMENTS, join_results, run_experiment
    from hiddenfield.studies.reading import read_result

    experiment = choose("experiment", EXPERIMENTS, name)
    check_writable(out, "--out")
    check_writable(page, "--page")
    check_writable(keep, "--keep", folder=True)
    if results:
        part = given_options(quick=quick, only=only, model=model, variant=variant, column=column)
        _runs_nothing(*part, *given_options(data=data, keep=keep, device=device, jobs=jobs))
        content = join_results(experiment, [read_result(file, name) for file in results])
        if out is not None:
            write_json(out, content)
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
            each=None if out is None else partial(write_json, out),
        )
    emit(content, results_page(content, None if page is None else page.stem), json)
    if page is not None:
        from hiddenfield.report.experiment_page import write_experiment

        write_experiment(page, content)


def _runs_nothing(*given: str) -> None:
    """Refuse what has no effect where nothing is run."""
    if given:
        named = ", ".join(f"--{option}" for option in given)
        raise InputError(f"--from takes results as they are and runs nothing; leave out {named}")


def _data(given: Path | None) -> Path:
    if given is not None:
        return given
    if "HIDDENFIELD_DATA" not in os.environ:
        raise InputError(
            "where are the data? Give --data, or set HIDDENFIELD_DATA to the folder with graphs/"
        )
    return Path(os.environ["HIDDENFIELD_DATA"])
