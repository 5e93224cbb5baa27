"""Tables (CSV, TSV) with a column of SMILES or of sequences, and columns of targets."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.arrow_tables import write
from hiddenfield.data.columns import ROWS, Columns, chosen_names
from hiddenfield.data.convert.sequences import from_sequences
from hiddenfield.data.formats import FORMATS, Format
from hiddenfield.data.molecules import USUAL_EXTRA, read_molecules, skipped_rows
from hiddenfield.data.paths import existing, inner_suffix, write_text
from hiddenfield.data.readers import arrow
from hiddenfield.data.readers.delimited import (
    MISSING,
    SUFFIXES,
    Table,
    as_missing,
    further_column,
    read_table,
    target_column,
)
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, OptionError, ReadError, SkippedInputWarning
from hiddenfield.shapes import Array

KINDS = ("smiles", "sequence")
# What occurs in SMILES of more than the simplest molecules, and in no sequence of letters.
SMILES_SIGNS = re.compile(r"[=#()\[\]@/\\+0-9]")

# To be raised when the readers change what they make of the same table.
CACHE_VERSION = 2

NOT_OF_THE_RESULT = ("path", "cache", "num_workers", "progress")

# Rows that are converted at once where a table is read part by part.
ROWS_AT_ONCE = 10_000

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
    missing: Sequence[str] = MISSING,
    on_error: str = "raise",
    explicit_hydrogens: bool = False,
    extra: Sequence[str] | None = None,
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
        One or several columns, by name or position, with commas between them, or by a pattern such as ``"NR-*"``; none
        by default.
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
    aromatic (2), charge (5), chirality (5); arc labels: bond (4), conjugated (2), ring (2); targets: logP, toxic)
    """
    given = _checked(locals())

    def build() -> Outcome:
        pack, skipped = _content(given).pack(slice(None))
        return pack.single_labels() if single_labels else pack, skipped

    pack, skipped = build() if cache is None else _cached(given, Path(cache), build)
    if skipped is not None:
        warnings.warn(skipped, stacklevel=2)
    return pack


def scan(
    path: str | Path, *, cache: str | Path | None = None, single_labels: bool = False, **options: Any
) -> Iterator[Structures]:
    """Read molecules part by part, so that memory is bounded by the text and two parts; sequences as one pack.

    Targets are numbers or classes by their whole columns. Each part has the symbols that occur in it; rows that are
    left out are told once, at the end.

    Parameters
    ----------
    path, options
        As `read` takes them.
    cache, single_labels
        Need everything at once: with one of them it is.
    """
    if cache is not None or single_labels:
        yield read(path, cache=cache, single_labels=single_labels, **options)
        return
    defaults = {name: p.default for name, p in inspect.signature(read).parameters.items()}
    # No bar for each part: whoever goes through them shows one for all.
    content = _content(_checked({**defaults, "path": path, **options, "progress": False}))
    failures: list[tuple[int, str]] = []
    size = ROWS_AT_ONCE if content.kind == "smiles" else max(len(content.structures), 1)
    starts = range(0, max(len(content.structures), 1), size)
    with ThreadPoolExecutor(1) as ahead:  # reads a part while the caller is busy with the one before
        coming = ahead.submit(content.pack, slice(0, size))
        for start in starts:
            pack, skipped = coming.result()
            if start + size in starts:
                coming = ahead.submit(content.pack, slice(start + size, start + 2 * size))
            if skipped is not None:
                failures += [
                    (start + k, why) for k, why in zip(skipped.positions, skipped.reasons, strict=True)
                ]
            yield pack
    told = skipped_rows(failures, content.structures, lambda row: f"line {content.lines[row]}", content.ids)
    if told is not None:
        warnings.warn(told, stacklevel=2)


