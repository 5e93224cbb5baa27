r"""A scheme on a domain: as a ground field with all bindings, or as a template whose counts are in closed form.

Both are built from the same *factor kinds*. With :math:`N_f` factors of a kind and :math:`N_a` variables of an
attribute, each of the kind's ports touches a variable :math:`N_f / N_a` times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError, NoTemplateError, TooLargeError
from hiddenfield.fields.build import from_groups
from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.fields.relational.conditioning import Classes, conditioned_factors, conditioned_variables
from hiddenfield.fields.relational.scheme import (
    Attribute,
    Feature,
    RelationalScheme,
    permutations_within_types,
)
from hiddenfield.fields.relational.terms import ABLE
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Int, Tensor

BINDINGS = {name: name for name in ("auto", "merged", "ordered", "cluster")}
WEIGHTS = {name: name for name in ("ground", "binding")}

MOST_FACTORS = 50_000_000
MOST_STATES, USUAL_STATES = 1 << 20, 1 << 12
"""States of a cluster beyond which it is refused, and beyond which "auto" does without."""


@dataclass(frozen=True, eq=False)
class FactorKind:
    """Factors that look alike: one for each set of entities and each order of them.

    Parameters
    ----------
    argument_types
        The types of the entities that a factor is about.
    atoms
        (attribute, places of its parts among the entities) for each port.
    orders
        In how many and which orders each set of entities is taken: permutations of the places.
    features
        (name, values) of the features that it holds: the log table is the weighted sum of the values.
    """

    argument_types: tuple[str, ...]
    atoms: tuple[tuple[Attribute, tuple[int, ...]], ...]
    orders: tuple[tuple[int, ...], ...]
    features: tuple[tuple[str, Array], ...]

    def count(self, sizes: Mapping[str, int]) -> int:
        """Return the number of factors."""
        kinds = set(self.argument_types)
        return len(self.orders) * math.prod(math.comb(sizes[k], self.argument_types.count(k)) for k in kinds)

    def log_tables(self, names: Sequence[str], theta: Float[Tensor, "settings features"]) -> Tensor:
        """Return the log tables for each setting of the weights. Differentiable."""
        rows = [theta.new_tensor(values) for _, values in self.features]
        columns = [names.index(name) for name, _ in self.features]
        return torch.einsum("sf,f...->s...", theta[:, columns], torch.stack(rows))


def factor_kinds(
    scheme: RelationalScheme, bindings: str = "auto", weights: str = "ground"
) -> list[FactorKind]:
    r"""Return the kinds of factors that a scheme gives.

    Parameters
    ----------
    scheme
        The scheme.
    bindings
        "merged": one factor for each different ground feature. "ordered": one for each legal binding, the literal
        Definition 2.5. "cluster": one for each set of entities, with all features on such sets. All three are the same
        distribution; their Bethe approximations differ, and "cluster" is the most accurate. "auto": "cluster" where
        factors would otherwise share a set of entities, else "merged".
    weights
        "ground": a weight counts once for each different ground feature (as users of exponential random graph models
        mean it). "binding": once for each legal binding (as in the paper): larger by the feature's symmetries, 2 for an
        edge, 6 for a triangle.
    """
    _check_templates(scheme)
    bindings = choose_bindings(scheme, bindings)
    scales = dict(zip(scheme.features, weight_scale(scheme, weights).tolist(), strict=True))
    if bindings == "cluster":
        return [_cluster(types, members, scales) for types, members in _families(scheme).items()]
    kinds = []
    for feature in scheme.features.values():
        orders, scale = feature.representatives, scales[feature.name]
        if bindings == "ordered":
            orders, scale = feature.relabelings, scale / len(feature.symmetries)
        place = {name: i for i, name in enumerate(feature.arguments)}
        atoms = tuple(
            (atom.attribute, tuple(place[name] for name in atom.arguments)) for atom in feature.atoms
        )
        kinds.append(
            FactorKind(feature.argument_types, atoms, tuple(orders), ((feature.name, scale * feature.table),))
        )
    return kinds


def choose_bindings(scheme: RelationalScheme, bindings: str = "auto") -> str:
    """Return what "auto" stands for: "cluster" where several factors would be about one set of entities.

    A star of two edges and a triangle look at the same three pairs, and so do the three stars of three vertices: as
    factors of their own they are a short cycle, whose messages count evidence twice. A cluster holds them all, exactly.
    Features that look at one attribute make no cycle, and neither does one factor for a set: there both are the same.

    Examples
    --------
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> choose_bindings(graph_scheme("edge", "triangle")), choose_bindings(graph_scheme("star2", "triangle"))
    ('merged', 'cluster')
    """
    if choose("bindings", BINDINGS, bindings) != "auto":
        return bindings
    overlap = False
    for members in _families(scheme).values():
        wide = [feature for feature in members if len(feature.atoms) > 1]
        overlap |= sum(len(feature.representatives) for feature in wide) > 1
        if math.prod(attribute.num_values for attribute, _ in _ports(members)) > USUAL_STATES:
            return "merged"
    return "cluster" if overlap else "merged"


def _families(scheme: RelationalScheme) -> dict[tuple[str, ...], list[Feature]]:
    """Return the features by the types of their entities."""
    families: dict[tuple[str, ...], list[Feature]] = {}
    for feature in scheme.features.values():
        families.setdefault(tuple(sorted(feature.argument_types)), []).append(feature)
    return families


def _check_templates(scheme: RelationalScheme) -> None:
    """Raise an error where a feature is a term that has no template."""
    for feature in scheme.features.values():
        if feature.term is not None:
            raise NoTemplateError(
                f"the feature {feature.name!r} ({feature.term.kind}) has no template and no field, so that belief "
                f"propagation cannot take it; learn with method={ABLE.replace(', ', ' or ')}"
            )


def weight_scale(scheme: RelationalScheme, weights: str) -> Float[Array, " features"]:
    """Return what each weight is multiplied by, so that it counts once per different ground feature."""
    choose("weights", WEIGHTS, weights)
    symmetries = [float(len(feature.symmetries)) for feature in scheme.features.values()]
    return np.array(symmetries if weights == "binding" else [1.0] * len(symmetries))


def _uses(members: list[Feature]) -> Iterator[tuple[Feature, list[tuple[Attribute, tuple[int, ...]]]]]:
    """Yield each different ground feature on one set of entities: its attributes, and their places in the set."""
    for feature in members:
        # Sorting the arguments by type gives all members the same places.
        pairs = sorted(
            zip(feature.argument_types, range(len(feature.arguments)), feature.arguments, strict=True)
        )
        place = {name: i for i, (_, _, name) in enumerate(pairs)}
        for order in feature.representatives:
            atoms = []
            for atom in feature.atoms:
                parts = tuple(
                    place[feature.arguments[order[feature.arguments.index(name)]]] for name in atom.arguments
                )
                unordered = atom.attribute.type.unordered
                atoms.append((atom.attribute, tuple(sorted(parts)) if unordered else parts))
            yield feature, atoms


def _ports(members: list[Feature]) -> list[tuple[Attribute, tuple[int, ...]]]:
    """Return the different attributes that features look at on one set of entities."""
    return list({(a.name, parts): (a, parts) for _, atoms in _uses(members) for a, parts in atoms}.values())


def _cluster(types: tuple[str, ...], members: list[Feature], scales: Mapping[str, float]) -> FactorKind:
    """Join all features whose arguments have the same types into one factor for each set of entities."""
    ports = _ports(members)
    number = {(attribute.name, parts): i for i, (attribute, parts) in enumerate(ports)}
    shape = [attribute.num_values for attribute, _ in ports]
    if math.prod(shape) > MOST_STATES:
        raise InputError(
            f"a cluster of {len(shape)} attributes has {math.prod(shape):,} states; use bindings='merged'"
        )
    values = {feature.name: np.zeros(shape) for feature in members}
    for feature, atoms in _uses(members):
        axes = [number[attribute.name, parts] for attribute, parts in atoms]
        moved = np.transpose(feature.table, np.argsort(axes))
        index = tuple(slice(None) if axis in axes else None for axis in range(len(shape)))
        values[feature.name] += scales[feature.name] * moved[index]
    return FactorKind(types, tuple(ports), (tuple(range(len(types))),), tuple(values.items()))


def template(
    scheme: RelationalScheme,
    sizes: Any,
    theta: Any,
    *,
    bindings: str = "auto",
    weights: str = "ground",
    given: Classes | None = None,
    dtype: torch.dtype = torch.float64,
) -> FactorGraph:
    """Return the template-level field: a variable for each attribute, a factor for each kind, with counts.

    Cost: independent of the sizes. Several settings of the weights give a batch, one graph each. See `factor_kinds` for
    `bindings` and `weights`, and `RelationalScheme.template` for an example. With `given` the attributes of single
    entities are known: see `hiddenfield.fields.relational.entity_classes`.
    """
    size = scheme.check_sizes(sizes)
    names = list(scheme.features)
    settings = weight_matrix(scheme.features, theta, dtype)
    count = settings.shape[0]
    attributes = scheme.attributes
    keys: list[tuple[Any, str, int]] = [(name, name, a.type.count(size)) for name, a in attributes.items()]
    if given is not None:
        keys = [((name, parts), text, n) for name, parts, text, n in conditioned_variables(scheme, given)]
    keys += [
        (f"{name}[self]", f"{name}[self]", a.type.self_count(size))
        for name, a in attributes.items()
        if given is None or len(a.type.parts) > 1
    ]
    keys = [entry for entry in keys if entry[2]]
    number = {key: i for i, (key, _, _) in enumerate(keys)}
    values = torch.tensor(
        [attributes[text.split("[")[0]].num_values for _, text, _ in keys], dtype=torch.int64
    )
    counts = torch.tensor([float(entry[2]) for entry in keys], dtype=dtype)
    offset = torch.arange(count)[:, None, None] * len(keys)
    groups = []
    for kind in factor_kinds(scheme, bindings, weights):
        for scopes, tables, each in _template_factors(kind, size, given, number):
            rows = (torch.tensor(scopes) + offset).reshape(-1, len(scopes[0]))
            columns = [names.index(name) for name, _ in kind.features]
            log_tables = torch.einsum("sf,kf...->sk...", settings[:, columns], settings.new_tensor(tables))
            many = torch.tensor(each, dtype=dtype).repeat(count)
            groups.append(FactorGroup(rows, log_tables.reshape(-1, *log_tables.shape[2:]), None, many))
    bounds, labels = torch.arange(count + 1) * len(keys), tuple(entry[1] for entry in keys) * count
    constant = settings.new_zeros(count)
    return from_groups(values.repeat(count), groups, bounds, counts.repeat(count), constant, labels)


def _template_factors(
    kind: FactorKind, size: Mapping[str, int], given: Classes | None, number: Mapping[Any, int]
) -> list[tuple[list[list[int]], Array, list[float]]]:
    """Return (scopes, values of each feature, counts) of a kind's factors in the template, shape by shape."""
    if given is None:
        total = float(kind.count(size))
        scope = [number[attribute.name] for attribute, _ in kind.atoms] if total else []
        tables = np.stack([values for _, values in kind.features])[None]
        return [([scope], tables, [total])] if total else []
    found: dict[tuple[int, ...], list[tuple[list[int], Array, float]]] = {}
    for variables, features, total in conditioned_factors(kind, given):
        tables = np.stack([values for _, values in features])
        scope = [number[variable] for variable in variables]
        found.setdefault(tables.shape, []).append((scope, tables, float(total)))
    return [
        ([row[0] for row in rows], np.stack([row[1] for row in rows]), [row[2] for row in rows])
        for rows in found.values()
    ]


