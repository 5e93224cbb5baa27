"""Arrow files: exact round trips, tables made elsewhere, and every damaged or tampered file one clear error."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from hypothesis import given, settings, strategies as st
from pyarrow import parquet

import hiddenfield.data
from hiddenfield.data import arrow_tables as writing
from hiddenfield.data.build import from_arcs
from hiddenfield.data.readers import arrow
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, ReadError
from tests.data.strategies import built, structures

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAMES = st.lists(TEXT, max_size=3, unique=True)
SYMBOLS = st.lists(st.one_of(TEXT, st.integers(-(2**70), 2**70)), min_size=1, max_size=4, unique=True)


@st.composite
def packs(draw: st.DrawFn, count: int | None = None) -> Structures:
    """Draw packs with every feature present, absent, of no columns and of several; empty structures; odd names."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(0, 4)) if count is None else count
    sizes = generator.integers(0, 4, count)
    node_ptr = np.concatenate([[0], np.cumsum(sizes)])
    owners = [n for n in range(count) if sizes[n] for _ in range(generator.integers(0, 6))]
    ends = np.array(
        [node_ptr[n] + generator.integers(0, sizes[n], 2) for n in owners], dtype=np.int64
    ).reshape(-1, 2)
    nodes, arcs = int(node_ptr[-1]), len(ends)
    options: dict[str, Any] = {}
    for kind, rows in (("node", nodes), ("arc", arcs)):
        if draw(st.booleans()):
            words = [
                built(Vocabulary, name, tuple(draw(SYMBOLS))) for name in draw(st.lists(TEXT, max_size=2))
            ]
            codes = [generator.integers(0, len(word), rows) for word in words]
            options[f"{kind}_labels"] = (
                np.stack(codes, axis=1) if codes else np.zeros((rows, 0), dtype=np.int64)
            )
            options[f"{kind}_vocabularies"] = words
        if draw(st.booleans()):
            names = draw(NAMES)
            options[f"{kind}_attributes"] = generator.normal(size=(rows, len(names)))
            options[f"{kind}_attribute_names"] = names
    for prefix, rows in (("", count), ("node_", nodes)):
        if draw(st.booleans()):
            names = draw(NAMES)
            words_of = [
                draw(st.one_of(st.none(), SYMBOLS.map(lambda s: built(Vocabulary, "class", tuple(s)))))
                for _ in names
            ]
            values = generator.normal(size=(rows, len(names)))
            for k, word in enumerate(words_of):
                if word is not None:
                    values[:, k] = generator.integers(0, len(word), rows)
            values[generator.random(values.shape) < 0.3] = np.nan
            options |= {f"{prefix}targets": values, f"{prefix}target_names": names}
            options[f"{prefix}target_vocabularies"] = words_of
    if draw(st.booleans()):
        options["ids"] = draw(st.lists(TEXT, min_size=count, max_size=count))
    options["columns"] = {
        name: draw(
            st.sampled_from([generator.integers(-9, 9, count), generator.random(count) < 0.5, "text", "half"])
        )
        for name in draw(
            st.lists(st.one_of(TEXT, st.sampled_from(["source", "id", "target_x"])), max_size=3, unique=True)
        )
    }
    for name, values in options["columns"].items():
        if isinstance(values, str):
            texts = np.array([f"é{k}\0" for k in range(count)], dtype=np.dtypes.StringDType())
            options["columns"][name] = (
                texts if values == "text" else generator.random(count).astype(np.float16)
            )
    return built(from_arcs, ends[:, 0], ends[:, 1], node_ptr=node_ptr, **options)


def same(left: Structures, right: Structures) -> bool:
    """Compare packs, and the types of their arrays besides."""
    types = [
        {name: values.dtype for name, values in vars(pack).items() if isinstance(values, torch.Tensor)}
        for pack in (left.replace(), right.replace())
    ]
    columns = [{name: values.dtype for name, values in pack.columns.items()} for pack in (left, right)]
    return left == right and types[0] == types[1] and columns[0] == columns[1]


