"""Observed networks for relational models: which entities have which values, and which are unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.fields.relational import (
    Attribute,
    Classes,
    Feature,
    RelationalScheme,
    ground_index,
    ground_variables,
)
from hiddenfield.shapes import Array, Bool, Float, Int, Tensor

MOST_VERTICES = 10_000_000
TOO_LARGE = (
    "a network of {size:,} vertices is too large to be held, at most "
    + f"{MOST_VERTICES:,}; inference without a network takes any size"
)


@dataclass(frozen=True, eq=False)
class Network:
    """One observed instantiation of a scheme: the value of every entity's attributes, or that it is not known.

    Parameters
    ----------
    sizes
        Number of entities of each basic type.
    pairs
        For each binary attribute of pairs the entities that have the value 1, one row each; all others have 0.
    values
        For each attribute of a basic type the value of every entity, -1 where it is not known.
    unknown
        For each attribute of pairs the entities whose value is not known, one row each.
    names
        Names of the entities, by type, where there are some.
    covariates
        Numbers of all vertices, or of all pairs (a matrix), that terms take by name.

    Examples
    --------
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> network_from_edges(graph_scheme("edge"), [("a", "b"), ("b", "c")])
    Network(3 vertex; exist: 2 of 3)
    """

    sizes: dict[str, int]
    pairs: dict[str, Int[Array, "rows 2"]]
    values: dict[str, Int[Array, " entities"]] = field(default_factory=dict)
    unknown: dict[str, Int[Array, "unknown 2"]] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    covariates: dict[str, Float[Array, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Say how large it is."""
        sizes = ", ".join(f"{size:,} {name}" for name, size in self.sizes.items())
        parts = []
        for name, rows in self.pairs.items():
            size = next(iter(self.sizes.values()))
            missing = len(self.unknown.get(name, ()))
            parts.append(
                f"{name}: {len(rows):,} of {size * (size - 1) // 2:,}"
                + f", {missing:,} unknown" * (missing > 0)
            )
        return f"Network({sizes}; {'; '.join(parts)})"

    @property
    def complete(self) -> bool:
        """Whether everything is known."""
        return not any(len(rows) for rows in self.unknown.values()) and all(
            (v >= 0).all() for v in self.values.values()
        )

    def adjacency(self) -> Bool[Array, "vertices vertices"]:
        """Return the symmetric adjacency matrix of a network of unordered pairs."""
        size = next(iter(self.sizes.values()))
        rows = next(iter(self.pairs.values()))
        matrix = np.zeros((size, size), dtype=bool)
        matrix[rows[:, 0], rows[:, 1]] = matrix[rows[:, 1], rows[:, 0]] = True
        return matrix


def network_from_edges(
    scheme: RelationalScheme,
    edges: Sequence[tuple[Any, Any]],
    *,
    vertices: Sequence[Any] | None = None,
    values: Mapping[str, Mapping[Any, Any]] | None = None,
    unknown: Sequence[tuple[Any, Any]] = (),
    covariates: Mapping[str, Mapping[Any, float]] | None = None,
) -> Network:
    """Make a network of pairs of names, for a scheme with one binary attribute of pairs.

    Parameters
    ----------
    scheme
        The scheme.
    edges
        Pairs that have the value 1. A self-loop, or a pair that comes twice, is an error.
    vertices
        All vertices, those without edges too; by default those that the pairs name, in order of appearance.
    values
        For each attribute of vertices the value (a name or a number) of each; a vertex that is left out is unknown.
    unknown
        Pairs whose value is not known.
    covariates
        Numbers that terms of the scheme take, by the name of the covariate: of every vertex, or of pairs (0 where a
        pair is left out).
    """
    attribute = pair_attribute(scheme)
    kind = attribute.type.parts[0]
    if isinstance(vertices, Sized) and len(vertices) > MOST_VERTICES:
        raise InputError(TOO_LARGE.format(size=len(vertices)))
    names = (
        list(dict.fromkeys(v for pair in (*edges, *unknown) for v in pair))
        if vertices is None
        else list(vertices)
    )
    number = {name: i for i, name in enumerate(names)}
    if len(number) < len(names):
        twice = next(name for i, name in enumerate(names) if number[name] != i)
        raise InputError(f"the vertex {twice!r} is listed twice")
    rows = _rows(edges, number, "edge", attribute)
    missing = _rows(unknown, number, "unknown pair", attribute)
    _check_disjoint(rows, missing, names, attribute)
    coded = {name: _codes(scheme, name, given, number, len(names)) for name, given in (values or {}).items()}
    for name, other in scheme.attributes.items():
        if len(other.type.parts) == 1 and name not in coded:
            coded[name] = np.full(len(names), -1)
    return Network(
        {kind: len(names)},
        {attribute.name: rows},
        coded,
        {attribute.name: missing} if len(missing) else {},
        {kind: tuple(str(name) for name in names)},
        {
            name: _numbers(scheme, name, given, number, attribute)
            for name, given in (covariates or {}).items()
        },
    )


