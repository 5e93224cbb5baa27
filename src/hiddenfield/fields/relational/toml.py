"""Schemes as TOML files."""

from __future__ import annotations

import ast
import operator
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hiddenfield.errors import HiddenfieldError, InputError, ReadError
from hiddenfield.fields.relational.expressions import Argument, Expression
from hiddenfield.fields.relational.library import add_library_feature
from hiddenfield.fields.relational.scheme import ComplexType, RelationalScheme

__all__ = ["parse_scheme", "read_scheme"]

KEYS = {
    "": {"types", "attributes", "features"},
    "attribute": {"name", "type", "of", "ordered", "values", "self_tuples"},
    "feature": {"name", "arguments", "expression", "library", "attribute"},
}
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
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror}", file=path) from None
    except UnicodeDecodeError:
        raise ReadError("expected a TOML file in UTF-8", file=path) from None
    try:
        return parse_scheme(text)
    except HiddenfieldError as error:
        raise ReadError(str(error), file=path) from None


def parse_scheme(text: str) -> RelationalScheme:
    """Make a scheme of a TOML text.

    `types` lists the basic types. An attribute is of a basic type (``of = "vertex"``) or of tuples (``of = ["vertex",
    "vertex"]``, unordered where all parts are of one type unless ``ordered = true``), with its number of ``values`` or
    their names. A feature has ``arguments`` and an ``expression`` in ``& | ~ == != < <= > >= + - *``, or is taken from
    the ``library``.

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
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not a TOML file: {error}") from None
    _check_keys("the scheme", content, "")
    scheme = RelationalScheme()
    for name in _list(content, "types"):
        scheme.type(name)
    for entry in _list(content, "attributes"):
        _add_attribute(scheme, entry)
    for entry in _list(content, "features"):
        _add_feature(scheme, entry)
    if not scheme.attributes or not scheme.features:
        raise InputError("a scheme needs at least one [[attributes]] and one [[features]] table")
    return scheme


def _add_attribute(scheme: RelationalScheme, entry: Any) -> None:
    name = _named("attribute", entry)
    _check_keys(f"attribute {name!r}", entry, "attribute")
    of = entry.get("of")
    parts = [of] if isinstance(of, str) else of
    if not isinstance(parts, list) or not parts or not all(isinstance(part, str) for part in parts):
        raise InputError(
            f"attribute {name!r}: of = must name a type or list the types of a tuple, got {of!r}"
        )
    for part in parts:
        if part not in scheme.types:
            raise InputError(
                f"attribute {name!r}: the scheme has no type {part!r}; it has {', '.join(scheme.types)}"
            )
    unordered = len(parts) > 1 and len(set(parts)) == 1 and not entry.get("ordered", False)
    kind = ComplexType(tuple(parts), unordered, bool(entry.get("self_tuples", False)))
    values = entry.get("values", 2)
    if not isinstance(values, int) and not (
        isinstance(values, list) and all(isinstance(v, str) for v in values)
    ):
        raise InputError(f"attribute {name!r}: values = must be a number or a list of names, got {values!r}")
    scheme.attribute(name, kind, values)


def _add_feature(scheme: RelationalScheme, entry: Any) -> None:
    if isinstance(entry, Mapping) and "library" in entry:
        _check_keys(f"feature {entry['library']!r}", entry, "feature")
        given = entry.get("attribute")
        if given is not None and given not in scheme.attributes:
            raise InputError(f"feature {entry['library']!r}: the scheme has no attribute {given!r}")
        add_library_feature(scheme, entry["library"], None if given is None else scheme.attributes[given])
        return
    name = _named("feature", entry)
    _check_keys(f"feature {name!r}", entry, "feature")
    arguments, text = entry.get("arguments"), entry.get("expression")
    if not isinstance(arguments, list) or not all(isinstance(a, str) and a.isidentifier() for a in arguments):
        raise InputError(f"feature {name!r}: arguments = must list words, got {arguments!r}")
    if not isinstance(text, str):
        raise InputError(f"feature {name!r}: expression = must be a text, got {text!r}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        expression = _evaluate(tree, scheme, arguments)
    except SyntaxError as error:
        raise InputError(f"feature {name!r}: cannot read {text!r}: {error.msg}") from None
    except (InputError, RecursionError) as error:
        raise InputError(f"feature {name!r}: {error}") from None
    scheme.add_feature(name, arguments, expression)


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
        left, right = (
            _evaluate(node.left, scheme, arguments),
            _evaluate(node.comparators[0], scheme, arguments),
        )
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


def _list(content: Mapping[str, Any], key: str) -> list[Any]:
    value = content.get(key, [])
    if not isinstance(value, list):
        raise InputError(f"{key} must be a list, got {value!r}")
    return value


def _named(family: str, entry: Any) -> str:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        raise InputError(f"every [[{family}s]] table needs a name, got {entry!r}")
    return str(entry["name"])


def _check_keys(what: str, entry: Mapping[str, Any], family: str) -> None:
    for key in entry:
        if key not in KEYS[family]:
            raise InputError(f"{what}: unknown key {key!r}; there are {', '.join(sorted(KEYS[family]))}")
