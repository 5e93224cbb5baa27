"""Data in parts that need not fit into memory together, and batches of data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.errors import InputError, ReadError


@dataclass(frozen=True, eq=False)
class Shards:
    """Parts of a data set, opened one after another, each time anew: statistics of parts add up.

    Parameters
    ----------
    parts
        What is opened: paths, or the parts themselves.
    open
        Called with one of them; returns its data.
    first
        What stands for all where a look at some is enough: where the data are, and where to start. None for the first
        part; rows of all parts are better where these differ.

    Examples
    --------
    >>> parts = Shards([np.zeros((2, 1)), np.ones((3, 1))])
    >>> [int(part.sum()) for part in parts.map(lambda part: part + 1)]
    [2, 6]
    """

    parts: Sequence[Any]
    open: Callable[[Any], Any] = lambda part: part
    first: Any = None

    def __post_init__(self) -> None:
        """Refuse no parts."""
        if not len(self.parts):
            raise InputError("there are no shards")

    def __iter__(self) -> Iterator[Any]:
        return (self.open(part) for part in self.parts)

    def map(self, change: Callable[[Any], Any]) -> Shards:
        """Return shards whose data are changed when they are opened."""
        before = self.open
        first = None if self.first is None else change(self.first)
        return Shards(self.parts, lambda part: change(before(part)), first)

    def look(self) -> Any:
        """Return what stands for all."""
        return next(iter(self)) if self.first is None else self.first

    @classmethod
    def parquet(cls, path: str | Path, columns: Sequence[str] | None = None) -> Shards:
        """Open a Parquet file, or a folder of them, row group after row group, as Arrow tables.

        Each of `parts` is the file, the number of the row group, how many rows this has, and its size in bytes.

        Parameters
        ----------
        path
            The file or folder; files are taken in the order of their names.
        columns
            Those to read; None for all.
        """
        from pyarrow import ArrowException, parquet

        path = Path(path)
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path] * path.is_file()
        parts = []
        for file in files:
            try:
                found = parquet.read_metadata(file)
            except (ArrowException, OSError) as error:
                raise ReadError(f"cannot be read as parquet: {error}", file=file) from None
            groups = [found.row_group(group) for group in range(found.num_row_groups)]
            parts += [
                (file, k, own.num_rows, own.total_byte_size) for k, own in enumerate(groups) if own.num_rows
            ]
        if not parts:
            raise InputError(f"{path} holds no Parquet files (*.parquet) with rows in them")
        chosen = None if columns is None else list(columns)

        def read(part: tuple[Path, int, int, int]) -> Any:
            with parquet.ParquetFile(part[0]) as source:
                return source.read_row_group(part[1], columns=chosen)

        return cls(parts, read)


def batches(data: Any, size: int, generator: np.random.Generator) -> Iterator[Any]:
    """Yield random batches that pass over the data once; those of shards are drawn within each."""
    for part in data if isinstance(data, Shards) else [data]:
        order = generator.permutation(len(part))
        for begin in range(0, len(order), size):
            yield part[order[begin : begin + size]]
