"""Labels, attributes, targets and further columns of an Arrow table, as `from_arcs` takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.arrow.columns import Lists, Source, first_null, is_list, is_text, plain, to_numpy
from hiddenfield.data.arrow.schema import Column, Layout
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.shapes import Array, Float

if TYPE_CHECKING:
    import pyarrow

__all__ = ["features"]

ListColumns = dict[str, Lists]


def features(source: Source, layout: Layout, nodes: ListColumns, arcs: ListColumns) -> dict[str, Any]:
    """Return what `from_arcs` takes besides the arcs; `nodes` and `arcs` are the columns with an entry for each."""
    found: dict[str, Any] = {}
    for kind, columns in (("node", nodes), ("arc", arcs)):
        words = getattr(layout, f"{kind}_labels")
        if words is not None:
            pairs = [_labels(source, column, columns[column.field], layout.known) for column in words]
            found[f"{kind}_labels"] = [codes for codes, _ in pairs]
            found[f"{kind}_vocabularies"] = [vocabulary for _, vocabulary in pairs]
        names = getattr(layout, f"{kind}_attributes")
        if names is not None:
            matrix, labelled = _attributes(source, names, columns, layout.known)
            found[f"{kind}_attributes"], found[f"{kind}_attribute_names"] = matrix, labelled
    for prefix, columns_of in (("", layout.targets), ("node_", layout.node_targets)):
        if columns_of is not None:
            results = [
                _target(source, column, nodes.get(column.field), layout.known) for column in columns_of
            ]
            found[f"{prefix}targets"] = [numbers for numbers, _ in results]
            found[f"{prefix}target_names"] = [column.name for column in columns_of]
            found[f"{prefix}target_vocabularies"] = [vocabulary for _, vocabulary in results]
    found["ids"] = _ids(source) if layout.ids else None
    found["columns"] = {column.name: _further(source, column) for column in layout.columns}
    return found


def _labels(source: Source, column: Column, lists: Lists, known: bool) -> tuple[Array, Vocabulary]:
    source.no_null(lists)
    codes, vocabulary, wrong = _codes(source, column, lists.values, known)
    if wrong is not None:
        raise source.refuse(_no_code(column, lists.values, wrong), lists.row_of(wrong))
    return codes, vocabulary


def _codes(
    source: Source, column: Column, values: pyarrow.ChunkedArray, known: bool
) -> tuple[Array, Vocabulary, int | None]:
    """Return codes with -1 for null, their vocabulary, and the position of the first code that it lacks.

    With metadata (`known`) the column holds codes; otherwise it holds the symbols, whose sorted vocabulary is made.
    """
    if not known or column.vocabulary is None:
        codes, vocabulary = _encode(source, column, plain(values))
        return codes, vocabulary, None
    source.expect(column.field, values.type, "integer")
    codes = to_numpy(values.fill_null(-1) if values.null_count else values)
    codes = codes.astype(np.int64) if codes.dtype.kind not in "iu" else codes
    own, into = column.vocabulary, column.into or column.vocabulary
    if values.null_count or (len(codes) and (codes.min() < 0 or codes.max() >= len(own))):
        wrong = ((codes < 0) | (codes >= len(own))) & ~to_numpy(values.is_null())
        if wrong.any():
            return codes, into, int(np.argmax(wrong))
    if into != own:
        codes = np.append(own.recode_to(into), np.int32(-1))[codes]
    return codes, into, None


def _encode(source: Source, column: Column, values: pyarrow.ChunkedArray) -> tuple[Array, Vocabulary]:
    from pyarrow import types

    if not (is_text(values.type) or types.is_integer(values.type) or types.is_boolean(values.type)) and len(
        values
    ):
        raise source.refuse(f"column {column.field!r} must hold texts or integers, it holds {values.type}")
    if not len(values):
        return np.zeros(0, dtype=np.int32), Vocabulary(column.name, ())
    encoded = values.dictionary_encode().unify_dictionaries()
    vocabulary, rank = Vocabulary.from_values(column.name, encoded.chunk(0).dictionary.to_pylist())
    positions = np.concatenate([to_numpy(chunk.indices.fill_null(-1)) for chunk in encoded.chunks])
    return np.append(rank, np.int32(-1))[positions], vocabulary


def _no_code(column: Column, values: pyarrow.ChunkedArray, at: int) -> str:
    size = len(column.vocabulary or ())
    return f"column {column.field!r} holds {values[at].as_py()}, which is no code of its {size} symbols"


def _attributes(
    source: Source, columns: tuple[Column, ...], lists: ListColumns, known: bool
) -> tuple[Float[Array, "rows columns"] | None, list[str]]:
    """Return all attributes side by side, and their names; None where there is no column of them."""
    names: list[str] = []
    blocks: list[Array] = []
    for field in dict.fromkeys(column.field for column in columns):
        block = _matrix(source, lists[field])
        given = [column.name for column in columns if column.field == field]
        if not known and field in ("node_attributes", "arc_attributes"):
            width = block.shape[1]
            given = ["attribute"] if width == 1 else [f"attribute_{k}" for k in range(width)]
        if len(given) != block.shape[1] and block.shape[0]:
            raise source.refuse(
                f"column {field!r} has {block.shape[1]} attributes, but {len(given)} are named"
            )
        names += given
        blocks.append(block if block.shape[0] else np.zeros((0, len(given)), dtype=np.float32))
    if not blocks:
        return None, []
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1), names


def _matrix(source: Source, lists: Lists) -> Float[Array, "rows columns"]:
    """Return a column of lists of numbers, or of lists of equally long lists of numbers, as single-precision rows."""
    import pyarrow.compute as compute

    source.no_null(lists)
    values, width = lists.values, 1
    if is_list(values.type):
        widths = to_numpy(compute.list_value_length(values))
        width = int(widths[0]) if len(widths) else 0
        if (widths != width).any():
            at = int(np.argmax(widths != width))
            raise source.refuse(
                f"column {lists.field!r} must hold equally long lists, got lengths {width} and {widths[at]}",
                lists.row_of(at),
            )
        values = compute.list_flatten(values)
    source.expect(lists.field, values.type, "number")
    if values.null_count:
        row = lists.row_of(first_null(values) // max(width, 1))
        raise source.refuse(
            f"column {lists.field!r} holds null within a list; fill it in or drop the row", row
        )
    numbers = to_numpy(values)
    with np.errstate(over="ignore"):
        single = numbers.astype(np.float32)  # a copy: the table's own memory may be a file's
    if not np.isfinite(single).all():
        at = int(np.argmin(np.isfinite(single)))
        raise source.refuse(
            f"column {lists.field!r} holds {numbers[at]}; attributes must be finite in single precision",
            lists.row_of(at // width),
        )
    return single.reshape(-1, width) if width else np.zeros((len(lists.values), 0), dtype=np.float32)


def _target(
    source: Source, column: Column, lists: Lists | None, known: bool
) -> tuple[Float[Array, " rows"], Vocabulary | None]:
    """Return a target as numbers with NaN for null, and its classes if it has any; `lists` if it has one a node."""
    values = source.table[column.field] if lists is None else lists.values
    row_of = int if lists is None else lists.row_of
    if (known and column.vocabulary is None) or not (known or is_text(plain(values).type)):
        source.expect(column.field, values.type, "number")
        numbers = to_numpy(source.cast(values, "float64", column.field)).astype(np.float64)
        if np.isinf(numbers).any():
            at = int(np.argmax(np.isinf(numbers)))
            raise source.refuse(
                f"column {column.field!r} holds {numbers[at]}; a target must be finite, or null if missing",
                row_of(at),
            )
        return numbers, None
    codes, vocabulary, wrong = _codes(source, column, values, known)
    if wrong is not None:
        raise source.refuse(_no_code(column, values, wrong), row_of(wrong))
    return np.where(codes < 0, np.nan, codes), vocabulary


def _ids(source: Source) -> Array:
    from pyarrow import types

    column = source.table["id"]
    if types.is_integer(column.type):
        column = column.cast("string")
    return _texts(source, "id", plain(column))


def _texts(source: Source, field: str, column: pyarrow.ChunkedArray) -> Array:
    source.expect(field, column.type, "text")
    if column.null_count:
        raise source.refuse(f"column {field!r} holds null; fill it in or drop the row", first_null(column))
    return to_numpy(column).astype(np.dtypes.StringDType())


def _further(source: Source, column: Column) -> Array:
    """Return a column that merely travels along: texts or numbers of any kind."""
    from pyarrow import types

    values = plain(source.table[column.field])
    if is_text(values.type):
        return _texts(source, column.field, values)
    if not (types.is_integer(values.type) or types.is_floating(values.type) or types.is_boolean(values.type)):
        raise source.refuse(
            f"column {column.field!r} holds {values.type}, which does not travel with a pack (texts and numbers do); "
            "name the columns to keep with columns="
        )
    if values.null_count:
        raise source.refuse(
            f"column {column.field!r} holds null; fill it in, or name the columns to keep with columns=",
            first_null(values),
        )
    return to_numpy(values).copy()
