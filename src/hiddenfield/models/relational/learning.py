"""Fit the weights of a relational model to observed networks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme
from hiddenfield.learning.maximum_likelihood import Ascent, maximise
from hiddenfield.models.relational.diagnostics import ChainDiagnostics
from hiddenfield.models.relational.likelihood import (
    LIKELIHOODS,
    Penalised,
    Search,
    as_list,
    find_feature,
)
from hiddenfield.models.relational.observations import Network
from hiddenfield.shapes import Array, Float

# No network can be more likely than certain.
IMPOSSIBLE = (
    "no estimate: the approximate log-likelihood is above zero, which no network can have; the phase that was asked "
    "for does not hold networks like the data"
)


@dataclass(frozen=True, eq=False)
class RelationalFit:
    """Weights that were fitted, and how far to trust them.

    Parameters
    ----------
    names, theta
        The features and their weights.
    standard_errors
        From the curvature of the log-likelihood at the optimum; NaN where there is none, 0 for fixed weights.
    log_likelihood, gradient
        At `theta` (without the prior); "monte_carlo" estimates both, the log-likelihood by bridge sampling;
        "contrastive_divergence" does not know it (NaN).
    converged, status
        Whether `theta` is a maximum (the gradient is zero and the likelihood curves down), and how the search ended.
    phases
        How many phases belief propagation has at `theta`; more than one means that the model is near-degenerate. None
        where the method does without.
    ascents
        One per start, with its trace.
    method, bindings, weights
        What was climbed, and in which conventions the weights are meant.
    num_pairs
        Number of pairs of the networks, for `bic`; 0 where it is not known.
    log_likelihood_error
        Standard error of the log-likelihood where it is sampled; 0 elsewhere.
    diagnostics
        Of the chains at the end, where the method samples; None elsewhere.
    """

    names: tuple[str, ...]
    theta: Float[Array, " features"]
    standard_errors: Float[Array, " features"]
    log_likelihood: float
    gradient: Float[Array, " features"]
    converged: bool
    status: str
    phases: int | None
    ascents: tuple[Ascent, ...]
    method: str
    bindings: str
    weights: str
    num_pairs: int = 0
    log_likelihood_error: float = 0.0
    diagnostics: ChainDiagnostics | None = None

    @property
    def num_free(self) -> int:
        """Number of weights that were fitted."""
        return int((self.standard_errors != 0).sum())

    @property
    def aic(self) -> float:
        r"""Akaike's criterion, :math:`2 k - 2 \ell`, of k fitted weights; NaN where the likelihood is not known."""
        return 2 * self.num_free - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        r"""Schwarz's criterion, :math:`k \log N - 2 \ell`, with N the number of pairs."""
        return self.num_free * math.log(max(self.num_pairs, 1)) - 2 * self.log_likelihood

    def __repr__(self) -> str:
        """Show the weights with their standard errors."""
        parts = [
            f"{name} {value:.4g} ({error:.2g})"
            for name, value, error in zip(self.names, self.theta, self.standard_errors, strict=True)
        ]
        return f"RelationalFit({', '.join(parts)}; per {self.weights} feature; {self.method}: {self.status})"


