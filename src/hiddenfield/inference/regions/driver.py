"""The two loops over regions: one that is fast, and one that always converges."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from hiddenfield.inference.messages.passing import normalise_segments
from hiddenfield.inference.posterior import Guarantee, Posterior
from hiddenfield.inference.regions.mixing import mix
from hiddenfield.inference.regions.passing import RegionPassing
from hiddenfield.inference.regions.sweeps import KernelSweeps, TorchSweeps, make_sweeps, split_counting
from hiddenfield.iteration import Outcome, iterate, lag
from hiddenfield.shapes import Array, Bool, Float, Tensor

__all__ = ["Descent", "conclude", "descend", "lagging_loop", "single_loop"]

ROUNDS = 8
"""Sweeps between two looks at the residual: a look costs about as much as a small sweep."""

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


def single_loop(
    passing: RegionPassing,
    messages: Float[Tensor, " messages"],
    *,
    linear: float,
    damping: float,
    memory: int,
    tolerance: float,
    max_iterations: int,
    backend: str,
) -> Outcome[Tensor]:
    """Sweep with the anchor at the present beliefs until outer and inner beliefs agree."""
    counting = split_counting(passing, linear)
    sweeps = make_sweeps(
        passing, counting, damping=damping, tolerance=tolerance, memory=memory, begin=memory, backend=backend
    )

    def verify(state: Tensor) -> Tensor:
        residual = passing.residual(state, counting)
        sweeps.doubt(residual)
        return residual

    looks = math.ceil(max_iterations / ROUNDS)
    outcome = iterate(
        lambda state: sweeps(state, rounds=ROUNDS),
        messages,
        tolerance=tolerance,
        max_iterations=looks,
        verify=verify,
    )
    return Outcome(outcome.state, outcome.converged, sweeps.iterations, outcome.residual, outcome.trace)


RUNAWAY = 1e4
"""Log messages beyond this have left every belief behind: the iteration diverges."""


def lagging_loop(
    passing: RegionPassing,
    *,
    tolerance: float,
    max_iterations: int,
    backend: str,
) -> Outcome[Tensor]:
    """Sweep with the anchor one sweep behind: one step of the inner loop for each step of the outer one."""
    counting = _convex(passing)
    sweeps = make_sweeps(
        passing, counting, damping=0.0, tolerance=tolerance, memory=0, begin=0, backend=backend
    )
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
        return torch.maximum(residual, _lag(passing, state[0], residual, tolerance))

    outcome = iterate(
        step,
        (passing.start(), normalise_segments(passing.log_inner, passing.inner_ptr)[0]),
        tolerance=tolerance,
        max_iterations=max_iterations,
        verify=verify,
    )
    return Outcome(outcome.state[0], outcome.converged, outcome.iterations, outcome.residual, outcome.trace)


def _lag(
    passing: RegionPassing, messages: Float[Tensor, " messages"], residual: Tensor, tolerance: float
) -> Float[Tensor, " graphs"]:
    """Look ahead by belief propagation on Bethe's regions: all at once, all of a total instead of a share of it."""
    if not passing.is_bethe:
        return torch.zeros_like(residual)
    counting = split_counting(passing, 0.0)
    most = float(passing.regions.degree.max(initial=1.0) * passing.regions.outer.sizes.max(initial=1))

    def update(state: Tensor) -> Tensor:
        pair = passing.pair_marginals(state)
        target = passing.targets(state, pair, counting, None)[passing.message_state]
        return torch.where(target.isfinite() & pair.isfinite(), state + target - pair, state)

    return lag(
        update,
        lambda state: passing.mean(passing.pair_marginals(state)).exp(),
        passing.inner_graph,
        messages,
        residual,
        tolerance=tolerance,
        # As many messages as a message reads, at most: none of them changes it by more than it changed itself.
        growth=most,
    )


