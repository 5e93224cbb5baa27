"""The TU reader: statistics of real sets, PyG as oracle, every malformed input one clear error."""

from __future__ import annotations

import random
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from hiddenfield.data import paths
from hiddenfield.data.readers import tu
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, MergedInputWarning, ReadError

# Three graphs: a triangle with a one-way arc and a loop, no nodes at all, an edge given twice.
TINY = {
    "A": "1, 2\n2, 1\n2, 3\n3, 3\n4, 5\n5, 4\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n3\n3\n",
    "graph_labels": "-1\n1\n1\n",
    "graph_attributes": "0.5, 7\n1e3, nan\n-2, 0\n",
    "node_labels": "6, 1\n8, 0\n6, 0\n1, 0\n1, 1\n",
    "node_attributes": "0.1\n0.2\n0.3\n0.4\n-0.5e1\n",
    "edge_labels": "1\n1\n2\n3\n1\n1\n4\n4\n",
    "edge_attributes": "1, 2\n1, 2\n3, 4\n5, 6\n7, 8\n7, 8\n9, 0\n9, 0\n",
}


def make_folder(
    folder: Path, changes: dict[str, str | bytes | None] | None = None, name: str = "TINY"
) -> Path:
    folder.mkdir(exist_ok=True)
    for part, text in {**TINY, **(changes or {})}.items():
        if text is not None:
            contents = text if isinstance(text, bytes) else text.encode()
            (folder / f"{name}_{part}.txt").write_bytes(contents)
    return folder


def make_zip(path: Path, folder: Path, inside: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, inside + file.name)
        archive.writestr(inside + "README.txt", "not data, 1, 2\n")
    return path


def arc_rows(pack: Structures) -> list[tuple[object, ...]]:
    """Return every arc with its labels and attributes, in an order of its own."""
    columns: list[object] = [pack.source.tolist(), pack.target.tolist()]
    if pack.arc_labels is not None:
        columns.append(map(tuple, pack.arc_labels.tolist()))
    if pack.arc_attributes is not None:
        columns.append(map(tuple, pack.arc_attributes.tolist()))
    return sorted(zip(*columns, strict=True))  # type: ignore[call-overload]


def test_everything_arrives(tmp_path: Path) -> None:
    pack = tu.read(make_folder(tmp_path / "tiny"))
    assert pack.num_nodes.tolist() == [3, 0, 2]
    assert pack.num_arcs.tolist() == [4, 0, 4]
    assert [vocabulary.symbols for vocabulary in pack.node_vocabularies] == [(1, 6, 8), (0, 1)]
    assert [vocabulary.name for vocabulary in pack.node_vocabularies] == ["label_0", "label_1"]
    assert pack.node_labels.tolist() == [[1, 1], [2, 0], [1, 0], [0, 0], [0, 1]]
    assert pack.node_attributes.flatten().tolist() == np.float32([0.1, 0.2, 0.3, 0.4, -5]).tolist()
    assert pack.target_names == ("class", "target_0", "target_1")
    assert pack.target_vocabularies[0].symbols == (-1, 1)
    assert pack.target_vocabularies[1:] == (None, None)
    assert torch.allclose(
        pack.targets,
        torch.tensor([[0, 0.5, 7], [1, 1e3, np.nan], [1, -2, 0]], dtype=torch.float64),
        equal_nan=True,
    )
    assert arc_rows(pack) == [
        (0, 1, (0,), (1.0, 2.0)),
        (1, 0, (0,), (1.0, 2.0)),
        (1, 2, (1,), (3.0, 4.0)),
        (2, 2, (2,), (5.0, 6.0)),
        (3, 4, (0,), (7.0, 8.0)),
        (3, 4, (3,), (9.0, 0.0)),
        (4, 3, (0,), (7.0, 8.0)),
        (4, 3, (3,), (9.0, 0.0)),
    ]
    assert int((pack.reverse < 0).sum()) == 1
    pack.topology.validate()


@pytest.mark.parametrize("inside", ["", "TINY/", "deep/er/"])
def test_a_zip_is_its_folder(tmp_path: Path, inside: str) -> None:
    folder = make_folder(tmp_path / "tiny")
    path = make_zip(tmp_path / "any.zip", folder, inside)
    assert tu.FORMAT.recognises(path)
    assert tu.FORMAT.recognises(folder)
    assert tu.read(path) == tu.read(folder)


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n\n", "\n \n\t\n"])
def test_line_ends_and_trailing_blank_lines_do_not_matter(tmp_path: Path, end: str) -> None:
    plain = tu.read(make_folder(tmp_path / "plain"))
    between = end if end in ("\r\n", "\r") else "\n"
    changed = {part: text.rstrip("\n").replace("\n", between) + end for part, text in TINY.items()}
    assert tu.read(make_folder(tmp_path / "changed", changed)) == plain  # type: ignore[arg-type]


