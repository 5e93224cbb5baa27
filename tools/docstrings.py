r"""An extension of Griffe, which reads the docstrings for the site: numpydoc's equations become Markdown's.

``:math:`x_i``` becomes ``$x_i$``, and a ``.. math::`` directive becomes a displayed equation.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

INLINE = re.compile(r":math:`([^`]+)`")
DISPLAYED = re.compile(r"^( *)\.\. math::[ \t]*(.*(?:\n(?:\1 +\S.*|[ \t]*(?=\n\1 )))*)", re.MULTILINE)


class Equations(griffe.Extension):
    """Rewrite the equations of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite those of one module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(docstring: str) -> str:
    r"""Rewrite the equations of one docstring.

    Examples
    --------
    >>> print(to_markdown(r"Sum :math:`x_i`:\n\n.. math:: y = \sum_i x_i\n\nDone.".replace(r"\n", "\n")))
    Sum $x_i$:
    <BLANKLINE>
    $$
    y = \sum_i x_i
    $$
    <BLANKLINE>
    Done.
    """
    return INLINE.sub(_inline, DISPLAYED.sub(_displayed, docstring))


def _inline(found: re.Match[str]) -> str:
    return f"${' '.join(found[1].split())}$"


def _displayed(found: re.Match[str]) -> str:
    margin = found[1]
    lines = [margin + line.strip() for line in found[2].splitlines() if line.strip()]
    return "\n".join([f"{margin}$$", *lines, f"{margin}$$"])
