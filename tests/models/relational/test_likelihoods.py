"""What every method of learning has in common, and that adding one is registering one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from hiddenfield.fields.relational import graph_scheme
from hiddenfield.models.relational import (
    LIKELIHOODS,
    count_features,
    fit_relational,
    landscape,
    network_from_edges,
)
from hiddenfield.models.relational.likelihood import Penalised, Search, SmoothLikelihood, Values

SCHEME = graph_scheme("edge", "triangle")
NETWORK = network_from_edges(SCHEME, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5)], vertices=range(7))


@pytest.mark.parametrize("method", list(LIKELIHOODS))
def test_every_likelihood_keeps_the_protocol(method: str) -> None:
    assert {"summary", "reference"} <= set(LIKELIHOODS.facts(method))
    likelihood = LIKELIHOODS.choose(method)(SCHEME, [NETWORK], weights="binding")
    np.testing.assert_allclose(likelihood.observed, count_features(SCHEME, NETWORK, weights="binding"))
    values = likelihood.examine(np.array([[-0.5, 0.0], [-0.4, 0.05]]))
    assert values.gradient.shape == (2, 2)
    assert np.isnan(values.log_likelihood).all() == likelihood.sampled
    # With the triangles held at nothing, the weight of an edge is the logit of the density, halved by its symmetry.
    objective = Penalised(likelihood, held={1: 0.0}, free=[0])
    ascent = likelihood.ascend(objective, np.zeros(1), Search())
    assert ascent.converged
    assert ascent.parameters[0] == pytest.approx(math.log(5 / 16) / 2, abs=0.03)
    assert ascent.standard_errors == pytest.approx(1 / math.sqrt(21 * 5 / 21 * 16 / 21) / 2, rel=0.1)


@dataclass(eq=False)
class Parabola(SmoothLikelihood):
    """A likelihood whose maximum is known."""

    def __post_init__(self) -> None:
        """Count nothing."""
        self.observed = np.zeros(len(self.scheme.features))

    def examine(self, theta: np.ndarray) -> Values:
        """Return a parabola about (1, 2)."""
        away = theta - [1.0, 2.0]
        return Values(-(away**2).sum(1) / 2, -away)


@pytest.fixture
def parabola() -> Iterator[str]:
    LIKELIHOODS.register("parabola", summary="a parabola", reference="none")(Parabola)
    yield "parabola"
    LIKELIHOODS._entries.pop("parabola")


def test_a_registered_likelihood_is_learned_and_drawn(parabola: str) -> None:
    fit = fit_relational(SCHEME, NETWORK, method=parabola, starts=1)
    assert fit.converged
    np.testing.assert_allclose(fit.theta, [1, 2], atol=1e-5)
    np.testing.assert_allclose(fit.standard_errors, [1, 1], rtol=1e-6)
    assert fit.phases == 1  # phases are looked for whatever was climbed
    found = landscape(SCHEME, NETWORK, ("edge", 0, 2), ("triangle", 1, 3), points=3, runs=1, method=parabola)
    assert found.log_likelihood[1, 1] == 0
