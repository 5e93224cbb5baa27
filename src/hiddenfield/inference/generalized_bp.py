"""Generalized belief propagation on region graphs: fast, accelerated, with a convergent loop to fall over to."""

from __future__ import annotations

import math

import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.region_clusters import choose_regions
from hiddenfield.fields.graphs.region_graph import RegionGraph
from hiddenfield.inference.double_loop import descend
from hiddenfield.inference.posterior import METHODS, Posterior
from hiddenfield.inference.regions.passing import RegionPassing
from hiddenfield.inference.regions.sweeps import ROUNDS, Sweeps, split_counting
from hiddenfield.iteration import Outcome, check_damping, check_least, iterate, part_of
from hiddenfield.limits import seconds_left
from hiddenfield.shapes import Array, Float, Tensor

REMEDY = "raise max_iterations or outer_iterations, or take smaller regions"


@METHODS.register(
    guarantee="exact on a junction tree, else an estimate",
    reference="Yedidia, Freeman & Weiss 2005",
    use="grids and other fields with short cycles: much more accurate than `loopy_bp`",
)
def generalized_bp(
    field: FactorGraph,
    *,
    regions: str | RegionGraph = "auto",
    damping: float = 0.3,
    memory: int = 10,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    outer_iterations: int = 500,
    messages: Float[Tensor, " messages"] | None = None,
    backend: str = "auto",
) -> Posterior:
    r"""Pass messages between regions until their beliefs agree: a stationary point of Kikuchi's free energy.

    For every inner region :math:`\beta`, small ones first, with its :math:`d_\beta` outer regions
    :math:`\alpha \supset \beta`,

    .. math::

        \log b_\beta &= \frac{\log\Phi_\beta + \sum_{\alpha} (m_{\alpha\beta} - n_{\beta\alpha})
            - \min(c_\beta, 0)\, \bar m_\beta}{d_\beta + \max(c_\beta, 0)} + \text{const}, \qquad
        m_{\alpha\beta} = \log \sum_{x_{\alpha\setminus\beta}} b_\alpha, \\
        n_{\beta\alpha} &\leftarrow n_{\beta\alpha} + (1 - \text{damping}) (\log b_\beta - m_{\alpha\beta}), \qquad
        b_\alpha \propto \Psi_\alpha \prod_{\beta \subset \alpha} e^{n_{\beta\alpha}},

    :math:`\bar m_\beta` the mean of the :math:`m_{\alpha\beta}`. This is the two-way form of Heskes, Albers and Kappen
    with the concave part of the free energy taken at the present beliefs. Its fixed points are those of the
    parent-to-child messages of Yedidia, Freeman and Weiss, which on the 4-loops of a grid seldom settle; here past
    states are mixed besides (Anderson 1965; the norm weights the change of a logarithm by its probability), and a few
    tens of sweeps suffice. Where that does not converge, the double loop of `double_loop` takes over, from the start,
    for the graphs concerned, and `status` says so.

    On Bethe's regions the fixed points are those of `loopy_bp`; on the cliques of a junction tree the result is exact;
    elsewhere it is an estimate, not a bound.

    Parameters
    ----------
    field
        The field. Counts of variables are possible on Bethe's regions only.
    regions
        "auto" (short cycles where their counting numbers sum to about 1, otherwise Bethe's; chosen for all graphs of a
        batch together, so that a graph alone may get others), "bethe", "cycles" (chordless, up to 6 variables),
        "faces" (up to 4), "junction_tree", or a `RegionGraph` made of the field.
    damping
        Weight of the old log message, in [0, 1).
    memory
        How many past states are mixed; 0 for none.
    tolerance, max_iterations
        Of the largest change of a region's probabilities in one undamped sweep; sweeps of the single loop.
    outer_iterations
        Of the double loop where it takes over; 0 never falls over.
    messages
        Where to start, for example ``posterior.extra["messages"]``.
    backend
        "numba" (sequential sweeps in double precision), "torch" (all regions at once, any device), or "auto".

    Returns
    -------
    Posterior
        Guarantee "exact" on regions of a junction tree that converged, otherwise "estimate"; ``extra["regions"]``
        has the region graph.

    Notes
    -----
    A sweep costs, for each pair of an outer region and an inner one within it, the size of the outer table.

    References
    ----------
    Yedidia, Freeman and Weiss (2005), Constructing free-energy approximations and generalized belief propagation
    algorithms. Heskes, Albers and Kappen (2003), Approximate inference and constrained optimization. Anderson (1965),
    Iterative procedures for nonlinear integral equations.

    Examples
    --------
    A square of variables that like to agree is one cycle, hence one region, hence exact.

    >>> import numpy as np
    >>> from hiddenfield.fields import ising_grid
    >>> posterior = generalized_bp(ising_grid(2, 2, 1.0, np.array([0.1, 0.0, 0.0, 0.0])))
    >>> posterior.guarantee, round(float(posterior.log_partition), 6)
    ('exact', 4.802705)
    """
    check_damping(damping)
    check_least(0, memory=memory)
    passing = RegionPassing(field, choose_regions(field, regions))
    if passing.is_forest:  # belief propagation settles by itself
        damping, memory = 0.0, 0
    size = int(passing.wiring.message_ptr[-1])
    if messages is not None and messages.shape != (size,):
        raise InputError(f"messages hold {size} numbers, got {tuple(messages.shape)}")
    counting = split_counting(passing)
    sweeps = Sweeps(
        passing, counting, tolerance=tolerance, damping=damping, memory=memory, begin=memory, backend=backend
    )
    outcome = _single_loop(
        passing, counting, sweeps, passing.start() if messages is None else messages, max_iterations
    )
    status, trace = outcome.describe(tolerance, REMEDY), {"residual": outcome.trace}
    if bool(outcome.converged.all()) or not outer_iterations or seconds_left() <= 0:
        return passing.posterior("generalized_bp", outcome.state, outcome, status, trace)
    return _fall_over(passing, outcome, trace, tolerance, outer_iterations, backend)


