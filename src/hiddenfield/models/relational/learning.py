"""Fit the weights of a relational model to observed networks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme
from hiddenfield.learning.maximum_likelihood import Ascent, maximise
from hiddenfield.models.relational.likelihood import BetheLikelihood, ExactLikelihood, PseudoLikelihood
from hiddenfield.models.relational.mcmc_likelihood import ContrastiveDivergence, MonteCarloLikelihood
from hiddenfield.models.relational.observations import Network
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float

__all__ = ["LIKELIHOODS", "RelationalFit", "fit_relational"]

NEWTON_STEPS = 8
MOST_ON_RIDGE = 4
"""Weights for which a simplex is tried where gradients fail."""
FLAT = 1e-7
"""Curvature, in units in which each weight alone has 1, below which a direction says nothing about the weights."""

LIKELIHOODS: dict[str, Callable[..., Any]] = {
    "bethe": BetheLikelihood,
    "bethe_observed": lambda scheme, networks, bindings, weights: BetheLikelihood(
        scheme, networks, bindings, weights, "observed"
    ),
    "exact": lambda scheme, networks, bindings, weights: ExactLikelihood(scheme, networks, weights),
    "pseudo_likelihood": lambda scheme, networks, bindings, weights: PseudoLikelihood(
        scheme, networks, weights
    ),
    "monte_carlo": lambda scheme, networks, bindings, weights: MonteCarloLikelihood(
        scheme, networks, weights
    ),
    "contrastive_divergence": lambda scheme, networks, bindings, weights: ContrastiveDivergence(
        scheme, networks, weights
    ),
}
"""What can be climbed, by name: each takes (scheme, networks, bindings, weights) and returns value and gradient."""


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
        At `theta` (without the prior); methods that sample do not know the log-likelihood (NaN).
    converged, status
        Whether `theta` is a maximum (the gradient is zero and the likelihood curves down), and how the search ended.
    phases
        How many phases belief propagation has at `theta`; more than one means that the model is near-degenerate. None
        where the method does without.
    ascents
        One a start, with its trace.
    method, bindings, weights
        What was climbed, and in which conventions the weights are meant.
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
        "bethe": template-level belief propagation, its best phase. "bethe_observed": the phase nearest to the data.
        "exact": enumeration, up to eight vertices.
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
    given = [networks] if isinstance(networks, Network) else list(networks)
    if not given:
        raise InputError("give at least one network")
    different = sorted({tuple(sorted(network.sizes.items())) for network in given})
    if len(different) > 1 and not share:
        raise InputError(
            f"the networks have different sizes ({dict(different[0])}, {dict(different[1])}, …); one set of weights "
            "means different things in them. Pass share=True if that is what you want"
        )
    make = choose("method of learning", LIKELIHOODS, method)
    likelihood = make(scheme, given, bindings, weights)
    names = tuple(scheme.features)
    held = {names.index(_known(scheme, name)): value for name, value in (fixed or {}).items()}
    free = [i for i in range(len(names)) if i not in held]
    if not free:
        raise InputError("all weights are fixed; there is nothing to fit")
    objective = Objective(likelihood, len(names), free, held, ridge)
    options: dict[str, Any] = {
        "optimiser": optimiser,
        "tolerance": tolerance,
        "max_iterations": max_iterations,
    }
    free_names = [names[i] for i in free]
    climb = getattr(likelihood, "climb", None)
    # A method that samples climbs by itself, once, from the best start there is: the pseudo-likelihood's.
    begins = _starts(scheme, given, method, weights, free, starts if climb is None else 2, seed)
    if start is not None:
        own = {_known(scheme, name): value for name, value in start.items()}
        begins = [np.array([float(own.get(name, 0.0)) for name in free_names]), *begins][: max(starts, 1)]
    ascents = []
    for begin in begins if climb is None else begins[:1] if start is not None else begins[-1:]:
        if climb is None:
            found = maximise(objective, begin, scale=objective.units(), **options)
            ascents.append(confirm(objective, climb_ridge(objective, found), free_names))
        else:
            ascents.append(climb(objective, begin, max_iterations, seed))
        if advance is not None:
            advance(1)
    best = max(ascents, key=lambda ascent: (ascent.converged, ascent.value))
    theta = objective.full(best.parameters[None])[0]
    value, gradient = likelihood(theta) if climb is None else (math.nan, likelihood.gradient)
    phases = int(likelihood.examine(theta[None])[2][0]) if hasattr(likelihood, "examine") else None
    errors = np.zeros(len(names))
    errors[free] = np.nan
    if method.startswith("bethe") and value > 0 and all(network.complete for network in given):
        # No network can be more likely than certain.
        best = dataclasses.replace(best, converged=False, status=IMPOSSIBLE)
    if best.converged:
        errors[free] = likelihood.errors if climb else _standard_errors(objective, best.parameters)
    return RelationalFit(
        names,
        theta,
        errors,
        value,
        gradient,
        best.converged,
        best.status if phases in (None, 1) else f"{best.status}; {phases} phases coexist there",
        phases,
        tuple(ascents),
        method,
        bindings,
        weights,
    )


@dataclass
class Objective:
    """The penalised log-likelihood as a function of the free weights."""

    likelihood: Any
    total: int
    free: list[int]
    held: dict[int, float]
    ridge: float

    def full(self, rows: Array) -> Array:
        theta = np.zeros((len(rows), self.total))
        theta[:, self.free] = rows
        for place, value in self.held.items():
            theta[:, place] = value
        return theta

    def units(self) -> Array:
        """Return about a standard error of each free weight: one over the root of the feature's count."""
        counts = getattr(self.likelihood, "observed", None)
        return (
            np.ones(len(self.free))
            if counts is None
            else 1 / np.sqrt(np.maximum(np.abs(counts[self.free]), 1.0))
        )

    def batch(self, rows: Array) -> tuple[Array, Array]:
        value, gradient = self.likelihood.batch(self.full(rows))
        return value - self.ridge / 2 * (rows**2).sum(1), gradient[:, self.free] - self.ridge * rows

    def __call__(self, row: Array) -> tuple[float, Array]:
        value, gradient = self.batch(row[None])
        return float(value[0]), gradient[0]


