"""The progress bar: late, on a terminal only, and gone afterwards."""

from __future__ import annotations

import io

import pytest

from hiddenfield import progress as module
from hiddenfield.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def count(label: str, **options: bool) -> None:
    with progress(3, label, **options) as advance:
        for _ in range(3):
            advance(1)


def test_lines_now_and_then_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "DELAY", 0.0)
    count("counting")
    assert capfd.readouterr() == ("", "")  # it was over soon
    monkeypatch.setattr(module, "FIRST_LINE", 0.0)
    count("counting")
    assert capfd.readouterr().err.startswith("hiddenfield: counting: 1 of 3 (33%), about ")
    monkeypatch.setattr(module, "NEXT_LINE", 0.0)
    count("counting")
    assert len(capfd.readouterr().err.splitlines()) == 3
    count("counting", shown=False)
    assert capfd.readouterr() == ("", "")


def test_shown_on_a_terminal_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    count("counting")
    assert terminal.getvalue() == ""  # it was over at once
    monkeypatch.setattr(module, "DELAY", 0.0)
    count("counting", shown=False)
    assert terminal.getvalue() == ""
    count("counting")
    assert "counting" in terminal.getvalue()
    assert "3/3" in terminal.getvalue()


def test_an_error_passes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELAY", 0.0)
    monkeypatch.setattr("sys.stderr", Terminal())

    def fail() -> None:
        with progress(2, "failing") as advance:
            advance(1)
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()


def test_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    count("counting")
