"""The Triton kernels of rounds of messages, forward and backward; imported when the first of them runs on a GPU."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from hiddenfield.shapes import Float, Int, Tensor

# Rows of a tile; rows read before any is added; warps.
TILE, AHEAD, WARPS = 64, 4, 4

# Of `collect`, in each precision: rows of a tile, loads ahead; and programs per multiprocessor.
TILES_OF_SUMS, PROGRAMS = {"exact": (32, 2), "tf32": (64, 1), "bf16": (32, 2)}, 2

# How products are exact (Triton's interpreter knows fewer ways), and the most registers of a thread then.
EXACT, MOST_REGISTERS = "bf16x6" if torch.cuda.is_available() else "tf32x3", 168


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
    *,
    rectify_inputs: bool = False,
    sums: Float[Tensor, "rows dim"] | None = None,
) -> None:
    r"""Write :math:`y_r = \max(0, c_r + W s_r)`, where s are the sums over the ranges, and these if they are wanted."""
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
            out if sums is None else sums,
            ranges.rows,
            out.shape[1],
            **switches,
            INPUTS_BY_KIND=inputs.kind is not None,
            RECTIFY_INPUTS=rectify_inputs,
            BY_KIND=constant.kind is not None,
            STORE_SUMS=sums is not None,
            **_shape(out.shape[1], precision),
        )


def backward(
    gradient: Float[Tensor, "results dim"],
    ranges: Ranges,
    weight: Float[Tensor, "dim dim"],
    inputs: Rows,
    out: Float[Tensor, "rows dim"],
    precision: str,
    *,
    rectify_inputs: bool,
    add: bool,
) -> None:
    r"""Write the gradient by the inputs, before their rectifier: :math:`z_s = [x_s > 0]\, W^\top \sum_p g_p`.

    The sums run over the transposed ranges; g is the gradient by the results, before theirs. With `add` it is added to
    what is there.
    """
    if not out.numel():
        return
    pointers, switches = ranges.arguments(gradient)
    with _device(gradient):
        _backward[(triton.cdiv(ranges.rows, TILE),)](
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
            RECTIFY_INPUTS=rectify_inputs,
            ADD=add,
            **_shape(out.shape[1], precision),
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
    options: dict[str, Any] = {"dtype": torch.float32, "device": gradients.device}
    by_weight = torch.empty(programs, dim, dim, **options) if rounds else None
    shape = (rows, dim) if kind is None else (programs, kinds, dim)
    by_constant = torch.empty(*shape, **options)
    shared = {
        name: value for name, value in _shape(dim, precision).items() if name not in ("AHEAD", "maxnreg")
    }
    with _device(gradients):
        _collect[(programs,)](
            gradients,
            gradients if sums is None else sums,
            gradients if kind is None else kind,
            by_constant if by_weight is None else by_weight,
            by_constant,
            rows,
            dim,
            kinds,
            ROUNDS=rounds,
            START=results > rounds,
            BY_KIND=kind is not None,
            KINDS=16 if kind is None else _padded(kinds),
            **{**shared, "TILE": tile},
            num_stages=stages,
        )
    return None if by_weight is None else by_weight.sum(0), by_constant if kind is None else by_constant.sum(
        0
    )


def _shape(dim: int, precision: str) -> dict[str, Any]:
    return {
        "TILE": TILE,
        "AHEAD": AHEAD,
        "WIDTH": _padded(dim),
        # Six products of parts of eight bits: as exact as single precision, and faster than three of TF32.
        "PRECISION": "tf32" if precision == "tf32" else EXACT,
        "LOW": precision == "bf16",
        "num_warps": WARPS if dim <= 64 else 2 * WARPS,
        "maxnreg": MOST_REGISTERS if precision == "exact" and dim <= 64 else None,
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
    # -1 stands for no row. (With one mask for two loads, one after the other, the compiler of Triton 3.6 gives up.)
    taken = live & (place < end)
    chosen = tl.load(read + place, mask=taken, other=-1) if HAS_READ else tl.where(taken, place, -1)
    if HAS_SKIP:
        chosen = tl.where(chosen == left_out, -1, chosen)
    if BY_KIND:
        chosen = tl.load(kind + chosen, mask=chosen >= 0, other=-1)
    return _row(values, chosen, chosen >= 0, column, there, dim, RECTIFY)


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


@triton.jit(do_not_specialize=["rows"])
def _forward(  # type: ignore[no-untyped-def]
    inputs, input_kind, ptr, key, read, skip, weight, constant, kind, out, sums, rows, dim,
    HAS_PTR: tl.constexpr, HAS_KEY: tl.constexpr, HAS_READ: tl.constexpr, HAS_SKIP: tl.constexpr,
    INPUTS_BY_KIND: tl.constexpr, RECTIFY_INPUTS: tl.constexpr, BY_KIND: tl.constexpr, STORE_SUMS: tl.constexpr,
    TILE: tl.constexpr, AHEAD: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr, LOW: tl.constexpr,
) -> Any:  # fmt: skip
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column, inner = tl.arange(0, WIDTH), tl.arange(0, WIDTH)
    live, there = row < rows, column < dim
    total = _summed(
        inputs, input_kind, ptr, key, read, skip, row, live, column, there, dim,
        HAS_PTR, HAS_KEY, HAS_READ, HAS_SKIP, INPUTS_BY_KIND, RECTIFY_INPUTS, AHEAD,
    )  # fmt: skip
    where = row.to(tl.int64)[:, None] * dim + column[None, :]
    mask = live[:, None] & there[None, :]
    if STORE_SUMS:
        tl.store(sums + where, total, mask=mask)
    matrix = tl.load(
        weight + column[None, :] * dim + inner[:, None], mask=there[None, :] & (inner < dim)[:, None], other=0.0
    )  # fmt: skip
    place = tl.load(kind + row, mask=live, other=0) if BY_KIND else row
    result = _times(total, matrix, PRECISION, LOW) + _row(constant, place, live, column, there, dim, False)
    tl.store(out + where, tl.maximum(result, 0.0), mask=mask)


@triton.jit(do_not_specialize=["rows"])
def _backward(  # type: ignore[no-untyped-def]
    gradient, ptr, key, read, skip, weight, inputs, input_kind, out, rows, dim,
    HAS_PTR: tl.constexpr, HAS_KEY: tl.constexpr, HAS_READ: tl.constexpr, HAS_SKIP: tl.constexpr,
    INPUTS_BY_KIND: tl.constexpr, RECTIFY_INPUTS: tl.constexpr, ADD: tl.constexpr,
    TILE: tl.constexpr, AHEAD: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr, LOW: tl.constexpr,
) -> Any:  # fmt: skip
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column, inner = tl.arange(0, WIDTH), tl.arange(0, WIDTH)
    live, there = row < rows, column < dim
    total = _summed(
        gradient, gradient, ptr, key, read, skip, row, live, column, there, dim,
        HAS_PTR, HAS_KEY, HAS_READ, HAS_SKIP, False, False, AHEAD,
    )  # fmt: skip
    matrix = tl.load(
        weight + inner[:, None] * dim + column[None, :], mask=there[None, :] & (inner < dim)[:, None], other=0.0
    )  # fmt: skip
    place = tl.load(input_kind + row, mask=live, other=0) if INPUTS_BY_KIND else row
    x = _row(inputs, place, live, column, there, dim, RECTIFY_INPUTS)
    back = tl.where(x > 0, _times(total, matrix, PRECISION, LOW), 0.0)
    where = out + row.to(tl.int64)[:, None] * dim + column[None, :]
    mask = live[:, None] & there[None, :]
    if ADD:
        back += tl.load(where, mask=mask, other=0.0).to(tl.float32)
    tl.store(where, back, mask=mask)


@triton.jit(do_not_specialize=["rows"])
def _collect(  # type: ignore[no-untyped-def]
    gradients, sums, kind, by_weight, by_constant, rows, dim, kinds,
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
            back = _row(gradients + step * size, row, live, column, there, dim, False)
            x = _row(sums + step * size, row, live, column, there, dim, False)
            weight += _times(tl.trans(back), x, PRECISION, LOW)
            total += back
        if START:
            total += _row(gradients + ROUNDS * size, row, live, column, there, dim, False)
        if BY_KIND:
            symbols = tl.load(kind + row, mask=live, other=-1)
            one_hot = (symbol[:, None] == symbols[None, :]).to(tl.float32)
            table += _picked(one_hot, total, PRECISION, LOW)
        else:
            mask = live[:, None] & there[None, :]
            tl.store(by_constant + row.to(tl.int64)[:, None] * dim + column[None, :], total, mask=mask)
    if ROUNDS > 0:
        where = (program.to(tl.int64) * dim + inner[:, None]) * dim + column[None, :]
        tl.store(by_weight + where, weight, mask=(inner < dim)[:, None] & there[None, :])
    if BY_KIND:
        where = (program.to(tl.int64) * kinds + symbol[:, None]) * dim + column[None, :]
        tl.store(by_constant + where, table, mask=(symbol < kinds)[:, None] & there[None, :])


@triton.jit
def _picked(one_hot, values, PRECISION: tl.constexpr, LOW: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    if LOW:
        return tl.dot(one_hot.to(tl.bfloat16), values.to(tl.bfloat16))
    if PRECISION == "tf32":
        return tl.dot(one_hot, values, input_precision="tf32")
    # Products with 0 and 1 are exact, so that two parts of 11 bits are all that a number needs.
    high = (values.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
    low = tl.dot(one_hot, values - high, input_precision="tf32")
    return tl.dot(one_hot, high, low, input_precision="tf32")
