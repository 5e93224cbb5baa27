"""Ready features of networks, and schemes made of them."""

from __future__ import annotations

from collections.abc import Callable

from hiddenfield.errors import InputError
from hiddenfield.fields.relational.expressions import Expression
from hiddenfield.fields.relational.scheme import Attribute, Feature, RelationalScheme
from hiddenfield.registry import choose

FEATURES: dict[str, Callable[[Attribute], Callable[..., Expression]]] = {
    "edge": lambda e: lambda a, b: e[a, b],
    "open_chain": lambda e: lambda a, b, c: e[a, b] & e[a, c] & ~e[b, c],
    "triangle": lambda e: lambda a, b, c: e[a, b] & e[a, c] & e[b, c],
    "star2": lambda e: lambda a, b, c: e[a, b] & e[a, c],
    "star3": lambda e: lambda a, b, c, d: e[a, b] & e[a, c] & e[a, d],
    "quadruplet": lambda e: lambda a, b, c, d: e[a, b] & e[b, c] & e[c, d] & e[d, a],
}
"""Features of an undirected network by name, as functions of the attribute that says where its edges are.

edge; open chain (two edges that meet, and no third that closes them); triangle; star2 and star3 (two or three edges
that meet, whatever else); quadruplet (a cycle of four). A vertex without edges is no feature: it would look at all
n - 1 edges of the vertex at once, so that its function would depend on the size of the domain.
"""


TWO_MODE: dict[str, Callable[[Attribute], Callable[..., Expression]]] = {
    "edge": lambda e: lambda a, b: e[a, b],
    "b1star2": lambda e: lambda a, b, c: e[a, b] & e[a, c],
    "b2star2": lambda e: lambda a, b, c: e[a, c] & e[b, c],
    "b1star3": lambda e: lambda a, b, c, d: e[a, b] & e[a, c] & e[a, d],
    "b2star3": lambda e: lambda a, b, c, d: e[a, d] & e[b, d] & e[c, d],
    "quadruplet": lambda e: lambda a, b, c, d: e[a, c] & e[a, d] & e[b, c] & e[b, d],
}
"""Features of a two-mode network by name: of an attribute of pairs between two types.

b1star2 and b1star3: two or three edges that meet in an entity of the first type; b2star2 and b2star3: of the second.
A quadruplet, the shortest cycle, is two entities of the first type that share two of the second.
"""


def add_library_feature(scheme: RelationalScheme, name: str, attribute: Attribute | None = None) -> Feature:
    """Add a ready feature on a binary attribute of unordered pairs or of two types; by default the only such one."""
    if attribute is None:
        able = [
            a
            for a in scheme.attributes.values()
            if (a.type.unordered or a.type.two_mode) and len(a.type.parts) == 2
        ]
        if len(able) != 1:
            raise InputError(
                f"feature {name!r}: say which attribute of pairs it is about; there are {len(able)}"
            )
        attribute = able[0]
    build = choose("feature", TWO_MODE if attribute.type.two_mode else FEATURES, name)
    return scheme.feature(name, build(attribute))


def graph_scheme(*features: str, colors: int = 0) -> RelationalScheme:
    """Return the scheme of an undirected network with ready features.

    With `colors` each vertex has an attribute ``color`` of as many values, and there is the feature ``co_color``: an
    edge whose ends have the same color (or location).

    Examples
    --------
    >>> graph_scheme("edge", "triangle", colors=3)
    RelationalScheme(types: vertex; attributes: exist(vertex^2), color(vertex); features: edge, triangle, co_color)
    """
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    exist = scheme.attribute("exist", scheme.pair(vertex))
    for name in features:
        add_library_feature(scheme, name, exist)
    if colors:
        color = scheme.attribute("color", vertex, colors)
        scheme.feature("co_color", lambda a, b: exist[a, b] & (color[a] == color[b]))
    return scheme


def two_mode_scheme(*features: str, first: str = "first", second: str = "second") -> RelationalScheme:
    """Return the scheme of a two-mode (bipartite) network with ready features of `TWO_MODE`.

    References
    ----------
    Wang, Sharpe, Robins and Pattison (2009), Exponential random graph (p*) models for affiliation networks.

    Examples
    --------
    >>> two_mode_scheme("edge", "b1star2", first="person", second="event")
    RelationalScheme(types: person, event; attributes: exist(person x event); features: edge, b1star2)
    """
    scheme = RelationalScheme()
    exist = scheme.attribute("exist", scheme.ordered(scheme.type(first), scheme.type(second)))
    for name in features:
        add_library_feature(scheme, name, exist)
    return scheme
