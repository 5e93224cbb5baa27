"""Encoders of the nodes of one network: LINE, SDNE and a spectral baseline."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from hiddenfield.errors import InputError
from hiddenfield.estimators.network_inputs import Edges, checked_adjacency, read_edges
from hiddenfield.estimators.parameters import COUNT, POSITIVE, check
from hiddenfield.models.line import fit_line
from hiddenfield.models.sdne import DeepAutoencoder, fit_sdne
from hiddenfield.progress import progress
from hiddenfield.registry import Registry
from hiddenfield.shapes import Array, Float, Int, Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NODE_ENCODERS: Registry[type[NodeEncoder]] = Registry("model")
"""Encoders of nodes by name; facts: summary and reference."""

NOT_NEGATIVE = Interval(Real, 0, None, closed="left")


@dataclass(kw_only=True, eq=False, repr=False)
class NodeEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the encoders of the nodes of one network as vectors.

    X is a network: a file in any format that `hiddenfield.read` knows, such as lines of two nodes and perhaps a weight;
    a networkx graph (edge attribute ``weight``); a scipy sparse adjacency matrix; an array, list or data frame of edges
    with two columns, or three with weights; or `Structures` of one network. Weights are positive.

    Parameters
    ----------
    dim
        Dimension of the vectors.
    directed
        Whether a listed pair is an arc from its first node to its second. ``"auto"``: as the file, graph or matrix
        says; listed edges are undirected.
    on_error
        ``"raise"`` refuses self-loops, edges that are listed again and nodes without edges; ``"skip"`` leaves the first
        out, adds the weights of the second, and gives the third vectors of NaN, with a warning.
    random_state
        An integer makes the result repeatable.
    verbose
        Whether a progress bar is shown.

    Attributes
    ----------
    embedding_
        Vectors of the nodes, (nodes, dim).
    node_names_
        The node of each row: in the order of the graph or matrix, otherwise sorted.
    losses_
        How the loss fell, for what is learned step by step.
    """

    dim: int = 128
    directed: Any = "auto"
    on_error: str = "raise"
    random_state: Any = 0
    verbose: bool = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "dim": [COUNT],
        "directed": ["boolean", StrOptions({"auto"})],
        "on_error": [StrOptions({"raise", "skip"})],
        "random_state": ["random_state"],
        "verbose": ["boolean"],
    }

    @abstractmethod
    def _learn(self, adjacency: csr_array, seed: int) -> Float[Array, "nodes dim"]:
        """Return vectors of the nodes of a network in which all have edges."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn vectors of the nodes of a network; y is ignored."""
        check(self)
        edges = self._edges(X)
        adjacency, kept = checked_adjacency(edges, skip=self.on_error == "skip")
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        vectors = self._learn(adjacency, int(seed))
        self.node_names_ = edges.names
        self.embedding_ = np.full((len(edges.names), vectors.shape[1]), np.nan, np.float32)
        self.embedding_[kept] = vectors
        return self

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Float[Array, "nodes dim"]:
        """Learn, and return the vectors of all nodes."""
        found: Array = self.fit(X).embedding_
        return found

    def transform(self, X: Any) -> Float[Array, "nodes dim"]:
        """Return the vectors of the nodes of a network, all of which were there when it was learned."""
        check_is_fitted(self, "embedding_")
        return self.vectors(self._edges(X).names)

    def vectors(self, nodes: Any) -> Float[Array, "nodes dim"]:
        """Return the vectors of nodes by name."""
        check_is_fitted(self, "embedding_")
        rows = self._places(nodes)
        if len(unknown := np.flatnonzero(rows < 0)):
            name = np.asarray(nodes)[unknown[0]].item()
            raise InputError(
                f"{type(self).__name__} has no vector of node {name!r}, which was not in the network that it was "
                f"fitted to ({len(unknown):,} such nodes); fit it to the new network"
            )
        found: Array = self.embedding_[rows]
        return found

    def _edges(self, X: Any) -> Edges:
        return read_edges(X, self.directed)

    def _places(self, nodes: Any) -> Int[Array, " nodes"]:
        """Return the row of each node, -1 where it has none."""
        row = {name: row for row, name in enumerate(self.node_names_.tolist())}
        return np.array([row.get(name, -1) for name in np.asarray(nodes).tolist()], np.int64)

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    # -- saving --------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted encoder into a folder, as safetensors and JSON; `hiddenfield.load` opens it."""
        from hiddenfield.estimators.saving import save

        check_is_fitted(self, "embedding_")
        save(self, path, overwrite=overwrite)

    def as_saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the arrays, and plain values that describe what was learned."""
        return {"embedding": torch.from_numpy(self.embedding_)}, {"nodes": self.node_names_.tolist()}

    def from_saved(self, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
        """Take over what `as_saved` returned; vectors that do not fit the nodes are an error."""
        check(self)
        self.node_names_, self.embedding_ = np.array(content["nodes"]), tensors["embedding"].numpy()
        if self.embedding_.ndim != 2 or len(self.embedding_) != len(self.node_names_):
            raise InputError(
                f"{len(self.node_names_)} nodes do not fit vectors of shape {self.embedding_.shape}"
            )
        return self

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: X holds a network."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.sparse, tags.input_tags.string = False, True, True
        tags.transformer_tags.preserves_dtype = []  # vectors are in single precision
        tags.non_deterministic, tags.no_validation = self.random_state is None, True
        return tags


@NODE_ENCODERS.register(
    "line", summary="first and second order by sampled edges; a million nodes", reference="Tang et al. 2015"
)
@dataclass(kw_only=True, eq=False, repr=False)
class LINEEncoder(NodeEncoder):
    """LINE: neighbours near each other (first order), nodes with the same neighbours too (second order).

    The other parameters are those of `NodeEncoder`, the equations those of `hiddenfield.models.line.fit_line`. Vectors
    belong to the nodes of the network that was learned; new nodes need a new fit.

    Parameters
    ----------
    order
        ``"first"``, ``"second"``, or ``"both"``, which have half of the dimensions each; vectors of each have length 1.
    negative
        Negatives of each edge.
    samples
        Edges that each order draws; ``"auto"``: a hundred for every arc, at least three million.
    learning_rate
        At the beginning; it falls to zero.

    Examples
    --------
    >>> import networkx
    >>> from hiddenfield.estimators import LINEEncoder
    >>> club = networkx.karate_club_graph()
    >>> model = LINEEncoder(dim=8, samples=100_000).fit(club)
    >>> model.embedding_.shape, model.vectors([33]).shape
    ((34, 8), (1, 8))
    """

    order: str = "both"
    negative: int = 5
    samples: Any = "auto"
    learning_rate: float = 0.025

    _parameter_constraints: ClassVar[dict[str, Any]] = NodeEncoder._parameter_constraints | {
        "order": [StrOptions({"first", "second", "both"})],
        "negative": [COUNT],
        "samples": [COUNT, StrOptions({"auto"})],
        "learning_rate": [POSITIVE],
    }

    def _learn(self, adjacency: csr_array, seed: int) -> Float[Array, "nodes dim"]:
        orders = {"first": (1,), "second": (2,), "both": (1, 2)}[self.order]
        if self.dim % len(orders):
            raise InputError(
                f"order='both' shares the dimensions among two: dim must be even, got {self.dim}"
            )
        samples = max(3_000_000, 100 * adjacency.nnz) if self.samples == "auto" else self.samples
        with progress(samples, "learning LINE", shown=self.verbose) as advance:
            learned = fit_line(
                adjacency,
                self.dim // len(orders),
                orders,
                negative=self.negative,
                samples=int(samples),
                learning_rate=self.learning_rate,
                seed=seed,
                advance=advance,
            )
        self.losses_ = learned.losses
        return learned.joined()


@NODE_ENCODERS.register(
    "sdne", summary="a deep autoencoder of rows of the adjacency matrix", reference="Wang, Cui and Zhu 2016"
)
@dataclass(kw_only=True, eq=False, repr=False)
class SDNEEncoder(NodeEncoder):
    """SDNE: nodes with similar rows of the adjacency matrix near each other by an autoencoder, and neighbours too.

    The other parameters are those of `NodeEncoder`, the loss that of `hiddenfield.models.sdne.mixed_loss`. Weights are
    divided by the largest. `transform` encodes nodes that were not in the network by their edges to nodes that were.

    Parameters
    ----------
    hidden
        Sizes of the layers between a row and its vector; one number is one layer.
    alpha
        Weight of first order.
    beta
        Weight of an error at an edge, where that elsewhere has 1.
    nu
        Weight of the regularisation.
    pretraining
        Epochs of each restricted Boltzmann machine of the stack that training starts from; 0 for a random start.
    epochs, tolerance
        Most epochs, and the relative fall of the loss within ten epochs below which training ends.
    batch_size, learning_rate
        Of the training.

    Attributes
    ----------
    network_
        The autoencoder.
    scale_
        The largest weight.

    Examples
    --------
    >>> import networkx
    >>> from hiddenfield.estimators import SDNEEncoder
    >>> club = networkx.karate_club_graph()
    >>> model = SDNEEncoder(dim=4, hidden=(16,), epochs=5).fit(club)
    >>> model.transform([(34, 33), (34, 32), (33, 32)]).shape  # of 32 and 33, and of 34, which is new
    (3, 4)
    """

    hidden: Any = (256,)
    alpha: float = 0.1
    beta: float = 10.0
    nu: float = 1e-4
    pretraining: int = 5
    epochs: int = 50
    tolerance: float = 1e-3
    batch_size: int = 128
    learning_rate: float = 3e-3

    _parameter_constraints: ClassVar[dict[str, Any]] = NodeEncoder._parameter_constraints | {
        "hidden": [COUNT, "array-like"],
        "alpha": [NOT_NEGATIVE],
        "beta": [Interval(Real, 1, None, closed="left")],
        "nu": [NOT_NEGATIVE],
        "pretraining": [Interval(Integral, 0, None, closed="left")],
        "epochs": [COUNT],
        "tolerance": [NOT_NEGATIVE],
        "batch_size": [COUNT],
        "learning_rate": [POSITIVE],
    }

    def _learn(self, adjacency: csr_array, seed: int) -> Float[Array, "nodes dim"]:
        if not all(isinstance(size, Integral) and size >= 1 for size in self._layers()):
            raise InputError(
                f"hidden has the sizes of the layers, whole numbers of at least 1, got {self.hidden!r}"
            )
        self.scale_ = float(adjacency.data.max())
        with progress(self.epochs, "learning SDNE", shown=self.verbose) as advance:
            self.network_, self.losses_ = fit_sdne(
                adjacency / self.scale_,
                self._layers(),
                self.dim,
                alpha=self.alpha,
                beta=self.beta,
                nu=self.nu,
                pretraining=self.pretraining,
                epochs=self.epochs,
                tolerance=self.tolerance,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                seed=seed,
                advance=advance,
            )
        return self._encoded(adjacency / self.scale_)

    def _layers(self) -> tuple[int, ...]:
        return (int(self.hidden),) if isinstance(self.hidden, Integral) else tuple(self.hidden)

    def _encoded(self, rows: csr_array) -> Float[Array, "nodes dim"]:
        with torch.no_grad():
            return self.network_.encode(rows).numpy()

    def transform(self, X: Any) -> Float[Array, "nodes dim"]:
        """Return the vectors of the nodes of a network; new ones are encoded by their edges to nodes that are known."""
        from scipy.sparse import coo_array

        check_is_fitted(self, "embedding_")
        edges = self._edges(X)
        place = self._places(edges.names)
        found: Array = self.embedding_[place]
        if (place >= 0).all():
            return found
        adjacency, kept = checked_adjacency(edges, skip=self.on_error == "skip")
        used = np.flatnonzero(~np.isnan(self.embedding_[:, 0]))  # nodes with edges, which have columns
        column = np.full(len(self.node_names_) + 1, -1)
        column[used] = np.arange(len(used))
        arcs, new, own = coo_array(adjacency), place[kept] < 0, column[place[kept]]
        known = own[arcs.col] >= 0
        ends = arcs.row[known], own[arcs.col[known]]
        rows = coo_array((arcs.data[known] / self.scale_, ends), (len(kept), len(used))).tocsr()
        if len(lost := np.flatnonzero(new & (np.diff(rows.indptr) == 0))):
            raise InputError(
                f"node {edges.names[kept[lost[0]]].item()!r} has no edge to a node of the network that SDNEEncoder was "
                f"fitted to ({len(lost):,} such nodes); fit it to the new network"
            )
        found[place < 0] = np.nan
        found[kept[new]] = self._encoded(rows[new])
        return found

    def as_saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the arrays, and plain values that describe what was learned."""
        arrays, content = super().as_saved()
        weights = {f"network.{name}": value.clone() for name, value in self.network_.state_dict().items()}
        return arrays | weights, content | {"scale": self.scale_, "losses": self.losses_}

    def from_saved(self, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
        """Take over what `as_saved` returned; weights that do not fit the layers are an error."""
        super().from_saved(content, tensors)
        self.scale_, self.losses_ = float(content["scale"]), list(content["losses"])
        connected = int((~np.isnan(self.embedding_[:, 0])).sum())
        with torch.device("meta"):
            self.network_ = DeepAutoencoder([connected, *self._layers(), self.embedding_.shape[1]])
        own = {name.removeprefix("network."): value for name, value in tensors.items() if name != "embedding"}
        self.network_.load_state_dict(own, assign=True)
        return self


@NODE_ENCODERS.register(
    "spectral",
    summary="eigenvectors of the normalised adjacency matrix, a baseline",
    reference="Ng, Jordan and Weiss 2001",
)
@dataclass(kw_only=True, eq=False, repr=False)
class SpectralEncoder(NodeEncoder):
    r"""The leading eigenvectors of :math:`D^{-1/2} A D^{-1/2}`, with rows of length 1: a baseline.

    The parameters are those of `NodeEncoder`. Arcs count as edges. Exact up to the tolerance of the iterative solver.

    Examples
    --------
    >>> import networkx
    >>> from hiddenfield.estimators import SpectralEncoder
    >>> SpectralEncoder(dim=2).fit_transform(networkx.karate_club_graph()).shape
    (34, 2)
    """

    def _learn(self, adjacency: csr_array, seed: int) -> Float[Array, "nodes dim"]:
        from scipy.sparse import diags_array
        from scipy.sparse.linalg import eigsh

        if self.dim >= adjacency.shape[0]:
            raise InputError(
                f"{adjacency.shape[0]} nodes have fewer than dim={self.dim} + 1 eigenvectors; take a smaller dim"
            )
        both = adjacency + adjacency.T
        scale = diags_array(1 / np.sqrt(both.sum(axis=1)))
        generator = np.random.default_rng(seed)
        start = generator.standard_normal(adjacency.shape[0])
        # Where the network has many components the solver starts again; before SciPy 1.17 it did so on its own.
        again = {"rng": generator} if "rng" in inspect.signature(eigsh).parameters else {}
        values, vectors = eigsh(scale @ both @ scale, self.dim, which="LA", v0=start, **again)
        vectors = vectors[:, np.argsort(-values)]
        found: Array = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return found
