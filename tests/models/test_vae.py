"""Variational autoencoders against quadrature over one latent number."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.special import logsumexp

from hiddenfield.data.rows import Rows
from hiddenfield.models.vae import LearnedAutoencoder


def autoencoder(kinds, **options):
    width = len(kinds)
    return LearnedAutoencoder(tuple(kinds), np.zeros(width), np.full(width, 1.0), 1, (4,), **options)


def log_likelihoods(model, parameters, values):
    """Return log p(x) of rows by Gauss-Hermite quadrature over z, column by column."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    network = model.network(parameters)
    with torch.no_grad():
        outputs = network.decoder(torch.tensor(nodes[:, None], dtype=torch.float32)).double().numpy()
        precision = network.log_precision.double().exp().numpy()
    owner, number, found = model.visible.owner.numpy(), 0, np.zeros((len(values), len(nodes)))
    for column, states in enumerate(model.states):
        own, known = outputs[:, owner == column], ~np.isnan(values[:, column])
        cell = np.where(known, values[:, column], 0)[:, None]
        if states == 0:
            p, number = precision[number], number + 1
            part = -p / 2 * (cell - own[:, 0]) ** 2 + np.log(p / (2 * np.pi)) / 2
        else:
            logits = np.column_stack([np.zeros(len(nodes)), own])
            part = (logits - logsumexp(logits, axis=1, keepdims=True)).T[cell[:, 0].astype(int)]
        found += part * known[:, None]
    return logsumexp(found, b=weights / np.sqrt(2 * np.pi), axis=1)


@settings(max_examples=10)
@given(st.lists(st.sampled_from([0, 2, 3]), min_size=1, max_size=3), st.integers(0, 100))
def test_bounds_lie_below_the_likelihood_and_draws_reach_it(kinds, seed):
    random, torch_random = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    cells = [random.normal(size=4) if count == 0 else random.integers(count, size=4) for count in kinds]
    values = np.column_stack(cells).astype(float)
    values[random.random(values.shape) < 0.3] = np.nan
    model = autoencoder(kinds, draws=4000)
    parameters = {name: value.numpy() for name, value in model.network(seed=seed).state_dict().items()}
    parameters["log_precision"] = np.zeros(kinds.count(0), np.float32)
    exact = log_likelihoods(model, parameters, values)
    # Draws from the prior have weights of finite variance, whatever the decoder is.
    prior = {name: value * (not name.startswith("encoder")) for name, value in parameters.items()}
    np.testing.assert_allclose(model.log_likelihood(Rows(values), prior), exact, atol=0.1)
    network, (units, known) = model.network(parameters), model.encode(values)
    before = np.full(4, -np.inf)
    for samples in (1, 20):
        own = autoencoder(kinds, samples=samples)
        with torch.no_grad():
            bounds = [
                own.bound(network, units.float(), known.float(), torch_random).numpy() for _ in range(300)
            ]
        mean = np.mean(bounds, axis=0)
        assert (mean <= exact + 0.05).all()
        assert (mean >= before - 0.05).all()
        before = mean


def test_a_larger_beta_leaves_less_to_the_latent_number():
    random = np.random.default_rng(0)
    values = random.normal(size=(200, 1)) + 0.2 * random.normal(size=(200, 2))
    spent = []
    for beta in (1.0, 8.0):
        model = autoencoder((0, 0), beta=beta, seed=1)
        found = model.fit(Rows(values), passes=60, batch=50, learning_rate=0.02, after=lambda _: None)
        units, known = model.encode(values)
        network = model.network(found)
        noise = torch.zeros(1, 1, 1)
        spent.append(float(model.weigh(network, units.float(), known.float(), noise)[3].mean().detach()))
    assert spent[1] < 0.7 * spent[0]
    again = model.fit(Rows(values), passes=60, batch=50, learning_rate=0.02, after=lambda _: None)
    assert all(np.array_equal(again[name], found[name]) for name in found)


@pytest.mark.parametrize("kinds", [(0, 0), (2, 3)])
def test_draws_and_filled_cells_are_those_of_the_network(kinds):
    model = autoencoder(kinds, draws=2000)
    parameters = {name: value.numpy() for name, value in model.network(seed=3).state_dict().items()}
    nothing = Rows(np.full((1, 2), np.nan))
    assert model.log_likelihood(nothing, parameters)[0] == pytest.approx(0, abs=1e-6)
    drawn, hidden = model.sample(3000, parameters, np.random.default_rng(0))
    assert hidden.shape == (3000, 1)
    filled = model.sample_missing(Rows(np.full((3000, 2), np.nan)), parameters, np.random.default_rng(1))
    if kinds[0] == 0:
        np.testing.assert_allclose(filled.mean(axis=0), drawn.mean(axis=0), atol=0.05)
        np.testing.assert_allclose(model.impute(nothing, parameters)[0], drawn.mean(axis=0), atol=0.05)
    else:
        assert (filled[:, 1] == 2).mean() == pytest.approx((drawn[:, 1] == 2).mean(), abs=0.05)
