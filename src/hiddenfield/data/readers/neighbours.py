"""Graphs as lists of neighbours, all in one text: how the structure2vec and GIN code bases distribute data sets."""

from __future__ import annotations

import re
import zipfile
from itertools import chain
from pathlib import Path, PurePosixPath

import numpy as np

from hiddenfield.data.build import from_arcs
from hiddenfield.data.columns import Columns
from hiddenfield.data.formats import FORMATS, Format
from hiddenfield.data.paths import (
    UNREADABLE,
    Member,
    decode,
    existing,
    first_bytes,
    inner_suffix,
    read_bytes,
    zip_members,
)
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, ReadError
from hiddenfield.shapes import Array

INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
# Folds that such archives bring along, and copies that macOS adds.
NO_GRAPHS = re.compile(r"(^|/)((train|test)_idx-\d+\.txt|\._[^/]*)$|(^|/)__MACOSX/")
START = 1 << 16


def read(path: str | Path, *, name: str | None = None) -> Structures:
    r"""Read graphs from one text: their number; then of each ``n class``, and n lines ``label degree neighbour ...``.

    Parameters
    ----------
    path
        A text file, perhaps compressed, or a zip archive that holds one; index files of folds beside it are left alone.
    name
        Which of the archive's texts, needed only where several may be meant.

    Returns
    -------
    Structures
        With the node label ``label`` and the target ``class``. Neighbours are counted from 0 within their graph. Each
        is one arc, from the node on whose line it stands: one-way arcs, self-loops and repeated arcs stay as they are.
        Cost: linear in the bytes.

    Raises
    ------
    ReadError
        Naming the file and line of what is wrong.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "TINY.txt"
    >>> _ = path.write_text("2\n3 1\n6 1 1\n8 2 0 2\n6 1 1\n1 -1\n6 0\n")
    >>> read(path)
    Structures(2 structures, 4 nodes, 4 arcs; node labels: label (2); targets: class)
    """
    path = existing(path)
    if path.suffix.lower() == ".zip":
        return _parsed(_chosen(path, zip_members(path, ".txt"), name))
    if name is not None:
        raise InputError(f"{path} is no archive, so that there is nothing to choose; leave out name={name!r}")
    return _parsed(Member(str(path), lambda: read_bytes(path)))


