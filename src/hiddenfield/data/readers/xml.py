"""XML documents as trees: an element is a node, its tag the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from hiddenfield.data.convert.parents import from_parents
from hiddenfield.data.formats import Format
from hiddenfield.data.members import first_bytes, holds, members
from hiddenfield.data.nesting import parents_of_depths
from hiddenfield.data.structures import Structures
from hiddenfield.data.xml_events import parse_xml
from hiddenfield.errors import ReadError

__all__ = ["FORMAT", "read"]

NONE = "(none)"


def read(
    path: str | Path,
    *,
    record: str | None = None,
    attributes: Sequence[str] = (),
    text: bool = False,
    target: str | None = None,
    arc_labels: Literal["direction", "position"] | None = None,
) -> Structures:
    r"""Read XML documents as trees: a file is one, a folder or a zip of ``.xml`` files is many.

    Parameters
    ----------
    path
        A file, which may be compressed, a folder or a zip.
    record
        A tag: every element of that tag is a structure of its own, instead of every document. One inside another
        belongs to the outer one; elements outside are left out.
    attributes
        Names of XML attributes that become further node labels; ``(none)`` where an element lacks one.
    text
        Whether the text directly inside each element, stripped of blanks at both ends, becomes the node label `text`.
    target
        Name of the XML attribute of the document's (or the record's) outermost element that is its class.
    arc_labels
        As in `from_parents`.

    Returns
    -------
    Structures
        Trees numbered in document order from the root, with the node label `tag`, as it is written (no name spaces).
        Ids are the file names, with ``#0``, ``#1``, ... behind them for records.

    Raises
    ------
    ReadError
        Naming file and line, if a document is malformed or declares entities: none is expanded or fetched.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "library.xml"
    >>> _ = path.write_text("<library><book kind='novel'><title/></book><book kind='atlas'/></library>")
    >>> read(path)
    Structures(1 structure, 4 nodes, 6 arcs; node labels: tag (3))
    >>> books = read(path, record="book", target="kind")
    >>> books, books.ids.tolist()
    (Structures(2 structures, 3 nodes, 2 arcs; node labels: tag (2); targets: kind), ['library.xml#0', 'library.xml#1'])
    """
    forest = _Forest(record, (attributes,) if isinstance(attributes, str) else tuple(attributes), target)
    for name, contents in members(path, ".xml"):
        forest.add(contents, name, Path(path) if name == Path(path).name else Path(path) / name, text)
    if record is not None and not forest.ids:
        raise ReadError(f"no element is a {record!r}; check the tag", file=path)
    depth = np.array(forest.depths, dtype=np.int64)
    roots = np.flatnonzero(depth == 0)
    bounds = np.append(roots, len(depth))
    parents = parents_of_depths(depth)
    parents = np.where(parents < 0, -1, parents - np.repeat(roots, np.diff(bounds)))
    labels = {"tag": forest.tags} | dict(zip(forest.attributes, forest.values, strict=True))
    if text:
        labels["text"] = ["".join(pieces).strip() for pieces in forest.texts]
    return from_parents(
        parents,
        node_ptr=bounds,
        node_labels=labels,
        targets=None if target is None else {target: forest.classes},
        ids=forest.ids,
        arc_labels=arc_labels,
    )


@dataclass
class _Forest:
    """The nodes read so far, in document order; grows while the parser runs."""

    record: str | None
    attributes: tuple[str, ...]
    target: str | None
    depths: list[int] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    values: list[list[str]] = field(default_factory=list)
    texts: list[list[str]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    classes: list[str | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values = [[] for _ in self.attributes]

    def add(self, contents: bytes, name: str, file: Path, text: bool) -> None:
        """Parse one document."""
        open_nodes: list[int] = []
        found = 0

        def start(tag: str, given: dict[str, str]) -> None:
            nonlocal found
            if not open_nodes and self.record not in (None, tag):
                return
            if not open_nodes:
                self.ids.append(name if self.record is None else f"{name}#{found}")
                self.classes.append(given.get(self.target) if self.target is not None else None)
                found += 1
            self.depths.append(len(open_nodes))
            open_nodes.append(len(self.tags))
            self.tags.append(tag)
            for column, attribute in zip(self.values, self.attributes, strict=True):
                column.append(given.get(attribute, NONE))
            if text:
                self.texts.append([])

        def end(_: str) -> None:
            if open_nodes:
                open_nodes.pop()

        def piece(words: str) -> None:
            if open_nodes:
                self.texts[open_nodes[-1]].append(words)

        parse_xml(contents, file, start=start, end=end, text=piece if text else None)


def _recognises(path: Path) -> bool:
    """Recognise by the suffix, unless the document is GraphML."""
    return holds(path, ".xml") and (path.is_dir() or b"<graphml" not in first_bytes(path))


FORMAT = Format("xml", "XML documents as trees (a file, a folder or a zip of .xml)", _recognises, read)
