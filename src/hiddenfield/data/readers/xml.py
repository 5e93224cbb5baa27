"""XML documents as trees: an element is a node, its tag the label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal
from xml.parsers import expat

import numpy as np

from hiddenfield.data.convert.parents import from_depths
from hiddenfield.data.formats import FORMATS, Format
from hiddenfield.data.paths import first_bytes, holds, members
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, ReadError

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
    names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
    depths: list[int] = []
    ids: list[str] = []
    classes: list[str | None] = []
    labels: dict[str, list[str]] = {column: [] for column in ("tag", *names)}
    texts: list[list[str]] = []
    open_nodes: list[int] = []
    found = 0

    def start(tag: str, given: dict[str, str]) -> None:
        nonlocal found
        if not open_nodes:
            if record not in (None, tag):
                return
            ids.append(name if record is None else f"{name}#{found}")
            classes.append(None if target is None else given.get(target))
            found += 1
        open_nodes.append(len(depths))
        depths.append(len(open_nodes) - 1)
        if text:
            texts.append([])
        for column, values in labels.items():
            values.append(tag if column == "tag" else given.get(column, NONE))

    def end(_: str) -> None:
        if open_nodes:
            open_nodes.pop()

    def piece(words: str) -> None:
        if open_nodes:
            texts[open_nodes[-1]].append(words)

    for name, contents in members(path, ".xml"):
        found = 0
        file = Path(path) if name == Path(path).name else Path(path) / name
        Document(file).parse(contents, start=start, end=end, text=piece if text else None)
    if record is not None and not ids:
        raise ReadError(f"no element is a {record!r}; check the tag", file=path)
    if text:
        labels["text"] = ["".join(pieces).strip() for pieces in texts]
    return from_depths(
        np.array(depths, dtype=np.int64),
        node_labels=labels,
        targets=None if target is None else {target: classes},
        ids=ids,
        arc_labels=arc_labels,
    )


class Document:
    """An XML document as it is parsed, calling back for every element and piece of text.

    An `InputError` that a callback raises becomes a `ReadError` with the line. Entities must not be declared, so
    that no document can grow when it is read; external ones are never fetched. The parser keeps no tree and does
    not recurse: depth and size are bounded by memory alone.

    Examples
    --------
    >>> Document("a.xml").parse(b"<a><b/></a>", start=lambda tag, attributes: print(tag))
    a
    b
    >>> Document("a.xml").parse(b"<a><b></a>")
    Traceback (most recent call last):
    hiddenfield.errors.ReadError: a.xml, line 1: column 9: mismatched tag
    """

    def __init__(self, file: str | Path) -> None:
        self.file = file
        self.parser = expat.ParserCreate()
        self.parser.EntityDeclHandler = self._refuse_entity

    @property
    def line(self) -> int:
        """The line of what is called back for."""
        return self.parser.CurrentLineNumber

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise InputError(
            f"the document declares the entity {name!r}; entities are not expanded: write out what it stands for"
        )

    def parse(
        self,
        contents: bytes,
        *,
        start: Callable[[str, dict[str, str]], None] | None = None,
        end: Callable[[str], None] | None = None,
        text: Callable[[str], None] | None = None,
    ) -> None:
        """Parse it; a malformed one is a `ReadError`."""
        self.parser.StartElementHandler = start
        self.parser.EndElementHandler = end
        self.parser.CharacterDataHandler = text
        try:
            self.parser.Parse(contents, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise ReadError(
                f"column {error.offset + 1}: {reason}", file=self.file, line=error.lineno
            ) from None
        except InputError as error:
            # A callback found a fault; only the parser knows where.
            raise ReadError(str(error), file=self.file, line=self.line) from None
        except (LookupError, ValueError) as error:
            # What the parser raises when the document names an encoding that Python lacks.
            raise ReadError(f"cannot be decoded: {error}", file=self.file, line=1) from None


def _recognises(path: Path) -> bool:
    """Recognise by the suffix, unless the document is GraphML."""
    return holds(path, ".xml") and (path.is_dir() or b"<graphml" not in first_bytes(path))


SUMMARY = "XML documents as trees (a file, a folder or a zip of .xml)"
FORMAT = FORMATS.add(Format("xml", SUMMARY, _recognises, read, priority=60))