def _parsed(file: Member) -> Structures:
    lines, numbers = _lines(file)
    widths = np.array([len(line) for line in lines], dtype=np.int64)
    words = np.array([int(word) for word in chain.from_iterable(lines)], dtype=np.int64)
    starts = np.cumsum(widths) - widths
    heads = _heads(words, starts, widths, numbers, file)
    sizes, classes = words[starts[heads]], words[starts[heads] + 1]
    nodes = np.setdiff1d(np.arange(1, len(lines)), heads, assume_unique=True)
    _check_degrees(words, starts, widths, nodes, numbers, file)
    graph = np.repeat(np.arange(len(heads)), sizes)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    # What stands behind label and degree, line by line.
    degrees = widths[nodes] - 2
    node = np.repeat(np.arange(len(nodes)), degrees)
    place = np.arange(len(node)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    neighbours = words[np.repeat(starts[nodes] + 2, degrees) + place]
    wrong = np.flatnonzero((neighbours < 0) | (neighbours >= sizes[graph[node]]))
    if len(wrong):
        at = int(wrong[0])
        size = int(sizes[graph[node[at]]])
        raise file.refuse(
            f"names neighbour {neighbours[at]}, but graph {graph[node[at]] + 1} has {size} nodes, 0 to {size - 1}; are "
            f"they counted from 1?",
            numbers[nodes[node[at]]],
        )
    return from_arcs(
        node,
        bounds[graph[node]] + neighbours,
        node_ptr=bounds,
        node_labels=Columns.labels([Vocabulary.from_values("label", words[starts[nodes]])]),
        targets=Columns.targets({"class": Vocabulary.from_values("class", classes)[::-1]}),
    )


def _lines(file: Member) -> tuple[list[list[str]], list[int]]:
    """Return the words of every line that is not blank, all of them integers, and the numbers of the lines."""
    lines = [line.split() for line in decode(file.read(), file.label).split("\n")]
    numbers = [number for number, words in enumerate(lines, start=1) if words]
    lines = [words for words in lines if words]
    if not lines:
        raise file.refuse("expected a number of graphs, got an empty file; is it complete?")
    for number, words in zip(numbers, lines, strict=True):
        for word in words:
            if INTEGER.fullmatch(word) is None:
                raise file.refuse(f"expected integers, got {word[:40]!r}", number)
    return lines, numbers


def _heads(words: Array, starts: Array, widths: Array, numbers: list[int], file: Member) -> Array:
    """Return which lines are the first of a graph; each says where the next one is."""
    count = int(words[0])
    if widths[0] != 1 or count < 0:
        came = words[: widths[0]].tolist()
        raise file.refuse(f"expected one number, how many graphs there are, got {came!s:.60}", numbers[0])
    heads: list[int] = []
    line, last = 1, len(starts)
    while line < last and len(heads) < count:
        if widths[line] != 2:
            raise file.refuse(
                f"expected the two integers 'nodes class' of graph {len(heads) + 1}, got {widths[line]}; did the graph "
                f"before it have as many nodes as it says?",
                numbers[line],
            )
        size = int(words[starts[line]])
        if not 0 <= size < last - line:
            raise file.refuse(
                f"graph {len(heads) + 1} should have {size} nodes, but {last - line - 1} lines follow; is the file "
                f"complete?",
                numbers[line],
            )
        heads.append(line)
        line += 1 + size
    if len(heads) < count or line < last:
        came = f"{len(heads)} and the end of the file" if len(heads) < count else "more lines behind them"
        message = f"expected {count} graphs, as the first line says, got {came}"
        raise file.refuse(message, numbers[min(line, last - 1)])
    return np.array(heads, dtype=np.int64)


def _check_degrees(
    words: Array, starts: Array, widths: Array, nodes: Array, numbers: list[int], file: Member
) -> None:
    given = np.where(widths[nodes] > 1, words[np.minimum(starts[nodes] + 1, len(words) - 1)], -2)
    wrong = np.flatnonzero(given != widths[nodes] - 2)
    if len(wrong):
        line = int(nodes[wrong[0]])
        shown = " ".join(map(str, words[starts[line] : starts[line] + widths[line]].tolist()))
        message = f"expected the label of a node, its degree and as many neighbours, got '{shown:.60}'"
        raise file.refuse(message, numbers[line])


# -- which text of an archive, and whether a text is one of these ------------------------------------------


def _chosen(path: Path, members: dict[str, Member], name: str | None) -> Member:
    """Return the one text that may be meant, or the one that is named."""
    texts = {member: file for member, file in members.items() if not NO_GRAPHS.search(member)}
    known = {member: (member, PurePosixPath(member).name, PurePosixPath(member).stem) for member in texts}
    found = [member for member, names in known.items() if name is None or name in names]
    if len(found) > 1:
        found = [member for member in found if _begins(texts[member].read()[:START])] or found
    if len(found) == 1:
        return texts[found[0]]
    listed = ", ".join(texts) or "none"
    if not found:
        what = "no text with graphs" if name is None else f"no text named {name!r}"
        raise ReadError(f"the archive holds {what}; it has: {listed}", file=path)
    raise ReadError(f"holds several texts ({listed}); choose one with name=", file=path)


def _begins(start: bytes) -> bool:
    r"""Say whether a text begins like one of these: a count, ``n class``, a node with as many neighbours as it says.

    Examples
    --------
    >>> _begins(b"188\n23 2\n2 2 1 13\n2 2 0"), _begins(b"1\n2\n3\n")
    (True, False)
    """
    text = start.decode("utf-8-sig", errors="replace")
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(start) == START:
        lines = lines[:-1]  # It may be cut off.
    if len(lines) < 3 or not all(INTEGER.fullmatch(word) for words in lines[:3] for word in words):
        return False
    count, head, node = lines[:3]
    if (len(count), len(head)) != (1, 2) or int(count[0]) < 1:
        return False
    return int(head[0]) == 0 or (len(node) > 1 and int(node[1]) == len(node) - 2)


def _recognises(path: Path) -> bool:
    if path.suffix.lower() != ".zip":
        return inner_suffix(path) in (".txt", "") and _begins(first_bytes(path, START))
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if member.endswith(".txt") and not NO_GRAPHS.search(member):
                    with archive.open(member) as file:
                        if _begins(file.read(START)):
                            return True
    except UNREADABLE:
        pass
    return False


FORMAT = FORMATS.add(
    Format(
        "neighbours",
        "graphs as lists of neighbours in one text, perhaps zipped with folds (structure2vec, GIN)",
        _recognises,
        read,
        priority=70,
    )
)
