"""Kernels by generative models: Fisher's, of one model of all structures, and probability products, of one of each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from hiddenfield.data.structures import Structures
from hiddenfield.data.table import Table, TableColumn
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.kernels.base import KERNELS, FeatureKernel, Labels, PairKernel
from hiddenfield.learning.em import fit_em
from hiddenfield.learning.protocol import Arrays
from hiddenfield.models.hidden_markov.emissions import Symbols
from hiddenfield.models.hidden_markov.forest import Forest, Sequences
from hiddenfield.models.hidden_markov.model import HiddenMarkov
from hiddenfield.models.hidden_markov.states import posteriors
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
CONCENTRATION = 1.1
"""Of the prior of the pooled model, so that no symbol becomes impossible."""
ROUNDING = 1e-9
"""Scores below it are of structures that say nothing of the model."""
TURNS, TOLERANCE = 1000, 1e-4
"""Of EM: a model to compare sequences by need not be the best to the last digit."""


@dataclass(kw_only=True, eq=False, repr=False)
class FisherKernel(FeatureKernel):
    r"""Base of kernels that compare the directions in which two structures would move a model of all.

    .. math:: k(x, y) = u_x^\top I^{-1} u_y, \qquad u_x = \nabla_\theta \log p(x \mid \hat\theta), \qquad
        I = \tfrac1N \sum_x u_x u_x^\top + \epsilon \, \bar I \, \mathbf{1}

    over the structures that are fitted, :math:`\bar I` being the mean of the diagonal. The features are
    :math:`I^{-1/2} u_x`.

    Parameters
    ----------
    information
        "full", or "diagonal": of the empirical Fisher information I.
    ridge
        :math:`\epsilon`.
    """

    information: str = "full"
    ridge: float = 0.01

    _parameter_constraints: ClassVar[dict[str, Any]] = FeatureKernel._parameter_constraints | {
        "information": [StrOptions({"full", "diagonal"})],
        "ridge": [Interval(Real, 0, None, closed="neither")],
    }

    @abstractmethod
    def _learn(self, structures: Structures) -> Any:
        """Return the model of all structures."""

    @abstractmethod
    def _scores(self, structures: Structures, model: Any) -> Float[Array, "structures free"]:
        """Return the gradient of each structure's log-likelihood."""

    def _blocks(
        self, structures: Structures, known: list[Any] | None
    ) -> Iterator[tuple[float, csr_matrix, Any]]:
        from scipy.sparse import csr_matrix

        model, root = (self._learn(structures), None) if known is None else known[0]
        width = 0 if root is None else len(root)
        scores = self._scores(structures, model) if len(structures) else np.zeros((0, width))
        scores[np.abs(scores) < ROUNDING] = 0.0
        if root is None:
            information = scores.T @ scores / max(1, len(scores))
            mean = information.diagonal().mean() if len(information) else 0.0
            information[np.diag_indices_from(information)] += self.ridge * (mean if mean > 0 else 1.0)
            if self.information == "diagonal":
                root = np.diag(information.diagonal() ** -0.5)
            else:
                values, vectors = np.linalg.eigh(information)
                root = vectors / np.sqrt(values) @ vectors.T
        yield 1.0, csr_matrix(scores @ root), (model, root)


@dataclass(frozen=True, eq=False)
class Pooled:
    """A hidden Markov model of symbols, learned from many sequences."""

    labels: Labels
    model: HiddenMarkov
    parameters: Arrays

    @classmethod
    def learn(cls, structures: Structures, num_states: int, seed: int) -> Pooled | None:
        """Learn one by EM; None where there is nothing to learn from. The order of the sequences does not matter."""
        numbers, labels = Labels.number(structures, "node")
        if not len(numbers):
            return None
        if labels.vocabularies:  # in an order that is not that of their appearance
            codes = labels.rows.values.reshape(len(labels), -1)
            labels = Labels(labels.vocabularies, labels.rows.take(np.lexsort(codes.T[::-1])))
            numbers, _ = Labels.number(structures, "node", labels)
        texts = [part.tobytes() for part in np.split(numbers, structures.node_ptr.cpu().numpy()[1:-1])]
        ordered = structures[np.array(sorted(range(len(texts)), key=texts.__getitem__), dtype=np.int64)]
        column = TableColumn("symbol", "categorical", Vocabulary("symbol", tuple(range(len(labels)))))
        every = np.ones((num_states, num_states), dtype=bool)
        emissions = [Symbols((column,), (0,), num_states, CONCENTRATION)]
        model = HiddenMarkov(emissions, every, every[0], concentration=CONCENTRATION)
        data = _sequences(ordered, labels, column)
        learned = fit_em(
            model, data, tolerance=TOLERANCE, max_iterations=TURNS, acceleration="squarem", seed=seed
        )
        return cls(labels, model, learned.parameters)

    def read(self, structures: Structures) -> Sequences:
        """Return sequences as the model takes them; unknown symbols are missing."""
        emission = self.model.emissions[0]
        assert isinstance(emission, Symbols)
        return _sequences(structures, self.labels, emission.described[0])


