"""Observed networks for relational models: which entities have which values, and which are unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.relational import (
    Attribute,
    Classes,
    Feature,
    RelationalScheme,
    entity_classes,
    given_attributes,
    ground_index,
    ground_variables,
)
from hiddenfield.machine import available_memory
from hiddenfield.registry import choose
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
        Number of entities of each basic type; of a two-mode network, the first type of its pairs comes first.
    pairs
        For each binary attribute of pairs the entities that have the value 1, one row each; all others have 0.
    values
        For each attribute of a basic type the value of every entity, -1 where it is not known.
    unknown
        For each attribute of pairs the entities whose value is not known, one row each.
    names
        Names of the entities, by type, where there are some.
    covariates
        Numbers of all vertices (one type after the other), or of all pairs (a matrix), that terms take by name.
    ordered
        Whether pairs are ordered: a directed network.

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
    ordered: bool = False

    def __post_init__(self) -> None:
        """Refuse at once what no computer holds."""
        for size in self.sizes.values():
            if isinstance(size, (int, np.integer)) and size > MOST_VERTICES:
                raise TooLargeError(TOO_LARGE.format(size=int(size)))

    def __repr__(self) -> str:
        """Say how large it is."""
        sizes = ", ".join(f"{size:,} {name}" for name, size in self.sizes.items())
        parts = []
        first, second = self.shape
        total = first * second if self.two_mode else first * (first - 1) // (1 if self.ordered else 2)
        for name, rows in self.pairs.items():
            missing = len(self.unknown.get(name, ()))
            parts.append(f"{name}: {len(rows):,} of {total:,}" + f", {missing:,} unknown" * (missing > 0))
        return f"Network({sizes}; {'; '.join(parts)})"

    @property
    def complete(self) -> bool:
        """Whether everything is known."""
        return not any(len(rows) for rows in self.unknown.values()) and all(
            (v >= 0).all() for v in self.values.values()
        )

    @property
    def two_mode(self) -> bool:
        """Whether pairs are between two types of entities."""
        return len(self.sizes) == 2

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the adjacency matrix: entities of the first and of the second part of a pair."""
        sizes = tuple(self.sizes.values())
        return sizes[0], sizes[-1]

    @property
    def split(self) -> int:
        """How many entities come before those of the second type, where all are numbered one type after the other."""
        return self.shape[0] if self.two_mode else 0

    @property
    def offsets(self) -> dict[str, int]:
        """The number of the first vertex of each type, where all are numbered one type after the other."""
        return dict(zip(self.sizes, (0, self.split), strict=False))

    def adjacency(self) -> Bool[Array, "tails heads"]:
        """Return adjacency: symmetric unless pairs are ordered; of a two-mode network, first by second type."""
        rows, need = next(iter(self.pairs.values())), math.prod(self.shape)
        if need > available_memory() / 2:
            raise TooLargeError(
                f"the adjacency matrix of {' x '.join(f'{size:,}' for size in self.shape)} vertices would take "
                f"{need / 2**30:,.3g} GiB, more than half of what is available; take a smaller network, or what does "
                "without, such as method='bethe'"
            )
        matrix = np.zeros(self.shape, dtype=bool)
        matrix[rows[:, 0], rows[:, 1]] = True
        return matrix if self.two_mode or self.ordered else matrix | matrix.T


