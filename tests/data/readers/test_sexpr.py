"""Bracketed trees against a recursive reading, and the published statistics of the sentiment treebank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import hiddenfield as hf
from hiddenfield.data.readers import sexpr
from hiddenfield.errors import ReadError
from tests.data.readers.fuzzing import survive

TREES = "(3 (2 (2 The) (2 Rock)) (4 (3 is) (2 -LRB-)))\n\n(1\n  (0 bad)\n  (2 .))\n"

atoms = st.text(
    st.characters(exclude_characters="()", exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=3
)
# A bracket: a label or none, then words and brackets.
brackets = st.recursive(
    st.tuples(atoms, st.lists(atoms, max_size=2)),
    lambda inner: st.tuples(
        st.one_of(atoms, st.none()), st.lists(st.one_of(atoms, inner), min_size=1, max_size=3)
    ),
).filter(lambda bracket: bracket[0] is not None or not isinstance(bracket[1][0], str))


def written(node: Any) -> str:
    if isinstance(node, str):
        return node
    label, items = node
    if label is None and isinstance(items[0], str):
        label, items = items[0], items[1:]
    return "(" + " ".join([*([] if label is None else [label]), *map(written, items)]) + ")"


def listed(node: Any, parent: int, rows: list[tuple[int, str, str]]) -> None:
    """Append parent, word and label of every node."""
    if isinstance(node, str):
        rows.append((parent, node, sexpr.NONE))
        return
    label, items = node
    if label is None and isinstance(items[0], str):
        label, items = items[0], items[1:]
    own = len(rows)
    # The only content is the bracket's word, if a label came before it.
    word = items[0] if label is not None and len(items) == 1 and isinstance(items[0], str) else sexpr.NONE
    rows.append((parent, word, sexpr.NONE if label is None else label))
    if word == sexpr.NONE:
        for item in items:
            listed(item, own, rows)


@given(trees=st.lists(brackets, max_size=3))
def test_any_tree_reads_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, trees: list[Any]) -> None:
    path = tmp_path_factory.mktemp("sexpr") / "trees.txt"
    path.write_text("\n".join(map(written, trees)), encoding="utf-8")
    pack = sexpr.read(path, classes=False, arc_labels="direction")
    assert len(pack) == len(trees)
    for position, tree in enumerate(trees):
        rows: list[tuple[int, str, str]] = []
        listed(tree, -1, rows)
        one = pack[position]
        symbols = [v.decode(one.node_labels[:, k].tolist()) for k, v in enumerate(one.node_vocabularies)]
        assert list(zip(hf.data.to_parents(one)[0].tolist(), *symbols, strict=True)) == rows


def test_integers_are_classes(tmp_path: Path) -> None:
    path = tmp_path / "trees.txt"
    path.write_text(TREES)
    pack = hf.read(path)
    assert pack.num_nodes.tolist() == [7, 3]
    assert pack.target_vocabularies[0].symbols == (0, 1, 2, 3, 4)
    assert pack.targets.flatten().tolist() == [3, 1]
    assert pack.node_targets[:7].flatten().tolist() == [3, 2, 2, 2, 4, 3, 2]
    words = pack.node_vocabularies[0].decode(pack.node_labels[:7, 0].tolist())
    assert words == ["(none)", "(none)", "The", "Rock", "(none)", "is", "-LRB-"]
    assert [v.name for v in sexpr.read(path, classes=False).node_vocabularies] == ["word", "label"]
    assert sexpr.read(path, target="mood").target_names == ("mood",)


def test_penn_trees(tmp_path: Path) -> None:
    path = tmp_path / "penn.mrg"
    path.write_text("( (S (NP-SBJ (NNP John)) (VP (VBZ sleeps))) )\n(S (NP the dog) barks)\n")
    pack = hf.read(path)
    labels = pack.node_vocabularies[1].decode(pack.node_labels[:, 1].tolist())
    assert labels[:3] == ["(none)", "S", "NP-SBJ"]
    words = pack.node_vocabularies[0].decode(pack.node_labels[:, 0].tolist())
    assert words[6:] == ["(none)", "(none)", "the", "dog", "barks"]
    assert hf.data.to_parents(pack)[1].tolist() == [-1, 0, 1, 1, 0]
    assert pack.targets is None


def test_classes_may_be_missing_or_words(tmp_path: Path) -> None:
    path = tmp_path / "trees.txt"
    path.write_text("( (2 a) (3 b c))")
    pack = sexpr.read(path)
    assert pack.targets.isnan().all()
    assert pack.node_targets.isnan().flatten().tolist() == [True, False, False, True, True]
    path.write_text("(good (bad a) (good b))")
    assert sexpr.read(path, classes=True).target_vocabularies[0].symbols == ("bad", "good")


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("(2 a)\n(2 b))", 2, 6, "a ')' that no '(' opens"),
        ("(2 a)\n b (2 c)", 2, 2, "a word outside all brackets"),
        ("(2 (2 é) ())", 1, 10, "expected a label, a word or a bracket after '(', got ')'"),
        ("hello", 1, 1, "a word outside all brackets"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, line: int, column: int, words: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReadError) as caught:
        sexpr.read(path)
    assert str(caught.value).startswith(f"{path}, line {line}: column {column}: ")
    assert words in str(caught.value)


def test_a_tree_that_is_not_closed(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text("(2 a)\n (2 (3 b)\n")
    with pytest.raises(
        ReadError, match=r"line 2: the tree that begins at column 2 is not closed: 1 brackets are open"
    ):
        sexpr.read(path)


def test_damaged_files(tmp_path: Path) -> None:
    tokens = [b"(", b")", b" ", b"\n", b"()", b"(2 x)", b"word", b"\xff", b"\0"]
    assert survive(sexpr.read, tmp_path / "x.txt", TREES.encode(), tokens) > 100


def test_deep_trees(tmp_path: Path) -> None:
    path = tmp_path / "deep.txt"
    path.write_text("(2 " * 100_000 + "end" + ")" * 100_000)
    assert np.array_equal(hf.data.to_parents(sexpr.read(path))[0], np.arange(-1, 99_999))
    path.write_text("(2 " * 100_000)
    with pytest.raises(ReadError, match="not closed"):
        sexpr.read(path)


@pytest.mark.parametrize(("part", "trees"), [("train", 8544), ("dev", 1101), ("test", 2210)])
def test_the_published_statistics(data_path: Path, part: str, trees: int) -> None:
    pack = hf.read(data_path / "graphs" / "SST" / f"{part}.txt.xz")
    assert len(pack) == trees
    assert pack.target_vocabularies[0].symbols == (0, 1, 2, 3, 4)
    assert not bool(pack.node_targets.isnan().any())
    if part == "train":
        assert np.bincount(pack.targets[:, 0].int().numpy()).tolist() == [1092, 2218, 1624, 2322, 1288]
        assert pack.total_nodes / len(pack) == pytest.approx(37.3, abs=0.05)
    # The trees are binary: one inner node fewer than words.
    inner = pack.node_vocabularies[0].symbols.index("(none)")
    assert int((pack.node_labels == inner).sum()) * 2 + len(pack) == pack.total_nodes