def fit_relational(
    scheme: RelationalScheme,
    networks: Network | Sequence[Network],
    *,
    method: str = "bethe",
    optimiser: str = "lbfgs",
    starts: int = 4,
    start: Mapping[str, float] | None = None,
    ridge: float = 0.0,
    fixed: Mapping[str, float] | None = None,
    share: bool = False,
    bindings: str = "merged",
    weights: str = "ground",
    seed: int = 0,
    tolerance: float = 1e-5,
    max_iterations: int = 200,
    advance: Callable[[int], None] | None = None,
) -> RelationalFit:
    r"""Maximise the log-likelihood of observed networks, minus a ridge :math:`\tfrac{\lambda}{2} \lVert\theta\rVert^2`.

    Parameters
    ----------
    scheme
        The scheme.
    networks
        One or several, complete or partly unknown.
    method
        What is climbed, a name of `LIKELIHOODS`. "bethe": template-level belief propagation, its best phase.
        "bethe_observed": the phase nearest to the data. "exact": enumeration, up to eight vertices.
        "pseudo_likelihood": each pair given all others. "monte_carlo": Markov chain Monte Carlo maximum likelihood
        (Geyer and Thompson). "contrastive_divergence": a few steps of the chain from the observed network.
    optimiser
        "lbfgs" or "conjugate_gradient".
    starts
        How many starts: the zero vector, the pseudo-likelihood's optimum where it exists, and random ones.
    start
        A first start of one's own; weights that are left out begin at zero.
    ridge
        Precision of a normal prior on the weights.
    fixed
        Weights that are held at a value, for learning feature by feature.
    share
        Whether networks of different sizes share their weights. A weight means something else in a larger network (the
        expected degree grows with it), so this must be asked for.
    bindings, weights
        See `hiddenfield.fields.relational.factor_kinds`.
    seed
        Of the random starts.
    tolerance, max_iterations
        Of each ascent.
    advance
        Called with 1 after each start, for a progress bar.

    Returns
    -------
    RelationalFit
        The best stationary point. Where no start reached one, the best end with `converged` false and a `status` that
        says so: its numbers are then not estimates.

    Examples
    --------
    A model with edges alone: the weight is the logit of the density.

    >>> from hiddenfield.fields.relational import graph_scheme
    >>> from hiddenfield.models.relational import fit_relational, network_from_edges
    >>> scheme = graph_scheme("edge")
    >>> network = network_from_edges(scheme, [(0, 1), (1, 2), (2, 3)], vertices=range(6))
    >>> fit_relational(scheme, network)
    RelationalFit(edge -1.386 (0.65); per ground feature; bethe: converged)
    """
    given = as_list(networks)
    if not given:
        raise InputError("give at least one network")
    different = sorted({tuple(sorted(network.sizes.items())) for network in given})
    if len(different) > 1 and not share:
        raise InputError(
            f"the networks have different sizes ({dict(different[0])}, {dict(different[1])}, …); one set of weights "
            "means different things in them. Pass share=True if that is what you want"
        )
    likelihood = LIKELIHOODS.choose(method)(scheme, given, bindings=bindings, weights=weights)
    held = {find_feature(scheme, name): float(value) for name, value in (fixed or {}).items()}
    free = [i for i in range(len(scheme.features)) if i not in held]
    if not free:
        raise InputError("all weights are fixed; there is nothing to fit")
    objective = Penalised(likelihood, held, free, ridge)
    search = Search(optimiser, tolerance, max_iterations, seed)
    ascents = []
    for begin in _starts(objective, starts, start, seed):
        ascents.append(likelihood.ascend(objective, begin, search))
        if advance is not None:
            advance(1)
    best = max(ascents, key=lambda ascent: (ascent.converged, ascent.value))
    theta = objective.full(best.parameters[None])
    values = likelihood.examine(theta)
    value, phases = float(values.log_likelihood[0]), None
    if value > 1e-6 and all(network.complete for network in given):
        best = dataclasses.replace(best, converged=False, status=IMPOSSIBLE)
    status = best.status
    if values.phases is not None:
        phases = int(values.phases[0])
        status += f"; {phases} phases coexist there" if phases != 1 else ""
    errors = np.zeros(len(scheme.features))
    errors[free] = np.nan
    if best.converged and best.standard_errors is not None:
        errors[free] = best.standard_errors
    return RelationalFit(
        tuple(scheme.features),
        theta[0],
        errors,
        value,
        values.gradient[0],
        best.converged,
        status,
        phases,
        tuple(ascents),
        method,
        bindings,
        weights,
        _count_pairs(scheme, given),
        likelihood.log_likelihood_error,
        likelihood.diagnostics,
    )


def _count_pairs(scheme: RelationalScheme, networks: Sequence[Network]) -> int:
    """Return the number of pairs of all networks."""
    kinds = [attribute.type for attribute in scheme.attributes.values() if len(attribute.type.parts) == 2]
    return sum(kind.count(network.sizes) for kind in kinds for network in networks)


def _starts(
    objective: Penalised, count: int, own: Mapping[str, float] | None, seed: int
) -> list[Float[Array, " free"]]:
    """Return where ascents start: the user's own start, zero, the pseudo-likelihood's optimum, and random ones."""
    likelihood, free = objective.likelihood, objective.free
    scheme, networks = likelihood.scheme, likelihood.networks
    first: list[Array] = []
    if own is not None:
        theta = np.zeros(len(scheme.features))
        for name, value in own.items():
            theta[find_feature(scheme, name)] = value
        first = [theta[free]]
    # Where gradients are sampled there is one ascent, from the best start there is.
    wanted = 2 if likelihood.sampled else count
    rows = [np.zeros(len(free))]
    cheap = LIKELIHOODS["pseudo_likelihood"]
    if wanted > 1 and type(likelihood) is not cheap and all(network.complete for network in networks):
        guess = Penalised(
            cheap(scheme, networks, weights=likelihood.weights), {}, list(range(len(scheme.features)))
        )
        found = maximise(guess, np.zeros(len(scheme.features)))
        if found.converged:
            rows.append(found.parameters[free])
    generator = np.random.default_rng(seed)
    while len(rows) < wanted:
        rows.append(rows[-1] + generator.normal(scale=0.5, size=len(free)))
    if likelihood.sampled:
        return first or rows[-1:]
    return [*first, *rows][:count]
