"""The structure of a Bayesian network, and its conditional tables end to end in one array."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.table import TableColumn
from hiddenfield.data.vocabulary import Vocabulary, symbols_of
from hiddenfield.errors import InputError
from hiddenfield.fields.build import from_factors
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers import read
from hiddenfield.fields.readers.text import conditional_tables
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Int


class FactorTables:
    """Base of what knows the variables of rows and the scopes of factors, whose tables lie end to end."""

    variables: tuple[TableColumn, ...]

    @cached_property
    def scopes(self) -> list[list[int]]:
        """The variables of each factor."""
        raise TypeError(
            f"{type(self).__name__} has no factors; a subclass of FactorTables names their scopes"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Of the variables."""
        return tuple(variable.name for variable in self.variables)

    @cached_property
    def states(self) -> Int[Array, " variables"]:
        """Number of states of each variable."""
        return np.array([variable.num_states for variable in self.variables], np.int64)

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the tables."""
        return [tuple(self.states[scope].tolist()) for scope in self.scopes]

    @cached_property
    def bounds(self) -> Int[Array, " variable_bounds"]:
        """Where each table begins and ends."""
        return np.cumsum([0, *(int(np.prod(shape, dtype=np.int64)) for shape in self.shapes)])

    @property
    def num_entries(self) -> int:
        """Of all tables."""
        return int(self.bounds[-1])

    def places(self, factor: int, codes: Int[Array, "rows variables"]) -> Int[Array, " rows"]:
        """Return the entry of a factor's table that each row reads; all its variables must be observed."""
        own = tuple(codes[:, each] for each in self.scopes[factor])
        return self.bounds[factor] + np.ravel_multi_index(own, self.shapes[factor])

    def counts(
        self, codes: Int[Array, "rows variables"], weights: Float[Array, " rows"]
    ) -> Float[Array, " entries"]:
        """Count the entries that the rows read, for each factor those that have all its variables."""
        found = np.zeros(self.num_entries)
        for factor, scope in enumerate(self.scopes):
            there = (codes[:, scope] >= 0).all(axis=1)
            own = slice(self.bounds[factor], self.bounds[factor + 1])
            places = self.places(factor, codes[there]) - own.start
            found[own] = np.bincount(places, weights=weights[there], minlength=own.stop - own.start)
        return found

    def field(self, entries: Float[Array, " entries"]) -> FactorGraph:
        """Return the field that has these tables."""
        parts = zip(np.split(entries, self.bounds[1:-1]), self.shapes, strict=True)
        with np.errstate(divide="ignore"):
            logs = [np.log(part.reshape(shape)) for part, shape in parts]
        named = [[str(symbol) for symbol in variable.vocabulary.symbols] for variable in self.variables]  # type: ignore[union-attr]
        return from_factors(
            self.scopes, logs, self.states.tolist(), variable_names=self.names, state_names=named
        )


