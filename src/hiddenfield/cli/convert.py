"""``hiddenfield convert``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from hiddenfield.cli import options as cli


def command(
    path: cli.Source,
    output: Annotated[
        Path, typer.Argument(help="A .parquet or .arrow file, or a folder for shards.", show_default=False)
    ],
    format: cli.Format = None,
    structure: cli.Structure = None,
    target: cli.Target = None,
    on_error: cli.OnError = None,
    setting: cli.Setting = None,
    shard_size: Annotated[
        int | None, typer.Option(min=1, help="Structures in a shard, when OUTPUT is a folder.")
    ] = None,
    json: cli.Json = False,
) -> None:
    """Read any known format and write it as Parquet or Arrow."""
    import hiddenfield
    from hiddenfield.progress import counted, progress

    start = time.perf_counter()
    with progress(None, "reading") as advance:
        packs = hiddenfield.scan(path, **cli.reader_options(format, structure, target, on_error, setting))
        structures = hiddenfield.concatenate(list(counted(packs, advance)))
    hiddenfield.write(structures, output, **({} if shard_size is None else {"shard_size": shard_size}))
    seconds = time.perf_counter() - start
    result = {
        "path": str(path),
        "output": str(output),
        "structures": len(structures),
        "seconds": round(seconds, 3),
    }
    cli.emit(result, f"{structures!r}\nwritten to {output} in {seconds:.1f} s", json)
