"""XML parsed safely: elements as they open, nothing fetched, nothing expanded, every error with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.parsers import expat

from hiddenfield.errors import InputError, ReadError

__all__ = ["parse_xml"]


def parse_xml(
    contents: bytes,
    file: str | Path,
    *,
    start: Callable[[str, dict[str, str]], None] | None = None,
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
) -> None:
    """Parse a document, calling back for every element and piece of text; a malformed one is a `ReadError`.

    An `InputError` that a callback raises becomes a `ReadError` with the line. Entities must not be declared, so
    that no document can grow when it is read; external ones are never fetched. The parser keeps no tree and does
    not recurse: depth and size are bounded by memory alone.

    Examples
    --------
    >>> parse_xml(b"<a><b/></a>", "a.xml", start=lambda tag, attributes: print(tag))
    a
    b
    >>> parse_xml(b"<a><b></a>", "a.xml")
    Traceback (most recent call last):
    hiddenfield.errors.ReadError: a.xml, line 1: column 9: mismatched tag
    """
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def refuse_entity(name: str, *_: object) -> None:
        raise ReadError(
            f"the document declares the entity {name!r}; entities are not expanded: write out what it stands for",
            file=file,
            line=parser.CurrentLineNumber,
        )

    parser.EntityDeclHandler = refuse_entity
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    try:
        parser.Parse(contents, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise ReadError(f"column {error.offset + 1}: {reason}", file=file, line=error.lineno) from None
    except ReadError:
        raise
    except InputError as error:
        # A callback found a fault; only the parser knows where.
        raise ReadError(str(error), file=file, line=parser.CurrentLineNumber) from None
    except (LookupError, ValueError) as error:
        # What the parser raises when the document names an encoding that Python lacks.
        raise ReadError(f"cannot be decoded: {error}", file=file, line=1) from None
