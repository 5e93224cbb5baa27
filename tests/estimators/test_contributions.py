"""The nodes' shares of a prediction: they add up, and are what integrated gradients are."""

from __future__ import annotations

import pytest
import torch

import hiddenfield as hf
from hiddenfield.embedding import ACTIVATIONS, POOLINGS, FeatureSizes, Predictor
from hiddenfield.estimators.contributions import contributions
from hiddenfield.learning import Task
from hiddenfield.ops import segment_sum


@pytest.fixture(scope="module")
def words():
    texts = ["GATTACA", "", "CAT", "T"]
    return hf.data.from_sequences(texts, targets={"y": [7.0, 0.0, 30.0, 1.0], "kind": ["a", "b", "c", "a"]})


def build(words, **options):
    torch.manual_seed(0)
    task = Task.of(words)
    network = (
        Predictor(FeatureSizes.of(words), task.outputs, dim=6, rounds=2, hidden=9, **options).double().eval()
    )
    for parameter in network.parameters():  # so that no bias is zero and both sides of every kink are seen
        torch.nn.init.normal_(parameter, std=0.7)
    return network, task


def in_units(task, outputs):
    """Return outputs in the targets' units: numbers scaled back, scores of classes as they are."""
    scales = [column.scale for column in task.columns for _ in range(column.outputs)]
    return outputs.detach() * outputs.new_tensor(scales)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    "options",
    [{}, {"every_round": True, "node_width": 5}, {"standardise": True}],
    ids=["plain", "wide", "standard"],
)
def test_they_add_up_to_the_prediction(words, pooling, activation, options):
    network, task = build(words, pooling=pooling, activation=activation, **options)
    shares = contributions(network, task, words)
    outputs = in_units(task, network(words))
    assert shares.shape == (words.total_nodes, task.outputs)
    assert torch.allclose(segment_sum(shares, words.node_ptr), outputs - outputs[1], atol=1e-9)


def test_for_relu_they_are_integrated_gradients(words):
    network, task = build(words)
    shares = contributions(network, task, words)
    nodes, pooled = network.nodes(words).detach(), network.embed(words).detach()
    steps = 20_000
    for output in range(task.outputs):
        total = torch.zeros_like(pooled)
        for structure in range(len(words)):
            line = ((torch.arange(steps) + 0.5) / steps)[:, None] * pooled[structure]
            line.requires_grad_()
            (gradient,) = torch.autograd.grad(network.head(line)[:, output].sum(), line)
            total[structure] = gradient.mean(dim=0)
        expected = (nodes * total[words.structure_of_node.long()]).sum(dim=1)
        scale = task.columns[0].scale if output == 0 else 1.0
        assert torch.allclose(shares[:, output], scale * expected, atol=2e-3 * scale)


def test_where_the_head_is_linear_they_are_gradient_times_embedding(words):
    network, task = build(words)
    with torch.no_grad():
        network.hidden_layer.weight.abs_()
        network.hidden_layer.bias.abs_()
    pooled = network.embed(words).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(network.head(pooled)[:, 0].sum(), pooled)
    expected = (network.nodes(words).detach() * gradient[words.structure_of_node.long()]).sum(dim=1)
    shares = contributions(network, task, words)[:, 0]
    assert torch.allclose(shares, expected * task.columns[0].scale)


def test_equal_nodes_have_equal_shares(words):
    network, task = build(words)
    pair = hf.data.from_sequences(["GG", "ACA"]).recode(words.node_vocabularies)
    shares = contributions(network, task, pair)
    assert torch.equal(shares[0], shares[1])
    assert torch.equal(shares[2], shares[4])
