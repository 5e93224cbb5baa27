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


def add_library_feature(scheme: RelationalScheme, name: str, attribute: Attribute | None = None) -> Feature:
    """Add a ready feature on a binary attribute of unordered pairs; by default the scheme's only one."""
    build = choose("feature", FEATURES, name)
    if attribute is None:
        able = [a for a in scheme.attributes.values() if a.type.unordered and len(a.type.parts) == 2]
        if len(able) != 1:
            raise InputError(
                f"feature {name!r}: say which attribute of pairs it is about; there are {len(able)}"
            )
        attribute = able[0]
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
