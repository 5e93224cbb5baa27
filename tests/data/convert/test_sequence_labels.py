"""k-mers as labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import hiddenfield as hf
from hiddenfield.errors import InputError


@given(st.lists(st.text("ACGT", max_size=9), min_size=1, max_size=6), st.integers(2, 5))
def test_every_node_knows_its_word(texts, k):
    """Against slices of the padded text."""
    pack = hf.data.from_sequences([*texts, "ACGT"])
    found = hf.data.with_kmers(pack, k)
    before, after = (k - 1) // 2, k // 2
    padded = ["-" * before + text + "-" * after for text in [*texts, "ACGT"]]
    expected = [text[i : i + k] for text in padded for i in range(len(text) - k + 1)]
    vocabulary = found.node_vocabularies[1]
    assert vocabulary.name == f"{k}-mer"
    assert len(vocabulary) == 5**k
    assert vocabulary.decode(found.node_labels[:, 1].tolist()) == expected
    assert found.node_labels[:, :1].equal(pack.node_labels)


def test_new_sequences_have_the_same_words():
    model = hf.StructureClassifier(dim=2, epochs=1, ensemble=1, validation_fraction=0.0)
    model.fit(hf.data.with_kmers(hf.data.from_sequences(["CAT", "ATC"] * 2)), ["a", "b"] * 2)
    assert len(model.predict(hf.data.with_kmers(hf.data.from_sequences(["TACTACTA"])))) == 1


def test_symbols_of_several_letters():
    tree = hf.data.from_sequences([["Ala", "Gly", "Ala"]])
    found = hf.data.with_kmers(tree, 2)
    assert found.node_vocabularies[1].decode(found.node_labels[:, 1].tolist()) == [
        "Ala Gly",
        "Gly Ala",
        "Ala -",
    ]
    numbers = hf.data.with_kmers(hf.data.from_sequences([[10, 1]]), 2)
    assert numbers.node_vocabularies[1].decode(numbers.node_labels[:, 1].tolist()) == ["10 1", "1 -"]


def test_a_gap_of_an_alignment_is_an_end():
    found = hf.data.with_kmers(hf.data.from_sequences(["A-C"]))
    assert len(found.node_vocabularies[1]) == 27
    assert found.node_vocabularies[1].decode(found.node_labels[:, 1].tolist()) == ["-A-", "A-C", "-C-"]


@pytest.mark.bad_input
def test_what_is_refused():
    words = hf.data.from_sequences(["CAT"])
    for k in (1, 2.0, True):
        with pytest.raises(InputError, match="k must be an integer of at least 2"):
            hf.data.with_kmers(words, k)
    with pytest.raises(InputError, match="1,048,576 words of 10; more than 1,000,000"):
        hf.data.with_kmers(words, 10)
    with pytest.raises(InputError, match="these nodes have none"):
        hf.data.with_kmers(hf.data.from_edges([0], [1], node_ptr=[0, 2]))
    with pytest.raises(InputError, match="have a label '3-mer' already"):
        hf.data.with_kmers(hf.data.with_kmers(words))
    assert hf.data.with_kmers(words[:0]).total_nodes == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([0, 1, 0], [1, 2, 2]),  # a ring
        ([0, 0], [1, 2]),  # a star
        ([0], [1]),  # in two pieces
        ([], []),  # a bag
        ([0, 1, 1], [1, 2, 1]),  # a loop
        ([0, 2], [2, 1]),  # a chain in another order
    ],
)
def test_words_are_made_of_chains_alone(first, second):
    wrong = hf.data.from_edges(first, second, node_ptr=[0, 3], node_labels=["C", "A", "T"], ids=["benzene"])
    name = wrong.node_vocabularies[0].name
    chain = hf.data.from_sequences(["CAT", "A", ""], name=name, ids=["x", "y", "z"])
    with pytest.raises(InputError, match=r"and structure 3 \('benzene'\) is none: each node must be joined"):
        hf.data.with_kmers(hf.concatenate([chain, wrong]))


def test_chains_of_one_way_arcs_are_chains():
    for source, target in (([0, 1], [1, 2]), ([1, 2], [0, 1])):
        pack = hf.data.from_arcs(source, target, node_ptr=[0, 3], node_labels=["C", "A", "T"])
        found = hf.data.with_kmers(pack)
        assert found.node_vocabularies[1].decode(found.node_labels[:, 1].tolist()) == ["-CA", "CAT", "AT-"]


def test_molecules_are_refused():
    pytest.importorskip("rdkit")
    with pytest.raises(InputError, match="structure 1 is none"):
        hf.data.with_kmers(hf.data.from_smiles(["CCO", "c1ccccc1"]))


# -- positions -----------------------------------------------------------------------------------------------


def test_every_node_knows_its_place():
    words = hf.data.from_sequences(["GATTACA", "", "CAT"])
    found = hf.data.with_positions(words)
    assert found.node_labels[:, 1].tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1, 2]
    assert found.node_vocabularies[1].symbols == tuple(range(7))
    assert found.node_labels[:, :1].equal(words.node_labels)
    assert found[2].node_labels[:, 1].tolist() == [0, 1, 2]


def test_nodes_without_labels_get_one():
    bare = hf.data.from_edges([0, 1], [1, 2], node_ptr=[0, 3, 4])
    assert hf.data.with_positions(bare).node_labels[:, 0].tolist() == [0, 1, 2, 0]
    assert hf.data.with_positions(bare[:0]).total_nodes == 0


def test_a_name_that_is_taken():
    words = hf.data.with_positions(hf.data.from_sequences(["CAT"]))
    with pytest.raises(InputError, match="have a label 'position' already"):
        hf.data.with_positions(words)
    assert len(hf.data.with_positions(words, "again").node_vocabularies) == 3


def test_a_model_learns_what_stands_where():
    """The class is the symbol in the middle; all words have the same symbols, so that only its place tells."""
    generator = np.random.default_rng(0)
    texts = ["".join(generator.permutation(list("AAABBBB"))) for _ in range(200)]
    words = hf.data.from_sequences(texts, targets=[text[3] for text in texts], arc_labels="direction")
    scores = []
    for pack in (words, hf.data.with_positions(words)):
        model = hf.StructureClassifier(
            dim=8,
            hidden=8,
            rounds=1,
            epochs=20,
            ensemble=1,
            batch_size=50,
            learning_rate=0.03,
            counts=False,
            random_state=0,
        )
        scores.append(model.fit(pack[:150]).score(pack[150:]))
    assert scores[1] > 0.95 > 0.8 > scores[0]


def test_a_place_that_training_had_not(tmp_path):
    short, long = (hf.data.with_positions(hf.data.from_sequences([text] * 4)) for text in ("CAT", "CATC"))
    model = hf.StructureClassifier(dim=2, epochs=1, ensemble=1, validation_fraction=0.0).fit(
        short, ["a", "b"] * 2
    )
    with pytest.raises(hf.errors.UnknownSymbolError, match="position"):
        model.predict(long)
