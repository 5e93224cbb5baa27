"""Parent arrays against a naive construction, arc by arc."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hiddenfield.data import Structures, from_arcs, from_edges, from_parents, to_parents
from hiddenfield.errors import InputError


@st.composite
def parent_arrays(draw: Any, rooted_first: bool = False) -> list[int]:
    """A tree whose nodes stand in any order."""
    size = draw(st.integers(0, 12))
    parents = [-1 if node == 0 else draw(st.integers(0, node - 1)) for node in range(size)]
    if rooted_first or not size:
        return parents
    place = draw(st.permutations(range(size)))
    moved = [-1] * size
    for node, parent in enumerate(parents):
        moved[place[node]] = -1 if parent < 0 else place[parent]
    return moved


def naive_arcs(parents: list[int]) -> dict[tuple[int, int], tuple[str, int]]:
    """For every arc its direction and the position of the child."""
    arcs = {}
    for parent in range(len(parents)):
        children = [node for node in range(len(parents)) if parents[node] == parent]
        for position, child in enumerate(children):
            arcs[parent, child] = ("down", position)
            arcs[child, parent] = ("up", position)
    return arcs


@given(st.lists(parent_arrays(), max_size=4))
def test_arcs_and_labels_are_those_of_the_definition(trees: list[list[int]]) -> None:
    pack = from_parents(trees, arc_labels="position")
    assert pack.num_nodes.tolist() == [len(tree) for tree in trees]
    assert pack.symmetric
    for position, tree in enumerate(trees):
        one = pack[position]
        words = [v.decode(one.arc_labels[:, k].tolist()) for k, v in enumerate(one.arc_vocabularies)]
        ends = zip(one.source.tolist(), one.target.tolist(), strict=True)
        assert dict(zip(ends, zip(*words, strict=True), strict=True)) == naive_arcs(tree)


@given(st.lists(parent_arrays(), max_size=4), st.sampled_from(["direction", "position"]))
def test_direction_brings_the_parents_back(trees: list[list[int]], arc_labels: Any) -> None:
    assert [tree.tolist() for tree in to_parents(from_parents(trees, arc_labels=arc_labels))] == trees


@given(st.lists(parent_arrays(rooted_first=True), max_size=4))
def test_without_labels_the_first_node_is_the_root(trees: list[list[int]]) -> None:
    assert [tree.tolist() for tree in to_parents(from_parents(trees))] == trees


@given(st.lists(parent_arrays(), max_size=4))
def test_end_to_end_is_the_same(trees: list[list[int]]) -> None:
    flat = [parent for tree in trees for parent in tree]
    bounds = np.cumsum([0, *map(len, trees)])
    assert from_parents(flat, node_ptr=bounds, node_labels=flat) == from_parents(trees, node_labels=trees)


@given(st.lists(st.lists(st.integers(-1, 6), max_size=6), max_size=3))
def test_anything_is_a_tree_or_refused(trees: list[list[int]]) -> None:
    def is_tree(parents: list[int]) -> bool:
        if not all(-1 <= parent < len(parents) for parent in parents):
            return False
        roots = [node for node, parent in enumerate(parents) if parent < 0]
        reached = set(roots)
        for _ in parents:
            reached |= {node for node, parent in enumerate(parents) if parent in reached}
        return not parents or (len(roots) == 1 and len(reached) == len(parents))

    if all(map(is_tree, trees)):
        assert from_parents(trees).num_edges.tolist() == [max(len(tree) - 1, 0) for tree in trees]
    else:
        first = next(position for position, tree in enumerate(trees) if not is_tree(tree))
        with pytest.raises(InputError) as caught:
            from_parents(trees)
        named = [position for position, tree in enumerate(trees) if not is_tree(tree)]
        assert any(f"structure {position}:" in str(caught.value) for position in named), first


@pytest.mark.parametrize(
    ("trees", "words"),
    [
        ([[-1], [-1, 4]], "structure 1: node 1 has parent 4; expected a node (0 to 1), or -1 for the root"),
        ([[-2]], "structure 0: node 0 has parent -2"),
        ([[-1, -1]], "structure 0: a tree has one root, whose parent is -1; this one has 2"),
        ([[-1, 2, 1]], "structure 0: node 1 never reaches the root by its parents"),
        ([[-1, 1]], "structure 0: node 1 never reaches"),
        ([[-1, 0.5]], "structure 0: parents must hold integers, got 0.5 as entry 1"),
        ([-1], "structure 0: parents must hold one sequence of rows per structure, got -1"),
        ("-1", "parents must be a list"),
    ],
)
def test_what_is_wrong_is_named(trees: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        from_parents(trees)
    assert words in str(caught.value)


def test_ids_name_the_tree() -> None:
    with pytest.raises(InputError, match=r"structure 1 \('second'\): a tree has one root"):
        from_parents([[-1], [0]], ids=["first", "second"])


@pytest.mark.bad_input
def test_rows_must_match() -> None:
    with pytest.raises(
        InputError, match="structure 1: node_labels must have one row for each of 2 nodes, got 1"
    ):
        from_parents([[-1], [-1, 0]], node_labels=[["a"], ["b"]])
    with pytest.raises(InputError, match="'direction' or 'position'"):
        from_parents([[-1]], arc_labels="place")
    with pytest.raises(InputError, match="node_ptr must rise"):
        from_parents([-1, 0], node_ptr=[0, 1])


@pytest.mark.parametrize(
    ("pack", "words"),
    [
        (
            from_edges([0, 1, 2], [1, 2, 0], node_ptr=[0, 3]),
            "structure 0 is not a tree: it has 3 nodes and 3 edges",
        ),
        (from_edges([1, 2, 3], [2, 3, 1], node_ptr=[0, 4]), "structure 0 is not a tree: it falls into"),
        (from_edges([1, 2], [1, 2], node_ptr=[0, 0, 3]), "structure 1 is not a tree: it falls into"),
        (from_edges([0, 0], [1, 1], node_ptr=[0, 3]), "structure 0 is not a tree: it falls into"),
        (from_arcs([0], [1], node_ptr=[0, 2]), "structure 0 is not a tree: it has arcs that go one way only"),
        (from_edges([], [], node_ptr=[0, 1, 3]), "structure 1 is not a tree: it has 2 nodes and 0 edges"),
    ],
)
def test_the_first_that_is_no_tree_is_named(pack: Structures, words: str) -> None:
    with pytest.raises(InputError) as caught:
        to_parents(pack)
    assert words in str(caught.value)


def test_deep_and_wide_trees() -> None:
    deep = np.arange(-1, 99_999)
    wide = np.concatenate([[-1], np.zeros(99_999, dtype=np.int64)])
    pack = from_parents([deep, wide], arc_labels="position")
    assert len(pack.arc_vocabularies[1]) == 99_999
    back = to_parents(pack.replace(arc_labels=None, arc_vocabularies=()))
    assert np.array_equal(back[0], deep)
    assert np.array_equal(back[1], wide)