def test_only_the_needed_files(tmp_path: Path) -> None:
    without: dict[str, str | bytes | None] = dict.fromkeys(set(TINY) - {"A", "graph_indicator"})
    pack = tu.read(make_folder(tmp_path / "tiny", {**without, "graph_indicator": "1\n1\n1\n2\n2\n"}))
    assert pack.num_nodes.tolist() == [3, 2]
    assert pack.targets is None
    assert pack.node_labels is None
    assert pack.arc_attributes is None


@given(st.permutations(range(5)))
def test_nodes_of_a_graph_need_not_stand_together(
    tmp_path_factory: pytest.TempPathFactory, order: list[int]
) -> None:
    """Renumbering the nodes permutes them within their graphs and changes nothing else."""
    base = tmp_path_factory.mktemp("tu")
    plain = tu.read(make_folder(base / "plain"))
    place = {old: new for new, old in enumerate(order)}
    renumbered: dict[str, str | bytes | None] = {}
    for part in ("graph_indicator", "node_labels", "node_attributes"):
        lines = TINY[part].splitlines()
        renumbered[part] = "\n".join(lines[old] for old in order)
    arcs = [[int(end) - 1 for end in line.split(",")] for line in TINY["A"].splitlines()]
    renumbered["A"] = "\n".join(f"{place[start] + 1}, {place[end] + 1}" for start, end in arcs)
    mixed = tu.read(make_folder(base / "mixed", renumbered))
    mixed.topology.validate()
    # the node that the k-th place of the mixed pack holds
    nodes = sorted(range(5), key=lambda old: (old >= 3, place[old]))
    assert mixed.num_nodes.tolist() == plain.num_nodes.tolist()
    assert mixed.node_labels.tolist() == plain.node_labels[nodes].tolist()
    assert mixed.node_attributes.tolist() == plain.node_attributes[nodes].tolist()
    assert arc_rows(plain) == sorted((nodes[s], nodes[t], *rest) for s, t, *rest in arc_rows(mixed))


def test_one_of_several_sets_is_chosen_by_name(tmp_path: Path) -> None:
    folder = make_folder(make_folder(tmp_path / "both"), {"graph_labels": "5\n5\n6\n"}, name="OTHER")
    with pytest.raises(ReadError, match=r"several data sets \(OTHER, TINY\); choose one with name="):
        tu.read(folder)
    assert tu.read(folder, name="OTHER").target_vocabularies[0].symbols == (5, 6)
    with pytest.raises(InputError, match="no data set named 'THIRD'; there are: OTHER, TINY"):
        tu.read(folder, name="THIRD")


