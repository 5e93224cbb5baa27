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

    def __and__(self, other: Any) -> Expression:
        """Both."""
        return self._with(other, lambda x, y: _truth(x) * _truth(y), "&")

    def __or__(self, other: Any) -> Expression:
        """Either or both."""
        return self._with(other, lambda x, y: np.maximum(_truth(x), _truth(y)), "|")

    def __invert__(self) -> Expression:
        """Not."""
        mine = self.evaluate
        return Expression(self.atoms, lambda values: 1.0 - _truth(mine(values)), f"~{self.text}")

    def __eq__(self, other: Any) -> Expression:  # type: ignore[override]
        """Equal."""
        return self._with(other, _number(operator.eq), "==")

    def __ne__(self, other: Any) -> Expression:  # type: ignore[override]
        """Not equal."""
        return self._with(other, _number(operator.ne), "!=")

    def __lt__(self, other: Any) -> Expression:
        """Less."""
        return self._with(other, _number(operator.lt), "<")

    def __le__(self, other: Any) -> Expression:
        """Less or equal."""
        return self._with(other, _number(operator.le), "<=")

    def __gt__(self, other: Any) -> Expression:
        """Greater."""
        return self._with(other, _number(operator.gt), ">")

    def __ge__(self, other: Any) -> Expression:
        """Greater or equal."""
        return self._with(other, _number(operator.ge), ">=")

    def __add__(self, other: Any) -> Expression:
        """Sum."""
        return self._with(other, operator.add, "+")

    def __sub__(self, other: Any) -> Expression:
        """Difference."""
        return self._with(other, operator.sub, "-")

    def __mul__(self, other: Any) -> Expression:
        """Product."""
        return self._with(other, operator.mul, "*")

    def __radd__(self, other: Any) -> Expression:
        """Sum, with the number first."""
        return self + other

    def __rmul__(self, other: Any) -> Expression:
        """Product, with the number first."""
        return self * other

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


def _truth(value: Any) -> Any:
    return (np.asarray(value) != 0).astype(np.float64)


def _number(compare: Callable[[Any, Any], Any]) -> Callable[[Array, Array], Array]:
    return lambda x, y: np.asarray(compare(x, y), dtype=np.float64)
