"""Relational schemes: types, attributes and template features, independent of any domain."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.relational.expressions import Argument, Atom, Expression
from hiddenfield.fields.relational.terms import TERMS, WEIGHTED, Term
from hiddenfield.shapes import Array

MOST_ENTITIES = 10**15
"""Entities of one type: with more, counts of features would have too few digits."""


@dataclass(frozen=True)
class ComplexType:
    """Entities that are one basic entity, an ordered tuple of them, or an unordered tuple of one type.

    Parameters
    ----------
    parts
        The basic types, one per position.
    unordered
        Whether permutations of the parts are the same entity.
    self_tuples
        Whether tuples that repeat an entity, [v, v], are entities too. They are in no feature, so that each adds
        log |values| to the log partition and nothing else.
    """

    parts: tuple[str, ...]
    unordered: bool = False
    self_tuples: bool = False

    def __repr__(self) -> str:
        """Show it as in the paper: T, T1 x T2 or T^k."""
        if self.unordered:
            return f"{self.parts[0]}^{len(self.parts)}"
        return " x ".join(self.parts)

    @property
    def two_mode(self) -> bool:
        """Whether they are pairs between two types, as of persons and the events that they attend."""
        return len(self.parts) == 2 and self.parts[0] != self.parts[1]

    @property
    def directed(self) -> bool:
        """Whether they are ordered pairs of one type."""
        return len(self.parts) == 2 and not (self.unordered or self.two_mode)

    def count(self, sizes: Mapping[str, int]) -> int:
        """Return how many entities there are whose parts of one type all differ."""
        total = 1
        for part in set(self.parts):
            size, places = sizes[part], self.parts.count(part)
            total *= math.comb(size, places) if self.unordered else math.perm(size, places)
        return total

    def self_count(self, sizes: Mapping[str, int]) -> int:
        """Return how many tuples there are that repeat an entity, if such tuples are entities at all."""
        if not self.self_tuples:
            return 0
        if self.unordered:
            return math.comb(sizes[self.parts[0]] + len(self.parts) - 1, len(self.parts)) - self.count(sizes)
        return math.prod(sizes[part] for part in self.parts) - self.count(sizes)


@dataclass(frozen=True, eq=False)
class Attribute:
    """A property of the entities of a type, such as ``exist`` of pairs of vertices.

    ``attribute[a, b]`` within a feature is its value for the entity of those arguments.
    """

    name: str
    type: ComplexType
    values: tuple[str, ...]

    @property
    def num_values(self) -> int:
        """Number of values."""
        return len(self.values)

    def code(self, value: str) -> int:
        """Return the number of a value."""
        if value not in self.values:
            raise InputError(
                f"attribute {self.name!r} has no value {value!r}; it has {', '.join(self.values)}"
            )
        return self.values.index(value)

    def __getitem__(self, arguments: Argument | tuple[Argument, ...]) -> Atom:
        """Return the attribute of an entity made of a feature's arguments."""
        given = arguments if isinstance(arguments, tuple) else (arguments,)
        if not all(isinstance(argument, Argument) for argument in given):
            raise InputError(f"{self.name}[…] takes the arguments of a feature, got {given!r}")
        names = tuple(argument.name for argument in given)
        if len(names) != len(self.type.parts):
            raise InputError(
                f"{self.name}[{', '.join(names)}]: an entity of type {self.type} has {len(self.type.parts)} parts, "
                f"got {len(names)}"
            )
        if len(set(names)) < len(names):
            raise InputError(f"{self.name}[{', '.join(names)}]: an entity names each argument at most once")
        return Atom(self, names)


