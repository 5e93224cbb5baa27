"""Hooks of MkDocs: the reference is written from the packages that there are, and equations become MathML.

Both happen when the site is built: the reference is complete by construction, and reading fetches nothing.
"""

from __future__ import annotations

import ast
import html
import importlib
import re
import types
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "hiddenfield"
STATIONS = (
    *("ops", "data", "datasets", "fields", "inference", "embedding"),
    *("learning", "models", "kernels", "estimators", "evaluation", "report", "studies"),
)

MODULE = re.compile(r"^::: (hiddenfield(?:\.\w+)*)$", re.MULTILINE)

# What pymdownx.arithmatex leaves in a page in its generic mode.
EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def public_modules() -> dict[str, str]:
    """Return the packages with public names, in the order of the data flow, and the first lines of their docstrings.

    Examples
    --------
    >>> list(public_modules())[:2]
    ['ops', 'data']
    """
    places = {name: PACKAGE / name / "__init__.py" for name in STATIONS}
    places["errors"] = PACKAGE / "errors.py"
    sources = {name: place.read_text(encoding="utf-8") for name, place in places.items() if place.exists()}
    return {
        name: (ast.get_docstring(ast.parse(source)) or "").split("\n")[0].rstrip(".")
        for name, source in sources.items()
        if "__all__" in source
    }


def on_config(config: Any) -> Any:
    """Append a page for every public module to the section of the navigation that is named Reference."""
    section = next(entry["Reference"] for entry in config.nav if "Reference" in entry)
    section.extend({f"hiddenfield.{name}": f"reference/{name}.md"} for name in public_modules())
    return config


def on_files(files: Any, config: Any) -> Any:
    """Make those pages."""
    for name in public_modules():
        content = f"# hiddenfield.{name}\n\n::: hiddenfield.{name}\n"
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace ``::: module`` by one entry for every name in its ``__all__``, at the place that defines it.

    The packages import their names when they are first used, which no reader of the source alone can follow. And
    ``::: modules`` is replaced by a list of the public modules.

    Examples
    --------
    >>> print(on_page_markdown("::: hiddenfield.errors").splitlines()[0])
    ::: hiddenfield.errors...
    """
    listed = "\n".join(
        f"- [`hiddenfield.{name}`]({name}.md): {text}" for name, text in public_modules().items()
    )
    return MODULE.sub(_entries, markdown.replace("::: modules", listed))


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
    public = [getattr(module, name) for name in module.__all__]
    # A constant or an alias of a type does not know where it was defined, and is documented by its module.
    homes = [
        f"{value.__module__}.{value.__qualname__}"
        for value in public
        if not isinstance(value, types.ModuleType) and hasattr(value, "__qualname__")
    ]
    return "\n\n".join(f"::: {home}" for home in homes if home.startswith("hiddenfield."))


def _to_mathml(found: re.Match[str]) -> str:
    element, opening, latex = found.groups()
    display = "block" if opening == "[" else "inline"
    return f"<{element}>{convert(html.unescape(latex), display=display)}</{element}>"
