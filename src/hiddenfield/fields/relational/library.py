"""Schemes made of ready features of networks, and schemes as TOML files."""

from __future__ import annotations

import ast
import operator
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from hiddenfield.data.paths import read_text
from hiddenfield.errors import HiddenfieldError, InputError, ReadError
from hiddenfield.fields.relational.expressions import Argument, Expression
from hiddenfield.fields.relational.scheme import Attribute, ComplexType, Feature, RelationalScheme
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


BINARY = {
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
COMPARE = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def read_scheme(path: str | Path) -> RelationalScheme:
    """Read a scheme from a TOML file; see `parse_scheme` for what it holds."""
    text = read_text(path)
    try:
        return parse_scheme(text)
    except HiddenfieldError as error:
        raise ReadError(str(error), file=path) from None


def parse_scheme(text: str) -> RelationalScheme:
    """Make a scheme of a TOML text.

    `types` lists the basic types. An attribute is of a basic type (``of = "vertex"``) or of tuples (``of = ["vertex",
    "vertex"]``, unordered where all parts are of one type unless ``ordered = true``), with its number of ``values`` or
    their names. A feature has ``arguments`` and an ``expression`` in ``& | ~ == != < <= > >= + - *``, or is taken from
    the ``library``, or is a ``term`` (gwdegree and gwesp with a ``decay``; nodecov, absdiff and edgecov with a
    ``covariate``).

    Examples
    --------
    >>> parse_scheme('''
    ... types = ["vertex"]
    ... [[attributes]]
    ... name = "exist"
    ... of = ["vertex", "vertex"]
    ... [[features]]
    ... library = "edge"
    ... [[features]]
    ... name = "triangle"
    ... arguments = ["a", "b", "c"]
    ... expression = "exist[a, b] & exist[a, c] & exist[b, c]"
    ... ''')
    RelationalScheme(types: vertex; attributes: exist(vertex^2); features: edge, triangle)
    """
    try:
        content = msgspec.convert(tomllib.loads(text), _Scheme)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not a TOML file: {error}") from None
    except msgspec.ValidationError as error:
        raise InputError(f"not a scheme: {error}") from None
    scheme = RelationalScheme()
    for name in content.types:
        scheme.type(name)
    for attribute in content.attributes:
        parts = [attribute.of] if isinstance(attribute.of, str) else attribute.of
        unordered = len(parts) > 1 and len(set(parts)) == 1 and not attribute.ordered
        scheme.attribute(
            attribute.name, ComplexType(tuple(parts), unordered, attribute.self_tuples), attribute.values
        )
    for feature in content.features:
        _add_feature(scheme, feature)
    if not scheme.attributes or not scheme.features:
        raise InputError("a scheme needs at least one [[attributes]] and one [[features]] table")
    return scheme


class _Attribute(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    of: str | Annotated[list[str], msgspec.Meta(min_length=1)]
    ordered: bool = False
    values: int | list[str] = 2
    self_tuples: bool = False


class _Feature(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""
    arguments: list[str] = []
    expression: str = ""
    library: str = ""
    attribute: str = ""
    term: str = ""
    decay: float | None = None
    covariate: str = ""


class _Scheme(msgspec.Struct, forbid_unknown_fields=True):
    types: list[str] = []
    attributes: list[_Attribute] = []
    features: list[_Feature] = []


def _add_feature(scheme: RelationalScheme, entry: _Feature) -> None:
    if entry.term:
        scheme.term(entry.term, decay=entry.decay, covariate=entry.covariate, name=entry.name or None)
        return
    if entry.library:
        if entry.attribute and entry.attribute not in scheme.attributes:
            raise InputError(f"feature {entry.library!r}: the scheme has no attribute {entry.attribute!r}")
        add_library_feature(scheme, entry.library, scheme.attributes.get(entry.attribute))
        return
    if not entry.name or not entry.arguments or not entry.expression:
        raise InputError(
            "every [[features]] table needs a name, arguments and an expression, or a library feature"
        )
    try:
        tree = ast.parse(entry.expression.strip(), mode="eval").body
        expression = _evaluate(tree, scheme, entry.arguments)
    except SyntaxError as error:
        raise InputError(f"feature {entry.name!r}: cannot read {entry.expression!r}: {error.msg}") from None
    except (InputError, RecursionError) as error:
        raise InputError(f"feature {entry.name!r}: {error}") from None
    scheme.add_feature(entry.name, entry.arguments, expression)


def _evaluate(node: ast.AST, scheme: RelationalScheme, arguments: list[str]) -> Any:
    """Evaluate the few kinds of syntax that an expression may have; nothing else of Python is run."""
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, (int, float, str))
        and node.value is not True
    ):
        return node.value
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return _atom(node, scheme, arguments)
    if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        left, right = (_evaluate(side, scheme, arguments) for side in (node.left, node.right))
        return BINARY[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Invert, ast.USub)):
        value = _evaluate(node.operand, scheme, arguments)
        return ~value if isinstance(node.op, ast.Invert) else value * -1
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARE:
        left, right = (_evaluate(side, scheme, arguments) for side in (node.left, node.comparators[0]))
        if not isinstance(left, Expression):
            raise InputError(f"write the attribute first in {ast.unparse(node)!r}")
        return COMPARE[type(node.ops[0])](left, right)
    raise InputError(
        f"{ast.unparse(node)!r} is not allowed; use attributes, numbers and & | ~ == != < <= > >= + - *"
    )


def _atom(node: ast.Subscript, scheme: RelationalScheme, arguments: list[str]) -> Expression:
    attribute = node.value.id if isinstance(node.value, ast.Name) else ""
    if attribute not in scheme.attributes:
        known = ", ".join(scheme.attributes)
        raise InputError(f"{ast.unparse(node)!r}: there is no attribute {attribute!r}; there are {known}")
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    names = [part.id if isinstance(part, ast.Name) else ast.unparse(part) for part in parts]
    for name in names:
        if name not in arguments:
            raise InputError(
                f"{ast.unparse(node)!r}: {name!r} is not among the arguments {', '.join(arguments)}"
            )
    return scheme.attributes[attribute][tuple(Argument(name) for name in names)]