@dataclass(frozen=True, eq=False)
class Feature:
    r"""A template feature: arguments, formal entities with attributes (its *atoms*), and a function of their values.

    A legal binding maps the arguments to entities of their types, arguments of one type to different ones
    (Definition 2.5). Two bindings give the *same ground feature* when a permutation of the arguments takes the atoms to
    the atoms and leaves the function unchanged: that is decided from the function, whatever its weight.

    Parameters
    ----------
    name
        Its name.
    arguments, argument_types
        What it quantifies over.
    atoms
        The attributes of formal entities that it looks at: the ports of its factors.
    table
        The function, one axis per atom.
    term
        What it counts where no template holds it; it has no arguments then. None elsewhere.
    """

    name: str
    arguments: tuple[str, ...]
    argument_types: tuple[str, ...]
    atoms: tuple[Atom, ...]
    table: Array
    term: Term | None = None

    @cached_property
    def relabelings(self) -> list[tuple[int, ...]]:
        """All permutations of the arguments that keep types: place i of the new order holds argument ``p[i]``."""
        return permutations_within_types(self.argument_types)

    def axes_of(self, order: tuple[int, ...]) -> list[int] | None:
        """Return the place of the atom that each becomes when argument i is called as argument ``order[i]``.

        None where one of them becomes none of the atoms.
        """
        rename = {self.arguments[i]: Argument(self.arguments[j]) for i, j in enumerate(order)}
        place = {atom.key: i for i, atom in enumerate(self.atoms)}
        moved = [atom.attribute[tuple(rename[name] for name in atom.arguments)].key for atom in self.atoms]
        return [place[key] for key in moved] if all(key in place for key in moved) else None

    @cached_property
    def symmetries(self) -> list[tuple[int, ...]]:
        """The permutations of the arguments that give the same ground feature: 2 for an edge, 6 for a triangle."""
        found = []
        for order in self.relabelings:
            axes = self.axes_of(order)
            if axes is not None and np.array_equal(np.transpose(self.table, np.argsort(axes)), self.table):
                found.append(order)
        return found

    @cached_property
    def representatives(self) -> list[tuple[int, ...]]:
        """One permutation of the arguments for each different ground feature on one set of entities."""
        seen: set[tuple[int, ...]] = set()
        chosen = []
        for order in self.relabelings:
            if order in seen:
                continue
            chosen.append(order)
            seen.update(tuple(order[i] for i in symmetry) for symmetry in self.symmetries)
        return chosen

    def count_bindings(self, sizes: Mapping[str, int]) -> int:
        """Return the number of legal bindings, in closed form."""
        kinds = set(self.argument_types)
        return math.prod(math.perm(sizes[kind], self.argument_types.count(kind)) for kind in kinds)

    def count_distinct(self, sizes: Mapping[str, int]) -> int:
        """Return the number of different ground features, in closed form."""
        return self.count_bindings(sizes) // len(self.symmetries)


