"""SDNE: its loss, the gradient, estimates from batches, and what is learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from hiddenfield.models.sdne import DeepAutoencoder, fit_sdne, mixed_loss, pretrain
from tests.models.test_line import groups  # noqa: F401

WEIGHTS = {"alpha": 0.3, "beta": 4.0, "nu": 0.01}


@pytest.fixture
def small():
    """Return a weighted network of five nodes, all of its arcs, and an autoencoder in double precision."""
    generator = np.random.default_rng(0)
    upper = np.triu(generator.random((5, 5)) * (generator.random((5, 5)) < 0.7), 1)
    adjacency = csr_array(upper + upper.T)
    source = np.repeat(np.arange(5), np.diff(adjacency.indptr))
    torch.manual_seed(0)
    network = DeepAutoencoder([5, 4, 3]).double()
    return network, adjacency, (source, adjacency.indices, adjacency.data)


def test_the_loss_is_that_of_the_lecture(small):
    network, adjacency, arcs = small
    found = mixed_loss(network, adjacency, np.arange(5), arcs, **WEIGHTS)
    X = torch.from_numpy(adjacency.toarray())
    Y = X
    for layer in network.encoder:
        Y = torch.sigmoid(Y @ layer.weight.T + layer.bias)
    wrong = (network.decode(Y) - X) * torch.where(X > 0, 4.0, 1.0)
    laplacian = torch.diag(X.sum(dim=1)) - X
    near = 2 * torch.trace(Y.T @ laplacian @ Y)
    layers = [*network.encoder, *network.decoder]
    reg = sum((layer.weight**2).sum() for layer in layers) / 2
    torch.testing.assert_close(found, (wrong**2).sum() + 0.3 * near + 0.01 * reg)


def test_the_gradient_equals_finite_differences(small):
    network, adjacency, arcs = small

    def loss(*values):
        named = dict(zip(dict(network.named_parameters()), values, strict=True))
        return torch.func.functional_call(
            Whole(), {f"network.{name}": value for name, value in named.items()}, ()
        )

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self):
            return mixed_loss(self.network, adjacency, np.arange(5), arcs, **WEIGHTS)

    parameters = tuple(value.detach().clone().requires_grad_() for value in network.parameters())
    assert torch.autograd.gradcheck(loss, parameters)


def test_batches_with_drawn_arcs_estimate_the_loss_without_bias(small):
    network, adjacency, arcs = small
    whole = mixed_loss(network, adjacency, np.arange(5), arcs, **WEIGHTS).item()
    expected = 0.0
    for node in range(5):
        part = slice(*adjacency.indptr[node : node + 2])
        strength = adjacency.data[part].sum()
        for target, weight in zip(adjacency.indices[part], adjacency.data[part], strict=True):
            one = np.array([0]), np.array([target]), np.array([strength])
            loss = mixed_loss(network, adjacency, np.array([node]), one, **WEIGHTS).item()
            expected += weight / strength * loss
    assert expected == pytest.approx(whole, rel=1e-10)


def test_pretraining_unrolls_the_stack(small):
    network = DeepAutoencoder([5, 4, 3])
    pretrain(network, small[1], epochs=2, batch_size=3, generator=torch.Generator().manual_seed(0))
    for down, up in zip(network.encoder, reversed(network.decoder), strict=True):
        assert torch.equal(down.weight, up.weight.T)
        assert down.bias.abs().min() > 0
        assert up.bias.abs().min() > 0


@pytest.mark.parametrize("pretraining", [0, 5])
def test_planted_groups_are_recovered(groups, pretraining):  # noqa: F811
    adjacency, group = groups
    options = {"epochs": 150, "batch_size": 30, "learning_rate": 0.01, "pretraining": pretraining}
    network, losses = fit_sdne(adjacency, (20,), 8, **options)
    with torch.no_grad():
        found = network.encode(adjacency)
    near = -torch.cdist(found, found).numpy()
    np.fill_diagonal(near, -np.inf)
    assert (group[near.argmax(axis=1)] == group).mean() > 0.9
    assert losses[-1] < losses[0]
    again, _ = fit_sdne(adjacency, (20,), 8, **options | {"epochs": 2})
    same, _ = fit_sdne(adjacency, (20,), 8, **options | {"epochs": 2})
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), same.parameters(), strict=True))


def test_training_ends_when_the_loss_falls_no_more(groups):  # noqa: F811
    assert len(fit_sdne(groups[0], (), 2, epochs=60, tolerance=0.9, pretraining=0)[1]) < 12
