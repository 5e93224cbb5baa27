"""Loopy belief propagation: exact on trees, and its invariances elsewhere."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from hiddenfield.fields import FactorGraph
from hiddenfield.inference import infer
from tests.fields.strategies import forests
from tests.inference.oracle import enumerate_field


@given(forests(), st.sampled_from([0.0, 0.3]))
def test_exact_on_forests(field: FactorGraph, damping: float) -> None:
    truth = enumerate_field(field)
    posterior = infer(field, "loopy_bp", tolerance=1e-10, damping=damping)
    assert posterior.guarantee == "exact"
    np.testing.assert_allclose(posterior.log_partition, [truth.log_partition], atol=1e-7)
    for variable, marginal in enumerate(truth.marginals):
        np.testing.assert_allclose(posterior.marginals[variable, : len(marginal)], marginal, atol=1e-7)
    for belief, expected in zip(posterior.factor_marginals, truth.factor_marginals, strict=True):
        np.testing.assert_allclose(belief, expected, atol=1e-7)


def test_contradiction_is_log_partition_of_minus_infinity() -> None:
    from hiddenfield.fields import from_factors

    field = from_factors([[0, 1]], [torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]])])
    posterior = infer(field, "loopy_bp", evidence={0: 0, 1: 1})
    assert posterior.log_partition.item() == -torch.inf
