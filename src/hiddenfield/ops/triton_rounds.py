"""The Triton kernels of rounds of messages, forward and backward; imported when the first of them runs on a GPU."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

from hiddenfield.shapes import Float, Int, Tensor

if TYPE_CHECKING:
    from hiddenfield.ops.rounds import Plan

# Rows that are read before any is added.
AHEAD = 4

# In each precision: rows of a tile, warps of a program, the most registers of a thread, and programs per
# multiprocessor, of which each goes through many tiles with its matrix at hand.
Shape = tuple[int, int, int | None, int]
FORWARD: dict[str, Shape] = {"exact": (32, 4, None, 4), "tf32": (32, 4, 128, 4), "bf16": (64, 4, 128, 4)}
BACKWARD: dict[str, Shape] = {"exact": (32, 4, 128, 4), "tf32": (32, 4, 128, 4), "bf16": (64, 4, 128, 4)}

# Of `through`: rows of a tile. Of `collect`: in each precision rows of a tile and loads ahead; programs per
# multiprocessor.
ROWS_THROUGH = 64
TILES_OF_SUMS, PROGRAMS = {"exact": (32, 2), "tf32": (64, 1), "bf16": (32, 2)}, 2

# How products are exact: six products of parts of eight bits are as exact as single precision, and faster than three of
# TF32. (Triton's interpreter knows only the latter.)
EXACT = "bf16x6" if torch.cuda.is_available() else "tf32x3"


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
    plan: Plan,
    sums: Float[Tensor, "rows dim"] | None = None,
) -> None:
    r"""Write :math:`z_r = c_r + W s_r` with sums :math:`s_r = \sum_p \sigma(x_p)` over the ranges, kept if wanted.

    Where :math:`\sigma` is the rectifier, z is written rectified.
    """
    if not out.numel():
        return
    pointers, switches = ranges.arguments(out)
    shape = FORWARD[plan.precision]
    with _device(out):
        _forward[(_programs(ranges.rows, out, shape),)](
            inputs.values,
            out if inputs.kind is None else inputs.kind,
            *pointers.values(),
            weight,
            constant.values,
            out if constant.kind is None else constant.kind,
            out,
            out if sums is None else sums,
            ranges.rows,
            out.shape[1],
            **switches,
            INPUTS_BY_KIND=inputs.kind is not None,
            BY_KIND=constant.kind is not None,
            STORE_SUMS=sums is not None,
            **_shape(out.shape[1], plan, shape),
        )


def backward(
    gradient: Float[Tensor, "results dim"],
    ranges: Ranges,
    weight: Float[Tensor, "dim dim"],
    inputs: Rows,
    out: Float[Tensor, "rows dim"],
    plan: Plan,
    *,
    add: bool,
) -> None:
    r"""Write the gradient by the inputs before :math:`\sigma`: :math:`z_s = \sigma'(x_s)\, W^\top \sum_p g_p`.

    The sums run over the transposed ranges; g is the gradient by the results, before theirs. With `add` it is added to
    what is there.
    """
    if not out.numel():
        return
    pointers, switches = ranges.arguments(gradient)
    shape = BACKWARD[plan.precision]
    with _device(gradient):
        _backward[(_programs(ranges.rows, out, shape),)](
            gradient,
            *pointers.values(),
            weight,
            inputs.values,
            out if inputs.kind is None else inputs.kind,
            out,
            ranges.rows,
            out.shape[1],
            **switches,
            INPUTS_BY_KIND=inputs.kind is not None,
            ADD=add,
            **_shape(out.shape[1], plan, shape),
        )


def through(
    gradient: Float[Tensor, "rows dim"], inputs: Rows, out: Float[Tensor, "rows dim"], plan: Plan
) -> None:
    r"""Write :math:`z_s = \sigma'(x_s) g_s`."""
    if not out.numel():
        return
    with _device(gradient):
        _through[(triton.cdiv(len(out), ROWS_THROUGH),)](
            gradient.contiguous(),
            inputs.values,
            out if inputs.kind is None else inputs.kind,
            out,
            *out.shape,
            BY_KIND=inputs.kind is not None,
            ACTIVATION=plan.activation,
            TILE=ROWS_THROUGH,
            WIDTH=_padded(out.shape[1]),
        )


def collect(
    gradients: Float[Tensor, "results rows dim"],
    sums: Float[Tensor, "rounds rows dim"] | None,
    kind: Int[Tensor, " rows"] | None,
    kinds: int,
    precision: str,
) -> tuple[Float[Tensor, "dim dim"] | None, Float[Tensor, "kinds_or_rows dim"]]:
    r"""Return the gradients by a matrix, :math:`\sum g_{tr} s_{tr}^\top`, and by a constant, :math:`\sum_t g_{tr}`.

    The latter is summed over the rows of each kind, if there are kinds. There may be one more g than there are s, that
    of the start. Every program adds up the tiles that are its own, in one order, and a sum over programs follows.
    """
    results, rows, dim = gradients.shape
    rounds = 0 if sums is None else len(sums)
    tile, stages = TILES_OF_SUMS[precision]
    programs = max(1, min(triton.cdiv(rows, tile), PROGRAMS * _processors(gradients)))
    # Every program has a row for its parts of the matrix and of the table, so that all are summed in one launch.
    matrix = dim * dim if rounds else 0
    parts = gradients.new_empty(programs, matrix + (0 if kind is None else kinds * dim), dtype=torch.float32)
    by_constant = parts[:, matrix:]
    if kind is None:
        by_constant = gradients.new_empty(rows, dim, dtype=torch.float32)
    low = precision == "bf16"
    with _device(gradients):
        _collect[(programs,)](
            gradients,
            gradients if sums is None else sums,
            gradients if kind is None else kind,
            parts if rounds else by_constant,
            by_constant,
            rows,
            dim,
            kinds,
            parts.shape[1],
            ROUNDS=rounds,
            START=results > rounds,
            BY_KIND=kind is not None,
            KINDS=16 if kind is None else _padded(kinds),
            TILE=tile,
            WIDTH=_padded(dim),
            PRECISION="tf32" if precision == "tf32" else EXACT,
            LOW=low,
            num_warps=4 if dim <= 64 else 8,
            num_stages=stages,
        )
    whole = parts.sum(0)
    constants = by_constant if kind is None else whole[matrix:].view(kinds, dim)
    return whole[:matrix].view(dim, dim) if rounds else None, constants


def _programs(rows: int, values: Tensor, shape: Shape) -> int:
    tile, _, _, most = shape
    return min(triton.cdiv(rows, tile), most * _processors(values))


def _shape(dim: int, plan: Plan, shape: Shape) -> dict[str, Any]:
    tile, warps, registers, _ = shape
    return {
        "TILE": tile,
        "AHEAD": AHEAD,
        "WIDTH": _padded(dim),
        "ACTIVATION": plan.activation,
        "PRECISION": "tf32" if plan.precision == "tf32" else EXACT,
        "LOW": plan.precision == "bf16",
        "num_warps": warps if dim <= 64 else 2 * warps,
        "maxnreg": registers if dim <= 64 else None,
    }


def _padded(size: int) -> int:
    """Return the size of a tile that a product takes."""
    return max(16, triton.next_power_of_2(size))


def _processors(values: Tensor) -> int:
    return torch.cuda.get_device_properties(values.device).multi_processor_count if values.is_cuda else 2


def _device(values: Tensor) -> Any:
    return torch.cuda.device(values.device) if values.is_cuda else nullcontext()


@triton.jit
def _activated(x, ACTIVATION: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    if ACTIVATION == "relu":
        return tl.maximum(x, 0.0)
    elif ACTIVATION == "tanh":
        return 2.0 * tl.sigmoid(2.0 * x) - 1.0
    elif ACTIVATION == "sigmoid":
        return tl.sigmoid(x)
    elif ACTIVATION == "gelu":
        return 0.5 * x * (1.0 + tl.erf(0.7071067811865476 * x))
    elif ACTIVATION == "silu":
        return x * tl.sigmoid(x)
    else:
        tl.static_assert(ACTIVATION == "softplus")
        return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _slope(x, ACTIVATION: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    if ACTIVATION == "relu":
        return tl.where(x > 0.0, 1.0, 0.0)
    elif ACTIVATION == "tanh":
        y = 2.0 * tl.sigmoid(2.0 * x) - 1.0
        return 1.0 - y * y
    elif ACTIVATION == "gelu":
        return 0.5 * (1.0 + tl.erf(0.7071067811865476 * x)) + 0.3989422804014327 * x * tl.exp(-0.5 * x * x)
    else:
        y = tl.sigmoid(x)
        if ACTIVATION == "sigmoid":
            y = y * (1.0 - y)
        if ACTIVATION == "silu":
            y = y * (1.0 + x * (1.0 - y))
        return y


@triton.jit
def _row(values, place, live, column, there, dim) -> Any:  # type: ignore[no-untyped-def]
    where = values + place.to(tl.int64)[:, None] * dim + column[None, :]
    return tl.load(where, mask=live[:, None] & there[None, :], other=0.0).to(tl.float32)


@triton.jit
def _one(  # type: ignore[no-untyped-def]
    values, kind, read, place, end, left_out, live, column, there, dim,
    HAS_READ: tl.constexpr, HAS_SKIP: tl.constexpr, BY_KIND: tl.constexpr, ACTIVATION: tl.constexpr,
) -> Any:  # fmt: skip
    # -1 stands for no row. (With one mask for two loads, one after the other, the compiler of Triton 3.6 gives up.)
    taken = live & (place < end)
    chosen = tl.load(read + place, mask=taken, other=-1) if HAS_READ else tl.where(taken, place, -1)
    if HAS_SKIP:
        chosen = tl.where(chosen == left_out, -1, chosen)
    if BY_KIND:
        chosen = tl.load(kind + chosen, mask=chosen >= 0, other=-1)
    x = _row(values, chosen, chosen >= 0, column, there, dim)
    if ACTIVATION == "":
        return x
    elif ACTIVATION == "sigmoid" or ACTIVATION == "softplus":  # which do not keep 0
        return tl.where((chosen >= 0)[:, None], _activated(x, ACTIVATION), 0.0)
    else:
        return _activated(x, ACTIVATION)


@triton.jit
def _summed(  # type: ignore[no-untyped-def]
    values, kind, ptr, key, read, skip, row, live, column, there, dim,
    HAS_PTR: tl.constexpr, HAS_KEY: tl.constexpr, HAS_READ: tl.constexpr, HAS_SKIP: tl.constexpr,
    BY_KIND: tl.constexpr, ACTIVATION: tl.constexpr, AHEAD: tl.constexpr,
) -> Any:  # fmt: skip
    keys = tl.load(key + row, mask=live, other=0) if HAS_KEY else row
    left_out = tl.load(skip + row, mask=live, other=-1) if HAS_SKIP else row
    if HAS_PTR:
        begin = tl.load(ptr + keys, mask=live, other=0)
        end = tl.load(ptr + keys + 1, mask=live, other=0)
        total = _one(
            values, kind, read, begin, end, left_out, live, column, there, dim, HAS_READ, HAS_SKIP, BY_KIND, ACTIVATION
        )  # fmt: skip
        for step in tl.static_range(1, AHEAD):
            total += _one(
                values, kind, read, begin + step, end, left_out, live, column, there, dim,
                HAS_READ, HAS_SKIP, BY_KIND, ACTIVATION,
            )  # fmt: skip
        longest = tl.max(end - begin, axis=0)
        for step in range(AHEAD, longest):
            total += _one(
                values, kind, read, begin + step, end, left_out, live, column, there, dim,
                HAS_READ, HAS_SKIP, BY_KIND, ACTIVATION,
            )  # fmt: skip
    else:
        total = _one(
            values, kind, read, keys, keys + 1, left_out, live, column, there, dim,
            HAS_READ, HAS_SKIP, BY_KIND, ACTIVATION,
        )  # fmt: skip
    return total


@triton.jit
def _times(left, right, second, third, PRECISION: tl.constexpr, LOW: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    """Multiply by a matrix or, where six products of parts are exact, by its three parts."""
    if LOW:
        return tl.dot(left.to(tl.bfloat16), right)
    elif PRECISION == "bf16x6":
        one = left.to(tl.bfloat16)
        left -= one.to(tl.float32)
        two = left.to(tl.bfloat16)
        three = (left - two.to(tl.float32)).to(tl.bfloat16)
        small = tl.dot(three, right)
        small = tl.dot(two, second, small)
        small = tl.dot(one, third, small)
        small = tl.dot(two, right, small)
        small = tl.dot(one, second, small)
        return tl.dot(one, right, small)
    else:
        return tl.dot(left, right, input_precision=PRECISION)


@triton.jit(do_not_specialize=["rows"])
def _forward(  # type: ignore[no-untyped-def]
    inputs, input_kind, ptr, key, read, skip, weight, constant, kind, out, sums, rows, dim,
    HAS_PTR: tl.constexpr, HAS_KEY: tl.constexpr, HAS_READ: tl.constexpr, HAS_SKIP: tl.constexpr,
    INPUTS_BY_KIND: tl.constexpr, BY_KIND: tl.constexpr, STORE_SUMS: tl.constexpr, ACTIVATION: tl.constexpr,
    TILE: tl.constexpr, AHEAD: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr, LOW: tl.constexpr,
) -> Any:  # fmt: skip
    column, inner = tl.arange(0, WIDTH), tl.arange(0, WIDTH)
    there = column < dim
    matrix, second, third = _matrix(
        weight + column[None, :] * dim + inner[:, None], there[None, :] & (inner < dim)[:, None], PRECISION, LOW
    )  # fmt: skip
    for first in range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE):
        row = first + tl.arange(0, TILE)
        live = row < rows
        total = _summed(
            inputs, input_kind, ptr, key, read, skip, row, live, column, there, dim,
            HAS_PTR, HAS_KEY, HAS_READ, HAS_SKIP, INPUTS_BY_KIND, ACTIVATION, AHEAD,
        )  # fmt: skip
        where = row.to(tl.int64)[:, None] * dim + column[None, :]
        mask = live[:, None] & there[None, :]
        if STORE_SUMS:
            tl.store(sums + where, total, mask=mask)
        place = tl.load(kind + row, mask=live, other=0) if BY_KIND else row
        result = _times(total, matrix, second, third, PRECISION, LOW) + _row(
            constant, place, live, column, there, dim
        )
        if ACTIVATION == "relu":
            result = tl.maximum(result, 0.0)
        tl.store(out + where, result, mask=mask)


@triton.jit(do_not_specialize=["rows"])
def _backward(  # type: ignore[no-untyped-def]
    gradient, ptr, key, read, skip, weight, inputs, input_kind, out, rows, dim,
    HAS_PTR: tl.constexpr, HAS_KEY: tl.constexpr, HAS_READ: tl.constexpr, HAS_SKIP: tl.constexpr,
    INPUTS_BY_KIND: tl.constexpr, ADD: tl.constexpr, ACTIVATION: tl.constexpr,
    TILE: tl.constexpr, AHEAD: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr, LOW: tl.constexpr,
) -> Any:  # fmt: skip
    column, inner = tl.arange(0, WIDTH), tl.arange(0, WIDTH)
    there = column < dim
    matrix, second, third = _matrix(
        weight + inner[:, None] * dim + column[None, :], there[None, :] & (inner < dim)[:, None], PRECISION, LOW
    )  # fmt: skip
    for first in range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE):
        row = first + tl.arange(0, TILE)
        live = row < rows
        total = _summed(
            gradient, gradient, ptr, key, read, skip, row, live, column, there, dim,
            HAS_PTR, HAS_KEY, HAS_READ, HAS_SKIP, False, "", AHEAD,
        )  # fmt: skip
        place = tl.load(input_kind + row, mask=live, other=0) if INPUTS_BY_KIND else row
        slope = _slope(_row(inputs, place, live, column, there, dim), ACTIVATION)
        back = _times(total, matrix, second, third, PRECISION, LOW) * slope
        where = out + row.to(tl.int64)[:, None] * dim + column[None, :]
        mask = live[:, None] & there[None, :]
        if ADD:
            back += tl.load(where, mask=mask, other=0.0).to(tl.float32)
        tl.store(where, back, mask=mask)


@triton.jit
def _matrix(where, mask, PRECISION: tl.constexpr, LOW: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    """Load a matrix, in three parts of eight bits each where products are exact by them."""
    whole = tl.load(where, mask=mask, other=0.0)
    if LOW:
        whole = whole.to(tl.bfloat16)
        return whole, whole, whole
    elif PRECISION == "bf16x6":
        one = whole.to(tl.bfloat16)
        whole -= one.to(tl.float32)
        two = whole.to(tl.bfloat16)
        return one, two, (whole - two.to(tl.float32)).to(tl.bfloat16)
    else:
        return whole, whole, whole


@triton.jit(do_not_specialize=["rows"])
def _through(  # type: ignore[no-untyped-def]
    gradient, inputs, kind, out, rows, dim,
    BY_KIND: tl.constexpr, ACTIVATION: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
) -> Any:  # fmt: skip
    row, column = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, WIDTH)
    live, there = row < rows, column < dim
    place = tl.load(kind + row, mask=live, other=0) if BY_KIND else row
    slope = _slope(_row(inputs, place, live, column, there, dim), ACTIVATION)
    back = _row(gradient, row, live, column, there, dim) * slope
    tl.store(
        out + row.to(tl.int64)[:, None] * dim + column[None, :], back, mask=live[:, None] & there[None, :]
    )


@triton.jit(do_not_specialize=["rows"])
def _collect(  # type: ignore[no-untyped-def]
    gradients, sums, kind, by_weight, by_constant, rows, dim, kinds, stride,
    ROUNDS: tl.constexpr, START: tl.constexpr, BY_KIND: tl.constexpr, KINDS: tl.constexpr,
    TILE: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr, LOW: tl.constexpr,
) -> Any:  # fmt: skip
    program = tl.program_id(0)
    column, inner, symbol = tl.arange(0, WIDTH), tl.arange(0, WIDTH), tl.arange(0, KINDS)
    there = column < dim
    weight = tl.zeros((WIDTH, WIDTH), dtype=tl.float32)
    table = tl.zeros((KINDS, WIDTH), dtype=tl.float32)
    size = rows.to(tl.int64) * dim
    for first in range(program * TILE, rows, tl.num_programs(0) * TILE):
        row = first + tl.arange(0, TILE)
        live = row < rows
        total = tl.zeros((TILE, WIDTH), dtype=tl.float32)
        for step in tl.static_range(ROUNDS):
            back = _row(gradients + step * size, row, live, column, there, dim)
            x = _row(sums + step * size, row, live, column, there, dim)
            weight += _product(tl.trans(back), x, PRECISION, LOW)
            total += back
        if START:
            total += _row(gradients + ROUNDS * size, row, live, column, there, dim)
        if BY_KIND:
            symbols = tl.load(kind + row, mask=live, other=-1)
            one_hot = (symbol[:, None] == symbols[None, :]).to(tl.float32)
            table += _picked(one_hot, total, PRECISION, LOW)
        else:
            mask = live[:, None] & there[None, :]
            tl.store(by_constant + row.to(tl.int64)[:, None] * dim + column[None, :], total, mask=mask)
    if ROUNDS > 0:
        where = program.to(tl.int64) * stride + inner[:, None] * dim + column[None, :]
        tl.store(by_weight + where, weight, mask=(inner < dim)[:, None] & there[None, :])
    if BY_KIND:
        where = program.to(tl.int64) * stride + symbol[:, None] * dim + column[None, :]
        tl.store(by_constant + where, table, mask=(symbol < kinds)[:, None] & there[None, :])


@triton.jit
def _product(left, right, PRECISION: tl.constexpr, LOW: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    if LOW:
        return tl.dot(left.to(tl.bfloat16), right.to(tl.bfloat16))
    else:
        return tl.dot(left, right, input_precision=PRECISION)


@triton.jit
def _picked(one_hot, values, PRECISION: tl.constexpr, LOW: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    if LOW:
        return tl.dot(one_hot.to(tl.bfloat16), values.to(tl.bfloat16))
    elif PRECISION == "tf32":
        return tl.dot(one_hot, values, input_precision="tf32")
    else:
        # Products with 0 and 1 are exact, so that two parts of 11 bits are all that a number needs.
        high = (values.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
        low = tl.dot(one_hot, values - high, input_precision="tf32")
        return tl.dot(one_hot, high, low, input_precision="tf32")
