"""Template-level evaluation: equal to ground propagation at every iteration, gradients, phases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hiddenfield.fields.relational import graph_scheme, ground, ground_variables, template
from hiddenfield.inference import infer
from hiddenfield.inference.loopy_bp import loopy_bp
from hiddenfield.models.relational import enumerate_networks, evaluate
from hiddenfield.models.relational.phases import fixed_points
from tests.fields.relational.strategies import schemes

BINDINGS = st.sampled_from(["merged", "ordered", "cluster"])
WEIGHTS = st.sampled_from(["ground", "binding"])


@settings(max_examples=20)
@given(
    scheme=schemes(),
    size=st.integers(3, 5),
    seed=st.integers(0, 1000),
    bindings=BINDINGS,
    weights=WEIGHTS,
    damping=st.sampled_from([0.0, 0.4]),
)
def test_template_is_ground_at_every_iteration(
    scheme: Any, size: int, seed: int, bindings: str, weights: str, damping: float
) -> None:
    theta = np.random.default_rng(seed).normal(scale=0.3, size=len(scheme.features))
    options: dict[str, Any] = {"bindings": bindings, "weights": weights}
    small, large = (build(scheme, size, theta, **options) for build in (template, ground))
    owners = np.repeat(
        np.arange(len(scheme.attributes)), [len(rows) for rows in ground_variables(scheme, size).values()]
    )
    if large.is_forest:
        damping = (
            0.0  # messages of a forest are never damped, and a template does not know that it stands for one
        )
    for iterations in (1, 2, 4):
        results = [
            loopy_bp(field, max_iterations=iterations, tolerance=1e-300, damping=damping, backend="torch")
            for field in (small, large)
        ]
        np.testing.assert_allclose(results[0].marginals[owners], results[1].marginals, atol=1e-9)
        np.testing.assert_allclose(results[0].log_partition, results[1].log_partition, rtol=1e-9, atol=1e-7)


@settings(max_examples=8)
@given(
    scheme=schemes(), size=st.integers(3, 12), seed=st.integers(0, 1000), bindings=BINDINGS, weights=WEIGHTS
)
def test_expected_counts_are_the_gradient(
    scheme: Any, size: int, seed: int, bindings: str, weights: str
) -> None:
    generator = np.random.default_rng(seed)
    count = len(scheme.features)
    theta = generator.normal(scale=0.3, size=count) / size
    options: dict[str, Any] = {"bindings": bindings, "weights": weights, "tolerance": 1e-12}
    middle = evaluate(scheme, size, theta, **options)
    step = 1e-5 / size
    moved = evaluate(scheme, size, theta + step * np.concatenate([np.eye(count), -np.eye(count)]), **options)
    if int(middle.phases[0]) != 1 or not bool(moved.converged.all()):
        return
    slope = (moved.log_partition[:count] - moved.log_partition[count:]) / (2 * step)
    np.testing.assert_allclose(middle.expected[0], slope, rtol=2e-4, atol=1e-3)


def test_edges_alone_are_exact() -> None:
    result = evaluate(graph_scheme("edge"), 1000, [[-5.0], [0.0], [3.0]])
    pairs = math.comb(1000, 2)
    logit = torch.tensor([-5.0, 0.0, 3.0]).double()
    np.testing.assert_allclose(result.log_partition, pairs * torch.nn.functional.softplus(logit))
    np.testing.assert_allclose(result.expected[:, 0], pairs * torch.sigmoid(logit))
    assert result.phases.tolist() == [1, 1, 1]
    assert bool(result.converged.all())


def test_a_batch_is_its_settings_one_by_one() -> None:
    scheme = graph_scheme("edge", "triangle")
    theta = np.array([[-1.0, 0.1], [-2.0, 0.2], [0.5, -0.4], [-3.0, 1.0]])
    together = evaluate(scheme, 20, theta)
    for place, row in enumerate(theta):
        alone = evaluate(scheme, 20, row)
        np.testing.assert_allclose(together.log_partition[place], alone.log_partition[0], rtol=1e-9)
        np.testing.assert_allclose(together.expected[place], alone.expected[0], rtol=1e-6, atol=1e-8)
        assert together.phases[place] == alone.phases[0]


def test_two_phases_are_told_and_the_better_one_is_kept() -> None:
    scheme = graph_scheme("edge", "triangle")
    result = evaluate(scheme, 30, [[-2.0, 0.2]])
    points = fixed_points(template(scheme, 30, [-2.0, 0.2]))
    stable = sorted(float(p.posterior.marginals[0, 1]) for p in points if p.stable)
    assert stable == pytest.approx([0.131, 0.956], abs=2e-3)
    assert result.phases.tolist() == [2]
    assert result.log_partition.item() == pytest.approx(points[0].log_partition, rel=1e-8)


@pytest.mark.parametrize("bindings", ["merged", "cluster"])
def test_close_to_exact_where_weights_are_small(bindings: str) -> None:
    scheme = graph_scheme("edge", "triangle")
    theta = [[-1.0, 0.1], [-0.5, -0.1]]
    found = evaluate(scheme, 7, theta, bindings=bindings)
    exact = enumerate_networks(scheme, 7)
    np.testing.assert_allclose(found.log_partition, exact.log_partition(theta), atol=0.02)
    np.testing.assert_allclose(found.expected, exact.expectations(theta), rtol=0.05)


def test_weights_per_binding_are_larger_by_the_symmetries() -> None:
    scheme = graph_scheme("edge", "triangle")
    ground_weights = evaluate(scheme, 12, [[-2.0, 0.6]])
    binding = evaluate(scheme, 12, [[-1.0, 0.1]], weights="binding")
    np.testing.assert_allclose(ground_weights.log_partition, binding.log_partition, rtol=1e-9)
    np.testing.assert_allclose(
        binding.expected, ground_weights.expected * torch.tensor([2.0, 6.0]), rtol=1e-6
    )


def test_the_paper_s_weights_settle_with_damping() -> None:
    """Strongly negative weights of abundant features make messages overshoot."""
    result = evaluate(graph_scheme("edge", "open_chain"), 500, [[-3.0, -0.5]])
    assert bool(result.converged.all())
    field = template(graph_scheme("edge", "open_chain"), 500, [-3.0, -0.5])
    posterior = infer(field, "loopy_bp", damping=0.97, tolerance=1e-9, max_iterations=5000)
    assert result.marginals[0, 0, 1].item() == pytest.approx(posterior.marginals[0, 1].item(), rel=1e-4)
