"""Figures: as SVG inside a page, with identifiers that no two of them share, or as image files."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiddenfield.errors import InputError
from hiddenfield.report.page import escape, figure_box, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, RED, GREY = "#3b6ea5", "#b5483a", "#8a949e"
COLOURS = ("#3b6ea5", "#c9702d", "#4f8f6b", "#9467a8", "#b5483a", "#7a6a3a", "#2f8f9d", "#a8577e")

IMAGES = (".png", ".svg", ".pdf")

# A scatter plot of more points is drawn as an image inside the SVG, or the page would grow by 100 bytes per point.
MANY_POINTS = 1000

STYLE = Path(__file__).with_name("page.mplstyle")


def draw(
    name: str,
    paint: Callable[..., None],
    *content: Any,
    width: float = 5.6,
    height: float = 3.6,
    title: str = "",
) -> str:
    """Return what ``paint(figure, *content)`` draws, as an SVG element for a page.

    Parameters
    ----------
    name
        A word that no other drawing of the page has; all identifiers within begin with it.
    paint, content
        A function that draws on the figure that it is given, and its further arguments.
    width, height
        In inches; the page scales it to the room there is.
    title
        What the picture shows, for those who cannot see it.

    Examples
    --------
    >>> svg = draw("line", lambda figure: figure.add_subplot().plot([1, 2]))
    >>> svg.startswith("<svg") and "http" not in svg and 'id="figure_1"' not in svg
    True
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(fname=STYLE), warnings.catch_warnings():
        # A glyph that matplotlib's font lacks is drawn by the browser, with its own.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=(width, height), layout="constrained")
        paint(figure, *content)
        sink = io.StringIO()
        figure.savefig(sink, format="svg", transparent=True, metadata={"Date": None})
    return clean_svg(sink.getvalue(), name, title)


def plot(name: str, caption: str, paint: Callable[..., None], *content: Any, **options: Any) -> str:
    """Return the same above a caption."""
    return figure_box(draw(name, paint, *content, **options), caption)


def colour_of(number: int) -> str:
    """Return the colour of a curve, class, component or state."""
    return COLOURS[number % len(COLOURS)]


def plain_log_scale(axes: Axes, steps: Sequence[float]) -> None:
    """Make the y axis logarithmic with plain numbers: the usual labels are equations, which names must not become."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def save_figure(
    path: str | Path,
    paint: Callable[..., None],
    *content: Any,
    width: float = 5.6,
    height: float = 4.2,
    dpi: int = 130,
) -> None:
    """Write what ``paint(figure, *content)`` draws into a .png, .svg or .pdf file; folders are made."""
    import matplotlib
    from matplotlib.figure import Figure

    path = Path(path)
    check_suffix(path, "a plot's file", *IMAGES)
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        paint(figure, *content)
        figure.savefig(path, dpi=dpi, metadata={"Software": None} if path.suffix == ".png" else None)


def check_suffix(path: Path | None, what: str, *allowed: str) -> None:
    """Refuse a file name with another suffix, before any work is done.

    Examples
    --------
    >>> check_suffix(Path("page.pdf"), "a report's file", ".html", ".htm")
    Traceback (most recent call last):
    hiddenfield.errors.InputError: a report's file must end in .html or .htm, got 'page.pdf'
    """
    if path is not None and path.suffix.lower() not in allowed:
        listed = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
        raise InputError(f"{what} must end in {listed}, got {str(path)!r}")


def clean_svg(text: str, name: str, title: str = "") -> str:
    """Return an SVG document as an element of a page: sized by it, its names apart from all others, no addresses.

    Examples
    --------
    >>> clean_svg(
    ...     '<?xml version="1.0"?><svg xmlns="http://x" width="9pt" viewBox="0 0 9 9"><g id="a"/></svg>',
    ...     "one",
    ... )
    '<svg role="img" aria-label="" viewBox="0 0 9 9"><g id="one-a"/></svg>'
    """
    text = printable(text[text.index("<svg") :].strip())
    for junk in (r"<metadata>.*?</metadata>", r"<!--.*?-->", r"<style\b.*?</style>", r"<defs>\s*</defs>"):
        text = re.sub(junk, "", text, flags=re.DOTALL)
    text = re.sub(r"\s+xmlns(:\w+)?=(\"[^\"]*\"|'[^']*')", "", text)
    text = re.sub(r"\bid=([\"'])", rf"id=\g<1>{name}-", text)
    text = re.sub(r"href=([\"'])#", rf"href=\g<1>#{name}-", text)
    text = text.replace("url(#", f"url(#{name}-")
    opening, rest = text.split(">", 1)
    opening = re.sub(r"\s+(width|height|version|baseProfile|xml:space)=(\"[^\"]*\"|'[^']*')", "", opening)
    opening = re.sub(r"\s+", " ", opening.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1))
    return f"{opening}>{rest}"
