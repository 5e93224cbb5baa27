"""The simple models: what they learn, what they must not see."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.evaluation import fit_baselines
from hiddenfield.learning import linear
from hiddenfield.learning.linear import _merge_equal_columns, fit_linear


def words(count, seed, target):
    generator = np.random.default_rng(seed)
    texts = ["".join(generator.choice(list("ABC"), size=generator.integers(2, 9))) for _ in range(count)]
    return hf.data.from_sequences(texts, targets=[target(text) for text in texts])


def test_numbers():
    def target(text):
        return 2.0 * text.count("A") - text.count("AB") + text.count("BA")

    scores = fit_baselines(words(200, 0, target), words(50, 1, target), rounds=(1, 2))
    assert [score.name for score in scores] == [
        "mean predictor",
        "labels + ridge",
        "WL-1 + ridge",
        "WL-2 + ridge",
    ]
    errors = [score.metrics["mae"] for score in scores]
    assert errors[1] < errors[0] / 2
    assert [score.parameters for score in scores][:2] == [1, 4]
    assert scores[3].parameters > scores[2].parameters > 4
    assert set(scores[0].metrics) == {"mae", "rmse", "r2"}


def test_classes_that_only_neighbours_tell():
    def target(text):
        return "yes" if "AA" in text else "no"

    train, test = words(300, 0, target), words(100, 1, target)
    scores = fit_baselines(train, test, rounds=(2,))
    assert [score.name for score in scores] == ["class frequencies", "labels + logistic", "WL-2 + logistic"]
    accuracies = [score.metrics["accuracy"] for score in scores]
    assert accuracies[2] > 0.9 > accuracies[0]
    assert scores[0].metrics["balanced_accuracy"] == 0.5
    assert scores[2].metrics["roc_auc"] > 0.9


def test_missing_targets_are_left_out_and_a_target_is_chosen_by_name():
    pack = words(60, 0, lambda text: float(len(text)))
    values = pack.targets.clone()
    values[::3] = float("nan")
    two = pack.replace(
        targets=values.repeat(1, 2) * values.new_tensor([1.0, 10.0]),
        target_names=("length", "ten"),
        target_vocabularies=(None, None),
    )
    one = fit_baselines(two[:40], two[40:], target="ten")
    present = np.flatnonzero(~values[:, 0].isnan().numpy())
    same = fit_baselines(two[present[present < 40]], two[present[present >= 40]], target="ten")
    assert [score.metrics for score in one] == [score.metrics for score in same]
    with pytest.raises(InputError, match="no target 'x'; they have: length, ten"):
        fit_baselines(two, two, target="x")


def test_test_targets_have_no_part_in_the_choice():
    train = words(60, 0, lambda text: float(text.count("A")))
    test = words(30, 1, lambda text: float(text.count("A")))
    other = test.replace(targets=test.targets * -100)
    assert [s.note for s in fit_baselines(train, test)] == [s.note for s in fit_baselines(train, other)]


def test_the_strength_is_chosen_on_the_held_out_rows_and_all_rows_are_fitted():
    generator = np.random.default_rng(0)
    x = generator.poisson(1.0, (40, 30)).astype(float)
    y = x[:, 0] + 3 * generator.normal(size=40)
    kept, held_out = np.arange(30), np.arange(30, 40)
    model = fit_linear(csr_matrix(x), y, kept, held_out)

    def ridge(rows, strength):
        centred, mean = x[rows] - x[rows].mean(axis=0), y[rows].mean()
        weights = np.linalg.solve(centred.T @ centred + strength * np.eye(30), centred.T @ (y[rows] - mean))
        return lambda new: mean + (new - x[rows].mean(axis=0)) @ weights

    losses = {
        s: np.mean((ridge(kept, s)(x[held_out]) - y[held_out]) ** 2)
        for s in (0.01, 0.1, 1, 10, 100, 1000, 10000)
    }
    assert model.strength == min(losses, key=losses.get)
    assert np.allclose(model.predict(csr_matrix(x)), ridge(np.arange(40), model.strength)(x), atol=1e-3)


@pytest.mark.parametrize("classes", [None, 3])
def test_equal_columns_are_merged_without_a_trace(classes):
    """Fitting each of several equal columns once changes neither predictions, on any rows, nor what is counted."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.preprocessing import MaxAbsScaler

    random = np.random.default_rng(0)
    few = random.poisson(0.7, size=(60, 5)).astype(float)
    table = csr_matrix(np.hstack([few, few[:, [1, 1, 3]], 2 * few[:, [4]], np.zeros((60, 2))]))
    new = csr_matrix(random.poisson(1.0, size=(9, table.shape[1])).astype(float))  # equal no longer
    merging = _merge_equal_columns(table)
    assert merging.shape == (11, 7)
    y = few @ random.normal(size=5) + random.normal(size=60)
    if classes is None:
        plain = Ridge(alpha=1.0).fit(table, y)
        expected, parameters = plain.predict(new), 12
    else:
        y = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3])).astype(float)
        scaler = MaxAbsScaler().fit(table)
        plain = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(scaler.transform(table), y)
        expected, parameters = plain.predict_proba(scaler.transform(new)), 3 * 12
    model = fit_linear(table, y, np.arange(60), np.arange(0), classes)
    assert model.parameters == parameters
    np.testing.assert_allclose(model.predict(new), expected, rtol=2e-3, atol=2e-3)