def network_from_edges(
    scheme: RelationalScheme,
    edges: Sequence[tuple[Any, Any]],
    *,
    vertices: Sequence[Any] | Mapping[str, Sequence[Any]] | None = None,
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
        Pairs that have the value 1. A self-loop, or a pair that comes twice, is an error. Of a two-mode network, the
        entity of the first type comes first.
    vertices
        All vertices, those without edges too; by default those that the pairs name, in order of appearance. Of a
        two-mode network, a mapping from type to names.
    values
        For each attribute of vertices the value (a name or a number) of each; a vertex that is left out is unknown.
    unknown
        Pairs whose value is not known.
    covariates
        Numbers that terms of the scheme take, by the name of the covariate: of every vertex, or of pairs (0 where a
        pair is left out). Of a two-mode network, those of one type may be left out, and count 0.

    Examples
    --------
    >>> from hiddenfield.fields.relational import two_mode_scheme
    >>> scheme = two_mode_scheme("edge", "b2star2", first="person", second="event")
    >>> network_from_edges(scheme, [("Laura", "ball"), ("Ruth", "ball")], vertices={"event": ["ball", "tea"]})
    Network(2 person, 2 event; exist: 2 of 4)
    """
    attribute = pair_attribute(scheme)
    names = entity_names(attribute, [*edges, *unknown], vertices)
    number = {kind: {name: i for i, name in enumerate(found)} for kind, found in names.items()}
    for kind, found in names.items():
        if len(number[kind]) < len(found):
            twice = next(name for i, name in enumerate(found) if number[kind][name] != i)
            raise InputError(f"the {_called(attribute, kind)} {twice!r} is listed twice")
    every = _rows([*edges, *unknown], len(edges), number, attribute)
    rows, missing = every[: len(edges)], every[len(edges) :]
    coded = {name: _codes(scheme, name, given, number) for name, given in (values or {}).items()}
    for name, other in scheme.attributes.items():
        if len(other.type.parts) == 1 and name not in coded:
            coded[name] = np.full(len(names[other.type.parts[0]]), -1)
    return Network(
        {kind: len(found) for kind, found in names.items()},
        {attribute.name: rows},
        coded,
        {attribute.name: missing} if len(missing) else {},
        {kind: tuple(str(name) for name in found) for kind, found in names.items()},
        {
            name: _numbers(scheme, name, given, number, attribute)
            for name, given in (covariates or {}).items()
        },
        ordered=attribute.type.directed,
    )


def entity_names(
    attribute: Attribute, pairs: Sequence[tuple[Any, Any]], vertices: Any = None
) -> dict[str, list[Any]]:
    """Return the names of all entities of each type, in the order of the parts of a pair."""
    kinds = dict.fromkeys(attribute.type.parts)
    if attribute.type.two_mode:
        if vertices is not None and not isinstance(vertices, Mapping):
            wanted = ", ".join(f"{kind!r}: […]" for kind in kinds)
            raise InputError(f"the entities of a two-mode network are given by type: vertices={{{wanted}}}")
        given = dict(vertices or {})
        for kind in given:
            choose("type", dict.fromkeys(kinds, 0), kind)
    else:
        given = {} if vertices is None else {next(iter(kinds)): vertices}
    found: dict[str, list[Any]] = {}
    for place, kind in enumerate(kinds):
        listed = given.get(kind)
        if isinstance(listed, Sized) and len(listed) > MOST_VERTICES:
            raise TooLargeError(TOO_LARGE.format(size=len(listed)))
        if listed is None:
            ends = (v for pair in pairs for v in ([pair[place]] if attribute.type.two_mode else pair))
            found[kind] = list(dict.fromkeys(ends))
        else:
            found[kind] = list(listed)
    return found


def _called(attribute: Attribute, kind: str) -> str:
    """Return what an entity is called in messages: a vertex, or by the name of its type in a two-mode network."""
    return kind if attribute.type.two_mode else "vertex"


def networks_from_structures(scheme: RelationalScheme, structures: Structures) -> list[Network]:
    """Make a network of each structure of a pack: an edge is a pair of value 1, node labels are attributes by name.

    For a scheme with one binary attribute of pairs. A self-loop, a repeated edge, or a one-way arc where pairs are
    unordered is an error that names it.
    """
    attribute = pair_attribute(scheme)
    if attribute.type.two_mode:
        raise InputError(
            f"a structure does not say which nodes are {' and which are '.join(attribute.type.parts)}; make two-mode "
            "networks with network_from_edges, or of networkx graphs whose nodes have the attribute 'bipartite'"
        )
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
    every = ground_variables(scheme, network.sizes)
    kinds = [attribute.type for attribute in scheme.attributes.values()]
    counts = [kind.count(network.sizes) + kind.self_count(network.sizes) for kind in kinds]
    states = np.repeat([attribute.num_values for attribute in scheme.attributes.values()], counts)
    codes = np.full(len(states), -1)
    for name, entities in every.items():
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
    """Return the scheme's only attribute of pairs, which must be binary; there are no types but those of its parts."""
    found = [a for a in scheme.attributes.values() if len(a.type.parts) == 2]
    if len(found) != 1 or found[0].num_values != 2:
        raise InputError(
            "networks are of schemes with one binary attribute of pairs; "
            f"this one has {', '.join(f'{a.name}({a.type})' for a in scheme.attributes.values())}"
        )
    if any(len(a.type.parts) > 2 for a in scheme.attributes.values()):
        raise InputError("networks cannot be read for schemes with attributes of more than two entities")
    further = set(scheme.types) - set(found[0].type.parts)
    if further:
        raise InputError(
            f"networks are of schemes whose types are those of the pairs {found[0].name}({found[0].type}); drop "
            f"{', '.join(sorted(further))}"
        )
    return found[0]


def count_pairs(scheme: RelationalScheme, network: Network) -> int:
    """Return how many pairs of a network can have an edge."""
    return pair_attribute(scheme).type.count(network.sizes)


def classes_of(scheme: RelationalScheme, network: Network) -> Classes | None:
    """Return the classes of vertices that features tell apart, None where attributes cannot be taken as given.

    They cannot where none is used, not all are known, or a feature is about nothing else.
    """
    alone = any(
        all(len(atom.arguments) == 1 for atom in feature.atoms)
        for feature in scheme.features.values()
        if feature.term is None
    )
    known = all((codes >= 0).all() for codes in network.values.values())
    if alone or not known or not given_attributes(scheme):
        return None
    return entity_classes(scheme, network.sizes, network.values)


def pair_classes(scheme: RelationalScheme, network: Network, classes: Classes) -> list[tuple[int, ...]]:
    """Return for each edge the classes of its ends, the lower one first where pairs are unordered."""
    attribute = pair_attribute(scheme)
    ends = []
    for column, kind in enumerate(attribute.type.parts):
        own, codes, _ = classes.of(kind)
        number = {code: i for i, code in enumerate(codes)}
        values = [network.values[name] for name in own]
        place = np.array([number[tuple(int(v[i]) for v in values)] for i in range(network.sizes[kind])])
        ends.append(place[network.pairs[attribute.name][:, column]])
    rows = np.stack(ends, 1)
    return [tuple(row) for row in (np.sort(rows, axis=1) if attribute.type.unordered else rows).tolist()]


def check_network(scheme: RelationalScheme, network: Network) -> None:
    """Raise an `InputError` unless a network is one of the scheme, with at least one pair to learn from."""
    if not isinstance(network, Network):
        raise InputError(f"expected a Network, got {type(network).__name__}; see network_from_edges")
    attribute, sizes = pair_attribute(scheme), scheme.check_sizes(network.sizes)
    if attribute.type.count(sizes) == 0:
        raise InputError("a network of one vertex has no pairs to learn from; give at least two vertices")
    if tuple(network.sizes) != tuple(dict.fromkeys(attribute.type.parts)):
        raise InputError(
            f"the sizes of a network are in the order of its pairs, {' and '.join(attribute.type.parts)}, got "
            f"{', '.join(network.sizes)}"
        )
    if attribute.name not in network.pairs:
        raise InputError(f"the network has no pairs of {attribute.name!r}; it has {', '.join(network.pairs)}")
    shape = network.shape
    for rows in (network.pairs[attribute.name], network.unknown.get(attribute.name)):
        if rows is None or not len(rows):
            continue
        outside = np.argwhere((rows < 0) | (rows >= np.array(shape)))
        if len(outside):
            row, column = outside[0]
            kind = _called(attribute, attribute.type.parts[column])
            raise InputError(
                f"a pair names {kind} {rows[row, column]}; there are {shape[column]:,}, numbered from 0"
            )
        if attribute.type.unordered and bool((rows[:, 0] >= rows[:, 1]).any()):
            first, second = rows[rows[:, 0] >= rows[:, 1]][0].tolist()
            raise InputError(
                f"the network is directed (it has the pair {first}, {second}), and {attribute.name!r} is of unordered "
                "pairs: write each pair once, the lower number first, or declare ordered pairs"
            )


def _rows(
    pairs: Sequence[tuple[Any, Any]],
    edges: int,
    number: Mapping[str, Mapping[Any, int]],
    attribute: Attribute,
) -> Array:
    """Return the numbers of the entities of all pairs, of which the first are edges and the others unknown."""
    rows = np.empty((len(pairs), 2), dtype=np.int64)
    seen: dict[tuple[int, int], str] = {}
    kinds = attribute.type.parts
    for place, pair in enumerate(pairs):
        what = f"edge {place}" if place < edges else f"unknown pair {place - edges}"
        for name, kind in zip(pair, kinds, strict=True):
            if name not in number[kind]:
                raise InputError(
                    f"{what} names the {_called(attribute, kind)} {name!r}, which is not among the "
                    + (
                        f"{len(number[kind])} of type {kind}; the {kinds[0]} comes first"
                        if attribute.type.two_mode
                        else f"{len(number[kind])} vertices"
                    )
                )
        first, second = (number[kind][name] for kind, name in zip(kinds, pair, strict=True))
        if first == second and not attribute.type.two_mode:
            raise InputError(f"{what} is a self-loop at {pair[0]!r}; remove it")
        key = (min(first, second), max(first, second)) if attribute.type.unordered else (first, second)
        if key in seen:
            raise InputError(
                f"{what}, {pair[0]!r} - {pair[1]!r}, is there already as {seen[key]}; remove one"
            )
        seen[key] = what
        rows[place] = key
    return rows


def _numbers(
    scheme: RelationalScheme,
    name: str,
    given: Mapping[Any, float],
    number: Mapping[str, Mapping[Any, int]],
    attribute: Attribute,
) -> Float[Array, ...]:
    """Return the numbers of all vertices or, for a term of pairs, a matrix of all pairs."""
    terms = [f.term for f in scheme.features.values() if f.term is not None and f.term.covariate == name]
    if not terms:
        raise InputError(f"no term of the scheme takes the covariate {name!r}")
    first, second = (number[kind] for kind in attribute.type.parts)
    if terms[0].kind == "edgecov":
        numbers = np.zeros((len(first), len(second)))
        for pair, value in given.items():
            if not isinstance(pair, tuple) or len(pair) != 2 or pair[0] not in first or pair[1] not in second:
                raise InputError(f"the covariate {name!r} is of pairs of vertices, got {pair!r}")
            numbers[first[pair[0]], second[pair[1]]] = _finite(name, pair, value)
            if attribute.type.unordered:
                numbers[first[pair[1]], first[pair[0]]] = value
    else:
        parts = []
        for kind, own in number.items():
            missing = [vertex for vertex in own if vertex not in given]
            spare = terms[0].kind == "nodecov" and attribute.type.two_mode and len(missing) == len(own)
            if missing and not (spare and len(given)):
                raise InputError(
                    f"the covariate {name!r} has no number for the {_called(attribute, kind)} {missing[0]!r}; every "
                    "one needs one"
                )
            parts.append([0.0 if spare else _finite(name, vertex, given[vertex]) for vertex in own])
        numbers = np.concatenate(parts)
    return numbers


def _finite(covariate: str, entity: Any, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"the covariate {covariate!r} of {entity!r} must be a finite number, got {value!r}")
    return number


def covariate_of(network: Network, feature: Feature) -> Float[Array, "tails heads"]:
    """Return what each pair counts for a term of a covariate; a network that lacks the numbers is an error."""
    assert feature.term is not None
    name = feature.term.covariate
    if name not in network.covariates:
        raise InputError(
            f"the feature {feature.name!r} takes the covariate {name!r}, which the network does not have; give "
            "covariates={…} with a number for each vertex or pair, or a column of the table of vertices"
        )
    numbers, split = np.asarray(network.covariates[name]), network.shape[0]
    of_pairs = feature.term.kind == "edgecov"
    shape = network.shape if of_pairs else (sum(network.sizes.values()),)
    if numbers.shape != shape or not np.isfinite(numbers).all():
        raise InputError(
            f"the covariate {name!r} must be finite numbers of all {'pairs' if of_pairs else 'vertices'}, in the shape "
            f"{shape}; got shape {numbers.shape}" + ", with NaN or infinity" * (numbers.shape == shape)
        )
    pairs = feature.term.of_pairs(numbers)
    return pairs[:split, split:] if network.two_mode and not of_pairs else pairs


def _codes(
    scheme: RelationalScheme, name: str, given: Mapping[Any, Any], number: Mapping[str, Mapping[Any, int]]
) -> Array:
    if name not in scheme.attributes or len(scheme.attributes[name].type.parts) != 1:
        raise InputError(f"the scheme has no attribute {name!r} of single entities")
    attribute = scheme.attributes[name]
    kind = attribute.type.parts[0]
    codes = np.full(len(number[kind]), -1)
    for vertex, value in given.items():
        if vertex not in number[kind]:
            raise InputError(f"attribute {name!r} has a value for {vertex!r}, which is not a {kind}")
        code = attribute.code(value) if isinstance(value, str) else value
        if code not in range(attribute.num_values):
            raise InputError(
                f"attribute {name!r} of {vertex!r} is {value!r}; it has {attribute.num_values} values"
            )
        codes[number[kind][vertex]] = code
    return codes