@given(st.one_of(packs(), structures()))
def test_table_round_trip(pack: Structures) -> None:
    back = arrow.from_table(writing.to_table(pack))
    assert same(back, pack)
    back.topology.validate()


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather"])
@given(pack=packs())
@settings(max_examples=40)
def test_file_round_trip(tmp_path_factory: pytest.TempPathFactory, suffix: str, pack: Structures) -> None:
    path = tmp_path_factory.mktemp("arrow") / f"pack.{suffix}"
    writing.write(pack, path)
    assert same(arrow.read(path), pack)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@given(pack=packs(), size=st.integers(1, 3))
@settings(max_examples=40)
def test_folder_round_trip(tmp_path_factory: pytest.TempPathFactory, pack: Structures, size: int) -> None:
    folder = tmp_path_factory.mktemp("arrow") / "not" / "there" / "yet"
    writing.write(pack, folder, shard_size=size)
    assert arrow.FORMAT.recognises(folder)
    assert same(arrow.read(folder), pack)
    parts = list(arrow.scan(folder))
    assert [len(part) for part in parts] == [
        len(pack[k : k + size]) for k in range(0, max(len(pack), 1), size)
    ]
    assert all(part == pack[k * size : (k + 1) * size] for k, part in enumerate(parts))


@given(packs(count=4))
@settings(max_examples=30)
def test_packs_of_many_batches_round_trip(tmp_path_factory: pytest.TempPathFactory, pack: Structures) -> None:
    folder = tmp_path_factory.mktemp("arrow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "BATCH_VALUES", 5)
        patch.setattr(writing, "BATCH_ROWS", 3)
        assert len(list(writing.batches(pack))) > 1
        assert same(arrow.from_table(writing.to_table(pack)), pack)
        for name in ("pack.parquet", "pack.arrow"):
            writing.write(pack, folder / name)
    for name in ("pack.parquet", "pack.arrow"):
        assert same(arrow.read(folder / name), pack)
        parts = list(arrow.scan(folder / name))
        assert len(parts) > 1
        assert sum(len(part) for part in parts) == 4
        assert all(part.node_vocabularies == pack.node_vocabularies for part in parts)


# -- tables made elsewhere -------------------------------------------------------------------------------------


def plain_table(**changes: Any) -> pyarrow.Table:
    """Return a table as another program would make it: a path of three nodes, no node at all, a one-way arc."""
    columns: dict[str, Any] = {
        "id": ["path", "nothing", "arc"],
        "num_nodes": [3, 0, 2],
        "source": [[1, 0, 2, 1], [], [0]],
        "target": [[0, 1, 1, 2], [], [1]],
        "node_label_atom": [["C", "O", "C"], [], ["N", "C"]],
        "arc_label_bond": [[1, 1, 2, 2], [], [1]],
        "node_attribute_charge": [[0.5, 0.25, 0.0], [], [1, 2]],
        "arc_attributes": [[[1.0, 2.0]] * 4, [], [[3.0, 4.0]]],
        "target_pce": [1.5, None, 2.0],
        "target_active": ["yes", "no", None],
        "node_target_site": [[1.0, None, 0.0], [], [0.0, 1.0]],
        "smiles": ["COC", "", "NC"],
    }
    columns.update(changes)
    return pyarrow.table({name: values for name, values in columns.items() if values is not None})


def test_a_table_without_metadata() -> None:
    pack = arrow.from_table(plain_table())
    assert pack.num_nodes.tolist() == [3, 0, 2]
    assert pack.reverse.tolist() == [1, 0, 3, 2, -1]
    assert [(v.name, v.symbols) for v in pack.node_vocabularies] == [("atom", ("C", "N", "O"))]
    assert pack.node_labels.flatten().tolist() == [0, 2, 0, 1, 0]
    assert [(v.name, v.symbols) for v in pack.arc_vocabularies] == [("bond", (1, 2))]
    assert pack.node_attribute_names == ("charge",)
    assert pack.arc_attribute_names == ("attribute_0", "attribute_1")
    assert pack.target_names == ("pce", "active")
    assert pack.target_vocabularies == (None, Vocabulary("active", ("no", "yes")))
    np.testing.assert_array_equal(pack.targets, [[1.5, 1], [np.nan, 0], [2, np.nan]])
    np.testing.assert_array_equal(pack.node_targets.flatten(), [1, np.nan, 0, 0, 1])
    assert pack.ids.tolist() == ["path", "nothing", "arc"]
    assert pack.columns["smiles"].tolist() == ["COC", "", "NC"]
    assert same(arrow.from_table(writing.to_table(pack)), pack)


def test_the_number_of_nodes_is_inferred() -> None:
    by_labels = arrow.from_table(plain_table(num_nodes=None))
    assert by_labels == arrow.from_table(plain_table())
    bare = pyarrow.table({"source": [[0, 3], [], [1]], "target": [[1, 0], [], [0]]})
    assert arrow.from_table(bare).num_nodes.tolist() == [4, 0, 2]


def test_arcs_in_any_order_are_sorted_with_their_reverse() -> None:
    table = plain_table(reverse=[[1, 0, 3, 2], [], [-1]])
    order = [2, 0, 3, 1]
    place = [order.index(k) for k in range(4)]
    mixed = {
        "source": [[[1, 0, 2, 1][k] for k in order], [], [0]],
        "target": [[[0, 1, 1, 2][k] for k in order], [], [1]],
        "reverse": [[place[[1, 0, 3, 2][k]] for k in order], [], [-1]],
        "arc_label_bond": [[[1, 1, 2, 2][k] for k in order], [], [1]],
    }
    assert arrow.from_table(plain_table(**mixed)) == arrow.from_table(table)


@pytest.mark.parametrize(
    "kind",
    [pyarrow.large_list(pyarrow.int64()), pyarrow.list_(pyarrow.uint8()), pyarrow.list_view(pyarrow.int16())],
    ids=str,
)
def test_other_list_and_integer_types(kind: pyarrow.DataType) -> None:
    table = plain_table()
    for name in ("source", "target"):
        at = table.column_names.index(name)
        table = table.set_column(at, name, pyarrow.array(table[name].to_pylist(), type=kind))
    assert arrow.from_table(table) == arrow.from_table(plain_table())


def test_dictionary_columns_and_integer_ids() -> None:
    table = plain_table(id=[7, 8, 9], target_active=pyarrow.array(["yes", "no", None]).dictionary_encode())
    pack = arrow.from_table(table)
    assert pack.ids.tolist() == ["7", "8", "9"]
    assert pack.target_vocabularies[1] == Vocabulary("active", ("no", "yes"))


def test_pandas_reads_and_writes_it(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pack = arrow.from_table(plain_table())
    writing.write(pack, tmp_path / "ours.parquet")
    frame = pandas.read_parquet(tmp_path / "ours.parquet")
    assert frame["source"][0].tolist() == [1, 0, 2, 1]
    assert frame["target_pce"].isna().tolist() == [False, True, False]
    plain_table().to_pandas().to_parquet(tmp_path / "theirs.parquet")
    assert arrow.read(tmp_path / "theirs.parquet") == pack


def test_further_columns_can_be_chosen() -> None:
    table = plain_table(day=pyarrow.array([1, 2, 3], type=pyarrow.date32()), rank=[1, None, 3])
    with pytest.raises(
        ReadError, match=r"column 'day' holds date32\[day\].*name the columns to keep with columns="
    ):
        arrow.from_table(table)
    assert list(arrow.from_table(table, columns=["smiles"]).columns) == ["smiles"]
    assert arrow.from_table(table, columns=()).columns == {}
    with pytest.raises(ReadError, match="row 1: column 'rank' holds null"):
        arrow.from_table(table, columns=["rank"])
    with pytest.raises(InputError, match="no further column 'absent'; there are: smiles, day, rank"):
        arrow.from_table(table, columns=["absent"])


REFUSED = [
    ({"source": None}, "needs the columns 'source' and 'target'"),
    ({"source": [1, 2, 3]}, "column 'source' must hold lists, it holds int64"),
    (
        {"source": [[1.0, 0, 2, 1], [], [0]]},
        "column 'source' must hold lists of integers, it holds lists of double",
    ),
    ({"source": [[1, 0, 2, 1], None, [0]]}, "row 1: column 'source' holds null"),
    ({"source": [[1, 0, 2, 1], [], [None]]}, "row 2: column 'source' holds null within a list"),
    ({"source": [[1, 0, 2], [], [0]]}, "row 0: column 'target' has 4 entries, but column 'source' says 3"),
    (
        {"source": [[1, 0, 2, 1], [], [2]]},
        "row 2: arc 0 starts at node 2, but the structure has nodes 0 to 1",
    ),
    (
        {"target": [[0, 1, -1, 2], [], [1]]},
        "row 0: arc 2 ends at node -1, but the structure has nodes 0 to 2",
    ),
    ({"target": [[0, 1, 2**40, 2], [], [1]]}, "row 0: column 'target' holds 1099511627776, beyond 32 bits"),
    ({"num_nodes": [3, -1, 2]}, "row 1: num_nodes must be from 0 to 2**31 - 1, got -1"),
    ({"num_nodes": [3, None, 2]}, "column 'num_nodes' holds null"),
    ({"num_nodes": [4, 0, 2]}, "row 0: column 'node_label_atom' has 3 entries, but num_nodes says 4"),
    ({"num_nodes": ["3", "0", "2"]}, "column 'num_nodes' must hold integers, it holds string"),
    (
        {"reverse": [[1, 0, 3, 2], [], [1]]},
        "row 2: the reverse of arc 0 must be -1 or an arc of the pack, 0 to 4, got 5",
    ),
    ({"reverse": [[1, 0, 3, 2], [], [-2]]}, "row 2: the reverse of arc 0 is arc 2, which does not run"),
    ({"reverse": [[3, 0, 3, 2], [], [-1]]}, "row 0: the reverse of arc 0 is arc 3, which does not run"),
    ({"reverse": [[-1, 0, 3, 2], [], [-1]]}, "row 0: the reverse of arc 1 is arc 0, which does not run"),
    ({"reverse": [[1, 0, 3, 2], [], [0]]}, "row 2: the reverse of arc 0 is arc 0, which does not run"),
    (
        {"source": [[1, 0, 2, 1], [], [1]], "reverse": [[1, 0, 3, 2], [], [-1]]},
        "row 2: arc 0 is a self-loop, which must be its own reverse, but its reverse is -1",
    ),
    ({"reverse": [[1, 0, 3], [], [-1]]}, "row 0: column 'reverse' has 3 entries, but column 'source' says 4"),
    ({"node_label_atom": [["C", None, "C"], [], ["N", "C"]]}, "row 0: column 'node_label_atom' holds null"),
    (
        {"node_label_atom": [[0.5, 1, 2], [], [3, 4]]},
        "column 'node_label_atom' must hold lists of texts or integers",
    ),
    ({"arc_label_bond": [[1, 1, 2], [], [1]]}, "row 0: column 'arc_label_bond' has 3 entries"),
    (
        {"node_attribute_charge": [[0.5, 1, 2], [], [np.nan, 2]]},
        "row 2: attribute 'charge' of node 0 is nan",
    ),
    (
        {"node_attribute_charge": [[0.5, 1e39, 2], [], [1, 2]]},
        "row 0: attribute 'charge' of node 1 is 1e+39",
    ),
    (
        {"arc_attributes": [[[1.0, 2.0]] * 4, [], [[3.0]]]},
        "row 2: column 'arc_attributes' must hold equally long",
    ),
    ({"arc_attributes": [[[1.0, 2.0]] * 4, [], [[3.0, None]]]}, "row 2: column 'arc_attributes' holds null"),
    ({"target_pce": [1.5, None, np.inf]}, "row 2: target 'pce' is inf"),
    ({"target_pce": [[1.5], [2.5], [3.5]]}, "column 'target_pce' must hold texts or numbers"),
    ({"node_target_site": [[1, 0, -np.inf], [], [0, 1]]}, "row 0: target 'site' of node 2 is -inf"),
    ({"id": ["a", None, "c"]}, "row 1: column 'id' holds null"),
    ({"smiles": ["a", None, "c"]}, "row 1: column 'smiles' holds null"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_wrong_tables_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    table = plain_table(**changes)
    with pytest.raises(ReadError) as caught:
        arrow.from_table(table)
    assert message in str(caught.value)
    path = tmp_path / "wrong.parquet"
    parquet.write_table(table, path)
    with pytest.raises(ReadError) as caught:
        arrow.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_rows_are_counted_through_the_file(tmp_path: Path) -> None:
    table = plain_table(source=[[1, 0, 2, 1], [], [2]])
    parquet.write_table(table, tmp_path / "wrong.parquet", row_group_size=1)
    parts = arrow.scan(tmp_path / "wrong.parquet")
    assert [len(next(parts)), len(next(parts))] == [1, 1]
    with pytest.raises(ReadError, match="row 2: arc 0 starts at node 2"):
        next(parts)


def test_a_column_that_occurs_twice_is_refused() -> None:
    table = plain_table()
    with pytest.raises(ReadError, match="column 'smiles' occurs twice"):
        arrow.from_table(table.append_column("smiles", table["smiles"]))


# -- metadata ----------------------------------------------------------------------------------------------------


def with_metadata(change: Callable[[dict[str, Any]], None]) -> pyarrow.Table:
    table = writing.to_table(arrow.from_table(plain_table()))
    described = json.loads(table.schema.metadata[b"hiddenfield"])
    change(described)
    return table.replace_schema_metadata({b"hiddenfield": json.dumps(described).encode()})


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(
        ReadError, match="written in version 2 of the format, and this library reads up to 1; upgrade"
    ):
        arrow.from_table(with_metadata(lambda described: described.update(version=2)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version="1"), "damaged"),
        (lambda d: d.pop("targets"), "damaged"),
        (lambda d: d.update(node_labels=3), "damaged"),
        (lambda d: d["node_labels"][0]["vocabulary"].update(symbols=["a", "a", "b"]), "damaged"),
        (lambda d: d["node_labels"][0]["vocabulary"].update(symbols=[1.5, 2, 3]), "damaged"),
        (
            lambda d: d["node_labels"][0]["vocabulary"].update(symbols=["C", "N"]),
            "row 0: label 'atom' of node 1 is 2, which is not one of its",
        ),
        (
            lambda d: d["targets"][1]["vocabulary"].update(symbols=["no"]),
            "row 0: target 'active' is 1.0, which is not one of its",
        ),
        (
            lambda d: d["targets"][0].update(field="target_x"),
            "name a column 'target_x' that is not there",
        ),
        (lambda d: d["targets"][0].update(field="source"), "column 'source' must hold numbers"),
        (
            lambda d: d["node_labels"][0].update(field="source"),
            "row 0: column 'source' has 4 entries, but num_nodes",
        ),
        (lambda d: d["arc_attributes"].pop(), "arc_attribute_names must be 2 distinct names"),
        (lambda d: d["columns"].append(d["columns"][0]), "name a further column twice"),
        (lambda d: d["node_targets"].append(d["node_targets"][0]), "names must be 2 distinct names"),
    ],
)
def test_tampered_metadata_are_refused(change: Callable[[dict[str, Any]], None], message: str) -> None:
    with pytest.raises(ReadError, match=message):
        arrow.from_table(with_metadata(change))


def test_a_missing_id_column_is_refused_and_an_added_one_read() -> None:
    table = writing.to_table(arrow.from_table(plain_table()))
    with pytest.raises(ReadError, match="name a column 'id' that is not there"):
        arrow.from_table(table.drop_columns("id"))
    without = writing.to_table(arrow.from_table(plain_table(id=None)))
    assert arrow.from_table(without.append_column("id", table["id"])).ids.tolist() == [
        "path",
        "nothing",
        "arc",
    ]


def test_a_column_that_was_added_travels_along() -> None:
    table = writing.to_table(arrow.from_table(plain_table()))
    pack = arrow.from_table(table.append_column("rank", pyarrow.array([3, 1, 2])))
    assert pack.columns["rank"].tolist() == [3, 1, 2]


# -- folders -------------------------------------------------------------------------------------------------------


def letters(*texts: str, classes: list[str] | None = None) -> Structures:
    sizes = [len(text) for text in texts]
    return from_arcs(
        [],
        [],
        node_ptr=np.concatenate([[0], np.cumsum(sizes)]),
        node_labels=list("".join(texts)),
        targets=classes,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    packs = [
        letters("ab", "b", classes=["x", "y"]),
        letters("cb", classes=["z"]),
        letters("d", "a", classes=["y", "x"]),
    ]
    assert writing.write_shards(iter(packs), tmp_path / "set") == 5
    return tmp_path / "set"


def test_vocabularies_of_shards_are_united(folder: Path) -> None:
    pack = arrow.read(folder)
    words = pack.node_vocabularies[0]
    assert words.symbols == ("a", "b", "c", "d")
    assert words.decode(pack.node_labels[:, 0].numpy()) == list("abbcbda")
    assert pack.target_vocabularies[0].decode(pack.targets[:, 0].numpy()) == ["x", "y", "z", "y", "x"]
    parts = list(arrow.scan(folder))
    assert [len(part) for part in parts] == [2, 1, 2]
    assert all(part.node_vocabularies == pack.node_vocabularies for part in parts)
    assert all(part.target_vocabularies == pack.target_vocabularies for part in parts)
    assert parts[1] == pack[2]


def test_a_missing_shard_is_noticed(folder: Path) -> None:
    (folder / "part-00001.parquet").unlink()
    for reader in (arrow.read, lambda path: list(arrow.scan(path))):
        with pytest.raises(
            ReadError, match=r"part-00001.parquet: this shard, which _manifest.json lists, is missing"
        ):
            reader(folder)


def test_an_extra_shard_is_noticed(folder: Path) -> None:
    (folder / "part-00003.parquet").write_bytes((folder / "part-00000.parquet").read_bytes())
    with pytest.raises(ReadError, match=r"part-00003.parquet: is not listed in _manifest.json"):
        arrow.read(folder)


def test_an_exchanged_shard_is_noticed(folder: Path) -> None:
    (folder / "part-00001.parquet").write_bytes((folder / "part-00000.parquet").read_bytes())
    with pytest.raises(ReadError, match=r"part-00001.parquet: has 2 rows where _manifest.json says 1"):
        arrow.read(folder)


def test_a_truncated_shard_is_noticed(folder: Path) -> None:
    shard = folder / "part-00002.parquet"
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(ReadError, match=r"part-00002.parquet: cannot be read"):
        arrow.read(folder)


def test_a_missing_manifest_is_noticed(folder: Path) -> None:
    (folder / "_manifest.json").unlink()
    with pytest.raises(ReadError, match=r"holds shards but no _manifest.json"):
        arrow.read(folder)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"hiddenfield": 1, "shards": []}',
        '{"hiddenfield": 1, "shards": [{"file": 1}]}',
    ],
)
def test_a_damaged_manifest_is_noticed(folder: Path, text: str) -> None:
    (folder / "_manifest.json").write_text(text)
    with pytest.raises(ReadError, match=r"_manifest.json: is damaged"):
        arrow.read(folder)