def _single_loop(
    passing: RegionPassing,
    counting: tuple[Array, Array],
    sweeps: Sweeps,
    messages: Float[Tensor, " messages"],
    max_iterations: int,
) -> Outcome[Tensor]:
    """Sweep with the anchor at the present beliefs until outer and inner beliefs agree."""

    def verify(state: Tensor) -> Tensor:
        residual = passing.residual(state, counting)
        sweeps.doubt(residual)
        return residual

    outcome = iterate(
        lambda state: sweeps(state, rounds=ROUNDS),
        messages,
        tolerance=sweeps.tolerance,
        max_iterations=math.ceil(max_iterations / ROUNDS),
        verify=verify,
    )
    return Outcome(outcome.state, outcome.converged, sweeps.iterations, outcome.residual, outcome.trace)


def _fall_over(
    passing: RegionPassing,
    outcome: Outcome[Tensor],
    trace: dict[str, list[float]],
    tolerance: float,
    outer_iterations: int,
    backend: str,
) -> Posterior:
    """Begin anew with the double loop in the graphs that did not converge."""
    owner = passing.inner_graph[passing.message_state]
    settled = outcome.converged[owner]
    start = torch.where(settled, outcome.state, passing.start())
    second, energies = descend(
        passing,
        start,
        tolerance=tolerance,
        max_iterations=outer_iterations,
        inner_iterations=400,
        backend=backend,
        frozen=outcome.converged,
    )
    how = (
        f"converged by the double loop after {int(second.iterations.max()):,} outer iterations"
        if bool(second.converged.all())
        else second.describe(tolerance, REMEDY)
    )
    status = f"{how} (the single loop had not converged{part_of(~outcome.converged)})"
    joined = Outcome(
        second.state,
        second.converged,
        torch.where(outcome.converged, outcome.iterations, outcome.iterations + second.iterations),
        torch.where(outcome.converged, outcome.residual, second.residual),
    )
    trace = {**trace, "free_energy": energies}
    return passing.posterior("generalized_bp", second.state.messages, joined, status, trace)