def ground(
    scheme: RelationalScheme,
    sizes: Any,
    theta: Any,
    *,
    bindings: str = "auto",
    weights: str = "ground",
    dtype: torch.dtype = torch.float64,
) -> FactorGraph:
    """Return the ground field with a variable for every entity's attribute and a factor for every binding.

    Bindings are enumerated in vectorised form; all factors of a kind share one table. `ground_variables` says which
    variable belongs to which entity. More than fifty million factors are refused: use `template`.
    """
    size = scheme.check_sizes(sizes)
    names = list(scheme.features)
    settings = weight_matrix(scheme.features, theta, dtype)
    if settings.shape[0] != 1:
        raise InputError("a ground field takes one setting of the weights; several make a batch of templates")
    kinds = factor_kinds(scheme, bindings, weights)
    total = sum(kind.count(size) for kind in kinds)
    if total > MOST_FACTORS:
        raise InputError(
            f"the ground field would have {total:,} factors; use the template, or compress by evidence"
        )
    values: list[int] = []
    labels: list[str] = []
    for name, entities in ground_variables(scheme, size).items():
        attribute = scheme.attributes[name]
        extra = attribute.type.self_count(size)
        labels += [f"{name}[{', '.join(map(str, row))}]" for row in entities.tolist()]
        labels += [f"{name}[self {i}]" for i in range(extra)]
        values += [attribute.num_values] * (len(entities) + extra)
    groups = []
    for kind in kinds:
        scopes = torch.from_numpy(_scopes(scheme, size, kind))
        if len(scopes):
            shared, ones = torch.zeros(len(scopes), dtype=torch.int64), torch.ones(len(scopes), dtype=dtype)
            groups.append(FactorGroup(scopes, kind.log_tables(names, settings), shared, ones))
    cards, bounds = torch.tensor(values, dtype=torch.int64), torch.tensor([0, len(values)])
    ones, constant = torch.ones(len(values), dtype=dtype), settings.new_zeros(1)
    return from_groups(cards, groups, bounds, ones, constant, tuple(labels))


