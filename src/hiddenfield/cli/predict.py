"""``hiddenfield predict``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from hiddenfield.cli.options import Format, Json, OnError, Setting, Source, Structure, emit, reader_options
from hiddenfield.report.drawing import check_suffix

Run = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="Folder of hiddenfield fit, or of a saved model.", show_default=False),
]


def command(
    run: Run,
    path: Source,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .csv, .tsv or .parquet file.", show_default=False)
    ],
    format: Format = None,
    structure: Structure = None,
    on_error: OnError = None,
    setting: Setting = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also write the probability of every class.")
    ] = False,
    json: Json = False,
) -> None:
    """Predict the targets of new structures: one row for each, in their order; rows left out are empty.

    With --on-error skip a column says why a row was left out.
    """
    import hiddenfield
    from hiddenfield.evaluation.reading import prediction_columns, read_new
    from hiddenfield.report.terminal import write_table

    start = time.perf_counter()
    check_suffix(output, "the output", ".csv", ".tsv", ".parquet")
    model = hiddenfield.load(run)
    new = read_new(model, run, path, reader_options(format, structure, None, on_error, setting))
    columns = new.row_columns(errors=on_error == "skip")
    columns |= prediction_columns(model, new, probabilities=probabilities)
    write_table(output, columns)
    seconds = time.perf_counter() - start
    result = {
        "output": str(output),
        "rows": new.total,
        "predicted": len(new.rows),
        "left_out": new.left_out(),
        "columns": list(columns),
        "seconds": round(seconds, 3),
    }
    text = f"{len(new.rows):,} of {new.total:,} rows predicted, written to {output} in {seconds:.1f} s"
    emit(result, text, json)
