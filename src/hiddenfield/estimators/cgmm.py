"""The contextual graph Markov model as an encoder of graphs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.structures import Structures
from hiddenfield.data.table import TableColumn
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.estimators.base import Fitted, _spread
from hiddenfield.estimators.inputs import REPRESENTATIONS, Features, rows_read
from hiddenfield.estimators.parameters import COUNT, POSITIVE, check
from hiddenfield.models.cgmm.context import Shape, States
from hiddenfield.models.cgmm.fingerprints import FINGERPRINTS, fingerprints
from hiddenfield.models.cgmm.layer import ContextLayer
from hiddenfield.models.cgmm.stack import Growth, Stack, grow
from hiddenfield.models.gaussians import COVARIANCES, Gaussians, NormalPrior
from hiddenfield.models.hidden_markov.emissions import Emission, Numbers, Symbols
from hiddenfield.progress import progress
from hiddenfield.shapes import Array, Float, Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

LABEL_PRIOR = 1.001
"""Concentration of the Dirichlet prior of labels: one unseen in training has a small probability in every state."""


@dataclass(kw_only=True, eq=False, repr=False)
class ContextualGraphMarkovModel(Fitted):  # type: ignore[misc]
    r"""Base of the estimators of contextual graph Markov models.

    Layer after layer every node has a hidden state, on which its label depends, and which itself depends on the
    frozen states of its neighbours in the layers below; see `hiddenfield.models.cgmm.layer.ContextLayer`. Graphs are
    then described by how often which states occur.

    X is what `StructureEstimator` takes. Node labels are categorical, node attributes Gaussian; arc labels, all columns
    taken together, say along which kind of arc a neighbour is.

    Parameters
    ----------
    num_states
        Of every layer.
    depth
        The most layers.
    previous
        Which layers a layer sees: ``"last"``, ``"all"``, or distances, 1 for the layer below.
    states
        What of the layers below is frozen and counted: the most likely states (``"hard"``) or the probabilities of
        all (``"soft"``).
    fingerprint
        ``"unigram"`` (states), ``"bigram"`` (pairs along arcs) or ``"both"``.
    layers
        Whether fingerprints of ``"all"`` layers are put side by side, or those of the ``"last"`` taken.
    pooling
        ``"sum"`` for counts, ``"mean"`` for frequencies.
    pool
        Random starts of each layer, of which the best is kept.
    max_iterations, tolerance
        Turns of EM of each layer, and the rise of the log-likelihood per node at which they end.
    smoothing
        What is added to expected counts of transitions.
    covariance
        Of node attributes: ``"diagonal"``, ``"full"``, ``"tied"`` or ``"spherical"``.
    missing
        Node labels that stand for what is not known; they are summed out.
    representation, representation_options
        As of `StructureEstimator`.
    random_state
        An integer makes the result repeatable.
    checkpoint
        Folder in which runs of EM are kept: an interrupted fit, or one that has runs in common with another, as with
        other heads or more layers, takes them from there.
    verbose
        Whether a progress bar is shown.

    Attributes
    ----------
    stack_
        The layers with their parameters, the traces of EM, and the criterion after each layer.
    features_, reading_
        How new structures are read.

    References
    ----------
    Bacciu, Errica & Micheli (2018), Contextual graph Markov model: a deep and generative approach to graph processing.
    """

    num_states: int = 20
    depth: int = 4
    previous: Any = "last"
    states: str = "hard"
    fingerprint: str = "both"
    layers: str = "all"
    pooling: str = "sum"
    pool: int = 1
    max_iterations: int = 30
    tolerance: float = 1e-4
    smoothing: float = 1e-3
    covariance: str = "diagonal"
    missing: Any = ()
    representation: str = "auto"
    representation_options: Mapping[str, Any] | None = None
    random_state: Any = 0
    checkpoint: str | os.PathLike[str] | None = None
    verbose: bool = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "num_states": [COUNT],
        "depth": [COUNT],
        "previous": [StrOptions({"last", "all"}), "array-like"],
        "states": [StrOptions({"hard", "soft"})],
        "fingerprint": [StrOptions(set(FINGERPRINTS))],
        "layers": [StrOptions({"all", "last"})],
        "pooling": [StrOptions({"sum", "mean"})],
        "pool": [COUNT],
        "max_iterations": [COUNT],
        "tolerance": [POSITIVE],
        "smoothing": [Interval(Real, 0, None, closed="left")],
        "covariance": [StrOptions(set(COVARIANCES))],
        "missing": ["array-like"],
        "representation": [StrOptions({"auto", *REPRESENTATIONS})],
        "representation_options": [dict, None],
        "random_state": ["random_state"],
        "checkpoint": [str, os.PathLike, None],
        "verbose": ["boolean"],
    }

    # -- learning ------------------------------------------------------------------------------------------

    def _begin(self, X: Any) -> Structures:
        """Check the parameters, read X, and keep how."""
        check(self)
        self._growth()
        structures = self._read_training(X)
        if not structures.total_nodes:
            raise InputError("the structures have no nodes; there is nothing to learn from")
        features = Features.of(structures)
        words = tuple(
            Vocabulary(
                known.name, (*known.symbols, *(new for new in self.missing if new not in known.symbols))
            )
            for known in features.node_vocabularies
        )
        self.features_ = replace(features, node_vocabularies=words)
        return structures

    def _grow(
        self, structures: Structures, criterion: Callable[[csr_matrix], float] | None, patience: int = 1
    ) -> None:
        begun, coded = time.perf_counter(), self.features_.encode(structures)
        growth = replace(self._growth(), patience=patience)
        judged = None if criterion is None else (lambda found: criterion(self._count(coded, found)))
        with progress(self.depth, f"learning {type(self).__name__}", shown=self.verbose) as advance:
            self.stack_ = grow(
                coded,
                self._values(coded),
                self._emissions(),
                growth,
                criterion=judged,
                seed=self._seed(),
                folder=None if self.checkpoint is None else Path(self.checkpoint),
                advance=advance,
            )
        self._learning = time.perf_counter() - begun
        self.resolved_ = {"depth": len(self.stack_.layers), "representation": self.reading_.representation}

    def _growth(self) -> Growth:
        named = {"last": (1,), "all": tuple(range(1, self.depth))}
        previous = named[self.previous] if isinstance(self.previous, str) else tuple(self.previous)
        whole = all(isinstance(back, int | np.integer) and back >= 1 for back in previous)
        if not whole or (1 not in previous and self.depth > 1) or len(set(previous)) < len(previous):
            raise InputError(
                "previous must be 'last', 'all', or different distances of layers of which one is 1, got "
                f"{self.previous!r}"
            )
        return Growth(
            self.num_states,
            self.depth,
            tuple(int(back) for back in previous),
            self.states == "soft",
            self.pool,
            max_iterations=self.max_iterations,
            tolerance=self.tolerance,
            smoothing=self.smoothing,
        )

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _values(self, coded: Structures) -> Float[Array, "nodes columns"]:
        """Return codes of labels and attributes, NaN where missing."""
        parts = [np.zeros((coded.total_nodes, 0))]
        if coded.node_labels is not None:
            codes = coded.node_labels.cpu().numpy().astype(np.float64)
            for column, words in zip(codes.T, coded.node_vocabularies, strict=True):
                unknown = [k for k, symbol in enumerate(words.symbols) if symbol in self.missing]
                column[np.isin(column, unknown)] = np.nan
            parts.append(codes)
        if coded.node_attributes is not None:
            parts.append(coded.node_attributes.double().cpu().numpy())
        return np.concatenate(parts, axis=1)

    def _emissions(self) -> list[Emission]:
        found: list[Emission] = []
        for k, words in enumerate(self.features_.node_vocabularies):
            column = TableColumn(f"{k}", "categorical", words)
            found.append(Symbols((column,), (k,), self.num_states, LABEL_PRIOR))
        first, dim = len(found), len(self.features_.node_attributes)
        if dim:
            # Attributes are standardised by the features.
            centre, spread = np.zeros(dim), np.ones(dim)
            prior = NormalPrior.weak(self.covariance, centre, spread, self.num_states)
            family = Gaussians(self.covariance, centre, spread, prior)
            found.append(Numbers(tuple(range(first, first + dim)), self.num_states, 1, family))
        return found

    # -- what is learned of graphs and nodes ---------------------------------------------------------------

    @property
    def num_parameters_(self) -> int:
        """How many free parameters the layers have."""
        stack = self.stack_
        return sum(
            len(layer.as_vector(own)) for layer, own in zip(stack.layers, stack.parameters, strict=True)
        )

    def _read(self, X: Any) -> Structures:
        check_is_fitted(self, "stack_")
        return self.reading_.convert(X)

    def _coded(self, X: Any) -> Structures:
        return self.features_.encode(self._read(X))

    def _count(self, coded: Structures, states: list[States]) -> csr_matrix:
        chosen = states if self.layers == "all" else states[-1:]
        return fingerprints(coded, chosen, self.num_states, self.fingerprint, mean=self.pooling == "mean")

    def fingerprints(self, X: Any) -> csr_matrix:
        """Return the fingerprint of every graph that could be read, as sparse rows."""
        coded = self._coded(X)
        return self._count(coded, self.stack_.infer(coded, self._values(coded))[0])

    def embed(self, X: Any) -> Float[Array, "structures width"]:
        """Return the fingerprint of every entry of X as a plain array; NaN where one could not be read."""
        structures = self._read(X)
        return _spread(self.fingerprints(structures).toarray(), rows_read(X, structures), X)

    def posterior(self, X: Any, layer: int = -1) -> list[Float[Array, "nodes states"]]:
        """Return the probabilities of the nodes' states in a layer, one array for each structure."""
        coded = self._coded(X)
        if not -len(self.stack_.layers) <= layer < len(self.stack_.layers):
            raise InputError(f"there are {len(self.stack_.layers)} layers, and no layer {layer}")
        found = self.stack_.posterior(coded, self._values(coded), layer % len(self.stack_.layers))
        return np.split(found, coded.node_ptr[1:-1].cpu().numpy())

    def log_likelihood(self, X: Any) -> Float[Array, "structures layers"]:
        """Return of every structure the log-likelihood of its labels in each layer, given the states frozen below."""
        coded = self._coded(X)
        nodes = np.stack(self.stack_.infer(coded, self._values(coded))[1])
        sums = np.concatenate([np.zeros((len(nodes), 1)), np.cumsum(nodes, axis=1)], axis=1)
        return np.diff(sums[:, coded.node_ptr.cpu().numpy()], axis=1).T

    def sample(self, X: Any, *, random_state: Any = None) -> list[dict[str, Array]]:
        """Draw new labels and attributes of the nodes of X from the last layer, given what is frozen below.

        Returns
        -------
        list
            For each structure its columns by name.
        """
        coded = self._coded(X)
        seed = self._seed() if random_state is None else random_state
        drawn, _ = self.stack_.sample(coded, self._values(coded), np.random.default_rng(seed))
        words, scales = self.features_.node_vocabularies, self.features_.node_attributes
        columns = {
            one.name: np.array(one.decode(drawn[:, k].astype(np.int64)), dtype=object)
            for k, one in enumerate(words)
        }
        columns |= {one.name: drawn[:, len(words) + k] * one.scale + one.mean for k, one in enumerate(scales)}
        bounds = coded.node_ptr.tolist()
        return [{name: values[a:b] for name, values in columns.items()} for a, b in pairwise(bounds)]

    # -- saving --------------------------------------------------------------------------------------------

    def as_saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the arrays, and plain values that describe what was learned."""
        arrays = {
            f"layer.{number}.{name}": torch.from_numpy(np.array(value))
            for number, parameters in enumerate(self.stack_.parameters)
            for name, value in parameters.items()
        }
        return arrays, self._described() | {"traces": self.stack_.traces, "scores": self.stack_.scores}

    def from_saved(self, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
        """Take over what `as_saved` returned; parameters that do not fit the model are an error."""
        check(self)
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            raise InputError("the parameters are not finite")
        self._take_description(content)
        growth, emissions = self._growth(), self._emissions()
        labels = int(np.prod([len(words) for words in self.features_.arc_vocabularies]))
        layers, parameters = [], []
        for number in range(len(content["traces"])):
            below = tuple(self.num_states for back in growth.previous if back <= number)
            layer = ContextLayer(self.num_states, Shape(labels, below), emissions, self.smoothing)
            own = {name: tensor.numpy() for name, tensor in under(f"layer.{number}.", tensors).items()}
            if own["transition"].shape != (layer.shape.num_rows, self.num_states):
                raise InputError(f"the transitions of layer {number} do not fit the states and arc labels")
            layers.append(layer)
            parameters.append(own)
        self.stack_ = Stack(growth, layers, parameters, content["traces"], content["scores"])
        self.resolved_ = {"depth": len(layers), "representation": self.reading_.representation}
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` has been called."""
        return "stack_" in vars(self)


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin so, by the rest of the name."""
    return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}


@dataclass(kw_only=True, eq=False, repr=False)
class CGMMEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ContextualGraphMarkovModel):  # type: ignore[misc]
    """Encode graphs as counts of hidden states, learned without targets.

    The parameters are those of `ContextualGraphMarkovModel`; of a pool the start with the best likelihood is kept.

    Parameters
    ----------
    sparse_output
        Whether `transform` returns a sparse matrix.

    Examples
    --------
    >>> from hiddenfield.estimators import CGMMEncoder
    >>> model = CGMMEncoder(num_states=3, depth=2, fingerprint="unigram").fit(["GATTACA", "CAT", "TAGA"])
    >>> model.transform(["GATT", "ACA"]).sum(axis=1)  # each layer counts every node once
    array([8., 6.])
    """

    sparse_output: bool = False

    _parameter_constraints: ClassVar[dict[str, Any]] = ContextualGraphMarkovModel._parameter_constraints | {
        "sparse_output": ["boolean"]
    }

    def fit(self, X: Any, y: Any = None) -> CGMMEncoder:
        """Learn the layers; y is ignored."""
        self._grow(self._begin(X), None)
        return self

    def transform(self, X: Any) -> Any:
        """Return the fingerprints, (structures, width)."""
        check_is_fitted(self, "stack_")
        return self.fingerprints(X) if self.sparse_output else self.embed(X)

    @property
    def _n_features_out(self) -> int:
        counted = {"unigram": 1, "bigram": self.num_states, "both": 1 + self.num_states}[self.fingerprint]
        return self.num_states * counted * (len(self.stack_.layers) if self.layers == "all" else 1)
