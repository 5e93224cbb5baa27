"""``hiddenfield generate``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from hiddenfield.cli.options import Json, emit


def command(
    library: Annotated[
        Literal["huckel"],
        typer.Argument(help="huckel: conjugated molecules with targets from Hückel theory."),
    ],
    out: Annotated[
        Path, typer.Option(help="A .parquet or .arrow file, or a folder for shards.", show_default=False)
    ],
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="How many structures.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Which sample; the same seed gives the same data.")] = 0,
    start: Annotated[
        int, typer.Option(min=0, help="The first molecule of the sample; two ranges of one seed share none.")
    ] = 0,
    smiles: Annotated[bool, typer.Option("--smiles", help="Also write the molecules' SMILES.")] = False,
    shard_size: Annotated[
        int, typer.Option(min=1, help="Structures in a shard, when --out is a folder.")
    ] = 50_000,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; all cores by default.")] = None,
    json: Json = False,
) -> None:
    """Generate a data set that needs no download, into a file or, for any size, a folder of Parquet shards."""
    from hiddenfield.datasets.molecule_library.generate import write_huckel

    begun = time.perf_counter()
    written = write_huckel(
        out, number, seed, start=start, smiles=smiles, shard_size=shard_size, workers=workers
    )
    seconds = time.perf_counter() - begun
    result = {
        "library": library,
        "structures": written,
        "seed": seed,
        "start": start,
        "output": str(out),
        "seconds": round(seconds, 3),
    }
    emit(result, f"{written:,} molecules written to {out} in {seconds:.1f} s", json)
