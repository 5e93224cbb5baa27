"""Gibbs sampling: many chains, one variable or one forest of variables at a time."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.hard_zeros import FOUND, IMPOSSIBLE
from hiddenfield.inference.messages.passing import normalise_segments
from hiddenfield.inference.posterior import METHODS, Posterior
from hiddenfield.inference.sampling.chains import Chains, settled_beliefs, softened
from hiddenfield.inference.sampling.loops import Record, energies
from hiddenfield.iteration import check_least, part_of
from hiddenfield.ops.compile import as_array
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Bool, Float, Int, Tensor

BLOCKS = {name: name for name in ("auto", "sites", "trees")}
LOG_PARTITIONS = {name: name for name in ("ais", "none")}
BATCHES = 20

DOUBT = 0.05
"""R-hat less 1 from which it is likely that chains have not met all that is likely."""


@METHODS.register(
    guarantee="estimate, with its standard error",
    reference="Geman & Geman 1984",
    use="marginals whose error shrinks with time; samples",
)
def gibbs(
    field: FactorGraph,
    *,
    chains: int = 16,
    sweeps: int = 1000,
    burn_in: int | None = None,
    blocks: str = "auto",
    seed: int = 0,
    log_partition: str = "ais",
    temperatures: int = 200,
    tolerance: float = 1e-2,
) -> Posterior:
    r"""Draw every variable from its distribution given the others, again and again, in many chains.

    .. math::

        x_v \sim p(x_v \mid x_{-v}) \propto \Phi_v(x_v) \prod_{f \ni v} \Psi_f(x_v, x_{C_f \setminus v})^{N_f}

    Variables are visited colour after colour: those of one colour share no factor, so a sweep over a colour draws them
    all at once. With ``blocks="trees"`` the variables are split into few sets that each induce a forest, and each
    is drawn at once, exactly, by filtering from the leaves to the roots and sampling back; this mixes far better where
    couplings are strong, and on a forest gives independent samples. A factor may join several variables of a forest, so
    that deterministic relations do not block it, and sweeps take several such splits in turn.

    Marginals of variables are averages of the conditional probabilities (Rao and Blackwell), those of factors are
    frequencies. All are estimates: right in the limit where the chains can reach everything.

    Parameters
    ----------
    field
        A ground field: counts of variables must be 1.
    chains, sweeps, burn_in
        Chains, sweeps of each that count, and sweeps before (half as many by default).
    blocks
        "sites", "trees", or "auto": trees where there are hard zeros or the field is a forest.
    seed
        Everything follows from it.
    log_partition
        "ais": annealed importance sampling (see `annealed_log_partition`), with a standard error in
        ``extra["log_partition_error"]``; where that is near 1 or more, few chains outweigh all others and the estimate
        is too low as a rule: raise `temperatures`. "none": NaN, and no time spent.
    temperatures
        Steps of the annealing.
    tolerance
        Converged where, on every state of a graph, split R-hat is at most 1 + tolerance or half chains differ by a
        standard deviation of at most the tolerance: chains that started from beliefs of belief propagation and chains
        that were annealed from the variables' own potentials agree.

    Returns
    -------
    Posterior
        Guarantee "estimate". ``extra["r_hat"]``: the potential scale reduction of each variable, plain, over half
        chains, on the indicator of each state, the worst one. ``extra["effective_samples"]``: by batch means on the
        indicator of each state, the fewest. ``extra["standard_error"]``: of the marginals, packed as they are.
        ``extra["state"]``: (chains, variables) the last assignments. `residual` is the largest R-hat less 1, but for
        states on which half chains agree within the tolerance.

    Notes
    -----
    A sweep costs, for each port, the chains times the states of its variable. Chains start at assignments of positive
    probability, found by a search with propagation of hard zeros; where none is found the status says so. Where chains
    disagree, a standard error counts each of them as one draw; still, what no chain has met it cannot cover.

    References
    ----------
    Geman and Geman (1984), Stochastic relaxation, Gibbs distributions, and the Bayesian restoration of images.
    Gonzalez, Low, Gretton and Guestrin (2011), Parallel Gibbs sampling: from colored fields to thin junction trees.
    Hamze and de Freitas (2004), From fields to trees.
    Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), Rank-normalization, folding, and localization: an improved
    R-hat.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> agree = np.log([[2.0, 1.0], [1.0, 2.0]])
    >>> field = from_factors([[0, 1], [1, 2], [2, 0], [0]], [agree] * 3 + [np.log([0.9, 0.1])])
    >>> posterior = gibbs(field)
    >>> posterior.marginals[2].round(decimals=1), posterior.status
    (tensor([0.7000, 0.3000], dtype=torch.float64), 'converged')
    """
    _check(field, chains, sweeps, blocks)
    check_least(0, burn_in=0 if burn_in is None else burn_in, seed=seed)
    check_least(1, temperatures=temperatures)
    choose("log_partition", LOG_PARTITIONS, log_partition)
    walkers = Chains.dispersed(field, chains, seed, blocks)
    walkers.run(sweeps // 2 if burn_in is None else burn_in)
    batches = min(BATCHES, sweeps - sweeps % 2)
    seen = walkers.record(batches, math.ceil(sweeps / batches))
    walkers.run(sweeps, seen)
    marginals, factors = _averages(field, walkers, seen, chains * sweeps)
    r_hat, effective, apart = _diagnostics(field, walkers, seen, sweeps, tolerance)
    found = torch.from_numpy(walkers.found).to(field.device)
    worst = torch.zeros_like(field.log_constant).scatter_reduce(0, field.variable_graph, apart - 1, "amax")
    worst = torch.where(found == FOUND, worst, torch.where(found == IMPOSSIBLE, 0.0, math.inf))
    if log_partition == "ais":
        value, error = annealed_log_partition(
            field,
            walkers if blocks == "sites" else walkers.with_trees(seed),
            temperatures=temperatures,
            number=max(chains, 32),
            seed=seed,
            doubt=as_array((worst > DOUBT).cpu()),
        )
        # Where annealing met no possible assignment, log Z is at least the best one that a chain stands at.
        here = torch.from_numpy(walkers.state.T.astype(np.int64)).to(field.device)
        value = torch.where(value == -math.inf, field.log_value(here).amax(0), value)
    else:
        value = torch.full_like(field.log_constant, math.nan)
        error = torch.full_like(value, math.inf)
    value = torch.where(found == IMPOSSIBLE, -math.inf, value)
    return Posterior(
        field=field,
        method="gibbs",
        log_marginals=marginals,
        factor_log_marginals=factors,
        log_partition=value,
        guarantee="estimate",
        converged=worst <= tolerance,
        iterations=torch.full((field.num_graphs,), sweeps, device=field.device),
        residual=worst,
        status=_status(
            walkers.found, worst, tolerance, int((apart > 1 + tolerance).sum()), walkers.blocks is None
        ),
        extra={
            "r_hat": r_hat,
            "effective_samples": effective,
            "standard_error": _standard_errors(field, walkers, seen, sweeps, effective, worst > DOUBT),
            "log_partition_error": error,
            "state": torch.from_numpy(walkers.state.T.astype(np.int64)).to(field.device),
        },
    ).without(found == IMPOSSIBLE)


def gibbs_sample(
    field: FactorGraph,
    num_samples: int,
    *,
    chains: int = 16,
    burn_in: int = 500,
    thin: int = 10,
    blocks: str = "auto",
    seed: int = 0,
) -> Int[Tensor, "samples variables"]:
    """Draw assignments by Gibbs sampling, evidence included: `chains` at a time, every `thin` sweeps.

    Samples of one chain are correlated; see `gibbs` for the update, diagnostics and parameters, and
    `hiddenfield.inference.sample` for independent exact samples where the field is narrow enough. Guarantee: every
    chain has the field as its stationary distribution.

    Parameters
    ----------
    field
        A ground field.
    num_samples
        How many; those of all chains at one time follow each other.
    chains, burn_in, thin
        Chains, sweeps before the first sample, and sweeps between two of one chain.
    blocks, seed
        As of `gibbs`.

    Notes
    -----
    Costs burn_in + thin num_samples / chains sweeps of all chains.

    References
    ----------
    Geman and Geman (1984), Stochastic relaxation, Gibbs distributions, and the Bayesian restoration of images.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> field = from_factors([[0, 1]], [np.log([[0.5, 0.0001], [0.0001, 0.5]])])
    >>> draws = gibbs_sample(field, 1000)
    >>> draws.shape, (draws[:, 0] == draws[:, 1]).float().mean() > 0.99
    (torch.Size([1000, 2]), tensor(True))
    """
    _check(field, chains, 2, blocks)
    check_least(0, num_samples=num_samples, burn_in=burn_in, seed=seed)
    check_least(1, thin=thin)
    walkers = Chains.dispersed(field, chains, seed, blocks)
    if (walkers.found != FOUND).any():
        raise InputError(f"graph {int((walkers.found != FOUND).argmax())}: {_status(walkers.found)}")
    walkers.run(burn_in)
    draws = []
    for _ in range(math.ceil(num_samples / chains)):
        walkers.run(thin)
        draws.append(walkers.state.T.astype(np.int64))
    taken = np.concatenate([np.zeros((0, field.num_variables), np.int64), *draws])[:num_samples]
    return torch.from_numpy(taken).to(field.device)


def _check(field: FactorGraph, chains: int, sweeps: int, blocks: str) -> None:
    choose("blocks", BLOCKS, blocks)
    if not field.is_ground:
        raise InputError("Gibbs sampling needs a ground field: a variable stands for several here")
    check_least(1, chains=chains)
    check_least(2, sweeps=sweeps)


def _averages(
    field: FactorGraph, walkers: Chains, seen: Record, draws: int
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return log marginals of variables and factors from what was seen."""
    mean = seen.mean.sum(0) / draws
    fixed = np.ones(field.num_variables, np.bool_)
    fixed[walkers.order] = False
    place = walkers.flat.state_ptr[:-1] + walkers.state[:, 0]
    mean[place[fixed]] = 1.0
    joint = torch.from_numpy(seen.joint.sum(0) / draws).to(field.log_unary)
    return torch.from_numpy(mean).to(field.log_unary).log(), field.split_tables(joint.log())


