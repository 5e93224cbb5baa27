"""Molecules: SMILES to a pack of labelled graphs, on all cores."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hiddenfield.data.build import from_edges
from hiddenfield.data.columns import ROWS, Unit, as_extra, as_ids, as_targets
from hiddenfield.data.rdkit_atoms import (
    BOND_COLUMNS,
    CHIRALITIES,
    DEFAULT_COLUMNS,
    EXTRA_COLUMNS,
    Chunk,
    element_names,
    read_chunk,
)
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Symbol, Vocabulary
from hiddenfield.errors import (
    InputError,
    MissingDependencyError,
    SkippedInputWarning,
    checked_integer,
)
from hiddenfield.progress import progress as progress_bar
from hiddenfield.shapes import Array, Int

CHUNK = 500
# Node labels beside the paper's five that predictions are better with (docs/decisions/0017).
USUAL_EXTRA = ("charge", "chirality")
# Starting worker processes takes as long as reading about this many molecules.
FEW = 2000
# Columns that have few possible symbols know them all, so that a model is not tied to what its data happened to hold.
FIXED: dict[str, tuple[Symbol, ...]] = {
    "aromatic": (0, 1),
    "charge": (-2, -1, 0, 1, 2),
    "chirality": CHIRALITIES,
    "conjugated": (0, 1),
    "ring": (0, 1),
    "bond": ("single", "double", "triple", "aromatic"),
}


def from_smiles(
    smiles: Any,
    *,
    targets: Any = None,
    target_names: Sequence[str] | None = None,
    target_vocabularies: Sequence[Vocabulary | None] | None = None,
    ids: Any = None,
    columns: Mapping[str, Any] | None = None,
    on_error: str = "raise",
    explicit_hydrogens: bool = False,
    extra: Sequence[str] = USUAL_EXTRA,
    single_labels: bool = False,
    num_workers: int | None = None,
    progress: bool = True,
) -> Structures:
    """Build a pack of molecular graphs from SMILES: atoms are nodes, bonds are edges, in RDKit's order.

    Node labels are ``element`` (its symbol), ``degree`` (bonds to other nodes), ``hydrogens`` (those that are no
    nodes), ``valence`` (the implicit one), ``aromatic`` (0 or 1), and those of `extra`. Arc labels are ``bond``
    (``"single"``, ``"double"``, ``"triple"``, ``"aromatic"``, or RDKit's name of a rarer one), ``conjugated`` and
    ``ring`` (0 or 1). Salts stay one structure of several components, single atoms stay, and the texts are kept as the
    column ``"smiles"``.

    Parameters
    ----------
    smiles
        Texts. As in SMILES files, what follows white space is a name and no part of the molecule.
    targets, target_names, target_vocabularies, ids, columns
        As in `from_arcs`, one entry for each text.
    on_error
        What happens to a text that RDKit cannot read (or that is empty): ``"raise"`` an `InputError`, or ``"skip"``
        it and report how many and which in one `SkippedInputWarning`, whose ``positions`` lists them all, with their
        ``reasons`` and ``ids``; the column ``"row in file"`` then says where each of the others stood.
    explicit_hydrogens
        Whether hydrogens are nodes too.
    extra
        Further node labels: ``"charge"``, ``"chirality"`` (R, S or none), ``"hybridization"``, ``"isotope"``,
        ``"radicals"``; by default the first two.
    single_labels
        Whether to join the node labels into one column, and the arc labels into one.
    num_workers
        Processes; by default one for each core. A few molecules are read in this process.
    progress
        Whether to show a bar, on a terminal, when it takes longer than a second.

    Returns
    -------
    Structures
        Cost: about 0.3 ms of one core for a molecule of 28 atoms.

    Raises
    ------
    MissingDependencyError
        If RDKit is not installed.

    Examples
    --------
    >>> molecules = from_smiles(["CCO", "c1ccccc1"], targets=[-0.77, -1.64])
    >>> molecules.num_nodes.tolist(), molecules.num_edges.tolist()
    ([3, 6], [2, 6])
    >>> [vocabulary.name for vocabulary in molecules.node_vocabularies]
    ['element', 'degree', 'hydrogens', 'valence', 'aromatic', 'charge', 'chirality']
    >>> from_smiles(["CCO", "C1CC"])
    Traceback (most recent call last):
    hiddenfield.errors.InputError: row 1: 'C1CC' cannot be read as a molecule by RDKit: unclosed ring; \
correct it, or leave such rows out with on_error="skip"
    """
    texts = _texts(smiles)
    names, further = as_ids(ids, len(texts)), as_extra(columns, len(texts))
    outcome = as_targets(targets, target_names, target_vocabularies, Unit.of_structures(len(texts), names))
    pack, kept, skipped = read_molecules(
        texts,
        on_error=on_error,
        explicit_hydrogens=explicit_hydrogens,
        extra=extra,
        num_workers=num_workers,
        progress=progress,
        ids=None if names is None else names.tolist(),
    )
    if skipped is not None:
        warnings.warn(skipped, stacklevel=2)
        further = {**further, ROWS: np.arange(len(texts))}
    pack = pack.replace(
        targets=None if outcome is None else outcome.take(kept),
        ids=None if names is None else names[kept],
        columns=as_extra({"smiles": [texts[k] for k in kept]}, len(kept))
        | {name: column[kept] for name, column in further.items()},
    )
    return pack.single_labels() if single_labels else pack


def read_molecules(
    texts: Sequence[Any],
    *,
    on_error: str,
    explicit_hydrogens: bool,
    extra: Sequence[str],
    num_workers: int | None,
    progress: bool,
    ids: Sequence[str] | None = None,
    name_row: Callable[[int], str] = "row {}".format,
    complain: Callable[[int, str], Exception] | None = None,
) -> tuple[Structures, Int[Array, " structures"], SkippedInputWarning | None]:
    """Read molecules for a caller that has its own names for rows and its own targets, ids and columns.

    Parameters
    ----------
    texts, on_error, explicit_hydrogens, extra, num_workers, progress
        As in `from_smiles`.
    ids
        One for each text, for the warning.
    name_row
        Names a position in messages.
    complain
        Makes the error of a position and a message.

    Returns
    -------
    The molecules, the positions of their texts, and what to warn of if any were left out.
    """
    if on_error not in ("raise", "skip"):
        raise InputError(f"on_error must be 'raise' or 'skip', got {on_error!r}")
    wanted = _columns(extra)
    if importlib.util.find_spec("rdkit") is None:
        raise MissingDependencyError.for_extra("rdkit", "molecules", "reading SMILES")
    chunks: list[Chunk] = []
    failures: list[tuple[int, str]] = []
    with progress_bar(len(texts), "reading molecules", shown=progress) as advance:
        for number, chunk in enumerate(_chunks(texts, wanted, explicit_hydrogens, num_workers)):
            failures += [(number * CHUNK + position, reason) for position, reason in chunk.failures]
            if failures and on_error == "raise":
                position, reason = failures[0]
                message = f"{texts[position]!r:.200} cannot be read as a molecule by RDKit: {reason}; "
                message += 'correct it, or leave such rows out with on_error="skip"'
                raise (
                    complain(position, message)
                    if complain
                    else InputError(f"{name_row(position)}: {message}")
                )
            chunks.append(chunk)
            advance(len(chunk.num_atoms))
    failed = {position for position, _ in failures}
    kept = np.array([position for position in range(len(texts)) if position not in failed], dtype=np.int64)
    return _pack(chunks, wanted, kept), kept, skipped_rows(failures, texts, name_row, ids)


def _texts(smiles: Any) -> list[Any]:
    if isinstance(smiles, (str, bytes)) or not hasattr(smiles, "__iter__"):
        raise InputError(f"expected a list of SMILES, got {smiles!r:.200}; put a single one into a list")
    return list(smiles)


def _columns(extra: Sequence[str]) -> tuple[str, ...]:
    extra = [extra] if isinstance(extra, str) else extra
    if not isinstance(extra, Iterable):
        raise InputError(
            f"extra must be a list of names, got {extra!r}; choose from: {', '.join(EXTRA_COLUMNS)}"
        )
    extra = () if list(extra) == ["none"] else extra  # as a command line says it
    for name in extra:
        if name not in EXTRA_COLUMNS:
            raise InputError(
                f"there is no extra node label {name!r}; choose from: {', '.join(EXTRA_COLUMNS)}"
            )
    return DEFAULT_COLUMNS + tuple(dict.fromkeys(extra))


def _chunks(
    texts: Sequence[Any], columns: tuple[str, ...], explicit_hydrogens: bool, num_workers: int | None
) -> Iterator[Chunk]:
    """Read chunk by chunk, in order, here or in worker processes."""
    import joblib

    workers = (
        joblib.cpu_count()
        if num_workers is None
        else checked_integer(num_workers, "num_workers, if not None for all cores,", 1)
    )
    parts = [texts[start : start + CHUNK] for start in range(0, len(texts), CHUNK)]
    if workers == 1 or len(texts) <= FEW:
        yield from (read_chunk(part, columns, explicit_hydrogens) for part in parts)
        return
    # Loky's processes start from nothing: the caller's script needs no guard, and no thread or lock is inherited.
    parallel = joblib.Parallel(n_jobs=min(workers, len(parts)), backend="loky", return_as="generator")
    results = parallel(joblib.delayed(read_chunk)(part, columns, explicit_hydrogens) for part in parts)
    try:
        for chunk in results:  # noqa: UP028 - "yield from" would close them before the warnings are quiet
            yield chunk
    except BaseException:  # an error, or whoever reads has stopped: the chunks under way are of no use
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*tasks (have|which)")
            results.close()
        raise


def skipped_rows(
    failures: Sequence[tuple[int, str]],
    texts: Sequence[Any],
    name_row: Callable[[int], str],
    ids: Sequence[str] | None = None,
) -> SkippedInputWarning | None:
    """Say how many rows were left out, which, and why; None if there are none."""
    if not failures:
        return None
    lines = [
        f"{name_row(position)}: {texts[position]!r:.60} ({reason}"
        + (")" if ids is None else f"; id {ids[position]!r:.60})")
        for position, reason in failures[:10]
    ]
    more = f"; and {len(failures) - 10} more, all in the warning's positions" if len(failures) > 10 else ""
    message = f"left out {len(failures)} of {len(texts)} rows that cannot be read: {'; '.join(lines)}{more}"
    positions, reasons = zip(*failures, strict=True)
    own = None if ids is None else [ids[position] for position in positions]
    return SkippedInputWarning(message, positions, reasons, own)


def _pack(chunks: list[Chunk], columns: tuple[str, ...], kept: Array) -> Structures:
    def joined(rows: list[Array], empty: tuple[int, ...]) -> Array:
        return np.concatenate(rows, axis=-1) if rows else np.zeros(empty, dtype=np.int64)

    num_atoms = joined([chunk.num_atoms for chunk in chunks], (0,))[kept]
    num_bonds = joined([chunk.num_bonds for chunk in chunks], (0,))[kept]
    atoms = joined([chunk.atoms for chunk in chunks], (len(columns), 0))
    bonds = joined([chunk.bonds for chunk in chunks], (len(BOND_COLUMNS), 0))
    ends = joined([chunk.ends for chunk in chunks], (2, 0))
    nodes = [_labels(name, values) for name, values in zip(columns, atoms, strict=True)]
    edges = [_labels(name, values) for name, values in zip(BOND_COLUMNS, bonds, strict=True)]
    return from_edges(
        ends[0],
        ends[1],
        node_ptr=np.concatenate([[0], np.cumsum(num_atoms)]),
        edge_ptr=np.concatenate([[0], np.cumsum(num_bonds)]),
        node_labels=np.stack([codes for _, codes in nodes], axis=1),
        node_vocabularies=[vocabulary for vocabulary, _ in nodes],
        edge_labels=np.stack([codes for _, codes in edges], axis=1),
        edge_vocabularies=[vocabulary for vocabulary, _ in edges],
    )


def _labels(name: str, numbers: Array) -> tuple[Vocabulary, Int[Array, " rows"]]:
    """Return the vocabulary and the codes of one column of plain numbers."""
    present, codes = Vocabulary.from_values(name, numbers)
    symbols = _symbols(name, list(map(int, present.symbols)))
    vocabulary = Vocabulary(name, FIXED.get(name, ())).union(Vocabulary.from_values(name, symbols)[0])
    return vocabulary, vocabulary.encode(symbols)[codes]


def _symbols(name: str, numbers: list[int]) -> list[Symbol]:
    """Return the symbols that the plain numbers of a column stand for."""
    from rdkit.Chem import BondType, HybridizationType

    if name == "element":
        return list(element_names(numbers))
    if name == "bond":
        return [BondType.values[number].name.lower() for number in numbers]
    if name == "hybridization":
        return [HybridizationType.values[number].name.lower() for number in numbers]
    if name == "chirality":
        return [CHIRALITIES[number] for number in numbers]
    return list(numbers)
