"""Columns: cut, joined, recoded and compared in one place, whatever feature they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import hiddenfield as hf
from hiddenfield.data import Columns, Vocabulary
from hiddenfield.errors import InputError

COLOURS = Vocabulary("colour", ("red", "green"))
SIZES = Vocabulary("size", (1, 2, 3))


def labels() -> Columns:
    return Columns.labels([(COLOURS, np.array([0, 1, 1])), (SIZES, np.array([2, 0, 0]))])


def targets() -> Columns:
    return Columns.targets(
        {"price": (np.array([1.5, np.nan]), None), "kind": (np.array([np.nan, 1.0]), COLOURS)}
    )


def test_decoded_gives_symbols_numbers_and_none():
    assert labels().decoded() == [["red", "green", "green"], [3, 1, 1]]
    assert targets().decoded() == [[1.5, None], [None, "green"]]
    assert Columns.targets({"kind": (np.array([np.nan]), Vocabulary("kind", ()))}).decoded() == [[None]]


def test_every_column_needs_a_name_and_a_vocabulary_or_none():
    with pytest.raises(InputError, match="2 columns need as many names and vocabularies, got 1 and 2"):
        Columns(torch.zeros(3, 2), ("a",), (None, None))


def test_recoding_follows_the_symbols_and_marks_those_that_are_lacking():
    recoded = labels().recoded([Vocabulary("colour", ("green", "blue")), SIZES])
    assert recoded.values.tolist() == [[-1, 2], [0, 0], [0, 0]]
    other = Vocabulary("kind", ("green", "red"))
    assert targets().recoded([None, other]).decoded() == targets().decoded()


def test_joining_keeps_the_combinations_that_occur():
    joined = labels().joined()
    assert joined.names == ("colour|size",)
    assert joined.decoded() == [["red|3", "green|1", "green|1"]]


def test_putting_end_to_end_unites_vocabularies_even_empty_ones():
    none = Columns.labels([(Vocabulary("colour", ()), np.zeros(0, np.int32))])
    one = Columns.labels([(COLOURS, np.array([1]))])
    both = Columns.concatenate([none, one])
    assert both.decoded() == [["green"]]
    assert both.vocabularies == (COLOURS,)
    assert Columns.concatenate([one, none]) == one


def test_missing_values_are_equal_and_names_count():
    assert targets() == targets()
    assert targets().take(np.array([1, 0])) != targets()
    assert Columns(targets().values, ("cost", "kind"), (None, COLOURS)) != targets()


def test_columns_bring_their_names_and_vocabularies_into_a_pack():
    weights = Columns(torch.tensor([[0.5], [1.5]]), ("weight",), (None,))
    pack = hf.data.from_edges(
        [1, 0],
        [2, 1],
        node_ptr=[0, 3],
        node_labels=labels(),
        edge_attributes=weights,
        targets=targets().take(np.array([0])),
    )
    assert pack.features["node_labels"] == labels()
    assert pack.arc_attribute_names == ("weight",)
    assert pack.arc_attributes[:, 0].tolist() == [1.5, 1.5, 0.5, 0.5]
    assert pack.target_vocabularies == (None, COLOURS)
    with pytest.raises(InputError, match="node_labels must have one entry for each of 4 nodes, got 3"):
        hf.data.from_edges([0], [1], node_ptr=[0, 4], node_labels=labels())


def test_replacing_a_part_keeps_the_others():
    pack = hf.data.from_edges([0], [1], node_ptr=[0, 3], node_labels=labels(), targets=[[1.0, 2.0]])
    assert pack.target_names == ("target_0", "target_1")
    renamed = pack.replace(target_names=("a", "b"))
    assert renamed.targets.equal(pack.targets)
    assert pack.replace(targets=None).targets is None
    assert pack.replace(node_labels=labels().joined()).node_vocabularies[0].name == "colour|size"
    with pytest.raises(InputError, match="Structures has no field 'colour'; its fields are node_ptr, "):
        pack.replace(colour=1)
    with pytest.raises(InputError, match="1 columns need as many names"):
        pack.replace(targets=pack.targets[:, :1])


def test_an_edge_attribute_that_is_not_finite_is_named_with_its_structure_and_edge():
    with pytest.raises(InputError, match=r"structure 1 \('b'\): attribute 0 of edge 1 is nan"):
        hf.data.from_edges(
            [0, 2, 3], [1, 3, 4], node_ptr=[0, 2, 5], ids=["a", "b"], edge_attributes=[1.0, 2.0, np.nan]
        )


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    rows=st.integers(0, 300),
    seed=st.integers(0, 9),
)
@settings(deadline=None, max_examples=60)
def test_distinct_rows_are_those_of_numpy(sizes, rows, seed):
    """Where few combinations are possible, and where more are possible than there are rows."""
    draw = np.random.default_rng(seed)
    values = np.stack([draw.integers(size, size=rows) for size in sizes], axis=1).astype(np.int32)
    words = tuple(Vocabulary(f"c{k}", tuple(range(size))) for k, size in enumerate(sizes))
    found, inverse = Columns(torch.from_numpy(values), tuple(word.name for word in words), words).distinct()
    expected, places = np.unique(values, axis=0, return_inverse=True)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(inverse, places.reshape(-1))
