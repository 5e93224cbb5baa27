"""Restricted Boltzmann machines against enumeration."""

from __future__ import annotations

import itertools

import pytest
import torch

from hiddenfield.models.rbm import BernoulliRBM, contrastive_divergence, fit_rbm


def states(count):
    return torch.tensor(list(itertools.product([0.0, 1.0], repeat=count)))


@pytest.fixture
def rbm():
    """Return the machine of the lecture: two hidden and five visible variables."""
    generator = torch.Generator().manual_seed(0)
    return BernoulliRBM(*(torch.randn(shape, generator=generator) for shape in ((2, 5), (2,), (5,))))


def scores(rbm):
    """Return -E(h, v), a row for each v and a column for each h."""
    v, h = states(5), states(2)
    return (h @ rbm.hidden_bias)[None] + (v @ rbm.visible_bias)[:, None] + v @ rbm.weights.T @ h.T


def test_conditionals_and_free_energy_equal_enumeration(rbm):
    joint = scores(rbm)
    torch.testing.assert_close(rbm.free_energy(states(5)), -joint.logsumexp(dim=1))
    torch.testing.assert_close(rbm.hidden_given(states(5)), joint.softmax(dim=1) @ states(2))
    torch.testing.assert_close(rbm.visible_given(states(2)), joint.softmax(dim=0).T @ states(5))


def test_long_chains_give_the_gradient_of_the_likelihood(rbm):
    rows = states(5)[[3, 8, 8, 20]]
    parts = [part.clone().requires_grad_() for part in (rbm.weights, rbm.hidden_bias, rbm.visible_bias)]
    tracked = BernoulliRBM(*parts)
    (-tracked.free_energy(rows).mean() - (-tracked.free_energy(states(5))).logsumexp(dim=0)).backward()
    many = rows.repeat(10_000, 1)
    found = contrastive_divergence(rbm, many, 30, generator=torch.Generator().manual_seed(1))
    for estimate, part in zip(found, parts, strict=True):
        torch.testing.assert_close(estimate, part.grad, atol=0.02, rtol=0)


def test_learning_raises_the_likelihood_and_repeats():
    rows = torch.tensor([[1.0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]).repeat(20, 1)

    def fitted(epochs):
        generator = torch.Generator().manual_seed(0)
        return fit_rbm(lambda: [rows], 6, 3, epochs=epochs, steps=2, learning_rate=0.05, generator=generator)

    def likelihood(rbm):
        return float(-rbm.free_energy(rows).mean() - (-rbm.free_energy(states(6))).logsumexp(dim=0))

    assert likelihood(fitted(0)) < -3.0
    assert likelihood(fitted(200)) > -1.0  # the rows' own entropy is log 2
    assert torch.equal(fitted(5).weights, fitted(5).weights)
