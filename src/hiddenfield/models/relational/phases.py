"""The phases of a relational model: all fixed points of belief propagation on its template, with their stability."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.build import concatenate_fields
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.relational import Classes, RelationalScheme, template, weight_matrix
from hiddenfield.inference.infer import with_gradient
from hiddenfield.inference.messages.free_energy import negative_free_energy
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.inference.messages.phases import pole_messages
from hiddenfield.inference.messages.propagation import propagate
from hiddenfield.inference.posterior import Posterior
from hiddenfield.models.relational.evaluation import check_domain
from hiddenfield.shapes import Float, Tensor

MOST_MESSAGES = 2000
"""Numbers in the messages beyond which Newton's method, cubic in them, is refused."""
MOST_STEPS, ACCURATE = 60, 1e-12
"""Steps of Newton's method, and the gap below which there is none to take."""


@dataclass(frozen=True, eq=False)
class Phase:
    """One fixed point of template-level belief propagation.

    Parameters
    ----------
    log_partition
        Bethe's estimate.
    marginals
        Of each attribute, the probability of each of its values.
    stable
        Whether iteration can settle there: a phase. Unstable points lie between phases.
    expected_counts
        Of each feature, in the convention of the weights.
    """

    log_partition: float
    marginals: dict[str, dict[str, float]]
    stable: bool
    expected_counts: dict[str, float]


def find_phases(
    scheme: RelationalScheme,
    sizes: Mapping[str, int] | int,
    theta: Any,
    *,
    bindings: str = "auto",
    weights: str = "ground",
    given: Classes | None = None,
) -> list[Phase]:
    """Find the fixed points of template-level belief propagation: phases first, the dominant one before all.

    The phase of the highest log partition holds almost all probability. Unstable points, which separate phases, come
    last.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> found = find_phases(graph_scheme("edge", "triangle"), 30, np.array([-2.0, 0.2]))
    >>> [(round(point.marginals["exist"]["1"], 3), point.stable) for point in found]
    [(0.131, True), (0.956, True), (0.745, False)]
    """
    check_domain(scheme, sizes)
    weight = weight_matrix(scheme.features, theta).detach().clone()[0].requires_grad_()
    with torch.enable_grad():
        field = template(scheme, sizes, weight, bindings=bindings, weights=weights, given=given)
    found = []
    for point in fixed_points(field.detach()):
        slope = torch.zeros_like(weight)
        with torch.enable_grad():
            total = with_gradient(point.posterior, field).sum()
            if total.requires_grad:  # not where the domain is too small for any feature
                (slope,) = torch.autograd.grad(total, weight, retain_graph=True)
        marginals = {}
        for row, name in zip(point.posterior.marginals.tolist(), field.variable_names, strict=True):
            attribute = scheme.attributes[name.split("[")[0]]
            marginals[name] = dict(zip(attribute.values, row, strict=False))
        counts = dict(zip(scheme.features, slope.tolist(), strict=True))
        found.append(Phase(point.log_partition, marginals, point.stable, counts))
    return sorted(found, key=lambda phase: not phase.stable)


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """One fixed point: its posterior, and how messages near it behave.

    Parameters
    ----------
    posterior
        Marginals and Bethe log partition at the fixed point.
    spectral_radius
        Of the undamped update's derivative: below 1 where plain iteration converges to it.
    stable
        Whether damped iteration converges to it (every eigenvalue has a real part below 1): a phase. An unstable one
        separates phases.
    """

    posterior: Posterior
    spectral_radius: float
    stable: bool

    @property
    def log_partition(self) -> float:
        """Bethe log partition."""
        return float(self.posterior.log_partition[0])


def fixed_points(field: FactorGraph, *, starts: int = 13, tolerance: float = 1e-10) -> list[FixedPoint]:
    r"""Find the fixed points of loopy belief propagation on one small field, stable and unstable, best log Z first.

    Messages start from every *pole*, all variables leaning to chosen states by log ratios of -12 to 12, and run both
    damped iteration, which finds phases, and Newton's method on :math:`F(m) - m = 0`, which also finds the unstable
    points between them; it is tried from between all phases found as well. Several starts make it likely, not certain,
    that none is missed.

    Parameters
    ----------
    field
        A single field, usually a template; its messages may hold up to two thousand numbers and no hard zeros.
    starts
        How many strengths of leaning are tried for each pole.
    tolerance
        Of the residual of a fixed point.

    Notes
    -----
    The cost is that of some tens of Newton iterations, each cubic in the size of the messages: milliseconds for a
    template.

    References
    ----------
    Heskes (2004), On the uniqueness of loopy belief propagation fixed points.

    Examples
    --------
    A magnet: each of a thousand variables agrees with four others, so strongly that all are up or all are down.

    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> agree = np.array([[0.9, 0.0], [0.0, 0.9]])
    >>> field = from_factors([[0, 0]], [agree], counts=[1000], factor_counts=[2000])
    >>> sorted((round(float(p.posterior.marginals[0, 1]), 3), p.stable) for p in fixed_points(field))
    [(0.065, True), (0.5, False), (0.935, True)]
    """
    if field.num_graphs != 1:
        raise InputError(f"fixed points are found for one field at a time, got a batch of {field.num_graphs}")
    size = field.wiring.message_state.shape[0]
    if size > MOST_MESSAGES:
        raise InputError(
            f"finding all fixed points needs messages of at most {MOST_MESSAGES} numbers, this field has {size:,}; "
            "use the template or compress the field"
        )
    if size == 0:
        # Without factors there is nothing to iterate: one point, and exact.
        return [_fixed_point(MessagePassing(field), field.log_unary.new_zeros(0), tolerance)]
    begin = pole_messages(field, starts)
    batch = concatenate_fields([field] * begin.shape[0])
    start = batch.wiring.interleave(begin)
    _, outcome = propagate(batch, messages=start, damping=0.5, tolerance=tolerance, max_iterations=2000)
    settled = batch.wiring.separate(outcome.state, len(begin))
    passing = MessagePassing(field)
    candidates = _newton(passing, [*_unlike(settled[outcome.converged]), *begin], tolerance)
    phases = _distinct(passing, candidates)
    # What separates two phases lies between them.
    shares = np.linspace(0, 1, 18)[1:-1]
    between = [(1 - t) * a + t * b for a, b in itertools.pairwise(phases) for t in shares]
    found = _distinct(passing, phases + _newton(passing, between, tolerance))
    points = [_fixed_point(passing, messages, tolerance) for messages in found]
    return sorted(points, key=lambda point: -point.log_partition)


