"""Embedding: the base class of embedded inference algorithms, from a batch of structures to node embeddings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import nn
from torch.nn import functional

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.inputs import FeatureSizes, Inputs, Projection
from hiddenfield.errors import InputError
from hiddenfield.ops import Topology, cavity_sum, gather_sum
from hiddenfield.registry import Registry, choose
from hiddenfield.shapes import Float, Tensor

Self = TypeVar("Self")


@runtime_checkable
class Prepared(Protocol):
    """What `Embedding.prepare` returns: one entry per structure, cut and moved like the structures."""

    def __getitem__(self: Self, index: Any) -> Self:
        """Return the entries of the chosen structures."""

    def to(self: Self, device: torch.device | str) -> Self:
        """Return it on a device."""


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "softplus": functional.softplus,
}


class Embedding(nn.Module, ABC):
    r"""T rounds of an inference algorithm whose messages are learned vectors, with weights shared by the rounds.

    Subclasses define `make_weights` and `forward`, and register themselves in `EMBEDDINGS`. All return the node
    embeddings :math:`\tilde\mu_i` and take these parameters; x are node features, e arc features, :math:`N(i)` the
    nodes with an arc to i. Matrices start with Glorot's uniform values, messages at zero.

    Parameters
    ----------
    sizes
        The features of the structures that will come.
    dim
        Length d of messages and embeddings.
    rounds
        T, at least 1.
    activation
        The nonlinearity :math:`\sigma`: relu, as in the paper, or another of `ACTIVATIONS`.
    bias
        Whether a constant is added before :math:`\sigma`.
    """

    stackable: bool = False
    """Whether several networks can run side by side: `forward` multiplies rows by matrices with `product` alone."""

    def __init__(
        self,
        sizes: FeatureSizes,
        *,
        dim: int = 64,
        rounds: int = 4,
        activation: str = "relu",
        bias: bool = True,
    ) -> None:
        super().__init__()
        for name, value in (("dim", dim), ("rounds", rounds)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} must be an integer of at least 1, got {value!r}")
        self.sizes, self.dim, self.rounds, self.bias = sizes, dim, rounds, bool(bias)
        self.activation_name = activation
        self.activation = choose("activation", ACTIVATIONS, activation)
        self.make_weights()

    @abstractmethod
    def make_weights(self) -> None:
        """Make the matrices of the equations; called when the module is built."""

    def prepare(self, structures: Structures) -> tuple[Prepared, ...]:
        """Return what else `forward` needs, one entry per structure; computed once, cut like the structures."""
        return ()

    @abstractmethod
    def forward(
        self, structures: Structures, *prepared: Prepared, every_round: bool = False
    ) -> Float[Tensor, "nodes width"]:
        """Return (nodes, dim) after the last round or, with `every_round`, (nodes, rounds * dim) of all of them."""

    def result(self, states: Sequence[Tensor], every_round: bool) -> Float[Tensor, "nodes width"]:
        """Return what `forward` returns, of the embeddings after each round."""
        return torch.cat(tuple(states), dim=1) if every_round else states[-1]

    # -- features and weights ------------------------------------------------------------------------------

    def node_projection(self, *, bias: bool = False) -> Projection:
        """Make a map of node features to messages."""
        return Projection(self.sizes.node_labels, self.sizes.node_attributes, self.dim, bias=bias)

    def arc_projection(self) -> Projection | None:
        """Make a map of arc features to messages, None where arcs carry none."""
        if not self.sizes.has_arcs:
            return None
        return Projection(self.sizes.arc_labels, self.sizes.arc_attributes, self.dim)

    def matrix(self) -> nn.Parameter:
        """Make a (dim, dim) matrix."""
        return nn.Parameter(nn.init.xavier_uniform_(torch.empty(self.dim, self.dim)))

    def node_inputs(self, structures: Structures) -> Inputs:
        """Take the nodes' features of a batch."""
        return Inputs.of_nodes(structures, self.sizes, self.dtype)

    def arc_inputs(self, structures: Structures) -> Inputs:
        """Take the arcs' features of a batch."""
        return Inputs.of_arcs(structures, self.sizes, self.dtype)

    # -- sums over arcs ------------------------------------------------------------------------------------

    def gathered(self, values: Tensor, topology: Topology, constant: Tensor) -> Float[Tensor, "nodes dim"]:
        r"""Return :math:`\sigma(c_i + \sum_{j \to i} x_j)`, in one pass where :math:`\sigma` is relu."""
        constant = constant.to(values.dtype)  # mixed precision: products come out in the lower one
        if self.activation_name == "relu":
            return gather_sum(values, topology, constant, rectify=True)
        return self.activation(gather_sum(values, topology, constant))

    def cavity(
        self,
        messages: Tensor,
        topology: Topology,
        constant: Tensor,
        message_kind: Tensor | None = None,
        constant_kind: Tensor | None = None,
    ) -> Float[Tensor, "arcs dim"]:
        r"""Return :math:`\sigma(c_{ij} + \sum_{k \in N(i) \setminus j} m_{ki})`, likewise; kinds as in `cavity_sum`."""
        constant = constant.to(messages.dtype)
        rectify = self.activation_name == "relu"
        kinds = {"message_kind": message_kind, "constant_kind": constant_kind}
        result = cavity_sum(messages, topology, constant, rectify=rectify, **kinds)
        return result if rectify else self.activation(result)

    @property
    def dtype(self) -> torch.dtype:
        """Number type of the weights."""
        return next(self.parameters()).dtype

    def settings(self) -> dict[str, Any]:
        """Return the options that build the same module again, given the sizes."""
        return {"dim": self.dim, "rounds": self.rounds, "activation": self.activation_name, "bias": self.bias}


EMBEDDINGS: Registry[type[Embedding]] = Registry("embedding", "hiddenfield.embedding")
