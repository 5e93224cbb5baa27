"""Fisher's kernel by a pairwise field: graphs whose nodes have labels that depend on those of their neighbours."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import Interval

from hiddenfield.data.structures import Structures
from hiddenfield.errors import ConvergenceWarning
from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.inference.infer import infer
from hiddenfield.kernels.base import CHUNK, KERNELS, Labels
from hiddenfield.kernels.generative import FisherKernel
from hiddenfield.shapes import Array, Float, Int

TOLERANCE, DAMPING, SWEEPS = 1e-10, 0.25, 1000
"""Of belief propagation."""
STEPS = 100
"""Of learning, at most."""


@dataclass(frozen=True, eq=False)
class PairwiseField:
    r"""A distribution of the labels of a graph's nodes, given its edges.

    .. math:: p(x) \propto \exp\Bigl(\sum_i a_{x_i} + \sum_{\{i, j\}} b^{(e_{ij})}_{x_i x_j}\Bigr),
        \qquad b^{(e)}_{st} = b^{(e)}_{ts}

    Parameters
    ----------
    nodes, arcs
        The labels: s and t, and e.
    weights
        First a, then for each e the upper triangle of b.
    """

    nodes: Labels
    arcs: Labels
    weights: Float[Array, " weights"]

    @property
    def potentials(self) -> tuple[Float[Array, " labels"], Float[Array, "kinds labels labels"]]:
        """A and b."""
        size = len(self.nodes)
        upper = np.triu_indices(size)
        tables = np.zeros((len(self.arcs), size, size))
        tables[:, upper[0], upper[1]] = self.weights[size:].reshape(len(self.arcs), len(upper[0]))
        tables[:, upper[1], upper[0]] = tables[:, upper[0], upper[1]]
        return self.weights[:size], tables

    def expected(
        self, structures: Structures, *, given: bool
    ) -> tuple[Float[Array, "structures weights"], Float[Array, " structures"]]:
        """Return how often each weight counts in each structure, in expectation, and the log partition.

        By belief propagation over all graphs at once: exact on trees, elsewhere those of Bethe's approximation.

        Parameters
        ----------
        structures
            N of them.
        given
            Whether labels that are known are given.
        """
        found: tuple[list[Array], list[Array]] = [np.zeros((0, len(self.weights)))], [np.zeros(0)]
        size = len(self.nodes)
        cells = structures.arc_ptr.cpu().numpy() * size**2 + structures.node_ptr.cpu().numpy() * size
        start = 0
        while start < len(structures):
            stop = max(start + 1, int(np.searchsorted(cells, cells[start] + 4 * CHUNK, side="right")) - 1)
            for parts, one in zip(found, self._expected(structures[start:stop], given), strict=True):
                parts.append(one)
            start = stop
        return np.concatenate(found[0]), np.concatenate(found[1])

    def _expected(self, structures: Structures, given: bool) -> tuple[Array, Array]:
        size, nodes = len(self.nodes), structures.total_nodes
        if not size or not nodes:
            return np.zeros((len(structures), len(self.weights))), np.zeros(len(structures))
        unary, tables = self.potentials
        log_unary = np.tile(unary, (nodes, 1))
        if given:
            numbers, _ = Labels.number(structures, "node", self.nodes)
            other = np.arange(size) != numbers[:, None]
            log_unary[other & (numbers >= 0)[:, None]] = -np.inf
        scopes, kinds = self._edges(structures)
        pairs = FactorGroup(
            torch.from_numpy(scopes),
            torch.from_numpy(tables),
            torch.from_numpy(kinds),
            torch.ones(len(kinds), dtype=torch.float64),
        )
        field = FactorGraph(
            torch.full((nodes,), size),
            torch.from_numpy(log_unary.reshape(-1)),
            (pairs,) if len(kinds) else (),
            structures.node_ptr.cpu().long(),
            torch.ones(nodes, dtype=torch.float64),
            torch.zeros(len(structures), dtype=torch.float64),
        )
        posterior = infer(field, "loopy_bp", tolerance=TOLERANCE, damping=DAMPING, max_iterations=SWEEPS)
        owner = structures.structure_of_node.cpu().numpy()
        singles = np.zeros((len(structures), size))
        np.add.at(singles, owner, posterior.log_marginals.exp().numpy().reshape(nodes, size))
        doubles = np.zeros((len(structures), len(self.arcs), size, size))
        if len(kinds):
            np.add.at(doubles, (owner[scopes[:, 0]], kinds), posterior.factor_marginals[0].numpy())
        low, high = np.triu_indices(size)
        counted = doubles[:, :, low, high] + np.where(low == high, 0.0, doubles[:, :, high, low])
        rest = len(self.weights) - size
        counts = np.concatenate([singles, counted.reshape(len(structures), rest)], axis=1)
        return counts, posterior.log_partition.numpy()

    def _edges(self, structures: Structures) -> tuple[Int[Array, "edges 2"], Int[Array, " edges"]]:
        """Return the pairs of nodes that any arc joins, and the smallest number of a label of these arcs."""
        numbers, _ = Labels.number(structures, "arc", self.arcs)
        ends = np.stack([structures.source.cpu().numpy(), structures.target.cpu().numpy()])
        kept = (numbers >= 0) & (ends[0] != ends[1])
        low, high, numbers = ends.min(axis=0)[kept], ends.max(axis=0)[kept], numbers[kept]
        order = np.lexsort((numbers, high, low))
        scopes = np.stack([low, high], axis=1).astype(np.int64)[order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = (scopes[1:] != scopes[:-1]).any(axis=1)
        return scopes[first], numbers[order][first].astype(np.int64)

    @classmethod
    def learn(cls, structures: Structures, prior: float) -> PairwiseField:
        """Climb the log-likelihood of all structures and a Gaussian prior of this variance."""
        from scipy.optimize import minimize

        (_, nodes), (_, arcs) = (Labels.number(structures, kind) for kind in ("node", "arc"))
        width = len(nodes) + len(arcs) * len(nodes) * (len(nodes) + 1) // 2
        empty = cls(nodes, arcs, np.zeros(width))
        observed = empty.expected(structures, given=True)[0].sum(axis=0)

        def falling(weights: Array) -> tuple[float, Array]:
            counts, log_partition = replace(empty, weights=weights).expected(structures, given=False)
            value = weights @ observed - log_partition.sum() - weights @ weights / (2 * prior)
            return -value, counts.sum(axis=0) + weights / prior - observed

        options = {"maxiter": STEPS, "gtol": 1e-8, "ftol": 1e-14}
        with warnings.catch_warnings():  # steps that go too far are taken back
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = minimize(falling, empty.weights, jac=True, method="L-BFGS-B", options=options)
        return replace(empty, weights=found.x)


@KERNELS.register(
    "fisher_field",
    input="graphs",
    summary="how graphs would change a pairwise field of all",
    reference="Jaakkola & Haussler 1999",
    learned=True,
)
@dataclass(kw_only=True, eq=False, repr=False)
class FisherField(FisherKernel):
    """Compare the Fisher scores of graphs under a pairwise field of their labels, which is learned from all of them.

    The score is what is observed minus what is expected given the edges alone: labels of nodes, and pairs of labels at
    the ends of edges of each label. Exact on trees; on other graphs expectations are those of belief propagation.
    Unknown labels are summed out. Directions of arcs are not used. The other parameters are those of `FisherKernel`.

    Parameters
    ----------
    prior
        Variance of the weights.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AAAA", "AAA", "BBBB", "BABA"])
    >>> FisherField(normalise=True).fit(words).gram(words).shape
    (4, 4)
    """

    prior: float = 1.0

    _parameter_constraints: ClassVar[dict[str, Any]] = FisherKernel._parameter_constraints | {
        "prior": [Interval(Real, 0, None, closed="neither")],
    }

    def _learn(self, structures: Structures) -> PairwiseField:
        return PairwiseField.learn(structures, self.prior)

    def _scores(self, structures: Structures, model: PairwiseField) -> Float[Array, "structures free"]:
        observed, _ = model.expected(structures, given=True)
        return observed - model.expected(structures, given=False)[0]
