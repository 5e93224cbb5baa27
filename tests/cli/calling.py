"""The command line, called in this process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hiddenfield.cli import main

__all__ = ["call", "done"]


def call(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[Any, str, str]:
    """Run the command line in this process; return its exit code, output and errors."""
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    return stop.value.code or 0, out, err


def done(capsys: pytest.CaptureFixture[str], *words: Any) -> Any:
    """Run a command that must succeed; return what it prints as JSON."""
    code, out, err = call(capsys, *words, "--json")
    assert code == 0, err
    return json.loads(out)
