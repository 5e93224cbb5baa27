"""Two hooks of MkDocs: the public names of a module become reference entries, and equations become MathML.

Both happen when the site is built: the reference is complete by construction, and reading fetches nothing.
"""

from __future__ import annotations

import html
import importlib
import re
import types
from typing import Any

from latex2mathml.converter import convert

MODULE = re.compile(r"^::: (hiddenfield(?:\.\w+)*)$", re.MULTILINE)

# What pymdownx.arithmatex leaves in a page in its generic mode.
EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace ``::: module`` by one entry for every name in its ``__all__``, at the place that defines it.

    The packages import their names when they are first used, which no reader of the source alone can follow.

    Examples
    --------
    >>> print(on_page_markdown("::: hiddenfield.registry"))
    ::: hiddenfield.registry.choose
    """
    return MODULE.sub(_entries, markdown)


def on_page_content(content: str, **_: Any) -> str:
    r"""Replace every equation of one page, inline or displayed.

    Examples
    --------
    >>> "<mi>x</mi>" in on_page_content(r'<span class="arithmatex">\(x_i\)</span>')
    True
    """
    return EQUATION.sub(_to_mathml, content)


def _entries(found: re.Match[str]) -> str:
    module = importlib.import_module(found[1])
    public = [(name, getattr(module, name)) for name in module.__all__]
    # A constant or an alias of a type does not know where it was defined, and is documented by its module.
    homes = [
        f"{value.__module__}.{value.__qualname__}"
        for _, value in public
        if not isinstance(value, types.ModuleType) and hasattr(value, "__qualname__")
    ]
    return "\n\n".join(f"::: {home}" for home in homes if home.startswith("hiddenfield."))


def _to_mathml(found: re.Match[str]) -> str:
    element, opening, latex = found.groups()
    display = "block" if opening == "[" else "inline"
    return f"<{element}>{convert(html.unescape(latex), display=display)}</{element}>"
