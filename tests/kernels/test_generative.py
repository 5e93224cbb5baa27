"""Kernels of generative models: scores against finite differences, integrals against enumeration."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.estimators import GaussianMixture, HiddenMarkovModel
from hiddenfield.kernels import Fisher, FisherField, PairwiseField, ProbabilityProduct, ProbabilityProductHMM
from tests.data.strategies import built

WORDS = st.lists(st.text("ABC", max_size=6), min_size=1, max_size=4)
FEW = settings(max_examples=15)


def gradient(function, at, step=1e-5):
    return np.array(
        [(function(at + row) - function(at - row)) / (2 * step) for row in step * np.eye(len(at))]
    ).T


@FEW
@given(WORDS, st.integers(1, 3))
def test_scores_of_hidden_markov_models(words, num_states):
    pack = built(hf.data.from_sequences, words)
    kernel = Fisher(num_states=num_states).fit(pack)
    pooled, _ = kernel.columns_[0]
    if pooled is None:
        return
    model, data = pooled.model, pooled.read(pack)
    expected = gradient(
        lambda at: model.log_likelihood(data, model.from_vector(at, pooled.parameters)),
        model.as_vector(pooled.parameters),
    )
    assert np.allclose(model.scores(data, pooled.parameters), expected, atol=1e-6)


def test_scores_of_models_of_numbers_trees_and_rows():
    generator = np.random.default_rng(0)
    series = [generator.normal(size=(5, 2)), generator.normal(size=(3, 2))]
    series[0][1, 0] = np.nan
    for model, X in (
        (HiddenMarkovModel(2, tolerance=100.0), series),
        (GaussianMixture(2, tolerance=100.0), generator.normal(size=(20, 2))),
    ):
        model.fit(X)
        at = model.model_.as_vector(model.parameters_)

        def value(vector, model=model, X=X):
            data = model._read(X)
            return model.model_.log_likelihood(data, model.model_.from_vector(vector, model.parameters_))

        assert np.allclose(model.scores(X), gradient(value, at), atol=1e-5)


def test_the_model_may_be_a_fitted_one():
    pack = hf.data.from_sequences(["ABAB", "BBB", "AA"])
    model = HiddenMarkovModel(2, concentration=1.1).fit(pack)
    scores = model.scores(pack)
    information = scores.T @ scores / 3
    information += 0.1 * information.diagonal().mean() * np.eye(len(information))
    expected = scores @ np.linalg.solve(information, scores.T)
    assert np.allclose(Fisher(model=model, ridge=0.1).fit(pack).gram(pack), expected)
    diagonal = scores / np.sqrt(information.diagonal())
    gram = Fisher(model=model, ridge=0.1, information="diagonal").fit(pack).gram(pack)
    assert np.allclose(gram, diagonal @ diagonal.T)
    with pytest.raises(InputError, match="The 'model' parameter of Fisher"):
        Fisher(model="hmm").fit(pack)


@FEW
@given(WORDS, st.sampled_from([0.5, 1.0]), st.integers(1, 3))
def test_products_of_hidden_markov_models(words, rho, length):
    pack = built(hf.data.from_sequences, words)
    kernel = ProbabilityProductHMM(num_states=2, rho=rho, length=length).fit(pack)
    first, moves, symbols = kernel._read(pack)
    paths = list(product(range(2), repeat=length))
    values = []
    for text in product(range(symbols.shape[2]), repeat=length):
        parts = [
            first[:, path[0]]
            * np.prod([moves[:, a, b] for a, b in pairwise(path)], axis=0)
            * np.prod([symbols[:, state, letter] for state, letter in zip(path, text, strict=True)], axis=0)
            for path in paths
        ]
        values.append(np.sum(parts, axis=0))
    expected = np.array(values).T @ np.array(values) if values else np.zeros((len(words),) * 2)
    assert np.allclose(kernel.gram(pack), expected)


@FEW
@given(WORDS, st.integers(1, 3))
def test_products_of_markov_chains_are_bhattacharyya_affinities(words, length):
    pack = built(hf.data.from_sequences, words)
    kernel = ProbabilityProduct(length=length).fit(pack)
    first, moves, _ = kernel._read(pack)
    texts = list(product(range(first.shape[1]), repeat=length))
    roots = np.array(
        [first[:, text[0]] * np.prod([moves[:, a, b] for a, b in pairwise(text)], axis=0) for text in texts]
    ).reshape(len(texts), len(words))
    gram = kernel.gram(pack)
    assert np.allclose(gram, roots.T @ roots)
    assert np.allclose(gram.diagonal(), [float(len(word) > 0) for word in words])  # probabilities sum to 1


@FEW
@given(st.lists(st.text("AB", min_size=1, max_size=4), min_size=2, max_size=3))
def test_scores_of_pairwise_fields(words):
    pack = built(hf.data.from_sequences, words, arc_labels="direction")
    kernel = FisherField().fit(pack)
    model, _ = kernel.columns_[0]
    size = len(model.nodes)

    def log_value(weights, codes, kinds):
        unary, tables = PairwiseField(model.nodes, model.arcs, weights).potentials
        pairs = zip(codes, codes[1:], kinds, strict=False)
        return sum(unary[code] for code in codes) + sum(tables[kind, a, b] for a, b, kind in pairs)

    def log_likelihood(weights):
        found = []
        for one in pack:
            codes = [model.nodes.rows.values.tolist().index(code) for code in one.node_labels[:, 0].tolist()]
            kinds = [0] * (len(codes) - 1)  # of the two arcs of an edge the first label counts
            every = [
                log_value(weights, list(other), kinds) for other in product(range(size), repeat=len(codes))
            ]
            found.append(log_value(weights, codes, kinds) - np.logaddexp.reduce(every))
        return np.array(found)

    scores = kernel._scores(pack, model)
    assert np.allclose(scores, gradient(log_likelihood, model.weights), atol=1e-6)
    assert np.allclose(scores.sum(axis=0), model.weights, atol=1e-4)  # the prior's gradient, at the maximum


def test_unknown_labels_are_summed_out():
    pack = hf.data.from_sequences(["AB", "BA", "AA"])
    kernel = FisherField().fit(pack)
    assert np.allclose(kernel.transform(hf.data.from_sequences(["ZZ", "Z"])).toarray(), 0, atol=1e-8)
    assert not Fisher(num_states=2).fit(pack).transform(hf.data.from_sequences(["ZZ", "Z"])).nnz
