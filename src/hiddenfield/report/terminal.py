"""Tables that subcommands write: CSV, TSV, Parquet, or a plain array."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.shapes import Array

__all__ = ["check_suffix", "write_table"]

SUFFIXES = (".csv", ".tsv", ".parquet")


def check_suffix(path: Path, allowed: tuple[str, ...] = SUFFIXES) -> None:
    """Refuse a file name with an unknown suffix, before any work is done."""
    if path.suffix.lower() not in allowed:
        raise InputError(f"the output must end in {', '.join(allowed[:-1])} or {allowed[-1]}, got {path}")


def write_table(path: Path, columns: Mapping[str, Array]) -> None:
    """Write columns of equal length, whole or not at all; an array of objects has None where an entry is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial{path.suffix}")
    if path.suffix.lower() == ".parquet":
        import pyarrow
        from pyarrow import parquet

        arrays = {name: pyarrow.array(values.tolist()) for name, values in columns.items()}
        empty = [name for name, array in arrays.items() if pyarrow.types.is_null(array.type)]
        arrays |= {
            name: arrays[name].cast(pyarrow.string()) for name in empty
        }  # text of which all is missing
        parquet.write_table(pyarrow.table(arrays), partial)
    elif path.suffix.lower() == ".npy":
        np.save(partial, np.stack(list(columns.values()), axis=1))
    else:
        with open(partial, "w", newline="", encoding="utf-8") as sink:
            writer = csv.writer(sink, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            writer.writerow(columns)
            writer.writerows(zip(*(map(_entry, values.tolist()) for values in columns.values()), strict=True))
    os.replace(partial, path)


def _entry(value: object) -> object:
    """Return what a CSV writer takes; a number that is missing becomes an empty entry."""
    return "" if value is None or value != value else value
