r"""The log-likelihood of a model that can be sampled, by bridges from one whose log-likelihood is known.

Along :math:`\theta(u) = \theta_0 + u (\theta - \theta_0)`, with independent pairs at :math:`\theta_0`,

.. math:: \log Z(\theta) - \log Z(\theta_0) = \int_0^1 (\theta - \theta_0) \cdot E_u[s]\, du
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hiddenfield.models.relational.diagnostics import ChainDiagnostics
from hiddenfield.shapes import Array, Float

BRIDGES = 16


class Bridged(NamedTuple):
    """An estimated log-likelihood, and its standard error: the noise of the chains, and the error of the quadrature."""

    log_likelihood: float
    error: float


def bridge_log_likelihood(
    draw: Callable[[Array, int], Float[Array, "chains samples features"]],
    theta: Float[Array, " features"],
    reference: Float[Array, " features"],
    value: float,
    observed: Float[Array, " features"],
    *,
    bridges: int = BRIDGES,
) -> Bridged:
    """Integrate sampled means from the reference to the weights by Gauss-Legendre quadrature.

    Guarantee: an estimate; the chains must mix along the whole way. The error of the quadrature is taken to be at most
    the difference to that of the polynomial through every second point.

    Parameters
    ----------
    draw
        Samples statistics at given weights, with the number of the bridge as seed.
    theta, reference
        The weights, and those of a model with independent pairs.
    value
        The log-likelihood at the reference, which is exact.
    observed
        Statistics of the data.
    bridges
        Number of weights between the two at which networks are sampled.

    References
    ----------
    Hunter and Handcock (2006), Inference in curved exponential family models for networks; Gelman and Meng (1998),
    Simulating normalizing constants: from importance sampling to bridge sampling to path sampling.
    """
    direction = theta - reference
    if not direction.any():
        return Bridged(value, 0.0)
    nodes, shares = np.polynomial.legendre.leggauss(bridges)
    means, variance = np.zeros(bridges), 0.0
    for number, (node, share) in enumerate(zip((nodes + 1) / 2, shares / 2, strict=True)):
        along = draw(reference + node * direction, number) @ direction
        noise = ChainDiagnostics(("along",), along[:, :, None]).mean_covariance[0, 0]
        means[number] = along.mean()
        variance += share**2 * float(np.nan_to_num(noise))
    total = float(shares @ means) / 2
    coarse = float(_interpolating(nodes[::2]) @ means[::2]) / 2
    error = math.hypot(math.sqrt(variance), total - coarse)
    return Bridged(value + float(direction @ observed) - total, error)


def _interpolating(nodes: Float[Array, " nodes"]) -> Float[Array, " nodes"]:
    """Return the weights of the quadrature over [-1, 1] that integrates the polynomial through the nodes."""
    basis = np.polynomial.legendre.legvander(nodes, len(nodes) - 1)
    return np.asarray(np.linalg.solve(basis.T, np.eye(len(nodes))[0] * 2))