def test_a_manifest_may_not_point_elsewhere_or_be_newer(folder: Path) -> None:
    described = json.loads((folder / "_manifest.json").read_text())
    described["shards"][0]["file"] = "../set/part-00000.parquet"
    (folder / "part-00000.parquet").rename(folder / "part-00000.old")
    (folder / "_manifest.json").write_text(json.dumps(described))
    with pytest.raises(ReadError, match="is damaged"):
        arrow.read(folder)
    (folder / "_manifest.json").write_text(json.dumps({**described, "hiddenfield": 2}))
    with pytest.raises(ReadError, match="written in version 2"):
        arrow.read(folder)


def test_a_folder_made_elsewhere_needs_no_manifest(tmp_path: Path) -> None:
    parquet.write_table(plain_table().slice(0, 1), tmp_path / "a.parquet")
    parquet.write_table(plain_table().slice(1), tmp_path / "b.parquet")
    assert arrow.FORMAT.recognises(tmp_path)
    assert arrow.read(tmp_path).ids.tolist() == ["path", "nothing", "arc"]
    (tmp_path / "a.parquet").unlink()
    (tmp_path / "b.parquet").rename(tmp_path / "b.txt")
    assert not arrow.FORMAT.recognises(tmp_path)
    with pytest.raises(ReadError, match="holds no file that ends in"):
        arrow.read(tmp_path)


