"""Bracketed trees: s-expressions such as the Stanford Sentiment Treebank's or the Penn Treebank's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import numpy as np

from hiddenfield.data.columns import Columns
from hiddenfield.data.convert.parents import from_depths
from hiddenfield.data.formats import FORMATS, Format
from hiddenfield.data.paths import decode, first_bytes, inner_suffix, read_bytes
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import ReadError
from hiddenfield.shapes import Array, Bool, Int

NONE = "(none)"  # No word can be spelt so: brackets delimit.
CLASS = re.compile(r"0|-?[1-9][0-9]{0,8}")
OPENING, CLOSING = ord("("), ord(")")
BLANKS = np.frombuffer(b" \t\n\v\f", dtype=np.uint8)


def read(
    path: str | Path,
    *,
    classes: bool | None = None,
    target: str = "sentiment",
    arc_labels: Literal["direction", "position"] | None = None,
) -> Structures:
    r"""Read trees written with brackets: ``(label word)`` or ``(label (...) (...))``.

    Every bracket is a node. If it holds one word and nothing else, the word is the node's; a word
    beside other words or brackets is a node of its own. A bracket may lack the label, as the outermost of a Penn
    tree does: ``( (S ...))``. Blanks and line ends separate and mean nothing more. Escapes such as ``-LRB-`` stay.

    Parameters
    ----------
    path
        The file; it may be compressed. Any number of trees, end to end.
    classes
        Whether the labels are classes to be predicted. By default they are if every one is an integer.
    target
        The name of the target, if they are.
    arc_labels
        As in `from_parents`.

    Returns
    -------
    Structures
        Trees numbered from the root in the order of the text, with the node label `word`, ``(none)`` where a node has
        none. If the labels are classes: node target `target`, and the root's as the structure's target; otherwise a
        second node label, `label`, ``(none)`` where there is none.

    Raises
    ------
    ReadError
        Naming line and column of the first bracket or word that does not fit.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "trees.txt"
    >>> _ = path.write_text("(3 (2 The) (4 (3 best) (2 film)))\n")
    >>> read(path)
    Structures(1 structure, 5 nodes, 8 arcs; node labels: word (4); targets: sentiment; node targets: sentiment)
    >>> _ = path.write_text("(S (NP John) (VP sleeps))\n")
    >>> read(path)
    Structures(1 structure, 3 nodes, 4 arcs; node labels: word (3), label (3))
    """
    contents = decode(read_bytes(path), path).encode()
    level, labels, words = _nodes(contents, path)
    given = set(labels) - {NONE}
    if classes is None:
        classes = bool(given) and all(CLASS.fullmatch(label) for label in given)
    if not classes:
        return from_depths(level, arc_labels=arc_labels, node_labels={"word": words, "label": labels})
    of_nodes = _classes(labels, target)
    return from_depths(
        level,
        arc_labels=arc_labels,
        node_labels={"word": words},
        targets=of_nodes.take(np.flatnonzero(level == 0)),
        node_targets=of_nodes,
    )


def _nodes(contents: bytes, path: str | Path) -> tuple[Array, list[str], list[str]]:
    """Return depth, label and word of every node, in the order of the text."""
    codes = np.frombuffer(contents, dtype=np.uint8)
    opening, closing = codes == OPENING, codes == CLOSING
    depth = np.cumsum(opening.astype(np.int32) - closing, dtype=np.int32)
    starts, ends = runs(~(opening | closing | np.isin(codes, BLANKS)))
    brackets = np.flatnonzero(opening)
    _check_nesting(contents, depth, starts, path)
    is_label, is_word, empty = _roles(brackets, np.flatnonzero(closing), starts)
    if len(empty):
        message = "expected a label, a word or a bracket after '(', got ')'"
        raise refuse_at(int(empty[0]), message, contents, path)
    texts = [contents[start:end].decode() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    free = np.flatnonzero(~is_label & ~is_word)
    # Nodes are brackets and free words; an atom that is a label or a word belongs to the last bracket before it.
    order = np.argsort(np.concatenate([brackets, starts[free]]), kind="stable")
    node_of = np.empty(len(order), dtype=np.int64)
    node_of[order] = np.arange(len(order))
    owner = np.searchsorted(brackets, starts, side="right") - 1
    owner[free] = len(brackets) + np.arange(len(free))
    labels, words = [NONE] * len(order), [NONE] * len(order)
    for text, node, label in zip(texts, node_of[owner].tolist(), is_label.tolist(), strict=True):
        (labels if label else words)[node] = text
    return np.concatenate([depth[brackets] - 1, depth[starts[free]]])[order], labels, words


def _roles(opens: Array, closes: Array, starts: Array) -> tuple[Array, Array, Array]:
    """Say which atoms are labels (first after an opening) or their bracket's only content; return empty brackets."""
    marks = np.concatenate([opens, closes, starts])
    order = np.argsort(marks, kind="stable")
    kinds = np.repeat(np.array([0, 1, 2], dtype=np.int8), [len(opens), len(closes), len(starts)])[order]
    empty = marks[order][:-1][(kinds[:-1] == 0) & (kinds[1:] == 1)]
    atoms = np.flatnonzero(kinds == 2)
    padded = np.concatenate([[1, 1], kinds, [0]])
    is_label = padded[atoms + 1] == 0
    # An atom after the label, and the bracket closes: its only content.
    is_word = (padded[atoms + 1] == 2) & (padded[atoms] == 0) & (padded[atoms + 3] == 1)
    return is_label, is_word, empty


