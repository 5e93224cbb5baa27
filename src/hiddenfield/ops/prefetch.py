"""Prefetching: asking for a row of a table before it is needed, so that compiled loops do not wait for memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hiddenfield.ops.compile import Subroutine
from hiddenfield.shapes import Array

LINE_BYTES = 64
"""Of a cache line."""


class Prefetch(Subroutine):
    """The processor's own instruction as a subroutine; as plain Python it does nothing."""

    @functools.cached_property
    def compiled(self) -> Callable[..., Any]:
        """What compiled loops call: an intrinsic of LLVM."""
        from llvmlite import ir
        from numba import types
        from numba.core import cgutils
        from numba.extending import intrinsic

        def prefetch(typing: Any, table: Any, row: Any, column: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                array = context.make_array(signature.args[0])(context, builder, values[0])
                place = cgutils.get_item_pointer(context, builder, signature.args[0], array, values[1:])
                byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
                kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
                ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
                # It will be written; keep it in all caches; it is data.
                options = [ir.Constant(number, value) for value in (1, 3, 1)]
                builder.call(ask, [builder.bitcast(place, byte), *options])
                return context.get_dummy_value()

            return types.void(table, row, column), generate

        made: Callable[..., Any] = intrinsic(prefetch)
        return made


def _nothing(table: Array, row: int, column: int) -> None:
    """Ask for the cache line of ``table[row, column]``, of a table with two axes; nothing is waited for."""


prefetch = Prefetch(_nothing)
