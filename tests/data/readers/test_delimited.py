"""Delimited text: what is read, against the csv module; what is refused, with its line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import given, strategies as st

from hiddenfield.data.readers.delimited import (
    MISSING,
    Table,
    as_missing,
    further_column,
    read_table,
    target_column,
)
from hiddenfield.errors import InputError, ReadError

entry = st.text(st.characters(codec="utf-8", exclude_characters="\r\0\ufeff"), max_size=6)


def rows_of(table: Table) -> list[list[str]]:
    return [list(row) for row in zip(*(table.entries(k) for k in range(len(table.names))), strict=True)]


@pytest.fixture
def write(tmp_path: Path):
    def write(contents: str | bytes, name: str = "table.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        return path

    return write


@given(st.data(), st.integers(1, 4), st.sampled_from([",", "\t", ";"]))
def test_what_the_csv_module_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, width: int, separator: str
) -> None:
    rows = data.draw(st.lists(st.lists(entry, min_size=width, max_size=width), min_size=1, max_size=5))
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    table = read_table(path, header=False, separator=separator)
    assert rows_of(table) == rows
    assert table.names == tuple(str(k) for k in range(width))
    first, lines = 1, []
    for row in rows:
        lines.append(first)
        first += 1 + sum(value.count("\n") for value in row)
    assert list(table.lines) == lines


@given(
    st.lists(
        st.lists(st.sampled_from(["a", "", "1.5", "ü x"]), min_size=3, max_size=3), min_size=1, max_size=5
    )
)
def test_without_quotes_the_result_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("csv")
    plain, quoted = folder / "plain.csv", folder / "quoted.csv"
    plain.write_text("\n".join(",".join(row) for row in [["x", "y", "z"], *rows]), encoding="utf-8")
    quoted.write_text("\n".join(",".join(row) for row in [['"x"', "y", "z"], *rows]), encoding="utf-8")
    one, other = read_table(plain), read_table(quoted)
    assert rows_of(one) == rows_of(other) == rows
    assert list(one.lines) == list(other.lines)


@given(
    st.lists(st.sampled_from(['"', ",", "\n", "a", '""', '"b"', '"c,d"', "e,f\n"]), min_size=1, max_size=12)
)
def test_what_is_read_is_what_the_csv_module_reads(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    path.write_text("".join(pieces), encoding="utf-8", newline="")
    text = "".join(pieces).rstrip("\n")
    try:
        expected = list(csv.reader(io.StringIO(text, newline="\n"), strict=True))
        whole = bool(expected) and all(expected) and len({len(row) for row in expected}) == 1
    except csv.Error:
        whole = False
    if whole:
        assert rows_of(read_table(path, header=False, separator=",")) == expected
    else:
        with pytest.raises(ReadError):
            read_table(path, header=False, separator=",")


@pytest.mark.parametrize(
    ("contents", "name"),
    [
        ("a,b\n1,2\n", "t.csv"),
        ("a,b\r\n1,2\r\n", "t.csv"),
        ("a,b\r1,2", "t.csv"),
        ("\ufeffa,b\n1,2\n\n\n", "t.csv"),
        ("a\tb\n1\t2\n", "t.tsv"),
        ("a\tb\n1\t2\n", "t.csv"),
        ("a;b\n1;2\n", "t.csv"),
        ('"a",b\n"1",2\n', "t.csv"),
    ],
)
def test_dialects(write, contents: str, name: str) -> None:
    table = read_table(write(contents, name))
    assert table.names == ("a", "b")
    assert rows_of(table) == [["1", "2"]]
    assert list(table.lines) == [2]


def test_a_quoted_header_does_not_mislead_the_separator(write) -> None:
    assert read_table(write('"a;b;c",d\n1,2\n')).names == ("a;b;c", "d")


def test_an_entry_longer_than_the_csv_modules_limit(write) -> None:
    sequence = "ACGT" * 50_000
    assert read_table(write(f"id,sequence\n1,{sequence}\n")).entries(1) == [sequence]
    assert read_table(write(f'id,sequence\n1,"{sequence}"\n')).entries(1) == [sequence]
    assert read_table(write(f'id,sequence\n1,"{sequence}\n"\n')).entries(1) == [sequence + "\n"]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ("a,b\n", "line 1: there are no rows beneath the header"),
        ("a,b\n1,2\n3\n", "line 3: expected 2 entries separated by ',', as the header has, got 1"),
        ("a,b\n1,2\n3,4,5\n", "line 3: expected 2 entries separated by ',', as the header has, got 3"),
        ("a,b\n1,2\n\n3,4\n", "line 3: the line is blank; remove it"),
        ('a,b\n"x\ny",2\n3\n', "line 4: expected 2 entries"),
        ('a,b\n1,2\n"3,4\n5,6\n', "line 3: a quoted entry that begins in this row is never closed"),
        ('a,b\n1,2\n"3"x,4\n', "line 3: a quoted entry is followed by 'x'"),
        ("a,b,a\n1,2,3\n", "line 1: the column name 'a' occurs twice"),
        ("a,b\n1,\0\n", "line 2: expected text, got a NUL byte"),
        (b"a,b\n1,2\n3,\xff\n", "line 3: expected UTF-8 text, got byte 0xff"),
    ],
)
def test_what_is_malformed_is_refused_with_its_line(write, contents: str | bytes, message: str) -> None:
    with pytest.raises(ReadError) as caught:
        read_table(write(contents))
    assert message in str(caught.value)
    assert "table.csv" in str(caught.value)


@pytest.mark.parametrize("separator", ["", ",,", '"', "\n"])
def test_a_separator_is_one_plain_character(write, separator: str) -> None:
    with pytest.raises(InputError, match="separator must be one character"):
        read_table(write("a,b\n1,2\n"), separator=separator)


def test_columns_are_found_by_name_and_position(write) -> None:
    table = read_table(write("logP,smiles\n1,C\n"))
    assert table.find("smiles", "structure") == table.find(1, "structure") == 1
    with pytest.raises(
        InputError, match=r"target='logp': no such column in .* \(did you mean 'logP'\?\); it has"
    ):
        table.find("logp", "target")
    with pytest.raises(InputError, match=r"target=2: .* has the columns 0 to 1"):
        table.find(2, "target")
    with pytest.raises(InputError, match="no such column"):
        table.find(True, "target")


# -- columns -------------------------------------------------------------------------------------------------


def column(entries: list[str], classes: bool = False, missing: tuple[str, ...] = MISSING):
    values = pyarrow.chunked_array([entries], pyarrow.string())
    table = Table(Path("t.csv"), ("t",), [values], range(2, len(entries) + 2))
    return target_column(values, "t", classes=classes, missing=missing, refuse=table.refuse)


@given(st.lists(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(MISSING))))
def test_numbers_come_back(values: list[float | str]) -> None:
    numbers, words = column([value if isinstance(value, str) else repr(value) for value in values])
    assert words is None
    expected = [np.nan if isinstance(value, str) else value for value in values]
    np.testing.assert_array_equal(numbers, expected)


@given(st.lists(st.sampled_from(["red", "green", "blue", "NA", ""])))
def test_classes_come_back(values: list[str]) -> None:
    numbers, words = column(values)
    known = [] if words is None else words.symbols
    back = ["" if np.isnan(code) else known[int(code)] for code in numbers]
    assert back == ["" if value == "NA" else value for value in values]


@pytest.mark.parametrize(
    ("entries", "symbols"),
    [
        (["1", "0", "NA"], (0, 1)),
        (["1.0", "0.0", ""], (0, 1)),
        (["-1", "1"], (-1, 1)),
        (["01", "1"], ("01", "1")),
        (["1.5", "2"], ("1.5", "2")),
        (["123456789012345678", "1"], (1, 123456789012345678)),
        (["1", "x"], ("1", "x")),
    ],
)
def test_numbers_as_classes(entries: list[str], symbols: tuple) -> None:
    assert column(entries, classes=True)[1].symbols == symbols


def test_blanks_around_an_entry_do_not_count() -> None:
    assert column([" 1.5", "2 ", " NA "])[0].tolist()[:2] == [1.5, 2.0]
    assert column([" a", "a ", "b"])[1].symbols == ("a", "b")


def test_half_numbers_are_classes_more_are_a_mistake() -> None:
    assert column(["1", "2", "a", "b"])[1].symbols == ("1", "2", "a", "b")
    with pytest.raises(
        ReadError, match=r"t.csv, line 4: column 't' holds numbers in 3 of 4 rows, but 'abc' here"
    ):
        column(["1", "2", "abc", "3"])


@pytest.mark.parametrize("word", ["inf", "-Infinity", "1e999"])
def test_infinity_is_refused(word: str) -> None:
    with pytest.raises(ReadError, match=f"line 3: column 't': '{word}' is not finite"):
        column(["1", word])


def test_decimal_commas_are_refused_unless_they_are_classes() -> None:
    for entries in (["NA", "1,5", "2,25"], ["3", "1,5", "x"]):
        with pytest.raises(ReadError, match="line 3: column 't': '1,5' has a comma; write a decimal point"):
            column(entries)
    assert column(["1,5", "2,25"], classes=True)[1].symbols == ("1,5", "2,25")
    assert column(["a,1", "1,5", "b"])[1].symbols == ("1,5", "a,1", "b")


@pytest.mark.parametrize("word", ["1_000", "１２", "0x10", "1,5", "NAN"])
def test_what_only_some_programs_take_for_a_number_is_none(word: str) -> None:
    with pytest.raises(ReadError, match="line 4"):
        column(["1", "2", word])


def test_own_marks_of_missing_entries() -> None:
    numbers, _ = column(["1", "?"], missing=("?",))
    assert np.isnan(numbers[1])
    assert column(["a", "NA"], missing=("?",))[1].symbols == ("NA", "a")
    with pytest.raises(InputError, match="missing must be a list of texts"):
        as_missing("NA")


def test_a_column_that_is_all_missing_has_no_classes() -> None:
    numbers, words = column(["", "NA"])
    assert np.isnan(numbers).all()
    assert words is None


@pytest.mark.parametrize(
    ("entries", "kind", "values"),
    [
        (["1", "2"], "i", [1, 2]),
        (["1", "2.5"], "f", [1.0, 2.5]),
        (["a", " b"], "T", ["a", " b"]),
        (["1", "x"], "T", ["1", "x"]),
        (["", ""], "T", ["", ""]),
        (["1", "inf"], "T", ["1", "inf"]),
    ],
)
def test_further_columns(entries: list[str], kind: str, values: list) -> None:
    found = further_column(pyarrow.chunked_array([entries], pyarrow.string()), MISSING)
    assert found.dtype.kind == kind
    assert found.tolist() == values
