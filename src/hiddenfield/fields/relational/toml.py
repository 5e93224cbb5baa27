"""Schemes as TOML files."""

from __future__ import annotations

import ast
import operator
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec

from hiddenfield.data.paths import read_text
from hiddenfield.errors import HiddenfieldError, InputError, ReadError
from hiddenfield.fields.relational.expressions import Argument, Expression
from hiddenfield.fields.relational.library import add_library_feature
from hiddenfield.fields.relational.scheme import ComplexType, RelationalScheme

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
