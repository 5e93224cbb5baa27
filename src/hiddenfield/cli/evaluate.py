"""``hiddenfield evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hiddenfield.cli import options as cli
from hiddenfield.errors import InputError

if TYPE_CHECKING:
    from hiddenfield.evaluation import Assessment

# Shares of the training structures whose learning curve a report shows, before the whole.
CURVE = (0.25, 0.5)


def command(
    path: cli.Source,
    target: Annotated[
        str | None, typer.Option(help="What to predict; needed where the data have several or none.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="Inference algorithm to embed: loopy_bp, mean_field, ...")
    ] = "loopy_bp",
    split: Annotated[
        str,
        typer.Option(
            help="k_fold, stratified, repeated, hold_out, files, scaffold, scaffold_hold_out, leave_one_group_out."
        ),
    ] = "auto",
    folds: Annotated[int | None, typer.Option(help="Parts of the split.", show_default="10")] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="How often the folds are drawn anew.", show_default="1")
    ] = None,
    test_fraction: Annotated[
        float | None, typer.Option(help="Share to test on, of a hold-out.", show_default="0.1")
    ] = None,
    split_file: Annotated[
        Path | None, typer.Option(help="Given indices: .zip or folder of index files, or JSON.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Column of a table whose groups are left out in turn.")
    ] = None,
    nested: Annotated[
        bool, typer.Option("--nested", help="Select settings within every training part.")
    ] = False,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid", metavar="NAME=A,B,...", help="Values to select from, or a range LOW..HIGH with --draws."
        ),
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Random combinations instead of the whole grid.")
    ] = None,
    inner: Annotated[
        str | None,
        typer.Option(
            metavar="hold_out|k_fold",
            help="How the inner validation parts are drawn.",
            show_default="hold_out",
        ),
    ] = None,
    inner_folds: Annotated[
        int | None, typer.Option(help="Parts of an inner k_fold.", show_default="5")
    ] = None,
    inner_fraction: Annotated[
        float | None, typer.Option(help="Share of an inner hold-out.", show_default="0.1")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Final fits per fold; by default 1, nested 3.", show_default=False),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="accuracy, balanced_accuracy, roc_auc; mae, rmse, r2.")
    ] = None,
    task: cli.Task = "auto",
    parameter: cli.Parameter = None,
    baselines: Annotated[bool, typer.Option("--baselines/--no-baselines", help="Also fit baselines.")] = True,
    as_published: Annotated[
        bool,
        typer.Option("--as-published", help="Also the result of selection on the reported folds: too good."),
    ] = False,
    learning_curve: Annotated[
        str | None, typer.Option(metavar="SHARE,...", help="Also fit to shares of the training structures.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Folder or JSON of another model on the same splits, to compare with.")
    ] = None,
    device: cli.Device = None,
    jobs: cli.Jobs = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder that keeps every finished piece.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue with what the folder holds.")] = False,
    report: Annotated[
        Path | None, typer.Option(help="Also write a page (.html), with a learning curve.")
    ] = None,
    format: cli.Format = None,
    structure: cli.Structure = None,
    on_error: cli.OnError = None,
    setting: cli.Setting = None,
    json: cli.Json = False,
) -> None:
    """Estimate how good a model is on structures that it has not seen.

    It is compared with baselines and with the same network without arcs; test structures with copies in training are
    counted.
    """
    from hiddenfield.evaluation import Assessment, AssessmentSettings
    from hiddenfield.evaluation.assessment import assessing
    from hiddenfield.evaluation.assessment.settings import check_inner_options, check_split_options
    from hiddenfield.evaluation.reading import read_for_learning

    of_split = cli.given_options(
        folds=folds, repeats=repeats, test_fraction=test_fraction, split_file=split_file, group=group
    )
    of_inner = cli.given_options(
        inner=inner, inner_folds=inner_folds, inner_fraction=inner_fraction, draws=draws
    )
    check_split_options(of_split, split)
    check_inner_options(of_inner, nested, as_published)
    if resume and out is None:
        raise InputError("--resume continues with what a folder holds; name it with --out")
    cli.check_writable(out, "--out", folder=True)
    cli.check_writable(report, "--report")
    other = None if against is None else Assessment.read(against)
    curve = _shares(learning_curve) if learning_curve is not None else CURVE if report is not None else ()
    settings = AssessmentSettings(
        split="leave_one_group_out" if split == "auto" and group is not None else split,
        groups=of_split.pop("group", None),
        nested=nested,
        space=_space(grid),
        seeds=(3 if nested else 1) if seeds is None else seeds,
        metric=metric,
        task=task,
        baselines=baselines,
        learning_curve=curve,
        as_published=as_published,
        seed=seed,
        device=device,
        jobs=jobs,
        **of_split,
        **of_inner,
    )
    options = cli.reader_options(format, structure, [target] if target else None, on_error, setting)
    structures, _ = read_for_learning(path, options, keep=group)
    if other is not None:
        assessing.check_comparable(other, f"--against {against}", structures, settings)
    found = assessing.assess(
        model,
        structures,
        settings=settings,
        parameters=cli.named_values(parameter, "--parameter"),
        folder=out,
        resume=resume,
        show_progress=not json,
    )
    _show(found, other, report, out, f"{path.stem}: {found.target}", json)


def _show(
    found: Assessment, other: Assessment | None, report: Path | None, out: Path | None, title: str, json: bool
) -> None:
    from hiddenfield.evaluation.significance import compare, comparison_record
    from hiddenfield.report import assessment_page

    content = found.as_dict()
    told = [assessment_page.assessment_as_text(found)]
    try:
        if out is not None:
            told.append(f"saved to {out}")
        if other is not None:
            entry = comparison_record(compare(found, other), found.metric)
            content["against"] = {"model": other.model, "mean": other.mean, **entry.as_dict()}
            told.append(assessment_page.against_as_text(other, entry))
        if report is not None:
            told.append(f"report: {assessment_page.write_assessment(report, found, title=title)}")
            content["report"] = str(report)
    finally:
        # Whatever fails here, the result may have taken hours.
        cli.emit(content, "\n".join(told), json)


def _space(grid: list[str] | None) -> dict[str, Any]:
    from hiddenfield.evaluation.assessment.settings import Between

    return {
        name: Between.parse(value) if isinstance(value, str) and ".." in value else value
        for name, value in cli.named_values(grid, "--grid").items()
    }


def _shares(text: str) -> tuple[float, ...]:
    values = cli.parse(text)
    listed = values if isinstance(values, list) else [values]
    if not all(isinstance(value, float) for value in listed):
        raise InputError(f"--learning-curve expects shares between 0 and 1, such as 0.25,0.5; got {text!r}")
    return tuple(listed)