def _starts(
    scheme: RelationalScheme,
    networks: list[Network],
    method: str,
    weights: str,
    free: list[int],
    count: int,
    seed: int,
) -> list[Array]:
    rows = [np.zeros(len(free))]
    if method != "pseudo_likelihood" and count > 1 and all(network.complete for network in networks):
        cheap = PseudoLikelihood(scheme, networks, weights)
        found = maximise(cheap, np.zeros(len(scheme.features)))
        if found.converged:
            rows.append(found.parameters[free])
    generator = np.random.default_rng(seed)
    while len(rows) < count:
        rows.append(rows[-1] + generator.normal(scale=0.5, size=len(free)))
    return rows[: max(count, 1)]


def climb_ridge(objective: Objective, ascent: Ascent) -> Ascent:
    """Go on from where gradients failed: along the ridge where two phases meet, on which there is no gradient.

    The log-likelihood is that of the better phase, so that it has a crease where phases change place. Nelder and Mead's
    simplex climbs creases; what it finds is the best there is, and still not a stationary point.
    """
    from scipy.optimize import minimize

    count = len(ascent.parameters)
    if ascent.converged or "run away" in ascent.status or count > MOST_ON_RIDGE:
        return ascent
    scale = 0.1 / np.sqrt(np.maximum(np.abs(np.diag(_hessian(objective, ascent.parameters))), 1.0))
    scale = np.maximum(scale, 1e-3)
    simplex = ascent.parameters + np.concatenate([np.zeros((1, count)), np.diag(scale)])
    options = {"initial_simplex": simplex, "maxfev": 60 * count, "xatol": 1e-5, "fatol": 1e-3}
    found = minimize(lambda row: -objective(row)[0], ascent.parameters, method="Nelder-Mead", options=options)
    value, gradient = objective(found.x)
    if value <= ascent.value:
        return ascent
    steepest = float(np.abs(gradient).max(initial=0.0))
    if steepest <= 1e-4 * max(1.0, abs(value)):
        status, good = "converged", True
    else:
        status = (
            f"no stationary point: the best lies on a ridge, where one phase takes over from another and the gradient "
            f"({steepest:.3g}) does not vanish"
        )
        good = False
    trace = np.concatenate([ascent.trace, found.x[None]])
    return Ascent(np.asarray(found.x), value, gradient, good, status, trace)


