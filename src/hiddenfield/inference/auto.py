"""The best answer that can be had in the time: exact where that fits, else as close to it as time and memory allow."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import torch

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.region_clusters import choose_regions
from hiddenfield.inference.cliques.plan import CliquePlan, clique_plan
from hiddenfield.inference.double_loop import double_loop
from hiddenfield.inference.exact import run_map_plan, run_plan
from hiddenfield.inference.generalized_bp import generalized_bp
from hiddenfield.inference.loopy_bp import loopy_bp
from hiddenfield.inference.mean_field import mean_field
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.inference.messages.phases import has_poles, settle_from_poles, with_phases
from hiddenfield.inference.posterior import MAP_METHODS, METHODS, MapState, Posterior, padded
from hiddenfield.inference.relaxed import Cuts
from hiddenfield.inference.sampling.search import improved
from hiddenfield.inference.tree_reweighted import tree_reweighted
from hiddenfield.limits import OutOfTimeError, check_time, seconds_left, time_limit as limited

Answer = TypeVar("Answer", Posterior, MapState)

SHARE = 0.3
"""Part of the time in which an elimination order must be found."""

SAFE, ROUGH = 0.8, 3.0
"""Part of the time that exact inference may take, and how far beyond that the estimate may lie: it is a rough one."""

FIRST, STEP = 8.0, 3.0
"""Log2 of the states of a clique with which relaxations begin, and by how much they grow."""

QUICK = 0.1
"""Part of the time for a first answer by belief propagation, which larger regions and relaxations are compared with."""

USUAL, NANOSECONDS = 25, 8.0
"""Iterations that a relaxation, or propagation between regions, is expected to take; what a joint state costs."""

PLANNING = 0.6e-6
"""Seconds that planning exact inference takes at least, for each variable of a factor."""

MANY = 200_000
"""Variables of a forest beyond which planning takes longer than inference by messages."""

MOST_PORTS = 20_000
"""Ports of all factors up to which variables are cut; in larger fields, regions may take `LARGE` of the time."""

LARGE, SEEKING = 0.7, 1e-5
"""Part of the time for regions of large fields, and seconds that seeking them takes for each variable of a factor."""


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
    marginals: bool = True,
) -> Posterior:
    r"""Choose by what exact inference would cost, which is known before it starts.

    .. math:: \text{seconds} \approx \sum_C (\text{terms of } C) \prod_{v \in C} k_v \cdot 10^{-9}

    over the cliques of a junction tree. Where it may fit the limits, `exact`; it is given up as soon as its speed
    shows that it will not end in time. Otherwise `generalized_bp`, where regions of short cycles cover the
    field (grids and the like) and it converges. Otherwise `relaxed`, with cliques that grow as long as there is time
    and memory for larger ones; the last that converged is the answer, with how much it differs from the one before.
    Where the field is very large, `loopy_bp`, or `double_loop` where that does not converge. Where variables stand for
    many by counts, as in a template, `loopy_bp` from many starts: the phase of the highest log partition, and `status`,
    `note` and ``extra["phases"]`` tell of others.

    Parameters
    ----------
    field
        The field, or a batch of fields.
    time_limit
        Seconds. A small field takes milliseconds whatever the limit; a hard one takes what it may.
    memory_limit
        Bytes; half of what is available by default.
    backend, marginals
        As of `exact`; an estimate has marginals in any case.

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

    def estimate(plan: CliquePlan | None, why: str) -> Posterior:
        if not field.is_ground:
            return _propagated(field, why)
        if backend == "torch" and torch.is_grad_enabled() and field.requires_grad:
            return dataclasses.replace(loopy_bp(field, backend="torch"), note=f"chosen by auto: {why}")
        return _estimate(field, plan, why, memory_limit)

    return _in_time(
        field,
        time_limit,
        memory_limit,
        None if backend == "torch" else loopy_bp,
        lambda: clique_plan(field, max_memory=memory_limit, marginals=marginals),
        lambda plan: run_plan(field, plan, backend),
        estimate,
    )


