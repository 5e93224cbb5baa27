"""``hiddenfield fit``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from hiddenfield.cli import options as cli
from hiddenfield.errors import InputError


def command(
    path: cli.Source,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the model and its results.", show_default=False)
    ],
    format: cli.Format = None,
    structure: cli.Structure = None,
    target: cli.Target = None,
    on_error: cli.OnError = None,
    setting: cli.Setting = None,
    task: cli.Task = "auto",
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
    device: cli.Device = None,
    devices: Annotated[
        int | None, typer.Option(min=1, help="Processes that share every batch, one per GPU or CPU core.")
    ] = None,
    parameter: cli.Parameter = None,
    test_fraction: Annotated[
        float, typer.Option(help="Share of the structures held out as the test part.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Of the split and of everything random.")] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run in the same folder.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Also write report.html, the results as a page.")
    ] = False,
    baselines: Annotated[
        bool | None,
        typer.Option(
            "--baselines/--no-baselines",
            help="Compare with baselines, on the first target; by default where there is a report.",
        ),
    ] = None,
    json: cli.Json = False,
) -> None:
    """Fit a model to a data set, measure it on held-out structures, and save both.

    With nothing but a data set and a target, task, features and model are chosen for you.
    """
    from hiddenfield.evaluation.fitting import Plan, fit_run
    from hiddenfield.evaluation.reading import read_for_learning
    from hiddenfield.report import collect_run, write_report
    from hiddenfield.report.write import fit_as_text, scores_as_text

    compare = report if baselines is None else baselines
    if (report or compare) and test_fraction == 0:
        raise InputError("a report or a comparison needs test structures; give --test-fraction more than 0")
    start = time.perf_counter()
    structures, reader = read_for_learning(
        path, cli.reader_options(format, structure, target, on_error, setting)
    )
    parameters = cli.given_options(
        model=model,
        dim=dim,
        rounds=rounds,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        resample=resample,
        ensemble=ensemble,
        device=device,
    ) | cli.named_values(parameter, "--parameter")
    found = fit_run(
        structures, out, Plan(task, test_fraction, seed, parameters, reader), resume=resume, verbose=not json
    )
    result, lines = found.as_dict(), [fit_as_text(found)]
    seconds = time.perf_counter() - start
    if report or compare:
        title = f"{path.stem}: {structures.target_names[0]}"
        results = collect_run(out, structures, rounds=(3,) if compare else None, title=title)
        seconds = time.perf_counter() - start
        if compare:
            result["comparison"] = [score.as_dict() for score in results.scores]
            lines += ["", scores_as_text(results.scores)]
        if report:
            result["report"] = str(write_report(out / "report.html", results))
            lines += [f"report: {result['report']}"]
    lines.insert(1, f"saved to {out} in {seconds:.1f} s")
    cli.emit({"output": str(out), "seconds": round(seconds, 3), **result}, "\n".join(lines), json)
