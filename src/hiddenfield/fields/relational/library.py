"""Ready features of networks, and schemes made of them."""

from __future__ import annotations

from collections.abc import Callable

from hiddenfield.errors import InputError
from hiddenfield.fields.relational.scheme import Attribute, Feature, RelationalScheme
from hiddenfield.registry import choose

__all__ = ["FEATURES", "add_library_feature", "graph_scheme"]


def _edge(scheme: RelationalScheme, name: str, exist: Attribute) -> Feature:
    return scheme.feature(name, lambda a, b: exist[a, b])


def _open_chain(scheme: RelationalScheme, name: str, exist: Attribute) -> Feature:
    return scheme.feature(name, lambda a, b, c: exist[a, b] & exist[a, c] & ~exist[b, c])


def _triangle(scheme: RelationalScheme, name: str, exist: Attribute) -> Feature:
    return scheme.feature(name, lambda a, b, c: exist[a, b] & exist[a, c] & exist[b, c])


def _star2(scheme: RelationalScheme, name: str, exist: Attribute) -> Feature:
    return scheme.feature(name, lambda a, b, c: exist[a, b] & exist[a, c])


def _star3(scheme: RelationalScheme, name: str, exist: Attribute) -> Feature:
    return scheme.feature(name, lambda a, b, c, d: exist[a, b] & exist[a, c] & exist[a, d])


def _quadruplet(scheme: RelationalScheme, name: str, exist: Attribute) -> Feature:
    return scheme.feature(name, lambda a, b, c, d: exist[a, b] & exist[b, c] & exist[c, d] & exist[d, a])


FEATURES: dict[str, Callable[[RelationalScheme, str, Attribute], Feature]] = {
    "edge": _edge,
    "open_chain": _open_chain,
    "triangle": _triangle,
    "star2": _star2,
    "star3": _star3,
    "quadruplet": _quadruplet,
}
"""Features of an undirected network by name.

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
    return build(scheme, name, attribute)


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