def _in_time(
    field: FactorGraph,
    time_limit: float,
    memory_limit: float | None,
    on_forests: Callable[..., Answer] | None,
    make: Callable[[], CliquePlan],
    run: Callable[[CliquePlan], Answer],
    estimate: Callable[[CliquePlan | None, str], Answer],
) -> Answer:
    """Answer exactly where that fits the limits, else by an estimate, which is told the plan and why it was not run."""
    if not time_limit > 0:
        raise InputError(f"time_limit is a number of seconds above 0, got {time_limit}")
    if memory_limit is not None and not memory_limit > 0:
        raise InputError(f"memory_limit is a number of bytes above 0, got {memory_limit}")
    with limited(time_limit):
        if not field.is_ground:
            return estimate(None, "its variables stand for several, which exact inference cannot tell apart")
        if on_forests is not None and field.num_variables > MANY and field.is_forest:
            note = "chosen by auto: on a forest two sweeps of all messages are exact, and the least work"
            return dataclasses.replace(on_forests(field, schedule="sequential"), note=note)
        best, plan, why = _if_it_fits(field, make, run)
        return estimate(plan, why) if best is None else dataclasses.replace(best, note=why)


def _if_it_fits(
    field: FactorGraph, make: Callable[[], CliquePlan], run: Callable[[CliquePlan], Answer]
) -> tuple[Answer | None, CliquePlan | None, str]:
    """Run a plan of exact inference where it fits the limits; return the answer, the plan, and the reason."""
    plan, share = None, SHARE * seconds_left()
    if (planning := PLANNING * _ports(field)) > share:
        return None, plan, f"to look for an elimination order would take more than {planning:.2g} s"
    try:
        with limited(share):
            plan = make()
    except OutOfTimeError:
        return None, plan, f"no elimination order was found in {share:.2g} s"
    except TooLargeError as error:
        return None, plan, str(error).split(";")[0]
    cost = f"about {plan.seconds:.2g} s" if plan.seconds > 0.01 else "milliseconds"
    if plan.seconds > ROUGH * seconds_left():
        return None, plan, f"exact inference would take {cost}"
    try:
        with limited(SAFE * seconds_left()):
            fits = f"chosen by auto: exact inference fits the limits (treewidth at most {plan.width}, {cost})"
            return run(plan), plan, fits
    except OutOfTimeError as error:
        return None, plan, f"exact inference was begun and given up: {error}"


def _ports(field: FactorGraph) -> int:
    """Return how many variables all factors have together."""
    return sum(group.scopes.numel() for group in field.groups)


def _estimate(field: FactorGraph, plan: CliquePlan | None, why: str, memory_limit: float | None) -> Posterior:
    """Return what comes closest where exact inference does not fit."""
    ports, first, cut_off = _ports(field), None, False
    with contextlib.suppress(OutOfTimeError), limited(QUICK * seconds_left()):
        first = loopy_bp(field)
        cut_off = seconds_left() <= 0
    share = (SHARE if ports <= MOST_PORTS else LARGE) * seconds_left()
    if SEEKING * ports < share:
        with contextlib.suppress(OutOfTimeError), limited(share):
            regions = choose_regions(field, "auto")
            expected = USUAL * NANOSECONDS * 1e-9 * regions.sweep_entries(field)
            if not bool((regions.inner.sizes == 1).all()) and expected < seconds_left():
                posterior = generalized_bp(field, regions=regions)
                if bool(posterior.converged.all()):
                    note = f"chosen by auto: {why}; regions of short cycles cover the field well"
                    return _judged(dataclasses.replace(posterior, note=note), first)
    if ports <= MOST_PORTS:
        with contextlib.suppress(OutOfTimeError):
            with limited(2 * SHARE * seconds_left()):
                cuts = Cuts(field.detach(), None if plan is None else plan.order)
            if found := list(_relaxations(cuts, memory_limit)):
                return _chosen(found, first, why)
    if first is not None and cut_off:
        with contextlib.suppress(OutOfTimeError):
            first = loopy_bp(field, messages=first.extra["messages"])
    return _judged(_propagated(field, why, first), None)


