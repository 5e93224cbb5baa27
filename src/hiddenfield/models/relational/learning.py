"""Fit the weights of a relational model to observed networks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme, choose_bindings
from hiddenfield.learning.maximum_likelihood import Ascent, maximise
from hiddenfield.models.relational.checking import SimulationCheck, check_by_simulation
from hiddenfield.models.relational.counts import graph_patterns, has_terms
from hiddenfield.models.relational.diagnostics import ChainDiagnostics
from hiddenfield.models.relational.likelihood import (
    LIKELIHOODS,
    Likelihood,
    Penalised,
    Search,
    SmoothLikelihood,
    Values,
    as_list,
    check_weights,
)
from hiddenfield.models.relational.observations import Network, check_network, count_pairs
from hiddenfield.shapes import Array, Float

# No network can be more likely than certain.
IMPOSSIBLE = (
    "no estimate: the approximate log-likelihood is above zero, which no network can have; the phase that was asked "
    "for does not hold networks like the data"
)


FEW_STARTS = 2
"""Ascents that end at no maximum after which no further ones begin."""

FEW_PAIRS = 2_000_000
"""Pairs of a network up to which the pseudo-likelihood's optimum is worth looking for as a start."""
DEPENDENT = (
    "no unique maximum: the counts of {names} are linearly dependent in every network; drop a feature, fix a weight or "
    "add a ridge"
)
ABSENT = (
    "no stationary point: the data are at an edge of what the model can give, with no {} at all, so that weights run "
    "away; drop or fix {}, or add a ridge"
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
    objective, quantity, gradient
        What was maximised, its value at `theta` (without the prior), and the gradient. "monte_carlo" estimates both,
        the log-likelihood by bridge sampling; "contrastive_divergence" does not know the value (NaN).
    converged, status
        Whether `theta` is a maximum (the gradient is zero and the likelihood curves down), and how the search ended;
        then what speaks against the result.
    warnings
        One text for each reason not to trust the weights; none where all is well.
    phases
        How many phases belief propagation has at `theta`; more than one means that the model is near-degenerate. None
        for terms without template.
    check
        Networks simulated from the fitted model beside the data; None where that was not possible.
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
    objective: float
    quantity: str
    gradient: Float[Array, " features"]
    converged: bool
    status: str
    warnings: tuple[str, ...]
    phases: int | None
    check: SimulationCheck | None
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

    @property
    def log_likelihood(self) -> float:
        """The log-likelihood where that was maximised, exact or Bethe's estimate; NaN otherwise."""
        return self.objective if self.quantity == "log-likelihood" else math.nan

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
    method: str = "auto",
    optimiser: str = "lbfgs",
    starts: int = 4,
    start: Mapping[str, Any] | None = None,
    ridge: float = 0.0,
    fixed: Mapping[str, Any] | None = None,
    share: bool = False,
    bindings: str = "auto",
    weights: str = "ground",
    condition: bool = True,
    seed: int = 0,
    tolerance: float = 1e-5,
    max_iterations: int = 200,
    check: bool = True,
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
        What is climbed, a name of `LIKELIHOODS`, or "auto": "bethe", and "monte_carlo" where a feature has no template
        (gwesp and other terms). "bethe": template-level belief propagation, its best phase.
        "bethe_observed": the phase nearest to the data. "exact": enumeration of all networks of a few vertices.
        "pseudo_likelihood": each pair given all others. "monte_carlo": Markov chain Monte Carlo maximum likelihood
        (Geyer and Thompson). "contrastive_divergence": a few steps of the chain from the observed network.
    optimiser
        "lbfgs" or "conjugate_gradient".
    starts
        At most how many starts: the zero vector, the pseudo-likelihood's optimum where it exists, and random ones.
        Where the first two lead to no maximum, there are no more.
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
    condition
        Whether the attributes of vertices are taken as given, as in a regression on them. False models them together
        with the pairs, by Bethe's approximation only.
    seed
        Of the random starts.
    tolerance, max_iterations
        Of each ascent.
    check
        Whether to judge the fit, at most some seconds: networks simulated from it are compared with the data, and where
        the method samples, the log-likelihood is integrated, for AIC and BIC.
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
    for network in given:
        check_network(scheme, network)
    different = sorted({tuple(sorted(network.sizes.items())) for network in given})
    if len(different) > 1 and not share:
        raise InputError(
            f"the networks have different sizes ({dict(different[0])}, {dict(different[1])}, …); one set of weights "
            "means different things in them. Pass share=True if that is what you want"
        )
    held = check_weights(scheme, fixed, "a fixed weight")
    own = None if start is None else check_weights(scheme, start, "a weight to start from")
    if not (isinstance(ridge, Real) and 0 <= ridge < math.inf):
        raise InputError(f"ridge is a finite number of at least 0, got {ridge!r}")
    method = choose_method(scheme, method)
    likelihood = LIKELIHOODS.choose(method)(
        scheme, given, bindings=bindings, weights=weights, condition=condition
    )
    free = [i for i in range(len(scheme.features)) if i not in held]
    if not free:
        raise InputError("all weights are fixed; there is nothing to fit")
    objective = Penalised(likelihood, held, free, ridge)
    search = Search(optimiser, tolerance, max_iterations, seed)
    complete = all(network.complete for network in given)
    absent = [
        feature.name
        for feature, i in zip(map(scheme.features.get, objective.names), free, strict=True)
        if feature is not None and complete and not likelihood.observed[i] and not ridge
        if (feature.table.min() >= 0 if feature.term is None else not feature.term.covariate)
    ]
    ascents = []
    for begin in _starts(objective, starts, own, seed):
        ascents.append(likelihood.ascend(objective, begin, search))
        if advance is not None:
            advance(1)
        if not any(ascent.converged for ascent in ascents) and (absent or len(ascents) == FEW_STARTS):
            break
    best = max(ascents, key=lambda ascent: (ascent.converged, ascent.value))
    if isinstance(likelihood, SmoothLikelihood) and not best.converged:
        best = likelihood.ascend_ridge(objective, best)
        ascents.append(best)
    if absent and (
        likelihood.sampled or not best.converged
    ):  # means of samples come close to an edge as well
        status = ABSENT.format(" and no ".join(absent), " and ".join(absent))
        best = dataclasses.replace(best, converged=False, status=status)
    theta = objective.full(best.parameters[None])
    values = likelihood.examine(theta)
    value, noise = float(values.log_likelihood[0]), 0.0
    if check and best.converged and math.isnan(value):
        value, noise = likelihood.integrate(theta[0])
    if likelihood.quantity == "log-likelihood" and value > 1e-6 and complete:
        best = dataclasses.replace(best, converged=False, status=IMPOSSIBLE)
    elif best.converged and not ridge and (names := dependent_features(scheme, given, free)):
        best = dataclasses.replace(best, converged=False, status=DEPENDENT.format(names=", ".join(names)))
    phases, told = _phases(likelihood, values, theta)
    simulated = None
    if check and best.converged:
        options: dict[str, Any] = {"weights": weights, "free": free, "ridge": ridge, "seed": seed}
        simulated = check_by_simulation(scheme, given, theta[0], likelihood.observed, **options)
    if simulated is not None and not simulated.agrees:
        told.append(str(simulated))
    if likelihood.diagnostics is not None and not likelihood.diagnostics.mixed:
        told.append("the chains do not mix well: the standard errors are too small")
    if not best.converged:
        told.insert(0, f"the weights are not estimates: {best.status}")
    errors = np.zeros(len(scheme.features))
    errors[free] = np.nan
    if best.converged and best.standard_errors is not None:
        errors[free] = best.standard_errors
    return RelationalFit(
        tuple(scheme.features),
        theta[0],
        errors,
        value,
        likelihood.quantity,
        values.gradient[0],
        best.converged,
        "; ".join([best.status, *told[not best.converged :]]),
        tuple(told),
        phases,
        simulated,
        tuple(ascents),
        method,
        choose_bindings(scheme, bindings),
        weights,
        sum(count_pairs(scheme, network) for network in given),
        noise,
        likelihood.diagnostics,
    )


def choose_method(scheme: RelationalScheme, method: str) -> str:
    """Return what "auto" stands for: Bethe's approximation where all features have a template, else sampling."""
    return method if method != "auto" else "monte_carlo" if has_terms(scheme) else "bethe"


def _phases(
    likelihood: Likelihood, values: Values, theta: Float[Array, "one features"]
) -> tuple[int | None, list[str]]:
    """Return the number of phases at the weights, and what speaks against them: several, or one far from the data.

    Terms have no template, and no phases that belief propagation could find: None.
    """
    if has_terms(likelihood.scheme):
        return None, []
    options = {name: getattr(likelihood, name) for name in ("bindings", "weights", "condition")}
    scheme, networks = likelihood.scheme, likelihood.networks
    if values.phases is None:
        values = LIKELIHOODS["bethe"](scheme, networks, **options).examine(theta)
    assert values.phases is not None
    phases, told = int(values.phases[0]), []
    if phases > 1:
        told.append(
            f"{phases} phases coexist there: the model is near-degenerate, and samples need not look like the data"
        )
    elif phases == 0:
        told.append("belief propagation does not settle there")
    if phases and all(network.complete for network in networks):
        observed = likelihood.observed
        expected = observed - values.gradient[0]
        most, least = np.maximum(expected, observed), np.minimum(expected, observed)
        far = (most - least > 3 * np.sqrt(np.maximum(observed, 1.0))) & (most > 2 * least)
        parts = [
            f"{name} {expected[i]:,.4g} expected, {observed[i]:,.4g} observed"
            for i, name in enumerate(scheme.features)
            if far[i]
        ]
        if parts:
            which = "the only phase" if phases == 1 else "the dominant phase"
            told.append(f"{which} of the fitted model is far from the data: {'; '.join(parts)}")
    return phases, told


def dependent_features(
    scheme: RelationalScheme, networks: Sequence[Network], free: Sequence[int]
) -> list[str]:
    """Return features whose counts are linearly dependent in every network: no data tell their weights apart.

    Examples
    --------
    An open chain is two edges that meet, less three for each triangle.

    >>> from hiddenfield.fields.relational import graph_scheme
    >>> from hiddenfield.models.relational import network_from_edges
    >>> scheme = graph_scheme("edge", "open_chain", "triangle", "star2")
    >>> network = network_from_edges(scheme, [(0, 1), (1, 2)])
    >>> dependent_features(scheme, [network], [0, 1, 2, 3])
    ['open_chain', 'triangle', 'star2']
    """
    columns: dict[Any, Array] = {}
    for shape, sizes in {n.shape: n.sizes for n in networks}.items():
        for place, (name, feature) in enumerate(scheme.features.items()):
            counts: dict[Any, float] = graph_patterns(feature, sizes) if feature.term is None else {name: 1.0}
            for pattern, share in counts.items():
                if getattr(pattern, "edges", True):  # what has none is a constant
                    columns.setdefault((shape, pattern), np.zeros(len(scheme.features)))[place] = share
    table = np.array(list(columns.values()))[:, free].T
    if np.linalg.matrix_rank(table) == len(free):
        return []
    null = np.linalg.svd(table.T)[2][np.linalg.matrix_rank(table) :]
    return [list(scheme.features)[i] for place, i in enumerate(free) if np.abs(null[:, place]).max() > 1e-9]


def _starts(
    objective: Penalised, count: int, own: Mapping[int, float] | None, seed: int
) -> list[Float[Array, " free"]]:
    """Return where ascents start: the user's own start, zero, the pseudo-likelihood's optimum, and random ones."""
    likelihood, free = objective.likelihood, objective.free
    scheme, networks = likelihood.scheme, likelihood.networks
    first: list[Array] = []
    if own is not None:
        theta = np.zeros(len(scheme.features))
        theta[list(own)] = list(own.values())
        first = [theta[free]]
    # Where gradients are sampled there is one ascent, from the best start there is.
    wanted = 2 if likelihood.sampled else count
    rows = [np.zeros(len(free))]
    cheap = LIKELIHOODS["pseudo_likelihood"]
    able = all(network.complete and count_pairs(scheme, network) <= FEW_PAIRS for network in networks)
    if wanted > 1 and type(likelihood) is not cheap and able:
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
