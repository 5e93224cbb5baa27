"""Registries: interchangeable things of one family, looked up by name."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from hiddenfield.errors import InputError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """One family of interchangeable things; each is registered by the module that defines it.

    Adding one is adding a file: the modules of the family's package are imported at the first look-up, and whatever
    they register is found, in the order of the names. A module anywhere else registers in the same way once it is
    imported.

    Parameters
    ----------
    family
        The word for one of them, as error messages use it.
    package
        Name of the package whose modules are imported at the first look-up; None for none.

    Examples
    --------
    >>> orders = Registry("order")
    >>> @orders.register(guarantee="none", reference="Elidan 2006")
    ... def residual(messages): ...
    >>> orders.choose("residual") is residual, orders.facts("residual")["reference"]
    (True, 'Elidan 2006')
    >>> orders.choose("residul")
    Traceback (most recent call last):
    hiddenfield.errors.InputError: unknown order 'residul' (did you mean 'residual'?); choose from: residual
    """

    def __init__(self, family: str, package: str | None = None) -> None:
        self.family = family
        self._package = package
        self._entries: dict[str, tuple[T, dict[str, Any]]] = {}

    def register(self, name: str | None = None, **facts: Any) -> Callable[[Any], Any]:
        """Return a decorator that adds a function, class or other object under `name`, by default its own.

        The facts are what tables show of it: a guarantee, a reference, a summary.
        """

        def add(entry: Any) -> Any:
            key = name if name is not None else entry.__name__
            known = self._entries.get(key)
            if known is not None and _home(known[0]) != _home(entry):
                raise ValueError(f"two entries of the {self.family} registry are named {key!r}")
            self._entries[key] = (entry, facts)
            return entry

        return add

    def unregister(self, name: str) -> None:
        """Take an entry out again, such as one that was tried in a notebook."""
        del self._found()[name]

    def choose(self, name: str) -> T:
        """Return the entry of that name; an unknown name is an `InputError` that lists the choices."""
        return choose(self.family, self, name)

    def facts(self, name: str) -> Mapping[str, Any]:
        """Return what was said of an entry when it was registered."""
        return self._found()[name][1]

    def __getitem__(self, name: str) -> T:
        return self._found()[name][0]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._found()))

    def __len__(self) -> int:
        return len(self._found())

    def _found(self) -> dict[str, tuple[T, dict[str, Any]]]:
        if self._package is not None:
            name, self._package = self._package, None
            package = importlib.import_module(name)
            for info in pkgutil.iter_modules(package.__path__):
                if not info.ispkg and not info.name.startswith("_"):
                    importlib.import_module(f"{name}.{info.name}")
        return self._entries


def choose(family: str, choices: Mapping[str, T], name: Any) -> T:
    """Return the choice of that name; an unknown name is an `InputError` that lists the choices.

    Examples
    --------
    >>> choose("order", {"parallel": 1, "residual": 2}, "residul")
    Traceback (most recent call last):
    hiddenfield.errors.InputError: unknown order 'residul' (did you mean 'residual'?); choose from: parallel, residual
    """
    if name in choices:
        return choices[name]
    raise InputError(
        f"unknown {family} {name!r}{did_you_mean(name, choices)}; choose from: {', '.join(choices)}"
    )


def did_you_mean(name: Any, choices: Iterable[Any]) -> str:
    """Return a hint at the choice that is spelt like a name; nothing where there is none.

    Examples
    --------
    >>> did_you_mean("residul", ["parallel", "residual"])
    " (did you mean 'residual'?)"
    """
    close = difflib.get_close_matches(str(name), [str(choice) for choice in choices], n=1)
    return f" (did you mean {close[0]!r}?)" if close and close[0] != str(name) else ""


def _home(entry: Any) -> tuple[str, str]:
    return getattr(entry, "__module__", ""), getattr(entry, "__qualname__", repr(entry))
