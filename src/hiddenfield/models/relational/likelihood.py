r"""Log-likelihoods of relational models: what each method of learning climbs.

A log-likelihood of the weights :math:`\theta` given complete networks is
:math:`\ell(\theta) = \theta \cdot \sum_d s_d - \sum_d \log Z_d(\theta)`, with :math:`s_d` the observed counts; its
gradient is *observed minus expected counts*. Where part of a network is unknown, the first term becomes the log
partition of the field with the known part as evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme, ground, ground_variables, weight_scale
from hiddenfield.inference.infer import infer
from hiddenfield.models.relational.counts import change_statistics, count_features
from hiddenfield.models.relational.enumeration import enumerate_networks
from hiddenfield.models.relational.evaluation import evaluate
from hiddenfield.models.relational.observations import Network
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float

__all__ = ["BetheLikelihood", "ExactLikelihood", "PseudoLikelihood", "evidence_of"]

UNSETTLED = -1e15
"""Log-likelihood where belief propagation did not settle: below all others, and finite for a line search."""


@dataclass(eq=False)
class BetheLikelihood:
    """The likelihood with Bethe's log partition at template level: cost independent of the networks' sizes.

    Networks of one size share one template. Where a network is partly unknown, the known part is evidence on the ground
    field, whose belief propagation costs as much as it has factors.

    With ``phase="best"`` the log partition is that of the phase with the highest one, as in the model itself. With
    "observed" it is that of the phase whose marginals are nearest to the observed frequencies, as if all other networks
    were impossible: what a chain that starts from the data sees. Complete networks only.
    """

    scheme: RelationalScheme
    networks: Sequence[Network]
    bindings: str = "merged"
    weights: str = "ground"
    phase: str = "best"
    observed: Array = field(init=False)

    def __post_init__(self) -> None:
        """Count the features of the complete networks once."""
        complete = [network for network in self.networks if network.complete]
        self._partial = [network for network in self.networks if not network.complete]
        zero = np.zeros(len(self.scheme.features))
        counts = [count_features(self.scheme, network, weights=self.weights) for network in complete]
        self.observed = np.sum(counts, axis=0) if counts else zero
        self._sizes: dict[tuple[tuple[str, int], ...], int] = {}
        for network in self.networks:
            key = tuple(sorted(network.sizes.items()))
            self._sizes[key] = self._sizes.get(key, 0) + 1
        choose("phase", {"best": 0, "observed": 0}, self.phase)
        if self.phase == "observed" and self._partial:
            raise InputError("the observed phase needs complete networks; use phase='best'")

    def _near(self, sizes: tuple[tuple[str, int], ...]) -> torch.Tensor | None:
        """Return the observed frequencies of each attribute's values, where their phase is asked for."""
        if self.phase == "best":
            return None
        chosen = [network for network in self.networks if tuple(sorted(network.sizes.items())) == sizes]
        most = max(attribute.num_values for attribute in self.scheme.attributes.values())
        rows = []
        for name, attribute in self.scheme.attributes.items():
            if len(attribute.type.parts) == 1:
                codes = np.concatenate([network.values[name] for network in chosen])
                rows.append(np.bincount(codes, minlength=most) / len(codes))
            else:
                total = len(chosen) * attribute.type.count(dict(sizes))
                share = sum(len(network.pairs[name]) for network in chosen) / max(total, 1)
                rows.append(np.pad([1 - share, share], (0, most - 2)))
        return torch.from_numpy(np.stack(rows))

    def __call__(self, theta: Float[Array, " features"]) -> tuple[float, Float[Array, " features"]]:
        """Return the log-likelihood and its gradient."""
        value, gradient = self.batch(theta[None])
        return float(value[0]), gradient[0]

    def batch(self, theta: Float[Array, "settings features"]) -> tuple[Array, Array]:
        """Return log-likelihoods and gradients at many settings at once."""
        value, gradient, _ = self.examine(theta)
        return value, gradient

    def examine(self, theta: Float[Array, "settings features"]) -> tuple[Array, Array, Array]:
        """Return log-likelihoods, gradients and numbers of phases; no phase is where no messages settled."""
        value = theta @ self.observed
        gradient = np.tile(self.observed, (len(theta), 1))
        phases = np.ones(len(theta), dtype=np.int64)
        for network in self._partial:
            first, second = self._clamped(network, theta)
            value, gradient = value + first, gradient + second
        for sizes, repeats in self._sizes.items():
            options: dict[str, Any] = {"bindings": self.bindings, "weights": self.weights}
            result = evaluate(self.scheme, dict(sizes), theta, near=self._near(sizes), **options)
            value = value - repeats * result.log_partition.numpy()
            gradient = gradient - repeats * result.expected.numpy()
            here = result.phases.numpy()
            # The most over the networks' sizes; one that did not settle spoils all.
            phases = np.where((phases == 0) | (here == 0), 0, np.maximum(phases, here))
        # Where nothing settled there is no value, and an ascent must turn back.
        return np.where(phases > 0, value, UNSETTLED), gradient, phases

    def _clamped(self, network: Network, theta: Array) -> tuple[Array, Array]:
        """Return log partition and expected counts given what is known of a network, setting by setting."""
        values, gradients = [], []
        evidence = evidence_of(self.scheme, network)
        for row in theta:
            weight = torch.tensor(row, dtype=torch.float64, requires_grad=True)
            options: dict[str, Any] = {"bindings": self.bindings, "weights": self.weights}
            with torch.enable_grad():
                here = ground(self.scheme, network.sizes, weight, **options).given(evidence)
                total = infer(here, "loopy_bp", damping=0.3, tolerance=1e-9).log_partition.sum()
                (slope,) = torch.autograd.grad(total, weight)
            values.append(total.item())
            gradients.append(slope.numpy())
        return np.array(values), np.array(gradients)


