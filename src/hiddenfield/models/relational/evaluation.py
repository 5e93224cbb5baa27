"""Log partition and expected counts of a relational model at many settings of its weights at once."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.relational import Classes, RelationalScheme, template, weight_matrix
from hiddenfield.inference.infer import with_gradient
from hiddenfield.inference.loopy_bp import loopy_bp
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.shapes import Bool, Float, Int, Tensor

LEANINGS = (0.0, -8.0, 8.0)
"""Log ratios of the last state of every variable to the others from which messages start: none, empty, full."""


ROUNDS = ((0.2, 12, False), (0.2, 100, True), (0.7, 200, False), (0.9, 500, False), (0.97, 2000, False))
"""Damping, iterations, and whether to go on from the round before rather than from the start; tried in turn on what has
not settled. Most settles at once. Negative weights on abundant features make messages overshoot, and the more, the more
damping they need."""

PIECE = 4096
"""Fields in one batch: their messages fit the cache."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Log partition, expected counts, marginals and phases at each setting of the weights.

    Parameters
    ----------
    log_partition
        Bethe log partition of the best phase, or of the one asked for.
    expected
        Expected number of each feature in that phase, in the convention of the weights.
    marginals
        Marginal of each attribute in that phase.
    phases
        How many different phases the starts led to; 0 where none of them settled, and the other numbers mean nothing.
    converged
        Whether the messages settled from every start.
    """

    log_partition: Float[Tensor, " settings"]
    expected: Float[Tensor, "settings features"]
    marginals: Float[Tensor, "settings classes most_states"]
    phases: Int[Tensor, " settings"]
    converged: Bool[Tensor, " settings"]


def evaluate(
    scheme: RelationalScheme,
    sizes: Mapping[str, int] | int,
    theta: Any,
    *,
    bindings: str = "auto",
    weights: str = "ground",
    given: Classes | None = None,
    near: Float[Tensor, "classes most_states"] | None = None,
    tolerance: float = 1e-9,
) -> Evaluation:
    r"""Run template-level belief propagation at every setting, from several starts, and keep the best phase of each.

    The log partition is that of the phase with the highest one (where two phases exist, the sum of their contributions
    to Z is the larger one's up to a constant); the expected counts are its gradient,
    :math:`\partial \log Z / \partial \theta_f = N_f E_b[f]`. An estimate. Cost: independent of the sizes; ten thousand
    settings are one batch.

    Parameters
    ----------
    scheme, sizes, bindings, weights, given
        See `hiddenfield.fields.relational.template`.
    theta
        Weights by name, as a vector, or one row per setting.
    near
        Marginals of the attributes: keep the phase nearest to these instead of the one of the highest log partition.
    tolerance
        Of the messages.

    Examples
    --------
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> result = evaluate(graph_scheme("edge", "triangle"), 30, [[-2.0, 0.1], [-2.0, 0.2]])
    >>> result.phases
    tensor([1, 2])
    """
    check_domain(scheme, sizes)
    matrix = weight_matrix(scheme.features, theta).detach()
    build = functools.partial(template, scheme, sizes, bindings=bindings, weights=weights, given=given)
    settings, count = matrix.shape[0], len(LEANINGS)
    runs = _Runs(build, matrix.repeat(count, 1), torch.tensor(LEANINGS).repeat_interleave(settings))
    for damping, iterations, onwards in ROUNDS:
        left = torch.nonzero(~runs.settled)[:, 0]
        for piece in left.split(PIECE) if len(left) else ():
            runs.advance(piece, damping, iterations, tolerance, onwards)
    rank = runs.log_partition if near is None else -(runs.marginals - near.reshape(-1)).abs().sum(1)
    values = torch.where(runs.settled, rank, -math.inf).reshape(count, settings)
    best = values.argmax(0) * settings + torch.arange(settings)
    log_partition, expected, marginals = _gradients(build, matrix, runs.messages[best])
    phases = _count_phases(runs.marginals.reshape(count, settings, -1), runs.settled.reshape(count, settings))
    converged = runs.settled.reshape(count, settings).all(0)
    return Evaluation(log_partition, expected, marginals, phases, converged)


def check_domain(scheme: RelationalScheme, sizes: Mapping[str, int] | int) -> None:
    """Raise an `InputError` where there are too few entities for any attribute."""
    size = scheme.check_sizes(sizes)
    if not any(a.type.count(size) for a in scheme.attributes.values()):
        there = ", ".join(f"{count} {name}" for name, count in size.items())
        kinds = ", ".join(f"{name}({a.type})" for name, a in scheme.attributes.items())
        raise InputError(f"there is nothing to infer: {there} is too few for {kinds}; give more entities")


class _Runs:
    """Belief propagation on one template for many settings and starts, one row each, as far as it has come."""

    def __init__(self, build: Callable[[Tensor], FactorGraph], theta: Tensor, leaning: Tensor) -> None:
        self.build, self.theta, self.leaning = build, theta, leaning.to(theta.dtype)
        one = build(theta[:1])
        rows = theta.shape[0]
        self.settled = torch.zeros(rows, dtype=torch.bool)
        self.log_partition = theta.new_zeros(rows)
        self.marginals = theta.new_zeros((rows, one.num_variables * int(one.cardinalities.max())))
        self.messages = theta.new_zeros((rows, one.wiring.message_state.shape[0]))

    def advance(self, rows: Tensor, damping: float, iterations: int, tolerance: float, onwards: bool) -> None:
        """Iterate some rows, from where they are or from their start."""
        with torch.no_grad():
            field = self.build(self.theta[rows])
            start = (
                field.wiring.interleave(self.messages[rows]) if onwards else _start(field, self.leaning[rows])
            )
            posterior = loopy_bp(
                field, damping=damping, tolerance=tolerance, max_iterations=iterations, messages=start
            )
        self.settled[rows] = posterior.converged
        self.log_partition[rows] = posterior.log_partition
        self.marginals[rows] = posterior.marginals.reshape(len(rows), -1)
        self.messages[rows] = field.wiring.separate(posterior.extra["messages"], len(rows))


def _gradients(
    build: Callable[[Tensor], FactorGraph], theta: Tensor, messages: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return log partition, its gradient and the marginals at fixed points."""
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for rows in torch.arange(theta.shape[0]).split(PIECE):
        with torch.enable_grad():
            weights = theta[rows].requires_grad_()
            field = build(weights)
        with torch.no_grad():
            plain = field.detach()
            # One step that hardly moves: the messages are at their fixed point.
            here = loopy_bp(
                plain, damping=0.99, max_iterations=1, messages=plain.wiring.interleave(messages[rows])
            )
        with torch.enable_grad():
            total, gradient = with_gradient(here, field).sum(), torch.zeros_like(weights)
            if total.requires_grad:  # not where the domain is too small for any feature
                (gradient,) = torch.autograd.grad(total, weights)
        marginals = here.marginals.reshape(len(rows), -1, here.marginals.shape[-1])
        parts.append((here.log_partition, gradient, marginals))
    values, gradients, marginals = (torch.cat(part) for part in zip(*parts, strict=True))
    return values, gradients, marginals


def _start(field: FactorGraph, leaning: Float[Tensor, " graphs"]) -> Tensor:
    """Return what factors send when every variable leans to its last state or away from it."""
    wiring = field.wiring
    owner = wiring.port_variable[wiring.message_port]
    last = wiring.message_state == field.state_ptr[owner + 1] - 1
    lean = torch.where(last, leaning[field.variable_graph[owner]], 0.0)
    return MessagePassing(field).through_factors(lean)


def _count_phases(marginals: Tensor, settled: Tensor) -> Tensor:
    """Count different marginals among the starts that settled."""
    count = torch.zeros(marginals.shape[1], dtype=torch.int64)
    for start in range(marginals.shape[0]):
        new = settled[start].clone()
        for earlier in range(start):
            same = (marginals[start] - marginals[earlier]).abs().amax(-1) < 1e-4
            new &= ~(same & settled[earlier])
        count += new
    return count
