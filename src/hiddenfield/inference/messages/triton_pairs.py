"""The Triton kernels of message passing between pairs; imported when the first of them runs on a GPU."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

from hiddenfield.shapes import Tensor

if TYPE_CHECKING:
    from hiddenfield.inference.messages.passing import MessagePassing

ENTRIES_OF_BLOCK = 2048
"""Entries of tables, or of beliefs, that one program works on."""

MOST_STATES = 64
"""More states would not leave room for a table on the chip."""


def relative_totals(passing: MessagePassing, messages: Tensor) -> Tensor:
    """Return `MessagePassing.relative_totals` for variables of few states: one launch, one row of lanes a variable."""
    field, wiring = passing.field, passing.field.wiring
    port, ptr = wiring.by_variable
    out = torch.empty_like(field.log_unary)
    width = triton.next_power_of_2(_most_states(passing))
    block = max(1, ENTRIES_OF_BLOCK // 4 // width)
    variables, weighted = field.num_variables, not passing.unweighted
    if variables:
        with torch.cuda.device(out.device) if out.is_cuda else nullcontext():
            _totals[(triton.cdiv(variables, block),)](
                messages, field.log_unary, field.state_ptr, port, ptr, wiring.port_ptr, passing.port_weight, out,
                variables, WEIGHTED=weighted, BLOCK=block, WIDTH=width,
            )  # fmt: skip
    return out


def update_pairs(passing: MessagePassing, messages: Tensor, damping: float) -> tuple[Tensor, Tensor]:
    """Return all new messages of a field of pairs from all old ones, damped, and how far each port's would move.

    What moves is the largest change of a probability of the undamped message; infinite where one is not a number.
    """
    field, wiring = passing.field, passing.field.wiring
    totals, out = relative_totals(passing, messages), torch.empty_like(messages)
    moved = messages.new_empty(len(wiring.port_variable))
    first = 0
    for number, group in enumerate(field.groups):
        factors, (rows, columns) = group.num_factors, group.states
        row, tables = group.table, group.log_tables
        if passing.weights is not None:
            row, tables = None, passing.log_tables[number]
        padded = triton.next_power_of_2(rows), triton.next_power_of_2(columns)
        block = max(1, ENTRIES_OF_BLOCK // (padded[0] * padded[1]))
        if factors:
            with torch.cuda.device(out.device) if out.is_cuda else nullcontext():
                _pairs[(triton.cdiv(factors, block),)](
                    messages, totals, tables.contiguous(), group.scopes if row is None else row, group.scopes,
                    field.state_ptr, out, moved, factors, wiring.blocks[number][0][0], wiring.blocks[number][1][0],
                    first, rows, columns, damping,
                    HAS_ROW=row is not None, ONE_TABLE=len(tables) == 1, MAXIMISE=passing.maximise,
                    DAMPED=damping > 0, BLOCK=block, ROWS=padded[0], COLUMNS=padded[1],
                )  # fmt: skip
        first += 2 * factors
    return out, moved


def suits(passing: MessagePassing) -> bool:
    """Say whether a field consists of pairs of few states."""
    field = passing.field
    return all(group.arity == 2 for group in field.groups) and _most_states(passing) <= MOST_STATES


def _most_states(passing: MessagePassing) -> int:
    sizes = passing.field.__dict__.get("_most_states")
    if sizes is None:
        sizes = int(passing.field.cardinalities.max()) if passing.field.num_variables else 1
        passing.field.__dict__["_most_states"] = sizes
    return sizes


@triton.jit
def _totals(  # type: ignore[no-untyped-def]
    messages, unary, state_ptr, ports, ptr, port_ptr, port_weight, out, variables,
    WEIGHTED: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
) -> Any:  # fmt: skip
    variable = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live, state = variable < variables, tl.arange(0, WIDTH)
    first = tl.load(state_ptr + variable, mask=live, other=0)
    states = tl.load(state_ptr + variable + 1, mask=live, other=0) - first
    begin = tl.load(ptr + variable, mask=live, other=0)
    end = tl.load(ptr + variable + 1, mask=live, other=0)
    inside = live[:, None] & (state[None, :] < states[:, None])
    place = first[:, None] + state[None, :]
    total = tl.load(unary + place, mask=inside, other=-float("inf"))
    longest = tl.max(end - begin, axis=0)
    for step in range(longest):
        there = begin + step < end
        port = tl.load(ports + begin + step, mask=there, other=0)
        start = tl.load(port_ptr + port, mask=there, other=0)
        wanted = inside & there[:, None]
        message = tl.load(messages + start[:, None] + state[None, :], mask=wanted, other=0)
        if WEIGHTED:
            top = tl.max(tl.where(wanted, message, -float("inf")), axis=1)
            top = tl.where(top == -float("inf"), 0.0, top)
            weight = tl.load(port_weight + port, mask=there, other=0)
            message = tl.where(wanted, (message - top[:, None]) * weight[:, None], 0.0)
        total += message
    top = tl.max(total, axis=1)
    total -= tl.where(top == -float("inf"), 0.0, top)[:, None]
    tl.store(out + place, total, mask=inside)


@triton.jit
def _summed(joint, AXIS: tl.constexpr, MAXIMISE: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    top = tl.max(joint, axis=AXIS)
    if not MAXIMISE:
        safe = tl.where(top == -float("inf"), 0.0, top)
        top = safe + tl.log(tl.sum(tl.exp(joint - tl.expand_dims(safe, AXIS)), axis=AXIS))
    return top


@triton.jit
def _relative(message, MAXIMISE: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    top = _summed(message, 1, MAXIMISE)
    return message - tl.where(top == -float("inf"), 0.0, top)[:, None]


@triton.jit
def _replaced(  # type: ignore[no-untyped-def]
    joint, old, place, inside, out, moved, port, live, damping,
    AXIS: tl.constexpr, MAXIMISE: tl.constexpr, DAMPED: tl.constexpr,
) -> Any:  # fmt: skip
    new = _relative(_summed(joint, AXIS, MAXIMISE), MAXIMISE)
    change = tl.abs(tl.exp(new) - tl.exp(old))
    change = tl.where(change != change, float("inf"), change)  # a maximum passes over what is not a number
    tl.store(moved + port, tl.max(tl.where(inside, change, 0.0), axis=1), mask=live)
    if DAMPED:
        new = tl.where(inside, damping * old + (1 - damping) * new, -float("inf"))
        new = _relative(new, MAXIMISE)
    tl.store(out + place, new, mask=inside)


@triton.jit
def _pairs(  # type: ignore[no-untyped-def]
    messages, totals, tables, row, scopes, state_ptr, out, moved, factors, begin_first, begin_second, port,
    rows, columns, damping,
    HAS_ROW: tl.constexpr, ONE_TABLE: tl.constexpr, MAXIMISE: tl.constexpr, DAMPED: tl.constexpr,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
) -> Any:  # fmt: skip
    factor = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live, r, c = factor < factors, tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    there = live[:, None] & (r < rows)[None, :], live[:, None] & (c < columns)[None, :]
    first = tl.load(state_ptr + tl.load(scopes + 2 * factor, mask=live, other=0), mask=live, other=0)
    second = tl.load(state_ptr + tl.load(scopes + 2 * factor + 1, mask=live, other=0), mask=live, other=0)
    to_first = begin_first + factor[:, None] * rows + r[None, :]
    to_second = begin_second + factor[:, None] * columns + c[None, :]
    old_first = tl.load(messages + to_first, mask=there[0], other=-float("inf"))
    old_second = tl.load(messages + to_second, mask=there[1], other=-float("inf"))
    from_first = tl.load(totals + first[:, None] + r[None, :], mask=there[0], other=-float("inf"))
    from_second = tl.load(totals + second[:, None] + c[None, :], mask=there[1], other=-float("inf"))
    # What is left out of a state that is dead may be -inf as well.
    from_first -= tl.where(from_first == -float("inf"), 0.0, old_first)
    from_second -= tl.where(from_second == -float("inf"), 0.0, old_second)
    if ONE_TABLE:
        which = factor * 0
    elif HAS_ROW:
        which = tl.load(row + factor, mask=live, other=0).to(tl.int64)
    else:
        which = factor
    place = which[:, None, None] * rows * columns + r[None, :, None] * columns + c[None, None, :]
    table = tl.load(tables + place, mask=there[0][:, :, None] & there[1][:, None, :], other=-float("inf"))
    _replaced(
        table + from_second[:, None, :], old_first, to_first, there[0], out, moved, port + factor, live, damping,
        2, MAXIMISE, DAMPED,
    )  # fmt: skip
    _replaced(
        table + from_first[:, :, None], old_second, to_second, there[1], out, moved, port + factors + factor, live,
        damping, 1, MAXIMISE, DAMPED,
    )  # fmt: skip
