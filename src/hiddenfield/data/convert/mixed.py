"""Tables of mixed columns from data frames, arrays, dicts, lists and files, kinds recognised; and back again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.arrow_tables import as_arrow
from hiddenfield.data.columns import Refuse, as_ids, chosen_names, coded, refuse_row
from hiddenfield.data.convert.kinds import Numbers
from hiddenfield.data.paths import existing, inner_suffix, read_bytes
from hiddenfield.data.readers.delimited import (
    MISSING,
    as_missing,
    column_names,
    read_table,
    refuse_mixture,
    spelled_numbers,
    without,
)
from hiddenfield.data.table import DISCRETE, KINDS, Table, TableColumn
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, ReadError, UnknownSymbolError
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float

NO_VALUE = (*MISSING, "N/A", "n/a", "NULL", "?", ".")
"""Entries that stand for no value in tables of data."""


def as_table(
    source: Any,
    *,
    kinds: Mapping[Any, str] | str | None = None,
    like: Sequence[TableColumn] | None = None,
    unseen: str = "error",
    id: str | None = None,
    weight: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    names: Sequence[str] | None = None,
    header: bool = True,
    separator: str | None = None,
    missing: Collection[str] = NO_VALUE,
) -> Table:
    """Make a table of a file, data frame, array, dict of columns or list of rows; nothing is filled in or dropped.

    The kind of a column is recognised where it is not given. Texts and truth values are binary or categorical, and so
    are whole numbers of at most two (binary) or ten values, each of which occurs three times on average; other whole
    numbers that begin at 0 are counts if their variance is at most ten times their mean; all other numbers are
    continuous. `Table.describe` says what each was taken for.

    Parameters
    ----------
    source
        A path of CSV, TSV (also .gz, .xz), Parquet or Feather, or of a folder of Parquet files; a data frame of pandas,
        polars or Arrow; a NumPy matrix; a dict of columns; a list of rows; or a table. None, NaN and the missing values
        of data frames are holes.
    kinds
        The kind of all columns, or of some by name, by position, or by a pattern such as ``"V*"``; see `KINDS`.
    like
        The columns of another table, whose kinds and symbols hold here too: those of data frames and dicts are found by
        name, those of arrays and lists by position.
    unseen
        What happens to a symbol that `like` does not have: "error", or "missing", which makes it a hole.
    id, weight
        Columns that hold the rows' ids and weights.
    columns, drop
        Columns to keep (all by default), and columns to leave out; names and patterns.
    names
        Names of the columns of an array or list; ``"x0"``, ``"x1"``, … by default.
    header, separator, missing
        Of CSV and TSV: whether the first row has the names, what stands between entries, and the entries that stand
        for no value.

    Raises
    ------
    InputError
        Naming the row (or file and line) and the column.

    Examples
    --------
    >>> table = as_table([[1.5, "a"], [None, "b"], [2.5, None]], names=["length", "kind"])
    >>> table
    Table(3 rows; columns: 1 continuous, 1 binary; 2 cells missing)
    >>> table.restore()
    [[1.5, 'a'], [None, 'b'], [2.5, None]]
    """
    choose("unseen", {"error": 0, "missing": 0}, unseen)
    read = _read(source, names, header, separator, missing, id)
    kept = _kept(read, id, weight, columns, drop, like)
    wanted = _wanted_kinds(kinds, list(kept))
    found: list[tuple[TableColumn, Array]] = []
    for position, (name, values) in enumerate(kept.items()):
        raw = coded(values, name, read.refuse)
        if like is None:
            found.append(_typed(name, wanted.get(name), *raw, read.refuse))
        else:
            found.append((like[position], _as_before(like[position], *raw, unseen, read.refuse)))
    cells = [values for _, values in found]
    matrix = np.stack(cells, axis=1) if cells else np.empty((read.rows, 0))
    if np.isinf(matrix).any():
        row, place = (int(number) for number in np.argwhere(np.isinf(matrix))[0])
        reason = f"is infinity ({matrix[row, place]}); correct it, or mark it as missing"
        raise read.refuse(f"column {found[place][0].name!r} {reason}", row)
    names_of_rows = None if id is None else _plain(read.columns[id])
    if names_of_rows is not None and None in names_of_rows:
        raise read.refuse(f"column {id!r}: the row has no id; give it one", names_of_rows.index(None))
    ids = as_ids(names_of_rows, read.rows)
    weights, symbols = (None, None) if weight is None else coded(read.columns[weight], weight, read.refuse)
    if symbols is not None:
        raise InputError(f"column {weight!r} must hold numbers")
    form = read.form if like is None or read.by_position or len(kept) == len(read.columns) else None
    return Table(matrix, tuple(column for column, _ in found), ids, weights, form)


@dataclass(frozen=True, eq=False)
class _Source:
    """Columns as they came; how to name a row in an error; and how to give back a table of the same type."""

    columns: Mapping[str, Any]
    rows: int
    refuse: Refuse
    form: Callable[[Table], Any] | None = None
    by_position: bool = False


def _read(
    source: Any,
    names: Sequence[str] | None,
    header: bool,
    separator: str | None,
    missing: Collection[str],
    id: str | None,
) -> _Source:
    """Split what came into columns."""
    if isinstance(source, (str, Path)):
        file = existing(source)
        if file.is_dir() or inner_suffix(file) in (".parquet", ".pq", ".arrow", ".feather"):
            return _of_arrow_file(file)
        return _of_text(file, header, separator, as_missing(missing), id)
    if hasattr(source, "toarray"):
        raise InputError("Sparse data was passed, but a table is dense; convert it with X.toarray()")
    if isinstance(source, Table):
        source = source.to_dict() if source.form is None else source.restore()
    if isinstance(source, Mapping):
        return _checked({str(name): values for name, values in source.items()}, None, False)
    if isinstance(source, np.ndarray) or (hasattr(source, "__array__") and not hasattr(source, "columns")):
        array = np.asarray(source)
        if array.ndim != 2:
            raise InputError(
                f"Reshape your data: expected a table of two axes, got an array of shape {array.shape}"
            )
        if array.dtype.kind == "c":
            raise InputError("Complex data not supported: expected real numbers or symbols")
        form: Callable[[Table], Any] = _to_objects if array.dtype.kind in "OUST" else _to_numbers
        return _checked(
            dict(zip(_positions(names, array.shape[1]), array.T, strict=True)), form, True, len(array)
        )
    if isinstance(source, (list, tuple)):
        return _rows(source, names)
    arrow = as_arrow(source)
    if len(set(arrow.column_names)) != arrow.num_columns:
        raise InputError(f"the names of columns must differ, got {arrow.column_names!r:.300}")
    form = _former(source, arrow.schema)
    return _checked(dict(zip(arrow.column_names, arrow.columns, strict=True)), form, False, arrow.num_rows)


def _of_arrow_file(file: Path) -> _Source:
    """Read a file of Arrow's, or the Parquet files of a folder one after the other."""
    import pyarrow
    from pyarrow import feather, parquet

    parts = sorted(file.glob("*.parquet")) if file.is_dir() else [file]
    if not parts:
        raise ReadError("is a folder without Parquet files (*.parquet); expected a table", file=file)
    tables = []
    for part in parts:
        suffix = inner_suffix(part)
        read = parquet.read_table if suffix in (".parquet", ".pq") else feather.read_table
        try:
            tables.append(read(pyarrow.BufferReader(read_bytes(part))))
        except (pyarrow.ArrowException, OSError) as error:
            raise ReadError(f"cannot be read as {suffix[1:]}: {error}", file=part) from None
        if tables[-1].column_names != tables[0].column_names:
            raise ReadError(f"has other columns than {parts[0].name}: {tables[-1].column_names}", file=part)
    try:
        table = pyarrow.concat_tables(tables, promote_options="permissive")
    except pyarrow.ArrowException as error:
        raise ReadError(f"its files have columns of different types: {error}", file=file) from None
    names = column_names(table.column_names, file)

    def refuse(message: str, row: int) -> InputError:
        return ReadError(f"row {row}: {message}", file=file)

    return _Source(dict(zip(names, table.columns, strict=True)), table.num_rows, refuse)


