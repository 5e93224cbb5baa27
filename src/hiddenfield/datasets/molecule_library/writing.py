"""The library into files: one file, or shards made by several processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from hiddenfield.data.arrow.shards import SUFFIXES, EncodedShard, encode_shard, write, write_shards
from hiddenfield.data.structures import Structures
from hiddenfield.datasets.molecule_library.generate import WORTH_PROCESSES, huckel_range, huckel_shards
from hiddenfield.errors import InputError
from hiddenfield.progress import counted, progress

__all__ = ["write_huckel"]


def write_huckel(
    path: str | Path,
    n: int = 20_000,
    seed: int = 0,
    *,
    start: int = 0,
    smiles: bool = False,
    shard_size: int = 50_000,
    workers: int | None = None,
) -> int:
    """Write ``huckel_range(start, start + n, seed)`` to a file, or to a folder of shards.

    It returns how many molecules were written. Memory is that of a few shards, whatever n. The result does not depend
    on the number of processes.

    Parameters
    ----------
    path
        A ``.parquet`` or ``.arrow`` file, or a folder.
    n, seed, smiles
        As in `huckel`.
    start
        The first molecule, in the order that `seed` gives.
    shard_size
        Molecules in a shard of a folder.
    workers
        Processes that make the shards; by default one a core.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import hiddenfield as hf
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "molecules"
    >>> write_huckel(folder, 5, seed=3, shard_size=2)
    5
    >>> hf.read(folder) == hf.datasets.huckel(5, seed=3)
    True
    """
    path = Path(path).expanduser()
    processes = os.cpu_count() or 1 if workers is None else workers
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
        raise InputError(f"workers must be an integer of at least 1, got {workers!r}")
    parts = huckel_shards(n, seed, start=start, shard_size=shard_size, smiles=smiles)  # checks the arguments
    if path.suffix.lower() in SUFFIXES:
        write(_whole(n, seed, start, smiles), path)
        return n
    if path.suffix[1:].isalpha():
        raise InputError(
            f"{path.name!r} must end in {', '.join(SUFFIXES)}, or have no suffix: then it is a folder of shards"
        )
    with progress(n, "generating molecules") as advance:
        if processes > 1 and n >= WORTH_PROCESSES:
            return write_shards(_in_processes(n, seed, start, smiles, shard_size, processes, advance), path)
        return write_shards(counted(parts, advance), path)


def _whole(n: int, seed: int, start: int, smiles: bool) -> Structures:
    from hiddenfield.data.combine import concatenate

    with progress(n, "generating molecules") as advance:
        shards = huckel_shards(n, seed, start=start, shard_size=5_000, smiles=smiles)
        packs = list(counted(shards, advance))
    return concatenate(packs)


def _in_processes(
    n: int,
    seed: int,
    start: int,
    smiles: bool,
    shard_size: int,
    processes: int,
    advance: Callable[[int], None],
) -> Iterator[EncodedShard]:
    """Let processes make and compress the shards; what comes back is ready to be written, and small."""
    from joblib import Parallel, delayed

    stop = start + n
    numbered = enumerate(range(start, stop, shard_size))
    with Parallel(n_jobs=processes, return_as="generator") as parallel:
        # A few rounds at a time, so that finished shards do not pile up before a slow disk.
        while batch := list(islice(numbered, 4 * processes)):
            tasks = (
                delayed(_make_shard)(number, first, min(first + shard_size, stop), seed, smiles)
                for number, first in batch
            )
            for shard in parallel(tasks):
                yield shard
                advance(shard.structures)


def _make_shard(number: int, start: int, stop: int, seed: int, smiles: bool) -> EncodedShard:
    return encode_shard(huckel_range(start, stop, seed, smiles=smiles), number)