def _judged(posterior: Posterior, other: Posterior | None) -> Posterior:
    """Say how far another estimate is, and between which bounds log Z lies; an estimate beyond one is moved to it."""
    note, log_partition = posterior.note, posterior.log_partition
    if posterior.guarantee == "exact":
        return posterior
    if other is not None:
        note += f"; belief propagation differs: {_difference(posterior, other)}"
    elif posterior.method != "relaxed":
        note += "; nothing tells how far its marginals are off: give it more time or memory"
    for method, bound, word in (
        (mean_field, torch.maximum, "least"),
        (tree_reweighted, torch.minimum, "most"),
    ):
        with contextlib.suppress(OutOfTimeError, InputError), limited(seconds_left() / 2):
            check_time()
            found = method(posterior.field)
            if found.guarantee == "estimate" or not bool(found.log_partition.isfinite().all()):
                continue
            moved = bound(log_partition, found.log_partition)
            beyond = " (the estimate was beyond)" if bool((moved != log_partition).any()) else ""
            log_partition = moved
            if len(moved) == 1:
                note += f"; log Z is at {word} {float(found.log_partition):.6g} by {method.__name__}{beyond}"
    return dataclasses.replace(posterior, log_partition=log_partition, note=note)


def _difference(one: Posterior, other: Posterior) -> str:
    """Say by how much the marginals and log Z of two estimates differ."""
    change = (one.marginals - other.marginals).abs()
    shift = float((one.log_partition - other.log_partition).abs().max())
    return f"marginals by up to {float(change.max()):.2g} ({float(change.mean()):.2g} on average), log Z by {shift:.2g}"


@MAP_METHODS.register("auto")
def map_state(field: FactorGraph, *, time_limit: float = 5.0, memory_limit: float | None = None) -> MapState:
    r"""Choose by what exact inference would cost; where that is too much, search between two bounds.

    .. math:: \text{value}(\hat x) \le \max_x \text{value}(x) \le \text{bound}

    Where the estimate of `auto` fits the limits, `exact`. Otherwise :math:`\hat x` is the best assignment met by
    decoding max-product and tree-reweighted belief propagation and by a search from there, until the time is over or
    :math:`\hat x` is certified by the tree-reweighted bound. A move of the search takes the best joint state of all
    variables but a few, exactly, where those few make the rest narrow; annealing finds places to begin from.

    Parameters
    ----------
    field, time_limit, memory_limit
        As of `auto`.

    Returns
    -------
    MapState
        Guarantee "exact" where exact inference was run or value and bound agree, else "lower bound" with the upper
        bound and the `gap`. Its `note` says what was done and why.

    Notes
    -----
    Cost: what exact inference costs where it is chosen; otherwise up to the limits.

    References
    ----------
    Dechter (1999), Bucket elimination: a unifying framework for reasoning.
    Kolmogorov (2006), Convergent tree-reweighted message passing for energy minimization.
    Kirkpatrick, Gelatt and Vecchi (1983), Optimization by simulated annealing.
    Shaw (1998), Using constraint programming and local search methods to solve vehicle routing problems.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> best = map_state(ising_grid(5, 5, 0.5, 0.1))
    >>> best.log_value, best.guarantee
    (tensor([22.5000], dtype=torch.float64), 'exact')
    """
    every = np.ones(field.num_variables, np.int64)
    return _in_time(
        field,
        time_limit,
        memory_limit,
        MAP_METHODS["loopy_bp"],
        lambda: clique_plan(field, stage=every, max_memory=memory_limit),
        lambda plan: run_map_plan(field, plan),
        lambda _, why: _decoded(field, why),
    )


