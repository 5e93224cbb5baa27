"""Structures that the user holds out choose the epoch, and teach nothing."""

from __future__ import annotations

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.errors import InputError


def fitted(y, held_out, **options):
    words = hf.data.from_sequences(["AB" * (1 + k % 5) + "C" * (k % 3) for k in range(20)])
    model = hf.StructureRegressor(dim=4, epochs=4, hidden=4, random_state=0, **options)
    return model.fit(words, y, held_out=held_out)


def test_the_epoch_is_chosen_on_them():
    y = np.arange(20.0)
    held_out = np.array([1, 5, 19])
    model = fitted(y, held_out, patience=3, validation_fraction=0.0)
    assert model.validation_indices_.tolist() == [1, 5, 19]
    assert "valid_loss" in model.history_.rows[0]
    y[3] = np.nan
    assert fitted(y, held_out).validation_indices_.tolist() == [1, 5, 19]


@pytest.mark.parametrize(
    ("held_out", "message"),
    [([20], "from 0 to 19"), ([-1], "from 0 to 19"), ([], "0 would be"), (range(20), "20 would")],
)
def test_bad_positions(held_out, message):
    with pytest.raises(InputError, match=message):
        fitted(np.arange(20.0), list(held_out))
