"""Random relational schemes: any functions of a few atoms, on pairs ordered or not, with or without colours."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import numpy as np
from hypothesis import strategies as st

from hiddenfield.fields.relational import Argument, Expression, RelationalScheme
from tests.data.strategies import built

__all__ = ["networks", "schemes"]


@st.composite
def schemes(draw: Any, *, most_features: int = 3, ordered: bool | None = None) -> RelationalScheme:
    """Draw a scheme with a binary attribute of pairs, perhaps one of vertices, and features with random tables."""
    one_way = draw(st.booleans()) if ordered is None else ordered
    colors = draw(st.sampled_from([0, 2, 3]))
    arguments = draw(st.lists(st.integers(2, 3), min_size=1, max_size=most_features))
    return built(make_scheme, one_way, colors, arguments, draw(st.integers(0, 2**32 - 1)))


def make_scheme(one_way: bool, colors: int, arguments: list[int], seed: int) -> RelationalScheme:
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    exist = scheme.attribute("exist", scheme.ordered(vertex, vertex) if one_way else scheme.pair(vertex))
    color = scheme.attribute("color", vertex, colors) if colors else None
    generator = np.random.default_rng(seed)
    for number, count in enumerate(arguments):
        names = [Argument(name) for name in "abc"[:count]]
        able: list[Any] = [exist[x, y] for x, y in (permutations if one_way else combinations)(names, 2)]
        able += [] if color is None else [color[x] for x in names]
        atoms: list[Any] = []
        while {name for atom in atoms for name in atom.arguments} != {x.name for x in names}:
            chosen = generator.permutation(len(able))[: generator.integers(1, min(len(able), 4) + 1)]
            atoms = [able[i] for i in sorted(chosen)]
        # Few different values, so that functions often have symmetries.
        table = generator.integers(-1, 2, [atom.attribute.num_values for atom in atoms]).astype(float)
        expression = Expression(tuple(atoms), lookup(table, [atom.key for atom in atoms]), "random")
        scheme.add_feature(f"f{number}", [x.name for x in names], expression)
    return scheme


def lookup(table: np.ndarray, keys: list[Any]) -> Any:
    return lambda values: table[tuple(np.asarray(values[key]).astype(int) for key in keys)]


def networks(scheme: RelationalScheme, size: int, generator: np.random.Generator, share: float = 0.4) -> Any:
    """Return a random network of a scheme, everything known."""
    from hiddenfield.fields.relational import ground_variables
    from hiddenfield.models.relational import Network

    rows = ground_variables(scheme, size)["exist"]
    values = {
        name: generator.integers(0, attribute.num_values, size)
        for name, attribute in scheme.attributes.items()
        if len(attribute.type.parts) == 1
    }
    return Network({"vertex": size}, {"exist": rows[generator.random(len(rows)) < share]}, values)
