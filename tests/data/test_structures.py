"""Structures: building, cutting, joining. The oracle is a plain Python list of graphs."""

from __future__ import annotations

import json
import math

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import hiddenfield as hf
from hiddenfield.data import from_arcs, from_edges
from hiddenfield.errors import InputError, UnknownSymbolError


@st.composite
def graphs(draw, most=6):
    """Draw one multigraph as (number of nodes, arcs with labels, node labels), one-way arcs and loops included."""
    nodes = draw(st.integers(0, 5))
    node = st.integers(0, max(nodes - 1, 0))
    arcs = draw(st.lists(st.tuples(node, node, st.sampled_from("xyz")), max_size=most if nodes else 0))
    return nodes, arcs, draw(st.lists(st.sampled_from("abc"), min_size=nodes, max_size=nodes))


def pack_of(plain):
    """Build a pack, with node numbers within each graph."""
    arcs = [arc for _, arcs, _ in plain for arc in arcs]
    return from_arcs(
        [a[0] for a in arcs],
        [a[1] for a in arcs],
        node_ptr=np.cumsum([0] + [n for n, _, _ in plain]),
        arc_ptr=np.cumsum([0] + [len(a) for _, a, _ in plain]),
        arc_labels=[a[2] for a in arcs],
        node_labels=[label for _, _, labels in plain for label in labels],
        targets=[float(k) for k in range(len(plain))],
        ids=[f"g{k}" for k in range(len(plain))],
    )


def plain_of(pack):
    """Return each graph of a pack in a canonical plain form."""
    result = []
    for n in range(len(pack)):
        low, high = int(pack.node_ptr[n]), int(pack.node_ptr[n + 1])
        first, last = int(pack.arc_ptr[n]), int(pack.arc_ptr[n + 1])
        labels = pack.arc_vocabularies[0].decode(pack.arc_labels[first:last, 0].numpy())
        ends = zip(pack.source[first:last].tolist(), pack.target[first:last].tolist(), labels, strict=True)
        arcs = sorted((s - low, t - low, label) for s, t, label in ends)
        words = pack.node_vocabularies[0].decode(pack.node_labels[low:high, 0].numpy())
        result.append((high - low, arcs, words))
    return result


def canonical(plain):
    return [(n, sorted(arcs), labels) for n, arcs, labels in plain]


def check_invariants(pack):
    pack.topology.validate()
    source, target, reverse = pack.source.long(), pack.target.long(), pack.reverse.long()
    assert (pack.in_ptr.diff() >= 0).all()
    key = target * max(pack.total_nodes, 1) + source
    assert (key.diff() >= 0).all()
    has = reverse >= 0
    back = reverse[has]
    assert torch.equal(source[back], target[has])
    assert torch.equal(target[back], source[has])
    assert torch.equal(reverse[back], has.nonzero().flatten())
    assert (reverse[source == target] == (source == target).nonzero().flatten()).all()
    owner = pack.structure_of_node
    assert torch.equal(owner[source], owner[target])


@given(st.lists(graphs(), max_size=5))
def test_a_pack_holds_what_it_was_built_of(plain):
    pack = pack_of(plain)
    check_invariants(pack)
    assert plain_of(pack) == canonical(plain)


@given(st.lists(graphs(), max_size=4), st.randoms(use_true_random=False))
def test_order_of_arcs_does_not_matter(plain, random):
    shuffled = [(n, random.sample(arcs, len(arcs)), labels) for n, arcs, labels in plain]
    assert pack_of(plain) == pack_of(shuffled)


@given(st.lists(graphs(), max_size=4))
def test_pack_wide_numbers_give_the_same_pack(plain):
    pack = pack_of(plain)
    again = from_arcs(
        pack.source.flip(0),
        pack.target.flip(0),
        node_ptr=pack.node_ptr,
        arc_labels=pack.arc_labels.flip(0),
        arc_vocabularies=pack.arc_vocabularies,
        node_labels=pack.node_labels,
        node_vocabularies=pack.node_vocabularies,
        targets=pack.targets,
        target_names=["target"],
        ids=pack.ids,
    )
    assert again == pack


@given(st.lists(graphs(), min_size=1, max_size=5), st.data())
def test_cutting_is_what_a_list_does(plain, data):
    pack = pack_of(plain)
    chosen = data.draw(st.lists(st.integers(-len(plain), len(plain) - 1), max_size=7))
    cut = pack[np.array(chosen, dtype=np.int64)]
    check_invariants(cut)
    assert plain_of(cut) == [canonical(plain)[k] for k in chosen]
    assert cut.targets.flatten().tolist() == [float(range(len(plain))[k]) for k in chosen]
    assert list(cut.ids) == [f"g{range(len(plain))[k]}" for k in chosen]
    low, high, step = (data.draw(st.one_of(st.none(), st.integers(-6, 6))) for _ in range(3))
    part = slice(low, high, step or None)
    assert plain_of(pack[part]) == canonical(plain)[part]
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(plain), max_size=len(plain))))
    assert pack[mask] == pack[np.flatnonzero(mask)]
    assert pack[torch.from_numpy(mask)] == pack[mask]


