"""Forests as arrays: the predictions of those that scikit-learn grew."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import random
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from hiddenfield.learning.forest import fit_forest


@pytest.mark.parametrize("classes", [None, 2, 4])
def test_predictions_are_those_of_scikit_learn(classes):
    draw = np.random.default_rng(0)
    x = random(150, 30, 0.3, random_state=0, data_rvs=lambda k: draw.integers(1, 5, k)).tocsr()
    y = draw.normal(size=150) + x[:, 0].toarray()[:, 0]
    if classes is not None:
        # The last class does not occur.
        y = draw.integers(classes - 1 if classes > 2 else 2, size=150).astype(float)
    forest = fit_forest(x[:100], y[:100], classes, trees=20, seed=3)
    if classes is None:
        rival = RandomForestRegressor(20, max_features=1 / 3, random_state=3).fit(x[:100], y[:100])
        np.testing.assert_allclose(forest.predict(x[100:]), rival.predict(x[100:]), atol=1e-5)
        return
    rival = RandomForestClassifier(20, max_features="sqrt", random_state=3).fit(x[:100], y[:100])
    expected = np.zeros((50, classes))
    expected[:, rival.classes_.astype(int)] = rival.predict_proba(x[100:])
    np.testing.assert_allclose(forest.predict(x[100:]), expected, atol=1e-6)
