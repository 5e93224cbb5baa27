"""Sequences to chains and back, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import hiddenfield as hf
from hiddenfield.data import from_sequences, to_sequences
from hiddenfield.errors import InputError, UnknownSymbolError

strings = st.lists(st.text(max_size=12), max_size=8)
symbols = st.one_of(st.text(max_size=3), st.integers(-(2**40), 2**40))
tokens = st.lists(st.lists(symbols, max_size=8), max_size=8)


def arcs_by_loop(lengths: list[int]) -> list[tuple[int, int, str]]:
    """Return (target, source, direction) of every arc, sorted, the plain way."""
    arcs, first = [], 0
    for length in lengths:
        for node in range(first, first + length - 1):
            arcs += [(node + 1, node, "next"), (node, node + 1, "previous")]
        first += length
    return sorted(arcs)


@given(strings)
def test_strings_come_back(sequences: list[str]) -> None:
    assert to_sequences(from_sequences(sequences)) == sequences


@given(tokens)
def test_lists_come_back(sequences: list[list[str | int]]) -> None:
    pack = from_sequences(sequences)
    back = to_sequences(pack)
    assert [list(sequence) for sequence in back] == sequences
    assert pack.num_nodes.tolist() == [len(sequence) for sequence in sequences]


@given(strings)
def test_arcs_are_those_of_a_chain(sequences: list[str]) -> None:
    pack = from_sequences(sequences, arc_labels="direction")
    direction = pack.arc_vocabularies[0].decode(pack.arc_labels[:, 0].numpy())
    arcs = list(zip(pack.target.tolist(), pack.source.tolist(), direction, strict=True))
    assert arcs == arcs_by_loop([len(sequence) for sequence in sequences])
    assert pack.symmetric
    assert pack.source[pack.reverse.long()].tolist() == pack.target.tolist()


@given(strings, st.data())
def test_cutting_commutes_with_building(sequences: list[str], data: st.DataObject) -> None:
    index = data.draw(st.lists(st.integers(0, max(len(sequences) - 1, 0)), max_size=6 if sequences else 0))
    assert to_sequences(from_sequences(sequences)[index]) == [sequences[k] for k in index]


@given(st.lists(st.lists(st.integers(-5, 5), max_size=6), min_size=1, max_size=5))
def test_arrays_of_integers_equal_lists(sequences: list[list[int]]) -> None:
    arrays = [np.array(sequence, dtype=np.int16) for sequence in sequences]
    assert from_sequences(arrays) == from_sequences(sequences)


def test_strings_and_lists_mix() -> None:
    assert to_sequences(from_sequences(["ab", ["a", "long"]])) == [["a", "b"], ["a", "long"]]


def test_characters_beyond_sixteen_bits() -> None:
    pack = from_sequences(["a😀é", "é"])
    assert pack.node_vocabularies[0].symbols == ("a", "é", "😀")
    assert to_sequences(pack) == ["a😀é", "é"]


def test_nothing_at_all() -> None:
    pack = from_sequences([])
    assert len(pack) == 0
    assert to_sequences(pack) == []
    assert to_sequences(from_sequences(["", ""])) == ["", ""]


def test_targets_ids_and_columns_travel() -> None:
    pack = from_sequences(
        ["ab", "b"],
        name="letter",
        targets=["yes", None],
        target_names=["known"],
        ids=["p", "q"],
        columns={"w": [1, 2]},
    )
    assert pack.node_vocabularies[0].name == "letter"
    assert pack.target_names == ("known",)
    assert pack.ids.tolist() == ["p", "q"]
    assert pack.columns["w"].tolist() == [1, 2]


def test_a_given_vocabulary_gives_its_codes() -> None:
    vocabulary = hf.Vocabulary("base", ("T", "G", "C", "A"))
    pack = from_sequences(["GAT"], vocabulary=vocabulary)
    assert pack.node_labels[:, 0].tolist() == [1, 3, 0]
    assert pack.node_vocabularies == (vocabulary,)


def test_an_unknown_symbol_is_named_with_its_place() -> None:
    vocabulary = hf.Vocabulary("base", ("A", "C", "G", "T"))
    with pytest.raises(UnknownSymbolError, match=r"structure 2 \('c'\): base 'N' of node 3 is not"):
        from_sequences(["A", "", "ACGNN"], vocabulary=vocabulary, ids=["a", "b", "c"])


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ("GATTACA", "expected a list of sequences, got 'GATTACA'"),
        (7, "expected a list of sequences"),
        (["A", None], "structure 1: a sequence must be a string or a list"),
        ([np.zeros((2, 2), dtype=int)], "structure 0: a sequence must be"),
        (
            [["a"], ["b", 0.5]],
            "structure 1: the symbol at position 1 must be a string or an integer",
        ),
        ([["a", None]], "structure 0: the symbol at position 1"),
    ],
)
def test_what_is_no_list_of_sequences_is_refused(sequences: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_sequences(sequences)


def test_an_unknown_kind_of_arc_label_is_refused() -> None:
    with pytest.raises(InputError, match="'direction' or None, got 'position'"):
        from_sequences(["AB"], arc_labels="position")


@pytest.mark.parametrize(
    ("arcs", "wrong"),
    [
        ([(0, 1), (1, 0), (1, 2), (2, 1), (3, 4)], 1),  # one way only
        ([(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2), (3, 4), (4, 3)], 0),  # a cycle
        ([(0, 2), (2, 0), (1, 2), (2, 1), (3, 4), (4, 3)], 0),  # a chain that is numbered otherwise
        ([(0, 1), (1, 0), (3, 4), (4, 3)], 0),  # not connected
        ([(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3), (5, 5)], 2),  # a loop on a single node
    ],
)
def test_what_is_no_chain_is_named(arcs: list[tuple[int, int]], wrong: int) -> None:
    source, target = zip(*arcs, strict=True)
    pack = hf.Structures.from_arcs(
        source, target, node_ptr=[0, 3, 5, 6], node_labels=["a"] * 6, ids=["p", "q", "r"]
    )
    with pytest.raises(InputError, match=rf"structure {wrong} \('{'pqr'[wrong]}'\) is not a chain"):
        to_sequences(pack)


def test_only_one_label_column_can_be_a_sequence() -> None:
    labels = {"x": ["a"], "y": ["b"]}
    pack = hf.Structures.from_arcs([], [], node_ptr=[0, 1], node_labels=labels)
    with pytest.raises(InputError, match="have 2; join several with single_labels"):
        to_sequences(pack)
    assert to_sequences(pack.single_labels()) == [["a|b"]]
