"""Loops that Numba compiles on their first call, once for one thread and once for several.

Importing an op must be quick, so Numba is loaded when the first of them runs. A compiled loop is written as a plain
Python function over NumPy arrays whose outermost loop runs over `prange`; it must write each output row in
one iteration and in a fixed order, so that the result does not depend on the number of threads.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
import time
import zlib
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import torch

from hiddenfield.limits import call_watched, forgive
from hiddenfield.loading import in_one_piece
from hiddenfield.ops.disk_cache import identity, keep_on_disk
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

# One lock for all compiled loops: Numba's fallback threading layer allows one parallel region at a time.
_parallel_region = threading.Lock()


def as_array(tensor: Tensor) -> Array:
    """View a tensor in host memory as a contiguous NumPy array, without copying where it is contiguous."""
    return tensor.contiguous().numpy(force=True)


class Subroutine:
    """A function that compiled loops call and that is compiled into them; see `subroutine`."""

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

    @functools.cached_property
    def fingerprint(self) -> int:
        """A number that changes with the code, that of the subroutines it calls included."""
        code = self.function.__code__
        text = repr((code.co_code, [part for part in code.co_consts if not hasattr(part, "co_code")]))
        return zlib.crc32(text.encode(), _fingerprint(self.function))


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
            made = self._prepare(parallel, arguments, "_anew")
            made(*arguments)

    def _prepare(self, parallel: bool, arguments: tuple[Any, ...], suffix: str = "") -> Any:
        """Compile for the types of the arguments, or load what was compiled: this counts against no time limit."""
        begun = time.monotonic()
        made = self._made[parallel] = self._compile(parallel=parallel, suffix=suffix)
        made.compile(tuple(made.typeof_pyval(each) for each in arguments))
        forgive(time.monotonic() - begun)
        return made

    def _compile(self, *, parallel: bool, suffix: str = "") -> Any:
        with in_one_piece():
            import numba

        plain, anew = self.function, bool(suffix)
        copy = _with_subroutines(plain, {"prange": numba.prange})
        # The name is part of the key of Numba's cache on disk; the options and the code of subroutines are not.
        suffix += ("_parallel" if parallel else "_serial") + (
            f"_{called:x}" if (called := _fingerprint(plain)) else ""
        )
        copy.__name__ = plain.__name__ + suffix
        copy.__qualname__ = plain.__qualname__ + suffix
        copy.__module__ = plain.__module__
        made = numba.njit(nogil=True, parallel=parallel, **self._options)(copy)
        mark = _identity(plain, (parallel, [_ordered(option) for option in sorted(self._options.items())]))
        if anew or not keep_on_disk(made, mark):
            with contextlib.suppress(
                RuntimeError
            ):  # neither the package's folder nor the user's can be written
                made.enable_caching()
        return made


def _called(function: Callable[..., Any]) -> dict[str, Subroutine]:
    """Return the subroutines that a function names."""
    names = function.__code__.co_names
    found = ((name, function.__globals__.get(name)) for name in names)
    return {name: value for name, value in found if isinstance(value, Subroutine)}


def _fingerprint(function: Callable[..., Any]) -> int:
    marks = [called.fingerprint for called in _called(function).values()]
    return zlib.crc32(repr(marks).encode()) if marks else 0


def _ordered(option: tuple[str, Any]) -> tuple[str, Any]:
    """Return an option whose text is the same in every process, which that of a set is not."""
    name, value = option
    return name, sorted(value) if isinstance(value, set) else value


def _identity(function: Callable[..., Any], further: Any = ()) -> str:
    """Return a fingerprint of a function, of the subroutines that it calls, and of further options."""
    called = [
        (name, _identity(routine.function, (routine.allocates, routine.fast)))
        for name, routine in sorted(_called(function).items())
    ]
    return identity(function, (further, called))


def _with_subroutines(function: Callable[..., Any], further: dict[str, Any]) -> FunctionType:
    """Copy a function with the subroutines that it names compiled."""
    compiled = {name: called.compiled for name, called in _called(function).items()}
    names = {**function.__globals__, **compiled, **further}
    copy = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def subroutine(
    function: Callable[..., Any] | None = None, *, allocates: bool = True, fast: bool = False
) -> Any:
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
    make = functools.partial(Subroutine, allocates=allocates, fast=fast)
    return make if function is None else make(function)


def compiled(
    function: Callable[..., None] | None = None,
    *,
    fast: bool = False,
    reorder: bool = False,
    watched: bool = False,
) -> Any:
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
    from the cache on disk, which all environments of a user share (`hiddenfield.ops.disk_cache`); later calls cost
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
    make = functools.partial(Compiled, fast=fast, reorder=reorder, watched=watched)
    return make if function is None else make(function)