def _check_nesting(contents: bytes, depth: Array, starts: Array, path: str | Path) -> None:
    """Refuse a bracket too many, a word outside all brackets, and an end while a bracket is open."""
    stray = starts[depth[starts] <= 0][:1]
    below = np.flatnonzero(depth < 0)[:1]
    first = np.sort(np.concatenate([stray, below]))[:1]
    if len(first):
        what = "a ')' that no '(' opens" if depth[first[0]] < 0 else "a word outside all brackets"
        raise refuse_at(
            int(first[0]), f"{what}; a tree is (label word) or (label (...) (...))", contents, path
        )
    if len(depth) and depth[-1] > 0:
        roots = np.flatnonzero((depth == 1) & (np.diff(depth, prepend=0) == 1))
        line, column = line_and_column(contents, int(roots[-1]))
        raise ReadError(
            f"the tree that begins at column {column} is not closed: {depth[-1]} brackets are open at the end of the "
            "file; is it complete?",
            file=path,
            line=line,
        )


def _classes(labels: list[str], target: str) -> Columns:
    """Return the labels as the nodes' classes."""
    numbers = all(label == NONE or CLASS.fullmatch(label) for label in set(labels))
    symbols = [None if label == NONE else int(label) if numbers else label for label in labels]
    vocabulary, _ = Vocabulary.from_values(target, sorted({s for s in symbols if s is not None}, key=str))
    codes = dict(zip(vocabulary.symbols, range(len(vocabulary)), strict=True)) | {None: np.nan}
    return Columns.targets({target: (np.array([codes[symbol] for symbol in symbols]), vocabulary)})


def runs(mask: Bool[Array, " characters"]) -> tuple[Int[Array, " runs"], Int[Array, " runs"]]:
    """Return where each run of true entries begins and where it has ended.

    Examples
    --------
    >>> runs(np.array([True, True, False, True]))
    (array([0, 3]), array([2, 4]))
    """
    edges = np.diff(np.concatenate([[0], mask.astype(np.int8), [0]]))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)


def line_and_column(contents: bytes, offset: int) -> tuple[int, int]:
    r"""Return the line and, in characters, the column of a byte; both count from one.

    Examples
    --------
    >>> line_and_column("é\nab".encode(), 4)
    (2, 2)
    """
    before = contents[:offset]
    start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[start:].decode("utf-8", errors="replace")) + 1


def refuse_at(offset: int, message: str, contents: bytes, path: str | Path) -> ReadError:
    """Return the error that names the line and column of a byte."""
    line, column = line_and_column(contents, offset)
    return ReadError(f"column {column}: {message}", file=path, line=line)


def _recognises(path: Path) -> bool:
    """Recognise by a first character ``(`` that a label or another bracket follows."""
    if path.is_dir() or inner_suffix(path) not in (".txt", ".mrg", ".sexpr", ".sexp", ".ptb", ".trees", ""):
        return False
    start = first_bytes(path).removeprefix(b"\xef\xbb\xbf").lstrip()
    return re.match(rb"\(\s*(\(|[^\s()]+[\s(])", start) is not None


FORMAT = FORMATS.add(
    Format("sexpr", "bracketed trees: (label word) or (label (...) (...))", _recognises, read, priority=20)
)
