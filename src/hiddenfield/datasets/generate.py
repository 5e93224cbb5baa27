"""The library as packs of structures, and as files that several processes write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np

from hiddenfield.data.arrow_tables import SUFFIXES, EncodedShard, encode_shard, write, write_shards
from hiddenfield.data.build import concatenate, from_edges
from hiddenfield.data.structures import Structures
from hiddenfield.datasets.catalogue import library, permute, words
from hiddenfield.datasets.orbitals import BETA, efficiency, pi_levels
from hiddenfield.datasets.pieces import Molecules, assemble, write_smiles
from hiddenfield.errors import InputError, checked_integer
from hiddenfield.progress import counted, progress
from hiddenfield.shapes import Array, Float

TARGET_NAMES = ("gap", "pi_energy", "pce")
# The last digits of an eigenvalue depend on the machine's LAPACK; what is given out does not.
DECIMALS = 6
# Hamiltonians of this many molecules are in memory at once, about 6 kB each.
BATCH = 4096
# Below this many molecules starting processes takes longer than it saves; each makes so many at a time.
WORTH_PROCESSES, PER_PROCESS = 50_000, 20_000


def huckel(
    n: SupportsIndex = 20_000, seed: SupportsIndex = 0, *, smiles: bool = False, workers: SupportsIndex = 1
) -> Structures:
    r"""Draw conjugated molecules, with targets from Hueckel theory: a data set that needs no download.

    A uniform random sample without repeats from a library of 100 million chains of two to four ring systems,
    all distinct as molecules. See the page on this data set for the building blocks and every parameter.

    Node labels are ``element``, ``degree`` (bonds to heavy atoms), ``hydrogens``, ``valence`` (implicit
    valence) and ``aromatic``; arc labels are ``bond``, ``conjugated`` and ``ring``: the columns, symbols and
    atom order that the SMILES reader gives for the molecules' SMILES. Their vocabularies are those of the
    whole library.

    Targets, with the orbitals of :math:`H = \alpha 1 + \beta h` at :math:`\alpha + m\beta`:

    - ``gap``: :math:`|\beta| (m_{HOMO} - m_{LUMO})` in eV, with :math:`\beta = -3` eV;
    - ``pi_energy``: total pi energy per pi electron, :math:`2 \sum_{occ} m / N_e`, in units of :math:`\beta`;
    - ``pce``: efficiency in percent of a solar cell with the molecule as donor, by Scharber's model.

    Parameters
    ----------
    n : int
        How many molecules, at least 1 and at most `library_size`.
    seed : int
        Which sample; 0 <= seed < 2**64. The first k molecules of a larger sample are the sample of k.
    smiles : bool
        Whether to add the column ``smiles``.
    workers : int
        Processes that share the work where there are 50,000 molecules or more; the pack is the same.

    Returns
    -------
    Structures
        With 15 to 42 nodes each. The same n and seed give the same pack on every machine.

    Notes
    -----
    Cost: some 50 microseconds and 3 kB per molecule; the tables of the library take about a second, once.

    References
    ----------
    F. A. Van-Catledge, A Pariser-Parr-Pople-based set of Hueckel molecular orbital parameters, Journal of
    Organic Chemistry 45 (1980) 4801. M. C. Scharber et al., Advanced Materials 18 (2006) 789.

    Examples
    --------
    >>> molecules = huckel(3, seed=1, smiles=True)
    >>> molecules.target_names
    ('gap', 'pi_energy', 'pce')
    """
    count, key, processes = _count(n), _seed(seed), checked_integer(workers, "workers", 1)
    if processes == 1 or count < WORTH_PROCESSES:
        return huckel_range(0, count, key, smiles=smiles)
    from joblib import Parallel, delayed

    bounds = range(0, count, PER_PROCESS)
    return concatenate(
        Parallel(n_jobs=processes)(
            delayed(huckel_range)(low, min(low + PER_PROCESS, count), key, smiles=smiles) for low in bounds
        )
    )


def huckel_shards(
    n: SupportsIndex,
    seed: SupportsIndex = 0,
    *,
    start: SupportsIndex = 0,
    shard_size: SupportsIndex = 100_000,
    smiles: bool = False,
) -> Iterator[Structures]:
    """Yield the molecules of ``huckel_range(start, start + n, seed)`` in packs of at most `shard_size`, in order.

    Each pack is made when it is asked for, by itself: memory is that of one pack, and several processes can
    share the work by calling `huckel_range` for different bounds.

    Examples
    --------
    >>> [len(shard) for shard in huckel_shards(5, shard_size=2)]
    [2, 2, 1]
    """
    count, size, first = (
        _count(n),
        checked_integer(shard_size, "shard_size", 1),
        checked_integer(start, "start"),
    )
    key, last = _seed(seed), first + count
    _check_bounds(first, last)
    return (huckel_range(low, min(low + size, last), key, smiles=smiles) for low in range(first, last, size))


def huckel_range(
    start: SupportsIndex, stop: SupportsIndex, seed: SupportsIndex = 0, *, smiles: bool = False
) -> Structures:
    """Return molecules start, ..., stop - 1 of the order that `seed` gives; ``huckel(n)`` is 0 to n.

    Ranges of one seed that do not overlap have no molecule in common, which samples of different seeds may have.

    Examples
    --------
    >>> bool((huckel_range(1, 3, seed=4).targets == huckel(3, seed=4).targets[1:]).all())
    True
    """
    first, last, key = checked_integer(start, "start"), checked_integer(stop, "stop"), _seed(seed)
    if not isinstance(smiles, bool):
        raise InputError(f"smiles must be True or False, got {smiles!r}")
    _check_bounds(first, last)
    numbers = permute(np.arange(first, last), library_size(), key)
    parts = [_pack(numbers[low : low + BATCH], smiles) for low in range(0, len(numbers), BATCH)]
    return parts[0] if len(parts) == 1 else concatenate(parts)


def _check_bounds(first: int, last: int) -> None:
    if not 0 <= first < last <= library_size():
        raise InputError(
            f"the bounds must satisfy 0 <= start < stop <= {library_size()}, the size of the library; "
            f"got start {first} and stop {last}"
        )


def library_size() -> int:
    """Count the distinct molecules that `huckel` can draw from."""
    return library().size


def _pack(numbers: Array, smiles: bool) -> Structures:
    """Pack the molecules with the given library numbers; a molecule's id is its number."""
    chosen = library()
    chains = words(chosen, numbers)
    molecules = assemble(chosen.table, chains)
    return from_edges(
        molecules.first,
        molecules.second,
        node_ptr=molecules.node_ptr,
        node_labels=molecules.node_labels,
        node_vocabularies=chosen.table.node_vocabularies,
        edge_labels=molecules.edge_labels,
        edge_vocabularies=chosen.table.edge_vocabularies,
        targets=_targets(molecules),
        target_names=TARGET_NAMES,
        ids=np.array([f"H{number:08d}" for number in numbers.tolist()]),
        columns={"smiles": write_smiles(chosen.table, chains)} if smiles else None,
    )