def _of_text(
    file: Path, header: bool, separator: str | None, missing: frozenset[str], id: str | None
) -> _Source:
    """Read a column as numbers if all its entries are, else as texts; null where missing."""
    table = read_table(file, header=header, separator=separator)
    columns: dict[str, Any] = {}
    for name, entries in zip(table.names, table.columns, strict=True):
        present = without(entries, missing)
        numbers = None if name == id else spelled_numbers(present)
        if numbers is None and name != id:
            refuse_mixture(present, name, missing, table.refuse)
        columns[name] = present if numbers is None else numbers
    return _Source(columns, len(table.lines), table.refuse)


def _rows(source: Sequence[Any], names: Sequence[str] | None) -> _Source:
    if source and isinstance(source[0], Mapping):
        keys = list(dict.fromkeys(str(key) for row in source for key in row))
        return _checked({key: [row.get(key) for row in source] for key in keys}, _to_records, False)
    widths = {len(row) if isinstance(row, (list, tuple, np.ndarray)) else -1 for row in source}
    if len(widths) != 1 or -1 in widths:
        raise InputError(
            f"Reshape your data: expected a list of equally long rows, got rows of lengths {sorted(widths)[:5]} "
            "(-1: no row)"
        )
    listed = _positions(names, widths.pop())
    return _checked({name: [row[k] for row in source] for k, name in enumerate(listed)}, _to_lists, True)