class RelationalScheme:
    """Types, attributes and features: a model of any number of entities.

    Examples
    --------
    >>> scheme = RelationalScheme()
    >>> vertex = scheme.type("vertex")
    >>> exist = scheme.attribute("exist", scheme.pair(vertex))
    >>> edge = scheme.feature("edge", lambda a, b: exist[a, b])
    >>> triangle = scheme.feature("triangle", lambda a, b, c: exist[a, b] & exist[a, c] & exist[b, c])
    >>> scheme
    RelationalScheme(types: vertex; attributes: exist(vertex^2); features: edge, triangle)
    >>> (
    ...     triangle.count_bindings({"vertex": 7}),
    ...     triangle.count_distinct({"vertex": 7}),
    ...     len(triangle.symmetries),
    ... )
    (210, 35, 6)
    """

    def __init__(self) -> None:
        self.types: dict[str, ComplexType] = {}
        self.attributes: dict[str, Attribute] = {}
        self.features: dict[str, Feature] = {}

    def __repr__(self) -> str:
        """List what it is made of."""
        attributes = ", ".join(f"{a.name}({a.type})" for a in self.attributes.values())
        return (
            f"RelationalScheme(types: {', '.join(self.types)}; attributes: {attributes}; "
            f"features: {', '.join(self.features)})"
        )

    # -- language ------------------------------------------------------------------------------------------

    def type(self, name: str) -> ComplexType:
        """Add a basic type of entities."""
        _check_name("type", name, self.types)
        self.types[name] = ComplexType((name,))
        return self.types[name]

    def pair(self, kind: ComplexType, *, self_pairs: bool = False) -> ComplexType:
        """Return the type of unordered pairs [v, w] of a basic type."""
        return self.unordered(kind, 2, self_tuples=self_pairs)

    def unordered(self, kind: ComplexType, size: int, *, self_tuples: bool = False) -> ComplexType:
        """Return the type of unordered tuples of `size` entities of one basic type."""
        self._check_basic(kind)
        if size < 2:
            raise InputError(f"an unordered tuple has at least 2 parts, got {size}")
        return ComplexType(kind.parts * size, unordered=True, self_tuples=self_tuples)

    def ordered(self, *kinds: ComplexType, self_tuples: bool = False) -> ComplexType:
        """Return the type of ordered tuples of entities of basic types."""
        for kind in kinds:
            self._check_basic(kind)
        if len(kinds) < 2:
            raise InputError(f"an ordered tuple has at least 2 parts, got {len(kinds)}")
        return ComplexType(tuple(kind.parts[0] for kind in kinds), self_tuples=self_tuples)

    def attribute(self, name: str, kind: ComplexType, values: int | Sequence[str] = 2) -> Attribute:
        """Add a property of the entities of a type; binary (0 and 1) by default."""
        _check_name("attribute", name, self.attributes)
        for part in kind.parts:
            if part not in self.types:
                raise InputError(f"attribute {name!r} is of type {kind}, but the scheme has no type {part!r}")
        names = tuple(str(i) for i in range(values)) if isinstance(values, int) else tuple(values)
        if len(names) < 2 or len(set(names)) < len(names):
            raise InputError(f"attribute {name!r} needs at least two different values, got {list(names)}")
        self.attributes[name] = Attribute(name, kind, names)
        return self.attributes[name]

    def feature(self, name: str, function: Callable[..., Expression]) -> Feature:
        """Add a template feature: a function of its arguments that combines attributes of entities made of them.

        Parameters with a default, such as ``lambda a, b, v=value: ...`` in a loop, are no entities.
        """
        parameters = inspect.signature(function).parameters.values()
        arguments = [Argument(p.name) for p in parameters if p.default is inspect.Parameter.empty]
        try:
            expression = function(*arguments)
        except InputError as error:
            raise InputError(f"feature {name!r}: {error}") from None
        return self.add_feature(name, [argument.name for argument in arguments], expression)

    def add_feature(self, name: str, arguments: Sequence[str], expression: Any) -> Feature:
        """Add a template feature from its arguments and an expression in them."""
        _check_name("feature", name, self.features)
        if not isinstance(expression, Expression) or not expression.atoms:
            raise InputError(f"feature {name!r} must combine attributes of its arguments, got {expression!r}")
        found: dict[str, str] = {}
        for atom in expression.atoms:
            if self.attributes.get(atom.attribute.name) is not atom.attribute:
                raise InputError(f"feature {name!r} uses {atom.text}, an attribute of another scheme")
            for argument, kind in zip(atom.arguments, atom.attribute.type.parts, strict=True):
                if argument not in arguments:
                    raise InputError(
                        f"feature {name!r}: {atom.text} uses {argument!r}, which is not an argument"
                    )
                if found.setdefault(argument, kind) != kind:
                    uses = f"a {found[argument]} in one place and a {kind} in {atom.text}"
                    raise InputError(f"feature {name!r}: argument {argument!r} is {uses}")
        for argument in arguments:
            if argument not in found:
                raise InputError(f"feature {name!r}: argument {argument!r} is used nowhere")
        types = tuple(found[argument] for argument in arguments)
        made = Feature(name, tuple(arguments), types, expression.atoms, expression.table())
        self.features[name] = made
        return made

    def term(
        self, kind: str, *, decay: float | None = None, covariate: str = "", name: str | None = None
    ) -> Feature:
        """Add a term that no template holds: see `hiddenfield.fields.relational.terms`.

        It is learned by pseudo-likelihood and by sampling, and has no field. The default name is the kind, with its
        covariate.

        Examples
        --------
        >>> from hiddenfield.fields.relational import graph_scheme
        >>> scheme = graph_scheme("edge")
        >>> scheme.term("gwesp", decay=0.5).name, scheme.term("nodecov", covariate="wealth").name
        ('gwesp', 'nodecov_wealth')
        """
        if decay is None and TERMS.get(kind) == WEIGHTED:
            raise InputError(f"{kind}: give its decay, such as decay=0.5")
        made = Term(kind, 0.0 if decay is None else float(decay), covariate)
        name = name or (f"{kind}_{covariate}" if covariate else kind)
        _check_name("feature", name, self.features)
        self.features[name] = Feature(name, (), (), (), np.zeros(()), made)
        return self.features[name]

    # -- domains -------------------------------------------------------------------------------------------

    def template(self, sizes: Any, theta: Any, **options: Any) -> FactorGraph:
        """Return the template-level field, at a cost that does not grow with the domain.

        Parameters
        ----------
        sizes
            Number of entities of each basic type; one number where there is one type.
        theta
            A weight for each feature: a mapping, a vector, or a matrix with one row per setting (a batch of fields).
        options
            ``bindings`` ("auto", "merged", "ordered" or "cluster") and ``weights`` ("ground" or "binding"): see
            `hiddenfield.fields.relational.factor_kinds`.

        Examples
        --------
        >>> from hiddenfield.fields.relational import graph_scheme
        >>> from hiddenfield.inference import infer
        >>> field = graph_scheme("edge", "triangle").template(1_000_000, {"edge": -10.0, "triangle": 0.5})
        >>> infer(field).status
        'converged; 2 phases, of log Z 8.33281e+16, 2.27096e+07: this is the dominant one'
        """
        from hiddenfield.fields.relational.instantiation import template

        return template(self, sizes, theta, **options)

    def ground(self, sizes: Any, theta: Any, **options: Any) -> FactorGraph:
        """Return the ground field, a variable for every entity's attribute; options as for `template`."""
        from hiddenfield.fields.relational.instantiation import ground

        return ground(self, sizes, theta, **options)

    def check_sizes(self, sizes: Any) -> dict[str, int]:
        """Return the number of entities of each basic type; a single number is for the only type."""
        if not isinstance(sizes, Mapping):
            if len(self.types) != 1:
                raise InputError(f"say how many entities of each type there are: {', '.join(self.types)}")
            sizes = {next(iter(self.types)): sizes}
        for name in sizes:
            if name not in self.types:
                raise InputError(f"the scheme has no type {name!r}; it has {', '.join(self.types)}")
        for name in self.types:
            if name not in sizes:
                raise InputError(f"how many entities of type {name!r} are there? Give sizes={{{name!r}: …}}")
            size = sizes[name]
            if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
                raise InputError(f"the number of entities of type {name!r} is a whole number, got {size!r}")
            if not 1 <= size <= MOST_ENTITIES:
                raise InputError(
                    f"there must be at least one entity of type {name!r} and at most {MOST_ENTITIES:,}, got {size:,}"
                )
        return {name: int(size) for name, size in sizes.items()}

    def _check_basic(self, kind: ComplexType) -> None:
        if len(kind.parts) != 1 or kind.parts[0] not in self.types:
            raise InputError(
                f"tuples are made of basic types of this scheme ({', '.join(self.types)}), got {kind}"
            )


def permutations_within_types(types: Sequence[str]) -> list[tuple[int, ...]]:
    """Return all permutations of places that keep the type at each: place i of the new order holds ``p[i]``."""
    places = {kind: [i for i, t in enumerate(types) if t == kind] for kind in types}
    result = []
    for orders in product(*(permutations(place) for place in places.values())):
        order = [0] * len(types)
        for place, chosen in zip(places.values(), orders, strict=True):
            for position, argument in zip(place, chosen, strict=True):
                order[position] = argument
        result.append(tuple(order))
    return result


def _check_name(family: str, name: str, taken: Mapping[str, Any]) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError(f"the name of a {family} must be a word of letters, digits and _, got {name!r}")
    if name in taken:
        raise InputError(f"there is already a {family} called {name!r}")
