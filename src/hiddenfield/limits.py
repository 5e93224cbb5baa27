"""Limits of time that loops honour: those of Python between two steps, compiled ones through a flag that they watch."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from hiddenfield.errors import HiddenfieldError

QUICK = 0.02
"""Least seconds between two looks at the clock."""

EARLY = 0.03
"""Part of the seconds that are left, and of the work, after which the speed of a loop foretells its end."""

ROOM = 3.0
"""How far beyond the limit the end must be foretold for a loop to be given up at first; close to its end, it is 1."""

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)
_forgiven = [0.0]  # seconds that count against no limit


class OutOfTimeError(HiddenfieldError, TimeoutError):
    """What was asked for could not be had within the time limit."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop long loops with `OutOfTimeError` once so many seconds have passed; a limit within another only shortens it.

    Examples
    --------
    >>> with time_limit(60.0):
    ...     59.0 < seconds_left() <= 60.0
    True
    >>> seconds_left()
    inf
    """
    token = _deadline.set(min(_deadline.get(), _clock() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def seconds_left() -> float:
    """Return how many seconds are left until the limit, or infinity."""
    return _deadline.get() - _clock()


def check_time() -> None:
    """Raise `OutOfTimeError` where the time limit is over: for loops of Python that look at no clock otherwise."""
    if seconds_left() <= 0:
        raise OutOfTimeError("the time limit is over")


def forgive(seconds: float) -> None:
    """Let some time count against no limit: that of compiling, which happens once."""
    _forgiven[0] += seconds


def _clock() -> float:
    return time.monotonic() - _forgiven[0]


def call_watched(function: Callable[..., None], arguments: tuple[Any, ...], work: float = math.inf) -> None:
    """Call ``function(stop, *arguments)`` beside the caller, and raise ``stop[0]`` at Ctrl-C or when time is over.

    A compiled loop does not return to Python before it ends, so that an interrupt would wait for it. In a thread of its
    own, and watching the flag, it ends within milliseconds. It says by ``stop[1]`` that it has begun: until then it is
    being compiled, which counts against no limit (see `forgive`). One that adds up in ``stop[2]`` how much of its
    `work` is done is given up as soon as its speed shows that it will not end in time.
    """
    stop, failure, done = np.zeros(3, np.int64), [], threading.Event()

    def run() -> None:
        try:
            function(stop, *arguments)
        except BaseException as error:  # handed to the caller
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=run, daemon=True).start()
    begun, needed = -math.inf, 0.0  # seconds that were left when it began, and that it still needs
    try:
        while not done.wait(min(max(seconds_left() * EARLY, QUICK), 0.5)):
            left = seconds_left()
            begun = left if stop[1] and begun == -math.inf else begun
            if stop[2] > EARLY * work and begun - left > EARLY * begun:
                needed = (begun - left) * (work / stop[2] - 1)
            if stop[1] and (left <= 0 or needed > (ROOM - (ROOM - 1) * stop[2] / work) * left):
                stop[0] = 1
    except BaseException:
        stop[0] = 1
        done.wait()
        raise
    if failure:
        raise failure[0]
    if stop[0]:
        raise OutOfTimeError(
            f"it would take about {needed:.2g} s more" if needed > 0 else "the time limit is over"
        )
