"""Tables of mixed columns: read and given back, kinds recognised, mistakes named."""

from __future__ import annotations

import gzip
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, strategies as st

from hiddenfield.data import Table, TableColumn, as_table
from hiddenfield.errors import InputError, ReadError, UnknownSymbolError

FRAME = pd.DataFrame(
    {
        "grade": pd.Categorical(["low", "high", None], categories=["low", "mid", "high"], ordered=True),
        "works": [True, False, True],
        "visits": pd.array([12, None, 0], dtype="Int64"),
        "town": ["x", None, "y"],
        7: [1.5, np.nan, 2.0],
    },
    index=["r", "s", "t"],
)


def test_data_frames_come_back_as_they_were():
    table = as_table(FRAME)
    assert table.kinds == ("categorical", "binary", "count", "binary", "continuous")
    assert table.columns[0].vocabulary.symbols == ("low", "mid", "high")
    pd.testing.assert_frame_equal(table.restore(), FRAME)
    filled = table.values.copy()
    filled[1, 2] = 1.75  # an imputed mean is no integer
    assert table.with_values(filled).restore()["visits"].tolist() == [12, 1.75, 0]
    arrow = pyarrow.table({"a": ["x", None], "n": pyarrow.array([3, None], pyarrow.int32())})
    assert as_table(arrow).restore().equals(arrow)


@pytest.mark.parametrize(
    "source",
    [
        [[1.5, "a"], [None, "b"]],
        [{"u": 1.5, "v": None}, {"u": 2.5, "v": "b"}],
        {"u": [0, 1, None], "v": ["p", "q", "r"]},
    ],
    ids=["rows", "records", "columns"],
)
def test_lists_and_dicts_come_back_as_they_were(source):
    assert as_table(source).restore() == source


def test_arrays_come_back_as_they_were():
    numbers = np.array([[0.5, 0, 7], [np.nan, 1, 9], [2.5, np.nan, 9]])
    np.testing.assert_array_equal(as_table(numbers).restore(), numbers)
    objects = np.array([["a", 1.5], [None, 2.5]], dtype=object)
    np.testing.assert_array_equal(as_table(objects).restore(), objects)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_files_hold_what_the_data_frame_holds(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    frame = pd.DataFrame(
        {"id": ["a", "b", "c"], "x": [1.25, None, 3.0], "s": ["u, v", 'w "q"', None], "w": [1, 2, 3]}
    )
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, na_rep="NA", sep="\t" if suffix == ".tsv" else ",")
    table = as_table(path, id="id", weight="w")
    assert table.to_dict() == {"x": [1.25, None, 3.0], "s": ["u, v", 'w "q"', None]}
    assert (table.ids.tolist(), table.weights.tolist()) == (["a", "b", "c"], [1, 2, 3])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "line 3: expected 2 entries"),
        ("a,b\n1,2\n,\n5,x\n3,4\n", "line 4: column 'b' holds numbers in 2 of 3 rows, but 'x' here"),
        ("a,a\n1,2\n", "line 1: the column name 'a' occurs twice"),
        ("a,b\n", "line 1: there are no rows"),
        ("a,b\n1,inf\n", "line 2: column 'b' is infinity"),
        ('a,b\n1,"2\n', "never closed"),
        ("", "the file is empty"),
        ("a,b\n1,2\n\n3,4\n", "line 3: the line is blank"),
        ('a,b\n1,2\n"3"x,4\n', "line 3: a quoted entry is followed by 'x'"),
        ("a,b\n1,2\n3,NAN\n4,5\n", "line 3: column 'b' holds numbers in 2 of 3 rows, but 'NAN' here"),
        ('a,b\n"x\ny",1\n"z",inf\n', "line 4: column 'b' is infinity"),
    ],
)
def test_mistakes_in_files_are_named_with_their_line(tmp_path, text, message):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ReadError, match=message):
        as_table(path)


def test_ids_of_a_file_are_kept_as_they_are_written(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("id,x\n001,1.5\n2,+2.5\n")
    table = as_table(path, id="id")
    assert (table.ids.tolist(), table.to_dict()) == (["001", "2"], {"x": [1.5, 2.5]})
    path.write_text("id,x\n001,1.5\nNA,2.5\n")
    with pytest.raises(ReadError, match="line 3: column 'id': the row has no id"):
        as_table(path, id="id")


def test_a_quoted_line_end_and_damaged_parquet(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b'a,b\n1,"x\ny"\n2,z\n'))
    assert as_table(path).to_dict()["b"] == ["x\ny", "z"]
    (tmp_path / "t.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(ReadError, match=r"t\.parquet: cannot be read as parquet"):
        as_table(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.5, 1.0], "continuous"),
        ([0, 1], "binary"),
        ([True], "binary"),
        (["a", "b", "a"], "binary"),
        (["a", "b", "c"], "categorical"),
        ([1, 2, 3] * 3, "categorical"),
        ([3, 4, 2, 0, 1], "count"),
        ([3000, 4120, 0], "continuous"),
        ([-3, 4, 9], "continuous"),
        ([None, None], "continuous"),
    ],
)
def test_kinds_are_recognised(values, kind):
    assert as_table({"x": values}).kinds == (kind,)


