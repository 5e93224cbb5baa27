"""Inference on a GPU: the same results as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hiddenfield.fields import FactorGraph, concatenate_fields, from_factors
from hiddenfield.inference import METHODS, infer, map_state

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

DETERMINISTIC = sorted(set(METHODS) - {"gibbs"})


def draw(seed: int, *, zeros: bool = False) -> FactorGraph:
    """Draw a loopy field of mixed cardinalities and arities."""
    rng = np.random.default_rng(seed)
    cards = [2, 3, 1, 2, 3, 2, 4]
    scopes = [[0, 1], [1, 2], [1, 3], [3, 0], [0], [3], [4, 2], [0, 3], [0, 1, 3], [5, 6], [6, 4]]
    tables = [0.3 * rng.normal(size=[cards[v] for v in scope]) for scope in scopes]
    if zeros:
        tables[0][0, 1] = tables[2][2, 0] = -np.inf
    return from_factors(scopes, tables, cards)


@pytest.mark.parametrize("method", DETERMINISTIC)
def test_agrees_with_the_cpu(method: str) -> None:
    field = concatenate_fields([draw(0), draw(1), draw(2, zeros=method != "mean_field")])
    here = infer(field, method)
    there = infer(field.to("cuda"), method)
    assert there.log_marginals.device.type == "cuda"
    np.testing.assert_allclose(there.log_partition.cpu(), here.log_partition, atol=1e-4)
    np.testing.assert_allclose(there.marginals.cpu(), here.marginals, atol=1e-4)
    for mine, other in zip(there.factor_marginals, here.factor_marginals, strict=True):
        np.testing.assert_allclose(mine.cpu(), other, atol=1e-4)


def test_gibbs_samples_where_the_field_is() -> None:
    posterior = infer(draw(0).to("cuda"), "gibbs", chains=8, sweeps=2000, burn_in=100)
    exact = infer(draw(0), "exact")
    assert posterior.log_marginals.device.type == "cuda"
    np.testing.assert_allclose(posterior.marginals.cpu(), exact.marginals, atol=0.05)


@pytest.mark.parametrize("method", ["exact", "loopy_bp", "tree_reweighted"])
def test_joint_assignments(method: str) -> None:
    here, there = map_state(draw(3), method), map_state(draw(3).to("cuda"), method)
    assert there.assignment.device.type == "cuda"
    np.testing.assert_allclose(there.log_value.cpu(), here.log_value, atol=1e-9)


@pytest.mark.parametrize("method", ["exact", "loopy_bp", "mean_field", "tree_reweighted"])
def test_gradient_is_the_marginals(method: str) -> None:
    field = draw(4).to("cuda")
    unary = field.log_unary.clone().requires_grad_()
    posterior = infer(field.with_potentials(unary, [group.log_tables for group in field.groups]), method)
    posterior.log_partition.sum().backward()
    np.testing.assert_allclose(unary.grad.cpu(), posterior.log_marginals.exp().cpu(), atol=1e-9)
