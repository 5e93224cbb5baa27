"""``hiddenfield reproduce``."""

from __future__ import annotations

import json as text_json
import os
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from hiddenfield.cli.options import Json, emit
from hiddenfield.errors import InputError, ReadError


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
    from hiddenfield.evaluation.assessment.store import write_json
    from hiddenfield.evaluation.experiments import EXPERIMENTS, join_results, results_page, run_experiment
    from hiddenfield.registry import choose

    experiment = choose("experiment", EXPERIMENTS, name)
    if results:
        content = join_results(experiment, [_read(file, name) for file in results])
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
            before=_read(out, name) if out is not None and out.exists() else None,
            each=None if out is None else partial(write_json, out),
        )
    text = results_page(content, None if page is None else page.stem)
    if page is not None:
        from hiddenfield.report.experiment_page import write_experiment

        write_experiment(page, content)
    emit(content, text, json)


def _data(given: Path | None) -> Path:
    if given is not None:
        return given
    if "HIDDENFIELD_DATA" not in os.environ:
        raise InputError(
            "where are the data? Give --data, or set HIDDENFIELD_DATA to the folder with graphs/"
        )
    return Path(os.environ["HIDDENFIELD_DATA"])


def _read(file: Path, name: str) -> dict[str, Any]:
    from hiddenfield.evaluation.experiments import Scale

    try:
        content = text_json.loads(file.read_text(encoding="utf-8"))
        if content["experiment"] != name:
            raise ReadError(f"is the result of {content['experiment']}, not of {name}", file=file)
        known = {field.name for field in fields(Scale)}
        if not isinstance(content["rows"], list) or not known.issuperset(content["scale"]):
            raise KeyError("rows")
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, ReadError):
            raise
        raise ReadError("is not the result of an experiment", file=file) from None
    return dict(content)
