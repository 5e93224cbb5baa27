"""Log partition and expected counts of a relational model at many settings of its weights at once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.relational import RelationalScheme, template
from hiddenfield.inference.infer import with_gradient
from hiddenfield.inference.loopy_bp import loopy_bp
from hiddenfield.inference.message_passing import MessagePassing
from hiddenfield.shapes import Bool, Float, Int, Tensor

__all__ = ["LEANINGS", "Evaluation", "evaluate"]

LEANINGS = (0.0, -8.0, 8.0)
"""Log ratios of the last state of every variable to the others from which messages start: none, empty, full."""


ROUNDS = ((0.2, 100), (0.7, 200), (0.9, 500), (0.97, 2000))
"""Damping and iterations, tried in turn on the settings that have not settled: negative weights on abundant features
make messages overshoot, and the more, the more damping they need."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a model is at each setting of its weights.

    Parameters
    ----------
    log_partition
        Bethe log partition of the best phase.
    expected
        Expected number of each feature in that phase, in the convention of the weights.
    marginals
        Marginal of each attribute in that phase.
    phases
        How many different phases the starts led to.
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
    bindings: str = "merged",
    weights: str = "ground",
    tolerance: float = 1e-9,
) -> Evaluation:
    r"""Run template-level belief propagation at every setting, from several starts, and keep the best phase of each.

    The log partition is that of the phase with the highest one (where two phases exist, the sum of their contributions
    to Z is the larger one's up to a constant); the expected counts are its gradient,
    :math:`\partial \log Z / \partial \theta_f = N_f E_b[f]`. An estimate. Cost: independent of the sizes; ten thousand
    settings are one batch.

    Examples
    --------
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> result = evaluate(graph_scheme("edge", "triangle"), 30, [[-2.0, 0.1], [-2.0, 0.2]])
    >>> result.phases
    tensor([1, 2])
    """
    matrix = theta if isinstance(theta, torch.Tensor) else torch.as_tensor(theta, dtype=torch.float64)
    matrix = matrix.detach().double().reshape(-1, len(scheme.features))
    options: dict[str, Any] = {"bindings": bindings, "weights": weights}
    found = _settle(scheme, sizes, matrix, options, *ROUNDS[0], tolerance)
    for damping, iterations in ROUNDS[1:]:
        left = torch.nonzero(~found.converged)[:, 0]
        if not len(left):
            break
        again = _settle(scheme, sizes, matrix[left], options, damping, iterations, tolerance)
        for part in dataclasses.fields(Evaluation):
            getattr(found, part.name)[left] = getattr(again, part.name)
    return found


def _settle(
    scheme: RelationalScheme,
    sizes: Mapping[str, int] | int,
    theta: Tensor,
    options: dict[str, Any],
    damping: float,
    iterations: int,
    tolerance: float,
) -> Evaluation:
    """Iterate all settings from all starts with one damping, and keep each setting's best phase that settled."""
    settings = theta.shape[0]
    with torch.enable_grad():
        repeated = theta.repeat(len(LEANINGS), 1).requires_grad_()
        field = template(scheme, sizes, repeated, **options)
    with torch.no_grad():
        plain = field.detach()
        start = _start(plain, settings)
        posterior = loopy_bp(
            plain, damping=damping, tolerance=tolerance, max_iterations=iterations, messages=start
        )
    values = posterior.log_partition.reshape(len(LEANINGS), settings)
    settled = posterior.converged.reshape(len(LEANINGS), settings)
    scored = torch.where(settled, values, -math.inf)
    best = scored.argmax(0) * settings + torch.arange(settings)
    with torch.enable_grad():
        total = with_gradient(posterior, field)[best].sum()
        (gradient,) = torch.autograd.grad(total, repeated)
    marginals = posterior.marginals.reshape(len(LEANINGS) * settings, -1, posterior.marginals.shape[-1])
    return Evaluation(
        posterior.log_partition[best],
        gradient[best],
        marginals[best],
        _count_phases(marginals.reshape(len(LEANINGS), settings, -1), settled),
        settled.all(0),
    )


def _start(field: FactorGraph, settings: int) -> Tensor:
    """Return what factors send when every variable leans to its last state or away from it."""
    wiring = field.wiring
    owner = wiring.port_variable[wiring.message_port]
    last = wiring.message_state == field.state_ptr[owner + 1] - 1
    strength = torch.tensor(LEANINGS, dtype=field.dtype).repeat_interleave(settings)
    lean = torch.where(last, strength[field.variable_graph[owner]], 0.0)
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