def networks_from_structures(scheme: RelationalScheme, structures: Structures) -> list[Network]:
    """Make a network of each structure of a pack: an edge is a pair of value 1, node labels are attributes by name.

    For a scheme with one binary attribute of pairs. A self-loop, a repeated edge, or a one-way arc where pairs are
    unordered is an error that names it.
    """
    attribute = pair_attribute(scheme)
    pack = structures.to("cpu")
    labels = {vocabulary.name: column for column, vocabulary in enumerate(pack.node_vocabularies)}
    result = []
    for place in range(len(pack)):
        one = pack[[place]]
        source, target = one.source.numpy().astype(np.int64), one.target.numpy().astype(np.int64)
        if attribute.type.unordered and bool((one.reverse < 0).any()):
            where = int(np.flatnonzero(one.reverse.numpy() < 0)[0])
            raise InputError(
                f"{pack.name_of(place)}: the arc {source[where]} -> {target[where]} goes one way, and "
                f"{attribute.name!r} is of unordered pairs; make it symmetric, or declare ordered pairs"
            )
        keep = source <= target if attribute.type.unordered else np.ones(len(source), dtype=bool)
        pairs = list(zip(source[keep].tolist(), target[keep].tolist(), strict=True))
        values = {}
        for name, column in labels.items():
            other = scheme.attributes.get(name)
            if other is not None and len(other.type.parts) == 1 and one.node_labels is not None:
                symbols = pack.node_vocabularies[column].symbols
                codes = np.array([other.code(str(symbol)) for symbol in symbols])
                values[name] = dict(enumerate(codes[one.node_labels[:, column].numpy()].tolist()))
        try:
            made = network_from_edges(scheme, pairs, vertices=range(one.total_nodes), values=values)
        except InputError as error:
            raise InputError(f"{pack.name_of(place)}: {error}") from None
        result.append(replace(made, names={}))
    return result


def evidence_of(scheme: RelationalScheme, network: Network) -> Float[Tensor, " states"]:
    """Return what is known of a network as packed log weights over the states of the ground field."""
    kinds = [attribute.type for attribute in scheme.attributes.values()]
    counts = [kind.count(network.sizes) + kind.self_count(network.sizes) for kind in kinds]
    states = np.repeat([attribute.num_values for attribute in scheme.attributes.values()], counts)
    codes = np.full(len(states), -1)
    for name, entities in ground_variables(scheme, network.sizes).items():
        known: list[tuple[Array, Any]] = [(entities, network.values.get(name, 0))]
        known += [
            (rows[name], code) for rows, code in ((network.pairs, 1), (network.unknown, -1)) if name in rows
        ]
        for rows, code in known:
            codes[ground_index(scheme, network.sizes, name, rows)] = code
    owner = np.repeat(np.arange(len(states)), states)
    state = np.arange(len(owner)) - np.repeat(np.cumsum(states) - states, states)
    allowed = (codes[owner] < 0) | (codes[owner] == state)
    return torch.from_numpy(np.where(allowed, 0.0, -np.inf))


