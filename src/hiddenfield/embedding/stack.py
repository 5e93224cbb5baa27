"""PredictorStack: several networks as one, each on its own part of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import nn

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import Prepared
from hiddenfield.embedding.inputs import DENSE_SYMBOLS
from hiddenfield.embedding.members import members_of
from hiddenfield.embedding.predictor import Predictor
from hiddenfield.shapes import Float, Tensor

# Where the nonlinearity keeps 0, a narrow network is a wide one whose other weights are 0 and stay so: what they read
# is 0, and so is the gradient of what they give.
KEEP_ZERO = ("relu", "tanh", "gelu", "silu")


class PredictorStack(nn.Module):
    """Several networks of one kind, which are computed at once.

    Every weight is a copy of the networks' weights with one more axis, the first. A small network keeps a GPU waiting
    for its launches; a hundred of them side by side take hardly longer than one. Each gives what it gives alone, up to
    rounding. Narrower networks are filled up with zeros.

    Parameters
    ----------
    networks
        Of the same `stack_kind`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.embedding import FeatureSizes
    >>> from hiddenfield.embedding.members import SharedBatch
    >>> words = hf.data.from_sequences(["GATTACA", "CAT", "A"])
    >>> networks = [Predictor(FeatureSizes.of(words), outputs=1, dim=dim) for dim in (8, 4)]
    >>> stack = PredictorStack(networks)
    >>> outputs = stack(SharedBatch.of(words, torch.tensor([0, 2, 3])))
    >>> torch.allclose(outputs[2:], networks[1](words[[2]]), atol=1e-6)
    True
    """

    scales: Tensor

    def __init__(self, networks: Sequence[Predictor]) -> None:
        super().__init__()
        self.network = deepcopy(networks[0])
        self.network.scale = 1.0
        self.register_buffer("scales", torch.tensor([network.scale for network in networks]))
        states = [network.state_dict() for network in networks]
        for name, tensor in list(self.network.named_parameters()):
            _replace(
                self.network, name, nn.Parameter(_stacked([s[name] for s in states]), tensor.requires_grad)
            )
        for name, _ in list(self.network.named_buffers()):
            _replace(self.network, name, _stacked([state[name] for state in states]))

    def forward(
        self,
        structures: Structures,
        *prepared: Prepared,
    ) -> Float[Tensor, "structures outputs"]:
        """Return (structures, outputs) for a `SharedBatch`, each structure's by the network that it belongs to."""
        blocks = members_of(structures).structures
        assert blocks is not None
        embeddings = self.network.embed(structures, *prepared)
        scales = self.scales.to(embeddings.dtype).index_select(0, blocks.owner)
        return self.network.head(embeddings / scales[:, None], blocks)


def write_members(networks: Sequence[Predictor], weights: dict[str, Tensor]) -> None:
    """Copy weights with a first axis over the networks, as those of a `PredictorStack`, into the networks."""
    place = next(networks[0].parameters()).device
    host = {name: tensor.to(place) for name, tensor in weights.items()}
    for number, network in enumerate(networks):
        for name, tensor in network.state_dict().items():
            tensor.copy_(part_of(host[name], number, tensor))


def part_of(stacked: Tensor, number: int, own: Tensor) -> Tensor:
    """Return the part of stacked numbers that belongs to one network, of the size of its own."""
    return stacked[number][tuple(slice(size) for size in own.shape)]


def member_views(stacked: Predictor, networks: Sequence[Predictor]) -> list[Predictor]:
    """Return networks whose weights are those of a stack, each its own part of the same memory.

    Parameters
    ----------
    stacked
        The network of a `PredictorStack`.
    networks
        Those that it was made of.
    """
    whole = {**dict(stacked.named_parameters()), **dict(stacked.named_buffers())}
    views = []
    for number, network in enumerate(networks):
        view = deepcopy(network).to(next(stacked.parameters()).device).train(stacked.training)
        for name, own in [*view.named_parameters(), *view.named_buffers()]:
            part = part_of(whole[name].detach(), number, own)
            trained = isinstance(own, nn.Parameter)
            _replace(view, name, nn.Parameter(part, own.requires_grad) if trained else part)
        views.append(view)
    return views


def stack_kind(network: Predictor) -> str | None:
    """Return what networks that can be stacked have in common; None for one that cannot.

    Examples
    --------
    >>> from hiddenfield.embedding import FeatureSizes
    >>> kinds = [stack_kind(Predictor(FeatureSizes(), 1, dim=dim, dropout=dim / 100)) for dim in (8, 16)]
    >>> kinds[0] == kinds[1]
    True
    """
    sizes = network.embedding.sizes
    # Side by side the one-hot vectors are formed, which costs too much of a large vocabulary.
    if not network.embedding.stackable or max(sum(sizes.node_labels), sum(sizes.arc_labels)) > DENSE_SYMBOLS:
        return None
    free = {"dropout", "scale"}
    if (
        network.embedding.activation_name in KEEP_ZERO
        and not network.every_round
        and network.node_layer is None
    ):
        free |= {"dim", "hidden"}
    fixed = {name: value for name, value in sorted(network.settings().items()) if name not in free}
    return repr((fixed, sizes))


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Return them side by side, the smaller ones filled up with zeros."""
    shape = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors), strict=True)]
    result = tensors[0].new_zeros(len(tensors), *shape)
    for own, tensor in zip(result, tensors, strict=True):
        own[tuple(slice(size) for size in tensor.shape)] = tensor
    return result


def _replace(module: nn.Module, name: str, value: Tensor) -> None:
    """Put another tensor where a parameter or buffer of that dotted name is."""
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, part)
    setattr(module, last, value)
