"""Each metric against scikit-learn's, on arbitrary input; what is missing does not count."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics as peer
from hypothesis import assume, given, strategies as st

from hiddenfield.errors import InputError
from hiddenfield.learning.metrics import accuracy, balanced_accuracy, mae, r2, rmse, roc_auc, roc_curve

NUMBERS = st.floats(-100, 100, allow_nan=False).map(lambda value: round(value, 3))


@st.composite
def pairs(draw, values, missing=True):
    rows = draw(
        st.lists(st.tuples(values, values, st.booleans() if missing else st.just(False)), max_size=30)
    )
    truth = np.array([math.nan if gone else float(t) for t, _, gone in rows])
    return truth, np.array([float(p) for _, p, _ in rows])


@pytest.mark.parametrize(
    ("own", "theirs"),
    [(mae, peer.mean_absolute_error), (rmse, peer.root_mean_squared_error), (r2, peer.r2_score)],
    ids=["mae", "rmse", "r2"],
)
@given(pairs(NUMBERS))
def test_numbers(own, theirs, pair):
    truth, predicted = pair
    present = ~np.isnan(truth)
    if present.sum() < (2 if own is r2 else 1):
        assert math.isnan(own(truth, predicted))
    else:
        assert own(truth, predicted) == pytest.approx(
            theirs(truth[present], predicted[present]), rel=1e-9, abs=1e-9
        )


@pytest.mark.parametrize(
    ("own", "theirs"),
    [(accuracy, peer.accuracy_score), (balanced_accuracy, peer.balanced_accuracy_score)],
    ids=["accuracy", "balanced"],
)
@given(pairs(st.integers(0, 3)))
def test_classes(own, theirs, pair):
    truth, predicted = pair
    present = ~np.isnan(truth)
    if not present.any():
        assert math.isnan(own(truth, predicted))
    else:
        # scikit-learn warns of predicted classes that do not occur; the value is the same.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("warnings.warn", lambda *_, **__: None)
            expected = theirs(truth[present], predicted[present])
        assert own(truth, predicted) == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5)), min_size=2, max_size=30))
def test_area_under_the_curve(rows):
    truth, scores = np.array(rows, dtype=float).T
    assume(0 < truth.sum() < len(truth))
    expected = peer.roc_auc_score(truth, scores)
    assert roc_auc(truth, scores) == pytest.approx(expected)
    assert roc_auc(truth, np.stack([-scores, scores], axis=1)) == pytest.approx(expected)
    false, true = roc_curve(truth == 1, scores)
    assert np.trapezoid(true, false) == pytest.approx(expected)
    theirs = peer.roc_curve(truth, scores, drop_intermediate=False)
    assert np.allclose(false, theirs[0])
    assert np.allclose(true, theirs[1])


@given(st.integers(0, 10_000))
def test_area_of_several_classes(seed):
    generator = np.random.default_rng(seed)
    truth = np.concatenate([np.arange(3), generator.integers(0, 3, 20)]).astype(float)
    scores = generator.random((23, 3)).round(1) + 0.01
    scores /= scores.sum(axis=1, keepdims=True)
    assert roc_auc(truth, scores) == pytest.approx(peer.roc_auc_score(truth, scores, multi_class="ovr"))


def test_what_has_no_value_is_nan():
    assert math.isnan(roc_auc([1, 1], [0.2, 0.3]))
    assert math.isnan(r2([1.0], [1.0]))
    assert r2([2.0, 2.0], [2.0, 2.0]) == 1.0
    assert r2([2.0, 2.0], [2.0, 1.0]) == 0.0


def test_unequal_lengths_are_refused():
    with pytest.raises(InputError, match=r"got shapes \(2,\) and \(3,\)"):
        mae([1, 2], [1, 2, 3])
    with pytest.raises(InputError, match="N class codes and N rows of scores"):
        roc_auc([1, 0], [0.1])