@given(st.lists(st.lists(graphs(), max_size=3), min_size=1, max_size=3))
def test_joining_packs_is_joining_lists(parts):
    joined = hf.concatenate([pack_of(part) for part in parts])
    check_invariants(joined)
    assert plain_of(joined) == canonical([graph for part in parts for graph in part])


@given(st.lists(graphs(), min_size=1, max_size=4))
def test_cutting_apart_and_joining_gives_the_pack_back(plain):
    pack = pack_of(plain)
    assert hf.concatenate([pack[k] for k in range(len(pack))]) == pack
    assert hf.concatenate(list(pack.batches(2))) == pack


@given(st.lists(graphs(), max_size=4))
def test_edges_are_counted_as_networkx_counts_them(plain):
    for n, arcs, labels in plain:
        graph = nx.MultiGraph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from((a, b) for a, b, _ in arcs)
        edges = list(graph.edges())
        pack = from_edges(
            [a for a, _ in edges],
            [b for _, b in edges],
            node_ptr=[0, n],
            node_labels=labels,
            edge_labels=["x"] * len(edges),
        )
        check_invariants(pack)
        assert pack.symmetric
        assert pack.num_edges.tolist() == [graph.number_of_edges()]


def test_parallel_arcs_are_paired_by_label():
    pack = from_arcs([0, 0, 1, 1], [1, 1, 0, 0], node_ptr=[0, 2], arc_labels=["p", "q", "q", "p"])
    assert torch.equal(pack.arc_labels, pack.arc_labels[pack.reverse.long()])


def test_given_reverse_is_kept_through_the_sort():
    # Two parallel edges whose attributes differ: only the caller knows which arcs belong together.
    attributes = [1.0, 2.0, 2.0, 1.0]
    pack = from_arcs(
        [1, 1, 0, 0], [0, 0, 1, 1], node_ptr=[0, 2], reverse=[3, 2, 1, 0], arc_attributes=attributes
    )
    assert torch.equal(pack.arc_attributes, pack.arc_attributes[pack.reverse.long()])


def test_no_structures_at_all():
    pack = from_arcs([], [], node_ptr=[0])
    assert len(pack) == 0
    assert pack.num_edges.tolist() == []
    assert pack[[]] == pack
    assert hf.concatenate([pack, pack]) == pack
    assert pack.describe().as_dict()["structures"] == 0
    assert list(pack.batches(3)) == []


def test_batches_cover_everything_once_and_follow_the_seed():
    pack = hf.data.from_sequences(["A" * n for n in range(1, 24)])
    sizes = [batch.num_nodes.tolist() for batch in pack.batches(5, shuffle=True, generator=3)]
    assert [len(batch) for batch in sizes] == [5, 5, 5, 5, 3]
    assert sorted(size for batch in sizes for size in batch) == list(range(1, 24))
    assert sizes == [batch.num_nodes.tolist() for batch in pack.batches(5, shuffle=True, generator=3)]
    assert sizes != [batch.num_nodes.tolist() for batch in pack.batches(5, shuffle=True, generator=4)]


@pytest.mark.bad_input
@pytest.mark.parametrize("size", [0, -1, 2.5, True, "3"])
def test_bad_batch_size(size):
    with pytest.raises(InputError, match="at least 1"):
        hf.data.from_sequences(["AB"]).batches(size)


def test_columns_by_name_may_be_tensors_and_arrays():
    targets = {"a": torch.tensor([1.5, 2.5]), "b": np.array([True, False]), "c": [None, "x"]}
    pack = from_arcs([], [], node_ptr=[0, 1, 2], targets=targets)
    assert pack.features["targets"].decoded() == [[1.5, 2.5], [1.0, 0.0], [None, "x"]]
    words = [hf.Vocabulary("k", ("x", "y"))]
    pack = from_arcs(
        [], [], node_ptr=[0, 1, 2], targets={"k": torch.tensor([1, 0])}, target_vocabularies=words
    )
    assert pack.features["targets"].decoded() == [["y", "x"]]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (3, "3 structures .* got index 3"),
        ([0, -4], "got index -4"),
        ([0.5], "got numbers of type float64"),
        ("a", "got str"),
        ([[0], [1]], "shape"),
        ([True], r"for 3 structures, got a mask of shape \(1,\)"),
        ((0, 1), "one axis"),
        (None, "got NoneType"),
        ([[0], [1, 2]], "got list"),
    ],
)
def test_bad_index(index, message):
    with pytest.raises(InputError, match=message):
        hf.data.from_sequences(["A", "B", "C"])[index]