def test_shards_with_other_features_are_refused(tmp_path: Path) -> None:
    writing.write_shards([letters("ab"), letters("b", classes=["x"])], tmp_path / "set")
    with pytest.raises(InputError, match="must carry the same features"):
        arrow.read(tmp_path / "set")


# -- writing -----------------------------------------------------------------------------------------------------


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    pack = letters("ab")
    with pytest.raises(
        InputError, match=r"'pack.csv' must end in .parquet, .arrow, .feather; for a folder of shards"
    ):
        writing.write(pack, tmp_path / "pack.csv")
    with pytest.raises(InputError, match="shard_size must be an integer of at least 1, got 0"):
        writing.write(pack, tmp_path / "set", shard_size=0)
    with pytest.raises(InputError, match=r"shards are written to a folder"):
        writing.write(pack, tmp_path / "pack.parquet", shard_size=5)
    with pytest.raises(InputError, match="needs at least one pack"):
        writing.write_shards([], tmp_path / "set")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        writing.write(pack, tmp_path / "file" / "pack.parquet")
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        writing.write(pack, tmp_path / "folder.parquet")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder.parquet"]


def test_an_existing_file_is_replaced_and_a_full_folder_is_not(tmp_path: Path) -> None:
    for texts in ("ab", "cde"):
        writing.write(letters(texts), tmp_path / "pack.parquet")
    assert arrow.read(tmp_path / "pack.parquet") == letters("cde")
    (tmp_path / "set").mkdir()
    writing.write(letters("ab", "c"), tmp_path / "set", shard_size=1)
    with pytest.raises(InputError, match="is there already and is not an empty folder"):
        writing.write(letters("ab", "c"), tmp_path / "set", shard_size=1)


