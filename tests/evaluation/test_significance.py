"""Intervals and the corrected test, against simulation and the usual test."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.evaluation import Between, Split, confidence_interval, corrected_t_test, find_leakage
from hiddenfield.evaluation.assessment.settings import grid, sample
from hiddenfield.evaluation.significance import comparison_record


def test_without_overlap_it_is_the_usual_test():
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=12), generator.normal(0.5, size=12)
    found, usual = corrected_t_test(first.tolist(), second.tolist(), 0.0), stats.ttest_rel(first, second)
    assert found.statistic == pytest.approx(usual.statistic)
    assert found.p_value == pytest.approx(usual.pvalue)
    interval = usual.confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_the_correction_widens():
    values = [0.8, 0.82, 0.79, 0.85]
    narrow, wide = confidence_interval(values, 0.0), confidence_interval(values, 1 / 3)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    ratio = (wide[1] - wide[0]) / (narrow[1] - narrow[0])
    assert ratio == pytest.approx(math.sqrt((1 / 4 + 1 / 3) / (1 / 4)))


def test_the_test_keeps_its_level_where_the_usual_one_does_not():
    """Repeated hold-out of one noisy sample: the values share their data, and nothing differs in truth."""
    generator, corrected, usual = np.random.default_rng(1), 0, 0
    for _ in range(300):
        noise = generator.normal(size=60)
        parts = [generator.permutation(60)[:12] for _ in range(10)]
        values = [float(noise[part].mean()) for part in parts]
        zero = [0.0] * 10
        corrected += corrected_t_test(values, zero, 12 / 48).p_value < 0.05
        usual += stats.ttest_1samp(values, 0.0).pvalue < 0.05
    assert corrected / 300 < 0.1 < usual / 300


def test_special_cases():
    assert corrected_t_test([0.5, 0.5], [0.5, 0.5], 0.1).p_value == 1.0
    assert corrected_t_test([0.5, 0.6], [0.5, 0.6], 0.1).p_value == 1.0
    for first, second in (
        ([0.75, 0.75], [0.5, 0.5]),
        ([0.9, 0.9, 0.9], [0.8, 0.8, 0.8]),
        ([0.8, 0.6], [0.7, 0.5]),
    ):
        found = corrected_t_test(first, second, 0.1)
        assert found.difference == pytest.approx(first[0] - second[0])
        assert math.isnan(found.p_value), first
        told = comparison_record(found, "accuracy").as_dict()
        assert (told["p_value"], told["interval"], told["verdict"]) == (None, None, "not told apart")
    same = comparison_record(corrected_t_test([0.5, 0.6], [0.5, 0.6], 0.1), "accuracy").as_dict()
    assert (same["difference"], same["p_value"], same["verdict"]) == (0.0, 1.0, "not told apart")
    assert math.isnan(confidence_interval([0.5], 0.1)[0])
    assert math.isnan(corrected_t_test([0.5, math.nan], [0.1, 0.2], 0.1).p_value)
    with pytest.raises(InputError, match="fold by fold"):
        corrected_t_test([0.5], [0.5, 0.5], 0.1)
    with pytest.raises(InputError, match="one fold is not enough"):
        corrected_t_test([0.5], [0.4], 0.1)


# -- search ------------------------------------------------------------------------------------------------


def test_draws_are_different_repeatable_and_in_range():
    space = {
        "dim": Between(4, 16),
        "rate": Between(1e-4, 1e-1),
        "shift": Between(-1.0, 1.0),
        "model": ["a", "b"],
    }
    drawn = sample(space, 20, seed=3)
    assert drawn == sample(space, 20, seed=3)
    assert len({repr(entry) for entry in drawn}) == 20
    assert all(isinstance(entry["dim"], int) and 4 <= entry["dim"] <= 16 for entry in drawn)
    assert np.median([entry["rate"] for entry in drawn]) < 0.02
    assert any(entry["shift"] < 0 for entry in drawn)
    assert len(sample({"dim": [1, 2], "rounds": 3}, 9, seed=0)) == 2
    assert grid({}) == [{}]


@pytest.mark.parametrize("text", ["3", "a..b", "5..2", "1..inf"])
def test_bad_ranges(text):
    with pytest.raises(InputError, match="range"):
        Between.parse(text)


def test_bad_spaces():
    with pytest.raises(InputError, match="use a random search"):
        grid({"dim": Between(1, 2)})
    with pytest.raises(InputError, match="is empty"):
        grid({"dim": []})
    with pytest.raises(InputError, match="at least 1 draw"):
        sample({"dim": [1]}, 0, seed=0)


# -- leakage -----------------------------------------------------------------------------------------------


def test_copies_are_reported_by_id_and_contradictions_counted():
    words = hf.data.from_sequences(["GAT", "TAG", "CAT", "GAT", "CC"], ids=list("abcde"))
    splits = [
        Split("fold 1", np.array([0, 2, 4]), np.array([1, 3])),
        Split("fold 2", np.array([1, 3]), np.array([0, 2, 4])),
    ]
    found, leaked = find_leakage(words, splits, y=[0, 1, 0, 0, 0])
    assert [part.sum() for part in leaked] == found.folds
    assert found.as_dict() == {
        "count": 3,
        "share": 0.6,
        "contradicting": 1,
        "folds": [2, 1],
        "ids": [["b", "a"], ["d", "a"], ["a", "b"]],
        "mean_without": None,
    }
    assert len(words) == 5  # nothing was dropped
