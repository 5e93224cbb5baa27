"""Templates given the attributes of single entities: entities with the same values are a class of their own.

Given who is in which class, the pairs between two classes are alike, so that a template has a variable for each
attribute of pairs and each pair of classes: its cost depends on the number of classes, not on that of entities.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational.scheme import Attribute, ComplexType, RelationalScheme
from hiddenfield.shapes import Array

if TYPE_CHECKING:
    from hiddenfield.fields.relational.instantiation import FactorKind

MOST_FACTORS = 200_000


@dataclass(frozen=True)
class Classes:
    """The entities of each basic type by the values of the attributes that features look at.

    Parameters
    ----------
    attributes
        For each type the names of its attributes.
    codes
        For each type the values of these attributes in each class.
    counts
        For each type the number of entities in each class.
    """

    attributes: tuple[tuple[str, tuple[str, ...]], ...]
    codes: tuple[tuple[tuple[int, ...], ...], ...]
    counts: tuple[tuple[int, ...], ...]

    def of(self, kind: str) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...], tuple[int, ...]]:
        """Return the attributes, codes and counts of a type."""
        place = [name for name, _ in self.attributes].index(kind)
        return self.attributes[place][1], self.codes[place], self.counts[place]


def given_attributes(scheme: RelationalScheme) -> list[Attribute]:
    """Return the attributes of single entities that features look at: those that a network can be conditioned on."""
    used = {atom.attribute.name for feature in scheme.features.values() for atom in feature.atoms}
    return [a for a in scheme.attributes.values() if len(a.type.parts) == 1 and a.name in used]


def entity_classes(
    scheme: RelationalScheme, sizes: Mapping[str, int], values: Mapping[str, Array]
) -> Classes:
    """Return the classes of entities with the same values; all values must be known."""
    for feature in scheme.features.values():
        if all(len(atom.attribute.type.parts) == 1 for atom in feature.atoms):
            raise InputError(
                f"feature {feature.name!r} looks at attributes of single entities only, and these are taken as given; "
                "drop it, or model them too with condition=False"
            )
    given, attributes, codes, counts = given_attributes(scheme), [], [], []
    for kind in scheme.types:
        own = [attribute.name for attribute in given if attribute.type.parts[0] == kind]
        rows = np.stack([values[name] for name in own], 1) if own else np.zeros((sizes[kind], 0), np.int64)
        found, many = np.unique(rows, axis=0, return_counts=True) if own else (rows[:1], [sizes[kind]])
        attributes.append((kind, tuple(own)))
        codes.append(tuple(map(tuple, np.asarray(found).tolist())))
        counts.append(tuple(map(int, many)))
    return Classes(tuple(attributes), tuple(codes), tuple(counts))


def conditioned_variables(
    scheme: RelationalScheme, classes: Classes
) -> Iterator[tuple[str, tuple[int, ...], str, int]]:
    """Yield (attribute, classes of its parts, label, number of entities) for each variable of the template."""
    for name, attribute in scheme.attributes.items():
        if len(attribute.type.parts) == 1:
            continue
        for places in _places(attribute.type, classes):
            if count := _count(attribute.type, places, classes):
                labels = [
                    _label(scheme, classes, kind, place)
                    for kind, place in zip(attribute.type.parts, places, strict=True)
                ]
                yield name, places, f"{name}[{', '.join(labels)}]" if any(labels) else name, count


def conditioned_factors(
    kind: FactorKind, classes: Classes
) -> Iterator[tuple[tuple[tuple[str, tuple[int, ...]], ...], tuple[tuple[str, Array], ...], int]]:
    """Yield (variables, values of each feature, count) for each combination of classes among a kind's entities."""
    types = kind.argument_types
    names = list(dict.fromkeys(types))
    several = [
        list(combinations_with_replacement(range(len(classes.of(name)[2])), types.count(name)))
        for name in names
    ]
    if math.prod(map(len, several)) * len(kind.orders) > MOST_FACTORS:
        many = " and ".join(str(len(classes.of(name)[2])) for name in names)
        raise InputError(
            f"the entities have {many} different combinations of attributes, too many for a template; drop an "
            "attribute, or use method='pseudo_likelihood'"
        )
    for chosen in product(*several):
        base = [0] * len(types)
        sets = 1
        for name, members in zip(names, chosen, strict=True):
            for place, member in zip([i for i, t in enumerate(types) if t == name], members, strict=True):
                base[place] = member
            sizes = classes.of(name)[2]
            sets *= math.prod(math.comb(sizes[c], m) for c, m in Counter(members).items())
        if not sets:
            continue
        for bound, orders in Counter(tuple(base[i] for i in order) for order in kind.orders).items():
            yield *_at(kind, classes, bound), sets * orders


def _at(
    kind: FactorKind, classes: Classes, bound: Sequence[int]
) -> tuple[tuple[tuple[str, tuple[int, ...]], ...], tuple[tuple[str, Array], ...]]:
    """Return the variables of a factor whose entities are of given classes, and its tables there."""
    index: list[Any] = []
    variables = []
    for attribute, places in kind.atoms:
        if len(places) == 1:
            own, codes, _ = classes.of(attribute.type.parts[0])
            index.append(codes[bound[places[0]]][own.index(attribute.name)])
        else:
            parts = tuple(bound[place] for place in places)
            variables.append((attribute.name, tuple(sorted(parts)) if attribute.type.unordered else parts))
            index.append(slice(None))
    return tuple(variables), tuple((name, values[tuple(index)]) for name, values in kind.features)


def _places(kind: ComplexType, classes: Classes) -> Iterator[tuple[int, ...]]:
    if kind.unordered:
        return combinations_with_replacement(range(len(classes.of(kind.parts[0])[2])), len(kind.parts))
    return product(*(range(len(classes.of(part)[2])) for part in kind.parts))


def _count(kind: ComplexType, places: tuple[int, ...], classes: Classes) -> int:
    ways = math.comb if kind.unordered else math.perm
    uses = Counter(zip(kind.parts, places, strict=True))
    return math.prod(ways(classes.of(part)[2][place], many) for (part, place), many in uses.items())


def _label(scheme: RelationalScheme, classes: Classes, kind: str, place: int) -> str:
    own, codes, _ = classes.of(kind)
    pairs = zip(own, codes[place], strict=True)
    return " & ".join(f"{name}={scheme.attributes[name].values[code]}" for name, code in pairs)
