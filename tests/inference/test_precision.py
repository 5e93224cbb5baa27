"""Single precision: sums over large graphs keep their digits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hiddenfield.errors import ConvergenceWarning
from hiddenfield.fields import FactorGraph, from_factors, ising_grid
from hiddenfield.inference import infer


@pytest.fixture(scope="module")
def large() -> FactorGraph:
    draw = np.random.default_rng(0)
    return ising_grid(
        200, 500, lambda size: draw.uniform(-0.5, 0.5, size), lambda size: draw.uniform(-0.3, 0.3, size)
    )


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("method", ["loopy_bp", "mean_field", "tree_reweighted"])
def test_log_partition_of_a_large_grid(large: FactorGraph, method: str, backend: str) -> None:
    options = {"max_iterations": 3, "backend": backend}
    options |= {"samples": 3} if method == "tree_reweighted" else {}
    with pytest.warns(ConvergenceWarning):
        exact = infer(large, method, **options)
    with pytest.warns(ConvergenceWarning):
        single = infer(large.to(torch.float32), method, **options)
    np.testing.assert_allclose(single.log_partition, exact.log_partition, rtol=1e-6)


def test_value_of_an_assignment(large: FactorGraph) -> None:
    states = torch.arange(large.num_variables) % 2
    np.testing.assert_allclose(
        large.to(torch.float32).log_value(states), large.log_value(states), rtol=1e-6, atol=1e-2
    )


def test_regions_of_a_large_grid(large: FactorGraph) -> None:
    options = {"max_iterations": 8, "outer_iterations": 0}
    with pytest.warns(ConvergenceWarning):
        exact = infer(large, "generalized_bp", regions="bethe", **options)
    with pytest.warns(ConvergenceWarning):
        single = infer(large.to(torch.float32), "generalized_bp", regions="bethe", **options)
    np.testing.assert_allclose(single.log_partition, exact.log_partition, rtol=1e-6)


@pytest.mark.parametrize("seed", [1, 20])
def test_rounding_of_extreme_messages_does_not_keep_the_double_loop_from_settling(seed: int) -> None:
    generator = np.random.default_rng(seed)
    scopes = [[0, 1], [1, 2], [2, 0], [0, 1], [0], [1], [2]]
    tables = [300 * generator.normal(size=(2,) * len(scope)) for scope in scopes]
    single = infer(from_factors(scopes, tables, dtype=torch.float32), "double_loop", max_iterations=100)
    assert single.status == "converged"
    double = infer(from_factors(scopes, tables), "double_loop")
    np.testing.assert_allclose(single.log_partition, double.log_partition, rtol=1e-5)
