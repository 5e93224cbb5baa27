"""The double loop: minimise the Bethe or Kikuchi free energy, never letting it rise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.region_clusters import choose_regions
from hiddenfield.fields.graphs.region_graph import RegionGraph
from hiddenfield.inference.messages.passing import normalise_segments
from hiddenfield.inference.posterior import METHODS, Posterior
from hiddenfield.inference.regions.mixing import Mixing
from hiddenfield.inference.regions.passing import RegionPassing
from hiddenfield.inference.regions.sweeps import ROUNDS, Sweeps, lag_of_regions, split_counting
from hiddenfield.iteration import Outcome, iterate
from hiddenfield.shapes import Bool, Float, Tensor

REMEDY = "raise max_iterations: the free energy falls with every one"

LEAST = -150.0
"""Log probabilities below this are taken for this in the tangent of the double loop."""

SLACK = 10.0
"""Rise of the free energy, in inner tolerances times its size, that is still taken for rounding."""

MEMORY = 8
"""Past beliefs that the double loop extrapolates from."""


@dataclass(frozen=True, eq=False)
class Descent:
    """State of the double loop: messages, the next anchor, the last beliefs of inner regions, and the free energy."""

    messages: Float[Tensor, " messages"]
    anchor: Float[Tensor, " inner_states"]
    belief: Float[Tensor, " inner_states"]
    free_energy: Float[Tensor, " graphs"]


@METHODS.register(
    guarantee="exact on forests, else an estimate",
    reference="Yuille 2002",
    use="where `loopy_bp` does not converge: it always does, more slowly",
)
def double_loop(
    field: FactorGraph,
    *,
    regions: str | RegionGraph = "bethe",
    tolerance: float = 1e-6,
    max_iterations: int = 5000,
    inner_iterations: int = 400,
    backend: str = "auto",
) -> Posterior:
    r"""Minimise a free energy by bounding its concave part at the last beliefs, again and again.

    With the counting numbers split into :math:`c_\beta = \max(c_\beta, 0) + \min(c_\beta, 0)`, entropies with a
    negative one are concave, hence below their tangent at the last beliefs :math:`b^{t}`. Each outer iteration
    minimises

    .. math::

        b^{t+1} = \arg\min_b F_{\text{convex}}(b) + \sum_\beta \min(c_\beta, 0)\, E_{b_\beta}[\log b_\beta^{t}]

    over beliefs that agree. It is convex; the inner loop maximises its dual one inner region at a time, which is the
    update of `generalized_bp` with the anchor held fixed, starting from the last messages. Since the bound touches
    F at :math:`b^t`, the free energy never rises: ``trace["free_energy"]`` records it (the sum over graphs), monotone
    up to the tolerance of the inner loop. To need fewer iterations, the tangent is taken at beliefs extrapolated from
    the last eight (Anderson 1965; changes count by their probability); where that would let the free energy rise, it
    is taken at the last ones after all. Fixed points are those of belief propagation (on Bethe's regions) or
    generalized belief propagation; only minima attract.

    Parameters
    ----------
    field
        The field; with counts on Bethe's regions only.
    regions
        As in `generalized_bp`; Bethe's by default, the algorithm of Yuille.
    tolerance, max_iterations
        Of the largest change of a probability; outer iterations.
    inner_iterations
        Sweeps of the inner loop, at most.
    backend
        "numba", "torch" or "auto".

    Returns
    -------
    Posterior
        As of `generalized_bp`, with ``trace["free_energy"]``.

    Notes
    -----
    Computed in double precision, whatever that of the field. An outer iteration costs some ten to thirty sweeps; tens
    of them are usual, hundreds where it is hard.

    References
    ----------
    Yuille (2002), CCCP algorithms to minimize the Bethe and Kikuchi free energies. Heskes, Albers and Kappen (2003),
    Approximate inference and constrained optimization. Anderson (1965), Iterative procedures for nonlinear integral
    equations.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> posterior = double_loop(ising_grid(3, 3, -0.5, 0.1))
    >>> energies = posterior.trace["free_energy"]
    >>> posterior.status, all(later <= earlier + 1e-9 for earlier, later in zip(energies, energies[1:]))
    ('converged', True)
    """
    # In single precision, rounding of extreme messages would keep their changes above the tolerance.
    passing = RegionPassing(field.to(torch.float64), choose_regions(field, regions))
    outcome, energies = descend(
        passing,
        passing.start(),
        tolerance=tolerance,
        max_iterations=max_iterations,
        inner_iterations=inner_iterations,
        backend=backend,
    )
    trace = {"residual": outcome.trace, "free_energy": energies}
    status = outcome.describe(tolerance, REMEDY)
    return passing.posterior("double_loop", outcome.state.messages, outcome, status, trace).rounded(field)


def descend(
    passing: RegionPassing,
    messages: Float[Tensor, " messages"],
    *,
    tolerance: float,
    max_iterations: int,
    inner_iterations: int,
    backend: str,
    frozen: Bool[Tensor, " graphs"] | None = None,
) -> tuple[Outcome[Descent], list[float]]:
    """Run the double loop; return where it ended and the free energy after each outer iteration.

    `frozen` graphs are left as they are.
    """
    counting = split_counting(passing)
    precise = passing.field.dtype == torch.float64
    inner_tolerance = max(1e-3 * tolerance, 1e-12) if precise else 0.1 * tolerance
    sweeps = Sweeps(
        passing,
        counting,
        tolerance=inner_tolerance,
        memory=0 if passing.is_forest else 6,
        begin=4,
        backend=backend,
    )
    graphs = passing.field.num_graphs
    fixed = torch.zeros(graphs, dtype=torch.bool, device=passing.field.device) if frozen is None else frozen
    owner = passing.inner_graph[passing.message_state]
    energies: list[float] = []
    mixing = Mixing(passing.inner_graph, graphs, MEMORY, passing.field.dtype)

    def step(state: Descent) -> tuple[Descent, Tensor]:
        messages = _convex_minimum(sweeps, state.messages, state.anchor, inner_iterations, fixed)
        beliefs = passing.beliefs(messages)
        energy, anchor = -passing.negative_free_energy(beliefs), state.anchor
        # Rises that the inner loop's own error explains are none: taken for such, they would end the extrapolation.
        slack = SLACK * inner_tolerance * (1 + state.free_energy.abs())
        worse = ~(energy <= state.free_energy + slack) & ~fixed
        if bool(worse.any()) and energies:
            # The extrapolated anchor led upwards: the last beliefs cannot.
            mixing.forget()
            anchor = torch.where(worse[passing.inner_graph], state.belief, anchor)
            again = _convex_minimum(sweeps, state.messages, anchor, inner_iterations, fixed | ~worse)
            messages = torch.where(worse[owner], again, messages)
            beliefs = passing.beliefs(messages)
            energy = -passing.negative_free_energy(beliefs)
        energies.append(float(energy[energy.isfinite()].sum()))
        change = (beliefs.inner.exp() - anchor.exp()).abs()
        worst = torch.zeros_like(energy).scatter_reduce(0, passing.inner_graph, change, "amax")
        mixed = mixing(beliefs.inner, beliefs.inner - anchor, beliefs.inner.exp())
        ahead = normalise_segments(mixed, passing.inner_ptr)[0]
        # The lowest so far, so that small rises cannot add up.
        lowest = torch.fmin(energy, state.free_energy) if len(energies) > 1 else energy
        new = Descent(messages, _bounded(ahead), _bounded(beliefs.inner), lowest)
        return new, torch.where(fixed, 0 * worst, worst)

    def verify(state: Descent) -> Tensor:
        residual = passing.residual(state.messages, counting)
        if bool(((residual <= tolerance) | fixed).all()):
            residual = torch.maximum(residual, lag_of_regions(passing, state.messages, residual, tolerance))
        return torch.where(fixed, torch.zeros_like(residual), residual)

    start = passing.beliefs(messages)
    first = Descent(messages, start.inner, start.inner, -passing.negative_free_energy(start))
    outcome = iterate(step, first, tolerance=tolerance, max_iterations=max_iterations, verify=verify)
    return outcome, energies


def _bounded(anchor: Float[Tensor, " inner_states"]) -> Float[Tensor, " inner_states"]:
    """Keep possible states above a probability that cannot matter, so that messages stay in range at the border."""
    return torch.where(anchor == -math.inf, anchor, anchor.clamp(min=LEAST))


def _convex_minimum(
    sweeps: Sweeps,
    messages: Float[Tensor, " messages"],
    anchor: Float[Tensor, " inner_states"],
    most: int,
    frozen: Bool[Tensor, " graphs"],
) -> Float[Tensor, " messages"]:
    """Minimise the convex bound at the anchor, warm from the last messages."""
    sweeps.forget(frozen)
    done = iterate(
        lambda state: sweeps(state, anchor, rounds=ROUNDS),
        messages,
        tolerance=sweeps.tolerance,
        max_iterations=math.ceil(most / ROUNDS),
    )
    return done.state
