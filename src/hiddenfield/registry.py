"""One registry for each family of interchangeable things: a name resolves to one, an error lists the choices."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from hiddenfield.errors import InputError

__all__ = ["choose"]

T = TypeVar("T")


def choose(family: str, choices: Mapping[str, T], name: str) -> T:
    """Return the choice of that name; an unknown name is an `InputError` that lists what there is.

    Examples
    --------
    >>> choose("order", {"parallel": 1, "residual": 2}, "residul")
    Traceback (most recent call last):
    hiddenfield.errors.InputError: unknown order 'residul' (did you mean 'residual'?); choose from: parallel, residual
    """
    if name in choices:
        return choices[name]
    close = difflib.get_close_matches(str(name), list(choices), n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    raise InputError(f"unknown {family} {name!r}{hint}; choose from: {', '.join(choices)}")