MALFORMED = [
    ({"A": None}, "tiny", None, "no TINY_A.txt"),
    ({"graph_indicator": None}, "tiny", None, "no TINY_graph_indicator.txt"),
    ({"A": ""}, "A", None, "empty file"),
    ({"graph_indicator": "\n"}, "graph_indicator", None, "empty file"),
    ({"A": "1\n2\n"}, "A", 1, "expected two node numbers per line, got 1"),
    ({"A": "1, 2\n0, 1\n"}, "A", 2, "expected node numbers from 1 to 5, got 0"),
    ({"A": "1, 2\n2, 6\n"}, "A", 2, "expected node numbers from 1 to 5, got 6"),
    ({"A": "1, 2\n3, 4\n"}, "A", 2, "node 3 of graph 1 to node 4 of graph 3"),
    ({"A": "1, 2\n1; 2\n"}, "A", 2, "expected an integer, got '1; 2'"),
    ({"A": "1, 2\n1, 99999999999999999999\n"}, "A", 2, "at most 64 bits"),
    ({"A": "1, 2\n\n2, 1\n"}, "A", 2, "blank line"),
    ({"A": b"1, 2\n\xe9, 1\n"}, "A", 2, "expected an integer"),
    ({"A": b"\xff\xfe1\x00,\x002\x00"}, "A", 1, "expected an integer"),
    ({"graph_indicator": "1\n1\n0\n3\n3\n"}, "graph_indicator", 3, "expected the number of a graph, got 0"),
    ({"graph_indicator": "1\n1\n1\n3\n4\n"}, "graph_indicator", 5, "got 4; there are 3 graphs"),
    ({"graph_indicator": "1, 1\n"}, "graph_indicator", 1, "expected one number per line, got 2"),
    ({"graph_indicator": "1\n1\n1\n3\n"}, "A", 5, "expected node numbers from 1 to 4, got 5"),
    ({"graph_indicator": TINY["graph_indicator"] + "3\n"}, "node_labels", 5, "expected 6 lines"),
    ({"graph_labels": "1\n2\n"}, "graph_attributes", 3, "expected 2 lines, since"),
    ({"graph_labels": "1\n2\n", "graph_attributes": None}, "graph_indicator", 4, "got 3; there are 2 graphs"),
    ({"graph_labels": "1\n2\nx\n"}, "graph_labels", 3, "expected an integer, got 'x'"),
    ({"graph_attributes": "1\ninf\n2\n"}, "graph_attributes", 2, "target 1 is inf"),
    ({"node_labels": "1\n2\n3\n4\n"}, "node_labels", 4, "expected 5 lines, since"),
    ({"node_labels": "1\n2\n3\n4\n5\n6\n"}, "node_labels", 6, "got 6"),
    ({"node_labels": "1\n2\n3, 3\n4\n5\n"}, "node_labels", 3, "got more"),
    ({"node_attributes": "1\n2\nnan\n4\n5\n"}, "node_attributes", 3, "attribute 1 is nan"),
    ({"node_attributes": "1\n2\n1e39\n4\n5\n"}, "node_attributes", 3, "attribute 1 is 1e+39"),
    ({"node_attributes": "1\n2\n3\n4\n"}, "node_attributes", 4, "expected 5 lines"),
    ({"edge_labels": "1\n2\n3\n"}, "edge_labels", 3, "expected 8 lines"),
    ({"edge_attributes": "1\n2\n3\n"}, "edge_attributes", 3, "expected 8 lines"),
    (
        {"graph_labels": None, "graph_attributes": None},
        "graph_indicator",
        None,
        "no node belongs to graph 2 of 3",
    ),
    (
        {
            "graph_labels": None,
            "graph_attributes": None,
            "graph_indicator": "1\n1\n1\n2\n9223372036854775807\n",
        },
        "graph_indicator",
        5,
        "beyond the number of nodes",
    ),
]


@pytest.mark.parametrize(("changes", "part", "line", "reason"), MALFORMED)
def test_malformed_sets_are_refused(
    tmp_path: Path, changes: dict[str, str | bytes | None], part: str, line: int | None, reason: str
) -> None:
    folder = make_folder(tmp_path / "tiny", changes)
    for path in (folder, make_zip(tmp_path / "tiny.zip", folder, "TINY/")):
        with pytest.raises(ReadError) as caught:
            tu.read(path)
        assert caught.value.line == line
        assert reason in caught.value.reason.replace("TINY/TINY", "TINY")
        expected = str(path) if part == "tiny" else f"TINY_{part}.txt"
        assert caught.value.file is not None
        assert caught.value.file.endswith(expected)
        assert path.is_dir() or part == "tiny" or caught.value.file == f"{path}!TINY/TINY_{part}.txt"


def test_a_truncated_zip_is_refused(tmp_path: Path) -> None:
    whole = make_zip(tmp_path / "whole.zip", make_folder(tmp_path / "tiny")).read_bytes()
    broken = tmp_path / "broken.zip"
    for length in range(0, len(whole), 37):
        broken.write_bytes(whole[:length])
        assert tu.FORMAT.recognises(broken)
        with pytest.raises(ReadError, match=r"broken\.zip: cannot be opened as a zip archive"):
            tu.read(broken)


def test_a_member_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "lie.zip", make_folder(tmp_path / "tiny"))
    contents = bytearray(path.read_bytes())
    at = contents.rfind(b"PK\x01\x02", 0, contents.rfind(b"TINY_graph_indicator.txt"))
    contents[at + 24 : at + 28] = (1000).to_bytes(4, "little")
    path.write_bytes(contents)
    with pytest.raises(
        ReadError, match=r"TINY_graph_indicator.txt: unpacks to 10 bytes where the archive says 1000"
    ):
        tu.read(path)


def test_a_member_of_an_absurd_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_zip(tmp_path / "bomb.zip", make_folder(tmp_path / "tiny"))
    monkeypatch.setattr(paths, "LARGEST", 30)
    with pytest.raises(
        ReadError, match=r"TINY_A.txt: \d+ bytes unpack to 40, .*; unpack it and cut it into parts"
    ):
        tu.read(path)


