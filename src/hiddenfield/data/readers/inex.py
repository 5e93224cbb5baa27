"""INEX trees: one tree per line, ``class:label(child child ...)``, where ``$`` stands for no children."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from hiddenfield.data.columns import Columns
from hiddenfield.data.convert.parents import from_depths
from hiddenfield.data.formats import FORMATS, Format
from hiddenfield.data.paths import decode, first_bytes, inner_suffix, read_bytes
from hiddenfield.data.readers.sexpr import refuse_at, runs
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary, symbols_of
from hiddenfield.shapes import Array

# The kinds of characters, and for each what may follow it. Everything else is part of a label.
LABEL, OPEN, CLOSE, NOTHING, COLON, SPACE, NEWLINE = range(7)
KINDS = {"(": OPEN, ")": CLOSE, "$": NOTHING, ":": COLON, " ": SPACE, "\t": SPACE, "\n": NEWLINE}
NAMES = ("a label", "'('", "')'", "'$'", "':'", "a space", "the end of the line")
FOLLOWERS = {
    LABEL: (LABEL, OPEN, COLON),
    OPEN: (LABEL, NOTHING),
    CLOSE: (CLOSE, SPACE, NEWLINE),
    NOTHING: (CLOSE,),
    COLON: (LABEL,),
    SPACE: (LABEL, SPACE, NEWLINE),
    NEWLINE: (LABEL, NEWLINE),
}


def read(path: str | Path, *, arc_labels: Literal["direction", "position"] | None = None) -> Structures:
    r"""Read INEX trees.

    Parameters
    ----------
    path
        The file; it may be compressed.
    arc_labels
        As in `from_parents`: ``"position"`` labels every arc by direction and child position.

    Returns
    -------
    Structures
        Trees with nodes numbered from the root in the order of the text; node label `label`, target `class`. Labels
        and classes that are all integers become integers. Blank lines are skipped.

    Raises
    ------
    ReadError
        Naming line and column of the first character that does not fit.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.tree"
    >>> _ = path.write_text("10:110(37($) 38(72($)))\n3:37($)\n")
    >>> trees = read(path)
    >>> trees
    Structures(2 structures, 5 nodes, 6 arcs; node labels: label (4); targets: class)
    >>> trees.target_vocabularies[0].decode(trees.targets[:, 0].int().tolist())
    [10, 3]
    """
    # Blanks at the ends of lines are dropped, so that what follows the last bracket is the next line.
    lines = [line.rstrip(" \t") for line in decode(read_bytes(path), path).split("\n")]
    contents = ("\n".join(lines) + "\n").encode()
    codes = np.frombuffer(contents, dtype=np.uint8)
    kinds = _kind_of_byte()[codes]
    depth = np.cumsum((kinds == OPEN).astype(np.int32) - (kinds == CLOSE), dtype=np.int32)
    _check(contents, kinds, depth, path)
    starts, ends = runs(kinds == LABEL)
    texts = [contents[start:end].decode() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    heads = kinds[ends] == COLON
    nodes = np.flatnonzero(~heads)
    level = depth[starts[nodes]]
    vocabulary, classes = Vocabulary.from_values(
        "class", symbols_of([texts[k] for k in np.flatnonzero(heads)])
    )
    return from_depths(
        level,
        node_labels={"label": symbols_of([texts[node] for node in nodes.tolist()])},
        arc_labels=arc_labels,
        targets=Columns.targets({"class": (classes, vocabulary)}),
    )


def _kind_of_byte() -> Array:
    table = np.full(256, LABEL, dtype=np.int8)
    for character, kind in KINDS.items():
        table[ord(character)] = kind
    return table


def _check(contents: bytes, kinds: Array, depth: Array, path: str | Path) -> None:
    """Refuse the first character that cannot follow the one before it, or that does not fit the nesting."""
    allowed = np.zeros((len(NAMES), len(NAMES)), dtype=bool)
    for kind, followers in FOLLOWERS.items():
        allowed[kind, list(followers)] = True
    before = np.concatenate([[NEWLINE], kinds[:-1]])
    wrong = ~allowed[before, kinds]
    wrong |= (depth < 0) | ((kinds == SPACE) & (depth <= 0)) | ((kinds == NEWLINE) & (depth != 0))
    starts, ends = runs(kinds == LABEL)
    wrong[ends] |= kinds[ends] != np.where(before[starts] == NEWLINE, COLON, OPEN)
    if not wrong.any():
        return
    at = int(np.argmax(wrong))
    raise refuse_at(at, _complaint(at, kinds, depth, starts, ends), contents, path)


def _complaint(at: int, kinds: Array, depth: Array, starts: Array, ends: Array) -> str:
    """Say what was expected at a character and what came."""
    came = NAMES[kinds[at]]
    last = NEWLINE if at == 0 else kinds[at - 1]
    if kinds[at] == NEWLINE and depth[at] > 0:
        return f"the line ends while {depth[at]} brackets are open; is the file complete?"
    if last == CLOSE and depth[at - 1] == 0:
        return f"expected the end of the line after the tree's last bracket, got {came}"
    if last == LABEL:
        start = int(starts[np.searchsorted(ends, at)])
        head = start == 0 or kinds[start - 1] == NEWLINE
        expected, after = (NAMES[COLON], "class") if head else (NAMES[OPEN], "label")
        return f"expected {expected} after the {after}, got {came}"
    choices = " or ".join(NAMES[kind] for kind in FOLLOWERS[int(last)] if kind not in (SPACE, NEWLINE))
    return f"expected {choices}, got {came}; a line is class:label(child child ...), $ for no child"


def _recognises(path: Path) -> bool:
    """Recognise by the suffix ``.tree``, or by the head of the first line of a text."""
    if path.is_dir() or inner_suffix(path) not in (".tree", ".txt", ""):
        return False
    line = first_bytes(path).lstrip().partition(b"\n")[0]
    head, colon, rest = line.partition(b":")
    label, bracket, _ = rest.partition(b"(")
    return bool(head and colon and label and bracket) and not set(head + label) & set(b" \t()$:")


FORMAT = FORMATS.add(
    Format("inex", "trees, one per line: class:label(child child ...)", _recognises, read, priority=30)
)