def confirm(objective: Objective, ascent: Ascent, names: Sequence[str]) -> Ascent:
    """Polish the end of an ascent by Newton's method, and call it converged only if that settles.

    Where the likelihood runs away, its gradient becomes small as well: the tail is exponential, gradient and curvature
    shrink together, and each Newton step is as long as the last. At a maximum the steps vanish.
    """
    if not ascent.converged:
        return ascent
    theta, trace = ascent.parameters, [ascent.trace]
    for _ in range(NEWTON_STEPS):
        value, gradient = objective(theta)
        curvature = -_hessian(objective, theta)
        # In units in which every weight has curvature 1: abundant features would hide the others.
        unit = 1 / np.sqrt(np.maximum(np.abs(np.diag(curvature)), FLAT**2))
        eigenvalues, vectors = np.linalg.eigh(curvature * unit[:, None] * unit)
        if eigenvalues.min() <= FLAT:
            direction = unit * vectors[:, int(np.argmin(eigenvalues))]
            status = _no_maximum(direction, names, bool(eigenvalues.min() < -1e-3))
            return dataclasses.replace(ascent, converged=False, status=status)
        step = unit * (vectors @ ((vectors.T @ (gradient * unit)) / eigenvalues))
        length = float(np.abs(step).max())
        if length <= 1e-6 * max(1.0, float(np.abs(theta).max())):
            end = np.concatenate([*trace, theta[None]])
            return dataclasses.replace(ascent, parameters=theta, value=value, gradient=gradient, trace=end)
        theta = theta + step * min(1.0, 0.5 / length)
        trace.append(theta[None])
    value, gradient = objective(theta)
    if length <= 1e-3 * max(1.0, float(np.abs(theta).max())):
        end = np.concatenate(trace)
        return dataclasses.replace(ascent, parameters=theta, value=value, gradient=gradient, trace=end)
    return dataclasses.replace(ascent, converged=False, status=_no_maximum(step, names, False))


def _no_maximum(direction: Array, names: Sequence[str], rises: bool) -> str:
    """Say along which weights there is no maximum."""
    main = np.abs(direction) >= 0.3 * np.abs(direction).max()
    along = ", ".join(name for name, there in zip(names, main, strict=True) if there)
    if rises:
        return f"no stationary point: the likelihood curves upwards there along {along} (a saddle, not a maximum)"
    return (
        f"no stationary point: the likelihood runs away or is flat along {along}; fix a weight or add a ridge"
    )


def _standard_errors(objective: Objective, theta: Array) -> Array:
    """Return the roots of the diagonal of the inverse of minus the Hessian; of a maximum."""
    return np.asarray(np.sqrt(np.diag(np.linalg.inv(-_hessian(objective, theta)))))


def _hessian(objective: Objective, theta: Array) -> Array:
    """Return the Hessian by central differences of the gradient, over steps of a fiftieth of a standard error.

    Weights of abundant features have standard errors that are smaller by orders of magnitude: a first Hessian over
    equal steps tells how small.
    """
    step = 1e-5 * np.maximum(1.0, np.abs(theta))
    for last in (False, True):
        moves = np.diag(step)
        _, gradients = objective.batch(np.concatenate([theta + moves, theta - moves]))
        count = len(theta)
        hessian = (gradients[:count] - gradients[count:]) / (2 * step[:, None])
        if not last:
            curvature = np.maximum(-np.diag(hessian), 1e-6)
            step = np.clip(0.02 / np.sqrt(curvature), 1e-8, 1e-3)
    return np.asarray((hessian + hessian.T) / 2)


def _known(scheme: RelationalScheme, name: str) -> str:
    choose("feature", scheme.features, name)
    return name
