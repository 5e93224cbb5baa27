"""Embedding: the base class of embedded inference algorithms, from a batch of structures to node embeddings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import nn

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.inputs import FeatureSizes, Inputs, Projection
from hiddenfield.embedding.members import Members, members_of, product
from hiddenfield.errors import InputError
from hiddenfield.ops import (
    Plan,
    Round,
    Topology,
    arc_sum,
    cavity_sum,
    gather_sum,
    message_rounds,
    reverse_messages,
    send,
)
from hiddenfield.ops.rounds import ACTIVATIONS as ACTIVATIONS, fused
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

    capturable: bool = False
    """Whether steps of training can be captured as CUDA graphs: nothing is prepared, and nothing waits for a device."""

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
        return Inputs.of(structures, "node", self.sizes, self.dtype)

    def arc_inputs(self, structures: Structures) -> Inputs:
        """Take the arcs' features of a batch."""
        return Inputs.of(structures, "arc", self.sizes, self.dtype)

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

    def fuses(self, structures: Structures) -> bool:
        """Say whether rounds on these structures run as one op, `message_rounds`."""
        half = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") is torch.float16
        return (
            members_of(structures).nodes is None
            and not half
            and fused(next(self.parameters()), self.dim, structures.topology)
        )

    def run_rounds(
        self,
        structures: Structures,
        rounds: Sequence[Round],
        wanted: Sequence[int],
        weights: Sequence[Tensor],
        constants: Sequence[tuple[Tensor, Tensor | None]],
    ) -> tuple[Tensor, ...]:
        """Run rounds as one op, in the precision that products have at present; every constant with its kinds."""
        low = torch.is_autocast_enabled("cuda")
        precision = "bf16" if low else "tf32" if torch.backends.cuda.matmul.allow_tf32 else "exact"
        plan = Plan(tuple(rounds), tuple(wanted), precision, self.activation_name)
        rows, kinds = zip(*constants, strict=True)
        matrices = [weight.contiguous() for weight in weights]
        return message_rounds(plan, structures.topology, matrices, [c.float() for c in rows], kinds)

    @property
    def dtype(self) -> torch.dtype:
        """Number type of the weights."""
        return next(self.parameters()).dtype

    def settings(self) -> dict[str, Any]:
        """Return the options that build the same module again, given the sizes."""
        return {"dim": self.dim, "rounds": self.rounds, "activation": self.activation_name, "bias": self.bias}


class MessageEmbedding(Embedding):
    """The weights of embeddings whose messages go along arcs; `sent_by` and `kept_by` name the further matrices."""

    stackable = True
    sent_by: tuple[str, ...] = ()
    kept_by: tuple[str, ...] = ()

    sender: Projection
    arcs: Projection | None
    messages: nn.Parameter
    own: Projection
    received: nn.Parameter

    def make_weights(self) -> None:
        """Make the matrices of the equations: those of messages, then those of marginals."""
        self.sender, self.arcs = self.node_projection(bias=self.bias), self.arc_projection()
        for name in ("messages", *self.sent_by):
            setattr(self, name, self.matrix())
        self.own = self.node_projection(bias=self.bias)
        for name in ("received", *self.kept_by):
            setattr(self, name, self.matrix())


class SumEmbedding(MessageEmbedding):
    r"""Messages made of the sum of all that arrived at the sender, with some of the reverse message and the marginal.

    .. math::
        \tilde\nu_{ij} &\leftarrow \sigma\Bigl(W_1 x_i + W_e e_{ij} + W_2 S_i + r(\tilde\nu_{ji})
        + W_6 \tilde\mu_i\Bigr), \qquad S_i = \sum_{k \in N(i)} v_{ki} \tilde\nu_{ki} \\
        \tilde\mu_i &\leftarrow \sigma\Bigl(W_3 x_i + W_4 S_i + W_7 \tilde\mu_i\Bigr)

    Subclasses say what r and v are; :math:`W_6` and :math:`W_7` are there where the class names them.
    """

    sender_marginal: nn.Parameter
    own_marginal: nn.Parameter

    def from_reverse(self, messages: Tensor, weight: Tensor | None, members: Members) -> Tensor | None:
        """Return r of every message, None where it is 0."""
        return None

    def arc_weights(
        self, structures: Structures, prepared: tuple[Prepared, ...], arcs: Tensor | None
    ) -> Float[Tensor, "arcs 1"] | None:
        """Return v, None where it is 1; `arcs` are the mapped features."""
        return None

    def forward(
        self, structures: Structures, *prepared: Prepared, every_round: bool = False
    ) -> Float[Tensor, "nodes width"]:
        """Return the node embeddings."""
        return self.result(self.run(structures, prepared, every_round)[0], every_round)

    def run(
        self, structures: Structures, prepared: tuple[Prepared, ...], every_round: bool
    ) -> tuple[list[Tensor], Float[Tensor, "nodes dim"]]:
        """Return the embeddings after each round, or after the last at least, and the last sums."""
        topology, nodes = structures.topology, self.node_inputs(structures)
        members, carries = members_of(structures), bool(self.kept_by)
        sender, own = self.sender(nodes), self.own(nodes)
        arcs = None if self.arcs is None else self.arcs(self.arc_inputs(structures))
        weight = self.arc_weights(structures, prepared, arcs)
        from_node, carried, back = sender, own, None
        states: list[Tensor] = []
        for left in reversed(range(self.rounds)):
            sent = send(from_node, topology)
            if back is not None:
                sent = sent + reverse_messages(back, topology)
            messages = self.activation(sent if arcs is None else sent + arcs)
            total = arc_sum(messages if weight is None else weight * messages, topology)
            if carries or every_round or not left:
                states.append(self.activation(product(total, self.received, members.nodes, carried)))
            if left:
                from_node = product(total, self.messages, members.nodes, sender)
                back = self.from_reverse(messages, weight, members)
            if left and carries:
                from_node = product(states[-1], self.sender_marginal, members.nodes, from_node)
                carried = product(states[-1], self.own_marginal, members.nodes, own)
        return states, total


EMBEDDINGS: Registry[type[Embedding]] = Registry("embedding", "hiddenfield.embedding")