def test_other_files_are_not_recognised(tmp_path: Path) -> None:
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("README.txt", "nothing")
    assert not tu.FORMAT.recognises(other)
    assert not tu.FORMAT.recognises(tmp_path)
    assert not tu.FORMAT.recognises(tmp_path / "absent")
    (tmp_path / "text.csv").write_text("a,b\n")
    assert not tu.FORMAT.recognises(tmp_path / "text.csv")


def damage(contents: bytes, dice: random.Random) -> bytes:
    """Return the bytes after one random accident."""
    lines = contents.splitlines(keepends=True)
    at = dice.randrange(len(lines))
    kind = dice.randrange(7)
    if kind == 0:
        return contents[: dice.randrange(len(contents))]
    if kind == 1:
        place = dice.randrange(len(contents))
        return contents[:place] + bytes([dice.randrange(256)]) + contents[place + 1 :]
    if kind == 2:
        return b"".join(lines[:at] + lines[at + 1 :])
    if kind == 3:
        return b"".join([*lines[: at + 1], *lines[at:]])
    if kind == 4:
        return b"".join([*lines[:at], b"\n", *lines[at:]])
    numbers = lines[at].split(b",")
    chosen = dice.choice(
        [b"0", b"-1", b"999", b"1e3", b"nan", b"", b"18446744073709551617", str(at).encode()]
    )
    numbers[dice.randrange(len(numbers))] = chosen
    return b"".join([*lines[:at], b",".join(numbers).rstrip() + b"\n", *lines[at + 1 :]])


def check_pack(pack: Structures) -> None:
    """Assert everything that a pack promises."""
    pack.topology.validate()
    assert int(pack.node_ptr[-1]) == pack.total_nodes
    owner = pack.structure_of_node
    assert bool((owner[pack.source.long()] == owner[pack.target.long()]).all())
    for rows, total in ((pack.node_labels, pack.total_nodes), (pack.arc_labels, pack.total_arcs)):
        assert rows is None or rows.shape[0] == total
    for labels, vocabularies in (
        (pack.node_labels, pack.node_vocabularies),
        (pack.arc_labels, pack.arc_vocabularies),
    ):
        if labels is not None and labels.numel():
            assert int(labels.min()) >= 0
            assert (labels.max(dim=0).values < torch.tensor([len(v) for v in vocabularies])).all()
    for values in (pack.node_attributes, pack.arc_attributes):
        assert values is None or bool(values.isfinite().all())
    assert pack.targets is None or (len(pack.targets) == len(pack) and not bool(pack.targets.isinf().any()))


def test_damaged_files_are_refused_or_valid(tmp_path: Path) -> None:
    dice = random.Random(0)
    folder = make_folder(tmp_path / "tiny")
    refused = 0
    for _ in range(400):
        part = dice.choice(list(TINY))
        file = folder / f"TINY_{part}.txt"
        file.write_bytes(damage(TINY[part].encode(), dice))
        try:
            pack = tu.read(folder)
        except ReadError:
            refused += 1
        else:
            check_pack(pack)
        file.write_text(TINY[part])
    assert 100 < refused < 400


def test_damaged_archives_are_refused_or_valid(tmp_path: Path) -> None:
    dice = random.Random(1)
    whole = make_zip(tmp_path / "whole.zip", make_folder(tmp_path / "tiny")).read_bytes()
    expected = tu.read(tmp_path / "whole.zip")
    broken = tmp_path / "broken.zip"
    for _ in range(400):
        contents = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            contents[dice.randrange(len(contents))] = dice.randrange(256)
        broken.write_bytes(contents)
        tu.FORMAT.recognises(broken)
        try:
            pack = tu.read(broken)
        except ReadError:
            continue
        check_pack(pack)
        assert len(pack) in (2, 3)
        assert pack.total_arcs == expected.total_arcs


# -- real data -------------------------------------------------------------------------------------------------

STATISTICS = [
    ("MUTAG/MUTAG.zip", 188, 17.93, 19.79, 7, 4, 0),
    ("NCI1/NCI1.zip", 4110, 29.87, 32.30, 37, None, 0),
    ("NCI109/NCI109.zip", 4127, 29.68, 32.13, 38, None, 0),
    ("ENZYMES/ENZYMES.zip", 600, 32.63, 62.14, 3, None, 18),
    ("DD/DD.zip", 1178, 284.32, 715.66, 82, None, 0),
    ("AIDS_IAM/AIDS.zip", 2000, 15.69, 16.20, 38, 3, 4),
    ("CPDB/CPDB.zip", 684, 14.14, 14.60, 23, 3, 0),
]


def real(data_path: Path, name: str) -> Path:
    path = data_path / "graphs" / name
    if not path.exists():
        pytest.skip(f"no {name} in the real data")
    return path


