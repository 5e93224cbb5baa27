"""``hiddenfield evaluate`` and ``reproduce``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from hiddenfield.cli import options as cli
from hiddenfield.errors import InputError

if TYPE_CHECKING:
    from hiddenfield.evaluation import Assessment, Assessments

# Shares of the training structures whose learning curve a report shows, before the whole.
CURVE = (0.25, 0.5)


def evaluate(
    path: cli.Source,
    reader: cli.Reader,
    target: cli.Target = None,
    model: str = Option(
        "loopy_bp", help="Embedded inference: loopy_bp, mean_field, ...; or cgmm, or kernel:NAME."
    ),
    split: str = Option(
        "auto",
        help="k_fold, stratified, repeated, hold_out, files, scaffold, scaffold_hold_out, leave_one_group_out, "
        "group_hold_out.",
    ),
    folds: int | None = Option(None, help="Number of folds.", show_default="10"),
    repeats: int | None = Option(None, min=1, help="Number of times the folds are drawn.", show_default="1"),
    test_fraction: float | None = Option(
        None, help="Fraction held out, for hold-out splits.", show_default="0.1"
    ),
    split_file: Path | None = Option(
        None, help="Indices of a given split: .zip or folder of index files, or JSON."
    ),
    group: str | None = Option(None, help="Column of a table whose groups are held out in turn."),
    nested: bool = Option(False, "--nested", help="Select settings within every training part."),
    grid: list[str] | None = Option(
        None,
        "--grid",
        metavar="NAME=A,B,...",
        help="Values to select from, or a range LOW..HIGH with --draws.",
    ),
    draws: int | None = Option(None, min=1, help="Random combinations instead of the whole grid."),
    inner: str | None = Option(
        None,
        metavar="hold_out|k_fold",
        help="How the inner validation parts are drawn.",
        show_default="hold_out",
    ),
    inner_folds: int | None = Option(None, help="Number of inner folds, with k_fold.", show_default="5"),
    inner_fraction: float | None = Option(None, help="Fraction of an inner hold-out.", show_default="0.1"),
    seeds: int | None = Option(
        None, min=1, help="Final fits per fold; by default 1, nested 3.", show_default=False
    ),
    metric: str | None = Option(None, help="accuracy, balanced_accuracy, roc_auc; mae, rmse, r2."),
    task: cli.Task = "auto",
    parameter: cli.Parameter = None,
    baselines: bool = Option(True, "--baselines/--no-baselines", help="Also fit baselines."),
    as_published: bool = Option(
        False, "--as-published", help="Also report selection on the reported folds, which is too optimistic."
    ),
    learning_curve: str | None = Option(
        None, metavar="SHARE,...", help="Also fit to these fractions of the training structures."
    ),
    against: Path | None = Option(
        None, help="Output folder or JSON of another model on the same splits, to compare with."
    ),
    device: cli.Device = None,
    jobs: cli.Jobs = None,
    seed: int = Option(0, min=0, help="Random seed."),
    out: Path | None = Option(
        None,
        "--out",
        "-o",
        help="Folder for the result, and for finished fits, from which --resume continues.",
    ),
    resume: bool = Option(False, "--resume", help="Continue an interrupted run in the same folder."),
    report: Path | None = Option(None, help="Also write a page (.html), with a learning curve."),
    json: cli.Json = False,
) -> None:
    """Estimate how good a model is on structures that it has not seen.

    It is compared with baselines and with the same network without arcs, and test structures with copies in training
    are counted. Several targets are assessed separately, and their mean is reported.
    """
    import msgspec

    from hiddenfield.evaluation import Assessment, Assessments, AssessmentSettings, assess_targets
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
    structures, _ = read_for_learning(path, reader | cli.given_options(target=target), keep=group)
    several = bool(target) and len(structures.target_names) > 1
    if other is not None:
        if several:
            raise InputError(
                f"--against compares one target, and there are {len(structures.target_names)}; name one"
            )
        assessing.check_comparable(other, f"--against {against}", structures, settings)
    how: dict[str, Any] = {
        "settings": settings,
        "parameters": cli.named_values(parameter, "--parameter"),
        "folder": out,
        "resume": resume,
        "show_progress": not json,
    }
    found: Assessment | Assessments = (assess_targets if several else assessing.assess)(
        model, structures, **how
    )
    title = path.stem if isinstance(found, Assessments) else f"{path.stem}: {found.target}"
    _show(msgspec.structs.replace(found, command=cli.command_line()), other, report, out, title, json)


def _show(
    found: Assessment | Assessments,
    other: Assessment | None,
    report: Path | None,
    out: Path | None,
    title: str,
    json: bool,
) -> None:
    from hiddenfield.evaluation import Assessment
    from hiddenfield.evaluation.held_out import no_better_than_baselines
    from hiddenfield.evaluation.significance import compare, comparison_record
    from hiddenfield.report import assessment_page, assessment_text

    every = assessment_text.several_of(found)
    every.warnings.extend(no_better_than_baselines(every, list(every.targets)))
    content, told = (
        found.as_dict() | {"warnings": every.warnings},
        [assessment_text.assessment_as_text(every)],
    )
    try:
        if out is not None:
            told.append(f"saved to {out}")
        if other is not None and isinstance(found, Assessment):
            entry = comparison_record(compare(found, other), found.metric)
            content["against"] = {"model": other.model, "mean": other.mean, **entry.as_dict()}
            told.append(assessment_text.against_as_text(other, entry))
        if report is not None:
            told.append(f"report: {assessment_page.write_report(report, every, title=title)}")
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


def reproduce(
    name: str = Argument(
        metavar="NAME",
        help="Experiment, such as s2v-graphs or inex; an unknown name lists all.",
        show_default=False,
    ),
    quick: bool = Option(False, "--quick", help="Run a part only, which takes minutes."),
    data: Path | None = Option(
        None, help="Folder with graphs/ and sequences/; by default $HIDDENFIELD_DATA."
    ),
    only: list[str] | None = Option(None, "--only", help="Only this data set; may be given several times."),
    model: list[str] | None = Option(None, "--model", help="Only this model; may be given several times."),
    variant: list[str] | None = Option(
        None, "--variant", help="Only this variant of training; may be given several times."
    ),
    column: list[str] | None = Option(
        None, "--column", help="Only this protocol; may be given several times."
    ),
    out: Path | None = Option(
        None, "--out", "-o", help="File for the result (JSON); rows are added to an existing one."
    ),
    page: Path | None = Option(
        None, help="Also write the page of the result (.md), with its plots next to it."
    ),
    results: list[Path] | None = Option(
        None,
        "--from",
        help="Read this result (JSON) instead of running; may be given several times, to merge the rows of "
        "several machines.",
    ),
    keep: Path | None = Option(None, help="Folder for finished fits, from which a later run continues."),
    device: cli.Device = None,
    jobs: cli.Jobs = None,
    json: cli.Json = False,
) -> None:
    """Run a published experiment and compare the results with the published figures.

    A full experiment takes hours on a GPU; --quick runs a part of it.
    """
    from hiddenfield.evaluation.records import write_json
    from hiddenfield.report.study import read_result, results_page, write_page
    from hiddenfield.studies import EXPERIMENTS, join_results, run_experiment

    experiment = EXPERIMENTS.choose(name)
    cli.check_writable(out, "--out")
    cli.check_writable(page, "--page")
    cli.check_writable(keep, "--keep", folder=True)
    if results:
        part = cli.given_options(quick=quick, only=only, model=model, variant=variant, column=column)
        without = [*part, *cli.given_options(data=data, keep=keep, device=device, jobs=jobs)]
        if without:
            named = ", ".join(f"--{option}" for option in without)
            raise InputError(f"--from reads results and runs nothing; leave out {named}")
        content = join_results(experiment, [read_result(file, name) for file in results])
        if out is not None:
            write_json(out, content.as_dict())
    else:
        if out is not None and not quick:
            _check_committed()
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
    cli.emit(content.as_dict(), results_page(content, None if page is None else page.stem), json)
    if page is not None:
        write_page(page, content)


def _check_committed() -> None:
    """Refuse hours of work whose result could not say what was run."""
    from hiddenfield.machine import CHANGED, describe_machine

    revision = describe_machine(())["revision"]
    if revision is not None and revision.endswith(CHANGED):
        raise InputError(
            f"a full run is recorded with its commit, and the files of the package have changes since {revision[:7]}; "
            "commit them first"
        )


def _data(given: Path | None) -> Path:
    if given is not None:
        return given
    if "HIDDENFIELD_DATA" not in os.environ:
        raise InputError("no folder of data; give --data, or set HIDDENFIELD_DATA to the folder with graphs/")
    return Path(os.environ["HIDDENFIELD_DATA"])