def test_columns_of_one_row_do_not_shift_the_others():
    """Large members of one class bring many columns that nothing else has; without them it is told by the others."""
    random = np.random.default_rng(0)
    y = np.arange(240) % 3 == 0
    told = np.stack([y, ~y], axis=1) * random.integers(0, 4, (240, 2)) + random.integers(0, 2, (240, 2))
    count = np.where(y, 80, 2)
    owner = np.repeat(np.arange(240), count)
    alone = csr_matrix((np.ones(len(owner)), (owner, np.arange(len(owner)))))
    features = csr_matrix(hstack([csr_matrix(told.astype(float)), alone]))
    model = fit_linear(features[:160], y[:160].astype(float), np.arange(120), np.arange(120, 160), classes=2)
    assert model.parameters == 3
    assert (model.predict(features[160:]).argmax(axis=1) == y[160:]).mean() > 0.8


def test_long_columns_that_nearly_depend_on_each_other():
    x = np.linspace(0, 1, 60)
    noise = np.random.default_rng(0).normal(size=60)
    for scale in (1e6, 1e7, 1e9):
        table = csr_matrix(np.stack([x * scale, x * scale + 1e-3 * noise, np.full(60, scale)], axis=1))
        model = fit_linear(table, x, np.arange(0, 60, 2), np.arange(1, 60, 2))
        np.testing.assert_allclose(model.predict(table), x, atol=1e-2)


def test_a_rare_class_that_the_choice_of_the_strength_misses(monkeypatch):
    monkeypatch.setattr(linear, "MOST_TO_CHOOSE_ON", 20)
    y = np.zeros(100)
    y[3] = 1.0
    model = fit_linear(csr_matrix(np.eye(100)), y, np.arange(80), np.arange(80, 100), classes=2)
    assert model.predict(csr_matrix(np.eye(100))).shape == (100, 2)


def test_what_cannot_be_compared_is_refused():
    pack = words(20, 0, lambda text: "yes" if "A" in text else "no")
    other = words(20, 0, lambda text: "ja" if "A" in text else "nein")
    with pytest.raises(InputError, match="different classes"):
        fit_baselines(pack, other)
    with pytest.raises(InputError, match="no targets"):
        fit_baselines(hf.data.from_sequences(["A"]), pack)


def test_a_model_of_fewer_rounds_has_the_first_columns_of_the_others():
    """Colours are counted once for all models; the labels are those of no round."""
    train = words(80, 0, lambda text: float(text.count("AB")))
    test = words(20, 1, lambda text: float(text.count("AB")))
    together = fit_baselines(train, test, rounds=(2, 0, 1))
    assert [score.name for score in together[1:]] == [
        "labels + ridge",
        "WL-2 + ridge",
        "WL-0 + ridge",
        "WL-1 + ridge",
    ]
    for score in together[2:]:
        (alone,) = fit_baselines(train, test, rounds=(int(score.name[3]),))[2:]
        assert alone.metrics == score.metrics
        assert alone.parameters == score.parameters
    assert together[1].metrics == together[3].metrics
    with pytest.raises(InputError, match="at least 0, got -1"):
        fit_baselines(train, test, rounds=(2, -1))


def test_many_rows_choose_the_strength_on_a_part_of_them(monkeypatch):
    from hiddenfield.learning import linear

    generator = np.random.default_rng(0)
    x = csr_matrix(generator.poisson(1.0, (400, 30)).astype(float))
    y = np.asarray(x[:, 0].todense()).ravel() + 3 * generator.normal(size=400)
    seen = []
    monkeypatch.setattr(linear, "MOST_TO_CHOOSE_ON", 100)
    monkeypatch.setattr(
        linear,
        "_choose_ridge",
        lambda features, y, kept, held_out, tolerance: seen.append((kept, held_out)) or 10.0,
    )
    model = fit_linear(x, y, np.arange(360), np.arange(360, 400))
    ((kept, held_out),) = seen
    assert (len(kept), len(held_out), model.strength) == (90, 10, 10.0)
    assert len(np.unique(kept)) == 90
    assert kept.max() < 360 <= held_out.min()