def pair_attribute(scheme: RelationalScheme) -> Attribute:
    """Return the scheme's only attribute of pairs, which must be binary and of one type."""
    found = [a for a in scheme.attributes.values() if len(a.type.parts) == 2]
    if len(found) != 1 or found[0].num_values != 2 or len(set(found[0].type.parts)) != 1:
        raise InputError(
            "networks are read for schemes with one binary attribute of pairs of one type; "
            f"this one has {', '.join(f'{a.name}({a.type})' for a in scheme.attributes.values())}"
        )
    if any(len(a.type.parts) > 2 for a in scheme.attributes.values()):
        raise InputError("networks cannot be read for schemes with attributes of more than two entities")
    return found[0]


def count_pairs(scheme: RelationalScheme, network: Network) -> int:
    """Return how many pairs of a network can have an edge."""
    return pair_attribute(scheme).type.count(network.sizes)


def pair_classes(scheme: RelationalScheme, network: Network, classes: Classes) -> list[tuple[int, ...]]:
    """Return for each edge the classes of its ends, the lower one first where pairs are unordered."""
    attribute = pair_attribute(scheme)
    own, codes, _ = classes.of(attribute.type.parts[0])
    number = {code: i for i, code in enumerate(codes)}
    values = np.stack([network.values[name] for name in own], 1).tolist()
    place = np.array([number[tuple(row)] for row in values])
    rows = place[network.pairs[attribute.name]]
    return [tuple(row) for row in (np.sort(rows, axis=1) if attribute.type.unordered else rows).tolist()]


def check_network(scheme: RelationalScheme, network: Network) -> None:
    """Raise an `InputError` unless a network is one of the scheme, with at least one pair to learn from."""
    if not isinstance(network, Network):
        raise InputError(f"expected a Network, got {type(network).__name__}; see network_from_edges")
    attribute, sizes = pair_attribute(scheme), scheme.check_sizes(network.sizes)
    if attribute.type.count(sizes) == 0:
        raise InputError("a network of one vertex has no pairs to learn from; give at least two vertices")
    if attribute.name not in network.pairs:
        raise InputError(f"the network has no pairs of {attribute.name!r}; it has {', '.join(network.pairs)}")
    size = sizes[attribute.type.parts[0]]
    for rows in (network.pairs[attribute.name], network.unknown.get(attribute.name)):
        if rows is None or not len(rows):
            continue
        if rows.min() < 0 or rows.max() >= size:
            raise InputError(f"a pair names vertex {int(rows.max())}; there are {size:,}, numbered from 0")
        if attribute.type.unordered and bool((rows[:, 0] >= rows[:, 1]).any()):
            first, second = rows[rows[:, 0] >= rows[:, 1]][0].tolist()
            raise InputError(
                f"the network is directed (it has the pair {first}, {second}), and {attribute.name!r} is of unordered "
                "pairs: write each pair once, the lower number first, or declare ordered pairs"
            )


def check_undirected(scheme: RelationalScheme, task: str) -> None:
    """Raise an `InputError` unless the scheme has one type and one binary attribute, of unordered pairs."""
    attributes = list(scheme.attributes.values())
    fits = len(scheme.types) == len(attributes) == 1 and attributes[0].num_values == 2
    if not fits or not attributes[0].type.unordered or len(attributes[0].type.parts) != 2:
        raise InputError(
            f"{task} is for undirected networks: a scheme of one type with one binary attribute of unordered pairs, "
            f"got {scheme}; take the ground field with method 'exact' or 'gibbs' instead"
        )


