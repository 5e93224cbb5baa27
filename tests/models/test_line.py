"""LINE: draws, the gradient of a step, the optimum of second order, and what a seed determines."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

from hiddenfield.errors import TrainingError
from hiddenfield.models.line import alias_table, draw, fit_line, prefetch, step
from hiddenfield.ops.compile import compiled


def probabilities(table):
    """Return the exact distribution of draws from an alias table."""
    found = table.threshold / len(table.threshold)
    np.add.at(found, table.alias, (1 - table.threshold) / len(table.threshold))
    return found


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40))
def test_alias_tables_hold_the_distribution_exactly(weights):
    weights = np.array(weights)
    np.testing.assert_allclose(
        probabilities(alias_table(weights)), weights / weights.sum(), rtol=1e-9, atol=1e-12
    )


def test_draws_follow_the_weights():
    weights = np.array([1.0, 0.0, 5.0, 2.0])
    table, random = alias_table(weights), np.array([12345], np.uint64)

    @compiled
    def many(table, random, counts):
        for _ in range(100_000):
            counts[draw(table, random, 0)] += 1

    counts = np.zeros(4)
    many(table, random, counts)
    expected = 1e5 * weights / weights.sum()
    assert counts[1] == 0
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected + 1)).all()


@pytest.mark.parametrize(("own", "chosen"), [(-1, [2, 0, 4]), (3, [2, 3, 0])])
def test_a_step_goes_down_the_gradient_of_the_loss(own, chosen):
    generator = np.random.default_rng(0)
    vector = generator.standard_normal(5).astype(np.float32)
    others = generator.standard_normal((6, 5)).astype(np.float32)
    u, c = torch.tensor(vector, requires_grad=True), torch.tensor(others, requires_grad=True)
    used = [node for k, node in enumerate(chosen) if k == 0 or node != own]
    signs = torch.tensor([1.0] + [-1.0] * (len(used) - 1))
    loss = -torch.nn.functional.logsigmoid(signs * (c[used] @ u)).sum()
    loss.backward()
    moved, contexts = vector.copy(), others.copy()
    found = step(moved, contexts, np.array(chosen), own, 1.0, np.empty(5, np.float32))
    assert found == pytest.approx(loss.item(), rel=1e-5)
    np.testing.assert_allclose(vector - moved, u.grad.numpy(), atol=1e-6)
    np.testing.assert_allclose(others - contexts, c.grad.numpy(), atol=1e-6)


def test_second_order_finds_the_optimum_of_negative_sampling():
    r"""With enough dimensions :math:`u_j'^\top u_i = \log(w_{ij} / (K d_i P_n(j)))` (Levy and Goldberg 2014)."""
    generator = np.random.default_rng(1)
    weights = np.triu(generator.uniform(1, 4, (6, 6)), 1)
    weights += weights.T + np.diag(generator.uniform(1, 4, 6))
    learned = fit_line(csr_array(weights), 8, (2,), negative=2, samples=3_000_000, learning_rate=0.05)
    degree = weights.sum(axis=1)
    noise = (weights.sum(axis=0) + degree) ** 0.75
    expected = np.log(weights / (2 * degree[:, None] * noise / noise.sum()))
    np.testing.assert_allclose(learned.nodes[2] @ learned.contexts.T, expected, atol=0.06)


@pytest.fixture(scope="module")
def groups():
    """Return a network of three planted groups of 30 nodes, and the group of each node."""
    group = np.repeat(np.arange(3), 30)
    generator = np.random.default_rng(0)
    chance = np.where(group[:, None] == group, 0.4, 0.02)
    upper = np.triu(generator.random(chance.shape) < chance, 1)
    return csr_array((upper | upper.T).astype(float)), group


@pytest.mark.parametrize("orders", [(1,), (2,), (1, 2)])
def test_planted_groups_are_recovered(groups, orders):
    adjacency, group = groups
    learned = fit_line(adjacency, 8, orders, samples=200_000)
    found = learned.joined()
    np.testing.assert_allclose((found**2).sum(axis=1), len(orders), rtol=1e-5)
    near = found @ found.T
    np.fill_diagonal(near, -np.inf)
    assert (group[near.argmax(axis=1)] == group).mean() > 0.95
    assert all(loss[-1] < 0.97 * 6 * np.log(2) for loss in learned.losses.values())  # where it starts


def test_the_seed_determines_the_result_for_any_number_of_threads(groups):
    adjacency, _ = groups
    threads = torch.get_num_threads()
    found = []
    try:
        for number, seed in ((1, 3), (2, 3), (1, 4)):
            torch.set_num_threads(number)
            found.append(fit_line(adjacency, 8, samples=40_000, seed=seed).joined())
    finally:
        torch.set_num_threads(threads)
    assert np.array_equal(found[0], found[1])
    assert not np.allclose(found[0], found[2])


def test_the_rate_falls_over_all_calls_and_not_within_each(groups, monkeypatch):
    whole = fit_line(groups[0], 4, (1,), samples=4096)
    monkeypatch.setattr("hiddenfield.models.line.CALL", 1024)
    parts = fit_line(groups[0], 4, (1,), samples=4096)
    assert len(parts.losses[1]) == 4
    np.testing.assert_allclose(parts.joined(), whole.joined(), atol=1e-4)


def test_a_rate_that_diverges_is_named(groups):
    with (
        np.errstate(all="ignore"),
        pytest.raises(
            TrainingError, match="LINE diverged: vectors are not finite; take a learning_rate below 1e"
        ),
    ):
        fit_line(groups[0], 4, (1,), samples=20_000, learning_rate=1e30)


def test_prefetching_changes_nothing():
    @compiled
    def walk(table, out):
        for row in range(len(table)):
            prefetch(table, row, 0)
            out[row] = table[row, 1]

    table, out = np.arange(12.0).reshape(4, 3), np.empty(4)
    walk(table, out)
    assert out.tolist() == table[:, 1].tolist()
    walk.function(table, out)
