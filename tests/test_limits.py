"""Time limits and interrupts reach compiled loops."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from numba.core.errors import TypingError

from hiddenfield.limits import OutOfTimeError, seconds_left, time_limit
from hiddenfield.ops.compile import compiled


@compiled(watched=True)
def spin(stop, rounds, out):  # type: ignore[no-untyped-def]
    """Count until told to stop."""
    stop[1] = 1
    while out[0] < rounds and stop[0] == 0:
        out[0] += 1


def test_a_quick_loop_just_ends() -> None:
    out = np.zeros(1, np.int64)
    spin(10, out)
    assert out[0] == 10


def test_a_limit_ends_a_loop() -> None:
    out = np.zeros(1, np.int64)
    spin(1, out)
    start = time.monotonic()
    with time_limit(0.2), pytest.raises(OutOfTimeError):
        spin(2**62, out)
    assert time.monotonic() - start < 5.0


def test_an_inner_limit_only_shortens() -> None:
    with time_limit(1.0), time_limit(100.0):
        assert seconds_left() <= 1.0


def test_ctrl_c_ends_a_loop() -> None:
    out = np.zeros(1, np.int64)
    spin(1, out)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        spin(2**62, out)
    assert time.monotonic() - start < 5.0
    count = int(out[0])
    time.sleep(0.05)
    assert int(out[0]) == count  # it has really stopped


def test_what_a_loop_raises_reaches_the_caller() -> None:
    with pytest.raises(TypingError):
        spin("many", np.zeros(1, np.int64))
