"""The one loop that all iterative algorithms run in, and a test for damped ones that only seem to have settled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch

from hiddenfield.errors import InputError, checked_integer
from hiddenfield.limits import OutOfTimeError, seconds_left
from hiddenfield.shapes import Bool, Float, Int, Tensor

State = TypeVar("State")

AHEAD = 8
"""Undamped updates that are looked ahead."""

LOOKS = (1, 2, 4, AHEAD)
"""After so many of them beliefs are compared."""


@dataclass(frozen=True, eq=False)
class Outcome(Generic[State]):
    """Where an iteration ended: its state, and for each graph whether, when and how closely it settled."""

    state: State
    converged: Bool[Tensor, " graphs"]
    iterations: Int[Tensor, " graphs"]
    residual: Float[Tensor, " graphs"]
    trace: list[float] = field(default_factory=list)

    def describe(self, tolerance: float, remedy: str) -> str:
        """Say in words how it ended, with the remedy where it did not settle."""
        if bool(self.converged.all()):
            return "converged"
        worst, part = float(self.residual.max()), part_of(~self.converged)
        if not math.isfinite(worst):
            return f"diverged{part}: a message is not a number; {remedy}"
        steps = int(self.iterations.max())
        reached = f"residual {worst:.2g}, tolerance {tolerance:.2g}"
        return f"not converged{part} after {steps:,} iterations ({reached}); {remedy}"


def part_of(graphs: Bool[Tensor, " graphs"]) -> str:
    """Say how many graphs of a batch are meant; nothing where there is one graph.

    Examples
    --------
    >>> import torch
    >>> part_of(torch.tensor([True, False, False])), part_of(torch.tensor([True]))
    (' in 1 of 3 graphs', '')
    """
    return "" if len(graphs) == 1 else f" in {int(graphs.sum()):,} of {len(graphs):,} graphs"


def check_damping(damping: float) -> None:
    """Refuse a damping that is none."""
    if not 0 <= damping < 1:
        raise InputError(f"damping is the weight of the old message, at least 0 and below 1, got {damping}")


def check_least(least: int, **given: Any) -> None:
    """Refuse options that are no whole numbers, or too small ones."""
    for name, number in given.items():
        checked_integer(number, name, least)


def iterate(
    step: Callable[[State], tuple[State, Float[Tensor, " graphs"]]],
    state: State,
    *,
    tolerance: float,
    max_iterations: int,
    verify: Callable[[State], Float[Tensor, " graphs"]] | None = None,
    every: int = 1,
) -> Outcome[State]:
    r"""Apply ``state, residual = step(state)`` until every graph's residual is at most `tolerance`.

    The residual is that of the *undamped* update, :math:`\lVert F(m) - m \rVert_\infty`, so that damping cannot pass
    for convergence. Where `verify` is given it recomputes the residual independently of `step` before "converged" is
    believed; if it disagrees, the iteration goes on.

    Parameters
    ----------
    step
        One iteration on all graphs.
    state
        Where to start.
    tolerance
        Of the residual.
    max_iterations
        After these, or at the end of a `time_limit`, it ends with the last complete iteration, converged or not; 0
        leaves the state as it is.
    verify
        Recomputes the residual of each graph from a state.
    every
        Looks at the residual only at each such iteration: on a GPU looking means waiting.

    Examples
    --------
    >>> import torch
    >>> def cosine(x):
    ...     return x.cos(), (x.cos() - x).abs()
    >>> outcome = iterate(cosine, torch.tensor([1.0]), tolerance=1e-6, max_iterations=100)
    >>> outcome.state, outcome.converged
    (tensor([0.7391]), tensor([True]))
    """
    if tolerance <= 0 or not math.isfinite(tolerance):
        raise InputError(f"the tolerance must be positive, got {tolerance}")
    if max_iterations < 0:
        raise InputError(f"max_iterations must not be negative, got {max_iterations}")
    trace: list[float] = []
    residual: Tensor | None = None
    done, verified = 0, False
    settled: Tensor | int = min(every, max_iterations)
    while done < max_iterations:
        try:
            state, residual = step(state)
        except OutOfTimeError:
            if done == 0:
                raise
            break
        done, verified = done + 1, False
        if done % every and done < max_iterations:
            continue
        worst = float(residual.max()) if len(residual) else 0.0
        trace.append(worst)
        # Whoever has not settled by now will have at the next look, at the earliest.
        following = min(done + every, max_iterations)
        if not worst <= tolerance:
            settled = torch.where(residual <= tolerance, settled, following)
        if not math.isfinite(worst) or seconds_left() <= 0:
            break
        if worst <= tolerance:
            if verify is None:
                break
            residual, verified = verify(state), True
            if bool((residual <= tolerance).all()):
                break
            settled = torch.where(residual <= tolerance, settled, following)
    if residual is None:
        residual = verify(state) if verify is not None else torch.full((1,), math.inf)
    elif verify is not None and not verified:
        residual = verify(state)
    converged = residual <= tolerance
    iterations = torch.where(converged, settled, done).clamp(max=done)
    return Outcome(state, converged, iterations, residual, trace)


def lag(
    update: Callable[[Tensor], Tensor],
    belief: Callable[[Tensor], Float[Tensor, " states"]],
    owner: Int[Tensor, " states"],
    messages: Tensor,
    residual: Float[Tensor, " graphs"],
    *,
    tolerance: float,
    growth: float,
) -> Float[Tensor, " graphs"]:
    r"""Return for each graph how much a belief changes within a few undamped updates, or 0 where that is little.

    Where potentials are extreme, messages that are damped can be far from where they go although no probability
    changes: a log ratio of 300 on its way to 600 stands for a probability of 1 before and after, until all that it
    meets has arrived as well. Undamped they jump there.

    What may change is :math:`\max(\sqrt{\varepsilon},\ 10\, r\, g^t)` after t updates, with :math:`\varepsilon` the
    tolerance, r the residual and g the `growth` of a residual near a fixed point that only damping finds: at most
    :math:`(1 + d) / (1 - d)` where a damping of d finds it. Costs as many updates as are looked ahead.
    """
    before, worst = belief(messages), torch.zeros_like(residual)
    allowed = 10 * residual
    for step in range(1, AHEAD + 1):
        messages, allowed = update(messages), growth * allowed
        if step not in LOOKS:
            continue
        moved = torch.zeros_like(residual).scatter_reduce(0, owner, (belief(messages) - before).abs(), "amax")
        worst = torch.where(
            moved > allowed.clamp(min=math.sqrt(tolerance)), torch.maximum(worst, moved), worst
        )
    return worst
