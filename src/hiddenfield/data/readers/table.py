"""Tables (CSV, TSV) with a column of SMILES or of sequences, and columns of targets."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.convert.sequences import from_sequences
from hiddenfield.data.features import ROWS
from hiddenfield.data.files import inner_suffix
from hiddenfield.data.formats import Format
from hiddenfield.data.molecules import read_molecules, skipped_rows
from hiddenfield.data.readers.cache import cached
from hiddenfield.data.readers.columns import MISSING, as_missing, further_column, target_column
from hiddenfield.data.readers.delimited import SUFFIXES, Table, read_table
from hiddenfield.data.readers.structure_columns import listed, structure_columns, structure_kind
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, ReadError, SkippedInputWarning
from hiddenfield.shapes import Array

__all__ = ["FORMAT", "read"]

Outcome = tuple[Structures, SkippedInputWarning | None]


def read(
    path: str | Path,
    *,
    structure: Any = None,
    kind: str | None = None,
    target: Any = None,
    classes: Any = False,
    id: Any = None,
    keep: Any = (),
    header: bool | None = True,
    separator: str | None = None,
    missing: Any = MISSING,
    on_error: str = "raise",
    explicit_hydrogens: bool = False,
    extra: Sequence[str] = (),
    arc_labels: str | None = None,
    single_labels: bool = False,
    cache: str | Path | None = None,
    num_workers: int | None = None,
    progress: bool = True,
) -> Structures:
    r"""Read molecules or sequences from a table.

    Parameters
    ----------
    path
        CSV or TSV, possibly .gz or .xz; UTF-8.
    structure
        The column that holds them, by name or by position from 0; by default the one that is called ``smiles`` or
        ``sequence`` or nearly so. Several columns together are a sequence with one symbol in each.
    kind
        ``"smiles"`` or ``"sequence"``; by default as the column's name says or, where it says nothing, as the
        entries look.
    target
        One or several columns; none by default.
    classes
        True, or the names of those targets, to read numbers as classes.
    id
        The column with the structures' ids.
    keep
        Further columns that travel along.
    header
        Whether the first row names the columns; if not (False or None) they are ``"0"``, ``"1"``, …
    separator
        By default found from the file's name and first line.
    missing
        The entries that count as missing.
    on_error
        What happens to a row whose SMILES cannot be read, or whose structure is missing: ``"raise"``, or ``"skip"``
        with one warning that says how many and which.
    explicit_hydrogens, extra
        Of molecules, as in `from_smiles`.
    arc_labels
        Of sequences, as in `from_sequences`.
    single_labels
        Whether to join label columns into one.
    cache
        A file that ends in .arrow: written when the table is first read, and mapped into memory from then on, as long
        as the table and the options are the same.
    num_workers, progress
        As in `from_smiles`.

    Returns
    -------
    Structures

    Raises
    ------
    ReadError
        Naming the file and line of what is wrong.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.csv"
    >>> _ = path.write_text("smiles,logP,toxic\nCCO,-0.18,no\nc1ccccc1,1.69,yes\nCCCl,,\n")
    >>> read(path, target=["logP", "toxic"])
    Structures(3 structures, 12 nodes, 20 arcs; node labels: element (3), degree (2), hydrogens (4), valence (4),
    aromatic (2); arc labels: bond (4), conjugated (2), ring (2); targets: logP, toxic)
    """
    request = _Request(
        Path(path), structure, kind, listed(target), classes, id, listed(keep), bool(header), separator,
        as_missing(missing), on_error, explicit_hydrogens, tuple(extra), arc_labels,
    )  # fmt: skip
    if on_error not in ("raise", "skip"):
        raise InputError(f"on_error must be 'raise' or 'skip', got {on_error!r}")

    def build() -> Outcome:
        pack, skipped = _build(request, num_workers, progress)
        return pack.single_labels() if single_labels else pack, skipped

    if cache is None:
        pack, skipped = build()
    else:
        options = {**request.options(), "single_labels": single_labels}
        pack, skipped = cached(request.path, Path(cache), options, build)
    if skipped is not None:
        warnings.warn(skipped, stacklevel=2)
    return pack


FORMAT = Format(
    name="table",
    summary="CSV or TSV with a column of SMILES or sequences, also .gz and .xz",
    recognises=lambda path: inner_suffix(path) in SUFFIXES and path.is_file(),
    read=read,
)


@dataclass(frozen=True)
class _Request:
    """What determines the pack that comes of a table."""

    path: Path
    structure: Any
    kind: str | None
    target: list[Any]
    classes: Any
    id: Any
    keep: list[Any]
    header: bool
    separator: str | None
    missing: frozenset[str]
    on_error: str
    explicit_hydrogens: bool
    extra: tuple[str, ...]
    arc_labels: str | None

    def options(self) -> dict[str, Any]:
        """Return everything but the path in terms that JSON knows."""
        named = {name: value for name, value in vars(self).items() if name != "path"}
        return {
            name: sorted(value) if isinstance(value, frozenset) else value for name, value in named.items()
        }


def _build(request: _Request, num_workers: int | None, progress: bool) -> Outcome:
    table = read_table(request.path, header=request.header, separator=request.separator)
    columns = structure_columns(table, request.structure)
    kind = structure_kind(table, columns, request.kind)
    _check_applicable(request, kind)
    targets, words = _targets(table, request)
    ids = None if request.id is None else table.entries(table.find(request.id, "id"))
    kept = {table.names[k]: k for k in (table.find(column, "keep") for column in request.keep)}
    further = {name: further_column(table.entries(k), request.missing) for name, k in kept.items()}
    if kind == "smiles":
        pack, rows, skipped = _molecules(table, columns[0], ids, request, num_workers, progress)
        texts = table.entries(columns[0])
        further["smiles"] = np.array(texts, dtype=np.dtypes.StringDType())
    else:
        pack, rows, skipped = _sequences(table, columns, ids, request)
    if skipped is not None:
        further[ROWS] = np.arange(len(table.rows))
    pack = pack.replace(
        ids=None if ids is None else np.array(ids, dtype=np.dtypes.StringDType())[rows],
        columns={name: values[rows] for name, values in further.items()},
    )
    if targets:
        import torch

        names = tuple(targets)
        values = torch.from_numpy(np.stack([targets[name][rows] for name in names], axis=1))
        pack = pack.replace(targets=values, target_names=names, target_vocabularies=words)
    return pack, skipped


def _targets(table: Table, request: _Request) -> tuple[dict[str, Array], tuple[Any, ...]]:
    """Return the target columns by name, and the classes of each."""
    positions = {table.names[k]: k for k in (table.find(column, "target") for column in request.target)}
    if len(positions) != len(request.target):
        raise InputError(f"target names a column twice: {request.target}")
    as_classes = _class_names(table, request.classes, list(positions))
    columns = {
        name: target_column(
            table.entries(k),
            name,
            classes=name in as_classes,
            missing=request.missing,
            file=table.file,
            lines=table.lines,
        )
        for name, k in positions.items()
    }
    return {name: values for name, (values, _) in columns.items()}, tuple(
        word for _, word in columns.values()
    )


def _class_names(table: Table, classes: Any, targets: list[str]) -> list[str]:
    if classes is True or classes is False or classes is None:
        return targets if classes else []
    names = [table.names[table.find(column, "classes")] for column in listed(classes)]
    for name in names:
        if name not in targets:
            raise InputError(
                f"classes names the column {name!r}, which is no target; the targets are {targets}"
            )
    return names


def _check_applicable(request: _Request, kind: str) -> None:
    """Refuse an option that would do nothing."""
    if kind == "sequence" and (request.explicit_hydrogens or request.extra):
        raise InputError(
            "explicit_hydrogens and extra are options of SMILES, but this is a column of sequences"
        )
    if kind == "smiles" and request.arc_labels is not None:
        raise InputError("arc_labels is an option of sequences, but this is a column of SMILES")


def _molecules(
    table: Table,
    column: int,
    ids: list[str] | None,
    request: _Request,
    num_workers: int | None,
    progress: bool,
) -> tuple[Structures, Array, SkippedInputWarning | None]:
    return read_molecules(
        table.entries(column),
        on_error=request.on_error,
        explicit_hydrogens=request.explicit_hydrogens,
        extra=request.extra,
        num_workers=num_workers,
        progress=progress,
        ids=ids,
        name_row=lambda row: f"line {table.lines[row]}",
        complain=lambda row, message: ReadError(message, file=table.file, line=table.lines[row]),
    )


def _sequences(
    table: Table, columns: list[int], ids: list[str] | None, request: _Request
) -> tuple[Structures, Array, SkippedInputWarning | None]:
    """Read one column whose entries are sequences, or several whose entries are the symbols of one."""
    failures: list[tuple[int, str]] = []
    sequences: list[Any] = []
    if len(columns) == 1:
        sequences = [entry.strip() for entry in table.entries(columns[0])]
        failures = [
            (row, "the sequence is missing") for row, text in enumerate(sequences) if text in request.missing
        ]
    else:
        for row, entries in enumerate(table.rows):
            symbols = [entries[k].strip() for k in columns]
            while symbols and symbols[-1] in request.missing:  # a sequence that is shorter than others
                symbols.pop()
            if not symbols or not request.missing.isdisjoint(symbols):
                failures.append(
                    (row, "a symbol within the sequence is missing" if symbols else "it is missing")
                )
            sequences.append(symbols)
    if failures and request.on_error == "raise":
        row, reason = failures[0]
        message = f'{reason}; fill it in, or leave such rows out with on_error="skip"'
        raise ReadError(message, file=table.file, line=table.lines[row])
    failed = {row for row, _ in failures}
    rows = np.array([row for row in range(len(sequences)) if row not in failed], dtype=np.int64)
    pack = from_sequences([sequences[row] for row in rows], arc_labels=request.arc_labels)
    return pack, rows, skipped_rows(failures, sequences, lambda row: f"line {table.lines[row]}", ids)
