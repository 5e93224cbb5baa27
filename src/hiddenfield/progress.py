"""A progress bar for what takes longer than a second; plain lines, now and then, where no terminal is watching."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

Part = TypeVar("Part", bound=Sized)

# A bar that flashes up for an instant disturbs more than it tells.
DELAY = 1.0

# Seconds before the first line, and between two lines, where standard error is a file or a pipe.
FIRST_LINE, NEXT_LINE = 10.0, 30.0


@contextmanager
def progress(total: int | None, label: str, *, shown: bool = True) -> Iterator[Callable[..., None]]:
    """Show how far a task has come, on standard error, once it has run for a second.

    Parameters
    ----------
    total
        How many steps there are; None if nobody knows.
    label
        What is being done, for example ``"reading molecules"``.
    shown
        False for nothing at all. Where standard error is not a terminal, a line is written every half minute instead of
        a bar.

    Yields
    ------
    callable
        To be called with the number of steps done since the last call and, if wanted, a few words on how it goes.

    Examples
    --------
    >>> with progress(3, "counting") as advance:
    ...     for _ in range(3):
    ...         advance(1)
    """
    shown = shown and sys.stderr is not None
    watched = shown and sys.stderr.isatty()
    started = time.monotonic()
    next_line = started + FIRST_LINE
    done = 0
    bar: Progress | None = None

    def advance(steps: int, note: str = "") -> None:
        nonlocal bar, done, next_line
        done += steps
        if not shown:
            return
        if not watched:
            if (now := time.monotonic()) >= next_line:
                next_line = now + NEXT_LINE
                print(_line(total, label, done, now - started, note), file=sys.stderr, flush=True)
            return
        if bar is None and time.monotonic() - started >= DELAY:
            bar = _start(total, label)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done, description=f"{label} {note}" if note else label)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()


def counted(parts: Iterable[Part], advance: Callable[..., None]) -> Iterator[Part]:
    """Pass parts through, counting the length of each when it has been dealt with.

    Examples
    --------
    >>> steps = []
    >>> list(counted(["ab", "c"], steps.append)), steps
    (['ab', 'c'], [2, 1])
    """
    for part in parts:
        yield part
        advance(len(part))


def _line(total: int | None, label: str, done: int, seconds: float, note: str) -> str:
    """Return how far it is as a line of text, with the time that is left if it goes on so."""
    text = f"hiddenfield: {label}: {done:,}"
    if total:
        text += f" of {total:,} ({done / total:.0%})"
        if 0 < done < total:
            text += f", about {seconds / done * (total - done):,.0f} s left"
    return text + (f"; {note}" if note else "")


def _start(total: int | None, label: str) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    bar.add_task(label, total=total)
    bar.start()
    return bar
