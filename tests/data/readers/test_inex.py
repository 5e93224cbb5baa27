"""INEX trees against a recursive reading of the grammar, and the published statistics."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import hiddenfield as hf
from hiddenfield.data.readers import inex
from hiddenfield.errors import ReadError
from tests.data.readers.fuzzing import survive

TREE = "10:110(37($) 38(72($) 71($)))\n3:37($)\n"

words = st.text(
    st.characters(exclude_characters=" \t\n\r()$:", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=3
)
nested = st.recursive(
    st.tuples(words, st.just([])), lambda child: st.tuples(words, st.lists(child, max_size=3))
)


def written(node: Any) -> str:
    label, children = node
    return f"{label}({' '.join(map(written, children)) or '$'})"


def listed(node: Any, parent: int, labels: list[str], parents: list[int]) -> None:
    parents.append(parent)
    labels.append(node[0])
    own = len(labels) - 1
    for child in node[1]:
        listed(child, own, labels, parents)


@given(trees=st.lists(st.tuples(words, nested), max_size=3))
def test_any_tree_reads_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, trees: list[Any]) -> None:
    path = tmp_path_factory.mktemp("inex") / "trees.tree"
    path.write_text("".join(f"{name}:{written(tree)}\n" for name, tree in trees), encoding="utf-8")
    pack = inex.read(path, arc_labels="direction")
    labels: list[str] = []
    for position, (_, tree) in enumerate(trees):
        parents: list[int] = []
        own: list[str] = []
        listed(tree, -1, own, parents)
        labels += own
        assert hf.data.to_parents(pack[position])[0].tolist() == parents
    assert [str(s) for s in pack.node_vocabularies[0].decode(pack.node_labels[:, 0].tolist())] == labels
    classes = pack.target_vocabularies[0].decode(pack.targets[:, 0].int().tolist())
    assert [str(symbol) for symbol in classes] == [name for name, _ in trees]


def test_blank_lines_ends_and_compression(tmp_path: Path) -> None:
    plain, marked, packed = tmp_path / "a.tree", tmp_path / "b.tree", tmp_path / "c.tree.xz"
    plain.write_text(TREE)
    marked.write_bytes(b"\xef\xbb\xbf\r\n" + TREE.replace("\n", "  \t\r\n\r\n").encode().rstrip())
    packed.write_bytes(lzma.compress(TREE.encode()))
    assert inex.read(plain) == inex.read(marked) == inex.read(packed)
    plain.write_text("\n")
    assert len(inex.read(plain)) == 0


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("1:a($)\n1:b(c)\n", 2, 6, "expected '(' after the label, got ')'"),
        ("1:a($", 1, 6, "the line ends while 1 brackets are open"),
        ("1:a(b($)", 1, 9, "the line ends while 1 brackets are open"),
        ("1:a($))", 1, 7, "expected the end of the line after the tree's last bracket, got ')'"),
        ("1:a($) 1:b($)", 1, 7, "expected the end of the line after the tree's last bracket, got a space"),
        ("a($)", 1, 2, "expected ':' after the class, got '('"),
        ("1:a(b:c($))", 1, 6, "expected '(' after the label, got ':'"),
        (":a($)", 1, 1, "expected a label, got ':'"),
        ("1:a()", 1, 5, "expected a label or '$', got ')'"),
        ("é:a($)\n é:a($)", 2, 1, "expected a label, got a space"),
        ("1:é(é)", 1, 6, "expected '(' after the label, got ')'"),
        ("1:a($ b($))", 1, 6, "expected ')', got a space"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, line: int, column: int, words: str) -> None:
    path = tmp_path / "bad.tree"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReadError) as caught:
        inex.read(path)
    assert str(caught.value).startswith(f"{path}, line {line}: column {column}: ")
    assert words in str(caught.value)


def test_damaged_files(tmp_path: Path) -> None:
    tokens = [b"(", b")", b"$", b":", b" ", b"\n", b"7", b"($)", b"\xff", b"1:a($)\n"]
    assert survive(inex.read, tmp_path / "x.tree", TREE.encode(), tokens) > 100


def test_deep_trees(tmp_path: Path) -> None:
    path = tmp_path / "deep.tree"
    path.write_text("1:a(" + "a(" * 100_000 + "$" + ")" * 100_001)
    pack = inex.read(path)
    assert np.array_equal(hf.data.to_parents(pack)[0], np.arange(-1, 100_000))
    path.write_text("1:a(" + "a(" * 100_000)
    with pytest.raises(ReadError, match="line 1"):
        inex.read(path)


@pytest.mark.parametrize(
    ("year", "trees", "classes", "labels", "degree", "mean", "depth"),
    [("05", (4820, 4811), 11, 366, 32, 25.66, 3), ("06", (6053, 6054), 18, 65, 66, 18.05, 7)],
)
def test_the_published_statistics(
    data_path: Path, year: str, trees: Any, classes: int, labels: int, degree: int, mean: float, depth: int
) -> None:
    folder = data_path / "graphs" / f"INEX20{year}"
    packs = [
        hf.read(folder / f"inex{year}.{part}.elastic.tree.xz", arc_labels="position")
        for part in ("train", "test")
    ]
    assert tuple(map(len, packs)) == trees
    both = hf.concatenate(packs)
    assert len(both.target_vocabularies[0]) == classes
    assert [len(vocabulary) for vocabulary in both.node_vocabularies] == [labels]
    assert len(both.arc_vocabularies[1]) == degree
    assert both.total_nodes / len(both) == pytest.approx(mean, abs=0.005)
    parents, level = np.concatenate(hf.data.to_parents(both)), 0
    offsets = np.repeat(both.node_ptr[:-1].numpy(), both.num_nodes.numpy())
    reached = parents < 0
    while not reached.all():
        reached |= reached[np.where(parents < 0, 0, parents + offsets)]
        level += 1
    assert level == depth
