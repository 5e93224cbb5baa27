"""Check the options of an algorithm against its signature: a wrong name or type is one clear error."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Mapping
from typing import Any

from hiddenfield.errors import InputError
from hiddenfield.registry import choose

__all__ = ["check_options"]

KINDS: dict[str, tuple[Any, str]] = {
    "bool": (bool, "true or false"),
    "int": (numbers.Integral, "a whole number"),
    "float": (numbers.Real, "a number"),
    "str": (str, "a name"),
    "None": (type(None), "None"),
}
PLAIN = (bool, numbers.Number, str, list, tuple, dict, type(None))


def check_options(name: str, run: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse options that an algorithm does not have, and plain values of another type than it states.

    Examples
    --------
    >>> from hiddenfield.inference import loopy_bp
    >>> check_options("loopy_bp", loopy_bp, {"damping": 0.5})
    >>> check_options("loopy_bp", loopy_bp, {"max_iterations": "many"})
    Traceback (most recent call last):
    hiddenfield.errors.InputError: loopy_bp: max_iterations must be a whole number, got 'many'
    """
    known = _options_of(run)
    for option, value in options.items():
        annotation = choose(f"option of {name}", known, option)
        parts = [part.strip() for part in annotation.split("|")]
        stated = [KINDS[part] for part in parts if part in KINDS]
        fits = any(_is_a(value, kind) for kind, _ in stated)
        if fits or not isinstance(value, PLAIN) or _holds(parts, value):
            continue
        words = [text for kind, text in stated if kind is not type(None)] or ["given in Python"]
        raise InputError(f"{name}: {option} must be {' or '.join(words)}, got {value!r}")


@functools.lru_cache(maxsize=64)
def _options_of(run: Callable[..., Any]) -> dict[str, str]:
    """Return the names of an algorithm's options and how they are annotated."""
    return {
        key: str(parameter.annotation)
        for key, parameter in inspect.signature(run).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def _is_a(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _holds(parts: list[str], value: Any) -> bool:
    """Tell whether a list or the like may be meant: the algorithm looks into it itself."""
    several = ("Sequence[", "list[", "tuple[", "Mapping[", "dict[")
    return isinstance(value, (list, tuple, dict)) and any(part.startswith(several) for part in parts)
