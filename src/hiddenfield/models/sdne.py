"""SDNE: an autoencoder of rows of the adjacency matrix that keeps neighbours near each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from hiddenfield.errors import TrainingError
from hiddenfield.learning.device import light
from hiddenfield.models.rbm import fit_stack
from hiddenfield.shapes import Array, Float, Int, Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_array


PATIENCE = 10
"""Epochs in which the loss has to fall for training to go on."""


class DeepAutoencoder(nn.Module):
    r"""The network: :math:`y^{(k)} = \sigma(W^{(k)} y^{(k - 1)} + b^{(k)})` down to the vectors, and back likewise.

    Parameters
    ----------
    sizes
        Of the layers, from the number of nodes to the dimension of the vectors.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        pairs = list(pairwise(sizes))
        self.encoder: Any = nn.ModuleList(nn.Linear(wide, narrow) for wide, narrow in pairs)
        self.decoder: Any = nn.ModuleList(nn.Linear(narrow, wide) for wide, narrow in reversed(pairs))
        for layer in (*self.encoder, *self.decoder):
            nn.init.xavier_uniform_(layer.weight, gain=4.0)  # of the sigmoid (Glorot and Bengio 2010)
            nn.init.zeros_(layer.bias)

    def encode(self, rows: csr_array) -> Float[Tensor, "rows dim"]:
        """Return the vectors of sparse rows of the adjacency matrix; zeros cost nothing."""
        first = self.encoder[0]
        found = functional.embedding_bag(
            torch.from_numpy(rows.indices.astype(np.int64)),
            first.weight.T,
            torch.from_numpy(rows.indptr[:-1].astype(np.int64)),
            mode="sum",
            per_sample_weights=torch.from_numpy(rows.data).to(first.weight),
        )
        found = (found + first.bias).sigmoid()
        for layer in self.encoder[1:]:
            found = layer(found).sigmoid()
        return found

    def decode(self, vectors: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows nodes"]:
        """Return the rows as they are reconstructed from the vectors."""
        for layer in self.decoder:
            vectors = layer(vectors).sigmoid()
        return vectors


def second_order(
    network: DeepAutoencoder, rows: csr_array, vectors: Float[Tensor, "rows dim"], beta: float
) -> Float[Tensor, ""]:
    r"""Return :math:`\sum_i \lVert (\hat x_i - x_i) \odot b_i \rVert^2`, with b = `beta` at edges and 1 elsewhere."""
    wanted = torch.from_numpy(rows.toarray()).to(vectors)
    wrong = network.decode(vectors) - wanted
    return (wrong * torch.where(wanted > 0, beta, 1.0)).square().sum()


def first_order(
    one: Float[Tensor, "pairs dim"], other: Float[Tensor, "pairs dim"], weights: Float[Tensor, " pairs"]
) -> Float[Tensor, ""]:
    r"""Return :math:`\sum s_{ij} \lVert y_i - y_j \rVert^2` over pairs."""
    return weights @ (one - other).square().sum(dim=1)


def regularisation(network: DeepAutoencoder) -> Float[Tensor, ""]:
    r"""Return :math:`\frac{1}{2} \sum_k \lVert W^{(k)} \rVert^2 + \lVert \hat W^{(k)} \rVert^2`, without biases."""
    layers = (*network.encoder, *network.decoder)
    return 0.5 * torch.stack([layer.weight.square().sum() for layer in layers]).sum()


def mixed_loss(
    network: DeepAutoencoder,
    adjacency: csr_array,
    rows: Int[Array, " rows"],
    arcs: tuple[Int[Array, " arcs"], Int[Array, " arcs"], Float[Array, " arcs"]],
    *,
    alpha: float,
    beta: float,
    nu: float,
) -> Float[Tensor, ""]:
    r"""Return the loss of rows of the adjacency matrix S and of some arcs, as a share of that of the whole network.

    .. math::

        L_{mix} = \lVert (\hat X - X) \odot B \rVert_F^2 + \alpha \sum_{ij} s_{ij} \lVert y_i - y_j \rVert_2^2
            + \frac{\nu}{2} \sum_k \left( \lVert W^{(k)} \rVert_F^2 + \lVert \hat W^{(k)} \rVert_F^2 \right)

    Parameters
    ----------
    network, adjacency
        What is learned; X = S.
    rows
        Nodes whose rows are reconstructed.
    arcs
        Places in `rows` of their sources, their targets, and their weights. With all rows and all arcs the loss is
        exactly that of the network; with one arc of each row, drawn in proportion to its weight and given the sum of
        the row's weights, it is so in expectation.
    alpha, beta, nu
        Weights of first order, of edges in the reconstruction, and of the regularisation.
    """
    part = adjacency[rows]
    vectors = network.encode(part)
    source, target, weights = arcs
    near = first_order(
        vectors[torch.from_numpy(source)],
        network.encode(adjacency[target]),
        torch.from_numpy(weights).to(vectors),
    )
    share = len(rows) / adjacency.shape[0]
    return second_order(network, part, vectors, beta) + alpha * near + nu * share * regularisation(network)


def pretrain(
    network: DeepAutoencoder,
    adjacency: csr_array,
    *,
    epochs: int,
    batch_size: int,
    generator: torch.Generator,
) -> None:
    """Set the weights to those of a stack of restricted Boltzmann machines, each of the hidden layer of the one below.

    The encoder takes weights and hidden biases, the decoder the transposed weights and visible biases.
    """

    def batches() -> Iterator[Tensor]:
        order = torch.randperm(adjacency.shape[0], generator=generator)
        for rows in order.split(batch_size):
            yield torch.from_numpy(adjacency[rows.numpy()].toarray()).float()

    layers = list(zip(network.encoder, reversed(network.decoder), strict=True))
    with torch.no_grad():
        sizes = [down.out_features for down, _ in layers]
        stack = fit_stack(batches, sizes, epochs=epochs, generator=generator)
        for (down, up), machine in zip(layers, stack, strict=True):
            down.weight.copy_(machine.weights)
            down.bias.copy_(machine.hidden_bias)
            up.weight.copy_(machine.weights.T)
            up.bias.copy_(machine.visible_bias)


def fit_sdne(
    adjacency: csr_array,
    hidden: Sequence[int],
    dim: int,
    *,
    alpha: float = 0.1,
    beta: float = 10.0,
    nu: float = 1e-4,
    pretraining: int = 5,
    epochs: int = 50,
    tolerance: float = 1e-3,
    batch_size: int = 128,
    learning_rate: float = 3e-3,
    seed: int = 0,
    advance: Callable[..., None] | None = None,
) -> tuple[DeepAutoencoder, list[float]]:
    """Learn an autoencoder of a network; return it with the mean loss of a node in each epoch.

    Batches of rows are cut from the sparse adjacency matrix, each with one arc of every row; Adam moves the weights
    until the loss has not fallen by `tolerance` of itself for ten epochs, or `epochs` are over. Nothing is as large
    as nodes times nodes. Cost of an epoch: nodes times (nodes times the last hidden size) for the reconstruction.

    Parameters
    ----------
    adjacency
        Weights from 0 to 1.
    hidden, dim
        Sizes of the layers between the rows and the vectors, and of the vectors.
    alpha, beta, nu
        See `mixed_loss`.
    pretraining
        Epochs of each restricted Boltzmann machine; 0 for random weights.
    epochs, tolerance, batch_size, learning_rate
        Of the training.
    seed
        Of all draws.
    advance
        Called after each epoch.

    References
    ----------
    Wang, Cui & Zhu (2016), Structural deep network embedding.
    """
    size = adjacency.shape[0]
    torch_generator, draws = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = DeepAutoencoder([size, *hidden, dim])
    rates = torch.from_numpy(adjacency.mean(axis=0)).float()
    with torch.no_grad():
        network.decoder[-1].bias.copy_(rates.clamp(1 / size**2, 1 - 1 / size**2).logit())
    if pretraining:
        pretrain(network, adjacency, epochs=pretraining, batch_size=batch_size, generator=torch_generator)
    optimizer = light(torch.optim.Adam)(network.parameters(), lr=learning_rate)
    # One running sum over all arcs: a row's arcs are drawn by where a number in its stretch falls.
    reach = np.concatenate([[0.0], np.cumsum(adjacency.data, dtype=np.float64)])
    begin, end = reach[adjacency.indptr[:-1]], reach[adjacency.indptr[1:]]
    losses: list[float] = []
    for _ in range(epochs):
        total = 0.0
        for rows in np.array_split(draws.permutation(size), max(1, round(size / batch_size))):
            place = begin[rows] + draws.random(len(rows)) * (end - begin)[rows]
            arc = np.searchsorted(reach, place, side="right") - 1
            arc = np.clip(arc, adjacency.indptr[rows], adjacency.indptr[rows + 1] - 1)
            arcs = np.arange(len(rows)), adjacency.indices[arc], (end - begin)[rows]
            loss = mixed_loss(network, adjacency, rows, arcs, alpha=alpha, beta=beta, nu=nu)
            optimizer.zero_grad()
            (loss / len(rows)).backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / size)
        if not np.isfinite(total):
            raise TrainingError(
                f"SDNE diverged in epoch {len(losses)}; take a learning_rate below {learning_rate}"
            )
        if advance is not None:
            advance(1, f"(loss {losses[-1]:.4g})")
        if len(losses) > PATIENCE and min(losses[-PATIENCE:]) > (1 - tolerance) * min(losses[:-PATIENCE]):
            break
    return network, losses