FORMAT = FORMATS.add(
    Format(
        name="table",
        summary="CSV or TSV with a column of SMILES or sequences, also .gz and .xz",
        recognises=lambda path: inner_suffix(path) in SUFFIXES and path.is_file(),
        read=read,
        priority=10,
        scan=scan,
    )
)


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as one takes them: columns as lists, what is missing as a set."""
    if given["on_error"] not in ("raise", "skip"):
        raise InputError(f"on_error must be 'raise' or 'skip', got {given['on_error']!r}")
    listed = {name: _listed(given[name]) for name in ("target", "keep")}
    further = {
        "path": Path(given["path"]),
        "header": bool(given["header"]),
        "missing": as_missing(given["missing"]),
    }
    return {**given, **listed, **further}


@dataclass(frozen=True, eq=False)
class _Content:
    """The columns of a table that are read: structures, which are converted later, and all that goes with them."""

    given: Mapping[str, Any]
    kind: str
    structures: list[Any]
    lines: Sequence[int]
    targets: Columns | None
    ids: list[str] | None
    further: Mapping[str, Array]
    missing: Sequence[tuple[int, str]]

    def pack(self, part: slice) -> Outcome:
        """Convert some of the rows; positions in the warning count from the first of them."""
        chosen, lines = self.structures[part], self.lines[part]
        ids, first = None if self.ids is None else self.ids[part], part.start or 0
        further = {name: values[part] for name, values in self.further.items()}
        if self.kind == "smiles":
            pack, kept, skipped = read_molecules(
                chosen,
                **{
                    name: self.given[name]
                    for name in ("on_error", "explicit_hydrogens", "num_workers", "progress")
                },
                extra=_labels(self.given["extra"]),
                ids=ids,
                name_row=lambda row: f"line {lines[row]}",
                complain=lambda row, message: ReadError(message, file=self.given["path"], line=lines[row]),
            )
            further["smiles"] = np.array(chosen, dtype=np.dtypes.StringDType())
        else:
            kept = np.setdiff1d(np.arange(len(chosen)), [row for row, _ in self.missing])
            pack = from_sequences([chosen[row] for row in kept], arc_labels=self.given["arc_labels"])
            skipped = skipped_rows(self.missing, chosen, lambda row: f"line {lines[row]}", ids)
        if skipped is not None:
            further[ROWS] = np.arange(first, first + len(chosen))
        pack = pack.replace(
            ids=None if ids is None else np.array(ids, dtype=np.dtypes.StringDType())[kept],
            columns={name: values[kept] for name, values in further.items()},
            targets=None if self.targets is None else self.targets.take(kept + first),
        )
        return pack, skipped


def _content(given: Mapping[str, Any]) -> _Content:
    """Read a table and keep the columns that are asked for; everything but the structures themselves is checked."""
    absent, id = given["missing"], given["id"]
    table = read_table(given["path"], header=given["header"], separator=given["separator"])
    columns = _structure_columns(table, given["structure"])
    kind = _structure_kind(table, columns, given["kind"])
    _check_applicable(kind, bool(given["explicit_hydrogens"] or given["extra"]), given["arc_labels"])
    beside = {table.names[k] for k in columns} | {table.names[table.find(c, "id")] for c in _listed(id)}
    targets = _targets(table, chosen_names(given["target"], table.names, beside), given["classes"], absent)
    ids = None if id is None else table.entries(table.find(id, "id"))
    kept = {table.names[k]: k for k in (table.find(column, "keep") for column in given["keep"])}
    further = {name: further_column(table.columns[k], absent) for name, k in kept.items()}
    structures: list[Any] = table.entries(columns[0])
    missing: list[tuple[int, str]] = []
    if kind == "sequence":
        structures, missing = _sequences(table, columns, absent, given["on_error"])
    return _Content(given, kind, structures, table.lines, targets, ids, further, missing)


def _targets(table: Table, target: list[Any], classes: Any, missing: frozenset[str]) -> Columns | None:
    positions = {table.names[k]: k for k in (table.find(column, "target") for column in target)}
    if len(positions) != len(target):
        raise InputError(f"target names a column twice: {target}")
    as_classes = _class_names(table, classes, list(positions))
    columns = {
        name: target_column(
            table.columns[k], name, classes=name in as_classes, missing=missing, refuse=table.refuse
        )
        for name, k in positions.items()
    }
    return Columns.targets(columns) if columns else None


def _class_names(table: Table, classes: Any, targets: list[str]) -> list[str]:
    if classes is True or classes is False or classes is None:
        return targets if classes else []
    names = [table.names[table.find(column, "classes")] for column in _listed(classes)]
    for name in names:
        if name not in targets:
            raise InputError(
                f"classes names the column {name!r}, which is no target; the targets are {targets}"
            )
    return names


def _labels(extra: Sequence[str] | None) -> Sequence[str]:
    """Return the further labels of atoms: those that are asked for, or the usual ones."""
    return USUAL_EXTRA if extra is None else extra


def _check_applicable(kind: str, molecular: bool, arc_labels: str | None) -> None:
    """Refuse an option that would do nothing."""
    if kind == "sequence" and molecular:
        raise InputError(
            "explicit_hydrogens and extra are options of SMILES, but this is a column of sequences"
        )
    if kind == "smiles" and arc_labels is not None:
        raise OptionError(
            "arc_labels is an option of sequences, but this is a column of SMILES", option="arc_labels"
        )


def _sequences(
    table: Table, columns: list[int], missing: frozenset[str], on_error: str
) -> tuple[list[Any], list[tuple[int, str]]]:
    """Return the sequences of one column, or of several whose entries are the symbols of one; and what is missing."""
    failures: list[tuple[int, str]] = []
    sequences: list[Any] = []
    if len(columns) == 1:
        sequences = [entry.strip() for entry in table.entries(columns[0])]
        failures = [(row, "the sequence is missing") for row, text in enumerate(sequences) if text in missing]
    else:
        for row, entries in enumerate(zip(*(table.entries(k) for k in columns), strict=True)):
            symbols = [entry.strip() for entry in entries]
            while symbols and symbols[-1] in missing:  # a sequence that is shorter than others
                symbols.pop()
            if not symbols or not missing.isdisjoint(symbols):
                failures.append(
                    (row, "a symbol within the sequence is missing" if symbols else "it is missing")
                )
            sequences.append(symbols)
    if failures and on_error == "raise":
        row, reason = failures[0]
        message = f'{reason}; fill it in, or leave such rows out with on_error="skip"'
        raise table.refuse(message, row)
    return sequences, failures


# -- which column holds the structures, and of what kind they are ------------------------------------------


def _listed(columns: Any) -> list[Any]:
    """Return what an option names as a list: one column, several, or none."""
    if columns is None:
        return []
    return list(columns) if isinstance(columns, (list, tuple, range)) else [columns]


def _structure_columns(table: Table, structure: Any) -> list[int]:
    """Return the positions of the columns that hold the structures."""
    if structure is not None:
        columns = [table.find(column, "structure") for column in _listed(structure)]
        if not columns or len(set(columns)) != len(columns):
            raise InputError(
                f"structure must name one column, or several different ones, got {structure!r:.200}"
            )
        return columns
    speaking = {k: name for k, name in enumerate(table.names) if _kind_of_name(name) is not None}
    exact = {k: name for k, name in speaking.items() if name.lower() in KINDS}
    found = exact if len(exact) == 1 else speaking
    if len(found) == 1:
        return list(found)
    if found:
        raise InputError(
            f"{table.file} has several columns of structures: {', '.join(map(repr, found.values()))}; "
            f"choose one with structure="
        )
    raise InputError(
        f"no column of {table.file} is called smiles or sequence; it has {table.listing()}. Choose one with "
        f"structure=, and if the file has no header, read it with header=None"
    )


def _kind_of_name(name: str) -> str | None:
    """Return the kind of structures that a column's name speaks of."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    if any(word in ("smi", "smile") or word.endswith("smiles") for word in words):
        return "smiles"
    if words[-1] in ("sequence", "sequences", "seq") or re.fullmatch(r"\d+mer", words[-1]):
        return "sequence"
    return None


