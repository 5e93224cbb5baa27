"""The Triton kernels of rounds of messages, forward and backward; imported when the first of them runs on a GPU."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from hiddenfield.shapes import Float, Int, Tensor

# Rows of a tile; rows read before any is added; programs that share the gradients, per multiprocessor; warps.
TILE, AHEAD, PROGRAMS, WARPS = 64, 4, 2, 4


@dataclass(frozen=True, eq=False)
class Ranges:
    r"""Which rows are summed for each of `rows` results: read(p) for all p in the range of its key, but its `skip`.

    What is None is the identity, and `ptr` None means ranges of one row.
    """

    rows: int
    ptr: Int[Tensor, " bounds"] | None = None
    key: Int[Tensor, " rows"] | None = None
    read: Int[Tensor, " places"] | None = None
    skip: Int[Tensor, " rows"] | None = None

    def arguments(self, nothing: Tensor) -> tuple[dict[str, Any], dict[str, bool]]:
        """Return the kernels' pointers and switches; `nothing` stands where there is none."""
        names = ("ptr", "key", "read", "skip")
        given = {name: getattr(self, name) for name in names}
        pointers = {name: nothing if value is None else value for name, value in given.items()}
        return pointers, {f"HAS_{name.upper()}": value is not None for name, value in given.items()}


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of numbers, or a table of which each row is the one of its kind."""

    values: Float[Tensor, "rows dim"]
    kind: Int[Tensor, " rows"] | None = None


def forward(
    inputs: Rows,
    ranges: Ranges,
    weight: Float[Tensor, "dim dim"],
    constant: Rows,
    out: Float[Tensor, "rows dim"],
    precision: str,
    rectify_inputs: bool = False,
) -> None:
    r"""Write :math:`y_r = \max(0, c_r + W \sum_p x_p)`, the sum over the ranges; one launch."""
    if not out.numel():
        return
    pointers, switches = ranges.arguments(out)
    with _device(out):
        _forward[(triton.cdiv(ranges.rows, TILE),)](
            inputs.values,
            out if inputs.kind is None else inputs.kind,
            *pointers.values(),
            weight,
            constant.values,
            out if constant.kind is None else constant.kind,
            out,
            ranges.rows,
            out.shape[1],
            **switches,
            INPUTS_BY_KIND=inputs.kind is not None,
            RECTIFY_INPUTS=rectify_inputs,
            BY_KIND=constant.kind is not None,
            **_shape(out.shape[1], precision, weight),
        )


def backward(
    gradient: Float[Tensor, "results dim"],
    ranges: Ranges,
    weight: Float[Tensor, "dim dim"],
    inputs: Rows,
    precision: str,
    *,
    rectify_inputs: bool,
    kind: Int[Tensor, " rows"] | None,
    kinds: int,
    out: Float[Tensor, "rows dim"] | None,
    add: bool,
) -> tuple[Float[Tensor, "programs dim dim"], Float[Tensor, "programs kinds dim"] | None]:
    r"""Write the gradient by the inputs, before their rectifier, and return parts of those by the weight and a table.

    .. math::
        h_s = \sum_p g_p, \qquad z_s = [x_s > 0]\, W^\top h_s, \qquad
        G = \sum_s h_s x_s^\top, \qquad t_k = \sum_{s: k(s) = k} z_s

    with sums over the transposed ranges. Every program adds up the tiles that are its own, in one order.

    Parameters
    ----------
    gradient
        By the results, before their rectifier.
    kind, kinds
        Of the rows of the constant that the inputs were made with, and how many; None for no table.
    out, add
        Where z goes, if it is wanted, and whether it is added to what is there.
    """
    rows, dim = ranges.rows, gradient.shape[1]
    tiles = triton.cdiv(rows, TILE)
    programs = max(1, min(tiles, PROGRAMS * _processors(gradient)))
    weight_part = torch.empty(programs, dim, dim, dtype=torch.float32, device=gradient.device)
    table_part = None if kind is None else weight_part.new_empty(programs, kinds, dim)
    pointers, switches = ranges.arguments(gradient)
    with _device(gradient):
        _backward[(programs,)](
            gradient,
            *pointers.values(),
            weight,
            inputs.values,
            gradient if inputs.kind is None else inputs.kind,
            gradient if kind is None else kind,
            gradient if out is None else out,
            weight_part,
            weight_part if table_part is None else table_part,
            rows,
            dim,
            kinds,
            **switches,
            INPUTS_BY_KIND=inputs.kind is not None,
            RECTIFY_INPUTS=rectify_inputs,
            BY_KIND=kind is not None,
            STORE=out is not None,
            ADD=add,
            KINDS=_padded(kinds),
            **_shape(dim, precision, weight),
        )
    return weight_part, table_part


def table_gradient(
    gradient: Float[Tensor, "rows dim"],
    results: Float[Tensor, "rows dim"],
    kind: Int[Tensor, " rows"],
    kinds: int,
    precision: str,
) -> tuple[Float[Tensor, "rows dim"], Float[Tensor, "programs kinds dim"]]:
    """Return the gradient before the rectifier, and parts of its sums over the rows of each kind."""
    rows, dim = gradient.shape
    gradient = gradient.contiguous()
    programs = max(1, min(triton.cdiv(rows, TILE), PROGRAMS * _processors(gradient)))
    out = torch.empty_like(results)
    part = torch.empty(programs, kinds, dim, dtype=torch.float32, device=gradient.device)
    with _device(gradient):
        _table[(programs,)](
            gradient, results, kind, out, part, rows, dim, kinds, KINDS=_padded(kinds), **_shape(dim, precision, part)
        )  # fmt: skip
    return out, part


def _shape(dim: int, precision: str, weight: Tensor) -> dict[str, Any]:
    low = precision == "bf16"
    return {
        "TILE": TILE,
        "AHEAD": AHEAD,
        "WIDTH": _padded(dim),
        "PRECISION": "ieee" if low else precision,
        "LOW": low,
        "num_warps": WARPS if dim <= 64 else 2 * WARPS,
    }


def _padded(size: int) -> int:
    """Return the size of a tile that a product takes."""
    return max(16, triton.next_power_of_2(size))


def _processors(values: Tensor) -> int:
    return torch.cuda.get_device_properties(values.device).multi_processor_count if values.is_cuda else 2


def _device(values: Tensor) -> Any:
    return torch.cuda.device(values.device) if values.is_cuda else nullcontext()


@triton.jit
def _row(  # type: ignore[no-untyped-def]
    values, place, live, column, there, dim, RECTIFY: tl.constexpr
) -> Any:
    x = tl.load(
        values + place.to(tl.int64)[:, None] * dim + column[None, :], mask=live[:, None] & there[None, :], other=0.0
    ).to(tl.float32)  # fmt: skip
    return tl.maximum(x, 0.0) if RECTIFY else x


@triton.jit
def _one(  # type: ignore[no-untyped-def]
    values, kind, read, place, end, left_out, live, column, there, dim,
    HAS_READ: tl.constexpr, HAS_SKIP: tl.constexpr, BY_KIND: tl.constexpr, RECTIFY: tl.constexpr,
) -> Any:  # fmt: skip
    taken = live & (place < end)
    chosen = tl.load(read + place, mask=taken, other=0) if HAS_READ else place
    if HAS_SKIP:
        taken = taken & (chosen != left_out)
    if BY_KIND:
        chosen = tl.load(kind + chosen, mask=taken, other=0)
    return _row(values, chosen, taken, column, there, dim, RECTIFY)


@triton.jit
def _summed(  # type: ignore[no-untyped-def]
    values, kind, ptr, key, read, skip, row, live, column, there, dim,
    HAS_PTR: tl.constexpr, HAS_KEY: tl.constexpr, HAS_READ: tl.constexpr, HAS_SKIP: tl.constexpr,
    BY_KIND: tl.constexpr, RECTIFY: tl.constexpr, AHEAD: tl.constexpr,
) -> Any:  # fmt: skip
    keys = tl.load(key + row, mask=live, other=0) if HAS_KEY else row
    left_out = tl.load(skip + row, mask=live, other=-1) if HAS_SKIP else row
    if HAS_PTR:
        begin = tl.load(ptr + keys, mask=live, other=0)
        end = tl.load(ptr + keys + 1, mask=live, other=0)
        total = _one(
            values, kind, read, begin, end, left_out, live, column, there, dim, HAS_READ, HAS_SKIP, BY_KIND, RECTIFY
        )  # fmt: skip
        for step in tl.static_range(1, AHEAD):
            total += _one(
                values, kind, read, begin + step, end, left_out, live, column, there, dim,
                HAS_READ, HAS_SKIP, BY_KIND, RECTIFY,
            )  # fmt: skip
        longest = tl.max(end - begin, axis=0)
        for step in range(AHEAD, longest):
            total += _one(
                values, kind, read, begin + step, end, left_out, live, column, there, dim,
                HAS_READ, HAS_SKIP, BY_KIND, RECTIFY,
            )  # fmt: skip
    else:
        total = _one(
            values, kind, read, keys, keys + 1, left_out, live, column, there, dim,
            HAS_READ, HAS_SKIP, BY_KIND, RECTIFY,
        )  # fmt: skip
    return total


@triton.jit
def _times(left, right, PRECISION: tl.constexpr, LOW: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    if LOW:
        return tl.dot(left.to(tl.bfloat16), right.to(tl.bfloat16))
    return tl.dot(left, right, input_precision=PRECISION)


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    inputs, input_kind, ptr, key, read, skip, weight, constant, kind, out, rows, dim,
    HAS_PTR: tl.constexpr, HAS_KEY: tl.constexpr, HAS_READ: tl.constexpr, HAS_SKIP: tl.constexpr,
    INPUTS_BY_KIND: tl.constexpr, RECTIFY_INPUTS: tl.constexpr, BY_KIND: tl.constexpr,
    TILE: tl.constexpr, AHEAD: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr, LOW: tl.constexpr,
) -> Any:  # fmt: skip
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column, inner = tl.arange(0, WIDTH), tl.arange(0, WIDTH)
    live, there = row < rows, column < dim
    total = _summed(
        inputs, input_kind, ptr, key, read, skip, row, live, column, there, dim,
        HAS_PTR, HAS_KEY, HAS_READ, HAS_SKIP, INPUTS_BY_KIND, RECTIFY_INPUTS, AHEAD,
    )  # fmt: skip
    matrix = tl.load(
        weight + column[None, :] * dim + inner[:, None], mask=there[None, :] & (inner < dim)[:, None], other=0.0
    )  # fmt: skip
    place = tl.load(kind + row, mask=live, other=0) if BY_KIND else row
    result = _times(total, matrix, PRECISION, LOW) + _row(constant, place, live, column, there, dim, False)
    tl.store(
        out + row.to(tl.int64)[:, None] * dim + column[None, :],
        tl.maximum(result, 0.0),
        mask=live[:, None] & there[None, :],
    )


@triton.jit
def _backward(  # type: ignore[no-untyped-def]
    gradient, ptr, key, read, skip, weight, inputs, input_kind, kind, out, weight_part, table_part, rows, dim, kinds,
    HAS_PTR: tl.constexpr, HAS_KEY: tl.constexpr, HAS_READ: tl.constexpr, HAS_SKIP: tl.constexpr,
    INPUTS_BY_KIND: tl.constexpr, RECTIFY_INPUTS: tl.constexpr, BY_KIND: tl.constexpr,
    STORE: tl.constexpr, ADD: tl.constexpr, KINDS: tl.constexpr,
    TILE: tl.constexpr, AHEAD: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr, LOW: tl.constexpr,
) -> Any:  # fmt: skip
    program = tl.program_id(0)
    column, inner, symbol = tl.arange(0, WIDTH), tl.arange(0, WIDTH), tl.arange(0, KINDS)
    there = column < dim
    whole = (inner < dim)[:, None] & there[None, :]
    square = inner[:, None] * dim + column[None, :]
    matrix = tl.load(weight + square, mask=whole, other=0.0)
    by_weight = tl.zeros((WIDTH, WIDTH), dtype=tl.float32)
    by_table = tl.zeros((KINDS, WIDTH), dtype=tl.float32)
    for first in range(program * TILE, rows, tl.num_programs(0) * TILE):
        row = first + tl.arange(0, TILE)
        live = row < rows
        total = _summed(
            gradient, gradient, ptr, key, read, skip, row, live, column, there, dim,
            HAS_PTR, HAS_KEY, HAS_READ, HAS_SKIP, False, False, AHEAD,
        )  # fmt: skip
        place = tl.load(input_kind + row, mask=live, other=0) if INPUTS_BY_KIND else row
        x = _row(inputs, place, live, column, there, dim, RECTIFY_INPUTS)
        by_weight += _times(tl.trans(total), x, PRECISION, LOW)
        back = tl.where(x > 0, _times(total, matrix, PRECISION, LOW), 0.0)
        if BY_KIND:
            symbols = tl.load(kind + row, mask=live, other=0)
            one_hot = (symbol[:, None] == symbols[None, :]).to(tl.float32)
            by_table += _times(one_hot, back, PRECISION, LOW)
        if STORE:
            where = out + row.to(tl.int64)[:, None] * dim + column[None, :]
            mask = live[:, None] & there[None, :]
            if ADD:
                back += tl.load(where, mask=mask, other=0.0).to(tl.float32)
            tl.store(where, back, mask=mask)
    tl.store(weight_part + program.to(tl.int64) * dim * dim + square, by_weight, mask=whole)
    if BY_KIND:
        tl.store(
            table_part + (program.to(tl.int64) * kinds + symbol[:, None]) * dim + column[None, :],
            by_table,
            mask=(symbol < kinds)[:, None] & there[None, :],
        )


@triton.jit
def _table(  # type: ignore[no-untyped-def]
    gradient, results, kind, out, part, rows, dim, kinds, KINDS: tl.constexpr,
    TILE: tl.constexpr, AHEAD: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr, LOW: tl.constexpr,
) -> Any:  # fmt: skip
    program = tl.program_id(0)
    column, symbol = tl.arange(0, WIDTH), tl.arange(0, KINDS)
    there = column < dim
    by_table = tl.zeros((KINDS, WIDTH), dtype=tl.float32)
    for first in range(program * TILE, rows, tl.num_programs(0) * TILE):
        row = first + tl.arange(0, TILE)
        live = row < rows
        back = _row(gradient, row, live, column, there, dim, False)
        back = tl.where(_row(results, row, live, column, there, dim, False) > 0, back, 0.0)
        symbols = tl.load(kind + row, mask=live, other=0)
        by_table += _times((symbol[:, None] == symbols[None, :]).to(tl.float32), back, PRECISION, LOW)
        mask = live[:, None] & there[None, :]
        tl.store(out + row.to(tl.int64)[:, None] * dim + column[None, :], back, mask=mask)
    tl.store(
        part + (program.to(tl.int64) * kinds + symbol[:, None]) * dim + column[None, :],
        by_table,
        mask=(symbol < kinds)[:, None] & there[None, :],
    )
