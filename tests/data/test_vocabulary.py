"""Vocabulary: codes and symbols, one to one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hiddenfield import Vocabulary
from hiddenfield.errors import InputError, UnknownSymbolError

SYMBOLS = st.lists(st.one_of(st.integers(-5, 5), st.text(max_size=3)), max_size=30)


@given(SYMBOLS)
def test_decoding_what_was_encoded_gives_it_back(values):
    vocabulary, codes = Vocabulary.from_values("x", values)
    assert vocabulary.decode(codes) == values
    assert np.array_equal(vocabulary.encode(values), codes)


@given(st.lists(st.text(alphabet="abc", max_size=2), max_size=20))
def test_arrays_and_lists_give_the_same(values):
    from_list = Vocabulary.from_values("x", values)
    from_array = Vocabulary.from_values("x", np.array(values, dtype=np.dtypes.StringDType()))
    assert from_list[0] == from_array[0]
    assert np.array_equal(from_list[1], from_array[1])


@given(SYMBOLS, SYMBOLS)
def test_union_keeps_the_codes_of_the_first(one, other):
    first, _ = Vocabulary.from_values("x", one)
    second, _ = Vocabulary.from_values("x", other)
    both = first.union(second)
    assert both.symbols[: len(first)] == first.symbols
    assert set(both.symbols) == set(first.symbols) | set(second.symbols)
    assert (second.recode_to(both) >= 0).all()


def test_text_and_number_are_different_symbols():
    assert Vocabulary.from_values("x", ["1", 1])[0].symbols == (1, "1")


def test_unknown_symbol_names_it_and_its_place():
    vocabulary = Vocabulary("atom", tuple("abcdefghij"))
    with pytest.raises(UnknownSymbolError, match=r"atom 'z' at position 2 .* vocabulary of 10"):
        vocabulary.encode(["a", "b", "z"])


@pytest.mark.bad_input
@pytest.mark.parametrize("symbols", [("a", "a"), (1.5,), (None,), (b"x",)])
def test_symbols_must_be_distinct_texts_or_integers(symbols):
    with pytest.raises(InputError):
        Vocabulary("x", symbols)


@pytest.mark.parametrize("codes", [[-1], [2]])
def test_codes_outside_are_refused(codes):
    with pytest.raises(InputError, match="0 to 1"):
        Vocabulary("x", ("a", "b")).decode(codes)
