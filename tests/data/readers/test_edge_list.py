"""Edge lists: every option by hand, networkx as the oracle, and the published sizes of real networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import pytest
from hypothesis import given, strategies as st

import hiddenfield as hf
from hiddenfield.data.readers import edge_list
from hiddenfield.errors import InputError, ReadError
from tests.data.readers.fuzzing import survive

FRIENDS = "# who knows whom\n\nann bob 0.5\nbob cid 1\n  # and\nbob ann .5\ndan dan 2e0\n"

names = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters=",#"), min_size=1, max_size=2
)


@given(pairs=st.lists(st.tuples(names, names), max_size=12), directed=st.booleans())
def test_the_same_network_as_networkx(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], directed: bool
) -> None:
    path = tmp_path_factory.mktemp("edges") / "network.edges"
    path.write_text("".join(f"{one} {other}\n" for one, other in pairs), encoding="utf-8")
    pack = edge_list.read(path, directed=directed)
    oracle = networkx.read_edgelist(
        path, create_using=networkx.DiGraph if directed else networkx.Graph, encoding="utf-8"
    )
    found = hf.data.to_networkx(pack, directed=directed)[0]
    named = networkx.relabel_nodes(found, {node: str(data["name"]) for node, data in found.nodes(data=True)})
    assert set(named) == set(oracle)
    assert {frozenset(e) if not directed else e for e in named.edges()} == {
        frozenset(e) if not directed else e for e in oracle.edges()
    }


def test_weights_merge_and_order(tmp_path: Path) -> None:
    path = tmp_path / "friends.txt"
    path.write_text(FRIENDS)
    network = hf.read(path)
    assert network.node_vocabularies[0].symbols == ("ann", "bob", "cid", "dan")
    assert (network.num_edges.tolist(), network.arc_attribute_names) == ([3], ("weight",))
    kept = hf.read(path, repeated="keep", names=False)
    assert (kept.num_edges.tolist(), kept.node_labels) == ([4], None)
    arcs = hf.read(path, directed=True)
    assert (arcs.total_arcs, arcs.symmetric) == (4, False)
    labelled = hf.read(path, third="label", repeated="keep")
    assert labelled.arc_vocabularies[0].symbols == (".5", "0.5", "1", "2e0")


def test_numbers_are_ordered_by_value(tmp_path: Path) -> None:
    path = tmp_path / "numbers.arcs.txt"
    path.write_text("10 9\n9 2\n")
    network = hf.read(path)
    assert network.node_vocabularies[0].symbols == (2, 9, 10)
    assert (network.source.tolist(), network.target.tolist()) == ([1, 2], [0, 1])
    assert hf.read(path, num_nodes=12).num_nodes.tolist() == [12]
    with pytest.raises(ReadError, match="the nodes are 0 to 9, got '10'"):
        hf.read(path, num_nodes=10)


def test_delimiters_and_headers(tmp_path: Path) -> None:
    path = tmp_path / "cities.edges"
    path.write_text("from\tto\nSan José\tSan Juan\n")
    assert hf.read(path, header=True).node_vocabularies[0].symbols == ("San José", "San Juan")
    path.write_text("a, b\nb ,c\n")
    assert hf.read(path).node_vocabularies[0].symbols == ("a", "b", "c")
    path.write_text("a;b\n")
    assert hf.read(path, delimiter=";").total_arcs == 2


def test_classes_from_a_second_file(tmp_path: Path) -> None:
    edges, labels = tmp_path / "x.edges", tmp_path / "x.labels"
    edges.write_text("0 1\n1 2\n")
    labels.write_text("node class\n0 a\n2 b\n7 NA\n")
    network = hf.read(edges, labels=labels, labels_header=True)
    assert network.num_nodes.tolist() == [4]
    assert network.node_targets.isnan().flatten().tolist() == [False, True, False, True]
    assert network.node_target_vocabularies[0].symbols == ("a", "b")
    labels.write_text("0 a b\n2 b\n1\n")
    several = hf.read(edges, labels=labels)
    assert several.node_target_names == ("class_a", "class_b")
    assert several.node_targets.tolist() == [[1, 1], [0, 0], [0, 1]]


def test_an_empty_file_is_an_empty_network(tmp_path: Path) -> None:
    path = tmp_path / "none.edges"
    path.write_text("# nothing\n")
    assert hf.read(path).num_nodes.tolist() == [0]


@pytest.mark.parametrize(
    ("text", "options", "line", "words"),
    [
        ("a b\nb\n", {}, 2, "expected 2 fields, as on line 1, got 1: b"),
        ("#\na b\na b c\n", {}, 3, "expected 2 fields, as on line 2, got 3: a b c"),
        ("a b c d\n", {}, 1, "expected two nodes, and perhaps a third field, got 4"),
        ("a,b\n,b\n", {}, 2, "got 2, one of them empty"),
        ("a b 1\na c x\n", {}, 2, "expected a finite number as the weight, got 'x'; if it is a label"),
        ("a b nan\n", {}, 1, "finite number"),
        ("a b 1e300\n", {}, 1, "finite number"),
        ("a b 1\nb a 2\n", {}, 2, "the edge between b and a has 2 here and 1 on line 1"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, text: str, options: dict[str, Any], line: int, words: str
) -> None:
    path = tmp_path / "bad.edges"
    path.write_text(text)
    with pytest.raises(ReadError) as caught:
        edge_list.read(path, **options)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert words in str(caught.value)


@pytest.mark.bad_input
def test_options_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "x.edges"
    path.write_text("a b\n")
    with pytest.raises(InputError, match="third is 'weight' or 'label'"):
        edge_list.read(path, third="colour")
    with pytest.raises(ReadError, match="no such file"):
        edge_list.read(path, labels=tmp_path / "none")


def test_damaged_files(tmp_path: Path) -> None:
    tokens = [b" ", b"\t", b",", b"\n", b"#", b"nan", b"1e999", b"\xff", b"\0", b"x"]
    assert survive(edge_list.read, tmp_path / "x.edges", FRIENDS.encode(), tokens) > 100


@pytest.mark.parametrize(
    ("name", "options", "nodes", "edges"),
    [
        ("blogcatalog.edges.txt.xz", {"labels": "blogcatalog.labels.txt.xz"}, 10312, 333983),
        ("wiki.edges.txt.xz", {"labels": "wiki.labels.txt.xz"}, 2405, 11596 + 1165),
        ("cora.edges.txt.xz", {"labels": "cora.labels.txt.xz"}, 2708, 5278),
        ("citeseer.edges.txt.xz", {"labels": "citeseer.labels.txt.xz", "missing": ["-1"]}, 3327, 4552),
        ("ca-GrQc.edges.txt.xz", {"num_nodes": 5242}, 5242, 14484),
        ("ppi_collins2007.txt.xz", {}, 1622, 9074),
        ("ppi_gavin2006.txt.xz", {}, 1855, 7669),
        ("ppi_krogan2006_core.txt.xz", {}, 2708, 7123),
        ("ppi_krogan2006_extended.txt.xz", {}, 3672, 14317),
        (
            "yeast_ppi_vonmering.edges.txt.xz",
            {"labels": "yeast_ppi_vonmering.class.txt.xz", "labels_header": True},
            2617,
            11855,
        ),
    ],
)
def test_the_published_sizes(
    data_path: Path, name: str, options: dict[str, Any], nodes: int, edges: int
) -> None:
    folder = data_path / "networks"
    if "labels" in options:
        options = options | {"labels": folder / options["labels"]}
    network = hf.read(folder / name, **options)
    assert (network.num_nodes.tolist(), network.num_edges.tolist()) == ([nodes], [edges])


def test_the_published_classes_and_arcs(data_path: Path) -> None:
    folder = data_path / "networks"
    blogs = hf.read(folder / "blogcatalog.edges.txt.xz", labels=folder / "blogcatalog.labels.txt.xz")
    assert (len(blogs.node_target_names), int(blogs.node_targets.sum())) == (39, 14476)
    papers = hf.read(
        folder / "citeseer.edges.txt.xz", labels=folder / "citeseer.labels.txt.xz", missing=["-1"]
    )
    assert int((~papers.node_targets.isnan()).sum()) == 3312
    degree = papers.in_ptr.diff()
    assert int((degree == 0).sum()) == 48
    assert hf.read(folder / "yeast_regulatory.arcs.txt.xz").total_arcs == 1079
    pages = hf.read(folder / "wiki.edges.txt.xz", directed=True)
    assert (pages.total_arcs, int((pages.source == pages.target).sum())) == (16523, 1165)
