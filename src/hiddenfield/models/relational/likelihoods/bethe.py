"""The likelihood with Bethe's log partition at template level."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import (
    Classes,
    RelationalScheme,
    conditioned_variables,
    entity_classes,
    given_attributes,
    ground,
    ground_variables,
)
from hiddenfield.inference.infer import infer
from hiddenfield.models.relational.evaluation import evaluate
from hiddenfield.models.relational.likelihood import LIKELIHOODS, SmoothLikelihood, Values, sum_counts
from hiddenfield.models.relational.observations import (
    Network,
    evidence_of,
    pair_attribute,
    pair_classes,
)
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Tensor

UNSETTLED = -1e15
"""Log-likelihood where belief propagation did not settle: below all others, and finite for a line search."""

Sizes = tuple[tuple[str, int], ...]
Domain = tuple[Sizes, Classes | int | None]
"""Sizes, and the classes of vertices: None where they are not given, a network's place where not all are known."""


@LIKELIHOODS.register(
    "bethe",
    guarantee="an estimate; exact with edges alone",
    summary="belief propagation on the template: its best phase",
    reference="Jaimovich, Meshi & Friedman 2007",
)
@dataclass(eq=False, kw_only=True)
class BetheLikelihood(SmoothLikelihood):
    r"""The likelihood with Bethe's log partition at template level: cost independent of the networks' sizes.

    Networks of one size share one template. Where a network is partly unknown, the known part is evidence on the ground
    field, whose belief propagation costs as much as it has factors.

    With ``phase="best"`` the log partition is that of the phase with the highest one, as in the model itself. With
    "observed" it is that of the phase whose marginals are nearest to the observed frequencies, as if all other networks
    were impossible: what a chain that starts from the data sees. Complete networks only.

    Attributes of vertices are conditioned on: :math:`\log p(x \mid a)`, with one variable for each pair of classes of
    vertices, unless ``condition=False``, which models them too.
    """

    phase: str = "best"

    def __post_init__(self) -> None:
        """Count the features of the complete networks once."""
        choose("phase", {"best": 0, "observed": 0}, self.phase)
        self._partial = [network for network in self.networks if not network.complete]
        complete = [network for network in self.networks if network.complete]
        self.observed = sum_counts(self.scheme, complete, self.weights)
        self._given = self.condition and bool(given_attributes(self.scheme))
        self._domains = Counter(map(self._domain, self.networks))
        if self.phase == "observed" and self._partial:
            raise InputError(
                "the observed phase needs complete networks; use method='bethe' where values are unknown"
            )

    def examine(self, theta: Float[Array, "settings features"]) -> Values:
        """Return log-likelihoods, gradients and numbers of phases; no phase is where no messages settled."""
        value = theta @ self.observed
        gradient = np.tile(self.observed, (len(theta), 1))
        phases = np.ones(len(theta), dtype=np.int64)
        options: dict[str, Any] = {"bindings": self.bindings, "weights": self.weights}
        for network in self._partial:
            first, second = self._clamped(network, theta)
            value, gradient = value + first, gradient + second
        for (sizes, given), repeats in self._domains.items():
            if isinstance(given, int):  # not all attributes of vertices are known: no classes
                first, second = self._clamped(_erased(self.scheme, self.networks[given]), theta)
                value, gradient = value - first, gradient - second
                continue
            near = self._frequencies((sizes, given)) if self.phase == "observed" else None
            result = evaluate(self.scheme, dict(sizes), theta, near=near, given=given, **options)
            value = value - repeats * result.log_partition.numpy()
            gradient = gradient - repeats * result.expected.numpy()
            here = result.phases.numpy()
            # The most over the networks' sizes; one that did not settle spoils all.
            phases = np.where((phases == 0) | (here == 0), 0, np.maximum(phases, here))
        # Where nothing settled there is no value, and an ascent must turn back.
        return Values(np.where(phases > 0, value, UNSETTLED), gradient, phases)

    def _domain(self, network: Network) -> Domain:
        """Return the sizes of a network, and the classes of its vertices where they are given."""
        if not self._given:
            return _sizes(network), None
        if any((codes < 0).any() for codes in network.values.values()):
            return _sizes(network), next(i for i, other in enumerate(self.networks) if other is network)
        return _sizes(network), entity_classes(self.scheme, network.sizes, network.values)

    def _frequencies(self, domain: Domain) -> Float[Tensor, "classes most_states"]:
        """Return the observed frequencies of the values of each variable of the template, in networks of one domain."""
        chosen = [network for network in self.networks if self._domain(network) == domain]
        sizes, given = domain
        most = max(attribute.num_values for attribute in self.scheme.attributes.values())
        rows = []
        if isinstance(given, Classes):
            seen = Counter(key for network in chosen for key in pair_classes(self.scheme, network, given))
            for _, parts, _, count in conditioned_variables(self.scheme, given):
                share = seen[parts] / (len(chosen) * count)
                rows.append(np.array([1 - share, share]))
            return torch.from_numpy(np.stack(rows))
        for name, attribute in self.scheme.attributes.items():
            if len(attribute.type.parts) == 1:
                codes = np.concatenate([network.values[name] for network in chosen])
                rows.append(np.bincount(codes, minlength=most) / len(codes))
            else:
                total = len(chosen) * attribute.type.count(dict(sizes))
                share = sum(len(network.pairs[name]) for network in chosen) / max(total, 1)
                rows.append(np.pad([1 - share, share], (0, most - 2)))
        return torch.from_numpy(np.stack(rows))

    def _clamped(self, network: Network, theta: Array) -> tuple[Array, Array]:
        """Return log partition and expected counts given what is known of a network, setting by setting."""
        values, gradients = [], []
        evidence = evidence_of(self.scheme, network)
        options: dict[str, Any] = {"bindings": self.bindings, "weights": self.weights}
        for row in theta:
            weight = torch.tensor(row, dtype=torch.float64, requires_grad=True)
            with torch.enable_grad():
                here = ground(self.scheme, network.sizes, weight, **options).given(evidence)
                total = infer(here, "loopy_bp", damping=0.3, tolerance=1e-9).log_partition.sum()
                (slope,) = torch.autograd.grad(total, weight)
            values.append(total.item())
            gradients.append(slope.numpy())
        return np.array(values), np.array(gradients)


LIKELIHOODS.register(
    "bethe_observed",
    guarantee="none: the phase follows the data",
    summary="belief propagation on the template: the phase nearest to the data",
    reference="Jaimovich, Meshi & Friedman 2007",
)(functools.partial(BetheLikelihood, phase="observed"))


def _erased(scheme: RelationalScheme, network: Network) -> Network:
    """Return a network of which only the attributes of vertices are known."""
    attribute = pair_attribute(scheme)
    every = ground_variables(scheme, network.sizes)[attribute.name]
    none = np.zeros((0, 2), dtype=np.int64)
    return dataclasses.replace(network, pairs={attribute.name: none}, unknown={attribute.name: every})


def _sizes(network: Network) -> Sizes:
    return tuple(sorted(network.sizes.items()))
