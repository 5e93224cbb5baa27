"""Encoders of nodes: forms of networks, conformance, what is refused, saving."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass

import jaxtyping
import networkx
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csr_array
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import validate_data

import hiddenfield as hf
from hiddenfield.errors import InputError, ReadError, SkippedInputWarning
from hiddenfield.estimators import NODE_ENCODERS, LINEEncoder, SDNEEncoder, SpectralEncoder
from hiddenfield.estimators.network_inputs import read_edges

SMALL = {
    "line": {"dim": 4, "samples": 20_000},
    "sdne": {"dim": 4, "hidden": (8,), "epochs": 3, "pretraining": 1},
    "spectral": {"dim": 2},
}
EDGES = [("ann", "bob", 1.0), ("bob", "cid", 2.0), ("cid", "ann", 1.0), ("cid", "dan", 0.5)]


def small(name, **options):
    return NODE_ENCODERS[name](**SMALL[name] | options)


@pytest.fixture(params=sorted(NODE_ENCODERS))
def name(request):
    return request.param


def forms(tmp_path):
    """Return one network in all forms, with and without names of nodes."""
    path = tmp_path / "network.edges.txt"
    path.write_text("".join(f"{a} {b} {w}\n" for a, b, w in EDGES))
    frame = pd.DataFrame(EDGES, columns=["from", "to", "weight"])
    graph = networkx.Graph()
    graph.add_nodes_from(["ann", "bob", "cid", "dan"])
    graph.add_weighted_edges_from(EDGES)
    number = {"ann": 0, "bob": 1, "cid": 2, "dan": 3}
    numbered = [(number[a], number[b], w) for a, b, w in EDGES]
    ends = np.array(numbered)
    half = coo_array((ends[:, 2], ends[:, :2].astype(int).T), (4, 4))
    named = {
        "file": path,
        "text": str(path),
        "frame": frame,
        "list": EDGES,
        "networkx": graph,
        "pack": hf.read(path),
    }
    return named, {"array": ends, "list": numbered, "sparse": half + half.T, "csr": csr_array(half + half.T)}


def test_all_forms_of_a_network_are_the_same(tmp_path):
    named, numbered = forms(tmp_path)
    for found, names in ((named, ["ann", "bob", "cid", "dan"]), (numbered, [0, 1, 2, 3])):
        for X in found.values():
            edges = read_edges(X)
            assert edges.names.tolist() == names
            assert not edges.directed
            low, high = np.minimum(edges.source, edges.target), np.maximum(edges.source, edges.target)
            listed = sorted(zip(low.tolist(), high.tolist(), edges.weight.tolist(), strict=True))
            assert listed == [(0, 1, 1.0), (0, 2, 1.0), (1, 2, 2.0), (2, 3, 0.5)]


def test_vectors_do_not_depend_on_the_form(name, tmp_path):
    named, _ = forms(tmp_path)
    found = [small(name).fit_transform(X) for X in named.values()]
    assert all(np.allclose(each, found[0], atol=1e-5) for each in found[1:])


def test_rows_are_named_and_found_again(name):
    model = small(name)
    found = model.fit_transform(EDGES)
    assert model.node_names_.tolist() == ["ann", "bob", "cid", "dan"]
    np.testing.assert_allclose(model.transform(EDGES), found, atol=1e-6)
    assert np.array_equal(model.vectors(["dan", "ann"]), found[[3, 0]])
    assert model.get_feature_names_out()[0] == f"{type(model).__name__.lower()}0"
    assert np.array_equal(clone(model).fit_transform(EDGES), found)
    with pytest.raises(
        InputError, match=r"no vector of node 'eve', which was not in the network .*\(1 such nodes"
    ):
        model.vectors(["ann", "eve"])


def test_new_nodes_are_encoded_by_their_edges_or_refused():
    model = small("sdne").fit(EDGES)
    found = model.transform([("eve", "ann"), ("eve", "cid"), ("cid", "bob")])
    assert found.shape == (4, 4)
    np.testing.assert_allclose(found[3], model.transform([("x", "ann"), ("x", "cid")])[2], atol=1e-6)
    with pytest.raises(InputError, match="node 'eve' has no edge to a node of the network"):
        model.transform([("eve", "fay"), ("ann", "bob")])
    with pytest.raises(InputError, match="no vector of node 'eve'"):
        small("line").fit(EDGES).transform([("eve", "ann")])


def test_directions(tmp_path):
    arcs = [(0, 1), (1, 2), (2, 0), (0, 2)]
    graph = networkx.DiGraph(arcs)
    matrix = networkx.to_scipy_sparse_array(graph, nodelist=[0, 1, 2])
    path = tmp_path / "net.arcs.txt"
    path.write_text("".join(f"{a} {b}\n" for a, b in arcs))
    assert all(read_edges(X).directed for X in (graph, matrix, path))
    assert read_edges(arcs, True).directed
    for X in (graph, matrix, path):
        assert sorted(zip(read_edges(X).source, read_edges(X).target, strict=True)) == sorted(arcs)
        assert np.isfinite(small("line").fit_transform(X)).all()
    with pytest.raises(InputError, match=r"1 edges listed again, first edge \(0, 2\) in row 3"):
        small("line").fit(arcs)
    with pytest.raises(InputError, match="not symmetric"):
        small("line", directed=False).fit(matrix)


def test_planted_groups_are_recovered_by_the_estimators():
    graph = networkx.planted_partition_graph(3, 30, 0.4, 0.02, seed=1)
    truth = np.repeat(np.arange(3), 30)
    for encoder in (LINEEncoder(dim=8, samples=200_000), SpectralEncoder(dim=3)):
        groups = make_pipeline(encoder, KMeans(3, n_init=10, random_state=0)).fit_predict(graph)
        table = np.histogram2d(groups, truth, bins=3)[0]
        assert table.max(axis=0).sum() >= 85


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([(0, 1), (1, 1)], r"1 self-loops, first edge \(1, 1\) in row 1"),
        ([(0, 1), (1, 2), (1, 0)], r"1 edges listed again, first edge \(1, 0\) in row 2"),
        ([(0, 1, 1), (1, 2, -2)], r"the weight of edge \(1, 2\) in row 1 is -2.0; weights are positive"),
        ([(0, 1, 1), (1, 2, np.nan)], r"the weight of edge \(1, 2\) in row 1 is nan"),
        ([(0, 1, 1), (1, 2, np.inf)], "is inf"),
        ([("a", "b", "x")], "the third column of edges has their weights"),
        ([("a", 1)], "whole numbers or by texts"),
        ([("a", "b"), (1, "c")], "got 'a' and 1 in row 1"),
        ([(0.5, 1)], "got 0.5 in row 0"),
        ([(None, "b")], "got None in row 0"),
        (np.array([[0, np.nan]]), "got nan in row 0"),
        (csr_array(np.diag([1.0, 1.0], 1) + np.diag([1.0, 1.0], -1))[:2], r"square, got shape \(2, 3\)"),
        (csr_array(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])), "1 nodes without edges, first 2"),
        (csr_array((1, 1)), "at least two nodes and an edge, got 1 nodes"),
        (csr_array((3, 3)), "got 3 nodes and no edges"),
        (np.ones((4, 4)), "A dense adjacency matrix is given as scipy.sparse.csr_array"),
        (np.zeros((0, 2), int), "at least two nodes and an edge"),
        ([], "expected a file, a networkx graph"),
        (3, "expected a file, a networkx graph, .*; got int"),
        (networkx.MultiGraph([(0, 1), (0, 1)]), r"1 edges listed again, first edge \(0, 1\)\."),
        (networkx.Graph(), "got 0 nodes and no edges"),
        (hf.data.from_edge_lists([[(0, 1)], [(0, 1)]]), "expected one network, got 2 structures"),
    ],
    ids=str,
)
def test_what_is_refused(X, message):
    with pytest.raises(InputError, match=message):
        small("line").fit(X)


def test_what_is_skipped_on_request(name):
    loops = coo_array(([1.0, 2.0, 1.0, 1.0, 3.0], ([0, 1, 1, 2, 4], [1, 0, 2, 1, 4])), (5, 5))
    with pytest.warns(SkippedInputWarning, match="1 self-loops, .*; 2 nodes without edges, first 3"):
        found = small(name, dim=2, on_error="skip", directed=True).fit_transform(loops)
    assert np.isnan(found).all(axis=1).tolist() == [False, False, False, True, True]
    with pytest.warns(SkippedInputWarning, match="1 edges listed again"):
        merged = small(name, dim=2, on_error="skip").fit_transform([(0, 1, 1.0), (1, 2, 1.0), (1, 0, 0.5)])
    np.testing.assert_allclose(
        merged, small(name, dim=2).fit_transform([(0, 1, 1.5), (1, 2, 1.0)]), atol=1e-6
    )


def test_disconnected_networks_are_learned(name):
    graph = networkx.disjoint_union(networkx.complete_graph(5), networkx.cycle_graph(4))
    assert np.isfinite(small(name).fit_transform(graph)).all()


def test_spectral_vectors_of_many_components_repeat():
    parts = [networkx.gnm_random_graph(5 + k % 4, 10 + 2 * (k % 4), seed=k) for k in range(100)]
    graph = networkx.disjoint_union_all(
        parts
    )  # the solver finds an invariant space, and starts again at random
    graph.remove_nodes_from(list(networkx.isolates(graph)))
    found = [SpectralEncoder(dim=64).fit_transform(graph) for _ in range(2)]
    assert np.array_equal(*found)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LINEEncoder(dim=3), "dim must be even, got 3"),
        (LINEEncoder(order="third"), "'order' parameter of LINEEncoder"),
        (SDNEEncoder(hidden=(8, 0)), r"hidden has the sizes of the layers, .*got \(8, 0\)"),
        (SpectralEncoder(dim=4), "4 nodes have fewer than dim=4"),
    ],
)
def test_parameters_that_cannot_be_meant(model, message):
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with pytest.raises(InputError, match=message):
            model.fit(EDGES)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def test_saved_and_loaded(name, tmp_path):
    model = small(name).fit(EDGES)
    model.save(tmp_path / "model")
    again = hf.load(tmp_path / "model")
    assert again.get_params() == model.get_params() | ({"hidden": [8]} if name == "sdne" else {})
    assert np.array_equal(again.embedding_, model.embedding_)
    assert again.node_names_.tolist() == model.node_names_.tolist()
    assert np.array_equal(again.transform(EDGES), model.transform(EDGES))
    again.save(tmp_path / "again")
    description = json.loads((tmp_path / "model" / "model.json").read_text())
    assert description["class"] == type(model).__name__
    description["nodes"] = description["nodes"][:2]
    (tmp_path / "model" / "model.json").write_text(json.dumps(description))
    with pytest.raises(ReadError, match="damaged"):
        hf.load(tmp_path / "model")
    with pytest.raises(InputError, match="2 nodes do not fit"):
        small(name).from_saved(description, model.as_saved()[0])


class OnRows:
    """Rows of numbers as a network that joins all, so that scikit-learn's checks have an X to give."""

    def _edges(self, X):
        X = validate_data(self, X, reset=not hasattr(self, "embedding_"))
        if len(X) < 2:
            raise InputError(f"{len(X)} sample is no network")
        weights = np.exp(-np.square(X[:, None] - X[None]).mean(axis=2) / 10) + 0.01
        return read_edges(coo_array(np.triu(weights, 1) + np.triu(weights, 1).T))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.sparse, tags.input_tags.string = True, False, False
        tags.no_validation = False
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class OnRowsLINE(OnRows, LINEEncoder):
    pass


@dataclass(kw_only=True, eq=False, repr=False)
class OnRowsSDNE(OnRows, SDNEEncoder):
    pass


@dataclass(kw_only=True, eq=False, repr=False)
class OnRowsSpectral(OnRows, SpectralEncoder):
    pass


@pytest.mark.parametrize(
    "model",
    [
        OnRowsLINE(dim=2, samples=1000),
        OnRowsSDNE(dim=1, hidden=(2,), epochs=1, pretraining=0),
        OnRowsSpectral(dim=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_scikit_learns_checks(model):
    whole = "the nodes are those of one network: vectors of a part of them, or in another order, are another network's"
    excused = dict.fromkeys(
        ("check_methods_subset_invariance", "check_methods_sample_order_invariance"), whole
    )
    jaxtyping.config.update("jaxtyping_disable", True)  # they set parameters to what no annotation allows
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = check_estimator(model, expected_failed_checks=excused, on_fail=None, on_skip=None)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    assert {entry["check_name"]: entry["exception"] for entry in found if entry["status"] == "failed"} == {}
    assert sum(entry["status"] == "passed" for entry in found) > 30
