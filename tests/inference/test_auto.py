"""The default: exact where that fits, the best in the time elsewhere, and a word on which it was."""

from __future__ import annotations

import dataclasses
import re
import sys
import time

import networkx as nx
import numpy as np
import pytest
import torch

import hiddenfield as hf
from hiddenfield import limits
from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.fields import from_factors, ising_grid, read


def test_the_sprinkler_has_its_exact_answer_by_default() -> None:
    rain = read("docs/examples/sprinkler.bif")
    posterior = hf.infer(rain, evidence={"grass": "wet"})
    assert posterior.method == posterior.guarantee == "exact"
    assert float(posterior.marginals[rain.variable_names.index("rain"), 1]) == pytest.approx(0.708, abs=5e-4)
    assert "exact inference fits" in posterior.note


def test_all_defaults_agree() -> None:
    field = ising_grid(4, 4, 0.7, 0.1)
    posterior = hf.infer(field)
    assert float(hf.inference.log_partition(field)) == float(posterior.log_partition)
    state = hf.inference.map_state(field)
    expected = float(field.log_value(state.assignment) - posterior.log_partition)
    assert float(hf.inference.log_likelihood(field, state.assignment)) == pytest.approx(expected)


def hard(side: int, seed: int = 0) -> hf.fields.FactorGraph:
    draw = np.random.default_rng(seed)
    return ising_grid(
        side, side, lambda size: draw.normal(0, 0.5, size), lambda size: draw.normal(0, 0.3, size)
    )


def test_a_grid_that_is_too_wide_is_covered_by_its_faces() -> None:
    posterior = hf.infer(hard(40), time_limit=20.0)
    assert posterior.method == "generalized_bp"
    assert posterior.status == "converged"
    assert "regions of short cycles" in posterior.note


def tangled(variables: int, seed: int = 0) -> hf.fields.FactorGraph:
    """A field on a random regular graph: wide, and without short cycles."""
    draw = np.random.default_rng(seed)
    scopes = [list(edge) for edge in nx.random_regular_graph(5, variables, seed=seed).edges]
    return from_factors(scopes, [draw.normal(0, 0.5, (2, 2)) for _ in scopes])


@pytest.mark.filterwarnings("ignore::hiddenfield.errors.ConvergenceWarning")
def test_what_is_too_wide_is_relaxed_within_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit is on what this process works, so that others on the machine take none of it.
    clock = time.process_time
    monkeypatch.setattr(limits, "_clock", clock)
    hf.infer(tangled(12), "relaxed", log2_states=4)  # compiles
    start = clock()
    posterior = hf.infer(tangled(200), time_limit=3.0)
    assert clock() - start < 10.0  # a limit that is honoured, not a speed
    assert posterior.method == "relaxed"
    assert posterior.guarantee == "estimate"
    assert "exact inference" in posterior.note
    assert "copies of variables" in posterior.note


def test_a_field_that_just_fits_some_time_is_better_with_more() -> None:
    field = hard(16, seed=3)
    truth = hf.infer(field, "exact")
    close = hf.infer(field, "relaxed", log2_states=12)
    far = hf.infer(field, "loopy_bp")
    assert float((close.marginals - truth.marginals).abs().mean()) < float(
        (far.marginals - truth.marginals).abs().mean()
    )


def test_counts_go_to_belief_propagation() -> None:
    field = from_factors([[0, 1]], [np.log([[2.0, 1.0], [1.0, 2.0]])])
    lifted = type(field)(
        field.cardinalities,
        field.log_unary,
        field.groups,
        field.variable_ptr,
        3 * field.counts,
        field.log_constant,
    )
    posterior = hf.infer(lifted)
    assert posterior.method == "loopy_bp"
    assert "stand for several" in posterior.note


def test_a_time_limit_is_a_number_of_seconds() -> None:
    with pytest.raises(InputError, match="time_limit is a number of seconds above 0, got 0"):
        hf.infer(hard(3), time_limit=0.0)


@pytest.mark.filterwarnings("ignore::hiddenfield.errors.ConvergenceWarning")
def test_a_short_limit_still_has_an_answer() -> None:
    posterior = hf.infer(hard(60), time_limit=0.05)
    np.testing.assert_allclose(posterior.marginals.sum(1), 1.0, atol=1e-6)
    assert posterior.note


def test_a_double_loop_that_is_out_of_time_leaves_the_answer_of_the_single_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(field: hf.fields.FactorGraph) -> None:
        raise limits.OutOfTimeError("the time limit is over")

    module = sys.modules["hiddenfield.inference.auto"]
    monkeypatch.setattr(module, "double_loop", late)
    monkeypatch.setattr(module, "SEEKING", np.inf)  # no regions
    monkeypatch.setattr(module, "MOST_PORTS", 0)  # and no cuts
    draw = np.random.default_rng(0)
    with pytest.warns(ConvergenceWarning, match="loopy_bp: not converged"):
        posterior = hf.infer(ising_grid(20, 20, lambda size: draw.normal(0, 3, size), 0.1), memory_limit=1e5)
    assert posterior.method == "loopy_bp"


def test_the_note_of_an_estimate_says_what_it_is_worth() -> None:
    field = hard(11)
    posterior, truth = hf.infer(field, memory_limit=2e3), hf.infer(field, "exact").log_partition
    assert posterior.method == "generalized_bp"
    found = re.search(
        r"log Z is at least (\S+) by mean_field; log Z is at most (\S+) by tree", posterior.note
    )
    assert found is not None
    assert float(found[1]) < float(truth) < float(found[2])
    assert "belief propagation differs: marginals by up to" in posterior.note
    posterior = hf.infer(tangled(12), memory_limit=10.0)
    assert posterior.method == "loopy_bp"
    assert "nothing tells how far its marginals are off" in posterior.note


def test_an_estimate_beyond_a_bound_is_moved_to_it() -> None:
    field = hard(5)
    judged = sys.modules["hiddenfield.inference.auto"]._judged
    for method, sign in (("mean_field", -1), ("tree_reweighted", 1)):
        bound = hf.infer(field, method).log_partition
        loopy = hf.infer(field, "loopy_bp")
        posterior = judged(dataclasses.replace(loopy, log_partition=bound + sign), None)
        torch.testing.assert_close(posterior.log_partition, bound)
        assert f"by {method} (the estimate was beyond)" in posterior.note


def test_unrolled_marginals_carry_gradients_by_default() -> None:
    field = hard(3)
    unary = field.log_unary.clone().requires_grad_()
    own = field.with_potentials(unary, [group.log_tables for group in field.groups])
    hf.infer(own, unroll=True).marginals[0, 1].backward()
    assert float(unary.grad.abs().sum()) > 0
    assert bool(torch.isfinite(unary.grad).all())
