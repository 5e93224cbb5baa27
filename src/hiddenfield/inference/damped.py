"""Damped belief propagation in the dual of Minka: the total message of a variable moves by one share at a time."""

from __future__ import annotations

import math

import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.region_clusters import choose_regions
from hiddenfield.inference.messages.passing import normalise_segments
from hiddenfield.inference.posterior import METHODS, Posterior
from hiddenfield.inference.regions.passing import RegionPassing
from hiddenfield.inference.regions.sweeps import Sweeps, lag_of_regions, split_counting
from hiddenfield.iteration import Outcome, iterate
from hiddenfield.shapes import Tensor

REMEDY = "try method 'double_loop', which always converges, or raise max_iterations"

RUNAWAY = 1e4
"""Log messages beyond this have left every belief behind: the iteration diverges."""


@METHODS.register(
    guarantee="exact on forests, else an estimate",
    reference="Minka 2001",
    use="where `loopy_bp` oscillates and a dual form is wanted",
)
def damped(
    field: FactorGraph, *, tolerance: float = 1e-6, max_iterations: int = 5000, backend: str = "auto"
) -> Posterior:
    r"""Alternate over the dual of Bethe's free energy: messages given the totals, totals given the messages.

    Minka's dual is :math:`\min_\gamma \max_\lambda \sum_i (d_i - 1) \log \sum_{x_i} \Phi_i e^{\gamma_i} - \sum_{f} \log
    \sum_{x_f} \Psi_f \prod_{i \in f} \Phi_i e^{\lambda_{if}}` with :math:`(d_i - 1) \gamma_i = \sum_f \lambda_{if}`,
    :math:`d_i` the number of factors at i. Its updates, in terms of messages :math:`m_{fi}` from factors,

    .. math::

        \lambda_{if} &= \frac{d_i - 1}{d_i} \gamma_i + \frac{1}{d_i} \sum_{g \ni i} \log m_{gi} - \log m_{fi} \\
        m_{fi}(x_i) &\propto \sum_{x_{f \setminus i}} \Psi_f \prod_{j \in f \setminus i} \Phi_j e^{\lambda_{jf}} \\
        \gamma_i &\leftarrow \frac{d_i - 1}{d_i} \gamma_i + \frac{1}{d_i} \sum_{g \ni i} \log m_{gi},

    move the total :math:`\gamma_i` by one of its :math:`d_i` shares instead of all: the damping grows with the degree
    of a variable. At a fixed point :math:`\gamma_i = \sum_g \log m_{gi}`, which is that of `loopy_bp`. Convergence is
    more likely than there but not certain, as one step of the inner maximisation is taken for each outer one; with
    the inner one solved it is `double_loop`.

    Parameters
    ----------
    field
        The field; with counts, :math:`d_i` is the multiplicity of all ports of i.
    tolerance, max_iterations
        Of the largest change of a belief in one sweep over the variables.
    backend
        "numba" (variable after variable), "torch" (all at once, halved on pairwise fields), or "auto".

    Returns
    -------
    Posterior
        Guarantee "exact" on a forest that converged, otherwise "estimate".

    Notes
    -----
    A sweep costs what one of `loopy_bp` costs.

    References
    ----------
    Minka (2001), The EP energy function and minimization schemes. Dai, Dai and Song (2016), Discriminative embeddings
    of latent variable models for structured data, appendix B.2.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> from hiddenfield.inference import loopy_bp
    >>> field = ising_grid(3, 3, 0.4, 0.1)
    >>> difference = damped(field).log_partition - loopy_bp(field).log_partition
    >>> bool(difference.abs() < 1e-5)
    True
    """
    passing = RegionPassing(field, choose_regions(field, "bethe"))
    outcome = _lagging_loop(passing, tolerance, max_iterations, backend)
    status = outcome.describe(tolerance, REMEDY)
    return passing.posterior("damped", outcome.state[0], outcome, status, {"residual": outcome.trace})


def _lagging_loop(
    passing: RegionPassing, tolerance: float, max_iterations: int, backend: str
) -> Outcome[tuple[Tensor, Tensor]]:
    """Sweep with the anchor one sweep behind: one step of the inner loop for each step of the outer one."""
    counting = split_counting(passing)
    sweeps = Sweeps(passing, counting, tolerance=tolerance, backend=backend)
    owner, graphs = passing.inner_graph, passing.field.num_graphs
    receiver = owner[passing.message_state]

    def step(state: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor, Tensor], Tensor]:
        old, anchor = state
        sweeps.doubt(torch.full((graphs,), math.inf, dtype=anchor.dtype, device=anchor.device))
        messages, residual = sweeps(old.clone(), anchor)
        belief = sweeps.belief
        change = (belief.exp() - anchor.exp()).abs()
        residual = residual.scatter_reduce(0, owner, change, "amax")
        # Where messages grow without end they would come to look like hard zeros: such a graph is left as it was.
        lost = torch.zeros(graphs, dtype=torch.bool, device=anchor.device)
        lost[receiver[messages.isfinite() & (messages.abs() > RUNAWAY)]] = True
        if bool(lost.any()):
            messages = torch.where(lost[receiver], old, messages)
            belief = torch.where(lost[owner], anchor, belief)
            residual = torch.where(lost, residual.clamp(min=2 * tolerance), residual)
        return (messages, belief), residual

    def verify(state: tuple[Tensor, Tensor]) -> Tensor:
        residual = passing.residual(state[0], counting)
        if not bool((residual <= tolerance).all()):
            return residual
        return torch.maximum(residual, lag_of_regions(passing, state[0], residual, tolerance))

    return iterate(
        step,
        (passing.start(), normalise_segments(passing.log_inner, passing.inner_ptr)[0]),
        tolerance=tolerance,
        max_iterations=max_iterations,
        verify=verify,
    )