def ground_variables(scheme: RelationalScheme, sizes: Mapping[str, int] | int) -> dict[str, Array]:
    """Return for each attribute its entities, one row of basic entities each, in the order of the ground variables.

    The variables of an attribute follow each other, attribute by attribute in the order of the scheme; tuples that
    repeat an entity, where they exist, come after an attribute's others.
    """
    size = scheme.check_sizes(sizes)
    total = sum(attribute.type.count(size) for attribute in scheme.attributes.values())
    if total > MOST_FACTORS:
        raise TooLargeError(
            f"there would be {total:,} ground variables, at most {MOST_FACTORS:,}; use the template"
        )
    result = {}
    for name, attribute in scheme.attributes.items():
        parts, unordered = attribute.type.parts, attribute.type.unordered
        orders = [tuple(range(len(parts)))] if unordered else permutations_within_types(parts)
        rows = _bindings(FactorKind(parts, (), tuple(orders), ()), size)
        result[name] = rows[np.argsort(_keys(attribute, rows, size), kind="stable")]
    return result


def ground_index(
    scheme: RelationalScheme, sizes: Mapping[str, int] | int, name: str, rows: Int[Array, "entities parts"]
) -> Int[Array, " entities"]:
    """Return the numbers of the ground variables that hold an attribute of the given entities."""
    size = scheme.check_sizes(sizes)
    kinds = {other: attribute.type for other, attribute in scheme.attributes.items()}
    earlier = list(kinds)[: list(kinds).index(name)]
    first = sum(kinds[other].count(size) + kinds[other].self_count(size) for other in earlier)
    attribute = scheme.attributes[name]
    known = _keys(attribute, ground_variables(scheme, size)[name], size)
    return first + np.searchsorted(known, _keys(attribute, rows, size))


