"""Graphs as lists of neighbours, all in one text: how the structure2vec and GIN code bases distribute data sets."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import numpy as np

from hiddenfield.data.build import from_arcs
from hiddenfield.data.columns import Columns
from hiddenfield.data.formats import FORMATS, Format
from hiddenfield.data.paths import (
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
        return _parsed(_chosen(path, name))
    if name is not None:
        raise InputError(f"{path} is not an archive; leave out name={name!r}")
    return _parsed(Member(str(path), lambda: read_bytes(path)))


def _parsed(file: Member) -> Structures:
    (number, first), *lines = _lines(file)
    if len(first) != 1 or first[0] < 0:
        raise file.refuse(f"expected one number, how many graphs there are, got {first!s:.60}", number)
    count = first[0]
    sizes: list[int] = []
    classes: list[int] = []
    labels: list[int] = []
    degrees: list[int] = []
    neighbours: list[int] = []
    line = 0
    while line < len(lines) and len(sizes) < count:
        (number, head), graph = lines[line], len(sizes) + 1
        if len(head) != 2:
            raise file.refuse(
                f"expected the two integers 'nodes class' of graph {graph}, got {len(head)}; did the graph before it "
                f"have as many nodes as it says?",
                number,
            )
        size, follow = head[0], len(lines) - line - 1
        if not 0 <= size <= follow:
            raise file.refuse(
                f"graph {graph} should have {size} nodes, but {follow} lines follow; is the file complete?",
                number,
            )
        start = len(labels)
        for number, words in lines[line + 1 : line + 1 + size]:
            if len(words) < 2 or words[1] != len(words) - 2:
                message = "expected the label of a node, its degree and as many neighbours"
                raise file.refuse(f"{message}, got '{' '.join(map(str, words)):.60}'", number)
            wrong = next((other for other in words[2:] if not 0 <= other < size), None)
            if wrong is not None:
                raise file.refuse(
                    f"names neighbour {wrong}, but graph {graph} has {size} nodes, 0 to {size - 1}; are they counted "
                    f"from 1?",
                    number,
                )
            labels.append(words[0])
            degrees.append(words[1])
            neighbours += [start + other for other in words[2:]]
        sizes.append(size)
        classes.append(head[1])
        line += 1 + size
    if len(sizes) < count or line < len(lines):
        came = f"{len(sizes)} and the end of the file" if len(sizes) < count else "more lines behind them"
        place = lines[min(line, len(lines) - 1)][0] if lines else number
        raise file.refuse(f"expected {count} graphs, as the first line says, got {came}", place)
    return from_arcs(
        np.repeat(np.arange(len(labels)), np.array(degrees, dtype=np.int64)),
        neighbours,
        node_ptr=np.cumsum([0, *sizes]),
        node_labels=Columns.labels([Vocabulary.from_values("label", labels)]),
        targets=Columns.targets({"class": Vocabulary.from_values("class", classes)[::-1]}),
    )


def _lines(file: Member) -> list[tuple[int, list[int]]]:
    """Return number and words of every line that is not blank, all of them integers."""
    lines: list[tuple[int, list[int]]] = []
    for number, line in enumerate(decode(file.read(), file.label).split("\n"), start=1):
        words = line.split()
        odd = next((word for word in words if INTEGER.fullmatch(word) is None), None)
        if odd is not None:
            raise file.refuse(f"expected integers, got {odd[:40]!r}", number)
        if words:
            lines.append((number, list(map(int, words))))
    if not lines:
        raise file.refuse("expected a number of graphs, got an empty file; is it complete?")
    return lines


# -- which text of an archive, and whether a text is one of these ------------------------------------------


def _texts(path: Path) -> dict[str, Member]:
    return {name: file for name, file in zip_members(path, ".txt").items() if not NO_GRAPHS.search(name)}


def _chosen(path: Path, name: str | None) -> Member:
    """Return the one text that may be meant, or the one that is named."""
    texts = _texts(path)
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
        return any(_begins(file.read()[:START]) for file in _texts(path).values())
    except ReadError:
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
