"""The layers of a contextual graph Markov model: brute force, theorems, fingerprints."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.sparse import csr_matrix

import hiddenfield as hf
from hiddenfield.data.table import TableColumn
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.kernels import jaccard
from hiddenfield.learning.em import Fill
from hiddenfield.models.cgmm.context import see
from hiddenfield.models.cgmm.fingerprints import fingerprints
from hiddenfield.models.cgmm.layer import ContextLayer, Seen
from hiddenfield.models.cgmm.stack import Growth, grow
from hiddenfield.models.gaussians import Gaussians, NormalPrior
from hiddenfield.models.hidden_markov.emissions import Numbers, Symbols

LABELS, ARC_LABELS, STATES = 4, 3, 3
SEEDS = st.integers(0, 10_000)


def graphs_of(seed, sizes=(7, 1, 0, 5)):
    """Random graphs with labelled arcs, isolated nodes, loops, and one without nodes."""
    draw = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    ends = [draw.integers(a, b, (2, b - a)) for a, b in pairwise(ptr) if b > a]
    source, target = np.unique(np.concatenate(ends, axis=1), axis=1)
    pack = hf.data.from_arcs(source, target, node_ptr=ptr)
    labels = torch.from_numpy(draw.integers(0, ARC_LABELS, (pack.total_arcs, 1)))
    return pack.replace(arc_labels=labels, arc_vocabularies=(Vocabulary("bond", ("a", "b", "c")),))


def symbols(states=STATES, concentration=1.0):
    column = TableColumn("label", "categorical", Vocabulary("label", tuple("wxyz")))
    return Symbols((column,), (0,), states, concentration)


def codes(draw, nodes, missing=0.2):
    values = draw.integers(0, LABELS, nodes).astype(float)
    values[draw.random(nodes) < missing] = np.nan
    return values[:, None]


def layer_above(seed, soft):
    """A layer over two others with random frozen states, its data and parameters, and these states as probabilities."""
    draw = np.random.default_rng(seed)
    pack = graphs_of(seed)
    below = [(draw.dirichlet(np.ones(count), pack.total_nodes), count) for count in (3, 2)]
    if not soft:
        below = [(states.argmax(axis=1), count) for states, count in below]
    context = see(pack, below)
    layer = ContextLayer(STATES, context.shape, [symbols()], smoothing=0.0)
    data = Seen(codes(draw, pack.total_nodes), context, np.ones(pack.total_nodes))
    parameters = layer.start(data, "auto", draw)
    parameters["switch"] = draw.dirichlet(np.ones(len(parameters["switch"])))
    dense = [(states if soft else np.eye(count)[states], count) for states, count in below]
    return pack, layer, data, parameters, dense


def by_enumeration(pack, data, parameters, below):
    """Sum over every state, layer, arc label and neighbour's state, term by term."""
    table, switch = parameters["transition"], parameters["switch"]
    emitted = parameters["probabilities.label"]
    in_ptr, source, labels = pack.in_ptr.numpy(), pack.source.numpy(), pack.arc_labels[:, 0].numpy()
    total, counts, posteriors = 0.0, np.zeros_like(table), []
    for node in range(pack.total_nodes):
        value = data.values[node, 0]
        says = np.ones(table.shape[1]) if np.isnan(value) else emitted[:, int(value)]
        joint, row, group = np.zeros_like(table), 0, 0
        for states, count in below:
            for label in range(ARC_LABELS):
                arcs = [arc for arc in range(in_ptr[node], in_ptr[node + 1]) if labels[arc] == label]
                seen = np.zeros(count + 1)
                seen[count] = not arcs
                for arc in arcs:
                    seen[:count] += states[source[arc]] / len(arcs)
                for weight in seen:
                    joint[row] = switch[group] * weight * table[row] * says
                    row += 1
                group += 1
        total += np.log(joint.sum())
        counts += joint / joint.sum()
        posteriors.append(joint.sum(axis=0) / joint.sum())
    return total, counts, np.array(posteriors)


@given(SEEDS, st.booleans())
@settings(deadline=None, max_examples=25)
def test_the_e_step_is_that_of_enumeration(seed, soft):
    pack, layer, data, parameters, below = layer_above(seed, soft)
    found = layer.expected_statistics(data, parameters, Fill())
    total, counts, posteriors = by_enumeration(pack, data, parameters, below)
    assert found["objective"] == pytest.approx(total, rel=1e-10)
    np.testing.assert_allclose(found["transition"], counts, atol=1e-10)
    np.testing.assert_allclose(layer.infer(data, parameters, soft=True)[0], posteriors, atol=1e-10)


@given(SEEDS)
@settings(deadline=None, max_examples=10)
def test_expected_counts_are_derivatives_of_the_likelihood(seed):
    _, layer, data, parameters, _ = layer_above(seed, soft=True)
    counts = layer.expected_statistics(data, parameters, Fill())["transition"]
    draw, step = np.random.default_rng(seed), 1e-6
    for row, state in draw.integers(0, counts.shape, (5, 2)):
        ends = []
        for sign in (1, -1):
            moved = parameters | {"transition": parameters["transition"].copy()}
            moved["transition"][row, state] *= np.exp(sign * step)
            ends.append(float(layer.expected_statistics(data, moved, Fill())["objective"]))
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(counts[row, state], abs=1e-5)


