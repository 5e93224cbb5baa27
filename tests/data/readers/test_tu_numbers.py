"""Numbers from text are what Python's own ``int`` and ``float`` give, and the first bad line is named."""

from __future__ import annotations

import math
import struct
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hiddenfield.data.paths import Member
from hiddenfield.data.readers.tu import _parse
from hiddenfield.errors import ReadError


def parse_integers(contents: bytes, file: str) -> np.ndarray:
    return _parse(Member(file, lambda: contents), np.int64)


def parse_floats(contents: bytes, file: str) -> np.ndarray:
    return _parse(Member(file, lambda: contents), np.float64)


LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
MATRICES = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=width, max_size=width), min_size=1, max_size=8
    )
)


@given(
    MATRICES,
    LINE_ENDS,
    st.sampled_from([",", ", ", " ,\t"]),
    st.sampled_from(["", "end", "end end", "end \tend"]),
)
def test_integers_come_back(rows: list[list[int]], end: str, comma: str, tail: str) -> None:
    text = end.join(comma.join(map(str, row)) for row in rows) + tail.replace("end", end)
    parsed = parse_integers(text.encode(), "numbers.txt")
    assert parsed.dtype == np.int64
    assert parsed.tolist() == rows


def same_double(left: float, right: float) -> bool:
    return struct.pack("d", left) == struct.pack("d", right) or (math.isnan(left) and math.isnan(right))


DECIMALS = st.one_of(
    st.floats().map(repr),
    st.floats(width=32).map(repr),
    st.from_regex(r"[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,25})([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(
        ["nan", "-inf", "Infinity", "-0", "-0.0e7", "1e400", "1e-400", "9007199254740993", "1e23", "2.5e-324"]
    ),
)


@given(st.lists(DECIMALS, min_size=1, max_size=20))
def test_floats_are_the_same_doubles(texts: list[str]) -> None:
    parsed = parse_floats("\n".join(texts).encode(), "numbers.txt")[:, 0]
    assert [
        text for text, value in zip(texts, parsed, strict=True) if not same_double(float(text), value)
    ] == []


def test_many_floats_are_the_same_doubles() -> None:
    """Doubles in full, over the whole range, and decimals that lie just beside the middle between two doubles."""
    generator = np.random.default_rng(0)
    doubles = generator.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    texts = [repr(float(value)) for value in doubles]
    lower = generator.random(2_000) * 10.0 ** generator.integers(-30, 30, 2_000)
    with localcontext() as context:
        context.prec = 80
        for value in lower.tolist():
            middle = (Decimal(value) + Decimal(float(np.nextafter(value, np.inf)))) / 2
            texts += [
                format(middle, "f"),
                format(middle, ".17e"),
                format(middle, ".20e"),
                format(middle, ".24e"),
            ]
    parsed = parse_floats("\n".join(texts).encode(), "numbers.txt")[:, 0]
    assert [
        text for text, value in zip(texts, parsed, strict=True) if not same_double(float(text), value)
    ] == []


@pytest.mark.parametrize(
    ("contents", "line", "reason"),
    [
        (b"", None, "empty file"),
        (b" \n\r\n", None, "empty file"),
        (b"\n1\n", 1, "blank line"),
        (b"1\n\n2\n", 2, "blank line"),
        (b"1\r\r2", 2, "blank line"),
        (b"1,2\n3\n", 2, "expected 2 numbers, as on the first line, got 1"),
        (b"1,2\r\n3,4,5\r\n", 2, "expected 2 numbers, as on the first line, got more"),
        (b"1,\n", 1, "expected an integer, got ''"),
        (b"1,2\n3,", 2, "expected an integer, got ''"),
        (b"1\n1.0\n", 2, "expected an integer, got '1.0'"),
        (b"1\n1_0\n", 2, "expected an integer, got '1_0'"),
        (b"1 2\n", 1, "expected an integer, got '1 2'"),
        (b"1\n+\n", 2, "expected an integer, got '+'"),
        (b"1\n2\n\xff\xfe\n", 3, r"expected an integer, got '\\xff\\xfe'"),
        ("1\n١\n".encode(), 2, "expected an integer, got '١'"),
        (b"1\n9223372036854775808\n", 2, "at most 64 bits, got 9223372036854775808"),
        (b"1\n-9223372036854775809\n", 2, "at most 64 bits, got -9223372036854775809"),
        (b"1\n" + b"9" * 5000, 2, "at most 64 bits, got 9999"),
    ],
)
def test_the_first_bad_line_is_named(contents: bytes, line: int | None, reason: str) -> None:
    with pytest.raises(ReadError) as caught:
        parse_integers(contents, "numbers.txt")
    assert caught.value.line == line
    assert reason in caught.value.reason
    assert str(caught.value).startswith("numbers.txt")


@pytest.mark.parametrize("field", ["", "x", "1.2.3", "1e", "1e+", ".", "0x10", "1_0.5", "nanx", "--1", "1 2"])
def test_what_is_no_decimal_is_refused(field: str) -> None:
    with pytest.raises(ReadError, match=r"numbers.txt, line 2: expected a number, got"):
        parse_floats(f"0.5,1\n0.5,{field}\n".encode(), "numbers.txt")


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_integers(b"\xef\xbb\xbf1\n2\n", "numbers.txt").tolist() == [[1], [2]]


def test_a_wide_line_before_many_short_ones_reserves_no_memory() -> None:
    with pytest.raises(ReadError, match="line 2: expected 200001 numbers, as on the first line, got 1"):
        parse_integers(b"1," * 200_000 + b"1\n" + b"1\n" * 200_000, "numbers.txt")