def test_reversed_indices_of_any_length():
    pack = hf.data.from_sequences(["A", "BB", "C"])
    for length in range(4):
        assert pack[np.arange(length)[::-1]] == pack[list(range(length))[::-1]]


def test_index_error_ends_iteration_as_python_expects():
    assert len(list(hf.data.from_sequences(["A", "B", "C"]))) == 3
    with pytest.raises(IndexError):
        hf.data.from_sequences(["A"])[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": [0], "target": [3], "node_ptr": [0, 3]}, "structure 0: arc 0 ends at node 3"),
        ({"source": [-1], "target": [0], "node_ptr": [0, 3]}, "starts at node -1"),
        ({"source": [0], "target": [1], "node_ptr": [0, 1, 2]}, "within one structure"),
        (
            {
                "source": [0, 1],
                "target": [0, 0],
                "node_ptr": [0, 1, 2],
                "arc_ptr": [0, 1, 2],
                "ids": ["p", "q"],
            },
            r"structure 1 \('q'\): arc 0 starts at node 1",
        ),
        ({"source": [0], "target": [], "node_ptr": [0, 1]}, "one entry per arc"),
        ({"source": [0.0], "target": [0.0], "node_ptr": [0, 1]}, "integers"),
        ({"source": [2**70], "target": [0], "node_ptr": [0, 1]}, "integers"),
        ({"source": [], "target": [], "node_ptr": [1, 2]}, "start with 0"),
        ({"source": [], "target": [], "node_ptr": []}, "start with 0"),
        ({"source": [], "target": [], "node_ptr": [0, 2, 1]}, "must not fall"),
        ({"source": [], "target": [], "node_ptr": [0, 2], "node_labels": ["a"]}, "2 nodes, got 1"),
        ({"source": [], "target": [], "node_ptr": [0, 1], "node_labels": [1.5]}, "strings or integers"),
        (
            {
                "source": [],
                "target": [],
                "node_ptr": [0, 1],
                "node_labels": [2],
                "node_vocabularies": [hf.Vocabulary("v", ("a",))],
            },
            "not one of its",
        ),
        (
            {"source": [], "target": [], "node_ptr": [0, 1, 2], "node_attributes": [[1.0], [math.nan]]},
            "structure 1: attribute 0 of node 0 is nan",
        ),
        ({"source": [], "target": [], "node_ptr": [0, 1], "node_attributes": [[math.inf]]}, "must be finite"),
        ({"source": [], "target": [], "node_ptr": [0, 1], "node_attributes": [[1e300]]}, "must be finite"),
        ({"source": [], "target": [], "node_ptr": [0, 1], "targets": [math.inf]}, "target 'target' is inf"),
        ({"source": [], "target": [], "node_ptr": [0, 1], "targets": [1.0, 2.0]}, "1 structures, got 2"),
        ({"source": [], "target": [], "node_ptr": [0, 1], "ids": ["a", "b"]}, "one text for each of 1"),
        ({"source": [], "target": [], "node_ptr": [0, 1], "columns": {"c": [1, 2]}}, "column 'c'"),
        ({"source": [0, 1], "target": [1, 0], "node_ptr": [0, 2], "reverse": [0, 1]}, "the other way"),
        (
            {"source": [0, 0], "target": [0, 0], "node_ptr": [0, 1], "reverse": [1, 0]},
            "a self-loop, which must be its own reverse",
        ),
        ({"source": [0, 1], "target": [1, 0], "node_ptr": [0, 2], "reverse": [1]}, "one entry per arc"),
        ({"source": [0, 1], "target": [1, 0], "node_ptr": [0, 2], "reverse": [1, 7]}, "0 to 1"),
        ({"source": [0, 1], "target": [1, 0], "node_ptr": [0, 2], "arc_attributes": [1.0]}, "2 arcs"),
        (
            {"source": [1, 0], "target": [0, 1], "node_ptr": [0, 2], "arc_attributes": [1.0, 2.0, 3.0]},
            "2 arcs",
        ),
    ],
)
def test_bad_arrays_are_refused_with_a_reason(arguments, message):
    with pytest.raises(InputError, match=message):
        from_arcs(**arguments)


