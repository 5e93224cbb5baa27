"""Relaxed inference: exact without cuts, belief propagation with all of them, and in between."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hiddenfield.fields import concatenate_fields, from_factors, ising_grid
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.elimination_order import split_variables
from hiddenfield.inference import infer, relaxed
from hiddenfield.limits import OutOfTimeError, time_limit
from tests.inference.oracle import enumerate_field


def grid(seed: int, side: int = 5, strength: float = 0.6) -> FactorGraph:
    draw = np.random.default_rng(seed)
    return ising_grid(
        side, side, lambda size: draw.normal(0, strength, size), lambda size: draw.normal(0, 0.3, size)
    )


def test_all_variables_cut_is_belief_propagation() -> None:
    field = grid(0)
    cut, plain = relaxed(field, log2_states=2, tolerance=1e-9), infer(field, "loopy_bp", tolerance=1e-9)
    assert cut.status == plain.status == "converged"
    torch.testing.assert_close(cut.marginals, plain.marginals, atol=1e-6, rtol=0)
    torch.testing.assert_close(cut.log_partition, plain.log_partition, atol=1e-6, rtol=0)


def test_larger_cliques_are_more_accurate_until_nothing_is_cut() -> None:
    field = grid(1, strength=0.4)
    truth = infer(field, "exact")
    errors = [
        float((relaxed(field, log2_states=bits).marginals - truth.marginals).abs().max())
        for bits in (2, 4, 5, 8)
    ]
    assert errors[0] > errors[1] > errors[3] == 0.0
    assert relaxed(field, log2_states=8).guarantee == "exact"


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), bits=st.sampled_from([2.0, 3.0, 4.0]))
def test_cuts_keep_every_factor_and_the_bound(seed: int, bits: float) -> None:
    draw = np.random.default_rng(seed)
    scopes = [draw.choice(8, size=2, replace=False).tolist() for _ in range(14)]
    order = draw.permutation(8).tolist()
    split = split_variables(scopes, np.full(8, 2), order, bits)
    whole = [*range(8), *split.original.tolist()]
    assert [[whole[v] for v in scope] for scope in split.scopes] == scopes
    assert split.order.log2_largest <= bits
    assert sorted(split.order.order.tolist()) == list(range(len(whole)))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_states_that_hard_zeros_forbid_stay_forbidden(seed: int) -> None:
    draw = np.random.default_rng(seed)
    tables = [np.where(draw.random((3, 3)) < 0.25, -math.inf, draw.normal(size=(3, 3))) for _ in range(8)]
    scopes = [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2], [1, 3], [3, 4], [4, 0]]
    field = from_factors(scopes, tables)
    truth = enumerate_field(field)
    posterior = relaxed(field, log2_states=3.2)
    if truth.log_partition == -math.inf:
        return
    for variable, marginal in enumerate(truth.marginals):
        found = posterior.marginals[variable, : len(marginal)].numpy()
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found.sum(), 1.0, atol=1e-6)


def test_graphs_of_a_batch_are_solved_as_if_alone() -> None:
    fields = [grid(2), grid(3, side=4), grid(4)]
    together = relaxed(concatenate_fields(fields), log2_states=4, tolerance=1e-8)
    alone = [relaxed(field, log2_states=4, tolerance=1e-8) for field in fields]
    torch.testing.assert_close(
        together.log_partition, torch.cat([each.log_partition for each in alone]), atol=0.2, rtol=0
    )
    torch.testing.assert_close(together.marginals[:25], alone[0].marginals, atol=0.05, rtol=0)


def test_a_time_limit_ends_it_with_what_there_is() -> None:
    field = grid(5, side=14, strength=2.0)
    with time_limit(0.5):
        posterior = relaxed(field, log2_states=12, tolerance=1e-14, max_iterations=100_000)
    assert not bool(posterior.converged.all())
    assert "time limit" in posterior.status or "not converged" in posterior.status
    np.testing.assert_allclose(posterior.marginals.sum(1), 1.0, atol=1e-6)
    with time_limit(0.0), pytest.raises(OutOfTimeError):
        relaxed(grid(5, side=24), log2_states=20)
