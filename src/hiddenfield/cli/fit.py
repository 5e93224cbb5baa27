"""``hiddenfield fit``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hiddenfield.cli.options import (
    Format,
    Json,
    OnError,
    Setting,
    Source,
    Structure,
    Target,
    emit,
    named_values,
    reader_options,
)
from hiddenfield.errors import InputError

if TYPE_CHECKING:
    from hiddenfield.data.structures import Structures


def command(
    path: Source,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the model and its results.", show_default=False)
    ],
    format: Format = None,
    structure: Structure = None,
    target: Target = None,
    on_error: OnError = None,
    setting: Setting = None,
    task: Annotated[
        str, typer.Option(metavar="auto|regression|classification", help="What kind of target it is.")
    ] = "auto",
    model: Annotated[
        str | None, typer.Option(help="Inference algorithm to embed: loopy_bp, mean_field, ...")
    ] = None,
    dim: Annotated[int | None, typer.Option(min=1, help="Length of the messages.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="How often messages are passed.")] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the data; by default by its size.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Structures in a batch; by default by their number.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of the optimizer.")] = None,
    resample: Annotated[
        float | None, typer.Option(help="Draw rare targets as often as frequent ones: width of the bins.")
    ] = None,
    ensemble: Annotated[
        int | None, typer.Option(min=1, help="Networks whose predictions are averaged.")
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="auto|cpu|cuda", help="Where to compute.")] = None,
    devices: Annotated[
        int | None, typer.Option(min=1, help="Processes that share every batch, one per GPU or CPU core.")
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            "-p",
            metavar="NAME=VALUE",
            help="Another parameter of the estimator, e.g. dropout=0.2.",
        ),
    ] = None,
    test_fraction: Annotated[
        float, typer.Option(help="Share of the structures kept aside to measure on.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Of the split and of everything random.")] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted run in the same folder.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Also write report.html, the results as a page.")
    ] = False,
    baselines: Annotated[
        bool | None,
        typer.Option(
            "--baselines/--no-baselines",
            help="Compare with simple models, on the first target; by default where there is a report.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Fit a model to a data set, measure it on structures kept aside, and save both.

    With nothing but a data set and a target, task, features and model are chosen for you.
    """
    from hiddenfield.evaluation.run import Plan, fit_run, read_for_learning

    compare = report if baselines is None else baselines
    if (report or compare) and test_fraction == 0:
        raise InputError(
            "a report or a comparison needs structures to test on; give --test-fraction more than 0"
        )
    start = time.perf_counter()
    structures, reader = read_for_learning(path, reader_options(format, structure, target, on_error, setting))
    given: dict[str, Any] = {
        "model": model,
        "dim": dim,
        "rounds": rounds,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "resample": resample,
        "ensemble": ensemble,
        "device": device,
        "devices": devices,
    }
    parameters = {name: value for name, value in given.items() if value is not None}
    parameters |= named_values(parameter, "--parameter")
    plan = Plan(task, test_fraction, seed, parameters, reader)
    result = fit_run(structures, out, plan, resume=resume, verbose=not json)
    told = _compared(structures, path, out, result, report, compare) if report or compare else ""
    seconds = time.perf_counter() - start
    emit(
        {"output": str(out), "seconds": round(seconds, 3), **result}, _text(result, out, seconds) + told, json
    )


def _compared(
    structures: Structures, path: Path, out: Path, result: dict[str, Any], report: bool, compare: bool
) -> str:
    """Measure simple models too, write the page if wanted; add both to the result, and return them as text."""
    from hiddenfield.report.of_run import collect_run
    from hiddenfield.report.scores import scores_as_text
    from hiddenfield.report.write import write_report

    title = f"{path.stem}: {structures.target_names[0]}"
    results = collect_run(out, structures, rounds=(3,) if compare else None, title=title)
    lines = []
    if compare:
        result["comparison"] = [score.as_dict() for score in results.scores]
        lines += ["", scores_as_text(results.scores)]
    if report:
        result["report"] = str(write_report(out / "report.html", results))
        lines += [f"report: {result['report']}"]
    return "\n".join(["", *lines])


def _text(result: dict[str, Any], out: Path, seconds: float) -> str:
    counts = result["structures"]
    lines = [
        f"{result['task']} with {result['model']}, {result['parameters']:,} weights, best epoch "
        f"{', '.join(map(str, result['best_epoch']))} of {result['epochs'][0]}",
        f"{counts['train']:,} structures to train, {counts['validation']:,} to validate, {counts['test']:,} to test",
    ]
    for name, measures in result["test"].items():
        simple = result["baseline"][name]
        lines.append(f"test {name}: {_listed(measures)}")
        lines.append(f"  without a model: {_listed(simple)}")
    return "\n".join([*lines, f"saved to {out} in {seconds:.1f} s"])


def _listed(measures: dict[str, float | None]) -> str:
    return ", ".join(f"{name} {_number(name, value)}" for name, value in measures.items())


def _number(name: str, value: float | None) -> str:
    if value is None:
        return "unknown"
    # Errors have the target's units and may be as small as they like; a share of the variance is not.
    return f"{value:z.4f}" if name == "r2" and abs(value) < 1000 else f"{value:.4g}"
