"""Every finished piece of an assessment on disk at once, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hiddenfield.data.paths import write_text
from hiddenfield.errors import InputError, ReadError

__all__ = ["CellStore", "write_json"]

FLAT_LIST = re.compile(r"\[(\n[^\[\]{}]*\n\s*)\]")


def write_json(file: Path, content: Any) -> None:
    """Write JSON, whole or not at all, even if several processes write the same file."""
    text = json.dumps(content, indent=1, allow_nan=False)
    # A line break in JSON is never part of a value: lists of plain values come on one line, to be read and compared.
    text = FLAT_LIST.sub(lambda found: "[" + re.sub(r"\s*\n\s*", " ", found[1]).strip() + "]", text)
    write_text(file, text + "\n")


class CellStore:
    """A folder of results, one file a cell, that belongs to one plan.

    Parameters
    ----------
    folder
        New or empty; with `resume` one of the same plan.
    plan
        What the results depend on; it is kept in ``plan.json``.
    resume
        Whether to go on with what is there.

    Examples
    --------
    >>> import tempfile
    >>> store = CellStore(Path(tempfile.mkdtemp()), {"folds": 2})
    >>> store.write("final-1", {"value": 0.5})
    >>> store.read("final-1"), store.read("final-2")
    ({'value': 0.5}, None)
    """

    def __init__(self, folder: str | Path, plan: Mapping[str, Any], *, resume: bool = False) -> None:
        self.folder = Path(folder)
        self.cells = self.folder / "cells"
        plan = json.loads(json.dumps(plan))
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder} is a file; name a folder")
        if self.folder.exists() and any(self.folder.iterdir()):
            self._check(plan, resume)
        self.cells.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / "plan.json", plan)

    def _check(self, plan: Mapping[str, Any], resume: bool) -> None:
        if not resume:
            raise InputError(
                f"{self.folder} is not empty; choose another folder, or go on with what is there with resume"
            )
        file = self.folder / "plan.json"
        try:
            before = json.loads(file.read_text(encoding="utf-8"))
            assert isinstance(before, dict)
        except (OSError, ValueError, AssertionError):
            raise ReadError("is not the plan of an assessment; choose another folder", file=file) from None
        for name in sorted({*plan, *before}):
            if before.get(name) != plan.get(name):
                raise InputError(
                    f"{self.folder} is of an assessment with {name} {_short(before.get(name))}, not "
                    f"{_short(plan.get(name))}; give the same, or choose another folder"
                )

    def write(self, key: str, content: Mapping[str, Any]) -> None:
        """Keep the result of a cell."""
        text = json.dumps(content, allow_nan=False)
        write_json(self.cells / f"{key}.json", {"checksum": _checksum(text), "content": json.loads(text)})

    def read(self, key: str) -> dict[str, Any] | None:
        """Return the result of a cell; None if it is not there, or damaged, of which a warning tells."""
        file = self.cells / f"{key}.json"
        if not file.exists():
            return None
        try:
            entry = json.loads(file.read_text(encoding="utf-8"))
            content = entry["content"]
            if entry["checksum"] != _checksum(json.dumps(content)):
                raise ValueError("the checksum is another")
        except (OSError, ValueError, KeyError, TypeError) as error:
            warnings.warn(f"{file} is damaged ({error}) and is computed again", stacklevel=2)
            return None
        return dict(content)


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."