def _structure_kind(table: Table, columns: list[int], kind: str | None) -> str:
    """Return the kind that is asked for, or that the column's name or else its entries show."""
    if kind is not None and kind not in KINDS:
        raise InputError(f"kind must be 'smiles' or 'sequence', got {kind!r}")
    if len(columns) > 1:
        if kind == "smiles":
            raise InputError(f"SMILES stand in one column, but structure names {len(columns)}")
        return "sequence"
    kind = kind or _kind_of_name(table.names[columns[0]])
    if kind is not None:
        return kind
    signs = any(SMILES_SIGNS.search(entry) for entry in table.entries(columns[0]))
    return "smiles" if signs else "sequence"


# -- what was read slowly once, kept as an Arrow file with a record of what it was made from --------------------


def _cached(given: Mapping[str, Any], cache: Path, build: Callable[[], Outcome]) -> Outcome:
    """Return what `build` gives, from the cache if that was made of the same file with the same options.

    The record lies beside the cache, in ``<cache>.json``: a hash of the source, the options, RDKit's version, and
    size and time of the cache itself. If anything differs, or the cache cannot be read, it is built and written anew.
    """
    cache = cache.expanduser()
    if cache.suffix.lower() != ".arrow":
        raise InputError(f"a cache must end in .arrow, got {str(cache)!r}")
    stamp = _stamp(given)
    skipped = _record_of(cache, stamp)
    if skipped is not None:
        try:
            return arrow.read(cache), SkippedInputWarning(**skipped) if skipped else None
        except ReadError:
            pass  # damaged since: build it anew
    pack, warning = build()
    record = cache.with_name(cache.name + ".json")
    record.unlink(missing_ok=True)  # so that a crash leaves no record of another file
    write(pack, cache)
    skipped = {} if warning is None else {"message": str(warning), **vars(warning)}
    contents = {"stamp": stamp, "cache": [cache.stat().st_size, cache.stat().st_mtime_ns], "skipped": skipped}
    write_text(record, json.dumps(contents))
    return pack, warning


def _stamp(given: Mapping[str, Any]) -> str:
    """Return a text that differs whenever the result might."""
    source = existing(given["path"])
    try:
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ReadError(f"cannot be opened: {error.strerror or error}", file=source) from None
    rdkit = importlib.metadata.version("rdkit") if importlib.util.find_spec("rdkit") else ""
    options = {name: value for name, value in given.items() if name not in NOT_OF_THE_RESULT}
    options |= {"missing": sorted(given["missing"]), "extra": _labels(given["extra"])}
    facts = {
        "version": CACHE_VERSION,
        "source": digest,
        "name": source.name,
        "rdkit": rdkit,
        "options": options,
    }
    return json.dumps(facts, sort_keys=True, default=repr)


def _record_of(cache: Path, stamp: str) -> dict[str, Any] | None:
    """Return what was left out of the cache, if it is the one that the stamp asks for; otherwise None."""
    try:
        record = json.loads(cache.with_name(cache.name + ".json").read_text(encoding="utf-8"))
        if record["stamp"] != stamp or record["cache"] != [cache.stat().st_size, cache.stat().st_mtime_ns]:
            return None
        return dict(record["skipped"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
