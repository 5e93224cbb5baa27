"""Every method of learning on every kind of network: a fit near the exact one, or an error that says what to use."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest

from hiddenfield.errors import InputError, NoTemplateError, TooLargeError
from hiddenfield.fields.relational import FEATURES, TWO_MODE, RelationalScheme, graph_scheme, two_mode_scheme
from hiddenfield.models.relational import (
    LIKELIHOODS,
    Network,
    RelationalFit,
    fit_relational,
    network_from_edges,
)

METHODS = ("exact", "pseudo_likelihood", "monte_carlo", "contrastive_divergence", "bethe", "bethe_observed")


def undirected(count: int) -> tuple[RelationalScheme, Network]:
    scheme = graph_scheme(*("edge", "triangle", "star2")[:count])
    return scheme, network_from_edges(scheme, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)], vertices=range(6))


def directed(count: int) -> tuple[RelationalScheme, Network]:
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    arc = scheme.attribute("arc", scheme.ordered(vertex, vertex))
    features = {
        "arc": lambda a, b: arc[a, b],
        "mutual": lambda a, b: arc[a, b] & arc[b, a],
        "through": lambda a, b, c: arc[a, b] & arc[b, c] & arc[a, c],
    }
    for name in list(features)[:count]:
        scheme.feature(name, features[name])
    return scheme, network_from_edges(scheme, [(0, 1), (1, 0), (1, 2), (0, 2), (3, 0)], vertices=range(4))


def attributed(count: int) -> tuple[RelationalScheme, Network]:
    scheme = graph_scheme(*("edge", "triangle")[: count - 1], colors=2)
    values = {"color": {v: v % 2 for v in range(6)}}
    edges = [(0, 2), (2, 4), (0, 4), (1, 2), (3, 5), (4, 5)]
    return scheme, network_from_edges(scheme, edges, vertices=range(6), values=values)


def two_mode(count: int) -> tuple[RelationalScheme, Network]:
    scheme = two_mode_scheme(*("edge", "b1star2", "b2star2")[:count])
    edges = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "y"), ("c", "z"), ("d", "y")]
    return scheme, network_from_edges(scheme, edges)


KINDS = {made.__name__: made for made in (undirected, directed, attributed, two_mode)}


@functools.cache
def fitted(kind: str, count: int, method: str) -> RelationalFit:
    """Fit with a prior, so that there is a maximum whatever the data."""
    scheme, network = KINDS[kind](count)
    return fit_relational(scheme, network, method=method, ridge=2.0, starts=1, tolerance=1e-3, check=False)


def test_a_network_knows_how_many_pairs_it_has() -> None:
    shown = {kind: repr(make(1)[1]) for kind, make in KINDS.items()}
    assert shown == {
        "undirected": "Network(6 vertex; exist: 5 of 15)",
        "directed": "Network(4 vertex; arc: 5 of 12)",
        "attributed": "Network(6 vertex; exist: 6 of 15)",
        "two_mode": "Network(4 first, 3 second; exist: 6 of 12)",
    }


def test_these_are_all_methods() -> None:
    assert set(METHODS) == set(LIKELIHOODS)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_a_fit_is_near_the_exact_one(method: str, kind: str, count: int) -> None:
    """Estimates within the standard errors of the exact maximum; half of one where only the noise of chains differs."""
    fit, exact = fitted(kind, count, method), fitted(kind, count, "exact")
    assert fit.converged, fit.status
    assert np.isfinite(fit.standard_errors).all()
    away = np.abs(fit.theta - exact.theta) / exact.standard_errors
    assert (away < (0.25 if method == "monte_carlo" else 1.0)).all(), away
    if count == 1:  # independent pairs: all but sampling is exact
        assert (away < (0.25 if LIKELIHOODS[method](*one(kind)).sampled else 1e-3)).all()


TRIPLES = [
    (make, names)
    for make, library in ((graph_scheme, FEATURES), (two_mode_scheme, TWO_MODE))
    for names in itertools.combinations(library, 3)
]


@pytest.mark.parametrize("place", range(len(TRIPLES)), ids=lambda place: "-".join(TRIPLES[place][1]))
def test_every_triple_of_ready_features_is_fitted(place: int) -> None:
    """By each method in turn."""
    make, names = TRIPLES[place]
    scheme = make(*names)
    if make is graph_scheme:
        edges: list[Any] = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (1, 4)]
        network = network_from_edges(scheme, edges, vertices=range(6))
    else:
        edges = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "y"), ("c", "z"), ("d", "y"), ("b", "y")]
        network = network_from_edges(scheme, edges)
    options: dict[str, Any] = {"ridge": 2.0, "starts": 1, "tolerance": 1e-3, "check": False}
    exact = fit_relational(scheme, network, method="exact", **options)
    fit = fit_relational(scheme, network, method=METHODS[1 + place % 5], **options)
    assert fit.converged, fit.status
    assert (np.abs(fit.theta - exact.theta) < exact.standard_errors).all()


def one(kind: str) -> tuple[RelationalScheme, list[Network]]:
    scheme, network = KINDS[kind](1)
    return scheme, [network]


def refused(case: str) -> tuple[RelationalScheme, Network, dict[str, Any]]:
    """Return a scheme, a network and options that some methods do not take."""
    scheme, network = attributed(2)
    if case == "joint":
        return scheme, network, {"condition": False}
    if case == "unknown":
        scheme = graph_scheme("edge", "triangle")
        return scheme, network_from_edges(scheme, [(0, 1), (1, 2)], unknown=[(0, 2)]), {}
    if case == "large":
        scheme, _ = directed(1)
        return scheme, network_from_edges(scheme, [(0, 1)], vertices=range(9)), {}
    scheme = graph_scheme("edge")
    scheme.term("gwesp", decay=0.5)
    return scheme, network_from_edges(scheme, [(0, 1), (1, 2), (0, 2), (2, 3)]), {}


@pytest.mark.parametrize(
    ("case", "methods", "error", "instead"),
    [
        ("joint", METHODS[:4], InputError, "use method='bethe'"),
        ("unknown", (*METHODS[:4], "bethe_observed"), InputError, "use method='bethe'"),
        ("large", ("exact",), TooLargeError, "method='monte_carlo'"),
        ("term", ("bethe", "bethe_observed"), NoTemplateError, "method=pseudo_likelihood or monte_carlo"),
    ],
)
def test_an_error_says_what_to_use(case: str, methods: Any, error: type[InputError], instead: str) -> None:
    scheme, network, options = refused(case)
    for method in methods:
        with pytest.raises(error, match=instead):
            fit_relational(scheme, network, method=method, **options)
