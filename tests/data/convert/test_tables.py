"""Arrow tables and data frames, both ways."""

from __future__ import annotations

import sys
from typing import Any

import pandas
import pyarrow
import pytest
from hypothesis import given

from hiddenfield.data import Structures, from_edges, from_table, to_table
from hiddenfield.errors import InputError, MissingDependencyError
from tests.data.strategies import structures


@given(structures())
def test_the_round_trips_are_exact(pack: Structures) -> None:
    assert from_table(to_table(pack)) == pack
    assert from_table(to_table(pack, "pandas")) == pack


@given(structures())
def test_rows_are_structures(pack: Structures) -> None:
    frame = to_table(pack, "pandas")
    assert len(frame) == len(pack)
    assert from_table(frame.iloc[::-1]) == pack[::-1]


def test_what_exports_arrow_is_taken() -> None:
    pack = from_edges([0], [1], node_ptr=[0, 2, 3], node_labels=["a", "b", "a"])
    table = to_table(pack)
    assert from_table(table.to_batches()[0]) == pack
    assert from_table(pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches())) == pack


def test_a_plain_frame() -> None:
    frame = pandas.DataFrame(
        {
            "source": [[0, 1], []],
            "target": [[1, 0], []],
            "node_label_element": [["C", "O"], ["N"]],
            "target_active": [1.0, None],
            "smiles": ["CO", "N"],
        }
    )
    pack = from_table(frame)
    assert pack.node_vocabularies[0].symbols == ("C", "N", "O")
    assert pack.targets.isnan().flatten().tolist() == [False, True]
    assert pack.columns["smiles"].tolist() == ["CO", "N"]
    assert from_table(frame, columns=[]).columns == {}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([1, 2], "expected an Arrow table"),
        (pandas.DataFrame({"source": [[0], "x"], "target": [[0], [0]]}), "cannot be converted to Arrow"),
        (pandas.DataFrame({"source": [[0]]}), "target"),
        (pandas.DataFrame({"source": [[3]], "target": [[0]], "num_nodes": [1]}), "row 0"),
    ],
)
def test_bad_tables_are_refused(table: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        from_table(table)
    assert words in str(caught.value)


@pytest.mark.bad_input
def test_kinds_and_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = from_edges([0], [1], node_ptr=[0, 2])
    with pytest.raises(InputError, match="unknown kind of table 'polars'; choose from: arrow, pandas"):
        to_table(pack, "polars")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match=r"hiddenfield\[pandas\]"):
        to_table(pack, "pandas")
