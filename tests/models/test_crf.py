"""Conditional random fields against enumeration: values, expectations and gradients, on trees and on cycles."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.sparse import csr_matrix

from hiddenfield.learning.maximum_likelihood import maximise
from hiddenfield.models.crf import Edges, Field, LogLikelihood, allowed_weights, sparse_maximum, symmetric


def random_problem(seed: int, shape: str, *, states: int = 3, hidden: bool, l2: float = 0.3) -> LogLikelihood:
    """Return the log-likelihood of random labels of a few small structures."""
    rng = np.random.default_rng(seed)
    ends = {
        "chains": [(0, 1), (1, 2), (3, 4)],
        "backwards": [(1, 0), (2, 1), (4, 3)],
        "undirected": [(1, 0), (1, 2), (4, 3)],
        "mixed directions": [(1, 0), (1, 2), (4, 3)],
        "cycle": [(0, 1), (1, 2), (2, 0), (3, 4)],
        "two kinds": [(0, 1), (1, 2), (3, 4)],
        "none": [],
    }[shape]
    first, second = np.array(ends, np.int64).reshape(-1, 2).T
    kind = np.arange(len(ends)) % 2 if shape == "two kinds" else np.zeros(len(ends), np.int64)
    symmetric = np.array([shape == "undirected", True][: 1 + (shape == "two kinds")])
    edges = Edges(first, second, kind, symmetric, np.array([0, 3, 5, 6]))
    features = csr_matrix(rng.random((6, 3)) * (rng.random((6, 3)) < 0.7))
    allowed = np.eye(states, dtype=bool)[rng.integers(0, states, 6)]
    if hidden:
        allowed[rng.integers(0, 6)] = True
        allowed[0, 0] = True
    weights = allowed_weights(features, allowed, len(symmetric), every=False)
    return LogLikelihood(features, Field(edges, states), weights, allowed, l2)


def enumerated(objective: LogLikelihood, vector: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the objective, the marginals of nodes and the best states, by all assignments."""
    own, tables = objective.weights.split(vector)
    unary, tables = (
        objective.weights.scores(objective.features, own),
        symmetric(tables, objective.fields.edges),
    )
    edges = objective.fields.edges
    nodes, states = unary.shape
    total, given, marginals, best = 0.0, 0.0, np.zeros(unary.shape), (-np.inf, ())
    for assignment in itertools.product(range(states), repeat=nodes):
        s = np.array(assignment)
        score = unary[np.arange(nodes), s].sum() + tables[edges.kind, s[edges.first], s[edges.second]].sum()
        total += np.exp(score)
        given += np.exp(score) * objective.allowed[np.arange(nodes), s].all()
        marginals[np.arange(nodes), s] += np.exp(score)
        best = max(best, (score, assignment))
    value = np.log(given) - np.log(total) - objective.l2 / 2 * vector @ vector
    return value, marginals / total, np.array(best[1])


SHAPES = ("chains", "backwards", "undirected", "mixed directions", "cycle", "two kinds", "none")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("hidden", [False, True])
def test_values_and_gradients_are_those_of_enumeration(shape: str, hidden: bool) -> None:
    objective = random_problem(1, shape, states=2, hidden=hidden)
    vector = np.random.default_rng(2).normal(size=len(objective.weights))
    values, gradients = objective.batch(vector[None])
    assert values[0] == pytest.approx(enumerated(objective, vector)[0], abs=1e-10)
    steps = 1e-5 * np.eye(len(vector))
    slopes = [
        (enumerated(objective, vector + h)[0] - enumerated(objective, vector - h)[0]) / 2e-5 for h in steps
    ]
    assert np.allclose(gradients[0], slopes, atol=1e-7)


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), shape=st.sampled_from(SHAPES), scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_marginals_and_best_states_are_those_of_enumeration(seed: int, shape: str, scale: float) -> None:
    objective = random_problem(seed, shape, hidden=False)
    vector = scale * np.random.default_rng(seed + 1).normal(size=len(objective.weights))
    own, tables = objective.weights.split(vector)
    unary, tables = (
        objective.weights.scores(objective.features, own),
        symmetric(tables, objective.fields.edges),
    )
    _, marginals, best = enumerated(objective, vector)
    assert np.allclose(objective.fields.expected(unary, tables).nodes, marginals, atol=1e-8)
    edges = objective.fields.edges

    def score(states: np.ndarray) -> float:
        pairs = tables[edges.kind, states[edges.first], states[edges.second]]
        return float(unary[np.arange(len(unary)), states].sum() + pairs.sum())

    # Nodes without features have states that are equally good.
    assert score(objective.fields.best(unary, tables)) == pytest.approx(score(best))


def test_trees_have_the_loops_of_hidden_markov_models_and_others_are_fields() -> None:
    on_trees = {shape: random_problem(0, shape, hidden=False).fields.forest is not None for shape in SHAPES}
    assert on_trees == {shape: shape not in ("mixed directions", "cycle", "two kinds") for shape in SHAPES}


def test_bounds_of_the_log_partition_bound_the_log_likelihood_from_the_other_side() -> None:
    for hidden in (False, True):
        exact = random_problem(3, "cycle", hidden=hidden)
        vector = np.random.default_rng(4).normal(size=len(exact.weights))
        found = {"exact": exact.sums(vector)[2]}
        for method in ("loopy_bp", "mean_field", "tree_reweighted"):
            field = Field(exact.fields.edges, 3, method)
            other = LogLikelihood(exact.features, field, exact.weights, exact.allowed, exact.l2)
            found[method] = other.sums(vector)[2]
            bound = {"mean_field": "upper bound", "tree_reweighted": "lower bound"}.get(method, "estimate")
            assert other.guarantee == ("estimate" if hidden else bound)
        assert exact.guarantee == "exact"
        if not hidden:
            assert found["tree_reweighted"] <= found["exact"] + 1e-6
            assert found["mean_field"] >= found["exact"] - 1e-6
        assert found["loopy_bp"] == pytest.approx(found["exact"], abs=0.5)


def test_a_strong_absolute_penalty_leaves_few_weights_and_a_weak_one_the_maximum() -> None:
    objective = random_problem(5, "chains", hidden=False)
    start = np.zeros(len(objective.weights))
    smooth = maximise(objective, start, tolerance=1e-8)
    weak, converged, status = sparse_maximum(objective, start, 1e-9, 1e-8, 500)
    assert (converged, status) == (True, "converged")
    assert np.allclose(weak, smooth.parameters, atol=1e-4)
    strong, _, _ = sparse_maximum(objective, start, 0.5, 1e-8, 500)
    gradient = objective.batch(strong[None])[1][0]
    zero = strong == 0
    assert 0 < zero.sum() < len(zero)
    # The conditions of a maximum with kinks.
    assert (np.abs(gradient[zero]) <= 0.5 + 1e-4).all()
    assert np.allclose(gradient[~zero], 0.5 * np.sign(strong[~zero]), atol=1e-4)
