"""Forests as arrays: the predictions of those that scikit-learn grew."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import hstack, identity, random
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from hiddenfield.learning.device import torch_threads
from hiddenfield.learning.forest import fit_forest


@pytest.mark.parametrize("classes", [None, 2, 4])
def test_predictions_are_those_of_scikit_learn(classes):
    draw = np.random.default_rng(0)
    x = random(150, 30, 0.3, random_state=0, data_rvs=lambda k: draw.integers(1, 5, k)).tocsr()
    y = draw.normal(size=150) + x[:, 0].toarray()[:, 0]
    if classes is not None:
        # The last class does not occur.
        y = draw.integers(classes - 1 if classes > 2 else 2, size=150).astype(float)
    forest, unseen = fit_forest(x[:100], y[:100], classes, trees=20, seed=3)
    if classes is None:
        rival = RandomForestRegressor(20, max_features=1 / 3, random_state=3, oob_score=True).fit(
            x[:100], y[:100]
        )
        np.testing.assert_allclose(forest.predict(x[100:]), rival.predict(x[100:]), atol=1e-5)
        np.testing.assert_array_equal(unseen, rival.oob_prediction_)
        return
    rival = RandomForestClassifier(20, max_features="sqrt", random_state=3).fit(x[:100], y[:100])
    expected = np.zeros((50, classes))
    expected[:, rival.classes_.astype(int)] = rival.predict_proba(x[100:])
    np.testing.assert_allclose(forest.predict(x[100:]), expected, atol=1e-6)
    assert unseen.shape == (100, classes)
    np.testing.assert_allclose(unseen.sum(axis=1), 1.0)


def test_trees_and_what_they_predict_are_the_same_with_any_number_of_threads(monkeypatch):
    x = random(60, 10, 0.5, random_state=0).tocsr()
    y = np.arange(60) % 3.0
    alone, unseen = fit_forest(x, y, 3, trees=8)
    monkeypatch.setattr("hiddenfield.learning.forest.WORTH_THREADS", 0)
    with torch_threads(3):
        together, others = fit_forest(x, y, 3, trees=8)
    np.testing.assert_array_equal(together.values, alone.values)
    np.testing.assert_array_equal(others, unseen)


def test_a_forest_is_judged_by_trees_that_did_not_see_a_row():
    """Labels that nothing explains are learned by heart, which the trees that did not see them do not."""
    x = random(200, 40, 0.5, random_state=1).tocsr()
    y = np.random.default_rng(1).integers(2, size=200).astype(float)
    forest, unseen = fit_forest(x, y, 2, trees=60)
    assert (forest.predict(x).argmax(1) == y).mean() > 0.95
    assert (unseen.argmax(1) == y).mean() < 0.65


@pytest.mark.parametrize("classes", [None, 2])
def test_columns_of_one_row_are_left_out(classes):
    """Column 40 is y; the others, before and behind it, have an entry in one row each."""
    y = np.arange(40) % 2.0
    x = hstack([identity(40), y[:, None], identity(40)]).tocsr()
    forest, unseen = fit_forest(x, y, classes, trees=20)
    assert set(forest.column[forest.column >= 0]) == {40}
    found = unseen if classes is None else unseen[:, 1]
    np.testing.assert_array_equal(found, y)
    np.testing.assert_array_equal(forest.predict(x) if classes is None else forest.predict(x)[:, 1], y)


def test_a_forest_of_rows_that_share_nothing_predicts_all_the_same():
    forest, _ = fit_forest(identity(10, format="csr"), np.arange(10.0), trees=5)
    assert np.isfinite(forest.predict(identity(10, format="csr"))).all()
