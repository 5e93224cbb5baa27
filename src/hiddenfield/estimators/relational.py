"""RelationalModel: exponential random graph models and other relational schemes, in scikit-learn's style."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.structures import Structures
from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.estimators.parameters import COUNT, POSITIVE, check, plain
from hiddenfield.fields.relational import (
    FEATURES,
    TWO_MODE,
    RelationalScheme,
    graph_scheme,
    read_scheme,
    two_mode_scheme,
)
from hiddenfield.learning.maximum_likelihood import OPTIMISERS
from hiddenfield.models.relational import (
    LIKELIHOODS,
    BetheLikelihood,
    Distribution,
    ExactLikelihood,
    Network,
    PairPrediction,
    fit_relational,
    goodness_of_fit,
    network_from_edges,
    networks_from_structures,
    predict_pairs,
)
from hiddenfield.models.relational.observations import classes_of, pair_attribute
from hiddenfield.models.relational.phases import Phase, find_phases
from hiddenfield.models.relational.sampling import as_drawn, sample_networks


@dataclass(eq=False, repr=False)
class RelationalModel(BaseEstimator):  # type: ignore[misc]
    """A relational model of networks, fitted by maximum likelihood at template level.

    Networks are given as `Network`, `Structures`, networkx graphs, or lists of these. An edge is a pair of value 1; the
    attributes of vertices are node labels or node attributes of the same name. In a graph for a two-mode scheme each
    node has the attribute ``bipartite``, 0 for the first type and 1 for the second, as networkx has it.

    Parameters
    ----------
    scheme
        A `RelationalScheme`, the names of ready features such as ``("edge", "triangle")``, or a TOML file. Names that
        only two-mode networks have, as in ``("edge", "b1star2")``, make it one of these.
    method
        What is maximised, a name of `hiddenfield.models.relational.LIKELIHOODS`, or "auto": "bethe", and "monte_carlo"
        where a feature has no template (gwesp and other terms).
    optimiser, starts, ridge, fixed, share, bindings, weights, condition, tolerance, max_iterations
        As in `hiddenfield.models.relational.fit_relational`.
    random_state
        Seed of the random starts, and of what samples.

    Attributes
    ----------
    theta_, standard_errors_
        The weights, by feature in the order of the scheme, and their standard errors; NaN where there is no maximum.
    feature_names_
        The features.
    phases_
        All fixed points of belief propagation at `theta_`, best first; more than one stable one is a warning.
    converged_, fit_
        Whether `theta_` is a maximum, and all about the search.

    Examples
    --------
    >>> import networkx
    >>> from hiddenfield.estimators import RelationalModel
    >>> model = RelationalModel(("edge", "triangle")).fit(networkx.florentine_families_graph())
    >>> dict(zip(model.feature_names_, model.theta_.round(2).tolist()))
    {'edge': -1.42, 'triangle': -0.05}
    >>> model.sample(3)[0].sizes
    {'vertex': 15}
    """

    scheme: Any = ("edge", "triangle")
    method: str = "auto"
    optimiser: str = "lbfgs"
    starts: int = 4
    ridge: float = 0.0
    fixed: Any = None
    share: bool = False
    bindings: str = "auto"
    weights: str = "ground"
    condition: bool = True
    tolerance: float = 1e-5
    max_iterations: int = 200
    random_state: int = 0

    _parameter_constraints = {  # noqa: RUF012  scikit-learn reads it from the class
        "scheme": [RelationalScheme, tuple, list, str, os.PathLike],
        "method": [StrOptions({"auto", *LIKELIHOODS.keys()})],
        "optimiser": [StrOptions(set(OPTIMISERS))],
        "starts": [COUNT],
        "ridge": [Interval(Real, 0, None, closed="left")],
        "fixed": [Mapping, None],
        "share": ["boolean"],
        "bindings": [StrOptions({"auto", "merged", "ordered", "cluster"})],
        "weights": [StrOptions({"ground", "binding"})],
        "condition": ["boolean"],
        "tolerance": [POSITIVE],
        "max_iterations": [COUNT],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def fit(self, X: Any, y: Any = None) -> RelationalModel:
        """Fit the weights to one or several networks; `y` is not used.

        Each reason not to trust the weights is a `ConvergenceWarning`: no maximum (then `converged_` is false), several
        phases, or simulated networks unlike the data. ``fit_.warnings`` has them too.
        """
        check(self)
        scheme = self._scheme()
        networks = as_networks(scheme, X)
        options = {
            name: plain(value) for name, value in self.get_params(deep=False).items() if name != "scheme"
        }
        fit = fit_relational(scheme, networks, seed=options.pop("random_state"), **options)
        self.scheme_, self.fit_ = scheme, fit
        self.sizes_, self._network = networks[0].sizes, networks[0]
        self.theta_, self.standard_errors_ = fit.theta, fit.standard_errors
        self.feature_names_, self.converged_ = fit.names, fit.converged
        self.__dict__.pop("phases_", None)
        for reason in fit.warnings:
            warnings.warn(reason, ConvergenceWarning, stacklevel=2)
        return self

    @cached_property
    def phases_(self) -> list[Phase]:
        """All fixed points of belief propagation at the fitted weights, computed when first asked for."""
        if "theta_" not in vars(self):
            raise AttributeError("this RelationalModel is not fitted yet and has no phases_")
        given = classes_of(self.scheme_, self._network) if self.condition else None
        options: dict[str, Any] = {"bindings": self.bindings, "weights": self.weights, "given": given}
        return find_phases(self.scheme_, self.sizes_, self.theta_, **options)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the log-likelihood of networks, averaged over them: exact for ``method="exact"``, else Bethe's."""
        check_is_fitted(self, "theta_")
        networks = as_networks(self.scheme_, X)
        kind = ExactLikelihood if self.method == "exact" else BetheLikelihood
        options: dict[str, Any] = {"bindings": self.bindings, "weights": self.weights}
        options["condition"] = self.condition
        likelihood = kind(self.scheme_, networks, **options)
        return likelihood(self.theta_)[0] / len(networks)

    def predict_edges(self, network: Any) -> PairPrediction:
        """Return the probability of every unknown pair of a network given the rest of it (an estimate)."""
        check_is_fitted(self, "theta_")
        if not isinstance(network, Network):
            raise InputError(
                f"edges are predicted for a Network that says which pairs are unknown, got {type(network).__name__}; "
                "see hiddenfield.models.relational.network_from_edges"
            )
        return predict_pairs(self.scheme_, network, self.theta_, bindings=self.bindings, weights=self.weights)

    def sample(
        self,
        n: int = 1,
        *,
        size: Any = None,
        start: str = "empty",
        burn_in: float = 200,
        thin: float = 20,
    ) -> list[Network]:
        """Draw networks by Gibbs sampling, one after another of a chain, `thin` sweeps apart.

        Attributes and covariates of vertices are those of the (first) network of `fit`. In a model with two phases a
        chain stays in the phase of its `start` ("empty", "full", or "observed": that network). A network of another
        `size` (for two-mode networks a mapping from type to number) has no attributes.
        """
        check_is_fitted(self, "theta_")
        sizes = self.sizes_ if size is None else self.scheme_.check_sizes(size)
        drawn = sample_networks(
            self.scheme_,
            sizes,
            self.theta_,
            samples=n,
            burn_in=burn_in,
            thin=thin,
            start=start,
            network=self._network if sizes == self.sizes_ else None,
            weights=self.weights,
            keep_networks=True,
            seed=int(self.random_state),
        )
        return as_drawn(self.scheme_, drawn, self._network)

    def goodness_of_fit(self, X: Any = None, *, n: int = 100) -> dict[str, Distribution]:
        """Compare degrees, shared partners and distances of a network (default: that of `fit`) with `n` samples."""
        check_is_fitted(self, "theta_")
        network = self._network if X is None else as_networks(self.scheme_, X)[0]
        return goodness_of_fit(
            self.scheme_, network, self.theta_, networks=n, weights=self.weights, seed=int(self.random_state)
        )

    def _scheme(self) -> RelationalScheme:
        if isinstance(self.scheme, RelationalScheme):
            return self.scheme
        if isinstance(self.scheme, (str, os.PathLike)):
            return read_scheme(Path(self.scheme))
        only = set(self.scheme) & (set(TWO_MODE) - set(FEATURES))
        return (two_mode_scheme if only else graph_scheme)(*self.scheme)

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether there are weights."""
        return "theta_" in vars(self)


def as_networks(scheme: RelationalScheme, X: Any) -> list[Network]:
    """Return the networks in what a user gives: one or several, of any kind that is known."""
    if isinstance(X, Network):
        return [X]
    if isinstance(X, Structures):
        return networks_from_structures(scheme, X)
    if hasattr(X, "is_directed") and hasattr(X, "edges"):
        return [_from_networkx(scheme, X)]
    if isinstance(X, Sequence) and not isinstance(X, (str, bytes)):
        return [network for part in X for network in as_networks(scheme, part)]
    raise InputError(
        f"networks are Network, Structures, networkx graphs, or a list of these; got {type(X).__name__}"
    )


def _from_networkx(scheme: RelationalScheme, graph: Any) -> Network:
    kind = pair_attribute(scheme).type
    ordered = not (kind.unordered or kind.two_mode)
    if graph.is_directed() and kind.two_mode:
        raise InputError(
            "the scheme is about a two-mode network and the graph is directed; give an undirected one"
        )
    if graph.is_directed() != ordered:
        kinds = ("ordered", "undirected") if ordered else ("unordered", "directed")
        raise InputError(f"the scheme is about {kinds[0]} pairs and the graph is {kinds[1]}")
    side = _sides(graph, kind.parts) if kind.two_mode else dict.fromkeys(graph, 0)
    values = {
        name: {
            node: data[name]
            for node, data in graph.nodes(data=True)
            if name in data and attribute.type.parts[0] == kind.parts[side[node]]
        }
        for name, attribute in scheme.attributes.items()
        if len(attribute.type.parts) == 1
    }
    edges = [(edge[0], edge[1]) for edge in graph.edges]
    if not kind.two_mode:
        return network_from_edges(scheme, edges, vertices=list(graph), values=values)
    for first, second in edges:
        if side[first] == side[second]:
            raise InputError(f"the edge {first!r} - {second!r} joins two of type {kind.parts[side[first]]!r}")
    names = {part: [node for node in graph if side[node] == i] for i, part in enumerate(kind.parts)}
    pairs = [(a, b) if side[a] == 0 else (b, a) for a, b in edges]
    return network_from_edges(scheme, pairs, vertices=names, values=values)


def _sides(graph: Any, kinds: tuple[str, ...]) -> dict[Any, int]:
    """Return the node attribute ``bipartite`` of each node; a node without one is an error."""
    side = {node: data.get("bipartite") for node, data in graph.nodes(data=True)}
    for node, value in side.items():
        if value not in (0, 1):
            raise InputError(
                f"the node attribute 'bipartite' says which nodes are {kinds[0]} (0) and which are {kinds[1]} (1); "
                f"{node!r} has {value!r}"
            )
    return side