def _unlike(rows: Float[Tensor, "rows messages"]) -> list[Tensor]:
    """Return one of all rows that differ by rounding alone: most starts end in the same few phases."""
    kept: list[Tensor] = []
    for row in rows:
        if all(float((row.exp() - other.exp()).abs().max()) > 1e-6 for other in kept):
            kept.append(row)
    return kept


def _newton(passing: MessagePassing, starts: list[Tensor], tolerance: float) -> list[Tensor]:
    r"""Solve F(m) = m by Levenberg's and Marquardt's method from all starts at once; return those that get there.

    With the gap :math:`r = F(m) - m` and its derivative J, steps are :math:`-(J^T J + \lambda I)^{-1} J^T r`; one that
    makes the gap larger is taken back, and :math:`\lambda` grows.

    References
    ----------
    Marquardt (1963), An algorithm for least-squares estimation of nonlinear parameters.
    """
    if not starts:
        return []
    rows = torch.stack(starts).double()
    batch = MessagePassing(concatenate_fields([passing.field] * len(rows)))
    gap, slope = _gaps(batch, rows)
    size, damping = gap.norm(dim=1), rows.new_full((len(rows),), 1e-3)
    eye = torch.eye(rows.shape[1], dtype=rows.dtype)
    for _ in range(MOST_STEPS):
        going = (size > ACCURATE) & (damping < 1e12)
        if not bool(going.any()):
            break
        squares, right = slope.mT @ slope, (slope.mT @ gap[:, :, None])[:, :, 0]
        step = torch.linalg.solve(squares + damping[:, None, None] * eye, right)
        tried = torch.where(going[:, None], rows - step, rows)
        new_gap, new_slope = _gaps(batch, tried)
        better = going & (new_gap.norm(dim=1) < size)
        rows, gap = torch.where(better[:, None], tried, rows), torch.where(better[:, None], new_gap, gap)
        slope, size = torch.where(better[:, None, None], new_slope, slope), gap.norm(dim=1)
        damping = torch.where(better, damping / 10, damping * 10)
    reached = []
    for row in rows.to(passing.field.dtype)[size.isfinite()]:
        found = passing.normalise(row)
        if float(passing.residual(found).max()) <= math.sqrt(tolerance):
            reached.append(found)
    return reached


def _gaps(batch: MessagePassing, rows: Float[Tensor, "starts messages"]) -> tuple[Tensor, Tensor]:
    """Return F(m) - m for each row, one per copy of the field, and its derivative."""
    wiring, count = batch.field.wiring, len(rows)
    with torch.enable_grad():
        flat = wiring.interleave(rows).to(batch.field.dtype).requires_grad_()
        out = wiring.separate(batch.update(flat), count)
        slope = [
            wiring.separate(torch.autograd.grad(column.sum(), flat, retain_graph=True)[0], count)
            for column in out.unbind(1)
        ]
    jacobian = torch.stack(slope, 1).double() - torch.eye(rows.shape[1], dtype=torch.float64)
    return out.detach().double() - rows, jacobian


def _distinct(passing: MessagePassing, candidates: list[Tensor]) -> list[Tensor]:
    """Return messages of which no two give the same marginals."""
    kept: list[tuple[Tensor, Tensor]] = []
    for messages in candidates:
        marginals = passing.beliefs(messages)[0].exp()
        if all(float((marginals - other).abs().max()) >= 1e-5 for other, _ in kept):
            kept.append((marginals, messages))
    return [messages for _, messages in kept]


def _fixed_point(passing: MessagePassing, messages: Tensor, tolerance: float) -> FixedPoint:
    """Return the posterior at a fixed point, and how messages near it behave."""
    field, (marginals, factors) = passing.field, passing.beliefs(messages)
    eigenvalues = np.zeros(1)
    if len(messages):
        slope = _gaps(passing, messages[None].double())[1][0] + torch.eye(len(messages), dtype=torch.float64)
        eigenvalues = np.linalg.eigvals(slope.numpy())
    residual = passing.residual(messages)
    posterior = Posterior(
        field=field,
        method="loopy_bp",
        log_marginals=marginals,
        factor_log_marginals=factors,
        log_partition=negative_free_energy(field, marginals, factors),
        guarantee="estimate",
        converged=residual <= max(math.sqrt(tolerance), tolerance),
        iterations=torch.zeros(1, dtype=torch.int64),
        residual=residual,
        extra={"messages": messages},
    )
    return FixedPoint(posterior, float(np.abs(eigenvalues).max()), bool(eigenvalues.real.max() < 1))
