"""The page itself: sections, tables and their style, with everything that comes from data escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from hiddenfield.data.paths import write_text

Section = tuple[str, str]
"""A heading, and the HTML below it."""

# Characters that no HTML document may hold.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def escape(text: object) -> str:
    """Return text that a browser shows as it is, whatever it holds.

    Examples
    --------
    >>> escape('<script>"&')
    '&lt;script&gt;&quot;&amp;'
    """
    return html.escape(printable(str(text)), quote=True)


def printable(text: str) -> str:
    """Return the text with a replacement character for each that no HTML document may hold."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def shortened(text: str, most: int) -> str:
    """Return at most so many characters, the last an ellipsis where some are left out."""
    return text if len(text) <= most else text[: most - 1] + "…"


def write_html(path: str | Path, title: str, lead: str, sections: Iterable[Section]) -> Path:
    """Write a page, whole or not at all: one file that fetches nothing and runs nothing.

    Parameters
    ----------
    path
        Where to; folders are made.
    title, lead
        Plain text.
    sections
        Plain headings, each with HTML.
    """
    style = files("hiddenfield.report").joinpath("page.css").read_text(encoding="utf-8")
    body = "\n".join(
        f"<section>\n<h2>{escape(heading)}</h2>\n{content}\n</section>" for heading, content in sections
    )
    text = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # The page has no need of scripts or of the network, so that nothing that slipped in could use them either.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f'<header><h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p></header>\n{body}\n'
        "<footer>Made by hiddenfield. This file holds all it needs.</footer>\n</main>\n</body>\n</html>\n"
    )
    write_text(path, text)
    return Path(path)


def html_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text: Collection[int] = (0,),
    own: int | None = None,
    best: Collection[tuple[int, int]] = (),
) -> str:
    """Return a table of plain texts.

    Parameters
    ----------
    heads, rows
        Plain text.
    text
        Columns of text; the others are numbers, aligned to the right.
    own
        The row that is marked as the model's own.
    best
        Rows and columns of the cells in bold.
    """

    def cell(tag: str, row: int | None, column: int, content: str) -> str:
        mark = " best" if (row, column) in best else ""
        kind = "" if column in text else f' class="number{mark}"'
        return f"<{tag}{kind}>{escape(content)}</{tag}>"

    head = "".join(cell("th", None, column, name) for column, name in enumerate(heads))
    body = ""
    for place, row in enumerate(rows):
        cells = "".join(cell("td", place, column, content) for column, content in enumerate(row))
        body += f'<tr class="own">{cells}</tr>' if place == own else f"<tr>{cells}</tr>"
    content = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="scores">{content}</table></div>'


def facts(groups: Iterable[tuple[str, Iterable[tuple[str, object]]]]) -> str:
    """Return lists of names and values side by side, each under its heading; all plain text."""
    parts = []
    for heading, entries in groups:
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in entries)
        parts.append(f"<div><h3>{escape(heading)}</h3><table><tbody>{rows}</tbody></table></div>")
    return f'<div class="columns">{"".join(parts)}</div>'


def figures(boxes: Iterable[str]) -> str:
    """Return pictures in their boxes side by side."""
    return f'<div class="figures">{"".join(boxes)}</div>'


def figure_box(picture: str, caption: str) -> str:
    """Return a picture, which is HTML, with a caption, which is plain text."""
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"
