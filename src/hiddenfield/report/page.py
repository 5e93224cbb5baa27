"""The page itself: sections, tables and their style, with everything that comes from data escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from hiddenfield.data.paths import write_text

Section = tuple[str, str]
"""A heading, and the HTML below it."""

# Characters that no HTML document may hold.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #f6f7f9; color: #1c232b;
  font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .8rem; }
h3 { font-size: .98rem; margin: 1rem 0 .5rem; color: #46525e; }
p { margin: .4rem 0 .8rem; max-width: 75ch; }
.lead { color: #46525e; }
section { background: #fff; border: 1px solid #dfe4ea; border-radius: 8px; padding: 18px 22px; margin: 18px 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
table.scores { width: 100%; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid #e8ecf0; vertical-align: top; }
th { color: #46525e; font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; }
tr.own td { background: #eef4fb; }
td.best { font-weight: 700; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr)); gap: 8px 36px; }
.columns table { width: 100%; }
.columns th { width: 1%; white-space: nowrap; }
.columns td:last-child { overflow-wrap: anywhere; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 18px 28px; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 240px), 1fr)); gap: 14px; }
figure { margin: 0; }
figure svg { display: block; width: 100%; height: auto; max-width: 640px; margin: 0 auto; }
figcaption { font-size: .88rem; color: #46525e; margin-top: .4rem; }
.card { border: 1px solid #e3e8ed; border-radius: 6px; padding: 10px 12px; break-inside: avoid; min-width: 0; }
.card svg { display: block; width: 100%; height: auto; }
.card b { overflow-wrap: anywhere; }
.card .values { font-size: .9rem; font-variant-numeric: tabular-nums; }
.card code { display: block; font: .74rem/1.35 ui-monospace, "DejaVu Sans Mono", monospace; color: #5c6873;
  overflow-wrap: anywhere; max-height: 5.6em; overflow: hidden; }
.sequence { font: 1rem/1.9 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; margin: 6px 0;
  max-height: 15.2em; overflow-y: auto; }
.sequence span { padding: 2px 1px; border-radius: 2px; }
.key { display: inline-block; width: 2.2em; height: .8em; border-radius: 2px; vertical-align: -1px; }
footer { color: #6b7782; font-size: .85rem; }
@media (max-width: 600px) { main { padding: 14px 10px 40px; } section { padding: 12px; } body { font-size: 15px; }
  table.scores { font-size: .78rem; } .scores th, .scores td { padding-right: 7px; }
  .scores th.number { white-space: normal; } }
@media print {
  @page { margin: 13mm; }
  :root { font-size: 9.5pt; }
  body { background: #fff; font-size: 1rem; }
  main { max-width: none; padding: 0; }
  section { border: none; padding: 0; margin: 0 0 1.2em; }
  h2, h3 { break-after: avoid; }
  .columns { grid-template-columns: repeat(3, 1fr); gap: 4px 20px; }
  .figures { grid-template-columns: repeat(2, 1fr); }
  .cards { grid-template-columns: repeat(4, 1fr); gap: 8px; }
  figure, table, .card { break-inside: avoid; }
  .sequence { max-height: none; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""


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
    body = "\n".join(
        f"<section>\n<h2>{escape(heading)}</h2>\n{content}\n</section>" for heading, content in sections
    )
    text = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # The page has no need of scripts or of the network, so that nothing that slipped in could use them either.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
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


def figure_box(picture: str, caption: str) -> str:
    """Return a picture, which is HTML, with a caption, which is plain text."""
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"
