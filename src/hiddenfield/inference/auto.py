"""The best answer that can be had in the time: exact where that fits, else as close to it as time and memory allow."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator

import torch

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.exact import Plan, plan_exact, run_plan
from hiddenfield.inference.generalized_bp import generalized_bp
from hiddenfield.inference.loopy_bp import loopy_bp
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.inference.messages.phases import has_poles, settle_from_poles, with_phases
from hiddenfield.inference.posterior import METHODS, Posterior
from hiddenfield.inference.relaxed import Cuts
from hiddenfield.limits import OutOfTimeError, seconds_left, time_limit as limited

SHARE = 0.3
"""Part of the time in which an elimination order must be found."""

SAFE = 0.7
"""Part of the time that exact inference may be expected to take: the estimate is a rough one."""

FIRST, STEP = 8.0, 3.0
"""Log2 of the states of a clique with which relaxations begin, and by how much they grow."""

USUAL = 30
"""Iterations that a relaxation is expected to take."""


@METHODS.register(
    guarantee="exact where that fits the limits, else an estimate",
    reference="Choi & Darwiche 2010",
    unrolls=True,
    use="always, to begin with: it is the default",
)
def auto(
    field: FactorGraph,
    *,
    time_limit: float = 5.0,
    memory_limit: float | None = None,
    backend: str = "auto",
) -> Posterior:
    r"""Choose by what exact inference would cost, which is known before it starts.

    .. math:: \text{seconds} \approx \sum_C (\text{terms of } C) \prod_{v \in C} k_v \cdot 10^{-9}

    over the cliques of a junction tree, twice that where logarithms are needed against underflow.
    Where the estimate fits the limits, `exact`. Otherwise `relaxed`, with cliques that grow as long as there is time
    and memory for larger ones; the last that converged is the answer, with how much it differs from the one before.
    Where not even an elimination order is found in the time, `generalized_bp`, and `loopy_bp` where that does not
    converge. Where variables stand for many by counts, as in a template, `loopy_bp` from many starts: the phase of the
    highest log partition, and `status`, `note` and ``extra["phases"]`` tell of others.

    Parameters
    ----------
    field
        The field, or a batch of fields.
    time_limit
        Seconds. A small field takes milliseconds whatever the limit; a hard one takes what it may.
    memory_limit
        Bytes; half of what is available by default.
    backend
        As of `exact`.

    Returns
    -------
    Posterior
        That of the chosen method. Its `note` says which was chosen, why, and what the answer is worth.

    Notes
    -----
    Cost: what exact inference costs where it is chosen; otherwise up to the limits.

    References
    ----------
    Choi and Darwiche (2010), Relax, compensate and then recover. Yedidia, Freeman and Weiss (2005), Constructing
    free-energy approximations and generalized belief propagation algorithms.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> posterior = auto(ising_grid(5, 5, 0.5, 0.1))
    >>> posterior.method, posterior.guarantee
    ('exact', 'exact')
    """
    if not time_limit > 0:
        raise InputError(f"time_limit is a number of seconds above 0, got {time_limit}")
    with limited(time_limit):
        if not field.is_ground:
            return _propagated(
                field, "its variables stand for several, which exact inference cannot sum over"
            )
        cuts = plan = None
        try:
            with limited(SHARE * time_limit):
                cuts = Cuts(field.detach())
                plan = plan_exact(field, cuts.found, memory_limit, cuts.tables)
        except OutOfTimeError:
            why = f"no elimination order was found in {SHARE * time_limit:.2g} s"
        except TooLargeError as error:
            why = str(error).split(";")[0]
        else:
            why = f"exact inference would take about {plan.seconds:.2g} s"
            if plan.seconds <= SAFE * seconds_left():
                with contextlib.suppress(OutOfTimeError):
                    return dataclasses.replace(
                        run_plan(field, plan, backend), note=f"chosen by auto: {_cost(plan)}"
                    )
                why = f"exact inference took longer than the time limit of {time_limit:g} s"
        if backend == "torch" and torch.is_grad_enabled() and field.requires_grad:
            return dataclasses.replace(loopy_bp(field, backend="torch"), note=f"chosen by auto: {why}")
        found = [] if cuts is None else list(_relaxations(cuts, memory_limit))
        if not found:
            return _propagated(field, why)
        return _chosen(found, why)


def _cost(plan: Plan) -> str:
    return f"exact inference fits the limits (treewidth at most {plan.width}, about {plan.seconds:.2g} s)"


def _relaxations(cuts: Cuts, memory_limit: float | None) -> Iterator[Posterior]:
    """Solve relaxations with larger and larger cliques while the next one fits into the time that is left."""
    bits, rate = FIRST, 0.0
    while True:
        split = cuts.split(bits)
        expected = rate * split.order.total_states * USUAL
        if expected > seconds_left() or split.order.log2_largest > bits + STEP:
            return
        try:
            before = seconds_left()
            posterior = cuts.solve(split, max_memory=memory_limit)
            rate = (
                (before - seconds_left()) / split.order.total_states / max(int(posterior.iterations.max()), 1)
            )
            yield posterior
        except (OutOfTimeError, TooLargeError):
            return
        if not len(split.original) or seconds_left() <= 0:
            return
        bits += STEP


def _chosen(found: list[Posterior], why: str) -> Posterior:
    """Return the last relaxation that converged, or the one that came closest, with a comparison to the one before."""
    settled = [number for number, each in enumerate(found) if bool(each.converged.all())]
    number = (
        settled[-1] if settled else min(range(len(found)), key=lambda each: float(found[each].residual.max()))
    )
    chosen = found[number]
    copies, bits = chosen.extra["copies"], math.log2(chosen.extra["states"])
    note = f"chosen by auto: {why}; {copies:,} copies of variables make it 2^{bits:.0f} states"
    if number > 0:
        change = (chosen.marginals - found[number - 1].marginals).abs()
        shift = float((chosen.log_partition - found[number - 1].log_partition).abs().max())
        note += (
            f"; from the relaxation before to this one marginals changed by up to {float(change.max()):.2g} "
            f"({float(change.mean()):.2g} on average), log Z by {shift:.2g}"
        )
    return dataclasses.replace(chosen, note=note)


def _propagated(field: FactorGraph, why: str) -> Posterior:
    """Return belief propagation's answer: the dominant phase, or generalized where that converges in the time."""
    why = f"chosen by auto: {why}"
    if has_poles(field):
        return _dominant(field, why)
    plain = loopy_bp(field)
    if field.is_ground and seconds_left() > 0 and plain.guarantee != "exact":
        with contextlib.suppress(OutOfTimeError, InputError):
            regions = generalized_bp(field)
            if bool(regions.converged.all()) or not bool(plain.converged.all()):
                plain = regions
    return dataclasses.replace(plain, note=why)


def _dominant(field: FactorGraph, note: str) -> Posterior:
    """Return the phase of the highest log partition, graph by graph; plain belief propagation where nothing settled."""
    settled = settle_from_poles(field)
    wiring = field.wiring
    graph = wiring.port_graph[wiring.message_port]
    best = torch.tensor(settled.best)[graph]
    there = torch.tensor([len(phases) > 0 for phases in settled.phases])[graph]
    start = settled.messages[best, torch.arange(len(best))]
    start = torch.where(there, start, MessagePassing(field).start())
    found = loopy_bp(field, messages=start, damping=0.5)
    return with_phases(dataclasses.replace(found, note=note), settled)
