"""``hiddenfield learn`` and ``impute``: latent-variable models of data with missing values."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from typer import Argument, Option, echo

from hiddenfield.cli import options as cli
from hiddenfield.errors import InputError

NETWORKS = (".bif", ".xmlbif", ".net")

Kinds = Option(
    None, "--kind", metavar="COLUMN=KIND", help="Kind of a column: continuous, count, binary or categorical."
)


def learn(
    path: Path = Argument(
        metavar="TABLE",
        help="CSV, TSV, Parquet (or a folder of it), FASTA or LDA-C (.ldac); or a network (.bif, .xmlbif, .net), with "
        "--data.",
        show_default=False,
    ),
    model: str = Option(
        "mixed_mixture", help="gaussian_mixture, mixed_mixture, hidden_markov, factor_analysis, ..."
    ),
    out: Path = Option(..., "--out", "-o", help="Folder for the model and its results.", show_default=False),
    components: str | None = Option(
        None,
        "--components",
        "--topics",
        metavar="N|LOW-HIGH|A,B,...",
        help="Numbers of components, states, factors or topics to try.",
    ),
    criterion: str = Option(
        "bic", metavar="bic|aic|icl|cross_validation", help="Criterion that chooses among them."
    ),
    fill: str | None = Option(
        None, metavar="expectation|mode|sample|variational|gibbs", help="How hidden data are filled in."
    ),
    restarts: int | None = Option(None, min=1, help="Runs from different starts; the best is kept."),
    parameter: cli.Parameter = None,
    data: Path | None = Option(None, help="The table to learn from, if TABLE is a network."),
    target: cli.Target = None,
    kind: list[str] | None = Kinds,
    drop: list[str] | None = Option(
        None, "--drop", metavar="COLUMN", help="A column to leave out, or a pattern."
    ),
    id: str | None = Option(
        None, "--id", metavar="COLUMN", help="The column that names the rows, or the sequences."
    ),
    seed: int = Option(0, min=0, help="Random seed."),
    resume: bool = Option(False, "--resume", help="Continue an interrupted run in the same folder."),
    report: bool = Option(
        False, "--report/--no-report", help="Also write report.html, the results as a page."
    ),
    json: cli.Json = False,
) -> None:
    """Learn a latent-variable model from data with missing values, and save it.

    Missing cells (empty, NA, NaN, ?) are integrated out: no row is dropped and nothing is imputed beforehand. The
    kind of each column and the patterns of missing values are printed first.
    """
    from hiddenfield.evaluation.latent import learn_run
    from hiddenfield.evaluation.latent_data import LearnPlan, read_data
    from hiddenfield.report.learned import data_as_text, learned_as_text, learned_record, write_learned_report

    cli.check_writable(out, "--out", folder=True)
    start = time.perf_counter()
    own = cli.given_options(fill=fill, restarts=restarts) | cli.named_values(parameter, "--parameter")
    source = path
    if "".join(path.suffixes[:1]).lower() in NETWORKS:
        if data is None:
            raise InputError(f"{path} is a network; name the table that it is learned from with --data")
        model, source, own = "bayesian_network", data, own | {"structure": str(path)}
    reader = cli.given_options(kinds=cli.named_values(kind, "--kind") or None, drop=drop, id=id)
    plan = LearnPlan(model, sizes(components), criterion, own, target or (), reader, seed)
    found = read_data(source, plan)
    if not json:
        echo(data_as_text(found))
    record = learn_run(found, out, plan, resume=resume, verbose=not json, command=cli.command_line())
    result, lines = learned_record(found, record), [learned_as_text(record)]
    if report:
        page = write_learned_report(out / "report.html", found, out, record, title=source.name)
        result["report"] = str(page)
        lines.append(f"report: {result['report']}")
    cli.emit({"output": str(out), **result}, "\n".join([*lines, f"saved to {out}"]), json, start)


def sizes(text: str | None) -> tuple[int, ...]:
    """Read sizes: a number, a range, or several numbers.

    Examples
    --------
    >>> sizes("3"), sizes("1-4"), sizes("2,4,8"), sizes(None)
    ((3,), (1, 2, 3, 4), (2, 4, 8), ())
    """
    if text is None:
        return ()
    low, dash, high = text.partition("-")
    try:
        found = range(int(low), int(high) + 1) if dash else map(int, text.split(","))
        chosen = tuple(dict.fromkeys(found))
    except ValueError:
        chosen = ()
    if not chosen:
        raise InputError(f"--components expects a number, LOW-HIGH or A,B,..., got {text!r}")
    return chosen


def impute(
    path: Path = Argument(
        metavar="TABLE",
        help="CSV, TSV or Parquet, with the columns of the training data; FASTA and the like for sequences.",
    ),
    run: Path = Option(..., "--run", help="Output folder of hiddenfield learn.", show_default=False),
    out: Path = Option(..., "--out", "-o", help="A .csv, .tsv or .parquet file.", show_default=False),
    draws: int | None = Option(
        None,
        min=1,
        help="Number of imputed copies (multiple imputation); by default one, with expected values.",
    ),
    unseen: str = Option(
        "error", metavar="error|missing", help="How to treat symbols that were not seen in training."
    ),
    seed: int = Option(0, min=0, help="Random seed of the draws."),
    json: cli.Json = False,
) -> None:
    """Impute missing values: expected values given the rest of each row under a learned model, or draws."""
    from hiddenfield.evaluation.imputing import impute_run
    from hiddenfield.report.learned import imputed_columns
    from hiddenfield.report.terminal import write_table

    start = time.perf_counter()
    cli.check_writable(out, "--out", ".csv", ".tsv", ".parquet")
    found = impute_run(run, path, draws=draws, seed=seed, unseen=unseen)
    write_table(out, imputed_columns(found.tables, numbered=draws is not None, ids=found.ids))
    result: dict[str, Any] = {"output": str(out), "rows": len(found.tables[0]), "draws": draws}
    result |= {"filled": found.holes - found.left, "left": found.left}
    text = f"{result['filled']:,} of {found.holes:,} missing values imputed"
    text += f", {draws} times" if draws is not None else ""
    text += f"; {found.left:,} are left, in columns that the model does not have" if found.left else ""
    cli.emit(result, f"{text}; written to {out}", json, start)
