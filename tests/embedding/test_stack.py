"""Networks side by side give what each gives alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import hiddenfield as hf
from hiddenfield.embedding import EMBEDDINGS, FeatureSizes, Predictor, inputs
from hiddenfield.embedding.inputs import ArcKinds
from hiddenfield.embedding.members import SharedBatch
from hiddenfield.embedding.stack import PredictorStack, stack_kind, write_members


def graphs(count, seed, attributes=0, labels=True):
    random = np.random.default_rng(seed)
    nodes = random.integers(0, 7, count)
    ptr = np.concatenate([[0], np.cumsum(nodes)])
    ends = [random.integers(ptr[k], ptr[k + 1], (int(nodes[k]), 2)) for k in range(count) if nodes[k]]
    ends = np.concatenate([pairs[pairs[:, 0] < pairs[:, 1]] for pairs in ends])
    ends = np.unique(ends, axis=0)
    total = int(ptr[-1])
    return hf.data.from_edges(
        ends[:, 0],
        ends[:, 1],
        node_ptr=ptr,
        node_labels=None
        if not labels
        else np.concatenate([list("ABC"), random.choice(list("ABC"), total - 3)]),
        node_attributes=random.normal(size=(total, attributes)) if attributes else None,
    )


@pytest.mark.parametrize("model", EMBEDDINGS)
@pytest.mark.parametrize(
    ("options", "data"),
    [
        ({}, {}),
        ({"every_round": True, "standardise": True}, {"attributes": 2}),
        ({"node_width": 5, "pooling": "mean"}, {"attributes": 2, "labels": False}),
        ({"pooling": "max", "activation": "tanh", "scale": 3.0}, {"labels": False}),
        ({"bias": False}, {}),
    ],
)
def test_outputs_and_gradients_are_those_of_the_networks(model, options, data):
    pack = graphs(30, 0, **data)
    torch.manual_seed(1)
    networks = [
        Predictor(FeatureSizes.of(pack), 2, model=model, dim=6, rounds=3, hidden=4, **options).double()
        for _ in range(3)
    ]
    stack, bounds = PredictorStack(networks), [0, 12, 12 + 7, 30]
    outputs = stack(SharedBatch.of(pack, torch.tensor(bounds)), *stack.network.prepare(pack))
    outputs.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in stack.network.named_parameters()}
    for number, network in enumerate(networks):
        part = pack[slice(bounds[number], bounds[number + 1])]
        alone = network(part, *network.prepare(part))
        assert torch.allclose(outputs[bounds[number] : bounds[number + 1]], alone, atol=1e-9)
        alone.square().sum().backward()
        for name, parameter in network.named_parameters():
            if (
                parameter.grad is not None
            ):  # edges of `tree_reweighted` have an embedding that nothing here reads
                assert torch.allclose(gradients[name][number], parameter.grad, atol=1e-9), name
        for name, buffer in network.named_buffers():
            assert torch.allclose(stack.network.get_buffer(name)[number], buffer, atol=1e-9), name


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu", "silu"])
def test_narrow_networks_among_wide_ones(activation):
    pack = graphs(12, 3)
    networks = [
        Predictor(
            FeatureSizes.of(pack), 1, dim=dim, hidden=hidden, activation=activation, standardise=True
        ).double()
        for dim, hidden in ((8, 3), (2, 9))
    ]
    stack = PredictorStack(networks)
    optimizer = torch.optim.Adam(stack.parameters(), lr=0.1)
    batch = SharedBatch.of(pack, torch.tensor([0, 6, 12]))
    for _ in range(3):
        optimizer.zero_grad()
        stack(batch).square().sum().backward()
        optimizer.step()
    for number, part in enumerate((pack[:6], pack[6:])):
        own = torch.optim.Adam(networks[number].parameters(), lr=0.1)
        for _ in range(3):
            own.zero_grad()
            networks[number](part).square().sum().backward()
            own.step()
    copies = [Predictor(FeatureSizes.of(pack), 1, **_options(network)).double() for network in networks]
    write_members(copies, stack.network.state_dict())
    for network, copy in zip(networks, copies, strict=True):
        for name, tensor in network.state_dict().items():
            assert torch.allclose(copy.state_dict()[name], tensor, atol=1e-7), name


def _options(network):
    return {name: value for name, value in network.settings().items() if name != "outputs"}


def test_a_batch_of_one_uses_the_averages():
    pack = graphs(3, 5)
    networks = [Predictor(FeatureSizes.of(pack), 1, dim=3, standardise=True).double() for _ in range(2)]
    outputs = PredictorStack(networks)(SharedBatch.of(pack, torch.tensor([0, 1, 3])))
    assert torch.allclose(outputs[:1], networks[0](pack[:1]))
    assert torch.allclose(outputs[1:], networks[1](pack[1:]))


def test_kinds():
    sizes = FeatureSizes(node_labels=(3,))
    plain = stack_kind(Predictor(sizes, 1))
    assert plain == stack_kind(Predictor(sizes, 1, dim=3, hidden=7, dropout=0.5, scale=4.0))
    for other in ({"rounds": 2}, {"model": "mean_field"}, {"standardise": True}, {"pooling": "max"}):
        assert stack_kind(Predictor(sizes, 1, **other)) != plain
    wide = stack_kind(Predictor(sizes, 1, every_round=True))
    assert wide != stack_kind(Predictor(sizes, 1, every_round=True, dim=3))
    assert stack_kind(Predictor(sizes, 1, activation="sigmoid")) != stack_kind(
        Predictor(sizes, 1, activation="sigmoid", dim=3)
    )
    assert stack_kind(Predictor(sizes, 1, model="tree_reweighted", weights="learned")) is None


@pytest.mark.parametrize("rounds", [1, 3])
def test_each_network_has_kinds_of_arcs_of_its_own(rounds, monkeypatch):
    pack = graphs(40, 3)
    sizes = FeatureSizes.of(pack)
    stack = PredictorStack([Predictor(sizes, 2, dim=6, rounds=rounds).double() for _ in range(3)])
    batch, results = SharedBatch.of(pack, torch.tensor([0, 12, 12, 40])), []
    for arcs in (0, 1_000_000):
        monkeypatch.setattr(inputs, "ARCS_OF_A_KIND", arcs)
        assert (ArcKinds.of(batch, sizes, torch.float64) is None) == (arcs > 0)
        outputs = stack(batch)
        used = [part for name, part in stack.named_parameters() if rounds > 1 or "messages" not in name]
        results.append((outputs, *torch.autograd.grad(outputs.square().sum(), used)))
    for ours, theirs in zip(*results, strict=True):
        assert torch.allclose(ours, theirs)
