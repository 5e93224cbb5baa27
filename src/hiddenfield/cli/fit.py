"""``hiddenfield fit``, ``predict`` and ``embed``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from hiddenfield.cli import options as cli
from hiddenfield.errors import InputError

if TYPE_CHECKING:
    from hiddenfield.evaluation.reading import NewData

Run = Annotated[
    Path,
    Argument(metavar="RUN", help="Output folder of hiddenfield fit, or a saved model.", show_default=False),
]


def _network(
    model: str | None = Option(
        None, help="Embedded inference: loopy_bp, mean_field, ...; or cgmm, or kernel:NAME."
    ),
    dim: int | None = Option(None, min=1, help="Dimension of the messages."),
    rounds: int | None = Option(None, min=1, help="Number of rounds of message passing."),
    epochs: int | None = Option(None, min=1, help="Passes over the data; by default depends on its size."),
    batch_size: int | None = Option(
        None, min=1, help="Structures per batch; by default depends on their number."
    ),
    learning_rate: float | None = Option(None, help="Learning rate of the optimizer."),
    resample: float | None = Option(
        None, help="Sample rare targets as often as frequent ones: width of the bins."
    ),
    ensemble: int | None = Option(None, min=1, help="Networks whose predictions are averaged."),
    device: cli.Device = None,
    devices: int | None = Option(
        None, min=1, help="Processes that share each batch, one per GPU or CPU core."
    ),
    parameter: cli.Parameter = None,
) -> dict[str, Any]:
    given = dict(locals())
    further = cli.named_values(given.pop("parameter"), "--parameter")
    return cli.given_options(**given) | further


Network = Annotated[dict[str, Any], _network]


def fit(
    path: cli.Source,
    network: Network,
    reader: cli.Reader,
    out: Path = Option(..., "--out", "-o", help="Folder for the model and its results.", show_default=False),
    target: cli.Target = None,
    task: cli.Task = "auto",
    test_fraction: float = Option(0.1, help="Fraction of the structures held out as the test part."),
    split: str = Option(
        "auto",
        metavar="hold_out|group_hold_out|scaffold_hold_out",
        help="How the test part is drawn: at random, by whole groups (by default copies), or rare scaffolds.",
        show_default="hold_out",
    ),
    group: str | None = Option(None, help="Column of a table whose groups are held out whole."),
    seed: int = Option(0, min=0, help="Random seed, also of the split."),
    resume: bool = Option(False, "--resume", help="Continue an interrupted run in the same folder."),
    report: bool = Option(
        False, "--report/--no-report", help="Also write the results as a page, report.html."
    ),
    baselines: bool = Option(
        True, "--baselines/--no-baselines", help="Compare with linear models on counted labels and colours."
    ),
    json: cli.Json = False,
) -> None:
    """Fit a model to a data set, measure it on held-out structures, and save both.

    Task, features and model are chosen automatically unless they are given.
    """
    from hiddenfield.evaluation.fitting import Plan, fit_run
    from hiddenfield.evaluation.reading import read_for_learning
    from hiddenfield.report.assessment_page import write_report
    from hiddenfield.report.assessment_text import assessment_as_text
    from hiddenfield.report.results import collect_run

    if report and test_fraction == 0:
        raise InputError("--report needs test structures; give --test-fraction more than 0")
    cli.check_writable(out, "--out", folder=True)
    start = time.perf_counter()
    split = ("hold_out" if group is None else "group_hold_out") if split == "auto" else split
    structures, reader = read_for_learning(path, reader | cli.given_options(target=target), keep=group)
    plan = Plan(task, test_fraction, seed, network, reader, split, group)
    found = fit_run(
        structures,
        out,
        plan,
        resume=resume,
        verbose=not json,
        baselines=baselines,
        command=cli.command_line(),
    )
    result, lines = found.as_dict(), [assessment_as_text(found)]
    if report:
        title = f"{path.stem}: {', '.join(structures.target_names[:5])}"
        results = collect_run(out, structures, title=title)
        result["report"] = str(write_report(out / "report.html", results))
        lines += [f"report: {result['report']}"]
    cli.emit({"output": str(out), **result}, "\n".join([*lines, f"saved to {out}"]), json, start)


def predict(
    run: Run,
    path: cli.Source,
    reader: cli.Reader,
    out: Path = Option(..., "--out", "-o", help="A .csv, .tsv or .parquet file.", show_default=False),
    probabilities: bool = Option(False, "--probabilities", help="Also write the probability of every class."),
    json: cli.Json = False,
) -> None:
    """Predict the targets of new structures: one row per structure, in the order of the file.

    With --on-error skip, rows that could not be read stay empty, and a column gives the reason.
    """
    from hiddenfield.estimators import NodeEncoder, load
    from hiddenfield.evaluation.reading import prediction_columns, read_new

    start = time.perf_counter()
    cli.check_writable(out, "--out", ".csv", ".tsv", ".parquet")
    model = load(run)
    if isinstance(model, NodeEncoder):
        raise InputError(f"{run} holds vectors of nodes, which predict nothing; hiddenfield embed gives them")
    new = read_new(model, run, path, reader)
    columns = new.row_columns(errors=reader.get("on_error") == "skip")
    columns |= prediction_columns(model, new, probabilities=probabilities)
    _write("predicted", new, columns, out, start, json, {"columns": list(columns)})


def embed(
    reader: cli.Reader,
    run: Path = Argument(
        metavar="RUN|NETWORK",
        help="Output folder of hiddenfield fit, or a saved model; with --model a network, such as lines of two nodes.",
        show_default=False,
    ),
    path: Path | None = Argument(
        None, metavar="[PATH]", help="File or folder that a fitted model embeds.", show_default=False
    ),
    out: Path = Option(..., "--out", "-o", help="A .csv, .tsv, .parquet or .npy file.", show_default=False),
    model: str | None = Option(
        None, help="Learn vectors of the nodes of NETWORK: line, sdne or spectral.", show_default=False
    ),
    dim: int | None = Option(None, min=1, help="Dimension of these vectors; 128 by default."),
    parameter: cli.Parameter = None,
    seed: int | None = Option(None, min=0, help="Random seed of --model; 0 by default."),
    json: cli.Json = False,
) -> None:
    """Embed new structures by a fitted model, or the nodes of a network: one row each, as a table or array.

    Structures are in the order of the file, nodes in that of their names, the column id of the table. With --on-error
    skip, rows that could not be read stay empty, and a column of the table gives the reason; of a network, self-loops
    are left out, and weights of repeated edges are added.
    """
    from hiddenfield.estimators import NodeEncoder, load
    from hiddenfield.evaluation.reading import embed_nodes, make_node_encoder, read_new

    start = time.perf_counter()
    learning = cli.given_options(dim=dim, random_state=seed) | cli.named_values(parameter, "--parameter")
    if (path is None) == (model is None):
        raise InputError(
            "expected RUN and PATH for a fitted model, or NETWORK alone with --model line, sdne or spectral"
        )
    cli.check_writable(out, "--out", ".csv", ".tsv", ".parquet", ".npy")
    if model is not None or path is None:
        new, vectors = embed_nodes(make_node_encoder(str(model), learning, verbose=not json), run, reader)
    elif learning:
        raise InputError(
            f"a fitted model has its own parameters, but {', '.join(learning)} was given; leave it out"
        )
    else:
        fitted = load(run)
        if isinstance(fitted, NodeEncoder):
            new, vectors = embed_nodes(fitted, path, reader)
        else:
            new = read_new(fitted, run, path, reader)
            vectors = new.spread(fitted.embed(new.structures), float("nan"))
    plain, width = out.suffix.lower() == ".npy", vectors.shape[1]
    columns = {} if plain else new.row_columns(errors=reader.get("on_error") == "skip")
    columns |= {f"embedding_{k}": vectors[:, k] for k in range(width)}
    _write("embedded", new, columns, out, start, json, {"width": width}, f", width {width}")


def _write(
    done: str,
    new: NewData,
    columns: dict[str, Any],
    out: Path,
    start: float,
    json: bool,
    further: dict[str, Any],
    told: str = "",
) -> None:
    """Write the columns that a model gives for new structures, and say what was done."""
    from hiddenfield.report.terminal import write_table

    write_table(out, columns)
    result = {"output": str(out), "rows": new.total, done: len(new.rows), "left_out": new.left_out()}
    text = f"{len(new.rows):,} of {new.total:,} rows {done}{told}, written to {out}"
    cli.emit(result | further, text, json, start)