@given(SEEDS, st.booleans(), st.sampled_from([0.0, 1e-3]))
@settings(deadline=None, max_examples=10)
def test_the_likelihood_rises(seed, soft, smoothing):
    """The M step is exact: neither smoothing nor arc labels that do not arrive make it fall."""
    _, layer, data, parameters, _ = layer_above(seed, soft)
    layer, trace = replace(layer, smoothing=smoothing), []
    for _ in range(60):
        statistics = layer.expected_statistics(data, parameters, Fill())
        trace.append(float(statistics["objective"]) + layer.log_prior(parameters))
        parameters = layer.maximize(statistics, parameters)
    assert (np.diff(trace) > -1e-9 * abs(trace[0])).all()
    assert trace[-1] > trace[0]


@given(SEEDS)
@settings(deadline=None, max_examples=10)
def test_equal_nodes_can_be_held_once(seed):
    _, layer, data, parameters, _ = layer_above(seed, soft=False)
    fewer = data.merged()
    assert fewer.counts.sum() == len(data)
    assert len(fewer) <= len(data)
    one, other = (layer.expected_statistics(each, parameters, Fill()) for each in (data, fewer))
    for name in one:
        np.testing.assert_allclose(one[name], other[name], atol=1e-10)


def test_many_nodes_are_merged_part_by_part(monkeypatch):
    monkeypatch.setattr("hiddenfield.models.cgmm.layer.MOST_COMPARED", 8)
    monkeypatch.setattr("hiddenfield.models.cgmm.layer.MOST_AT_START", 8)
    pack = graphs_of(0, (6, 6, 6))
    codes = np.tile([0.0, 1.0, 1.0, 1.0, 1.0, 0.0], 3)[:, None]
    context = see(pack, [(np.zeros(18, int), 2)])
    many = Seen(codes, context, np.ones(18)).take(np.tile(np.arange(3), 6))
    fewer = many.merged()
    assert len(fewer) <= 3
    assert fewer.counts.sum() == 18
    layer = ContextLayer(STATES, context.shape, [symbols()])
    parameters = layer.start(many, "auto", np.random.default_rng(0))
    one, other = (layer.expected_statistics(each, parameters, Fill()) for each in (many, fewer))
    for name in one:
        np.testing.assert_allclose(one[name], other[name], atol=1e-10)
    different = Seen(np.arange(18.0)[:, None], context, np.ones(18))
    assert different.merged() is different


def test_a_state_that_cannot_be_does_not_hide_the_others():
    """Its density may be greater by more than any number can hold."""
    family = Gaussians(
        "diagonal", np.zeros(1), np.ones(1), NormalPrior.weak("diagonal", np.zeros(1), np.ones(1), 2)
    )
    context = see(graphs_of(0, (1,)), [])
    layer = ContextLayer(2, context.shape, [Numbers((0,), 2, 1, family)], smoothing=0.0)
    parameters = {
        "transition": np.array([[1.0, 0.0]]),
        "switch": np.ones(1),
        "weights": np.ones((2, 1)),
        "means": np.array([[0.0], [100.0]]),
        "covariances": np.ones((2, 1)),
    }
    data = Seen(np.full((1, 1), 100.0), context, np.ones(1))
    states, log_likelihood = layer.infer(data, parameters, soft=True)
    assert states.tolist() == [[1.0, 0.0]]
    assert log_likelihood[0] == pytest.approx(-5000 - 0.5 * np.log(2 * np.pi))
    assert layer.expected_statistics(data, parameters, Fill())["transition"].tolist() == [[1.0, 0.0]]


@given(SEEDS)
@settings(deadline=None, max_examples=5)
def test_probabilities_of_all_labels_sum_to_one(seed):
    """Whatever a node sees, isolated or not."""
    _, layer, data, parameters, _ = layer_above(seed, soft=False)
    total = np.zeros(len(data))
    for code in range(LABELS):
        values = np.full(data.values.shape, float(code))
        total += np.exp(layer.infer(Seen(values, data.context, data.counts), parameters, soft=False)[1])
    np.testing.assert_allclose(total, 1.0, atol=1e-12)


def test_a_first_layer_is_a_mixture_and_missing_labels_are_summed_out():
    draw = np.random.default_rng(0)
    pack = graphs_of(0)
    stack = grow(pack, codes(draw, pack.total_nodes), [symbols()], Growth(STATES, 1))
    prior, emitted = (stack.parameters[0][name] for name in ("transition", "probabilities.label"))
    nothing = np.full((pack.total_nodes, 1), np.nan)
    posterior, log_likelihood = stack.posterior(pack, nothing, 0), stack.infer(pack, nothing)[1][0]
    np.testing.assert_allclose(posterior, np.tile(prior[0], (pack.total_nodes, 1)))
    np.testing.assert_allclose(log_likelihood, 0.0, atol=1e-12)
    every = np.zeros_like(nothing)
    np.testing.assert_allclose(stack.infer(pack, every)[1][0], np.log(prior[0] @ emitted[:, 0]))


