"""Products of many small tables with vectors, side by side in the lanes of vectors, sums kept in registers.

Loops over lanes that the compiler finds by itself keep their sums in memory; so the vectors are written out here.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from hiddenfield.ops.compile import Subroutine

__all__ = ["in_lanes", "lane_maxima", "lane_products"]

WIDTH = 64
"""Bytes of a vector in the generated code: the widest registers there are. For others the compiler splits it."""

ROWS = 4
"""Rows that are worked on at once: what belongs to a column is loaded and stored once for so many."""


def in_lanes(tables: Any, lanes: int) -> Any:
    """Lay tables (factors, entries), a multiple of `lanes` of them, out as `lane_products` reads them.

    In vectors of a few lanes, entry by entry, so that a block's tables are read from front to back.
    """
    factors, entries = tables.shape
    width = min(lanes, WIDTH // tables.itemsize)
    return np.ascontiguousarray(tables.reshape(factors // width, width, entries).transpose(0, 2, 1)).ravel()


class LaneProduct(Subroutine):
    r"""Multiply the tables of a block of factors with vectors from both sides.

    .. math::

        r_i = \sum_j T_{ij} c'_j, \qquad c_j = \sum_i T_{ij} r'_i,

    or :math:`\max_j (T_{ij} + c'_j)` and :math:`\max_i (T_{ij} + r'_i)` where it maximises. Arguments: the constant
    number of lanes; the tables, where those of the block begin, and whether all lanes share one; rows and columns; the
    vectors :math:`r'`, :math:`c'`, r, c as pointers, state s of lane l at ``s * lanes + l``.
    """

    def __init__(self, maximise: bool) -> None:
        super().__init__(lambda *arguments: _in_python(maximise, *arguments))
        self.maximise = maximise

    @functools.cached_property
    def compiled(self) -> Callable[..., Any]:
        """An intrinsic."""
        from numba import types
        from numba.extending import intrinsic

        maximise = self.maximise

        @intrinsic(prefer_literal=True)
        def product(  # type: ignore[no-untyped-def]
            typing, lanes, table, begin, shared, rows, columns, by_row, by_column, to_row, to_column
        ):
            number, pointers = types.int64, (by_row, by_column, to_row, to_column)
            signature = types.void(lanes, table, number, types.boolean, number, number, *pointers)

            def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
                real = context.get_value_type(table.dtype)
                size = context.get_abi_sizeof(real)
                _Writer(builder, real, size, lanes.literal_value, maximise).block(*arguments[1:])
                return context.get_dummy_value()

            return signature, generate

        return product

    @functools.cached_property
    def fingerprint(self) -> int:
        """Changes with what is generated."""
        methods = [value.__code__ for value in vars(_Writer).values() if callable(value)]
        parts = [
            (m.co_code, m.co_names, [c for c in m.co_consts if not hasattr(c, "co_code")]) for m in methods
        ]
        return zlib.crc32(repr((WIDTH, ROWS, self.maximise, parts)).encode())


class _Writer:
    """Writes the loops of a product: over vectors of lanes, rows by fours and then one by one, columns."""

    def __init__(self, builder: Any, real: Any, size: int, lanes: int, maximise: bool) -> None:
        from llvmlite import ir

        self.builder, self.size, self.lanes, self.maximise = builder, size, lanes, maximise
        self.width = min(lanes, WIDTH // size)
        self.vector = ir.VectorType(real, self.width)
        self.nothing = self.vector([-np.inf if maximise else 0.0] * self.width)

    def block(self, table: Any, begin: Any, shared: Any, rows: Any, columns: Any, *vectors: Any) -> None:
        """Multiply the tables of all lanes."""
        from numba.core import cgutils

        builder, index = self.builder, rows.type
        begin = builder.gep(table, [begin])
        rest = builder.sub(rows, builder.srem(rows, index(ROWS)))
        with cgutils.for_range(builder, index(self.lanes // self.width)) as chunk:
            lane = builder.mul(chunk.index, index(self.width))
            sides = [builder.gep(vector, [lane]) for vector in vectors]
            own = builder.gep(begin, [builder.mul(lane, builder.mul(rows, columns))])
            with cgutils.for_range(builder, columns) as column:
                self.store(self.nothing, sides[3], column.index, self.lanes)
            for count, low, high in ((ROWS, index(0), rest), (1, rest, rows)):
                with cgutils.for_range_slice(builder, low, high, index(count), intp=index) as (row, _):
                    numbers = [builder.add(row, index(i)) for i in range(count)]
                    with builder.if_else(shared) as (then, otherwise):
                        with then:
                            self.rows(begin, True, numbers, columns, *sides)
                        with otherwise:
                            self.rows(own, False, numbers, columns, *sides)

    def rows(
        self,
        table: Any,
        shared: bool,
        numbers: list[Any],
        columns: Any,
        by_row: Any,
        by_column: Any,
        to_row: Any,
        to_column: Any,
    ) -> None:
        """Multiply some rows of the tables, a vector of lanes wide."""
        from numba.core import cgutils

        builder = self.builder
        sent = [self.load(by_row, number, self.lanes) for number in numbers]
        begins = [builder.mul(number, columns) for number in numbers]
        sums = [cgutils.alloca_once(builder, self.vector) for _ in numbers]
        for each in sums:
            builder.store(self.nothing, each)
        with cgutils.for_range(builder, columns) as column:
            there, total = (self.load(side, column.index, self.lanes) for side in (by_column, to_column))
            for each, first, here in zip(sums, begins, sent, strict=True):
                at = builder.add(first, column.index)
                entry = self.broadcast(table, at) if shared else self.load(table, at, self.width)
                builder.store(self.gather(entry, there, builder.load(each)), each)
                total = self.gather(entry, here, total)
            self.store(total, to_column, column.index, self.lanes)
        for number, each in zip(numbers, sums, strict=True):
            self.store(builder.load(each), to_row, number, self.lanes)

    def gather(self, entry: Any, value: Any, total: Any) -> Any:
        """Return total + entry * value, in one instruction where there is one; or max(total, entry + value)."""
        if self.maximise:
            added = self.builder.fadd(entry, value)
            return self.builder.select(self.builder.fcmp_ordered(">", added, total), added, total)
        product = self.builder.fmul(entry, value, flags=("contract",))
        return self.builder.fadd(total, product, flags=("contract",))

    def place(self, pointer: Any, number: Any, stride: int) -> Any:
        at = self.builder.gep(pointer, [self.builder.mul(number, number.type(stride))])
        return self.builder.bitcast(at, self.vector.as_pointer())

    def load(self, pointer: Any, number: Any, stride: int) -> Any:
        return self.builder.load(self.place(pointer, number, stride), align=self.size)

    def store(self, value: Any, pointer: Any, number: Any, stride: int) -> None:
        self.builder.store(value, self.place(pointer, number, stride), align=self.size)

    def broadcast(self, pointer: Any, place: Any) -> Any:
        """Load one number for all lanes."""
        from llvmlite import ir

        lane = ir.IntType(32)
        value = self.builder.load(self.builder.gep(pointer, [place]))
        first = self.builder.insert_element(self.vector(ir.Undefined), value, lane(0))
        zeros = ir.VectorType(lane, self.width)([0] * self.width)
        return self.builder.shuffle_vector(first, first, zeros)


def _in_python(maximise: bool, lanes: int, table: Any, begin: int, shared: bool, *rest: Any) -> None:
    """Do it with NumPy."""
    rows, columns, by_row, by_column, to_row, to_column = rest
    size, width = rows * columns, min(lanes, WIDTH // table.itemsize)
    here = by_row[: rows * lanes].reshape(rows, 1, lanes)
    there = by_column[: columns * lanes].reshape(1, columns, lanes)
    if shared:
        entries = table[begin : begin + size].reshape(rows, columns, 1)
    else:
        parts = table[begin : begin + size * lanes].reshape(lanes // width, rows, columns, width)
        entries = parts.transpose(1, 2, 0, 3).reshape(rows, columns, lanes)
    if maximise:
        to_row[: rows * lanes] = (entries + there).max(1).ravel()
        to_column[: columns * lanes] = (entries + here).max(0).ravel()
    else:
        to_row[: rows * lanes] = (entries * there).sum(1).ravel()
        to_column[: columns * lanes] = (entries * here).sum(0).ravel()


lane_products = LaneProduct(maximise=False)
lane_maxima = LaneProduct(maximise=True)
