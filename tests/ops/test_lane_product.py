"""Products of tables with vectors in lanes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from hiddenfield.ops.compile import compiled
from hiddenfield.ops.lane_product import in_lanes, lane_maxima, lane_products
from hiddenfield.ops.vector_math import unchecked


@compiled(fast=True)
def sums(table, begin, shared, rows, columns, by_row, by_column, to_row, to_column):  # type: ignore[no-untyped-def]
    lane_products(
        32,
        unchecked(table),
        begin,
        shared,
        rows,
        columns,
        unchecked(by_row),
        unchecked(by_column),
        unchecked(to_row),
        unchecked(to_column),
    )


@compiled(fast=True)
def maxima(table, begin, shared, rows, columns, by_row, by_column, to_row, to_column):  # type: ignore[no-untyped-def]
    lane_maxima(
        32,
        unchecked(table),
        begin,
        shared,
        rows,
        columns,
        unchecked(by_row),
        unchecked(by_column),
        unchecked(to_row),
        unchecked(to_column),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (4, 2), (9, 6)])
def test_tables_times_vectors_from_both_sides(dtype: type, shared: bool, rows: int, columns: int) -> None:
    generator = np.random.default_rng(rows)
    tables = generator.normal(size=(1 if shared else 64, rows, columns)).astype(dtype)
    if rows > 1:
        tables[0, 1] = -np.inf
    first, second = (
        generator.normal(size=(rows, 32)).astype(dtype),
        generator.normal(size=(columns, 32)).astype(dtype),
    )
    each = np.broadcast_to(tables if shared else tables[32:], (32, rows, columns))
    flat = tables.reshape(-1, rows * columns)
    # The second of two blocks, or a table after some other numbers.
    begin = 7 if shared else 32 * rows * columns
    laid = np.concatenate([np.zeros(7, dtype), flat[0]]) if shared else in_lanes(flat, 32)
    to_row, to_column = np.empty((rows, 32), dtype), np.empty((columns, 32), dtype)
    vectors = first.ravel(), second.ravel(), to_row.ravel(), to_column.ravel()
    for run in (maxima, maxima.function):
        run(laid, begin, shared, rows, columns, *vectors)
        np.testing.assert_array_equal(to_row, (each + second.T[:, None, :]).max(2).T)
        np.testing.assert_array_equal(to_column, (each + first.T[:, :, None]).max(1).T)
    laid, each = np.exp(laid), np.exp(each)
    for run in (sums, sums.function):
        run(laid, begin, shared, rows, columns, *vectors)
        np.testing.assert_allclose(to_row, np.einsum("lij,jl->il", each, second), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(to_column, np.einsum("lij,il->jl", each, first), rtol=1e-5, atol=1e-5)