def _decoded(field: FactorGraph, why: str) -> MapState:
    """Search from the decodings of two kinds of max-product; the bound is that of the tree-reweighted one."""
    left = seconds_left()
    assignments, bound, preference = [], None, field.log_unary
    with contextlib.suppress(OutOfTimeError), limited(0.3 * left):
        plain = loopy_bp(field, temperature=0, damping=0.0 if field.is_forest else 0.3)
        assignments.append(plain.extra["assignment"])
        preference = plain.log_marginals
    with contextlib.suppress(OutOfTimeError, InputError), limited(0.3 * left):
        check_time()
        weighted = tree_reweighted(
            field, temperature=0, tolerance=1e-8 if field.dtype == torch.float64 else 1e-6
        )
        if weighted.guarantee == "upper bound":
            bound = weighted.log_partition
        assignments.append(padded(field, weighted.log_marginals, -math.inf).argmax(1))
    if not assignments:
        assignments.append(padded(field, field.log_unary, -math.inf).argmax(1))
    best = improved(field, assignments, preference, bound=bound, rounds=math.inf)
    note = f"chosen by auto: {why}; the best assignment that a search found"
    if best.gap is not None and best.guarantee != "exact":
        note += f", at most {float(best.gap.max()):.3g} below the best log value"
    return dataclasses.replace(best, note=note)


def _relaxations(cuts: Cuts, memory_limit: float | None) -> Iterator[Posterior]:
    """Solve relaxations with larger and larger cliques while the next one fits into the time that is left.

    What an iteration takes is measured: it grows by so much from state to state, beyond what it takes anyhow.
    """
    bits, each, states, growth = FIRST, 0.0, 0.0, NANOSECONDS * 1e-9
    while True:
        split = cuts.split(bits)
        more = split.order.total_states - states
        if USUAL * (each + growth * more) > seconds_left() or split.order.log2_largest > bits + STEP:
            return
        try:
            before = seconds_left()
            posterior = cuts.solve(split, max_memory=memory_limit)
        except (OutOfTimeError, TooLargeError):
            return
        yield posterior
        took = (before - seconds_left()) / max(int(posterior.iterations.max()), 1)
        growth = max(growth, (took - each) / more) if states else growth
        each, states = took, states + more
        if not len(split.original) or seconds_left() <= 0:
            return
        bits += STEP


def _chosen(found: list[Posterior], first: Posterior | None, why: str) -> Posterior:
    """Return the last relaxation that converged, or the one that came closest, with a comparison to the one before."""
    settled = [number for number, each in enumerate(found) if bool(each.converged.all())]
    number = (
        settled[-1] if settled else min(range(len(found)), key=lambda each: float(found[each].residual.max()))
    )
    chosen = found[number]
    copies, bits = chosen.extra["copies"], math.log2(chosen.extra["states"])
    note = f"chosen by auto: {why}; {copies:,} copies of variables make it 2^{bits:.0f} states"
    if number > 0:
        note += f"; the relaxation before differs: {_difference(chosen, found[number - 1])}"
        first = None
    return _judged(dataclasses.replace(chosen, note=note), first)


def _propagated(field: FactorGraph, why: str, first: Posterior | None = None) -> Posterior:
    """Return the dominant phase, or the answer of belief propagation: by the double loop where needed."""
    why = f"chosen by auto: {why}"
    if has_poles(field):
        return _dominant(field, why)
    posterior = loopy_bp(field) if first is None else first
    if not bool(posterior.converged.all()):
        with contextlib.suppress(OutOfTimeError):
            check_time()
            second = double_loop(field)
            posterior = second if bool(second.converged.all()) else posterior
    if not bool(posterior.converged.all()) and seconds_left() <= 0:
        why += "; stopped by the time limit"
    return dataclasses.replace(posterior, note=why)


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
