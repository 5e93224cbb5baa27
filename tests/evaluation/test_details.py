"""ROC curves, training curves, ranges: against computations by hand."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hiddenfield.evaluation.assessment.details import GRID, error_ranges, mean_roc, training_curve
from hiddenfield.evaluation.records import write_json


def by_counting(truth, scores, rate):
    """Return the highest point of the curve at a false positive rate, by trying all thresholds and lines between."""
    points = [(0.0, 0.0)]
    for threshold in sorted(set(scores), reverse=True):
        chosen = scores >= threshold
        points.append((np.mean(chosen[truth == 0]), np.mean(chosen[truth == 1])))
    best = 0.0
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 - 1e-9 <= rate <= x1 + 1e-9:
            best = max(best, y1 if x1 - x0 < 1e-9 else y0 + (y1 - y0) * (rate - x0) / (x1 - x0))
    return best


@given(st.integers(0, 2**31 - 1))
def test_mean_curve_is_that_of_all_thresholds(seed):
    generator = np.random.default_rng(seed)
    truths = [
        np.array([0.0, 1.0, *generator.integers(0, 2, size=generator.integers(0, 25))]) for _ in range(3)
    ]
    scores = [generator.integers(0, 8, size=len(truth)) / 8 for truth in truths]
    found = mean_roc(truths, scores)
    table = [[by_counting(y, s, rate) for rate in GRID] for y, s in zip(truths, scores, strict=True)]
    np.testing.assert_allclose(found.true_positive, np.mean(table, axis=0), atol=1e-4)
    np.testing.assert_allclose(found.std, np.std(table, axis=0, ddof=1), atol=1e-4)
    assert np.diff(found.true_positive).min() >= -1e-9
    assert found.true_positive[-1] == 1.0


def test_folds_of_one_class_have_no_curve():
    good, alone = np.array([0.0, 1.0]), np.array([1.0, 1.0])
    found = mean_roc([good, alone], [good, alone])
    assert found.std is None
    assert found.true_positive[0] == 1.0
    assert mean_roc([alone], [alone]) is None


@pytest.mark.parametrize("epochs", [1, 199, 200, 201, 1000])
def test_long_curves_are_thinned_evenly_and_keep_their_end(epochs):
    record = {
        "steps": list(range(3, 3 * epochs + 1, 3)),
        "train_loss": [1.0 / (k + 1) for k in range(epochs)],
    }
    found = training_curve([record, record], "accuracy")
    assert found.metric == "train_loss"
    assert len(found.steps) == min(epochs, 200)
    assert (found.epochs[0], found.epochs[-1], found.steps[-1]) == (1, epochs, 3 * epochs)
    assert np.ptp(np.diff(found.epochs)) <= 1 if epochs > 1 else True


def test_what_was_not_recorded_counts_for_nothing():
    records = [
        {"steps": [2, 4], "train_loss": [1.0, None], "valid_accuracy": [None, 0.5]},
        {"steps": [4, 8], "train_loss": [3.0, None], "valid_accuracy": [None, 0.7]},
    ]
    found = training_curve(records, "accuracy")
    assert found.steps == [3, 6]
    assert found.train_loss == [2.0, None]
    assert found.valid_accuracy == [None, pytest.approx(0.6)]


def test_all_ranges_are_there():
    rows = error_ranges(np.array([0.0, 10.0]), np.array([1.0, 7.0]))
    assert [row.count for row in rows] == [1, *[0] * 8, 1]
    assert (rows[0].mae, rows[4].mae, rows[9].bias) == (1.0, None, -3.0)
    assert [row.count for row in error_ranges(np.ones(3), np.ones(3))] == [*[0] * 9, 3]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    )
)
def test_what_is_written_is_what_is_read(tmp_path_factory, content):
    file = tmp_path_factory.getbasetemp() / "any.json"
    write_json(file, content)
    assert json.loads(file.read_text(encoding="utf-8")) == content


def test_lists_of_numbers_take_one_line(tmp_path):
    write_json(tmp_path / "a.json", {"curve": [1, 2.5, None], "text": ["[", "\n] "], "rows": [{"a": [1]}]})
    lines = (tmp_path / "a.json").read_text().splitlines()
    assert ' "curve": [1, 2.5, null],' in lines
    assert '   "a": [1]' in lines
