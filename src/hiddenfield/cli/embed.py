"""``hiddenfield embed``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from hiddenfield.cli.options import Format, Json, OnError, Setting, Source, Structure, emit, reader_options
from hiddenfield.cli.predict import Run
from hiddenfield.report.drawing import check_suffix


def command(
    run: Run,
    path: Source,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .csv, .tsv, .parquet or .npy file.", show_default=False)
    ],
    format: Format = None,
    structure: Structure = None,
    on_error: OnError = None,
    setting: Setting = None,
    json: Json = False,
) -> None:
    """Embed new structures: one row per structure, in their order, as a table or a plain array.

    With --on-error skip, rows that could not be read stay empty, and a column of the table says why.
    """
    import numpy as np

    import hiddenfield
    from hiddenfield.evaluation.reading import read_new
    from hiddenfield.report.terminal import write_table

    start = time.perf_counter()
    check_suffix(output, "the output", ".csv", ".tsv", ".parquet", ".npy")
    model = hiddenfield.load(run)
    new = read_new(model, run, path, reader_options(format, structure, None, on_error, setting))
    vectors = new.spread(model.embed(new.structures), np.nan)
    plain = output.suffix.lower() == ".npy"
    columns = {} if plain else new.row_columns(errors=on_error == "skip")
    columns |= {f"embedding_{k}": vectors[:, k] for k in range(vectors.shape[1])}
    write_table(output, columns)
    seconds = time.perf_counter() - start
    result = {
        "output": str(output),
        "rows": new.total,
        "embedded": len(new.rows),
        "left_out": new.left_out(),
        "width": vectors.shape[1],
    }
    text = f"{len(new.rows):,} of {new.total:,} rows embedded, width {vectors.shape[1]}, written to {output}"
    emit({**result, "seconds": round(seconds, 3)}, f"{text} in {seconds:.1f} s", json)