def _rows(
    pairs: Sequence[tuple[Any, Any]], number: Mapping[Any, int], what: str, attribute: Attribute
) -> Array:
    rows = np.empty((len(pairs), 2), dtype=np.int64)
    seen: dict[tuple[int, int], int] = {}
    for place, pair in enumerate(pairs):
        for name in pair:
            if name not in number:
                raise InputError(
                    f"{what} {place} names the vertex {name!r}, which is not among the {len(number)} vertices"
                )
        first, second = number[pair[0]], number[pair[1]]
        if first == second:
            raise InputError(f"{what} {place} is a self-loop at {pair[0]!r}; remove it")
        key = (min(first, second), max(first, second)) if attribute.type.unordered else (first, second)
        if key in seen:
            raise InputError(
                f"{what} {place}, {pair[0]!r} - {pair[1]!r}, is there already as {what} {seen[key]}; remove one"
            )
        seen[key] = place
        rows[place] = key
    return rows


def _numbers(
    scheme: RelationalScheme,
    name: str,
    given: Mapping[Any, float],
    number: Mapping[Any, int],
    attribute: Attribute,
) -> Float[Array, ...]:
    """Return the numbers of all vertices or, for a term of pairs, a matrix of all pairs."""
    terms = [f.term for f in scheme.features.values() if f.term is not None and f.term.covariate == name]
    if not terms:
        raise InputError(f"no term of the scheme takes the covariate {name!r}")
    if terms[0].kind == "edgecov":
        matrix = np.zeros((len(number), len(number)))
        for pair, value in given.items():
            if not isinstance(pair, tuple) or len(pair) != 2 or any(end not in number for end in pair):
                raise InputError(f"the covariate {name!r} is of pairs of vertices, got {pair!r}")
            first, second = number[pair[0]], number[pair[1]]
            matrix[first, second] = value
            if attribute.type.unordered:
                matrix[second, first] = value
        numbers = matrix
    else:
        missing = [vertex for vertex in number if vertex not in given]
        if missing:
            raise InputError(
                f"the covariate {name!r} has no number for the vertex {missing[0]!r}; every one needs one"
            )
        numbers = np.array([float(given[vertex]) for vertex in number])
    if not np.isfinite(numbers).all():
        raise InputError(f"the covariate {name!r} must be finite numbers")
    return numbers


def covariate_of(network: Network, feature: Feature) -> Float[Array, "vertices vertices"]:
    """Return what each pair counts for a term of a covariate; a network that lacks the numbers is an error."""
    assert feature.term is not None
    name = feature.term.covariate
    if name not in network.covariates:
        raise InputError(
            f"the feature {feature.name!r} takes the covariate {name!r}, which the network does not have; give "
            "covariates={…} with a number for each vertex or pair, or a column of the table of vertices"
        )
    return feature.term.of_pairs(network.covariates[name])


def _check_disjoint(rows: Array, missing: Array, names: list[Any], attribute: Attribute) -> None:
    both = {tuple(row) for row in rows.tolist()} & {tuple(row) for row in missing.tolist()}
    if both:
        first, second = sorted(both)[0]
        raise InputError(
            f"{names[first]!r} - {names[second]!r} is both an edge and an unknown pair of {attribute.name!r}"
        )


def _codes(
    scheme: RelationalScheme, name: str, given: Mapping[Any, Any], number: Mapping[Any, int], size: int
) -> Array:
    if name not in scheme.attributes or len(scheme.attributes[name].type.parts) != 1:
        raise InputError(f"the scheme has no attribute {name!r} of single entities")
    attribute = scheme.attributes[name]
    codes = np.full(size, -1)
    for vertex, value in given.items():
        if vertex not in number:
            raise InputError(f"attribute {name!r} has a value for {vertex!r}, which is not a vertex")
        code = attribute.code(value) if isinstance(value, str) else int(value)
        if not 0 <= code < attribute.num_values:
            raise InputError(
                f"attribute {name!r} of {vertex!r} is {value!r}; it has {attribute.num_values} values"
            )
        codes[number[vertex]] = code
    return codes