def ground_features(
    scheme: RelationalScheme, sizes: Mapping[str, int] | int, features: Iterable[str] | None = None
) -> list[tuple[Int[Array, "ground_features arity"], Array]]:
    """Return for each feature the ground variables of each of its different ground features, and its table.

    All features by default; `features` names those that are wanted, in the order of the scheme.
    """
    size, part = scheme.check_sizes(sizes), RelationalScheme()
    part.types, part.attributes = scheme.types, scheme.attributes
    wanted = set(scheme.features if features is None else features)
    part.features = {name: feature for name, feature in scheme.features.items() if name in wanted}
    return [(_scopes(scheme, size, kind), kind.features[0][1]) for kind in factor_kinds(part, "merged")]


def _scopes(scheme: RelationalScheme, size: Mapping[str, int], kind: FactorKind) -> Array:
    """Return the ground variables of each factor of a kind, one row per factor and one column per port."""
    bound = _bindings(kind, size)
    return np.stack(
        [ground_index(scheme, size, a.name, bound[:, list(places)]) for a, places in kind.atoms], 1
    )


def _bindings(kind: FactorKind, sizes: Mapping[str, int]) -> Array:
    """Return the entities of each factor, one column per place."""
    types = kind.argument_types
    sets = np.zeros((1, len(types)), dtype=np.int64)
    for name in dict.fromkeys(types):
        chosen = _combinations(sizes[name], types.count(name))
        rows = len(sets)
        sets = np.repeat(sets, len(chosen), axis=0)
        sets[:, [i for i, t in enumerate(types) if t == name]] = np.tile(chosen, (rows, 1))
    return np.concatenate([sets[:, list(order)] for order in kind.orders]) if len(sets) else sets


