"""Embeddings under a conditional random field: likelihoods and gradients against enumeration and differences."""

import itertools

import numpy as np
import pytest
import torch

import hiddenfield as hf
from hiddenfield.data import from_arcs, from_edges
from hiddenfield.embedding import FeatureSizes
from hiddenfield.models.crf import edges_of, kinds_of, symmetric
from hiddenfield.models.node_field import LabelTask, NodeField, with_labels


def problem(directed: bool, model: str = "loopy_bp", hidden_states: int = 1):
    """Return two small structures, one of them a cycle, with labels of which one is missing, and a network."""
    build = from_arcs if directed else from_edges
    pack = build([0, 1, 2, 3], [1, 2, 0, 4], node_ptr=[0, 3, 5], node_labels=[0, 1, 0, 1, 1])
    pack = with_labels(pack, np.array([0.0, 1.0, np.nan, 1.0, 0.0]))
    torch.manual_seed(0)
    network = NodeField(
        FeatureSizes.of(pack), 2 * hidden_states, kinds=kinds_of(pack), hidden_states=hidden_states, model=model,
        dim=4, rounds=2, hidden=4,
    ).double()  # fmt: skip
    with torch.no_grad():
        network.tables.normal_(0, 0.5)
    return pack, network


@pytest.mark.parametrize("hidden_states", [1, 2])
@pytest.mark.parametrize("directed", [False, True])
def test_likelihoods_are_those_of_enumeration(directed: bool, hidden_states: int) -> None:
    pack, network = problem(directed, hidden_states=hidden_states)
    unary, edges = network.potentials(pack).detach().numpy(), edges_of(pack, network.kinds)
    tables, codes = symmetric(network.tables.detach().numpy(), edges), pack.node_targets[:, 0].numpy()
    wanted = []
    for first, last in itertools.pairwise(pack.node_ptr.tolist()):
        mine = (edges.first >= first) & (edges.first < last)
        given = free = 0.0
        for states in itertools.product(range(unary.shape[1]), repeat=last - first):
            s = np.zeros(len(unary), int)
            s[first:last] = states
            score = unary[np.arange(first, last), states].sum()
            score += tables[edges.kind[mine], s[edges.first[mine]], s[edges.second[mine]]].sum()
            free += np.exp(score)
            labels = np.array(states) // hidden_states
            given += np.exp(score) * (np.isnan(codes[first:last]) | (labels == codes[first:last])).all()
        wanted.append(np.log(given / free))
    found = network(pack)
    np.testing.assert_allclose(found[:, 0].detach(), wanted, atol=1e-10)
    assert found[:, 1].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("model", ["loopy_bp", "mean_field"])
def test_gradients_are_those_of_differences(model: str) -> None:
    pack, network = problem(True, model)
    network.embedding.activation = torch.tanh  # a kink would spoil differences
    network(pack)[:, 0].sum().backward()
    for parameter in (network.tables, network.output_layer.weight, network.hidden_layer.weight):
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for place in range(0, len(flat), 3):
            values = []
            for step in (1e-5, -2e-5):
                flat[place] += step
                values.append(float(network(pack)[:, 0].sum().detach()))
            flat[place] += 1e-5
            assert float(gradient[place]) == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-7)


def test_the_task_is_minus_the_log_likelihood_of_a_label() -> None:
    pack, network = problem(False)
    task, found = LabelTask(2), network(pack)
    losses, weights = task.entries(found, pack.targets)
    assert float((losses.sum() / weights.sum()).detach()) == pytest.approx(
        -float(found[:, 0].sum().detach()) / 4
    )
    assert 0 <= task.metrics(found.detach(), pack.targets)["accuracy"] <= 1
    with pytest.raises(hf.errors.InputError, match="no node of the words has a label"):
        task.check(with_labels(pack, np.full(5, np.nan)), "words")
    with pytest.raises(hf.errors.InputError, match="count alike"):
        (found[:, 0] * torch.tensor([1.0, 2.0])).sum().backward()
