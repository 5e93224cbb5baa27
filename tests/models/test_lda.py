"""Latent Dirichlet allocation against enumeration of the topics of all tokens."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import optimize
from scipy.special import digamma, gammaln, logsumexp

from hiddenfield.data import as_documents
from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.learning.em import Fill, fit_em
from hiddenfield.learning.shards import Shards
from hiddenfield.models.lda import RATE, TopicModel, dirichlet_mode


def corpus(documents=30, words=12, topics=3, length=20, seed=0):
    random = np.random.default_rng(seed)
    law = random.dirichlet(np.full(words, 0.2), topics)
    shares = random.dirichlet(np.full(topics, 0.3), documents)
    return as_documents(random.multinomial(length, shares @ law).astype(float))


def log_dirichlet(prior):
    return gammaln(prior).sum() - gammaln(prior.sum())


def exact(tokens, law, prior):
    """Return log p(w) of one document by summing over the topics of its tokens, and their expected counts."""
    scores, counts = [], []
    for topics in itertools.product(range(len(prior)), repeat=len(tokens)):
        own = np.bincount(topics, minlength=len(prior))
        score = sum(np.log(law[k, w]) for k, w in zip(topics, tokens, strict=True))
        scores.append(score + log_dirichlet(prior + own) - log_dirichlet(prior))
        counts.append(own)
    total = logsumexp(scores)
    return total, np.exp(np.array(scores) - total) @ np.array(counts)


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 3), min_size=0, max_size=5),
    st.integers(0, 1000),
    st.sampled_from([0.05, 0.5, 50.0]),
)
def test_the_bound_is_one_and_is_near(tokens, seed, size):
    random = np.random.default_rng(seed)
    law, prior = random.dirichlet(np.ones(4), 2), size * random.uniform(0.5, 1.5, 2)
    data = as_documents(np.bincount(tokens, minlength=4)[None].astype(float))
    model, given_ = TopicModel(2, 4, 0.1, 0.1), {"topics": law, "concentration": prior}
    bound, (value, counts) = model.log_likelihood(data, given_)[0], exact(tokens, law, prior)
    assert bound <= value + 1e-9
    if size == 50.0:  # shares are all but known
        assert bound == pytest.approx(value, abs=0.05)
        shares = (counts + prior) / (len(tokens) + prior.sum())
        np.testing.assert_allclose(model.infer(data, given_)[0], shares, atol=0.01)


def test_the_bound_is_the_textbooks():
    data = corpus(documents=4)
    model = replace(TopicModel(3, 12, 0.1, 0.4), tolerance=1e-12)
    law = np.random.default_rng(1).dirichlet(np.ones(12), 3)
    prior = np.array([0.3, 0.5, 0.9])
    bounds = model.log_likelihood(data, {"topics": law, "concentration": prior})
    for row, bound in zip(data.counts.toarray(), bounds, strict=True):
        gamma = prior + row.sum() / 3
        for _ in range(2000):
            logs = digamma(gamma) - digamma(gamma.sum())
            joint = law * np.exp(logs)[:, None]
            shares = joint / joint.sum(axis=0)
            gamma = prior + shares @ row
        logs = digamma(gamma) - digamma(gamma.sum())
        value = (row * (shares * (np.log(law) + logs[:, None] - np.log(shares))).sum(axis=0)).sum()
        value += (prior - gamma) @ logs + log_dirichlet(gamma) - log_dirichlet(prior)
        assert bound == pytest.approx(value, abs=1e-6)


def test_draws_have_the_posterior_of_the_topics_of_all_tokens():
    data = as_documents(np.array([[2.0, 1.0], [0.0, 2.0]]))
    prior, smoothing = np.array([0.4, 0.9]), 0.3
    model = TopicModel(2, 2, smoothing, 0.4, learned=False, collapsed=True)
    (ptr, document), scores = data.tokens, {}
    word = np.repeat([0, 1], np.diff(ptr))
    for topics in itertools.product(range(2), repeat=5):
        counts = np.zeros((2, 2))
        np.add.at(counts, (list(topics), word), 1)
        own = np.zeros((2, 2))
        np.add.at(own, (document, list(topics)), 1)
        value = sum(log_dirichlet(row + smoothing) - log_dirichlet(np.full(2, smoothing)) for row in counts)
        scores[topics] = value + sum(log_dirichlet(row + prior) - log_dirichlet(prior) for row in own)
    total = logsumexp(list(scores.values()))
    random, seen = np.random.default_rng(0), dict.fromkeys(scores, 0)
    now = {"topics": np.full((2, 2), 0.5), "concentration": prior}
    rounds = 6000
    for _ in range(rounds):
        found = model.expected_statistics(data, now, Fill("sample", random))
        state = tuple(found["tokens"].tolist())
        seen[state] += 1
        assert float(found["objective"]) == pytest.approx(scores[state], abs=1e-9)
        np.testing.assert_array_equal(found["topics"].sum(axis=1), np.bincount(state, minlength=2))
        now = model.draw(model.posterior(found), random)
    for topics, count in seen.items():
        assert count / rounds == pytest.approx(np.exp(scores[topics] - total), abs=0.025)


@pytest.mark.parametrize("fill", ["variational", "expectation"])
@pytest.mark.parametrize("start", ["documents", "random"])
def test_bounds_climb_and_runs_repeat(fill, start):
    data, model = corpus(), TopicModel(3, 12, 0.2, 0.3)
    options = {"fill": fill, "start": start, "max_iterations": 40, "tolerance": 1e-9}
    with pytest.warns(UserWarning, match="not converged"):
        found = fit_em(model, data, **options)
    assert (np.diff(found.best.trace) > -1e-9).all()
    with pytest.warns(UserWarning, match="not converged"):
        again = fit_em(model, data, **options)
    np.testing.assert_array_equal(found.parameters["topics"], again.parameters["topics"])
    assert set(found.parameters) == {"topics", "concentration"}
    np.testing.assert_allclose(found.parameters["topics"].sum(axis=1), 1)


def test_the_evidence_bound_has_the_divergence_of_the_topics():
    model = TopicModel(2, 5, 0.3, 0.3)
    mass = np.random.default_rng(0).gamma(2.0, size=(2, 5))
    part = model.parts[0]
    value = 0.0
    for row in mass:
        value += (row - 0.3) @ (digamma(row) - digamma(row.sum())) - log_dirichlet(row)
        value += log_dirichlet(np.full(5, 0.3))
    assert part.divergence({"topics": mass}) == pytest.approx(value)
    np.testing.assert_allclose(
        part.plug_in({"topics": mass})["topics"],
        np.exp(digamma(mass) - digamma(mass.sum(axis=1, keepdims=True))),
    )
    back = model.from_vector(
        model.as_vector({"topics": mass, "concentration": np.ones(2)}),
        {"topics": mass, "concentration": np.ones(2)},
    )
    np.testing.assert_allclose(back["topics"], mass / mass.sum(axis=1, keepdims=True))


@settings(max_examples=15)
@given(st.integers(1, 4), st.integers(1, 300), st.integers(0, 1000))
def test_concentrations_are_the_most_likely(topics, count, seed):
    random = np.random.default_rng(seed)
    shares = np.maximum(random.dirichlet(random.uniform(0.05, 2, topics + 1), count), 1e-50)
    logs = np.log(shares).mean(axis=0)

    def loss(vector):
        a = np.exp(vector)
        return -(count * (-log_dirichlet(a) + a @ logs) - RATE * a.sum())

    found = dirichlet_mode(logs, count, np.ones(topics + 1))
    peer = optimize.minimize(loss, np.zeros(topics + 1), method="BFGS")
    assert loss(np.log(found)) <= peer.fun + 1e-5 * (1 + abs(peer.fun))


def test_slopes_are_those_of_the_bound():
    model = replace(TopicModel(2, 4, 0.2, 0.3, whole=False), tolerance=1e-13)
    data, random = corpus(documents=6, words=4, topics=2, length=8), np.random.default_rng(2)
    parameters = {"topics": random.dirichlet(np.ones(4), 2), "concentration": np.array([0.7, 1.5])}
    at = model.as_vector(parameters)

    def objective(vector):
        moved = model.from_vector(vector, parameters)
        return model.log_likelihood(data, moved).sum() + model.log_prior(moved)

    slope = model.gradient(model.expected_statistics(data, parameters, Fill()), parameters)
    for i, row in enumerate(1e-5 * np.eye(len(at))):
        assert slope[i] == pytest.approx((objective(at + row) - objective(at - row)) / 2e-5, abs=1e-4)


def test_shards_and_batches_find_what_passes_find():
    data = corpus(documents=200)
    options = {"fill": "variational", "max_iterations": 30, "tolerance": 1e-7}
    model = TopicModel(3, 12, 0.2, 0.3, whole=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole = fit_em(TopicModel(3, 12, 0.2, 0.3), data, **options)
        parts = fit_em(model, Shards([data[:90], data[90:]]), start=whole.parameters, **options)
        batches = fit_em(model, data, batch_size=20, **options)
    for each in (parts, batches):
        assert each.best.objective > whole.best.objective - 0.01 * abs(whole.best.objective)
        assert each.parameters["concentration"].shape == (3,)
    with pytest.raises(InputError, match="fill='gibbs' needs whole numbers"):
        fit_em(replace(model, whole=True, collapsed=True), as_documents(np.full((2, 12), 0.5)), fill="gibbs")
