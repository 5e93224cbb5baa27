"""Expressions of features: attributes of entities, combined by logic and arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.shapes import Array

if TYPE_CHECKING:
    from hiddenfield.fields.relational.scheme import Attribute


@dataclass(frozen=True)
class Argument:
    """An entity that a feature quantifies over."""

    name: str

    def __repr__(self) -> str:
        """Show the name."""
        return self.name


def _truth(value: Any) -> Any:
    return (np.asarray(value) != 0).astype(np.float64)


def _number(compare: Callable[[Any, Any], Any]) -> Callable[[Array, Array], Array]:
    return lambda x, y: np.asarray(compare(x, y), dtype=np.float64)


def _combining(sign: str, function: Callable[[Any, Any], Any]) -> Callable[[Expression, Any], Expression]:
    """Return the method of an operator: `function` of the values of two expressions, or of one and a constant."""
    return lambda self, other: self._with(other, function, sign)


class Expression:
    """A function of the values of some atoms. Combine with ``& | ~ == != < <= > >= + - * abs``.

    A value takes part as the number of its state, so that a binary attribute is 0 or 1; ``==`` and ``!=`` also take the
    name of a value. The result of logic and comparison is 0 or 1.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self, atoms: tuple[Atom, ...], evaluate: Callable[[Mapping[Any, Array]], Array], text: str
    ) -> None:
        self.atoms = atoms
        self.evaluate = evaluate
        self.text = text

    def __repr__(self) -> str:
        """Show the formula."""
        return self.text

    def __bool__(self) -> bool:
        """Refuse: an expression has no value before its atoms have."""
        raise InputError(f"combine {self.text} with & | ~ instead of and, or, not")

    def _with(self, other: Any, function: Callable[[Any, Any], Any], sign: str) -> Expression:
        if isinstance(other, str):
            other = self._code(other)
        if isinstance(other, Expression):
            atoms = self.atoms + tuple(
                atom for atom in other.atoms if atom.key not in {a.key for a in self.atoms}
            )
            mine, theirs = self.evaluate, other.evaluate
            return Expression(
                atoms,
                lambda values: function(mine(values), theirs(values)),
                f"({self.text} {sign} {other.text})",
            )
        if isinstance(other, bool) or not isinstance(other, (int, float, np.integer, np.floating)):
            raise InputError(
                f"{self.text} {sign} … needs a number, a value's name or another expression, got {other!r}"
            )
        mine = self.evaluate
        return Expression(
            self.atoms, lambda values: function(mine(values), other), f"({self.text} {sign} {other})"
        )

    def _code(self, name: str) -> int:
        raise InputError(f"{self.text} is a number; only an attribute can be compared with the name {name!r}")

    __and__ = _combining("&", lambda x, y: _truth(x) * _truth(y))
    __or__ = _combining("|", lambda x, y: np.maximum(_truth(x), _truth(y)))

    def __invert__(self) -> Expression:
        """Not."""
        mine = self.evaluate
        return Expression(self.atoms, lambda values: 1.0 - _truth(mine(values)), f"~{self.text}")

    __eq__ = _combining("==", _number(operator.eq))  # type: ignore[assignment]
    __ne__ = _combining("!=", _number(operator.ne))  # type: ignore[assignment]
    __lt__ = _combining("<", _number(operator.lt))
    __le__ = _combining("<=", _number(operator.le))
    __gt__ = _combining(">", _number(operator.gt))
    __ge__ = _combining(">=", _number(operator.ge))
    __add__ = __radd__ = _combining("+", operator.add)
    __sub__ = _combining("-", operator.sub)
    __mul__ = __rmul__ = _combining("*", operator.mul)

    def __rsub__(self, other: Any) -> Expression:
        """Difference, with the number first."""
        return self * -1 + other

    def __abs__(self) -> Expression:
        """Absolute value."""
        mine = self.evaluate
        return Expression(self.atoms, lambda values: np.abs(mine(values)), f"abs({self.text})")

    def table(self) -> Array:
        """Return the function as an array, one axis per atom in the order of `atoms`."""
        shape = tuple(atom.attribute.num_values for atom in self.atoms)
        grids = np.meshgrid(*(np.arange(size, dtype=np.float64) for size in shape), indexing="ij")
        values = {atom.key: grid for atom, grid in zip(self.atoms, grids, strict=True)}
        return np.broadcast_to(np.asarray(self.evaluate(values), dtype=np.float64), shape).copy()


class Atom(Expression):
    """An attribute of one formal entity, such as ``exist[a, b]``."""

    def __init__(self, attribute: Attribute, arguments: tuple[str, ...]) -> None:
        self.attribute = attribute
        self.arguments = tuple(sorted(arguments)) if attribute.type.unordered else arguments
        self.key = (attribute.name, self.arguments)
        key = self.key
        super().__init__((self,), lambda values: values[key], f"{attribute.name}[{', '.join(arguments)}]")

    def _code(self, name: str) -> int:
        return self.attribute.code(name)
