"""Arrow columns: their types, and their values as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.shapes import Array

if TYPE_CHECKING:
    import pyarrow


def is_list(kind: Any) -> bool:
    """Say whether a type is one of Arrow's list types."""
    from pyarrow import types

    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def is_text(kind: Any) -> bool:
    """Say whether a type is text."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def plain(values: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Replace dictionary codes by what they stand for; leave any other column as it is."""
    from pyarrow import types

    return values.cast(values.type.value_type) if types.is_dictionary(values.type) else values


def first_null(values: pyarrow.ChunkedArray) -> int:
    """Return the position of the first null."""
    return int(np.argmax(to_numpy(values.is_null())))


def to_numpy(values: Any, null: float | None = None) -> Array:
    """View a column as an array, with `null` for nulls; copy it where it comes in several chunks or as bits.

    Numbers do not pass through pyarrow's own `to_numpy`, which imports pandas where there is one: 0.3 s.
    """
    import pyarrow
    from pyarrow import types

    if isinstance(values, pyarrow.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    if types.is_boolean(values.type):
        return to_numpy(values.cast(pyarrow.uint8()), null).astype(np.bool_)
    if not (types.is_integer(values.type) or types.is_floating(values.type)):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    bare = pyarrow.Array.from_buffers(
        values.type, len(values), [None, values.buffers()[1]], offset=values.offset
    )
    numbers = np.from_dlpack(bare) if len(values) else np.zeros(0, values.type.to_pandas_dtype())
    return (
        np.where(to_numpy(values.is_null()), null, numbers)
        if values.null_count and null is not None
        else numbers
    )