def _convex(passing: RegionPassing) -> tuple[Array, Array]:
    """Return counting numbers whose free energy is convex; on a forest it is without a tangent, and BP settles."""
    return split_counting(passing, 0.0 if passing.is_forest else 1.0)


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
    counting = _convex(passing)
    precise = passing.field.dtype == torch.float64
    inner_tolerance = max(1e-3 * tolerance, 1e-12) if precise else 0.1 * tolerance
    sweeps = make_sweeps(
        passing,
        counting,
        damping=0.0,
        tolerance=inner_tolerance,
        memory=0 if passing.is_forest else 6,
        begin=4,
        backend=backend,
    )
    graphs = passing.field.num_graphs
    fixed = torch.zeros(graphs, dtype=torch.bool, device=passing.field.device) if frozen is None else frozen
    owner = passing.inner_graph[passing.message_state]
    energies: list[float] = []
    past: list[tuple[Tensor, Tensor]] = []

    def step(state: Descent) -> tuple[Descent, Tensor]:
        messages = _convex_minimum(sweeps, state.messages, state.anchor, inner_iterations, fixed)
        beliefs = passing.beliefs(messages)
        energy, anchor = -passing.negative_free_energy(beliefs), state.anchor
        # Rises that the inner loop's own error explains are none: taken for such, they would end the extrapolation.
        slack = SLACK * inner_tolerance * (1 + state.free_energy.abs())
        worse = ~(energy <= state.free_energy + slack) & ~fixed
        if bool(worse.any()) and energies:
            # The extrapolated anchor led upwards: the last beliefs cannot.
            past.clear()
            anchor = torch.where(worse[passing.inner_graph], state.belief, anchor)
            again = _convex_minimum(sweeps, state.messages, anchor, inner_iterations, fixed | ~worse)
            messages = torch.where(worse[owner], again, messages)
            beliefs = passing.beliefs(messages)
            energy = -passing.negative_free_energy(beliefs)
        energies.append(float(energy[energy.isfinite()].sum()))
        change = (beliefs.inner.exp() - anchor.exp()).abs()
        worst = torch.zeros_like(energy).scatter_reduce(0, passing.inner_graph, change, "amax")
        past.insert(0, (beliefs.inner, beliefs.inner - anchor))
        del past[MEMORY:]
        ahead = normalise_segments(
            mix(past, passing.inner_graph, graphs, beliefs.inner.exp()), passing.inner_ptr
        )[0]
        # The lowest so far, so that small rises cannot add up.
        lowest = torch.fmin(energy, state.free_energy) if len(energies) > 1 else energy
        new = Descent(messages, _bounded(ahead), _bounded(beliefs.inner), lowest)
        return new, torch.where(fixed, 0 * worst, worst)

    def verify(state: Descent) -> Tensor:
        residual = passing.residual(state.messages, counting)
        if bool(((residual <= tolerance) | fixed).all()):
            residual = torch.maximum(residual, _lag(passing, state.messages, residual, tolerance))
        return torch.where(fixed, torch.zeros_like(residual), residual)

    start = passing.beliefs(messages)
    first = Descent(messages, start.inner, start.inner, -passing.negative_free_energy(start))
    outcome = iterate(step, first, tolerance=tolerance, max_iterations=max_iterations, verify=verify)
    return outcome, energies


def _bounded(anchor: Float[Tensor, " inner_states"]) -> Float[Tensor, " inner_states"]:
    """Keep possible states above a probability that cannot matter, so that messages stay in range at the border."""
    return torch.where(anchor == -math.inf, anchor, anchor.clamp(min=LEAST))


def _convex_minimum(
    sweeps: KernelSweeps | TorchSweeps,
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


def conclude(
    passing: RegionPassing,
    method: str,
    messages: Float[Tensor, " messages"],
    outcome: Outcome[Tensor] | Outcome[Descent],
    status: str,
    trace: dict[str, list[float]],
) -> Posterior:
    """Make a posterior of messages: exact where the regions are a junction tree's and all has converged."""
    beliefs = passing.beliefs(messages)
    marginals, factors = passing.marginals(beliefs)
    converged = bool(outcome.converged.all())
    exact = converged and passing.regions.is_junction_tree
    guarantee: Guarantee = "exact" if exact else "estimate"
    return Posterior(
        field=passing.field,
        method=method,
        log_marginals=marginals,
        factor_log_marginals=factors,
        log_partition=passing.negative_free_energy(beliefs),
        guarantee=guarantee,
        converged=outcome.converged,
        iterations=outcome.iterations,
        residual=outcome.residual,
        status=status,
        trace=trace,
        extra={"messages": messages, "regions": passing.regions},
    )