@dataclass(frozen=True, eq=False)
class ConditionalTables(FactorTables):
    r"""Variables with their parents: :math:`p(x) = \prod_v p(x_v \mid x_{\pi(v)})`.

    Tables lie end to end, each over the states of the parents and, last, those of the variable itself.

    Parameters
    ----------
    variables
        Names and symbols.
    parents
        Of each variable, by number.

    Examples
    --------
    >>> from hiddenfield.data import as_table
    >>> columns = as_table({"rain": ["no", "yes"], "wet": ["no", "yes"]}).columns
    >>> network = ConditionalTables(columns, ((), (0,)))
    >>> network.num_entries, network.row_of_entry.tolist()
    (6, [0, 0, 1, 1, 2, 2])
    """

    variables: tuple[TableColumn, ...]
    parents: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        names = [variable.name for variable in self.variables]
        try:
            graphlib.TopologicalSorter(dict(enumerate(self.parents))).prepare()
        except graphlib.CycleError as error:
            cycle = " - ".join(repr(names[variable]) for variable in error.args[1])
            raise InputError(f"a Bayesian network has no cycles, but one leads through {cycle}") from None
        for variable in self.variables:
            if not variable.num_states:
                raise InputError(f"variable {variable.name!r} has no states")

    @cached_property
    def scopes(self) -> list[list[int]]:
        """The parents of each variable, then itself."""
        return [[*parents, variable] for variable, parents in enumerate(self.parents)]

    def split(self, entries: Float[Array, " entries"]) -> dict[str, Array]:
        """Return the table of each variable by its name."""
        parts = np.split(entries, self.bounds[1:-1])
        return {
            name: part.reshape(shape)
            for name, part, shape in zip(self.names, parts, self.shapes, strict=True)
        }

    @cached_property
    def row_of_entry(self) -> Int[Array, " entries"]:
        """The row of each entry: one for each joint state of the parents of each variable."""
        rows = np.diff(self.bounds) // self.states
        return np.repeat(np.arange(rows.sum()), np.repeat(self.states, rows))

    def per_row(self, entries: Float[Array, " entries"]) -> Float[Array, " entries"]:
        """Return for each entry the sum over its row."""
        return np.bincount(self.row_of_entry, weights=entries)[self.row_of_entry]

    @cached_property
    def order(self) -> list[int]:
        """The variables, parents before children."""
        return list(graphlib.TopologicalSorter(dict(enumerate(self.parents))).static_order())

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        plain = [variable.as_dict() for variable in self.variables]
        return {"variables": plain, "parents": [list(own) for own in self.parents]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> ConditionalTables:
        """Return the network that `as_dict` described."""
        variables = tuple(TableColumn.from_dict(variable) for variable in plain["variables"])
        return cls(variables, tuple(tuple(own) for own in plain["parents"]))


@dataclass(frozen=True, eq=False)
class Structure:
    """The parents of each variable by name, and what else the source of a structure said.

    Parameters
    ----------
    parents
        By name; parents may be names that are no keys.
    states
        The symbols of variables where they are known.
    tables
        Conditional tables over the parents and the variable, where there were some.
    """

    parents: Mapping[str, Sequence[str]]
    states: Mapping[str, Sequence[Any]]
    tables: Mapping[str, Array]


def as_structure(source: Any) -> Structure:
    """Read the structure of a network.

    Parameters
    ----------
    source
        A file of a Bayesian network (BIF, XMLBIF, NET, UAI), a field that is one, a networkx DiGraph, or a dict of the
        parents of each variable.

    Examples
    --------
    >>> as_structure({"wet": ["rain", "sprinkler"], "rain": []}).parents
    {'wet': ('rain', 'sprinkler'), 'rain': (), 'sprinkler': ()}
    """
    if isinstance(source, (str, Path)):
        source = read(source)
    if isinstance(source, FactorGraph):
        return _of_field(source)
    states: dict[str, Sequence[Any]] = {}
    if hasattr(source, "predecessors") and hasattr(source, "nodes"):
        given = {str(node): [str(parent) for parent in source.predecessors(node)] for node in source.nodes}
        states = {str(node): own["states"] for node, own in source.nodes(data=True) if "states" in own}
    elif isinstance(source, Mapping):
        given = {
            str(child): [own] if isinstance(own, str) else [str(parent) for parent in own or ()]
            for child, own in source.items()
        }
    else:
        raise InputError(
            "a structure is a file of a network, a field that is a Bayesian network, a networkx DiGraph, or a dict of "
            f"parents, got {type(source).__name__}"
        )
    for child, own in given.items():
        if len(set(own)) < len(own) or child in own:
            raise InputError(
                f"the parents of {child!r} must be different variables other than itself, got {own}"
            )
    everyone = dict.fromkeys([*given, *(parent for own in given.values() for parent in own)])
    return Structure({name: tuple(given.get(name, ())) for name in everyone}, states, {})


def _of_field(field: FactorGraph) -> Structure:
    names = list(field.variable_names) or [f"x{v}" for v in range(field.num_variables)]
    parents, tables = {}, {}
    for name, (own, table) in zip(names, conditional_tables(field), strict=True):
        parents[name] = tuple(names[parent] for parent in own)
        tables[name] = np.exp(table)
    counts = field.cardinalities.tolist()
    listed = field.state_names or [tuple(str(state) for state in range(count)) for count in counts]
    states = {name: symbols_of(list(own)) for name, own in zip(names, listed, strict=True)}
    return Structure(parents, states, tables)


def network_of(
    structure: Structure, columns: Sequence[TableColumn], hidden: Mapping[str, Any] | None = None
) -> ConditionalTables:
    """Return the tables' layout for a structure and the columns of a table.

    Parameters
    ----------
    structure
        See `as_structure`. Columns that it does not name are not part of the network.
    columns
        Those that the data have; their symbols are added to those that the structure knows.
    hidden
        Number of states, or the names of the states, of variables that no column has.
    """
    known, hidden = {column.name: column for column in columns}, dict(hidden or {})
    for name in hidden:
        choose("variable", structure.parents, name)
    variables = []
    for name in structure.parents:
        symbols = list(structure.states.get(name, ()))
        if name in known:
            vocabulary = known[name].vocabulary
            assert vocabulary is not None
            found = [symbol for symbol in vocabulary.symbols if symbol not in symbols]
            if symbols and found:
                listed = ", ".join(repr(symbol) for symbol in symbols[:8])
                raise InputError(
                    f"column {name!r} holds {found[0]!r}, which is no state of that variable; they are {listed}"
                )
            symbols = symbols or found
        elif not symbols:
            if name not in hidden:
                raise InputError(
                    f"no column is named {name!r}; if that variable is hidden, say how many states it has "
                    f"(hidden={{{name!r}: 2}}); the columns are {', '.join(known)}"
                )
            given = hidden[name]
            symbols = list(range(given)) if isinstance(given, int) else list(given)
        kind = "binary" if len(symbols) <= 2 else "categorical"
        variables.append(TableColumn(name, kind, Vocabulary(name, tuple(symbols))))
    number = {name: place for place, name in enumerate(structure.parents)}
    parents = tuple(tuple(number[parent] for parent in own) for own in structure.parents.values())
    return ConditionalTables(tuple(variables), parents)
