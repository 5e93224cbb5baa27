"""ConditionalRandomField: labels of the nodes of sequences, trees and graphs, in scikit-learn's style."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import EMBEDDINGS
from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.estimators.inputs import REPRESENTATIONS, Features, Reading
from hiddenfield.estimators.parameters import COUNT, POSITIVE, as_json, check, from_json
from hiddenfield.inference.posterior import METHODS
from hiddenfield.learning.batches import predict
from hiddenfield.learning.checkpoint import History
from hiddenfield.learning.maximum_likelihood import maximise
from hiddenfield.learning.settings import TrainSettings
from hiddenfield.learning.trainer import train
from hiddenfield.models.crf import (
    Edges,
    Expected,
    Field,
    Kind,
    LogLikelihood,
    Weights,
    allowed_states,
    allowed_weights,
    edges_of,
    kinds_of,
    labels_of_arcs,
    sparse_maximum,
    symmetric,
    worse,
)
from hiddenfield.models.node_field import LabelTask, NodeField, with_labels
from hiddenfield.shapes import Array, Bool, Float, Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

CHAIN = ("next", "previous")
"""The kind of the edges between the tokens of a list."""

TAKEN = frozenset(
    {"seed", "resample", "model", "kinds", "method", "hidden_states", "outputs", "sizes", "states"}
)
TAKEN_SAYS = (
    "embedding, method, hidden_states and random_state are parameters of their own, and labels say the rest"
)

MANY, STEPS = 20, 1000
"""Structures from which on a tenth of them chooses the epoch of a network, and the steps of its training by default."""


@dataclass(frozen=True)
class NodeFeatures:
    """Which sparse features nodes have, and which kinds of edges there are: found in `fit`, kept from then on.

    Nodes have a constant, the symbols of their label columns and their attributes; and for every label of arcs the
    means of these over the nodes from which arcs of that label come, in up to `window` steps. In a sequence these are
    the nodes some positions before and after.

    Parameters
    ----------
    window
        Steps.
    tokens
        Whether X is a list of lists of tokens, each with features of its own; then `names` are these.
    names
        Of all features.
    node_symbols, node_attributes, arc_labels
        By which packs are read: the symbols of each label column, and the names of attributes.
    kinds
        The kinds of edges: the labels of their two arcs, of which the first is None where arcs go one way.
    """

    window: int
    tokens: bool
    names: tuple[str, ...] = ()
    node_symbols: dict[str, list[Any]] = field(default_factory=dict)
    node_attributes: tuple[str, ...] = ()
    arc_labels: tuple[str, ...] = ()
    kinds: tuple[tuple[str | None, str], ...] = ()

    @classmethod
    def of(cls, X: Any, window: int, min_count: int) -> NodeFeatures:
        """Find the features of tokens, or of a pack."""
        if not isinstance(X, Structures):
            counts = Counter(name for tokens in X for token in tokens for name in _values(token))
            # The frequent ones side by side: they stay in the cache, and a pass takes four fifths of the time.
            names = [name for name, count in counts.most_common() if count >= min_count]
            return cls(0, True, tuple(names), kinds=(CHAIN,))
        columns = X.features.get("node_labels")
        symbols: dict[str, list[Any]] = {}
        for name, values in {} if columns is None else zip(columns.names, columns.decoded(), strict=True):
            found, times = np.unique(np.array(values, object), return_counts=True)
            symbols[name] = found[times >= min_count].tolist()
        arcs = sorted(set(labels_of_arcs(X)))
        attributes = tuple(X.node_attribute_names)
        own = ["1", *(f"{name}={s}" for name, known in symbols.items() for s in known), *attributes]
        names = list(own)
        for label in arcs:
            for step in range(1, window + 1):
                names += [
                    f"{label or 'neighbour'} {step}: {name if k else 'any'}" for k, name in enumerate(own)
                ]
        return cls(window, False, tuple(names), symbols, attributes, tuple(arcs), kinds_of(X))

    def read(self, X: Any) -> tuple[csr_matrix, Edges]:
        """Return the features of all nodes, and the edges."""
        return self._tokens(X) if self.tokens else self._pack(X)

    def _tokens(self, X: Any) -> tuple[csr_matrix, Edges]:
        from scipy.sparse import csr_matrix

        code = {name: number for number, name in enumerate(self.names)}
        ptr, columns, values = [0], [], []
        for tokens in X:
            for token in tokens:
                for name, value in _values(token).items():
                    if name in code:
                        columns.append(code[name])
                        values.append(value)
                ptr.append(len(columns))
        bounds = np.concatenate([[0], np.cumsum([len(tokens) for tokens in X])]).astype(np.int64)
        features = csr_matrix((np.array(values, float), columns, ptr), (len(ptr) - 1, len(self.names)))
        starts = np.zeros(len(ptr), bool)
        starts[bounds] = True
        first = np.flatnonzero(~starts[1:-1])
        kind = np.zeros(len(first), np.int64)
        return features, Edges(first, first + 1, kind, np.zeros(1, bool), bounds)

    def _pack(self, X: Structures) -> tuple[csr_matrix, Edges]:
        from scipy.sparse import csr_matrix, diags_array, hstack

        own = self._own(X)
        source, target = X.source.numpy(), X.target.numpy()
        blocks, labels = [own], np.array(labels_of_arcs(X), object)
        for label in self.arc_labels:
            chosen = np.flatnonzero(labels == label)
            size = (X.total_nodes,) * 2
            step = csr_matrix((np.ones(len(chosen)), (target[chosen], source[chosen])), size)
            step = diags_array(1 / np.maximum(np.asarray(step.sum(1)).ravel(), 1)) @ step
            far = own
            for _ in range(self.window):
                far = step @ far
                blocks.append(far)
        return csr_matrix(hstack(blocks).tocsr()), edges_of(X, self.kinds)

    def _own(self, X: Structures) -> csr_matrix:
        """Return the constant, symbols and attributes of nodes."""
        from scipy.sparse import csr_matrix, hstack

        nodes, labels = X.total_nodes, X.features.get("node_labels")
        found = () if labels is None else labels.names
        if tuple(found) != tuple(self.node_symbols) or X.node_attribute_names != self.node_attributes:
            raise InputError(
                f"expected the node labels {list(self.node_symbols)} and attributes {list(self.node_attributes)}, got "
                f"{list(found)} and {list(X.node_attribute_names)}; read the structures as for fit"
            )
        blocks = [csr_matrix(np.ones((nodes, 1)))]
        for known, values in zip(
            self.node_symbols.values(), () if labels is None else labels.decoded(), strict=True
        ):
            code = {symbol: number for number, symbol in enumerate(known)}
            column = np.array([code.get(value, -1) for value in values], np.int64)
            rows = np.flatnonzero(column >= 0)
            blocks.append(csr_matrix((np.ones(len(rows)), (rows, column[rows])), (nodes, len(known))))
        if X.node_attributes is not None:
            blocks.append(csr_matrix(X.node_attributes.numpy().astype(np.float64)))
        return csr_matrix(hstack(blocks).tocsr())


def _values(token: Any) -> Mapping[str, float]:
    """Return the features of a token: names with values (a text makes one of name and text), or names alone."""
    if isinstance(token, Mapping):
        texts = {f"{name}={value}": 1.0 for name, value in token.items() if isinstance(value, str)}
        numbers = {str(name): float(value) for name, value in token.items() if not isinstance(value, str)}
        return texts | numbers
    return dict.fromkeys(map(str, token), 1.0)


def _has_tokens(X: Any) -> bool:
    """Say whether X is a list of lists of tokens with features of their own."""
    if isinstance(X, Structures) or not isinstance(X, (list, tuple)):
        return False
    first = next((entry[0] for entry in X if isinstance(entry, (list, tuple)) and len(entry)), None)
    return isinstance(first, (Mapping, list, tuple, set, frozenset))


@dataclass(eq=False, repr=False)
class ConditionalRandomField(BaseEstimator):  # type: ignore[misc]
    r"""Labels of the nodes of sequences, trees or graphs, predicted together: a conditional random field.

    .. math:: p(y \mid x) \propto \exp\Bigl(\sum_i w_{y_i}^\top x_i + \sum_{(i,j)} T_{k(i,j)}[y_i, y_j]\Bigr)

    On sequences and trees everything is exact. On graphs with cycles it is exact where tables are small; otherwise the
    log-likelihood is an estimate by belief propagation. `guarantee_` says which.

    X is what `StructureClassifier` takes (a pack, sequences, networkx graphs, SMILES, ...), whose node and arc labels
    and node attributes are the features; or a list of sequences, each a list of tokens, each token a dict or a list of
    features. y has the labels of the nodes, a list for each structure or all in one array. A label that is None or NaN
    is not known: it is summed out in learning, and predicted all the same. Without y, the node targets of a pack are
    learned.

    Parameters
    ----------
    window
        Up to how many steps away the features of neighbours are among those of a node; not for tokens.
    hidden_states
        Of each label: with several a label stands for a group of states that are learned.
    l2, l1
        Penalties :math:`\tfrac{\lambda_2}{2} \lVert\theta\rVert^2` and :math:`\lambda_1 \lVert\theta\rVert_1`, taken
        from the log-likelihood of all structures.
    every_pair
        Whether features also have weights for labels that they never occur with. Without, a tenth of the weights is
        left where features are words.
    min_count
        How many nodes a symbol or feature must occur at.
    method
        Of inference where there are cycles: "auto", or one of `hiddenfield.inference.METHODS`.
    decode
        "jointly", the most likely labels of all nodes together, or "each", those that are most likely for each node.
    target
        The name of the node target, where a pack has several.
    tolerance, max_iterations
        Of L-BFGS: it ends where the gradient is this small, relative to the log-likelihood at the start.
    embedding
        A name of `hiddenfield.embedding.EMBEDDINGS`: the potentials of nodes are then a network's, which has seen the
        structure around each of them, and network and tables are trained together, in batches of structures. Weights of
        features, with `window`, `min_count`, `every_pair` and `l1`, are those of None.
    embedding_options
        Of the network and its training: ``dim``, ``rounds``, ``hidden``, ``dropout``, ... as of `Predictor`, and
        ``epochs``, ``batch_size``, ``learning_rate``, ``patience``, ``device``, ... as of `TrainSettings`; and
        ``validation_fraction``, the share of the structures that choose the epoch: a tenth of 20 or more.
    representation, representation_options
        As of `StructureClassifier`.
    random_state
        Of the first weights of hidden states.

    Attributes
    ----------
    classes_
        The labels.
    weights_
        All weights of features and tables in one vector; `feature_weights` and `tables_` name them.
    network_, history_
        With an embedding the trained network, and what happened.
    log_likelihood_, converged_, status_, guarantee_
        Of the labels that were learned from; how learning ended, and what the log-likelihood is worth.

    References
    ----------
    Lafferty, McCallum and Pereira (2001), Conditional random fields; Quattoni et al. (2007), Hidden conditional random
    fields; Sutton and McCallum (2012), An introduction to conditional random fields.

    Examples
    --------
    >>> from hiddenfield.estimators import ConditionalRandomField
    >>> words = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"]]
    >>> tags = [["D", "N", "V"]] * 3
    >>> ConditionalRandomField(window=1).fit(words, tags).predict([["a", "dog", "sleeps"]])
    [array(['D', 'N', 'V'], dtype='<U1')]
    """

    window: int = 2
    hidden_states: int = 1
    l2: float = 1.0
    l1: float = 0.0
    every_pair: bool = False
    min_count: int = 1
    method: str = "auto"
    decode: str = "jointly"
    target: str | None = None
    tolerance: float = 1e-5
    max_iterations: int = 500
    embedding: str | None = None
    embedding_options: Mapping[str, Any] | None = None
    representation: str = "auto"
    representation_options: Mapping[str, Any] | None = None
    random_state: Any = 0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "window": [Interval(Integral, 0, None, closed="left")],
        "hidden_states": [COUNT],
        "l2": [Interval(Real, 0, None, closed="left")],
        "l1": [Interval(Real, 0, None, closed="left")],
        "every_pair": ["boolean"],
        "min_count": [COUNT],
        "method": [StrOptions({"auto", *METHODS.keys()})],
        "decode": [StrOptions({"jointly", "each"})],
        "target": [str, None],
        "tolerance": [POSITIVE],
        "max_iterations": [COUNT],
        "embedding": [StrOptions(set(EMBEDDINGS.keys())), None],
        "embedding_options": [dict, None],
        "representation": [StrOptions({"auto", *REPRESENTATIONS})],
        "representation_options": [dict, None],
        "random_state": ["random_state"],
    }

    # -- learning ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> ConditionalRandomField:
        """Learn the weights.

        Parameters
        ----------
        X
            Structures, or lists of tokens.
        y
            The labels of nodes; None for the node targets of a pack.

        Returns
        -------
        self
        """
        check(self)
        tokens = _has_tokens(X)
        self.reading_ = None if tokens else Reading.of(X, self.representation, self.representation_options)
        read = self._read(X)
        if self.embedding is None:
            self.features_ = NodeFeatures.of(read, self.window, self.min_count)
            features, edges = self.features_.read(read)
        else:
            if tokens or self.l1:
                what = "tokens with features of their own" if tokens else "l1"
                raise InputError(f"an embedding cannot be learned with {what}; leave out one of the two")
            edges = edges_of(read, kinds_of(read))
        labels = self._labels(X, read, y, edges)
        if all(label is None for label in labels):
            raise InputError("no node has a label; there is nothing to learn from")
        self.classes_ = np.unique(np.array([one for one in labels if one is not None]))
        codes = self._codes(labels)
        if self.embedding is None:
            allowed = allowed_states(codes, len(self.classes_), self.hidden_states)
            self._learn(features, edges, allowed)
        else:
            self._train(read, codes)
        if not self.converged_:
            warnings.warn(f"ConditionalRandomField: {self.status_}", ConvergenceWarning, stacklevel=2)
        return self

    def _learn(self, features: csr_matrix, edges: Edges, allowed: Bool[Array, "nodes states"]) -> None:
        kinds = len(edges.symmetric)
        self.shape_ = allowed_weights(features, allowed, kinds, self.every_pair)
        structures = Field(edges, allowed.shape[1], self.method)
        objective = LogLikelihood(features, structures, self.shape_, allowed, self.l2)
        generator = check_random_state(self.random_state)
        start = np.zeros(len(self.shape_))
        if self.hidden_states > 1:  # states of one label must differ to become different
            start = generator.normal(scale=0.1, size=len(start))
        if self.l1:
            self.weights_, converged, status = sparse_maximum(
                objective, start, self.l1, self.tolerance, self.max_iterations
            )
        else:
            found = maximise(objective, start, tolerance=self.tolerance, max_iterations=self.max_iterations)
            self.weights_, converged, status = found.parameters, found.converged, found.status
        self.log_likelihood_ = objective.sums(self.weights_)[2]
        inner = objective.statuses[0]
        self.converged_, self.guarantee_ = converged and inner == "converged", objective.guarantee
        self.status_ = status if inner == "converged" else f"{status}; inference: {inner}"

    def _train(self, read: Structures, codes: Float[Array, " nodes"]) -> None:
        """Train a network and tables together."""
        self.inputs_ = Features.of(read)
        pack = with_labels(self.inputs_.encode(read), codes)
        network, training, fraction = self._options(pack)
        generator = check_random_state(self.random_state)
        seed = int(generator.randint(2**31))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network_ = NodeField(
                self.inputs_.sizes,
                len(self.classes_) * self.hidden_states,
                kinds=kinds_of(read),
                hidden_states=self.hidden_states,
                method=self.method,
                model=str(self.embedding),
                **network,
            )
        order = generator.permutation(len(pack))
        held_out, learned = np.split(order, [int(fraction * len(pack))])
        parts = [pack[torch.from_numpy(np.sort(part))] for part in (learned, held_out)]
        settings = TrainSettings(**training | {"seed": seed} | ({} if len(held_out) else {"patience": None}))
        validation = parts[1] if len(held_out) else None
        self.history_ = train(self.network_, LabelTask(len(self.classes_)), parts[0], validation, settings)
        self.network_.cpu()
        structures, unary, tables = self._potentials(read)
        given, free = self._sums(structures, unary, tables, codes)
        self.log_likelihood_ = float((given.log_partition - free.log_partition).sum())
        self.guarantee_ = structures.guarantee(whole=not np.isnan(codes).any())
        inner = worse(free.status, given.status)
        self.converged_, self.status_ = inner == "converged", f"inference: {inner}"

    def _options(self, pack: Structures) -> tuple[dict[str, Any], dict[str, Any], float]:
        """Return the options of the network and of its training, and the share of structures that choose the epoch."""
        given = dict(self.embedding_options or {})
        if taken := sorted(TAKEN & given.keys()):
            raise InputError(f"embedding_options cannot have {taken[0]!r}: {TAKEN_SAYS}")
        fraction = given.pop("validation_fraction", 0.1 if len(pack) >= MANY else 0.0)
        if not (isinstance(fraction, (int, float)) and 0 <= fraction < 1):
            raise InputError(f"validation_fraction must lie in [0, 1), got {fraction!r}")
        training = {name: given.pop(name) for name in TrainSettings.names() if name in given}
        batch = training.setdefault("batch_size", max(1, min(32, len(pack) // 8)))
        training.setdefault("epochs", int(np.clip(STEPS * batch / len(pack), 10, 200)))
        training.setdefault("learning_rate", 0.01)
        assert pack.node_targets is not None
        known = int((~pack.node_targets.isnan()).sum())
        training.setdefault("weight_decay", self.l2 / known)
        return {"dim": 32, "rounds": 2, "hidden": 32} | given, training, float(fraction)

    def _read(self, X: Any) -> Any:
        """Return the pack or the tokens."""
        if self.reading_ is not None:
            return self.reading_.convert(X).to("cpu")
        if not _has_tokens(X):
            raise InputError(
                f"expected a list of lists of tokens with features, as for fit, got {type(X).__name__}"
            )
        for i, tokens in enumerate(X):
            odd = next((t for t in tokens if isinstance(t, str) or not hasattr(t, "__iter__")), None)
            if odd is not None:
                raise InputError(
                    f"sequence {i}: expected tokens that are dicts or lists of features, got {odd!r:.60}"
                )
        return X

    def _labels(self, X: Any, read: Any, y: Any, edges: Edges) -> list[Any]:
        """Return the label of every node, None where it is not known."""
        if y is None:
            return self._node_targets(read)
        sizes = np.diff(edges.node_ptr)
        if len(y) == len(sizes) and all(hasattr(row, "__len__") and not isinstance(row, str) for row in y):
            for i, row in enumerate(y):
                if len(row) != sizes[i]:
                    raise InputError(f"structure {i} has {sizes[i]} nodes, but {len(row)} labels in y")
            y = [label for row in y for label in row]
        if len(y) != sizes.sum():
            raise InputError(
                f"y needs a list of labels for each of {len(sizes):,} structures, or one label for each of "
                f"{sizes.sum():,} nodes; got {len(y):,} entries"
            )
        plain = [label.item() if isinstance(label, np.generic) else label for label in y]
        return [None if label is None or label != label else label for label in plain]

    def _codes(self, labels: list[Any]) -> Float[Array, " nodes"]:
        """Return the number of each label among the classes; NaN where it is not known, -1 where it is none of them."""
        number = {label: float(code) for code, label in enumerate(self.classes_.tolist())}
        return np.array(
            [np.nan if label is None else number.get(label, -1.0) for label in labels], np.float64
        )

    def _node_targets(self, read: Any) -> list[Any]:
        targets = read.features.get("node_targets") if isinstance(read, Structures) else None
        if targets is None:
            raise InputError("y is missing: give the labels of the nodes, or a pack with node targets")
        if self.target is None and len(targets.names) > 1:
            raise InputError(f"choose one of the node targets with target=...: {', '.join(targets.names)}")
        name = self.target or targets.names[0]
        if name not in targets.names:
            raise InputError(f"there is no node target {name!r}; there are {', '.join(targets.names)}")
        at = targets.names.index(name)
        values, words = targets.values[:, at].numpy(), targets.vocabularies[at]
        plain = [None if np.isnan(value) else value for value in values]
        return [None if v is None else v if words is None else words.symbols[int(v)] for v in plain]

    # -- predicting ----------------------------------------------------------------------------------------

    def _potentials(
        self, X: Any
    ) -> tuple[Field, Float[Array, "nodes states"], Float[Array, "kinds states states"]]:
        check_is_fitted(self, "classes_")
        read = self._read(X)
        if self.embedding is not None:
            network, coded = self.network_, self.inputs_.encode(read)
            unary = predict(network, coded, device="cpu", function=network.potentials).double().numpy()
            edges = edges_of(read, network.kinds)
            tables = network.tables.detach().double().numpy()
            unary = unary.reshape(-1, tables.shape[1])
        else:
            features, edges = self.features_.read(read)
            weights, tables = self.shape_.split(self.weights_)
            unary = self.shape_.scores(features, weights)
        return Field(edges, unary.shape[1], self.method), unary, symmetric(tables, edges)

    def _sums(
        self, structures: Field, unary: Array, tables: Array, codes: Float[Array, " nodes"]
    ) -> tuple[Expected, Expected]:
        """Return the sums over states with labels and without."""
        allowed = allowed_states(codes, len(self.classes_), self.hidden_states)
        clamped = np.where(allowed, unary, -np.inf)
        return structures.expected(clamped, tables), structures.expected(unary, tables)

    def _split(self, nodes: Array, structures: Field) -> list[Array]:
        return np.split(nodes, structures.edges.node_ptr[1:-1])

    def predict(self, X: Any) -> list[Array]:
        """Return the labels of the nodes, an array for each structure."""
        structures, unary, tables = self._potentials(X)
        if self.decode == "jointly" and self.hidden_states == 1:
            states = structures.best(unary, tables)
        else:
            states = self._by_label(structures.expected(unary, tables).nodes).argmax(1)
        return self._split(self.classes_[states], structures)

    def predict_proba(self, X: Any) -> list[Float[Array, "nodes classes"]]:
        """Return the probability of every label at every node, an array for each structure."""
        structures, unary, tables = self._potentials(X)
        return self._split(self._by_label(structures.expected(unary, tables).nodes), structures)

    def _by_label(self, nodes: Float[Array, "nodes states"]) -> Float[Array, "nodes classes"]:
        return nodes.reshape(len(nodes), len(self.classes_), self.hidden_states).sum(2)

    def log_likelihood(self, X: Any, y: Any = None) -> Float[Array, " structures"]:
        r"""Return :math:`\log p(y \mid x)` of every structure, over the labels that are known."""
        structures, unary, tables = self._potentials(X)
        codes = self._codes(self._labels(X, self._read(X), y, structures.edges))
        given, free = self._sums(structures, unary, tables, codes)
        return given.log_partition - free.log_partition

    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of nodes with a known label whose prediction is right."""
        found = self.predict(X)
        structures, _, _ = self._potentials(X)
        labels = self._labels(X, self._read(X), y, structures.edges)
        known = [
            (label, one)
            for label, one in zip(labels, np.concatenate(found), strict=True)
            if label is not None
        ]
        if not known:
            raise InputError("no node has a label to compare with")
        return float(np.mean([label == one for label, one in known]))

    # -- looking and saving --------------------------------------------------------------------------------

    def feature_weights(self, count: int = 10) -> dict[Any, list[tuple[str, float]]]:
        """Return the features with the largest weights of each label (with hidden states, of any of its states)."""
        check_is_fitted(self, "classes_")
        if self.embedding is not None:
            raise InputError("with an embedding there are no weights of features; tables_ has those of edges")
        own, names = self.shape_.split(self.weights_)[0], self.features_.names
        feature = np.repeat(np.arange(len(names)), np.diff(self.shape_.pair_ptr))
        label = self.shape_.pair_state // self.hidden_states
        found = {}
        for number, name in enumerate(self.classes_.tolist()):
            mine = np.flatnonzero(label == number)
            best = mine[np.argsort(-own[mine], kind="stable")[:count]]
            found[name] = [(names[feature[k]], float(own[k])) for k in best]
        return found

    @property
    def tables_(self) -> dict[Kind, Float[Array, "states states"]]:
        """The weights of pairs of labels, by kind of edge: the labels of its two arcs."""
        check_is_fitted(self, "classes_")
        if self.embedding is not None:
            return dict(zip(self.network_.kinds, self.network_.tables.detach().double().numpy(), strict=True))
        return dict(zip(self.features_.kinds, self.shape_.split(self.weights_)[1], strict=True))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted estimator into a folder, as safetensors and JSON; `hiddenfield.load` opens it."""
        from hiddenfield.estimators.saving import save

        check_is_fitted(self, "classes_")
        save(self, Path(path), overwrite=overwrite)

    def as_saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the arrays, and plain values that describe what was learned."""
        reading = self.reading_
        content: dict[str, Any] = {
            "reading": None
            if reading is None
            else [reading.representation, as_json("options", dict(reading.options))],
            "classes": self.classes_.tolist(),
            "learned": [self.log_likelihood_, self.converged_, self.status_, self.guarantee_],
        }
        if self.embedding is not None:
            content |= {"inputs": self.inputs_.as_dict(), "network": self.network_.settings()}
            content["history"] = vars(self.history_)
            return dict(self.network_.state_dict()), content
        shape = self.shape_
        arrays = {"weights": self.weights_, "pair_ptr": shape.pair_ptr, "pair_state": shape.pair_state}
        content["features"] = msgspec.json.decode(msgspec.json.encode(self.features_))
        content["states"] = [shape.num_states, shape.num_kinds]
        return {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}, content

    def from_saved(self, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ConditionalRandomField:
        """Take over what `as_saved` returned; what does not fit together is an error."""
        check(self)
        reading = content["reading"]
        self.reading_ = None if reading is None else Reading(reading[0], from_json(reading[1]))
        self.classes_ = np.array(content["classes"])
        self.log_likelihood_, self.converged_, self.status_, self.guarantee_ = content["learned"]
        if self.embedding is not None:
            return self._with_network(content, tensors)
        arrays = {name: tensors[name].numpy() for name in ("weights", "pair_ptr", "pair_state")}
        self.features_ = msgspec.convert(content["features"], NodeFeatures)
        self.shape_ = Weights(arrays["pair_ptr"], arrays["pair_state"], *content["states"])
        self.weights_ = arrays["weights"]
        states, ptr = self.shape_.num_states, self.shape_.pair_ptr
        whole = (
            states == len(self.classes_) * self.hidden_states
            and self.shape_.num_kinds == len(self.features_.kinds)
            and len(ptr) == len(self.features_.names) + 1
            and (np.diff(ptr, prepend=0, append=len(self.shape_.pair_state)) >= 0).all()
            and ptr[0] == 0
            and (self.shape_.pair_state < states).all()
            and (self.shape_.pair_state >= 0).all()
            and self.weights_.shape == (len(self.shape_),)
            and np.isfinite(self.weights_).all()
        )
        if not whole:
            raise InputError("weights, features and labels do not belong together")
        return self

    def _with_network(
        self, content: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> ConditionalRandomField:
        """Take over a network, whose size is compared with the weights before it takes up memory."""
        self.inputs_ = Features.from_dict(content["inputs"])
        settings = dict(content["network"])
        states, kinds = settings.pop("outputs"), [(a, b) for a, b in settings.pop("kinds")]
        with torch.device("meta"):
            network = NodeField(self.inputs_.sizes, states, kinds=kinds, **settings)
        wanted = {name: (value.shape, value.dtype) for name, value in network.state_dict().items()}
        whole = (
            states == len(self.classes_) * self.hidden_states
            and (network.hidden_states, network.method) == (self.hidden_states, self.method)
            and {name: (value.shape, value.dtype) for name, value in tensors.items()} == wanted
            and all(bool(value.isfinite().all()) for value in tensors.values())
        )
        if not whole:
            raise InputError("the network, its weights and the labels do not belong together")
        network.load_state_dict(dict(tensors), assign=True)
        self.network_, self.history_ = network.eval(), History(**content["history"])
        return self