def _targets(molecules: Molecules) -> Float[Array, "structures targets"]:
    levels = pi_levels(molecules.kinds, molecules.first, molecules.second, molecules.node_ptr)
    gap = -BETA * (levels.homo - levels.lumo)
    columns = [gap, levels.energy / levels.electrons, efficiency(levels.homo, levels.lumo)]
    return np.stack(columns, axis=1).round(DECIMALS)


def _count(n: Any) -> int:
    count = checked_integer(n, "n", 1)
    if count > library_size():
        raise InputError(f"n must be at most {library_size()}, the size of the library, got {count}")
    return count


def _seed(seed: Any) -> int:
    value = checked_integer(seed, "seed")
    if not 0 <= value < 2**64:
        raise InputError(f"seed must satisfy 0 <= seed < 2**64, got {value}")
    return value


# -- into files ----------------------------------------------------------------------------------------------


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
        Processes that make the shards; by default one per core.

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
    processes = os.cpu_count() or 1 if workers is None else checked_integer(workers, "workers", 1)
    parts = huckel_shards(n, seed, start=start, shard_size=shard_size, smiles=smiles)  # checks the arguments
    if path.suffix.lower() in SUFFIXES:
        parts = huckel_shards(n, seed, start=start, shard_size=5_000, smiles=smiles)
        with progress(n, "generating molecules") as advance:
            packs = list(counted(parts, advance))
        write(concatenate(packs), path)
        return n
    if path.suffix[1:].isalpha():
        raise InputError(
            f"{path.name!r} must end in {', '.join(SUFFIXES)}, or have no suffix: then it is a folder of shards"
        )
    with progress(n, "generating molecules") as advance:
        if processes > 1 and n >= WORTH_PROCESSES:
            return write_shards(_in_processes(n, seed, start, smiles, shard_size, processes, advance), path)
        return write_shards(counted(parts, advance), path)


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
            bounds = ((number, first, min(first + shard_size, stop)) for number, first in batch)
            for shard in parallel(delayed(_make_shard)(*part, seed, smiles) for part in bounds):
                yield shard
                advance(shard.structures)


def _make_shard(number: int, start: int, stop: int, seed: int, smiles: bool) -> EncodedShard:
    return encode_shard(huckel_range(start, stop, seed, smiles=smiles), number)
