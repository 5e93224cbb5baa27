"""Loops that Numba compiles on their first call, once for one thread and once for several.

Importing an op must be quick, so Numba is loaded when the first of them runs. A compiled loop is written as a plain
Python function over NumPy arrays whose outermost loop runs over `prange`; it must write each output row in
one iteration and in a fixed order, so that the result does not depend on the number of threads.

Numba keeps compiled code beside the source file, by its path and time: every new environment would compile anew. Here
the name is a fingerprint of the code, its constants and its options, and the folder one of the user's
(``NUMBA_CACHE_DIR``, where that is set), so that all environments share what any of them has compiled. The processor,
the types of the arguments and the version of Numba are Numba's own part of the key.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import torch

from hiddenfield.limits import call_watched, forgive
from hiddenfield.loading import in_one_piece
from hiddenfield.shapes import Array, Tensor

prange = range
"""Stands for `numba.prange` until the compiled loop is compiled; the undecorated function runs with it as it is."""

PARALLEL_WORK = 1 << 15
"""Scalars written below which one thread is used: starting two costs about as much (benchmarks/ops.py)."""

WATCHED_WORK = 1 << 22
"""Work below which a watched loop ends in milliseconds: starting a thread for it would cost a tenth of one."""

FAST: dict[str, Any] = {"fastmath": {"contract", "nsz"}, "error_model": "numpy"}
"""What Numba is told about compiled loops that are to be vectorised: infinities and NaN still mean what they mean."""

STALE = (ImportError, AttributeError)
"""What Numba raises where its cache on disk, left by another version, names types that are no longer there."""

PLAIN = (bool, int, float, complex, str, bytes, tuple, type(None), np.generic)
"""Types of constants that are part of a fingerprint by their text."""

# One lock for all compiled loops: Numba's fallback threading layer allows one parallel region at a time.
_parallel_region = threading.Lock()


def as_array(tensor: Tensor) -> Array:
    """View a tensor in host memory as a contiguous NumPy array, without copying where it is contiguous."""
    return tensor.contiguous().numpy(force=True)


class Subroutine:
    """A function that compiled loops call and that is compiled into them; see `subroutine`."""

    parts: tuple[Subroutine, ...] = ()  # others that it stands for

    def __init__(self, function: Callable[..., Any], *, allocates: bool = True, fast: bool = False) -> None:
        self.function = function = inspect.unwrap(function)  # beneath any check of arguments
        self.allocates, self.fast = allocates, fast
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        """Run as plain Python."""
        return self.function(*arguments)

    @functools.cached_property
    def compiled(self) -> Callable[..., Any]:
        """What Numba makes of it; it is compiled together with the first compiled loop that calls it."""
        import numba

        options: dict[str, Any] = {"_nrt": self.allocates}
        if self.fast:
            options |= {**FAST, "forceinline": True}
        return numba.njit(nogil=True, **options)(_with_subroutines(self.function, {}))


class Compiled:
    """A function that Numba compiles when it is first called; see `compiled`.

    Calling it with ``work=n``, the number of scalars it will write, runs on one thread where `n` is small and
    on `torch.get_num_threads()` threads (at most Numba's own limit) where it is large.
    """

    def __init__(
        self,
        function: Callable[..., None],
        *,
        fast: bool = False,
        reorder: bool = False,
        watched: bool = False,
    ) -> None:
        function = inspect.unwrap(function)  # beneath any check of arguments
        if not isinstance(function, FunctionType):
            raise TypeError(f"a compiled loop is made of a plain Python function, got {function!r}")
        self.function = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._options = FAST if fast else {}
        if reorder:
            self._options = {**FAST, "fastmath": FAST["fastmath"] | {"reassoc"}}
        self._watched = watched
        self._can_split = "prange" in function.__code__.co_names
        self._made: dict[bool, Any] = {}  # for one thread and for several
        self._process = 0

    def __call__(self, *arguments: Any, work: float = WATCHED_WORK) -> None:
        """Run the compiled loop, compiling it for these element types if it has not been."""
        if not self._watched:
            return self._dispatch(arguments, work)
        if work < WATCHED_WORK:
            return self._dispatch((np.zeros(3, np.int64), *arguments), work)
        return call_watched(lambda *given: self._dispatch(given, work), arguments, work)

    def _dispatch(self, arguments: tuple[Any, ...], work: float) -> None:
        """Run on one thread or several."""
        if work < PARALLEL_WORK or not self._can_split or (threads := torch.get_num_threads()) == 1:
            return self._run(False, arguments)
        import numba

        # A forked child inherits no threads, and GNU OpenMP ends a child that asks for them.
        if self._process not in (0, os.getpid()):
            return self._run(False, arguments)
        self._process = os.getpid()
        with _parallel_region:
            before = numba.get_num_threads()
            limit: int = getattr(numba.config, "NUMBA_NUM_THREADS")  # noqa: B009 (set when Numba starts)
            numba.set_num_threads(min(threads, limit))
            try:
                self._run(True, arguments)
            finally:
                numba.set_num_threads(before)

    def _run(self, parallel: bool, arguments: tuple[Any, ...]) -> None:
        made = self._made.get(parallel)
        try:
            if made is None:
                made = self._prepare(parallel, arguments)
            begun, known = time.monotonic(), len(made.overloads)
            made(*arguments)
            if len(made.overloads) > known:  # other types than at first
                forgive(time.monotonic() - begun)
        except STALE:
            made = self._prepare(parallel, arguments, anew=True)
            made(*arguments)

    def _prepare(self, parallel: bool, arguments: tuple[Any, ...], *, anew: bool = False) -> Any:
        """Compile for the types of the arguments, or load what was compiled: this counts against no time limit."""
        begun = time.monotonic()
        made = self._made[parallel] = self._compile(parallel)
        if anew:
            made._cache.flush()
        made.compile(tuple(made.typeof_pyval(each) for each in arguments))
        forgive(time.monotonic() - begun)
        return made

    def _compile(self, parallel: bool) -> Any:
        with in_one_piece():
            import numba

        plain = self.function
        copy = _with_subroutines(plain, {"prange": numba.prange})
        suffix = "_parallel" if parallel else "_serial"
        copy.__name__, copy.__qualname__ = plain.__name__ + suffix, plain.__qualname__ + suffix
        made = numba.njit(nogil=True, parallel=parallel, **self._options)(copy)
        options = [
            (name, sorted(value) if isinstance(value, set) else value)
            for name, value in sorted(self._options.items())
        ]
        _keep_on_disk(made, _identity(plain, (parallel, options)))
        return made


def _called(function: Callable[..., Any]) -> dict[str, Subroutine]:
    """Return the subroutines that a function names."""
    names = function.__code__.co_names
    found = ((name, function.__globals__.get(name)) for name in names)
    return {name: value for name, value in found if isinstance(value, Subroutine)}


def _identity(function: Callable[..., Any], further: Any = ()) -> str:
    """Return a fingerprint of a function, its constants, the subroutines that it calls, and further options."""
    called = [
        (name, [_identity(each.function, (each.allocates, each.fast)) for each in (routine, *routine.parts)])
        for name, routine in sorted(_called(function).items())
    ]
    content = _code(function.__code__), _constants(function, function.__code__), repr((further, called))
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def _code(code: CodeType) -> tuple[Any, ...]:
    constants = [_code(part) if isinstance(part, CodeType) else part for part in code.co_consts]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _constants(function: Callable[..., Any], code: CodeType) -> list[tuple[str, str]]:
    """Return the constants of the module that some code names, as texts."""
    known = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    found = [(name, repr(value)) for name, value in known.items() if isinstance(value, PLAIN)]
    found += [
        (name, f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}")
        for name, value in known.items()
        if isinstance(value, np.ndarray)
    ]
    for part in code.co_consts:
        found += _constants(function, part) if isinstance(part, CodeType) else []
    return found


def _with_subroutines(function: Callable[..., Any], further: dict[str, Any]) -> FunctionType:
    """Copy a function with the subroutines that it names compiled."""
    compiled = {name: called.compiled for name, called in _called(function).items()}
    names = {**function.__globals__, **compiled, **further}
    copy = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def subroutine(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a function that compiled loops (and other subroutines) may call: it is compiled into them.

    With ``allocates=False`` it makes no arrays but views, and is compiled without reference counts, whose atomic
    increments would cost more than the work of a small function (a factor of 3 in belief propagation). `fast` is as
    of `compiled`.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.ops.compile import compiled, subroutine
    >>> @subroutine
    ... def square(value):
    ...     return value * value
    >>> @compiled
    ... def squares(values, out):
    ...     for i in range(values.size):
    ...         out[i] = square(values[i])
    >>> out = np.empty(2)
    >>> squares(np.array([2.0, 3.0]), out)
    >>> out
    array([4., 9.])
    """
    return functools.partial(Subroutine, **options) if function is None else Subroutine(function, **options)


def compiled(function: Callable[..., None] | None = None, **options: Any) -> Any:
    """Make a lazily compiled loop of a plain Python function.

    The body sees NumPy arrays and scalars, writes its results into arrays that it is given and returns
    nothing. It may use NumPy, `math`, and `prange` from this module for the loop that is split among threads.
    Of the package's own functions it may call those made by `subroutine`.

    With ``fast=True`` products may be fused with sums, the sign of zero is not kept, and division by zero is not
    looked for (it gives inf or NaN): what a loop needs to run on whole vectors. With `reorder` too, the terms of a sum
    may be added in another order. A loop that may take seconds is ``watched=True``: it gets an array `stop` before its
    arguments, sets ``stop[1]`` as it begins, and returns soon after ``stop[0]`` has become 1, at Ctrl-C or when a
    `time_limit` is over. One that adds up in ``stop[2]`` how much of `work` is done is given up early where it will not
    end in time.

    Cost: the first call of each combination of element types compiles (about a second) or loads the result
    from the cache on disk, which all environments of a user share; later calls cost
    about a microsecond each plus the work.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.ops.compile import compiled, prange
    >>> @compiled
    ... def double(values, out):
    ...     for i in prange(values.size):
    ...         out[i] = 2 * values[i]
    >>> out = np.empty(3)
    >>> double.function(np.array([1.0, 2.0, 3.0]), out)  # as plain Python; `double(..., work=3)` compiles it
    >>> out
    array([2., 4., 6.])
    """
    return functools.partial(Compiled, **options) if function is None else Compiled(function, **options)


def _keep_on_disk(dispatcher: Any, mark: str) -> None:
    """Let Numba keep what it compiles under a fingerprint, unless this is another Numba or nothing can be written."""
    with contextlib.suppress(ImportError, AttributeError, TypeError, OSError, RuntimeError):
        dispatcher.py_func.fingerprint = mark
        cache = _cache_class()(dispatcher.py_func)
        cache._impl.locator.ensure_cache_path()
        dispatcher._cache = cache


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
    import numba
    from numba.core import caching

    class Locator(caching._CacheLocator):  # type: ignore[misc]
        """One folder for all; names are told apart by the fingerprint."""

        def __init__(self, mark: str) -> None:
            self.mark = mark

        def get_cache_path(self) -> str:
            given, home = os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME") or "~/.cache"
            own = Path(home).expanduser() / "hiddenfield" / f"numba-{numba.__version__}"
            return given or str(own)

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
