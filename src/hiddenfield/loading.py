"""Names that a package loads when they are first asked for, in one piece."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import lazy_loader  # type: ignore[import-untyped]


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the stub beside its ``__init__``.

    Examples
    --------
    >>> import hiddenfield
    >>> "infer" in hiddenfield.__all__
    True
    """
    load, names, every = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        with in_one_piece():
            return load(name)

    return get, names, every


@contextlib.contextmanager
def in_one_piece() -> Iterator[None]:
    """Let Ctrl-C wait for the end of an import: half a torch or Numba cannot be imported again in the same session."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)