def test_a_failing_iterator_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Any:
        yield letters("ab")
        raise FileNotFoundError("the next pack is not there")

    with pytest.raises(FileNotFoundError, match="the next pack is not there"):
        writing.write_shards(failing(), tmp_path / "set")
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from hiddenfield.data.build import from_arcs
from hiddenfield.data import arrow_tables as arrow

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(os, sys.argv[1], die)
pack = from_arcs([0], [1], node_ptr=[0, 2, 2])
if sys.argv[2].endswith("set"):
    arrow.write(pack, sys.argv[2], shard_size=1)
else:
    arrow.write(pack, sys.argv[2])
"""


@pytest.mark.parametrize("moment", ["fsync", "replace"])
@pytest.mark.parametrize("name", ["pack.parquet", "pack.arrow", "set"])
def test_a_killed_process_leaves_the_old_or_nothing(tmp_path: Path, moment: str, name: str) -> None:
    """The process ends without any clean-up, while it writes or just before the data take their name."""
    path = tmp_path / name
    if name != "set":
        writing.write(letters("old"), path)
    source = Path(arrow.__file__).parents[3]
    result = subprocess.run(
        [sys.executable, "-c", KILLED, moment, str(path)], env={"PYTHONPATH": str(source)}, check=False
    )
    assert result.returncode == -signal.SIGKILL
    if name == "set":
        assert not path.exists()
        writing.write(letters("new"), path, shard_size=1)
    else:
        assert arrow.read(path) == letters("old")
        writing.write(letters("new"), path)
    assert arrow.read(path) == letters("new")


# -- damage ------------------------------------------------------------------------------------------------------


def check_pack(pack: Structures) -> None:
    """Assert what a pack promises of its arcs, labels and attributes."""
    pack.topology.validate()
    assert int(pack.node_ptr[-1]) == pack.total_nodes
    owner = pack.structure_of_node
    assert bool((owner[pack.source.long()] == owner[pack.target.long()]).all())
    rebuilt = from_arcs(pack.source, pack.target, node_ptr=pack.node_ptr, reverse=pack.reverse)
    assert torch.equal(rebuilt.source, pack.source)
    assert torch.equal(rebuilt.reverse, pack.reverse)
    if pack.node_labels is not None:
        for column, vocabulary in zip(pack.node_labels.T, pack.node_vocabularies, strict=True):
            vocabulary.decode(column.numpy())
    if pack.node_attributes is not None:
        assert bool(pack.node_attributes.isfinite().all())


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_damaged_files_are_refused_or_valid(tmp_path: Path, suffix: str) -> None:
    dice = random.Random(0)
    pack = arrow.from_table(plain_table())
    whole_path, path = tmp_path / f"whole.{suffix}", tmp_path / f"broken.{suffix}"
    writing.write(pack, whole_path)
    whole = whole_path.read_bytes()
    refused = 0
    for trial in range(600):
        contents = bytearray(whole)
        if trial % 3 == 0:
            contents = contents[: dice.randrange(len(contents))]
        else:
            for _ in range(dice.randrange(1, 5)):
                contents[dice.randrange(len(contents))] = dice.randrange(256)
        path.write_bytes(contents)
        assert arrow.FORMAT.recognises(path)
        try:
            read = arrow.read(path)
        except ReadError:
            refused += 1
        else:
            check_pack(read)
    assert refused > 200


def test_files_are_recognised_by_what_they_begin_with(tmp_path: Path) -> None:
    writing.write(letters("ab"), tmp_path / "pack.parquet")
    (tmp_path / "pack.parquet").rename(tmp_path / "pack.data")
    assert arrow.FORMAT.recognises(tmp_path / "pack.data")
    assert arrow.read(tmp_path / "pack.data") == letters("ab")
    (tmp_path / "text").write_text("PA")
    assert not arrow.FORMAT.recognises(tmp_path / "text")
    assert not arrow.FORMAT.recognises(tmp_path / "absent")
    (tmp_path / "empty.parquet").write_bytes(b"")
    with pytest.raises(ReadError, match=r"empty.parquet: is neither a Parquet nor an Arrow IPC file"):
        arrow.read(tmp_path / "empty.parquet")


def test_the_front_door(tmp_path: Path) -> None:
    pack = arrow.from_table(plain_table())
    hiddenfield.data.write(pack, tmp_path / "set", shard_size=2)
    assert hiddenfield.data.read(tmp_path / "set") == pack
    assert [len(part) for part in hiddenfield.data.scan(tmp_path / "set")] == [2, 1]
    assert [list(part.columns) for part in hiddenfield.data.scan(tmp_path / "set", columns=())] == [[], []]
    with pytest.raises(InputError, match="format 'arrow' has no option 'target'"):
        hiddenfield.data.scan(tmp_path / "set", target="pce")


def test_a_real_set_round_trips(data_path: Path, tmp_path: Path) -> None:
    from hiddenfield.data.readers import tu

    archive = data_path / "graphs" / "ENZYMES" / "ENZYMES.zip"
    if not archive.exists():
        pytest.skip("no ENZYMES in the real data")
    pack = tu.read(archive)
    for name in ("enzymes.parquet", "enzymes.arrow"):
        writing.write(pack, tmp_path / name)
        assert same(arrow.read(tmp_path / name), pack)