def test_kinds_can_be_given():
    columns = {"v1": [1, 2, 5], "v2": [1, 2, 5], "u": ["3", "4", None]}
    kinds = as_table(columns, kinds={"v*": "count", "u": "continuous"}).kinds
    assert kinds == ("count", "count", "continuous")
    assert as_table(np.eye(3), kinds="continuous").kinds == ("continuous",) * 3
    assert as_table(np.eye(3), kinds={-1: "categorical"}).kinds == ("binary", "binary", "categorical")


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (
            {"x": [1, -1]},
            {"kinds": "count"},
            "row 1: column 'x' is count, which takes whole numbers from 0 up",
        ),
        ({"x": [1.5]}, {"kinds": "categorical"}, "takes texts and whole numbers, but holds 1.5"),
        (
            {"x": ["a", "b", "c"]},
            {"kinds": "binary"},
            "row 2: column 'x' was given as binary, but has 3 symbols: 'a', 'b', 'c'",
        ),
        ({"x": ["1", "b"]}, {"kinds": "continuous"}, "row 1: column 'x' is continuous, but holds 'b'"),
        ({"x": [1]}, {"kinds": {"y": "count"}}, "unknown column 'y'"),
        ({"x": [1]}, {"kinds": "number"}, "unknown kind of column 'number'"),
        ({"x": [1, 2], "y": [1]}, {}, "'y' has 1 rows"),
        ({"x": [1, object()]}, {}, "row 1: column 'x': expected numbers or symbols"),
        ([[1, 2], [3]], {}, "equally long rows"),
        (np.zeros(3), {}, "two axes"),
        (pyarrow.table({"x": pyarrow.array([0], pyarrow.timestamp("s"))}), {}, "column 'x' holds timestamp"),
        ({"x": [1.0], "w": [-1.0]}, {"weight": "w"}, "weights must be finite and not negative"),
        (3, {}, "expected an Arrow table"),
    ],
)
def test_mistakes_are_named(source, options, message):
    with pytest.raises(InputError, match=message):
        as_table(source, **options)


def test_new_data_have_the_old_symbols():
    old = as_table({"a": ["x", "y", "z"], "n": [1.0, 2.5, None], "k": [1, 2, 1, 2, 1, 2][:3]})
    new = as_table({"k": [2], "n": [None], "a": ["z"], "more": ["?"]}, like=old.columns)
    assert new.columns == old.columns
    assert new.to_dict() == {"a": ["z"], "n": [None], "k": [2]}
    with pytest.raises(UnknownSymbolError, match="row 1: column 'a': 'q' was not among the symbols"):
        as_table({"a": ["x", "q"], "n": [1, 2], "k": [1, 1]}, like=old.columns)
    strange = as_table([["x", 1, 2], ["q", 2, 9]], like=old.columns[:2] + old.columns[2:], unseen="missing")
    assert strange.missing.tolist() == [[False] * 3, [True, False, False]]
    with pytest.raises(InputError, match="unknown column 'n'"):
        as_table({"a": ["x"], "k": [1]}, like=old.columns)
    with pytest.raises(InputError, match="X has 1 columns, but the model was fitted with 3: a, n, k"):
        as_table([["x"]], like=old.columns)


def test_columns_survive_as_plain_values():
    for column in as_table(FRAME).columns:
        assert TableColumn.from_dict(column.as_dict()) == column


cells = st.one_of(st.none(), st.sampled_from(["p", "q", "r"]))


@given(st.lists(st.tuples(cells, cells, st.one_of(st.none(), st.integers(0, 2))), min_size=1, max_size=12))
def test_patterns_and_distinct_rows_count_what_is_there(rows):
    table = as_table([list(row) for row in rows], kinds={0: "categorical", 1: "categorical", 2: "continuous"})
    patterns = table.patterns()
    counted = Counter(tuple(cell is not None for cell in row) for row in rows)
    assert {
        tuple(row): int(n) for row, n in zip(patterns.observed.tolist(), patterns.counts, strict=True)
    } == counted
    assert list(patterns.counts) == sorted(patterns.counts, reverse=True)
    assert (patterns.observed[patterns.which] == ~table.missing[patterns.order]).all()
    distinct, number = table.distinct()
    listed = list(zip(*distinct.to_dict().values(), strict=True))
    assert dict(zip(listed, distinct.weights, strict=True)) == Counter(rows)
    np.testing.assert_array_equal(distinct.values[number], table.values)


def test_symbols_only_where_symbols_are_needed():
    table = as_table({"a": ["x", None], "b": [1.5, 2.5]})
    assert table.select(["a"]).codes().tolist() == [[0], [-1]]
    with pytest.raises(InputError, match="column 'b' holds real numbers, not symbols"):
        table.codes()
    assert isinstance(table.take([1]), Table)
