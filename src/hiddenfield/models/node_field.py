r"""A field over the labels of nodes whose potentials are embeddings: structure2vec under a conditional random field.

With :math:`\tilde\mu_i` the embedding of node i, which has seen the structure around it, a head f, and tables,

.. math::

    p(y \mid \chi) \propto \exp\Bigl(\sum_i f(\tilde\mu_i)[y_i] + \sum_{(i,j)} T_{k(i,j)}[y_i, y_j]\Bigr) .

The gradient with respect to potentials and tables is the difference of expectations with the labels and without; from
there it goes on through the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import Prepared
from hiddenfield.embedding.inputs import FeatureSizes
from hiddenfield.embedding.predictor import Predictor
from hiddenfield.errors import InputError
from hiddenfield.models.crf import Field, Kind, allowed_states, edges_of, symmetric
from hiddenfield.shapes import Array, Float, Tensor


class NodeField(Predictor):
    """Embeddings, a head on every node, and a table for each kind of edge.

    Parameters
    ----------
    sizes
        The features of the structures that will come.
    states
        States of a node: labels times hidden states of each.
    kinds
        The kinds of edges.
    hidden_states
        States of one label.
    method
        How sums over labels are computed; see `Field`.
    options
        As of `Predictor`.
    """

    def __init__(
        self,
        sizes: FeatureSizes,
        states: int,
        *,
        kinds: Sequence[Kind],
        hidden_states: int = 1,
        method: str = "auto",
        **options: Any,
    ) -> None:
        super().__init__(sizes, states, **options)
        self.kinds, self.hidden_states, self.method = tuple(kinds), hidden_states, method
        self.tables = nn.Parameter(torch.zeros(len(self.kinds), states, states))

    def potentials(self, structures: Structures, *prepared: Prepared) -> Float[Tensor, "nodes states"]:
        """Return the log potentials of nodes."""
        return self.head(self.nodes(structures, *prepared))

    def forward(self, structures: Structures, *prepared: Prepared) -> Float[Tensor, "structures 3"]:
        """Return of every structure the log-likelihood of its known labels, their number, and how many are right.

        The labels are the codes in the first column of `node_targets`; NaN is not known.
        """
        unary = self.potentials(structures, *prepared)
        assert structures.node_targets is not None
        codes = structures.node_targets[:, 0].double().cpu().numpy()
        fields = Field(edges_of(structures, self.kinds), unary.shape[1], self.method)
        return _LabelLikelihood.apply(unary, self.tables, fields, codes, self.hidden_states)

    def settings(self) -> dict[str, Any]:
        """Return the options that build the same network again, given the sizes; plain values."""
        kinds = [list(kind) for kind in self.kinds]
        return super().settings() | {
            "kinds": kinds, "hidden_states": self.hidden_states, "method": self.method
        }  # fmt: skip


class _LabelLikelihood(torch.autograd.Function):
    """Log-likelihoods of labels, computed in double precision in host memory; all structures must count alike."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, unary: Tensor, tables: Tensor, fields: Field, codes: Array, hidden_states: int
    ) -> Tensor:
        own = unary.detach().double().cpu().numpy()
        pairs = symmetric(tables.detach().double().cpu().numpy(), fields.edges)
        allowed = allowed_states(codes, own.shape[1] // hidden_states, hidden_states)
        free = fields.expected(own, pairs)
        given = fields.expected(np.where(allowed, own, -np.inf), pairs)
        by_label = free.nodes.reshape(len(own), -1, hidden_states).sum(2)
        known, ptr = ~np.isnan(codes), fields.edges.node_ptr
        owner = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
        count, right = (
            np.bincount(owner, weights, len(ptr) - 1)
            for weights in (known, known & (by_label.argmax(1) == codes))
        )
        ctx.nodes, ctx.pairs = given.nodes - free.nodes, symmetric(given.pairs - free.pairs, fields.edges)
        return torch.from_numpy(np.stack([given.log_partition - free.log_partition, count, right], 1)).to(
            unary
        )

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        by_value = gradient[:, 0]
        if not len(by_value):
            return None, None, None, None, None
        if not bool((by_value == by_value[0]).all()):
            raise InputError(
                "the log-likelihoods of labels can be differentiated together only if all count alike"
            )
        nodes, pairs = (by_value[0] * torch.from_numpy(part).to(gradient) for part in (ctx.nodes, ctx.pairs))
        return nodes, pairs, None, None, None


@dataclass(frozen=True)
class LabelTask:
    """The labels of nodes as a learning problem for `train`: minus the log-likelihood of a known label.

    Parameters
    ----------
    labels
        Their number.
    """

    labels: int
    of_nodes = True

    @property
    def kind(self) -> str:
        """What tasks whose networks are trained side by side must have in common."""
        return f"{self.labels} labels of nodes"

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of what `metrics` returns."""
        return ("accuracy",)

    def check(self, structures: Structures, what: str) -> None:
        """Check that a node has a label; `what` names the structures in an error."""
        if structures.node_targets is None or bool(structures.node_targets.isnan().all()):
            raise InputError(f"no node of the {what} has a label")

    def standardize(self, targets: Tensor) -> Tensor:
        """Return the targets of structures, which have no meaning, as they are."""
        return targets

    def entries(self, outputs: Tensor, standardized: Tensor) -> tuple[Tensor, Tensor]:
        """Return minus the log-likelihood of every structure's labels, and their number."""
        return -outputs[:, 0], outputs[:, 1].detach()

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Return the share of known labels whose most likely label is right."""
        return {"accuracy": float(outputs[:, 2].sum() / outputs[:, 1].sum().clamp(min=1))}

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def with_labels(structures: Structures, codes: Float[Array, " nodes"]) -> Structures:
    """Return structures with the codes of labels as node targets, and targets of their own that mean nothing."""
    return structures.replace(
        targets=torch.zeros(len(structures), 1),
        target_names=("labels",),
        target_vocabularies=(None,),
        node_targets=torch.from_numpy(codes)[:, None],
        node_target_names=("label",),
        node_target_vocabularies=(None,),
    )