@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "edges", "labels", "edge_labels", "attributes"), STATISTICS
)
def test_published_statistics(
    data_path: Path,
    name: str,
    graphs: int,
    nodes: float,
    edges: float,
    labels: int,
    edge_labels: int | None,
    attributes: int,
) -> None:
    pack = tu.read(real(data_path, name))
    assert len(pack) == graphs
    assert f"{pack.total_nodes / graphs:.2f}" == f"{nodes:.2f}"
    assert f"{int(pack.num_edges.sum()) / graphs:.2f}" == f"{edges:.2f}"
    assert len(pack.node_vocabularies[0]) == labels
    assert [len(vocabulary) for vocabulary in pack.arc_vocabularies] == (
        [] if edge_labels is None else [edge_labels]
    )
    assert len(pack.node_attribute_names) == attributes
    assert pack.target_names == ("class",)
    assert pack.symmetric
    check_pack(pack)


@pytest.mark.parametrize("name", ["MUTAG", "ENZYMES"])
def test_agrees_with_pyg(data_path: Path, tmp_path: Path, name: str) -> None:
    io = pytest.importorskip("torch_geometric.io")
    archive = real(data_path, f"{name}/{name}.zip")
    shutil.unpack_archive(archive, tmp_path)
    data, slices, sizes = io.read_tu_data(str(tmp_path / name), name)
    pack = tu.read(archive)
    assert tu.read(tmp_path / name) == pack
    assert pack.node_ptr.tolist() == slices["x"].tolist()
    # PyG numbers nodes within each graph and sorts arcs by source; every set here is symmetric.
    owner = torch.repeat_interleave(torch.arange(len(pack)), slices["edge_index"].diff())
    offsets = pack.node_ptr[owner]
    theirs = torch.stack([data.edge_index[1], data.edge_index[0]]) + offsets
    assert torch.equal(torch.stack([pack.source, pack.target]).long(), theirs.long())
    width = sizes["num_node_attributes"]
    if width:
        assert torch.equal(pack.node_attributes, data.x[:, :width])
    values = torch.tensor(pack.node_vocabularies[0].symbols)[pack.node_labels[:, 0].long()]
    assert torch.equal(values - values.min(), data.x[:, width:].argmax(dim=1))
    assert torch.equal(pack.targets[:, 0].long(), data.y)
    if sizes["num_edge_labels"]:
        assert torch.equal(pack.arc_labels[:, 0].long(), data.edge_attr.argmax(dim=1))


# -- repeated arcs -----------------------------------------------------------------------------------------

NOTHING = dict.fromkeys(TINY)
TWICE = NOTHING | {"A": "1, 2\n2, 1\n1, 2\n2, 1\n3, 2\n2, 3\n3, 2\n2, 3\n", "graph_indicator": "1\n1\n1\n"}


def test_edges_that_are_listed_twice_are_merged_and_told(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "twice", TWICE | {"edge_labels": "5\n5\n5\n5\n6\n6\n6\n6\n"})
    with pytest.warns(
        MergedInputWarning, match="TINY_A.txt lists every arc 2 times.*8 lines are merged into 4 arcs"
    ):
        pack = tu.read(folder)
    assert pack.total_arcs == 4
    assert int(pack.num_edges.sum()) == 2
    assert tu.read(folder, repeated="keep").total_arcs == 8
    # Edges of two kinds are two edges.
    folder = make_folder(tmp_path / "kinds", TWICE | {"edge_labels": "5\n5\n7\n7\n6\n6\n6\n6\n"})
    with pytest.warns(MergedInputWarning, match="lists arcs several times.*into 6 arcs"):
        assert tu.read(folder).total_arcs == 6


def test_repeated_arcs_of_directed_graphs_stay(tmp_path: Path) -> None:
    directed = NOTHING | {"A": "1, 2\n1, 2\n2, 1\n3, 2\n", "graph_indicator": "1\n1\n1\n"}
    assert tu.read(make_folder(tmp_path / "directed", directed)).total_arcs == 4


@pytest.mark.parametrize(("name", "edges"), [("IMDB-MULTI", 65.94), ("Synthie", 172.93)])
def test_published_numbers_of_edges(data_path, name: str, edges: float) -> None:
    path = data_path / "graphs" / "TU_MORE" / f"{name}.zip"
    if not path.exists():
        pytest.skip(f"no {name} in the real data")
    with pytest.warns(MergedInputWarning):
        pack = tu.read(path)
    assert round(float(pack.num_edges.double().mean()), 2) == edges
