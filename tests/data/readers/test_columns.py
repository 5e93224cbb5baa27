"""Columns of entries to numbers, classes and texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hiddenfield.data.readers.columns import MISSING, as_missing, further_column, target_column
from hiddenfield.errors import InputError, ReadError


def column(entries: list[str], classes: bool = False, missing: tuple[str, ...] = MISSING):
    lines = range(2, len(entries) + 2)
    return target_column(entries, "t", classes=classes, missing=missing, file=Path("t.csv"), lines=lines)


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
    found = further_column(entries, MISSING)
    assert found.dtype.kind == kind
    assert found.tolist() == values