def _sequences(structures: Structures, labels: Labels, column: TableColumn) -> Sequences:
    numbers, _ = Labels.number(structures, "node", labels)
    values = np.where(numbers < 0, np.nan, numbers.astype(np.float64))[:, None]
    return Sequences.of(Forest.of_structures(structures), Table(values, (column,)))


@KERNELS.register(
    "fisher",
    input="sequences",
    summary="how sequences would change a hidden Markov model of all",
    reference="Jaakkola & Haussler 1999",
    learned=True,
)
@dataclass(kw_only=True, eq=False, repr=False)
class Fisher(FisherKernel):
    """Compare the Fisher scores of sequences, or trees, under a hidden Markov model that is learned from all of them.

    Scores are exact, by one pass of messages over all sequences at once. The other parameters are those of
    `FisherKernel`.

    Parameters
    ----------
    model
        A fitted model that has ``scores(structures)``, such as `hiddenfield.estimators.HiddenMarkovModel`; None for one
        of `num_states` states, learned by EM.
    num_states, random_state
        Of the model that is learned.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AAAA", "AAA", "BBBB", "BABA"])
    >>> Fisher(num_states=2, normalise=True).fit(words).gram(words).shape
    (4, 4)
    """

    model: Any = None
    num_states: int = 4
    random_state: int = 0

    _parameter_constraints: ClassVar[dict[str, Any]] = FisherKernel._parameter_constraints | {
        "model": [HasMethods("scores"), None],
        "num_states": [AT_LEAST_ONE],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def _learn(self, structures: Structures) -> Any:
        if self.model is not None:
            return self.model
        return Pooled.learn(structures, self.num_states, self.random_state)

    def _scores(self, structures: Structures, model: Any) -> Float[Array, "structures free"]:
        if model is None:
            return np.zeros((len(structures), 0))
        if isinstance(model, Pooled):
            return model.model.scores(model.read(structures), model.parameters)
        return np.array(model.scores(structures), dtype=np.float64)


Law = tuple[Array, Array, Array | None]
"""Of each structure: first states, moves, and the symbols of states; without these, states are symbols."""


@dataclass(kw_only=True, eq=False, repr=False)
class ProductKernel(PairKernel):
    r"""Base of kernels that integrate products of the distributions which a model fitted to each structure has.

    .. math:: k(x, y) = \sum_{s \in \Sigma^T} f_x(s) \, f_y(s), \qquad f_x(s) = \sum_z p_x(s, z)^\rho

    over all sequences s of T symbols, by messages on the product of the two models: exact. Without hidden states, or
    with :math:`\rho = 1`, f is a power of the probability of s. Each model has a Dirichlet prior around the model of
    all structures. A structure without nodes has no model and similarity 0 to all.

    Parameters
    ----------
    rho
        :math:`\rho`: 1 for the expected likelihood, 1/2 for Bhattacharyya's affinity.
    length
        T.
    prior_counts
        How much the prior weighs: observations for each state.
    """

    rho: float = 0.5
    length: int = 6
    prior_counts: float = 1.0

    _parameter_constraints: ClassVar[dict[str, Any]] = PairKernel._parameter_constraints | {
        "rho": [Interval(Real, 0, None, closed="neither")],
        "length": [AT_LEAST_ONE],
        "prior_counts": [Interval(Real, 0, None, closed="neither")],
    }

    def _smoothed(self, counts: Array, pooled: Array) -> Array:
        total = counts + self.prior_counts * pooled
        return (total / np.maximum(total.sum(axis=-1, keepdims=True), 1e-300)) ** self.rho

    def _compare(self, left: Law, right: Law, spans: Int[Array, "first bounds"], out: Array) -> None:
        for row, (start, stop, base) in enumerate(spans.tolist()):
            one, others = _some(left, slice(row, row + 1)), _some(right, slice(start, stop))
            out[row, start - base : stop - base] = self._integral(one, others)

    def _integral(self, one: Law, other: Law) -> Float[Array, " structures"]:
        """Sum over all sequences, for each pair of structures; a single one goes with all."""
        (start, moves, symbols), (start2, moves2, symbols2) = one, other
        if symbols is None or symbols2 is None:
            both, sums = moves * moves2, (start * start2)[:, None, :]
            for _ in range(self.length - 1):
                sums = sums @ both
            return sums.sum(axis=(1, 2))
        alike = symbols @ symbols2.swapaxes(1, 2)
        sums = start[:, :, None] * start2[:, None, :] * alike
        for _ in range(self.length - 1):
            sums = (moves.swapaxes(1, 2) @ sums @ moves2) * alike
        return sums.sum(axis=(1, 2))


def _some(law: Law, chosen: slice) -> Law:
    return law[0][chosen], law[1][chosen], None if law[2] is None else law[2][chosen]


@KERNELS.register(
    "probability_product",
    input="graphs",
    summary="Markov chains of labels along walks, one for each structure, integrated",
    reference="Jebara, Kondor & Howard 2004",
    learned=True,
)
@dataclass(kw_only=True, eq=False, repr=False)
class ProbabilityProduct(ProductKernel):
    """Integrate products of Markov chains: of each structure the labels along a random walk, estimated from its arcs.

    The parameters are those of `ProductKernel`. Labels of arcs are not used. O(N² T L²) for L labels.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["ABAB", "BABA", "AAAA"])
    >>> ProbabilityProduct(normalise=True).fit(words).gram(words).round(2)
    array([[1.  , 1.  , 0.15],
           [1.  , 1.  , 0.15],
           [0.15, 0.15, 1.  ]])
    """

    def _fit(self, structures: Structures) -> None:
        _, self.labels_ = Labels.number(structures, "node")
        nodes, moves = (each.sum(axis=0) for each in self._counts(structures))
        self.pooled_ = tuple((each + 1) / (each + 1).sum(axis=-1, keepdims=True) for each in (nodes, moves))

    def _counts(self, structures: Structures) -> tuple[Array, Array]:
        """Count the labels of each structure's nodes, and those at the ends of its arcs."""
        numbers, _ = Labels.number(structures, "node", self.labels_)
        size, owner = len(self.labels_), structures.structure_of_node.cpu().numpy()
        nodes, moves = np.zeros((len(structures), size)), np.zeros((len(structures), size, size))
        known = numbers >= 0
        np.add.at(nodes, (owner[known], numbers[known]), 1)
        source, target = structures.source.cpu().numpy(), structures.target.cpu().numpy()
        known = known[source] & known[target]
        source, target = source[known], target[known]
        np.add.at(moves, (owner[source], numbers[source], numbers[target]), 1)
        return nodes, moves

    def _read(self, structures: Structures) -> Law:
        nodes, moves = self._counts(structures)
        there = (structures.num_nodes.cpu().numpy() > 0)[:, None]
        return self._smoothed(nodes, self.pooled_[0]) * there, self._smoothed(moves, self.pooled_[1]), None


@KERNELS.register(
    "probability_product_hmm",
    input="sequences",
    summary="hidden Markov models, one for each sequence, integrated",
    reference="Jebara, Kondor & Howard 2004",
    learned=True,
)
@dataclass(kw_only=True, eq=False, repr=False)
class ProbabilityProductHMM(ProductKernel):
    """Integrate products of hidden Markov models, one for each sequence.

    A model of all sequences is learned by EM; from it every sequence's own takes one step, by expected counts of all
    sequences at once. The other parameters are those of `ProductKernel`. O(N² T K³) for K states.

    Parameters
    ----------
    num_states, random_state
        Of the models.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["ABAB", "BABA", "AAAA"])
    >>> gram = ProbabilityProductHMM(num_states=2, normalise=True).fit(words).gram(words)
    >>> bool(gram[0, 1] > gram[0, 2])
    True
    """

    num_states: int = 4
    random_state: int = 0

    _parameter_constraints: ClassVar[dict[str, Any]] = ProductKernel._parameter_constraints | {
        "num_states": [AT_LEAST_ONE],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def _fit(self, structures: Structures) -> None:
        self.pooled_ = Pooled.learn(structures, self.num_states, self.random_state)

    def _read(self, structures: Structures) -> Law:
        count, states = len(structures), self.num_states
        if self.pooled_ is None or not structures.total_nodes:
            size = 1 if self.pooled_ is None else len(self.pooled_.labels)
            return (
                np.zeros((count, states)),
                np.zeros((count, states, states)),
                np.zeros((count, states, size)),
            )
        pooled, data = self.pooled_, self.pooled_.read(structures)
        forest, parameters = data.forest, pooled.parameters
        posterior, moves, _ = posteriors(data, pooled.model.chain(data, parameters))
        owner, root = forest.structure_of_node, forest.parent < 0
        symbols = parameters["probabilities.symbol"]
        first, seen = np.zeros((count, states)), np.zeros((count, symbols.shape[1], states))
        np.add.at(first, owner[root], posterior[root])
        codes = data.table.values[data.row, 0]
        known = ~np.isnan(codes)
        np.add.at(seen, (owner[known], codes[known].astype(np.int64)), posterior[known])
        there = (structures.num_nodes.cpu().numpy() > 0)[:, None]
        return (
            self._smoothed(first, parameters["initial"]) * there,
            self._smoothed(moves, parameters["transitions"]),
            self._smoothed(seen.swapaxes(1, 2), symbols),
        )
