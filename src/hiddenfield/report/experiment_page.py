"""The page of an experiment with its pictures beside it, as files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hiddenfield.data.paths import write_text
from hiddenfield.report.experiment_figures import picture_file
from hiddenfield.report.results_pages.page import results_page
from hiddenfield.report.results_pages.pictures import KINDS, pictures_of

__all__ = ["experiment_files", "write_experiment"]


def experiment_files(content: Mapping[str, Any], stem: str | None = None) -> dict[str, str]:
    """Return the text of the page and of its pictures, by the name of the file.

    Parameters
    ----------
    content
        What `run_experiment` gave.
    stem
        What the names begin with; by default the name of the experiment.

    Examples
    --------
    >>> list(experiment_files({"experiment": "x", "title": "T", "about": "", "scale": {}, "rows": []}))
    ['x.md']
    """
    stem = str(content["experiment"]) if stem is None else stem
    drawn = {f"{stem}-{picture.name}.svg": picture_file(picture) for picture in pictures_of(content)}
    return drawn | {f"{stem}.md": results_page(content, stem) + "\n"}


def write_experiment(path: str | Path, content: Mapping[str, Any]) -> Path:
    """Write the page, and its pictures beside it, each whole or not at all, the page last.

    Pictures of an earlier page of that name which this one does not have are removed.
    """
    path = Path(path)
    files = experiment_files(content, path.stem)
    files = {name: text for name, text in files.items() if name.endswith(".svg")} | {
        path.name: files[f"{path.stem}.md"]
    }
    for name, text in files.items():
        write_text(path.with_name(name), text)
    ours = re.compile(rf"{re.escape(path.stem)}-({'|'.join(KINDS)})(-.*)?\.svg")
    for other in path.parent.glob("*.svg"):
        if ours.fullmatch(other.name) and other.name not in files:
            other.unlink()
    return path
