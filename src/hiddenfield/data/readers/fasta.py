"""FASTA: sequences under header lines, with labels from the headers or from a table."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.columns import Columns
from hiddenfield.data.convert.sequences import from_sequences
from hiddenfield.data.formats import FORMATS, Format
from hiddenfield.data.paths import inner_suffix, read_text
from hiddenfield.data.readers.delimited import MISSING, read_table, target_column
from hiddenfield.data.structures import Structures
from hiddenfield.errors import ReadError

SUFFIXES = (".fasta", ".fas", ".fa", ".faa", ".ffn", ".fna", ".frn", ".mpfa")
# Nucleotides and amino acids with their ambiguity codes, a stop, a gap.
ALPHABET = string.ascii_letters + "*-"


@dataclass(frozen=True)
class Records:
    """The records of a file: headers without their sign and their lines, sequences with their lines joined."""

    headers: list[str]
    sequences: list[str]
    lines: list[int]
    path: Path

    def refuse(self, message: str, record: int) -> ReadError:
        """Return the error for a record, which names the line of its header."""
        return ReadError(message, file=self.path, line=self.lines[record])


def read(
    path: str | Path,
    *,
    labels: str | Path | None = None,
    label: str | int = "label",
    label_id: str | int = "id",
    classes: bool = False,
    upper: bool = False,
    alphabet: str | None = ALPHABET,
    arc_labels: str | None = None,
) -> Structures:
    r"""Read sequences from a FASTA file.

    A line that begins with ``>`` is a header, the lines up to the next one are its sequence. The first word of a
    header is the sequence's id, the rest is kept as the column ``"description"``.

    Parameters
    ----------
    path
        The file, possibly .gz or .xz; UTF-8.
    labels
        ``"header"``: the whole header is the sequence's class, and there are no ids; header lines may then also begin
        with ``LABEL>``. Or the path of a table that gives each id its label. By default there are no labels.
    label, label_id
        The columns of that table, by name or position, with the label and with the id.
    classes
        Whether a column of numbers in that table is one of classes.
    upper
        Whether to turn lower case, with which some files mask repeats, into upper case.
    alphabet
        The characters that may occur; by default letters, ``*`` and ``-``. None for any, as in files of text, where
        blanks count too.
    arc_labels
        As in `from_sequences`.

    Returns
    -------
    Structures

    Raises
    ------
    ReadError
        Naming file and line, for a sequence without a header or without symbols, a character outside the alphabet, an
        id that occurs twice or has no label.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "proteins.fasta"
    >>> _ = path.write_text(">P1 a short one\nMKV\nLA\n>P2\nMA\n")
    >>> proteins = read(path)
    >>> proteins
    Structures(2 structures, 7 nodes, 10 arcs; node labels: symbol (5))
    >>> proteins.ids.tolist(), proteins.columns["description"].tolist()
    (['P1', 'P2'], ['a short one', ''])
    """
    path = Path(path)
    by_header = labels == "header"
    text = read_text(path)
    if alphabet is not None and (" \n" in text or "\t\n" in text or text.endswith((" ", "\t"))):
        text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    records = _records(text, path, by_header)
    if alphabet is not None:
        hint = "if the sequences are text, pass alphabet=None" if by_header else "pass alphabet= to allow it"
        known = frozenset(alphabet)
        _check_alphabet(text, records, lambda sign: (sign.upper() if upper else sign) in known, hint)
    sequences = [sequence.upper() for sequence in records.sequences] if upper else records.sequences
    options: dict[str, Any] = {}
    if by_header:
        import pyarrow

        headers = pyarrow.chunked_array([records.headers], pyarrow.string())
        found = target_column(headers, "label", classes=True, missing=MISSING, refuse=records.refuse)
        options["targets"] = Columns.targets({"label": found})
    else:
        ids, descriptions = _identify(records)
        options["ids"] = ids
        if any(descriptions):
            options["columns"] = {"description": np.array(descriptions, dtype=np.dtypes.StringDType())}
        if labels is not None:
            options["targets"] = _labels_of(ids, records, Path(labels), label, label_id, classes)
    return from_sequences(sequences, arc_labels=arc_labels, **options)


FORMAT = FORMATS.add(
    Format(
        "fasta",
        "FASTA sequences, also .gz and .xz; labels from the headers or from a table",
        lambda path: inner_suffix(path) in SUFFIXES and path.is_file(),
        read,
        priority=40,
    )
)


def _records(text: str, path: Path, labelled: bool) -> Records:
    """Cut the text at its headers."""
    header = re.compile(r"^(?:LABEL)?>(.*)\n?" if labelled else r"^>(.*)\n?", re.MULTILINE)
    found = list(header.finditer(text))
    start = found[0].start() if found else len(text)
    if text[:start].strip():
        line = text.count("\n", 0, len(text) - len(text.lstrip())) + 1
        hint = "" if labelled else "; if header lines read 'LABEL>1', pass labels=\"header\""
        first = text.lstrip().split("\n", 1)[0]
        raise ReadError(
            f"expected a header that begins with '>', got {first!r:.60}{hint}", file=path, line=line
        )
    if not found:
        raise ReadError("the file holds no sequences", file=path)
    ends = [match.start() for match in found[1:]] + [len(text)]
    bodies = [text[match.end() : end] for match, end in zip(found, ends, strict=True)]
    counts = np.cumsum([text.count("\n", 0, start), *(1 + body.count("\n") for body in bodies)])
    lines = (counts[:-1] + 1).tolist()
    sequences = [body.replace("\n", "") for body in bodies]
    records = Records([match[1].strip() for match in found], sequences, lines, path)
    for record, (match, sequence) in enumerate(zip(found, sequences, strict=True)):
        if not sequence.strip():
            raise records.refuse(
                f"the sequence of header {match[1]!r:.60} is empty; remove the record", record
            )
    return records


def _check_alphabet(text: str, records: Records, allowed: Callable[[str], bool], hint: str) -> None:
    """Refuse the first character outside the alphabet, with its line."""
    strange = "".join(sorted(sign for sign in set("".join(records.sequences)) if not allowed(sign)))
    if not strange:
        return
    pattern = re.compile(f"[{re.escape(strange)}]")
    record = next(k for k, sequence in enumerate(records.sequences) if pattern.search(sequence))
    for number, line in enumerate(text.split("\n")[records.lines[record] :], start=records.lines[record] + 1):
        found = pattern.search(line)
        if found:
            message = f"{found[0]!r} is not a character of sequences; correct it, or {hint}"
            raise ReadError(message, file=records.path, line=number)


def _identify(records: Records) -> tuple[list[str], list[str]]:
    """Split headers into ids, all different, and descriptions."""
    words = [header.split(None, 1) for header in records.headers]
    ids = [parts[0] if parts else "" for parts in words]
    if "" in ids:
        raise records.refuse("the header has no id", ids.index(""))
    if len(set(ids)) != len(ids):
        first: dict[str, int] = {}
        for position, name in enumerate(ids):
            if name in first:
                raise records.refuse(
                    f"the id {name!r:.60} stands in line {records.lines[first[name]]} already; if the headers are "
                    f'classes, pass labels="header"',
                    position,
                )
            first[name] = position
    return ids, [parts[1] if len(parts) > 1 else "" for parts in words]


def _labels_of(
    ids: Sequence[str], records: Records, file: Path, label: Any, label_id: Any, classes: bool
) -> Columns:
    """Look the ids up in a table; its further rows are of no concern."""
    table = read_table(file)
    keys = [key.strip() for key in table.entries(table.find(label_id, "label_id"))]
    rows = {key: row for row, key in enumerate(keys)}
    if len(rows) != len(keys):
        twice = next(key for row, key in enumerate(keys) if rows[key] != row)
        raise table.refuse(f"the id {twice!r:.60} has two labels", rows[twice])
    for position, name in enumerate(ids):
        if name not in rows:
            raise records.refuse(f"{name!r:.60} has no label in {file}", position)
    column = table.find(label, "label")
    chosen = [rows[name] for name in ids]
    entries, name = table.columns[column].take(chosen), table.names[column]

    def refuse(message: str, row: int) -> ReadError:
        return table.refuse(message, chosen[row])

    found = target_column(entries, name, classes=classes, missing=MISSING, refuse=refuse)
    return Columns.targets({name: found})
