"""Tables with one row per structure, both ways: Arrow tables, pandas data frames and whatever speaks Arrow."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Literal

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, MissingDependencyError
from hiddenfield.registry import choose

KEY = "hiddenfield"


def from_table(table: Any, *, columns: Sequence[str] | None = None) -> Structures:
    """Build a pack from a table with one row per structure.

    Parameters
    ----------
    table
        A pyarrow Table or RecordBatch, a pandas DataFrame, or anything else that exports Arrow data (polars, DuckDB
        results). Its columns are those of `read` for Arrow files: lists ``source`` and ``target`` of node numbers
        within each structure, and, all optional, ``num_nodes``, ``id``, ``reverse``, ``node_label_<name>``,
        ``arc_label_<name>``, ``node_attributes`` or ``node_attribute_<name>``, the same for arcs, ``target_<name>``,
        ``node_target_<name>``; any other column of numbers or texts travels along.
    columns
        The other columns to keep; all of them by default.

    Returns
    -------
    Structures
        Checked throughout. A table that `to_table` made comes back exactly; where it lost its metadata on the
        way, codes are taken for the symbols.

    Raises
    ------
    InputError
        Naming the row and the column.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"source": [[0, 1], []], "target": [[1, 0], []], "num_nodes": [2, 1]})
    >>> from_table(frame)
    Structures(2 structures, 3 nodes, 2 arcs)
    """
    from hiddenfield.data.readers.arrow import from_arrow

    return from_arrow(as_arrow(table), columns=columns)


def to_table(structures: Structures, kind: Literal["arrow", "pandas"] = "arrow") -> Any:
    """Return a pack as a table with one row per structure; the inverse of `from_table`.

    Parameters
    ----------
    structures
        Any pack.
    kind
        ``"arrow"``: a pyarrow Table. ``"pandas"``: a DataFrame whose columns are backed by Arrow, so that nothing is
        converted; what the codes stand for is kept in ``frame.attrs["hiddenfield"]``, which selecting rows keeps.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> pack = hf.data.from_edges([0, 1], [1, 2], node_ptr=[0, 3, 4], targets=[0.5, 1.5])
    >>> frame = to_table(pack, "pandas")
    >>> frame["target_target"].mean(), from_table(frame[frame["num_nodes"] > 1]) == pack[:1]
    (1.0, True)
    """
    from hiddenfield.data.readers.arrow import to_arrow

    convert = choose("kind of table", {"arrow": lambda table: table, "pandas": _to_pandas}, kind)
    return convert(to_arrow(structures))


def as_arrow(table: Any) -> Any:
    """Return a pyarrow Table of a data frame, or of whatever exports Arrow data."""
    import pyarrow

    if isinstance(table, pyarrow.Table):
        return table
    # A data frame can only come from pandas if pandas has been imported.
    pandas = sys.modules.get("pandas")
    try:
        if pandas is not None and isinstance(table, pandas.DataFrame):
            converted = pyarrow.Table.from_pandas(table, preserve_index=False)
            described = table.attrs.get(KEY)
            metadata = {KEY: described} if isinstance(described, str) else None
            return converted.replace_schema_metadata(metadata)
        if isinstance(table, pyarrow.RecordBatch):
            return pyarrow.Table.from_batches([table])
        if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
            return pyarrow.table(table)
    except (pyarrow.ArrowException, ValueError, TypeError, NotImplementedError) as error:
        raise InputError(f"the table cannot be converted to Arrow: {error}") from None
    raise InputError(
        f"expected an Arrow table, a pandas DataFrame or another table that exports Arrow data, "
        f"got {type(table).__name__}"
    )


def _to_pandas(table: Any) -> Any:
    try:
        import pandas
    except ImportError:
        raise MissingDependencyError.for_extra("pandas", "pandas", "a data frame") from None
    frame = table.to_pandas(types_mapper=pandas.ArrowDtype)
    frame.attrs[KEY] = table.schema.metadata[KEY.encode()].decode()
    return frame
