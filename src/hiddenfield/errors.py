"""The errors that hiddenfield raises: one small hierarchy.

Each text says what was expected, what came (with the index, id, file and line where there is one) and what to
do. Everything a user can cause is a `HiddenfieldError`, and also the built-in that one would expect.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "CollapseError",
    "ConvergenceWarning",
    "HiddenfieldError",
    "InputError",
    "MergedInputWarning",
    "MissingDependencyError",
    "NoTemplateError",
    "ReadError",
    "RowSumWarning",
    "SkippedInputWarning",
    "TooLargeError",
    "TrainingError",
    "UnknownSymbolError",
]


class HiddenfieldError(Exception):
    """Base of every error that the library raises on purpose."""


class InputError(HiddenfieldError, ValueError):
    """An argument, array or file does not hold what was expected.

    Where it is about one structure, `structure` is its number and `reason` the text without its name.
    """

    structure: int | None = None
    reason: str = ""


class OptionError(InputError):
    """An option has no effect on what is read; `option` is its name."""

    def __init__(self, message: str, *, option: str) -> None:
        self.option = option
        super().__init__(message)


class TooLargeError(InputError):
    """What was asked for would take more memory than it may."""


class NoTemplateError(InputError):
    """A feature of a relational scheme has no template, and what was asked for needs one."""


class UnknownSymbolError(InputError):
    """A symbol is not in the vocabulary that must encode it."""


class ReadError(InputError):
    """A file is malformed.

    Parameters
    ----------
    message
        What was expected, what came, what to do.
    file, line
        Where; `line` counts from one.

    Examples
    --------
    >>> raise ReadError("expected two integers, got 'x'", file="A.txt", line=3)
    Traceback (most recent call last):
    hiddenfield.errors.ReadError: A.txt, line 3: expected two integers, got 'x'
    """

    def __init__(self, message: str, *, file: str | Path | None = None, line: int | None = None) -> None:
        self.file = None if file is None else str(file)
        self.line = line
        self.reason = message
        place = "" if file is None else str(file) + ("" if line is None else f", line {line}") + ": "
        super().__init__(place + message)

    def __reduce__(self) -> tuple[object, ...]:
        """Keep file and line when the error travels back from a worker process."""
        return _rebuild_read_error, (self.reason, self.file, self.line)


def _rebuild_read_error(message: str, file: str | None, line: int | None) -> ReadError:
    return ReadError(message, file=file, line=line)


class MissingDependencyError(HiddenfieldError, ImportError):
    """An optional package is needed and is not installed."""

    @classmethod
    def for_extra(cls, package: str, extra: str, purpose: str) -> MissingDependencyError:
        """Build the error for `package`, which the extra named `extra` installs."""
        return cls(
            f"{purpose} needs the package {package!r}: install it with pip install 'hiddenfield[{extra}]'"
        )


class TrainingError(HiddenfieldError, RuntimeError):
    """Training cannot go on; the text says where it broke and what to try."""


class CollapseError(TrainingError):
    """A part of a model has shrunk onto few rows, or has none: the likelihood has no maximum there.

    Parameters
    ----------
    message
        Which, and how.
    component
        Its number; None where it is shared by all.
    """

    def __init__(self, message: str, *, component: int | None = None) -> None:
        self.component = component
        super().__init__(message)


class ConvergenceWarning(UserWarning):
    """An iteration ended before it settled; the text says how far it came and what to try."""


class RowSumWarning(UserWarning):
    """Rows of a table of conditional probabilities do not sum to 1; the text names file, line, variable and row."""


class MergedInputWarning(UserWarning):
    """Entries that a file repeats were merged; the text says how many, in which file, and how to keep them."""


class SkippedInputWarning(UserWarning):
    """Rows were left out on the user's own request; the text says how many and which.

    Parameters
    ----------
    message
        How many, the first of them, and why.
    positions
        All of them, counted from zero.
    reasons
        Why, for each of the positions.
    ids
        Of each of the positions, where rows have ids.
    """

    def __init__(
        self,
        message: str,
        positions: Sequence[int] = (),
        reasons: Sequence[str] = (),
        ids: Sequence[str] | None = None,
    ) -> None:
        self.positions = tuple(positions)
        self.reasons = tuple(reasons)
        self.ids = None if ids is None else tuple(ids)
        super().__init__(message)


# -- the commonest check --------------------------------------------------------------------------------------


def checked_integer(value: Any, name: str, least: int | None = None) -> int:
    """Return a whole number as an int; refuse anything else, and what is less than `least`.

    Examples
    --------
    >>> checked_integer(0, "size", 1)
    Traceback (most recent call last):
    hiddenfield.errors.InputError: size must be an integer of at least 1, got 0
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or (least is not None and number < least):
        wanted = "an integer" if least is None else f"an integer of at least {least}"
        raise InputError(f"{name} must be {wanted}, got {value!r:.100}")
    return number
