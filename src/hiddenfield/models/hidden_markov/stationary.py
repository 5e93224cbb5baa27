r"""The stationary law of a Markov chain, and transitions that are learned with the initial law tied to it."""

from __future__ import annotations

import numpy as np

from hiddenfield.models import dirichlet
from hiddenfield.models.dirichlet import free_ratios
from hiddenfield.shapes import Array, Bool, Float


def stationary_law(transitions: Float[Array, "states states"]) -> Float[Array, " states"]:
    r"""Return :math:`\pi` with :math:`\pi A = \pi`; where there are several, the one closest to uniform.

    Examples
    --------
    >>> stationary_law(np.array([[0.9, 0.1], [0.3, 0.7]])).round(3).tolist()
    [0.75, 0.25]
    """
    ones = np.ones(len(transitions))
    system = np.eye(len(ones)) - transitions.T + 1.0
    try:
        law = np.linalg.solve(system, ones)
    except np.linalg.LinAlgError:
        law = np.linalg.lstsq(system, ones, rcond=None)[0]
    law = np.maximum(law, 0)
    return law / law.sum()


def tied_transitions(
    first: Float[Array, " states"],
    moves: Float[Array, "states states"],
    before: Float[Array, "states states"],
    allowed: Bool[Array, "states states"],
) -> Float[Array, "states states"]:
    r"""Return transitions that raise :math:`\sum_{st} n_{st} \log A_{st} + \sum_s f_s \log \pi_s(A)`.

    There is no closed form. Where the slope is 0,

    .. math:: A_{st} = \frac{n_{st}}{N_s - g_{st}}, \qquad N_s = \sum_t n_{st},

    with g the slope of the second term less its mean over the row. Repeating this settles within a few turns where
    moves outnumber first states; elsewhere L-BFGS climbs in log ratios. The result is never worse than `before`, so
    that EM still rises.
    """
    total, owner = moves.sum(1, keepdims=True), np.nonzero(allowed)[0]

    def normalised(mass: Array) -> Array:
        found = np.zeros_like(before)
        found[allowed] = dirichlet.shares(mass[allowed], owner, before[allowed])
        return found

    found = normalised(moves)
    for _ in range(50):
        slope = _slope(found, first)
        slope = slope - (found * slope).sum(1, keepdims=True)
        left = np.where(total > 0, total - slope, 1.0)
        if (left <= 0).any():
            break
        following = normalised(np.where(total > 0, moves / left, 0.0))
        change, found = np.abs(following - found).max(), following
        if change < 1e-13:
            break
    if _value(found, first, moves) >= _value(before, first, moves):
        return found
    return _climb(first, moves, before, allowed)


def _climb(first: Array, moves: Array, before: Array, allowed: Array) -> Float[Array, "states states"]:
    from scipy.optimize import minimize

    def loss(ratios: Float[Array, " free"]) -> tuple[float, Array]:
        found = dirichlet.from_ratios(ratios, before, allowed)
        own = (moves - moves.sum(1, keepdims=True) * found)[allowed][free_ratios(np.nonzero(allowed)[0])]
        return -_value(found, first, moves), -own - tied_slope(found, first, allowed)

    ratios = dirichlet.as_ratios(before, allowed)
    if not len(ratios):
        return before
    found = minimize(loss, ratios, jac=True, method="L-BFGS-B", bounds=[(-700, 700)] * len(ratios))
    return dirichlet.from_ratios(found.x if found.fun <= loss(ratios)[0] else ratios, before, allowed)


def _value(transitions: Array, first: Array, moves: Array) -> float:
    law = np.maximum(stationary_law(transitions), 1e-300)
    return float((moves * np.log(np.maximum(transitions, 1e-300))).sum() + (first * np.log(law)).sum())


def tied_slope(
    transitions: Float[Array, "states states"],
    first: Float[Array, " states"],
    allowed: Bool[Array, "states states"],
) -> Float[Array, " free"]:
    r"""Return the slope of :math:`\sum_s f_s \log \pi_s` in log ratios: of an entry less the mean of its row."""
    slope = _slope(transitions, first)
    inner = transitions * (slope - (transitions * slope).sum(1, keepdims=True))
    return inner[allowed][free_ratios(np.nonzero(allowed)[0])]


def _slope(transitions: Array, first: Array) -> Float[Array, "states states"]:
    r"""Return the slope of :math:`\sum_s f_s \log \pi_s`; :math:`d\pi = \pi\, dA\, (I - A + 1\pi)^{-1}`."""
    law = stationary_law(transitions)
    weight = np.where(first > 0, first / np.maximum(law, 1e-300), 0.0)
    return np.outer(law, np.linalg.solve(np.eye(len(law)) - transitions + law, weight))