def _combinations(size: int, width: int) -> Array:
    """Return all rising choices of `width` of `size` numbers, in lexicographic order."""
    if width == 1:
        return np.arange(size, dtype=np.int64)[:, None]
    if width == 2:
        return np.stack(np.triu_indices(size, 1), 1).astype(np.int64)
    count = math.comb(size, width)
    flat = np.fromiter((i for row in combinations(range(size), width) for i in row), np.int64, count * width)
    return flat.reshape(count, width)


def _keys(attribute: Attribute, rows: Array, sizes: Mapping[str, int]) -> Array:
    """Return a number for each entity, the same for all names of it."""
    parts = attribute.type.parts
    ordered = np.sort(rows, axis=1) if attribute.type.unordered else rows
    key = np.zeros(len(rows), dtype=np.int64)
    for column, part in enumerate(parts):
        key = key * sizes[part] + ordered[:, column]
    return key


def weight_matrix(
    features: Iterable[str], theta: Any, dtype: torch.dtype = torch.float64
) -> Float[Tensor, "settings features"]:
    """Return weights given by name, as a vector or as a matrix with one row per setting, as a matrix."""
    names = list(features)
    if isinstance(theta, Mapping):
        for name in theta:
            choose("feature", dict.fromkeys(names), name)
        for name in names:
            if name not in theta:
                raise InputError(f"no weight for the feature {name!r}")
        theta = [theta[name] for name in names]
    try:
        values = theta.to(dtype) if isinstance(theta, Tensor) else torch.as_tensor(theta, dtype=dtype)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"weights must be finite numbers, got {theta!r}") from None
    if values.ndim == 0 or values.shape[-1] != len(names):
        raise InputError(
            f"one weight for each of the features {', '.join(names)}, got shape {tuple(values.shape)}"
        )
    if not bool(values.detach().isfinite().all()):
        raise InputError("weights must be finite numbers")
    return values.reshape(-1, len(names))
