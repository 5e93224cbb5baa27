"""Lists of neighbours: any graphs read as they were written, what is wrong is named, and the published archive."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import hiddenfield as hf
from hiddenfield.data.readers import neighbours
from hiddenfield.errors import InputError, ReadError
from tests.cli.calling import call, done
from tests.data.readers.fuzzing import survive

TINY = "2\n3 1\n6 1 1\n8 2 0 2\n6 1 1\n1 -1\n6 0\n"


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[int], list[list[int]]]:
    """Draw a class, labels of nodes, and for every node some others, in any order, itself perhaps among them."""
    size = draw(st.integers(0, 4))
    number = st.integers(-3, 3)
    other = st.integers(0, max(size - 1, 0))
    return (
        draw(number),
        draw(st.lists(number, min_size=size, max_size=size)),
        draw(st.lists(st.lists(other, max_size=3), min_size=size, max_size=size)),
    )


def written(listed: list[Any]) -> str:
    lines = [f"{len(listed)}"]
    for kind, labels, others in listed:
        lines.append(f"{len(labels)} {kind}")
        lines += [
            " ".join(map(str, [label, len(own), *own])) for label, own in zip(labels, others, strict=True)
        ]
    return "\n".join(lines) + "\n"


@given(listed=st.lists(graphs(), max_size=4))
def test_any_graphs_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, listed: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("neighbours") / "graphs.txt"
    path.write_text(written(listed))
    pack = neighbours.read(path)
    assert pack.num_nodes.tolist() == [len(labels) for _, labels, _ in listed]
    assert pack.target_vocabularies[0].decode(pack.targets[:, 0].int().tolist()) == [k for k, _, _ in listed]
    labels = [label for _, own, _ in listed for label in own]
    assert pack.node_vocabularies[0].decode(pack.node_labels[:, 0].tolist()) == labels
    first = np.concatenate([[0], np.cumsum([len(own) for _, own, _ in listed])])
    arcs = [
        (int(start) + node, int(start) + other)
        for start, (_, _, others) in zip(first, listed, strict=False)
        for node, own in enumerate(others)
        for other in own
    ]
    assert sorted(zip(pack.source.tolist(), pack.target.tolist(), strict=True)) == sorted(arcs)


def test_blank_lines_ends_compression_and_archives(tmp_path: Path) -> None:
    plain, marked, packed, zipped = (tmp_path / name for name in ("a.txt", "b.txt", "c.txt.gz", "d.zip"))
    plain.write_text(TINY)
    marked.write_bytes(b"\xef\xbb\xbf\r\n" + TINY.replace("\n", " \t\r\n\r\n").encode())
    packed.write_bytes(gzip.compress(TINY.encode()))
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("X/X.txt", TINY)
        archive.writestr("X/10fold_idx/test_idx-1.txt", "0\n")
        archive.writestr("__MACOSX/X/._X.txt", "?")
        archive.writestr("X/README.txt", "Graphs.\n")
    first = neighbours.read(plain)
    for path in (plain, marked, packed, zipped):
        assert hf.read(path) == first
    assert hf.read(zipped, name="X") == hf.read(zipped, name="X/X.txt") == first
    for name, message in (("Y", "no text named 'Y'; it has: X/X.txt, X/README.txt"), ("README", "line 1")):
        with pytest.raises(ReadError, match=message):
            neighbours.read(zipped, name=name)
    with pytest.raises(InputError, match="is not an archive"):
        neighbours.read(plain, name="X")


def test_several_texts_of_an_archive_must_be_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "two.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("A.txt", TINY)
        archive.writestr("B.txt", TINY)
    with pytest.raises(ReadError, match=r"holds several texts \(A.txt, B.txt\); choose one with name="):
        hf.read(path)
    assert len(hf.read(path, name="B")) == 2
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("test_idx-1.txt", "0\n")
    assert not neighbours.FORMAT.recognises(path)
    with pytest.raises(ReadError, match="no text with graphs; it has: none"):
        neighbours.read(path)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\n", None, "expected a number of graphs, got an empty file"),
        ("2 1\n", 1, "expected one number, how many graphs there are, got [2, 1]"),
        ("-1\n", 1, "expected one number, how many graphs there are, got [-1]"),
        ("1\n1 0\nC 0\n", 3, "expected integers, got 'C'"),
        ("1\n1 0\n0.5 0\n", 3, "expected integers, got '0.5'"),
        ("1\n1 0\n1_0 0\n", 3, "expected integers, got '1_0'"),
        ("1\n1 0\n" + "9" * 30 + " 0\n", 3, "expected integers, got '9999"),
        ("1\n1\n1 0\n", 2, "expected the two integers 'nodes class' of graph 1, got 1"),
        ("2\n1 0\n1 0\n1 1 0\n", 4, "'nodes class' of graph 2, got 3; did the graph before it"),
        ("1\n3 0\n1 0\n1 0\n", 2, "graph 1 should have 3 nodes, but 2 lines follow; is the file complete?"),
        ("1\n-3 0\n1 0\n", 2, "graph 1 should have -3 nodes"),
        ("2\n1 0\n1 0\n", 3, "expected 2 graphs, as the first line says, got 1 and the end of the file"),
        ("1\n1 0\n1 0\n\n1 0\n", 5, "expected 1 graphs, as the first line says, got more lines"),
        ("1\n2 0\n1 1 1\n1 2 0\n", 4, "its degree and as many neighbours, got '1 2 0'"),
        ("1\n2 0\n1 1 1\n1\n", 4, "its degree and as many neighbours, got '1'"),
        ("1\n2 0\n1 1 1\n\n1 1 2\n", 5, "names neighbour 2, but graph 1 has 2 nodes, 0 to 1"),
        ("1\n2 0\n1 1 -1\n1 0\n", 3, "names neighbour -1"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(ReadError) as caught:
        neighbours.read(path)
    assert str(caught.value).startswith(f"{path}" + ("" if line is None else f", line {line}") + ": ")
    assert words in str(caught.value)


def test_damaged_files(tmp_path: Path) -> None:
    tokens = [b" ", b"\n", b"1", b"-", b"2 1\n", b"6 1 1\n", b"0 0\n", b"\xff", b"99999999999999999999", b"x"]
    assert survive(neighbours.read, tmp_path / "x.txt", TINY.encode(), tokens) > 100


def test_other_texts_are_not_recognised(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    for text in ("", "1\n2\n3\n", "1 2\n2 3\n", "2\n1 1\n", "3\n2 1\n5 1 1 1\n", "1:a($)\n", "a\n1 2\n3 0\n"):
        path.write_text(text)
        assert not neighbours.FORMAT.recognises(path)
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04")
    assert not neighbours.FORMAT.recognises(tmp_path / "x.zip")
    assert not neighbours.FORMAT.recognises(tmp_path)


def test_a_hub_on_the_first_line_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "star.txt"
    leaves = 3000
    path.write_text(
        written([(0, [0] * (leaves + 1), [list(range(1, leaves + 1)), *([0] for _ in range(leaves))])])
    )
    assert hf.read(path).num_edges.tolist() == [leaves]


# -- the published archive ---------------------------------------------------------------------------------


def test_the_graphs_that_come_with_the_folds_of_mutag(data_path: Path) -> None:
    folder = data_path / "graphs" / "MUTAG"
    pack, other = hf.read(folder / "MUTAG_s2v_10fold.zip"), hf.read(folder / "MUTAG.zip")
    assert pack.symmetric
    assert sorted(pack.num_nodes.tolist()) == sorted(other.num_nodes.tolist())
    assert sorted(pack.num_edges.tolist()) == sorted(other.num_edges.tolist())
    assert sorted(np.bincount(pack.node_labels[:, 0])) == sorted(np.bincount(other.node_labels[:, 0]))
    assert np.bincount(pack.targets[:, 0].long()).tolist() == [63, 125]


def test_folds_go_with_the_graphs_beside_them(capsys: pytest.CaptureFixture[str], data_path: Path) -> None:
    folder = data_path / "graphs" / "MUTAG"
    file = folder / "MUTAG_s2v_10fold.zip"
    assert done(capsys, "describe", file)["structures"] == 188
    more = ["--split-file", file, "--no-baselines", "--device", "cpu", "--jobs", "1", "--model", "mean_field"]
    more += ["-p", "epochs=1", "-p", "dim=2", "-p", "hidden=2", "-p", "rounds=1"]
    assert [fold["test"] for fold in done(capsys, "evaluate", file, *more)["folds"]] == [18] * 10
    code, _, err = call(capsys, "evaluate", folder / "MUTAG.zip", *more)
    assert code == 1
    assert "evaluate the graphs of that file" in err
