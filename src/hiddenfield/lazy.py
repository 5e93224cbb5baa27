"""Public names that are imported when they are first used, so that importing a package is quick."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping

__all__ = ["attach"]


def attach(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names live in other modules.

    Parameters
    ----------
    package
        The package's ``__name__``.
    homes
        For every public name the module that defines it; a name whose module is itself is a submodule.
    """

    def lookup(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(homes[name])
        value = module if homes[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return lookup, lambda: sorted({*homes, *vars(sys.modules[package])}), sorted(homes)