def _positions(names: Sequence[str] | None, width: int) -> list[str]:
    if names is None:
        return [f"x{position}" for position in range(width)]
    if len(names) != width or len(set(names)) != width:
        raise InputError(f"names must be {width} distinct names, got {list(names)!r:.300}")
    return [str(name) for name in names]


def _checked(
    columns: Mapping[str, Any],
    form: Callable[[Table], Any] | None,
    by_position: bool,
    rows: int | None = None,
) -> _Source:
    lengths = {name: len(values) for name, values in columns.items()}
    rows = next(iter(lengths.values()), 0) if rows is None else rows
    for name, length in lengths.items():
        if length != rows:
            raise InputError(
                f"columns must be equally long: {name!r} has {length} rows, the first has {rows}"
            )
    return _Source(columns, rows, refuse_row, form, by_position)


def _kept(
    read: _Source,
    id: str | None,
    weight: str | None,
    columns: Sequence[str] | None,
    drop: Sequence[str],
    like: Sequence[TableColumn] | None,
) -> dict[str, Any]:
    """Return the columns to keep, in their order; with `like` in that order."""
    known = list(read.columns)
    if like is not None and read.by_position and not {column.name for column in like} < set(known):
        if len(known) != len(like):
            names = ", ".join(column.name for column in like)
            raise InputError(
                f"X has {len(known)} columns, but the model was fitted with {len(like)}: {names:.200}"
            )
        return {column.name: values for column, values in zip(like, read.columns.values(), strict=True)}
    if like is not None:
        columns, drop = [column.name for column in like], ()
    beside = [name for name in (id, weight) if name is not None]
    chosen = known if columns is None else chosen_names(columns, known, beside)
    dropped = chosen_names(drop, known)
    for name in [*chosen, *dropped, *beside]:
        choose("column", read.columns, name)
    return {name: read.columns[name] for name in chosen if name not in dropped and name not in beside}