@dataclass(eq=False)
class ExactLikelihood:
    """The likelihood itself, by enumeration: for complete undirected networks of up to eight vertices."""

    scheme: RelationalScheme
    networks: Sequence[Network]
    weights: str = "ground"

    def __post_init__(self) -> None:
        """Count the features, and all networks of each size."""
        if not all(network.complete for network in self.networks):
            raise InputError("the exact likelihood needs complete networks; use method='bethe'")
        counts = [count_features(self.scheme, network) for network in self.networks]
        self._scale = weight_scale(self.scheme, self.weights)
        self.observed = np.sum(counts, axis=0) * self._scale
        sizes = [next(iter(network.sizes.values())) for network in self.networks]
        self._tables = [
            (sizes.count(size), enumerate_networks(self.scheme, size, weights=self.weights))
            for size in sorted(set(sizes))
        ]

    def __call__(self, theta: Float[Array, " features"]) -> tuple[float, Float[Array, " features"]]:
        """Return the log-likelihood and its gradient."""
        value, gradient = self.batch(theta[None])
        return float(value[0]), gradient[0]

    def batch(self, theta: Float[Array, "settings features"]) -> tuple[Array, Array]:
        """Return log-likelihoods and gradients at many settings."""
        value, gradient = theta @ self.observed, np.tile(self.observed, (len(theta), 1))
        for repeats, table in self._tables:
            value = value - repeats * table.log_partition(theta)
            gradient = gradient - repeats * table.expectations(theta) * self._scale
        return value, gradient


@dataclass(eq=False)
class PseudoLikelihood:
    r"""The product of each pair's probability given all others: a logistic regression on change statistics.

    :math:`\ell(\theta) = \sum_{ij} \log p(x_{ij} \mid x_{-ij})` (Besag 1975; Strauss and Ikeda 1990). Cheap and
    concave; consistent, but its standard errors ignore the dependence between pairs and are too small. Attributes of
    single entities are taken as given.
    """

    scheme: RelationalScheme
    networks: Sequence[Network]
    weights: str = "ground"

    def __post_init__(self) -> None:
        """Compute the change statistics of all pairs once."""
        rows, answers = [], []
        for network in self.networks:
            if not network.complete:
                raise InputError(
                    "pseudo-likelihood needs complete networks; use method='bethe' where values are unknown"
                )
            name = next(iter(network.pairs))
            pairs = ground_variables(self.scheme, network.sizes)[name]
            present = {tuple(pair) for pair in network.pairs[name].tolist()}
            rows.append(change_statistics(self.scheme, network, pairs, weights=self.weights))
            answers.append(np.array([tuple(pair) in present for pair in pairs.tolist()], dtype=np.float64))
        self._rows, self._answers = np.concatenate(rows), np.concatenate(answers)
        self.observed = self._answers @ self._rows

    def __call__(self, theta: Float[Array, " features"]) -> tuple[float, Float[Array, " features"]]:
        """Return the log pseudo-likelihood and its gradient."""
        value, gradient = self.batch(theta[None])
        return float(value[0]), gradient[0]

    def batch(self, theta: Float[Array, "settings features"]) -> tuple[Array, Array]:
        """Return log pseudo-likelihoods and gradients at many settings."""
        log_odds = self._rows @ theta.T
        value = (self._answers[:, None] * log_odds - np.logaddexp(0, log_odds)).sum(0)
        probability = 1 / (1 + np.exp(-np.clip(log_odds, -700, 700)))
        return value, ((self._answers[:, None] - probability).T @ self._rows)


def evidence_of(scheme: RelationalScheme, network: Network) -> torch.Tensor:
    """Return what is known of a network as packed log weights over the states of the ground field."""
    parts = []
    for name, rows in ground_variables(scheme, network.sizes).items():
        attribute = scheme.attributes[name]
        if len(attribute.type.parts) == 1:
            codes = network.values[name]
        else:
            size = network.sizes[attribute.type.parts[0]]
            codes = np.zeros(len(rows), dtype=np.int64)
            keys = rows[:, 0] * size + rows[:, 1]
            for given, code in (
                (network.pairs[name], 1),
                (network.unknown.get(name, np.zeros((0, 2), int)), -1),
            ):
                codes[np.searchsorted(keys, given[:, 0] * size + given[:, 1])] = code
        weight = np.where(np.arange(attribute.num_values) == codes[:, None], 0.0, -np.inf)
        weight[codes < 0] = 0.0
        parts.append(weight.reshape(-1))
        extra = attribute.type.self_count(network.sizes)
        parts.append(np.zeros(extra * attribute.num_values))
    return torch.from_numpy(np.concatenate(parts))
