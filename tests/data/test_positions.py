"""Positions as labels."""

from __future__ import annotations

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.errors import InputError


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
            dim=8, hidden=8, rounds=1, epochs=20, batch_size=50, learning_rate=0.03, random_state=0
        )
        scores.append(model.fit(pack[:150]).score(pack[150:]))
    assert scores[1] > 0.95 > 0.8 > scores[0]


def test_a_place_that_training_had_not(tmp_path):
    short, long = (hf.data.with_positions(hf.data.from_sequences([text] * 4)) for text in ("CAT", "CATC"))
    model = hf.StructureClassifier(dim=2, epochs=1, validation_fraction=0.0).fit(short, ["a", "b"] * 2)
    with pytest.raises(hf.errors.UnknownSymbolError, match="position"):
        model.predict(long)
