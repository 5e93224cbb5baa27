"""Rounds of messages, each a sum over arcs, a product with a matrix, a constant and a nonlinearity, as one op."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from hiddenfield.ops.sums import LONGEST_RANGE, arc_sum, cavity_sum, gather_sum
from hiddenfield.ops.topology import Topology
from hiddenfield.shapes import Float, Int, Tensor

# A matrix has to fit beside the tiles, and the gradient of a table is kept whole by every program.
MOST_COLUMNS, MOST_KINDS = 128, 128

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "softplus": functional.softplus,
}
"""The nonlinearities of embeddings."""

SUMS: dict[str, Callable[..., Tensor]] = {"cavity": cavity_sum, "arrivals": arc_sum, "senders": gather_sum}
"""What a round sums: as in `cavity_sum`, for every arc; as in `arc_sum` and `gather_sum`, for every node."""


@dataclass(frozen=True)
class Round:
    """One round: what is summed, of which result (0 is the start), by which matrix, with which constant.

    Rounds with one constant have one matrix.
    """

    sums: str
    source: int
    weight: int
    constant: int


@dataclass(frozen=True)
class Plan:
    """Rounds in their order, those whose results are wanted (counted from 1), precision and nonlinearity.

    `precision` is that of the products: ``"exact"`` (up to single precision's rounding), ``"tf32"`` or ``"bf16"``,
    in which the results that are not wanted are also stored. `activation` is a name of `ACTIVATIONS`.
    """

    rounds: tuple[Round, ...]
    wanted: tuple[int, ...]
    precision: str = "exact"
    activation: str = "relu"


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
    constants: Sequence[Float[Tensor, "_ dim"]],
    kinds: Sequence[Int[Tensor, " _"] | None],
) -> tuple[Float[Tensor, "_ dim"], ...]:
    r"""Run rounds of messages; on a GPU in one launch each, forward and backward.

    .. math:: y_0 = \sigma(c_0), \qquad y_r = \sigma\Bigl(c_{k(r)} + W_{w(r)} \sum y_{s(r)}\Bigr)

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
    The sum, the product and the nonlinearity of a row stay on the chip; what is written is one row per arc or node and
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
    activation = ACTIVATIONS[plan.activation]
    results = [activation(rows[0])]
    for step in plan.rounds:
        sums = SUMS[step.sums](results[step.source], topology)
        results.append(activation(functional.linear(sums, weights[step.weight]) + rows[step.constant]))
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
    """`message_rounds` with the kernels; its own gradient, if it is to be differentiated again, in plain PyTorch.

    What is kept of a result is what the nonlinearity is applied to or, for the rectifier, what comes of it, whose own
    rectifier and slope are the same.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, plan: Plan, topology: Topology, kinds: tuple[Any, ...], count: int, *given: Tensor
    ) -> tuple[Tensor, ...]:
        from hiddenfield.ops.triton_rounds import Rows, forward

        weights, constants = given[:count], given[count:]
        stored = torch.bfloat16 if plan.precision == "bf16" else torch.float32
        groups = _groups(plan)
        results: list[Tensor] = []
        sums: list[Tensor | None] = [None] * len(constants)
        if any(ctx.needs_input_grad):
            for number, (group, constant, kind) in enumerate(zip(groups, constants, kinds, strict=True)):
                rows = len(constant) if kind is None else len(kind)
                size = len(group) - (0 in group), rows, constant.shape[1]
                sums[number] = constant.new_empty(size, dtype=stored)
        for number, step in enumerate(plan.rounds, 1):
            ranges, _ = ranges_of(step.sums, topology)
            out = constants[0].new_empty(
                ranges.rows, constants[0].shape[1], dtype=None if number in plan.wanted else stored
            )
            inputs = Rows(results[step.source - 1]) if step.source else Rows(constants[0], kinds[0])
            added = Rows(constants[step.constant], kinds[step.constant])
            kept = sums[step.constant]
            kept = None if kept is None else kept[groups[step.constant].index(number)]
            forward(inputs, ranges, weights[step.weight], added, out, plan, kept)
            results.append(out)
        ctx.plan, ctx.topology, ctx.kinds, ctx.count = plan, topology, kinds, count
        ctx.save_for_backward(*given, *results, *sums)
        activation, wanted = ACTIVATIONS[plan.activation], []
        for number in plan.wanted:
            if not number:
                start = constants[0] if kinds[0] is None else constants[0].index_select(0, kinds[0])
                wanted.append(activation(start))
            else:
                result = results[number - 1]
                wanted.append(result if plan.activation == "relu" else activation(result))
        return tuple(wanted)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        total, rounds = ctx.count + len(ctx.kinds), len(ctx.plan.rounds)
        given, saved = ctx.saved_tensors[:total], ctx.saved_tensors[total:]
        if torch.is_grad_enabled():  # to be differentiated again
            weights, constants = given[: ctx.count], given[ctx.count :]
            again = message_rounds_reference(ctx.plan, ctx.topology, weights, constants, ctx.kinds)
            found = torch.autograd.grad(again, given, gradients, create_graph=True, allow_unused=True)
            return (None, None, None, None, *found)
        found = _Gradients(ctx, given, saved[:rounds], saved[rounds:])
        for number, gradient in zip(ctx.plan.wanted, gradients, strict=True):
            found.arrive(number, gradient)
        for number in reversed(range(1, rounds + 1)):
            found.pass_back(number)
        return (None, None, None, None, *found.collected())


def _groups(plan: Plan) -> list[list[int]]:
    """Return, for each constant, the results that it has a part in; the start comes last."""
    found: list[list[int]] = [[] for _ in range(1 + max((step.constant for step in plan.rounds), default=0))]
    for number, step in enumerate(plan.rounds, 1):
        found[step.constant].append(number)
    found[0].append(0)
    return found


class _Gradients:
    """The gradients of one backward pass, by results before their nonlinearities and then by the parameters."""

    def __init__(
        self, ctx: Any, given: Sequence[Tensor], results: Sequence[Tensor], sums: Sequence[Tensor]
    ) -> None:
        self.plan, self.topology, self.kinds = ctx.plan, ctx.topology, ctx.kinds
        self.weights, self.constants = given[: ctx.count], given[ctx.count :]
        self.results, self.sums, self.groups = results, sums, _groups(ctx.plan)
        self.arrived: set[int] = set()
        self.by_result: dict[int, Tensor] = {}
        self.blocks = []
        for group, constant, kind in zip(self.groups, self.constants, self.kinds, strict=True):
            rows = len(constant) if kind is None else len(kind)
            kept = torch.bfloat16 if self.plan.precision == "bf16" else torch.float32
            self.blocks.append(constant.new_empty(len(group), rows, constant.shape[1], dtype=kept))
            self.by_result |= dict(zip(group, self.blocks[-1], strict=True))

    def _rows(self, number: int) -> Any:
        """Return a result before its nonlinearity."""
        from hiddenfield.ops.triton_rounds import Rows

        return Rows(self.results[number - 1]) if number else Rows(self.constants[0], self.kinds[0])

    def arrive(self, number: int, gradient: Tensor) -> None:
        """Take the gradient of a result that was wanted."""
        from hiddenfield.ops.triton_rounds import through

        through(gradient, self._rows(number), self.by_result[number], self.plan)
        self.arrived.add(number)

    def pass_back(self, number: int) -> None:
        """Pass the gradient of a result on to the result that it was made of."""
        from hiddenfield.ops.triton_rounds import backward

        step = self.plan.rounds[number - 1]
        _, ranges = ranges_of(step.sums, self.topology)
        gradient, out = self.by_result[number], self.by_result[step.source]
        weight, inputs, add = self.weights[step.weight], self._rows(step.source), step.source in self.arrived
        backward(gradient, ranges, weight, inputs, out, self.plan, add=add)
        self.arrived.add(step.source)

    def collected(self) -> list[Tensor | None]:
        """Return the gradients by matrices and by constants."""
        from hiddenfield.ops.triton_rounds import collect

        by_weight: list[Tensor | None] = [None] * len(self.weights)
        by_constant: list[Tensor | None] = []
        for number, (group, kind) in enumerate(zip(self.groups, self.kinds, strict=True)):
            sums = self.sums[number] if len(self.sums[number]) else None
            kinds = len(self.constants[number])
            matrix, constant = collect(self.blocks[number], sums, kind, kinds, self.plan.precision)
            if matrix is not None:
                by_weight[self.plan.rounds[group[0] - 1].weight] = matrix
            by_constant.append(constant)
        return [*by_weight, *by_constant]
