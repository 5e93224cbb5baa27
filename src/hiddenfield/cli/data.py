"""``hiddenfield convert``, ``describe``, ``generate``, ``formats`` and ``version``."""

from __future__ import annotations

import inspect
import platform
import time
from pathlib import Path
from typing import Literal

from typer import Argument, Option

from hiddenfield.cli.options import Json, Reader, Source, Target, emit, given_options
from hiddenfield.machine import version as version_of

PACKAGES = ("torch", "numpy", "numba", "pyarrow", "scikit-learn", "rdkit", "torch-geometric")


def convert(
    path: Source,
    reader: Reader,
    output: Path = Argument(
        metavar="OUTPUT", help="A .parquet or .arrow file, or a folder for shards.", show_default=False
    ),
    target: Target = None,
    shard_size: int | None = Option(None, min=1, help="Structures per shard, if OUTPUT is a folder."),
    json: Json = False,
) -> None:
    """Read any known format and write it as Parquet or Arrow."""
    import hiddenfield

    start = time.perf_counter()
    structures = hiddenfield.read(path, **reader, **given_options(target=target))
    hiddenfield.write(structures, output, **given_options(shard_size=shard_size))
    result = {"path": str(path), "output": str(output), "structures": len(structures)}
    emit(result, f"{structures!r}\nwritten to {output}", json, start)


def describe(
    path: Source,
    reader: Reader,
    target: Target = None,
    plot: Path | None = Option(None, help="Also draw the distributions into this .png, .svg or .pdf."),
    json: Json = False,
) -> None:
    """Count and summarise a data set: sizes, degrees, labels, targets, missing values."""
    from hiddenfield.data.description import Description
    from hiddenfield.data.formats import scan
    from hiddenfield.progress import counted, progress
    from hiddenfield.report.distributions import Distributions

    distributions = Distributions()
    with progress(None, "describing") as advance:
        packs = counted(scan(path, **reader, **given_options(target=target)), advance)
        description = Description.of(packs if plot is None else distributions.watch(packs))
    result, text = {"path": str(path), **description.as_dict()}, str(description)
    if plot is not None:
        distributions.draw(description, plot, title=path.name)
        result["plot"] = str(plot)
        text += f"\nplot: {plot}"
    emit(result, text, json)


def generate(
    library: Literal["huckel"] = Argument(
        help="huckel: conjugated molecules with targets from Hückel theory."
    ),
    out: Path = Option(
        ..., "--out", "-o", help="A .parquet or .arrow file, or a folder for shards.", show_default=False
    ),
    number: int = Option(20_000, "--number", "-n", min=1, help="Number of structures."),
    seed: int = Option(0, min=0, help="Random seed; the same seed gives the same data."),
    start: int = Option(
        0, min=0, help="First molecule of the sample; disjoint ranges of a seed share no molecule."
    ),
    smiles: bool = Option(False, "--smiles", help="Also write the molecules' SMILES."),
    shard_size: int = Option(50_000, min=1, help="Structures per shard, if --out is a folder."),
    workers: int | None = Option(None, min=1, help="Processes; all cores by default."),
    json: Json = False,
) -> None:
    """Generate a data set, as a file or (for any size) a folder of Parquet shards."""
    from hiddenfield.datasets.generate import write_huckel

    begun = time.perf_counter()
    written = write_huckel(
        out, number, seed, start=start, smiles=smiles, shard_size=shard_size, workers=workers
    )
    result = {"library": library, "structures": written, "seed": seed, "start": start, "output": str(out)}
    emit(result, f"{written:,} molecules written to {out}", json, begun)


def formats(json: Json = False) -> None:
    """List the file formats that can be read, with their options, and those of models for infer."""
    from hiddenfield.data.formats import FORMATS
    from hiddenfield.fields.readers import FIELD_FORMATS

    rows, models, lines = [], [], []
    for entry in FORMATS.values():
        options = list(inspect.signature(entry.read).parameters)[1:]
        rows.append({"name": entry.name, "summary": entry.summary, "options": options})
        lines.append(f"{entry.name:<12}{entry.summary}\n{'':<12}options: {', '.join(options) or 'none'}")
    for field in FIELD_FORMATS.values():
        models.append({"name": field.name, "summary": field.summary, "suffixes": list(field.suffixes)})
        lines.append(f"{field.name:<12}{field.summary}; a model, for hiddenfield infer")
    emit({"formats": rows, "models": models}, "\n".join(lines), json)


def version(json: Json = False) -> None:
    """Print the version of hiddenfield, of Python and of the packages it uses."""
    import hiddenfield

    result = {"hiddenfield": hiddenfield.__version__, "python": platform.python_version()} | {
        name: version_of(name) for name in PACKAGES
    }
    lines = [f"{name:<16}{found or 'not installed'}" for name, found in result.items()]
    emit(result, "\n".join(lines), json)
