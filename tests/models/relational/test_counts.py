"""Counts and change statistics against the ground field, which has every binding."""

from __future__ import annotations

import dataclasses
from typing import Any

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import FEATURES, RelationalScheme, graph_scheme, ground, ground_variables
from hiddenfield.models.relational import Network, change_statistics, count_features, network_from_edges
from tests.fields.relational.strategies import networks, schemes


def assignment(scheme: RelationalScheme, network: Network) -> torch.Tensor:
    parts = []
    for name, rows in ground_variables(scheme, network.sizes).items():
        if rows.shape[1] == 1:
            parts.append(network.values[name])
        else:
            present = {tuple(pair) for pair in network.pairs[name].tolist()}
            parts.append(np.array([tuple(row) in present for row in rows.tolist()], dtype=np.int64))
    return torch.from_numpy(np.concatenate(parts))


def by_enumeration(scheme: RelationalScheme, network: Network, weights: str) -> np.ndarray:
    values = assignment(scheme, network)
    result = []
    for theta in np.eye(len(scheme.features)):
        field = ground(scheme, network.sizes, theta, weights=weights)
        result.append(float(field.log_value(values)[0]))
    return np.array(result)


@settings(max_examples=40)
@given(
    scheme=schemes(),
    size=st.integers(2, 6),
    seed=st.integers(0, 1000),
    weights=st.sampled_from(["ground", "binding"]),
)
def test_counts_are_those_of_the_ground_field(scheme: Any, size: int, seed: int, weights: str) -> None:
    network = networks(scheme, size, np.random.default_rng(seed))
    np.testing.assert_allclose(
        count_features(scheme, network, weights=weights), by_enumeration(scheme, network, weights), atol=1e-9
    )


@settings(max_examples=25)
@given(
    scheme=schemes(),
    size=st.integers(2, 5),
    seed=st.integers(0, 1000),
    weights=st.sampled_from(["ground", "binding"]),
)
def test_change_statistics_are_differences_of_counts(scheme: Any, size: int, seed: int, weights: str) -> None:
    network = networks(scheme, size, np.random.default_rng(seed))
    pairs = ground_variables(scheme, size)["exist"]
    found = change_statistics(scheme, network, pairs, weights=weights)
    present = network.pairs["exist"]
    for pair, row in zip(pairs, found, strict=True):
        without = present[(present != pair).any(1)]
        both = [
            count_features(scheme, dataclasses.replace(network, pairs={"exist": rows}), weights=weights)
            for rows in (without, np.concatenate([without, pair[None]]))
        ]
        np.testing.assert_allclose(row, both[1] - both[0], atol=1e-9)


def test_ready_features_of_a_large_network_against_networkx() -> None:
    graph = networkx.gnm_random_graph(200, 1200, seed=1)
    scheme = graph_scheme(*FEATURES)
    counts = dict(
        zip(
            scheme.features,
            count_features(scheme, network_from_edges(scheme, list(graph.edges), vertices=range(200))),
            strict=True,
        )
    )
    degrees = np.array([degree for _, degree in graph.degree()])
    adjacency = networkx.to_numpy_array(graph)
    square = adjacency @ adjacency
    off = square[np.triu_indices(200, 1)]
    assert counts["edge"] == 1200
    assert counts["triangle"] == sum(networkx.triangles(graph).values()) / 3
    assert counts["star2"] == (degrees * (degrees - 1) / 2).sum()
    assert counts["star3"] == (degrees * (degrees - 1) * (degrees - 2) / 6).sum()
    assert counts["open_chain"] == counts["star2"] - 3 * counts["triangle"]
    assert counts["quadruplet"] == (off * (off - 1) / 2).sum() / 2


def test_colours_count_too() -> None:
    scheme = graph_scheme("edge", colors=2)
    values = {"color": {"a": 0, "b": 0, "c": 1}}
    network = network_from_edges(scheme, [("a", "b"), ("b", "c")], values=values)
    np.testing.assert_array_equal(count_features(scheme, network), [2, 1])
    np.testing.assert_array_equal(count_features(scheme, network, weights="binding"), [4, 2])


def test_unknown_values_are_not_counted() -> None:
    scheme = graph_scheme("edge")
    network = network_from_edges(scheme, [(0, 1)], vertices=range(3), unknown=[(1, 2)])
    with pytest.raises(InputError, match="complete networks"):
        count_features(scheme, network)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 0)], r"edge 0 is a self-loop at 0"),
        ([(0, 1), (1, 0)], r"edge 1, 1 - 0, is there already as edge 0"),
        ([(0, 7)], r"names the vertex 7, which is not among the 3 vertices"),
    ],
)
def test_bad_networks(edges: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        network_from_edges(graph_scheme("edge"), edges, vertices=range(3))


def test_an_edge_cannot_also_be_unknown() -> None:
    with pytest.raises(InputError, match=r"unknown pair 0, .* is there already as edge 0"):
        network_from_edges(graph_scheme("edge"), [(0, 1)], unknown=[(1, 0)])