def _wanted_kinds(kinds: Mapping[Any, str] | str | None, known: Sequence[str]) -> dict[str, str]:
    """Return the kinds that were asked for, by name."""
    if kinds is None or isinstance(kinds, str):
        kinds = {} if kinds is None else dict.fromkeys(known, kinds)
    wanted: dict[str, str] = {}
    for given, kind in kinds.items():
        choose("kind of column", KINDS, kind)
        if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
            if not -len(known) <= given < len(known):
                raise InputError(f"kinds: there is no column {given}; there are {len(known)}")
            given = known[int(given)]
        for name in chosen_names([given], known):
            choose("column", dict.fromkeys(known), name)
            wanted[name] = kind
    return wanted


# -- kinds of columns ----------------------------------------------------------------------------------------


def _typed(
    name: str, kind: str | None, values: Float[Array, " rows"], vocabulary: Vocabulary | None, refuse: Refuse
) -> tuple[TableColumn, Array]:
    """Return a column of the kind that was asked for, or of the one that it looks like."""
    if vocabulary is not None and kind not in (None, *DISCRETE):
        values, vocabulary = _spelled_numbers(vocabulary, values, name, str(kind), refuse), None
    if vocabulary is None:
        present = ~np.isnan(values)
        kind = Numbers.of(values[present]).kind if kind is None else kind
        if kind == "continuous":
            return TableColumn(name, kind), values
        odd = present & ((values % 1 != 0) | (values < 0) & (kind == "count"))
        if odd.any():
            row = int(np.argmax(odd))
            takes = "whole numbers from 0 up" if kind == "count" else "texts and whole numbers"
            raise refuse(f"column {name!r} is {kind}, which takes {takes}, but holds {values[row]:g}", row)
        if kind == "count":
            return TableColumn(name, kind), values
        vocabulary, codes = Vocabulary.from_values(name, values[present].astype(np.int64))
        if set(vocabulary.symbols) <= {0, 1}:  # also where only one of them occurs
            vocabulary = Vocabulary(name, (0, 1))
        else:
            values = np.full(len(values), np.nan)
            values[present] = codes
    if kind == "binary" and len(vocabulary) > 2:
        third = int(np.argmax(values >= 2))
        raise refuse(
            f"column {name!r} was given as binary, but has {len(vocabulary)} symbols: "
            + ", ".join(repr(symbol) for symbol in vocabulary.symbols[:8]),
            third,
        )
    kind = ("binary" if len(vocabulary) <= 2 else "categorical") if kind is None else kind
    return TableColumn(name, kind, vocabulary), values


def _spelled_numbers(vocabulary: Vocabulary, codes: Array, name: str, kind: str, refuse: Refuse) -> Array:
    numbers = np.full(len(vocabulary) + 1, np.nan)
    for code, symbol in enumerate(vocabulary.symbols):
        try:
            numbers[code] = float(symbol)
        except ValueError:
            if (codes == code).any():
                row = int(np.argmax(codes == code))
                raise refuse(f"column {name!r} is {kind}, but holds {symbol!r:.60}", row) from None
    return numbers[np.nan_to_num(codes, nan=-1).astype(np.int64)]


def _as_before(
    column: TableColumn,
    values: Float[Array, " rows"],
    vocabulary: Vocabulary | None,
    unseen: str,
    refuse: Refuse,
) -> Array:
    """Return a column as that of an earlier table of the same kind: codes in the same vocabulary."""
    if column.vocabulary is None:
        return _typed(column.name, column.kind, values, vocabulary, refuse)[1]
    if vocabulary is None:
        symbols, inverse = np.unique(values, return_inverse=True)  # NaN is last
        own: list[Any] = [int(symbol) if symbol % 1 == 0 else float(symbol) for symbol in symbols.tolist()]
    else:
        own, inverse = (
            [*vocabulary.symbols, np.nan],
            np.nan_to_num(values, nan=len(vocabulary)).astype(np.int64),
        )
    known: dict[Any, float] = {symbol: float(code) for code, symbol in enumerate(column.vocabulary.symbols)}
    texts = {
        str(symbol): code for symbol, code in known.items()
    }  # a number that came as a text, or the reverse
    mapped = np.array([known.get(symbol, texts.get(str(symbol), np.nan)) for symbol in own], np.float64)
    codes: Array = np.where(np.isnan(values), np.nan, mapped[inverse])
    if unseen == "error" and (strange := ~np.isnan(values) & np.isnan(codes)).any():
        row = int(np.argmax(strange))
        error = refuse(
            f"column {column.name!r}: {own[inverse[row]]!r} was not among the symbols when the model was fitted "
            f"({column.vocabulary}); correct it, or take it for missing with unseen='missing'",
            row,
        )
        raise UnknownSymbolError(str(error))
    return codes