def _diagnostics(
    field: FactorGraph, walkers: Chains, seen: Record, sweeps: int, tolerance: float
) -> tuple[Float[Tensor, " variables"], Float[Tensor, " variables"], Float[Tensor, " variables"]]:
    """Return split R-hat and effective sample size of every variable, from visits batch by batch.

    And R-hat once more, without states whose probability is the same in all half chains but for a standard deviation
    within the tolerance: those of rare states vary much, relative to how rare they are, where all is well.
    """
    visits = seen.visits.astype(np.float64)  # (batches, states, chains)
    batches = len(visits)
    lengths = np.bincount(np.minimum(np.arange(sweeps) // seen.batch_length, batches - 1), minlength=batches)
    used = lengths > 0
    visits, lengths = visits[used], lengths[used]
    half = max(len(visits) // 2, 1)
    halves = [visits[:half].sum(0) / lengths[:half].sum()]
    if len(visits) > 1:
        halves.append(visits[half:].sum(0) / lengths[half:].sum())
    means = np.concatenate(halves, 1)
    r_hat = _scale_reduction(means, sweeps / 2)
    matters = np.ones(len(means), np.bool_) if means.shape[1] < 2 else means.std(1, ddof=1) > tolerance
    share = visits.sum((0, 2)) / (sweeps * walkers.number)
    spread = share * (1 - share)
    between = (((visits / lengths[:, None, None]) - share[:, None]) ** 2 * lengths[:, None, None]).mean(
        (0, 2)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.where(spread > 0, sweeps * walkers.number * spread / between, np.inf)
    effective = np.minimum(effective, sweeps * walkers.number)
    owner = field.state_variable.cpu().numpy()
    worst, fewest = np.ones(field.num_variables), np.full(field.num_variables, float(sweeps * walkers.number))
    apart = worst.copy()
    np.maximum.at(worst, owner, r_hat)
    np.maximum.at(apart, owner, np.where(matters, r_hat, 1.0))
    np.minimum.at(fewest, owner, np.where(np.isfinite(effective), effective, np.inf))
    fewest = np.where(np.isfinite(fewest), fewest, sweeps * walkers.number)
    told = [torch.from_numpy(each).to(field.log_unary) for each in (worst, fewest, apart)]
    return told[0], told[1], told[2]


def _standard_errors(
    field: FactorGraph,
    walkers: Chains,
    seen: Record,
    sweeps: int,
    effective: Float[Tensor, " variables"],
    doubt: Bool[Tensor, " graphs"],
) -> Float[Tensor, " states"]:
    """Return standard errors of all marginals, packed.

    The larger of that between the means of chains and, so that a state that was hardly seen has one too, that of as
    many independent draws as the effective samples with one more of either kind. Where chains disagree, a chain is one
    draw, and the error of their mean is as large as that of each: they may all be caught.
    """
    owner = as_array(field.state_variable)
    apart = as_array(doubt)[as_array(field.variable_graph)][owner]
    draws = as_array(effective.double())[owner]
    draws = np.where(apart, np.minimum(draws, walkers.number), draws)
    by_chain = seen.visits.sum(0, dtype=np.float64) / sweeps  # (states, chains)
    chance = (by_chain.mean(1) * draws + 1) / (draws + 2)
    errors = np.sqrt(chance * (1 - chance) / (draws + 2))
    if walkers.number > 1:
        scatter = by_chain.std(1, ddof=1)
        errors = np.maximum(errors, np.where(apart, scatter, scatter / math.sqrt(walkers.number)))
    sampled = np.isin(owner, walkers.order) & ~np.isneginf(walkers.flat.log_unary)
    return torch.from_numpy(np.where(sampled, errors, 0.0)).to(field.log_unary)


def _scale_reduction(means: Array, length: float) -> Array:
    """Return R-hat of indicators from their means in each half chain, (states, halves)."""
    if means.shape[1] < 2:
        return np.full(len(means), np.inf)
    within = (means * (1 - means)).mean(1) * length / max(length - 1, 1)
    between = means.var(1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        result = np.sqrt((length - 1) / length + between / within)
    result = np.where(within > 0, result, np.where(between > 0, np.inf, 1.0))
    return np.maximum(result, 1.0)


def _status(
    found: Array, worst: Tensor | None = None, tolerance: float = 0.0, apart: int = 0, sites: bool = False
) -> str:
    if (found == IMPOSSIBLE).any():
        return "converged: no assignment has positive probability, so there is nothing to sample"
    if (found != FOUND).any():
        return "not converged: no assignment of positive probability was found to start from; soften the hard zeros"
    if worst is None or bool((worst <= tolerance).all()):
        return "converged"
    reached = f"R-hat {1 + float(worst.max()):.3g}, wanted {1 + tolerance:.3g}"
    remedy = "try more sweeps" + (", or blocks='trees'" if sites else "") + ", or method 'auto'"
    places = f"{apart:,} variable{'s' if apart != 1 else ''}"
    return f"not converged{part_of(worst > tolerance)}: chains disagree on {places} ({reached}); {remedy}"


def annealed_log_partition(
    field: FactorGraph,
    chains: Chains,
    *,
    temperatures: int,
    number: int,
    seed: int,
    doubt: Bool[Array, " graphs"],
) -> tuple[Float[Tensor, " graphs"], Float[Tensor, " graphs"]]:
    r"""Estimate log Z by moving chains from a product of marginals q to the field, little by little.

    .. math::

        \hat Z = \frac{1}{n} \sum_{c=1}^n \prod_k \Big(\frac{\Phi\Psi}{q}(x_c^{(k)})\Big)^{\beta_{k+1} - \beta_k},
        \qquad x^{(k)} \text{ moved by a sweep that leaves } q^{1 - \beta_k} (\Phi\Psi)^{\beta_k} \text{ as it is.}

    Half of the chains start from the marginals of belief propagation, half from the variables' own potentials: the one
    is better where messages settle on what is true, the other where they do not. The mean of :math:`\hat Z` is Z in
    either case; its logarithm is low on average, by about half the squared standard error. `doubt` says of each graph
    whether chains were seen to disagree.

    Returns
    -------
    tuple
        The estimate and its standard error for each graph; -inf and inf where no chain ended at a possible assignment.

    References
    ----------
    Neal (2001), Annealed importance sampling.
    """
    halves = [number - number // 2, number // 2]
    bases = [settled_beliefs(field), field.log_unary]
    parts = [
        _anneal(field, chains, base, temperatures, count, [seed, part])
        for part, (base, count) in enumerate(zip(bases, halves, strict=True))
    ]
    mean, error = _log_mean(parts, doubt)
    constant = field.log_constant
    return constant + torch.from_numpy(mean).to(constant), torch.from_numpy(error).to(constant)


def _anneal(
    field: FactorGraph, chains: Chains, log_base: Tensor, temperatures: int, number: int, seed: list[int]
) -> Array:
    """Return the log weights of chains that start from a product of marginals, (graphs, chains)."""
    flat = chains.flat
    # Variables that are observed keep their state, so that it is that of the first chain in all.
    state = np.repeat(chains.state[:, :1], number, axis=1)
    random = np.random.SeedSequence(seed).generate_state(number, np.uint64) | np.uint64(1)
    annealed = dataclasses.replace(chains, state=state, random=random, potentials=None)
    base = as_array(normalise_segments(log_base, field.state_ptr)[0].to("cpu", torch.float64))
    dead = np.isneginf(flat.log_unary)
    own = np.where(dead, 0.0, flat.log_unary - np.where(dead, 0.0, base))
    tables = softened(flat.tables)  # the last weight sets that right
    log_weight = np.zeros((field.num_graphs, number))
    betas = np.linspace(0.0, 1.0, temperatures + 1)
    for low, high in itertools.pairwise(betas):
        annealed.run(1, unary=np.where(dead, -np.inf, base + low * own), tables=low * tables)
        log_weight += (high - low) * _energy(field, annealed, own, tables)
    if chains.hard:
        final = _energy(field, annealed, own, flat.tables)
        log_weight = np.where(np.isneginf(final), -np.inf, log_weight)
    return log_weight


def _energy(field: FactorGraph, chains: Chains, own: Array, tables: Array) -> Array:
    """Return the log ratio of the field to the base at every chain's state, graph by graph."""
    flat = chains.flat
    out = np.zeros((field.num_graphs, chains.number))
    owner = as_array(field.wiring.factor_graph)
    energies(*(flat, own, tables, owner, chains.state, out), work=len(flat.table_start) * chains.number)
    return out


def _log_mean(parts: list[Array], doubt: Array) -> tuple[Array, Array]:
    r"""Return the log of the mean weight over several kinds of chains, (graphs, chains) each, and its standard error.

    Kinds count by the inverse of their relative variances. Three errors add up, as squares: that of the mean by the
    delta method; by how much another kind is higher, as a mean of weights is too low where most of it is missed; and by
    how much the mean of a log-normal distribution with the mean and variance of the log weights is higher,
    :math:`\mu + \sigma^2 / 2`, of the kind where that variance is least. Where there is doubt whether chains reach
    everything, how much kinds differ either way, and how much single runs do, adds to it.
    """
    kinds = [_moments(part) for part in parts if part.shape[1]]
    value, error, spread, normal = (np.stack(each) for each in zip(*kinds, strict=True))  # (kinds, graphs)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(np.isneginf(value), 0.0, 1.0 / np.maximum(error, 1e-9) ** 2)
        share = share / share.sum(0)
        top = value.max(0)
        total = top + np.log((share * np.exp(value - top)).sum(0))
        own = np.sqrt((np.where(share > 0, share * error * np.exp(value - total), 0.0) ** 2).sum(0))
        higher = np.maximum(top - total, 0.0)
        calm = np.take_along_axis(normal, spread.argmin(0)[None], 0)[0]
        missed = np.maximum(calm - total, 0.0)
        apart = np.maximum(top - value.min(0), spread.min(0))
        higher = np.where(doubt, np.maximum(higher, apart), higher)
    none = np.isneginf(top)
    return np.where(none, -np.inf, total), np.where(none, np.inf, np.sqrt(own**2 + higher**2 + missed**2))


def _moments(log_weight: Array) -> tuple[Array, Array, Array, Array]:
    """Return the log of the mean weight, its standard error, the spread of log weights, and the log-normal mean."""
    number = log_weight.shape[1]
    alive = ~np.isneginf(log_weight)
    count = alive.sum(1)
    top = log_weight.max(1, initial=-np.inf)
    safe = np.where(np.isneginf(top), 0.0, top)
    weight = np.exp(log_weight - safe[:, None])
    mean = weight.mean(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = (
            weight.std(1, ddof=1) / (mean * math.sqrt(number)) if number > 1 else np.full(len(mean), np.inf)
        )
        finite = np.where(alive, log_weight, 0.0)
        middle = finite.sum(1) / count
        squares = np.where(alive, (log_weight - middle[:, None]) ** 2, 0.0).sum(1)
        spread = np.where(count > 1, np.sqrt(squares / np.maximum(count - 1, 1)), np.inf)
        normal = middle + 0.5 * spread**2 + np.log(count / number)
        result = safe + np.log(mean)
    return result, np.where(np.isneginf(result), np.inf, error), spread, normal
