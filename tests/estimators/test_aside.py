"""Structures that the user keeps aside choose the epoch, and teach nothing."""

from __future__ import annotations

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.errors import InputError


def fitted(y, aside, **options):
    words = hf.data.from_sequences(["AB" * (1 + k % 5) + "C" * (k % 3) for k in range(20)])
    model = hf.StructureRegressor(dim=4, epochs=4, hidden=4, random_state=0, **options)
    return model.fit(words, y, aside=aside)


def test_the_epoch_is_chosen_on_them():
    y = np.arange(20.0)
    aside = np.array([1, 5, 19])
    model = fitted(y, aside, patience=3, validation_fraction=0.0)
    assert model.validation_indices_.tolist() == [1, 5, 19]
    assert "valid_loss" in model.history_.rows[0]
    y[3] = np.nan
    assert fitted(y, aside).validation_indices_.tolist() == [1, 5, 19]


@pytest.mark.parametrize(
    ("aside", "message"),
    [([20], "from 0 to 19"), ([-1], "from 0 to 19"), ([], "0 would be"), (range(20), "20 would")],
)
def test_bad_positions(aside, message):
    with pytest.raises(InputError, match=message):
        fitted(np.arange(20.0), list(aside))
