"""Delimited text: what is read, against the csv module; what is refused, with its line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hiddenfield.data.readers.delimited import read_table
from hiddenfield.errors import InputError, ReadError

entry = st.text(st.characters(codec="utf-8", exclude_characters="\r\0\ufeff"), max_size=6)


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
    assert table.rows == rows
    assert table.names == tuple(str(k) for k in range(width))
    first, lines = 1, []
    for row in rows:
        lines.append(first)
        first += 1 + sum(value.count("\n") for value in row)
    assert table.lines == lines


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
    assert one.rows == other.rows == rows
    assert list(one.lines) == list(other.lines)


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
    assert [list(row) for row in table.rows] == [["1", "2"]]
    assert list(table.lines) == [2]


def test_a_quoted_header_does_not_mislead_the_separator(write) -> None:
    assert read_table(write('"a;b;c",d\n1,2\n')).names == ("a;b;c", "d")


def test_an_entry_longer_than_the_csv_modules_limit(write) -> None:
    sequence = "ACGT" * 50_000
    assert read_table(write(f"id,sequence\n1,{sequence}\n")).rows == [["1", sequence]]
    with pytest.raises(ReadError, match=r"line 2: an entry that begins in this row is longer than 131,072"):
        read_table(write(f'id,sequence\n1,"{sequence}"\n'))


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
        ('a,b\n1,2\n"3"x,4\n', "line 3: ',' expected after"),
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