def test_targets_of_every_kind():
    pack = from_arcs(
        [],
        [],
        node_ptr=range(4),
        targets={"y": [1.0, None, 3.0], "active": ["no", "yes", None], "count": np.array([1, 2, 3])},
    )
    assert pack.target_names == ("y", "active", "count")
    assert pack.target_vocabularies[1].symbols == ("no", "yes")
    assert pack.target_vocabularies[0] is None
    assert np.array_equal(
        pack.targets.numpy(), [[1, 0, 1], [math.nan, 1, 2], [3, math.nan, 3]], equal_nan=True
    )


def test_class_codes_are_united_when_packs_are_joined():
    one = hf.data.from_sequences(["A"], targets=["cat"])
    two = hf.data.from_sequences(["B", "A"], targets=["ant", None])
    joined = hf.concatenate([one, two])
    assert joined.target_vocabularies[0].symbols == ("cat", "ant")
    assert joined.targets[:2].flatten().tolist() == [0.0, 1.0]
    assert joined.targets[2].isnan().all()


def test_joining_different_kinds_says_what_differs():
    with pytest.raises(InputError, match=r"pack 0 has targets \['target'\], pack 1 has none"):
        hf.concatenate([hf.data.from_sequences(["A"], targets=[1.0]), hf.data.from_sequences(["A"])])


def test_recoding_names_the_unknown_symbol_and_its_structure():
    known = hf.data.from_sequences(["GAT"])
    strange = hf.data.from_sequences(["GA", "TAX"], ids=["fine", "odd"])
    assert hf.data.from_sequences(["TAG"]).recode(known.node_vocabularies) == hf.data.from_sequences(["TAG"])
    with pytest.raises(UnknownSymbolError, match=r"structure 1 \('odd'\): symbol 'X' of node 2"):
        strange.recode(known.node_vocabularies)


def test_single_labels_join_columns():
    pack = from_arcs([], [], node_ptr=[0, 3], node_labels={"element": ["C", "O", "C"], "charge": [0, -1, 0]})
    joined = pack.single_labels()
    assert joined.node_vocabularies[0].name == "element|charge"
    assert joined.node_vocabularies[0].decode(joined.node_labels[:, 0].numpy()) == ["C|0", "O|-1", "C|0"]


def test_equality_looks_at_everything():
    pack = hf.data.from_sequences(["GAT", "TA"], targets=[1.0, math.nan], ids=["a", "b"])
    assert pack == pack.replace(targets=pack.targets.clone())
    assert pack != pack.replace(ids=None)
    assert pack != pack.replace(columns={"n": np.array([1, 2])})
    assert pack != pack[[1, 0]]
    assert pack != pack.replace(target_names=("other",))
    assert pack != "pack"


def test_description_is_json_and_merges():
    pack = hf.data.from_sequences(["GATTACA", "CAT", "", "T"], targets=["x", "y", None, "x"])
    whole = pack.describe()
    parts = hf.data.Description.of(pack[k : k + 2] for k in range(0, 4, 2))
    assert json.loads(json.dumps(whole.as_dict()))["structures"] == 4
    merged = parts.as_dict()
    for key, value in whole.as_dict().items():
        numbers = isinstance(value, float) or (
            isinstance(value, dict) and key in ("nodes", "edges", "degree")
        )
        assert merged[key] == (pytest.approx(value) if numbers else value)
    assert parts.nodes.squares == pytest.approx(whole.nodes.squares)
    assert str(parts) == str(whole)
    assert whole.as_dict()["targets"] == [
        {"name": "target", "missing": 1, "kind": "classes", "classes": 2, "counts": {"x": 2, "y": 1}}
    ]
    assert whole.isolated_nodes == 1
    assert whole.empty == 1


def test_degree_counts_neighbours_once():
    pack = from_arcs([0, 1, 1, 2], [1, 0, 2, 2], node_ptr=[0, 4])
    # 0-1 both ways, 1->2 one way, a loop at 2, 3 alone.
    degree = pack.describe().degree
    assert (degree.mean * 4, degree.high) == (1 + 2 + 2 + 0, 2)


@settings(max_examples=30)
@given(st.lists(graphs(), max_size=3))
def test_repr_is_one_short_line(plain):
    text = repr(pack_of(plain))
    assert "\n" not in text
    assert len(text) < 200


def test_replace_refuses_unknown_fields():
    with pytest.raises(InputError, match="no field 'label'"):
        hf.data.from_sequences(["A"]).replace(label=1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cutting_on_the_device_gives_the_same():
    pack = hf.data.from_sequences(["A" * n for n in range(50)], targets=list(range(50)))
    index = np.random.default_rng(0).integers(0, 50, 30)
    assert pack.to("cuda")[index].device.type == "cuda"
    assert pack.to("cuda")[index] == pack[index]
