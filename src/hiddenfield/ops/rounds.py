"""Rounds of messages, each a sum over arcs, a product with a matrix, a constant and a rectifier, as one op."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from hiddenfield.ops.dispatch import through_rectifier
from hiddenfield.ops.sums import LONGEST_RANGE, arc_sum, cavity_sum, gather_sum
from hiddenfield.ops.topology import Topology
from hiddenfield.shapes import Float, Int, Tensor

# A matrix has to fit beside the tiles, and the gradient of a table is kept whole by every program.
MOST_COLUMNS, MOST_KINDS = 128, 128

SUMS: dict[str, Callable[..., Tensor]] = {"cavity": cavity_sum, "arrivals": arc_sum, "senders": gather_sum}
"""What a round sums: as in `cavity_sum`, for every arc; as in `arc_sum` and `gather_sum`, for every node."""


@dataclass(frozen=True)
class Round:
    """One round: what is summed, of which result (0 is the start), by which matrix, with which constant."""

    sums: str
    source: int
    weight: int
    constant: int


@dataclass(frozen=True)
class Plan:
    """Rounds in their order, those whose results are wanted (counted from 1), and the precision of the products.

    `precision` is ``"tf32x3"`` (exact up to single precision's rounding), ``"tf32"`` or ``"bf16"``, in which the
    results that are not wanted are also stored.
    """

    rounds: tuple[Round, ...]
    wanted: tuple[int, ...]
    precision: str = "tf32x3"


def fused(weight: Tensor, dim: int, topology: Topology) -> bool:
    """Say whether `message_rounds` has kernels for such weights and arcs, so that it is worth calling."""
    return _known(weight, dim) and topology.longest_range <= LONGEST_RANGE


def _known(values: Tensor, dim: int) -> bool:
    """Say whether there are kernels; on the CPU they run in Triton's interpreter, for tests."""
    runs = values.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
    return runs and values.dtype == torch.float32 and dim <= MOST_COLUMNS


def message_rounds(
    plan: Plan,
    topology: Topology,
    weights: Sequence[Float[Tensor, "dim dim"]],
    constants: Sequence[Float[Tensor, "rows dim"]],
    kinds: Sequence[Int[Tensor, " all_rows"] | None],
) -> tuple[Float[Tensor, "all_rows dim"], ...]:
    r"""Run rounds of messages; on a GPU in one launch each, forward and backward.

    .. math:: y_0 = \max(0, c_0), \qquad y_r = \max\Bigl(0, c_{k(r)} + W_{w(r)} \sum y_{s(r)}\Bigr)

    Parameters
    ----------
    plan
        The rounds; the first constant is that of the start.
    topology
        Who sends to whom.
    weights
        The matrices.
    constants, kinds
        One row for every arc or node or, where the kind of each is given, one row per kind.

    Returns
    -------
    tuple
        The results that are wanted. Differentiable twice and more (once with the kernels, then in plain PyTorch). The
        same to the bit every time: gradients are added up in one order.

    Notes
    -----
    The sum, the product and the rectifier of a row stay on the chip; what is written is one row per arc or node and
    round. Constants by kind are never formed for all rows.

    Examples
    --------
    >>> path = Topology(torch.tensor([1, 0]), torch.tensor([0, 1, 2]))
    >>> plan = Plan((Round("senders", 0, 0, 0),), (1,))
    >>> message_rounds(plan, path, [2 * torch.eye(1)], [torch.tensor([[1.0], [-3.0]])], [None])
    (tensor([[1.],
            [0.]]),)
    """
    if not _known(constants[0], constants[0].shape[1]):
        return message_rounds_reference(plan, topology, weights, constants, kinds)
    return _Rounds.apply(plan, topology, tuple(kinds), len(weights), *weights, *constants)


def message_rounds_reference(
    plan: Plan,
    topology: Topology,
    weights: Sequence[Tensor],
    constants: Sequence[Tensor],
    kinds: Sequence[Any],
) -> tuple[Tensor, ...]:
    """Take one step after the other."""
    rows = [c if k is None else c.index_select(0, k) for c, k in zip(constants, kinds, strict=True)]
    results = [rows[0].relu()]
    for step in plan.rounds:
        sums = SUMS[step.sums](results[step.source], topology)
        results.append((functional.linear(sums, weights[step.weight]) + rows[step.constant]).relu())
    return tuple(results[number] for number in plan.wanted)


def ranges_of(sums: str, topology: Topology) -> tuple[Any, Any]:
    """Return which rows are summed for each result and, transposed, for each row of the gradient."""
    from hiddenfield.ops.triton_rounds import Ranges

    nodes, arcs = topology.num_nodes, topology.num_arcs
    if sums == "cavity":
        read, out_ptr = topology.outgoing
        ahead = Ranges(arcs, topology.in_ptr, key=topology.source, skip=topology.reverse)
        return ahead, Ranges(arcs, out_ptr, key=topology.target, read=read, skip=topology.reverse)
    if sums == "arrivals":
        return Ranges(nodes, topology.in_ptr), Ranges(arcs, key=topology.target)
    back = topology.transpose
    return Ranges(nodes, topology.in_ptr, read=topology.source), Ranges(nodes, back.in_ptr, read=back.source)


class _Rounds(torch.autograd.Function):
    """`message_rounds` with the kernels; its own gradient, if it is to be differentiated again, in plain PyTorch."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, plan: Plan, topology: Topology, kinds: tuple[Any, ...], count: int, *given: Tensor
    ) -> tuple[Tensor, ...]:
        from hiddenfield.ops.triton_rounds import Rows, forward

        weights, constants = given[:count], given[count:]
        results: list[Any] = [None]  # a start by kind is read from its table
        if kinds[0] is None:
            results[0] = constants[0].relu()
        elif 0 in plan.wanted:
            results[0] = constants[0].index_select(0, kinds[0]).relu()
        sums: list[Tensor | None] = []
        for number, step in enumerate(plan.rounds, 1):
            ranges, _ = ranges_of(step.sums, topology)
            inputs, rectify = _rows(results, step.source, constants, kinds)
            stored = torch.bfloat16 if plan.precision == "bf16" else torch.float32
            shape = ranges.rows, constants[0].shape[1]
            out = constants[0].new_empty(shape, dtype=None if number in plan.wanted else stored)
            sums.append(out.new_empty(shape, dtype=stored) if any(ctx.needs_input_grad) else None)
            constant = Rows(constants[step.constant], kinds[step.constant])
            weight = weights[step.weight]
            forward(
                inputs, ranges, weight, constant, out, plan.precision, rectify_inputs=rectify, sums=sums[-1]
            )
            results.append(out)
        ctx.plan, ctx.topology, ctx.kinds, ctx.count = plan, topology, kinds, count
        ctx.save_for_backward(*given, *results, *sums)
        return tuple(results[number] for number in plan.wanted)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        total, rounds = ctx.count + len(ctx.kinds), len(ctx.plan.rounds)
        given, saved = ctx.saved_tensors[:total], ctx.saved_tensors[total:]
        if torch.is_grad_enabled():  # to be differentiated again
            weights, constants = given[: ctx.count], given[ctx.count :]
            again = message_rounds_reference(ctx.plan, ctx.topology, weights, constants, ctx.kinds)
            found = torch.autograd.grad(again, given, gradients, create_graph=True, allow_unused=True)
            return (None, None, None, None, *found)
        found = _Gradients(ctx, given, saved[: rounds + 1], saved[rounds + 1 :])
        for number, gradient in zip(ctx.plan.wanted, gradients, strict=True):
            found.by_result[number] = through_rectifier(gradient.contiguous(), found.results[number])
        for number in reversed(range(rounds + 1)):
            found.pass_back(number)
        return (None, None, None, None, *found.collected())


def _rows(results: Any, number: int, constants: Any, kinds: Any) -> tuple[Any, bool]:
    """Return the rows of a result, and whether they are still to be rectified, as those of a start by kind are."""
    from hiddenfield.ops.triton_rounds import Rows

    if results[number] is None:
        return Rows(constants[0], kinds[0]), True
    return Rows(results[number]), False


class _Gradients:
    """The gradients of one backward pass: of results, before their rectifiers, and parts of those of the parameters."""

    def __init__(
        self, ctx: Any, given: Sequence[Tensor], results: Sequence[Any], sums: Sequence[Tensor]
    ) -> None:
        self.plan, self.topology, self.kinds = ctx.plan, ctx.topology, ctx.kinds
        self.weights, self.constants = given[: ctx.count], given[ctx.count :]
        self.results, self.sums = results, sums
        self.by_result: list[Tensor | None] = [None] * len(results)
        self.by_row: list[Tensor | None] = [None] * len(self.constants)
        self.by_weight = [_Parts(weight) for weight in self.weights]
        self.by_table = [_Parts(constant) for constant in self.constants]
        for number, step in enumerate((Round("", 0, 0, 0), *self.plan.rounds)):
            kind = self.kinds[step.constant]
            rows = len(kind) if results[number] is None else len(results[number])
            if number:
                self.by_weight[step.weight].expect(rows)
            if kind is not None:
                self.by_table[step.constant].expect(rows)

    def pass_back(self, number: int) -> None:
        """Pass the gradient of a result on to its matrix, its constant, and the result that it was made of."""
        from hiddenfield.ops.triton_rounds import backward, collect

        gradient = self.by_result[number]
        assert gradient is not None, "the result of a round was neither wanted nor read"
        step = self.plan.rounds[number - 1] if number else Round("", 0, 0, 0)
        kind, rows = self.kinds[step.constant], len(gradient)
        by_weight = self.by_weight[step.weight].part(rows) if number else None
        by_table = None if kind is None else self.by_table[step.constant].part(rows)
        if by_weight is not None or by_table is not None:
            sums = self.sums[number - 1] if number else None
            collect(gradient, sums, kind, by_weight, by_table, self.plan.precision)
        if kind is None:
            before = self.by_row[step.constant]
            self.by_row[step.constant] = gradient.float() if before is None else before + gradient
        if not number:
            return
        _, ranges = ranges_of(step.sums, self.topology)
        inputs, rectify = _rows(self.results, step.source, self.constants, self.kinds)
        out = before = self.by_result[step.source]
        if out is None:
            kept = torch.bfloat16 if self.plan.precision == "bf16" else torch.float32
            out = torch.empty(ranges.rows, gradient.shape[1], dtype=kept, device=gradient.device)
        weight, add = self.weights[step.weight], before is not None
        backward(gradient, ranges, weight, inputs, out, self.plan.precision, rectify_inputs=rectify, add=add)
        self.by_result[step.source] = out

    def collected(self) -> list[Tensor | None]:
        """Add up what the programs have, or the rows' own gradients where a constant has one row for each."""
        constants = zip(self.by_row, self.by_table, strict=True)
        return [
            *(parts.total() for parts in self.by_weight),
            *(parts.total() if rows is None else rows for rows, parts in constants),
        ]


class _Parts:
    """Parts of the gradient by one tensor, of all programs of all rounds that it has a part in, in one array."""

    def __init__(self, like: Tensor) -> None:
        self.like, self.count, self.used = like, 0, 0
        self.values: Tensor | None = None

    def expect(self, rows: int) -> None:
        """Make room for the parts of one round."""
        from hiddenfield.ops.triton_rounds import programs

        self.count += programs(rows, self.like)

    def part(self, rows: int) -> Tensor:
        """Return the room for one round."""
        from hiddenfield.ops.triton_rounds import programs

        if self.values is None:
            self.values = self.like.new_empty(self.count, *self.like.shape)
        begin, self.used = self.used, self.used + programs(rows, self.like)
        return self.values[begin : self.used]

    def total(self) -> Tensor | None:
        """Return the gradient; None where no round had a part in it."""
        return None if self.values is None else self.values.sum(0)