# -- back to the type that came ----------------------------------------------------------------------------


def _plain(values: Any) -> list[Any]:
    return list(values.to_pylist() if hasattr(values, "to_pylist") else values)


def _to_lists(table: Table) -> list[list[Any]]:
    return [list(row) for row in zip(*table.to_dict().values(), strict=True)]


def _to_records(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.names, row, strict=True)) for row in _to_lists(table)]


def _to_objects(table: Table) -> Array:
    result = np.empty(table.values.shape, dtype=object)
    for column, values in enumerate(table.to_dict().values()):
        result[:, column] = values
    return result


def _to_numbers(table: Table) -> Array:
    """Return a matrix of numbers; symbols were whole numbers."""
    result = table.values.copy()
    for j, column in enumerate(table.columns):
        if column.vocabulary is not None:
            symbols = np.array([*column.vocabulary.symbols, np.nan], np.float64)
            result[:, j] = symbols[np.where(table.missing[:, j], -1, table.values[:, j]).astype(np.int64)]
    return result


def encoded(table: Table) -> Any:
    """Return a pyarrow Table of numbers, NaN where missing, and of codes with all the symbols of their column."""
    import pyarrow

    columns = {}
    for values, gone, column in zip(table.values.T, table.missing.T, table.columns, strict=True):
        own = pyarrow.array(values)
        if column.vocabulary is not None:
            codes = pyarrow.array(np.where(gone, 0, values).astype(np.int32), mask=gone)
            own = pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(column.vocabulary.symbols))
        columns[column.name] = own
    return pyarrow.table(columns)


def to_arrow(table: Table) -> Any:
    """Return a pyarrow Table, null where a cell is missing."""
    import pyarrow

    return pyarrow.table({name: pyarrow.array(values) for name, values in table.to_dict().items()})


def _former(source: Any, schema: Any) -> Callable[[Table], Any]:
    """Return what makes a data frame like the given one: of the same library, index and types where values allow it."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(source, pandas.DataFrame):
        index, types = source.index, {str(name): (name, source[name].dtype) for name in source.columns}
        return lambda table: _to_pandas(table, index, types)

    def form(table: Table) -> Any:
        import pyarrow

        made = to_arrow(table)
        for k, name in enumerate(table.names):
            try:
                same = made.column(name).cast(schema.field(name).type)
            except (pyarrow.ArrowException, KeyError):
                continue  # an imputed mean is no integer
            made = made.set_column(k, name, same)
        return polars.from_arrow(made) if polars and isinstance(source, polars.DataFrame) else made

    return form


def _to_pandas(table: Table, index: Any, types: Mapping[str, tuple[Any, Any]]) -> Any:
    import pandas

    columns: dict[Any, Any] = {}
    for k, described in enumerate(table.columns):
        name, kind = types.get(described.name, (described.name, object))
        values: Any = table.decoded(k)
        if described.vocabulary is None:
            values = table.values[:, k]
        series = pandas.Series(values, index=index if len(index) == len(table) else None)
        try:
            converted = series.astype(kind)
            # An imputed mean is no integer: what would lose something keeps its own type.
            if described.vocabulary is not None or np.array_equal(
                converted.to_numpy(np.float64, na_value=np.nan), table.values[:, k], equal_nan=True
            ):
                series = converted
        except (ValueError, TypeError):
            pass
        columns[name] = series
    return pandas.DataFrame(columns)