@pytest.mark.parametrize("seed", range(3))
def test_rare_labels_have_states_of_their_own(seed):
    """All of them would be in one state if a start were smoothed without regard to how often labels occur."""
    values = np.repeat(np.arange(10.0), [5000, *[3] * 9])[:, None]
    column = TableColumn("label", "categorical", Vocabulary("label", tuple("abcdefghij")))
    pack = hf.data.from_edges([], [], node_ptr=[0, len(values)])
    stack = grow(pack, values, [Symbols((column,), (0,), 40, 1.001)], Growth(40, 1), seed=seed)
    assert len(np.unique(stack.infer(pack, values)[0][0])) >= 7


@pytest.mark.parametrize("soft", [False, True])
def test_relabelled_nodes_have_the_same_states(soft):
    draw = np.random.default_rng(1)
    pack = graphs_of(1, (8, 8))
    values = codes(draw, 16)
    stack = grow(pack, values, [symbols(concentration=1.001)], Growth(STATES, 3, (1, 2), soft))
    order = np.concatenate([draw.permutation(8) + 8, draw.permutation(8)])  # new node -> old node
    place = np.argsort(order)
    source, target = place[pack.source.numpy()], place[pack.target.numpy()]
    moved = hf.data.from_arcs(
        source,
        target,
        node_ptr=[0, 8, 16],
        arc_labels=pack.arc_labels.numpy(),
        arc_vocabularies=pack.arc_vocabularies,
    )
    before, after = stack.infer(pack, values)[0], stack.infer(moved, values[order])[0]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(one[order], other, atol=1e-9)
    one, other = fingerprints(pack, before, STATES), fingerprints(moved, after, STATES)
    np.testing.assert_allclose(one[[1, 0]].toarray(), other.toarray(), atol=1e-8)


def test_numbers_and_symbols_together_and_samples():
    draw = np.random.default_rng(2)
    pack = graphs_of(2, (40, 40))
    label = draw.integers(0, 2, 80).astype(float)
    values = np.stack([label, 4 * label + 0.1 * draw.standard_normal(80)], axis=1)
    values[:5, 1] = np.nan
    family = Gaussians(
        "diagonal", np.zeros(1), np.ones(1), NormalPrior(np.zeros(1), 0.01, 3.0, np.full(1, 0.1))
    )
    stack = grow(pack, values, [symbols(2, 1.001), Numbers((1,), 2, 1, family)], Growth(2, 2))
    assert sorted(stack.parameters[1]["means"][:, 0].round().tolist()) == [0.0, 4.0]
    drawn, states = stack.sample(pack, values, draw)
    assert ((drawn[:, 1] > 2) == drawn[:, 0].astype(bool)).mean() > 0.95
    assert len(np.unique(states)) == 2


def test_growth_stops_by_the_criterion_and_drops_what_did_not_help():
    pack, draw = graphs_of(3), np.random.default_rng(3)
    scores = iter([0.1, 0.5, 0.2, 0.3, 0.9])
    growth = Growth(2, 5, patience=2)
    values = codes(draw, pack.total_nodes)
    stack = grow(pack, values, [symbols(2)], growth, criterion=lambda _: next(scores))
    assert stack.scores == [0.1, 0.5, 0.2, 0.3]
    assert len(stack.layers) == len(stack.parameters) == 2


@given(SEEDS, st.booleans(), st.booleans())
@settings(deadline=None, max_examples=10)
def test_fingerprints_count_nodes_and_arcs(seed, soft, mean):
    pack = graphs_of(seed)
    posterior = np.random.default_rng(seed).dirichlet(np.ones(3), pack.total_nodes)
    found = fingerprints(pack, [posterior if soft else posterior.argmax(axis=1)], 3, mean=mean).toarray()
    states = posterior if soft else np.eye(3)[posterior.argmax(axis=1)]
    for graph in range(len(pack)):
        a, b = pack.node_ptr[graph : graph + 2].tolist()
        arcs = range(*pack.arc_ptr[graph : graph + 2].tolist())
        pairs = sum(
            (np.outer(states[pack.target[arc]], states[pack.source[arc]]) for arc in arcs), np.zeros((3, 3))
        )
        single = states[a:b].sum(axis=0)
        if mean:
            single, pairs = single / max(b - a, 1), pairs / max(len(arcs), 1)
        np.testing.assert_allclose(found[graph], [*single, *pairs.ravel()], atol=1e-12)


@given(SEEDS)
@settings(deadline=None, max_examples=10)
def test_the_jaccard_kernel_is_the_share_of_what_is_common(seed):
    counts = np.random.default_rng(seed).poisson(1.0, (6, 5)).astype(float)
    counts[0] = 0
    gram = jaccard(csr_matrix(counts), csr_matrix(counts))
    for i, one in enumerate(counts):
        for j, other in enumerate(counts):
            union = np.maximum(one, other).sum()
            expected = np.minimum(one, other).sum() / union if union else 1.0
            assert gram[i, j] == pytest.approx(expected)
    np.testing.assert_allclose(jaccard(counts), gram, atol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-9
