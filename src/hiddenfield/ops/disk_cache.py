"""The cache of compiled loops on disk: in the user's folder, by what they are compiled from.

Numba keeps compiled code beside the source file, by its path and time: every new environment compiles anew. Here the
name is a fingerprint of the code, its constants and its options, so that all environments of a user share what any
of them has compiled. The processor, the types of the arguments and the version of Numba are Numba's own part of the
key.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

PLAIN = (bool, int, float, complex, str, bytes, tuple, type(None), np.generic)


def identity(function: Callable[..., Any], further: Any = ()) -> str:
    """Return a fingerprint of all that a compiled function depends on: its code, and the constants that it names.

    Examples
    --------
    >>> (
    ...     identity(lambda x: x + 1) == identity(lambda x: x + 1),
    ...     identity(lambda x: x + 1) == identity(lambda x: x + 2),
    ... )
    (True, False)
    """
    content = (_code(function.__code__), _constants(function, function.__code__), repr(further))
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def _code(code: CodeType) -> tuple[Any, ...]:
    constants = [_code(part) if isinstance(part, CodeType) else part for part in code.co_consts]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _constants(function: Callable[..., Any], code: CodeType) -> list[tuple[str, str]]:
    """Return the constants of the module that some code names, as texts."""
    known = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    found = [(name, repr(value)) for name, value in known.items() if isinstance(value, PLAIN)]
    found += [(name, _array(value)) for name, value in known.items() if isinstance(value, np.ndarray)]
    for part in code.co_consts:
        found += _constants(function, part) if isinstance(part, CodeType) else []
    return found


def _array(values: Any) -> str:
    return f"{values.dtype} {values.shape} {hashlib.sha256(values.tobytes()).hexdigest()}"


def folder() -> Path:
    """Return where compiled loops are kept."""
    import numba

    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "hiddenfield" / f"numba-{numba.__version__}"


def keep_on_disk(dispatcher: Any, mark: str) -> bool:
    """Let Numba keep what it compiles under a fingerprint; return False where that is not possible.

    Not where ``NUMBA_CACHE_DIR`` says where to keep it, nor where the folder cannot be written.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return False
    try:
        dispatcher.py_func.fingerprint = mark
        cache = _cache_class()(dispatcher.py_func)
        cache._impl.locator.ensure_cache_path()
    except (
        ImportError,
        AttributeError,
        TypeError,
        OSError,
        RuntimeError,
    ):  # another Numba, or no place to write
        return False
    dispatcher._cache = cache
    return True


_listeners: list[Callable[[], None]] = []


@contextlib.contextmanager
def told_of_compiling(listener: Callable[[], None]) -> Iterator[None]:
    """Call a function, without arguments, whenever a loop is about to be compiled that the cache does not have."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@functools.cache
def _cache_class() -> Any:
    from numba.core import caching

    class Locator(caching._CacheLocator):  # type: ignore[misc]
        """One folder for all; names are told apart by the fingerprint."""

        def __init__(self, mark: str) -> None:
            self.mark = mark

        def get_cache_path(self) -> str:
            return str(folder())

        def get_source_stamp(self) -> str:
            return self.mark

        def get_disambiguator(self) -> str:
            return self.mark

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            return cls(py_func.fingerprint)

    class Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
        _locator_classes: Any = (Locator,)

    class Shared(caching.FunctionCache):  # type: ignore[misc]
        _impl_class = Implementation

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            found = super().load_overload(sig, target_context)
            for listener in [] if found is not None else list(_listeners):
                listener()
            return found

    return Shared
