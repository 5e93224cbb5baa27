"""Assessments: what may be seen when, what stands beside the model, and what is refused."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC

import hiddenfield as hf
from hiddenfield.errors import HiddenfieldError, InputError, ReadError, TrainingError
from hiddenfield.evaluation import Assessment, AssessmentSettings, Between, Split, assess, compare
from hiddenfield.evaluation.assessment import assessing, cells
from hiddenfield.evaluation.assessment.cells import work_together
from hiddenfield.evaluation.assessment.problem import Problem, inner_splits, outer_splits
from hiddenfield.evaluation.measuring import choose_metric

QUICK = {"dim": 4, "epochs": 2, "hidden": 4, "rounds": 1, "ensemble": 1, "counts": False}


def words(count=36, seed=0):
    """Make words, half of them with an AA in them."""
    generator = np.random.default_rng(seed)
    texts = []
    while len(texts) < count:
        text = "".join(generator.choice(list("ABC"), size=generator.integers(3, 9)))
        if ("AA" in text) == (len(texts) % 2 == 0):
            texts.append(text)
    return hf.data.from_sequences(texts, targets=["yes" if "AA" in text else "no" for text in texts])


def table(count=60, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(count, 4))
    return X, np.where(X[:, 0] + 0.5 * generator.normal(size=count) > 0, "up", "down")


def settled(found):
    """Return everything but the time."""
    return {name: value for name, value in found.as_dict().items() if name != "seconds"}


# -- what comes out ----------------------------------------------------------------------------------------


def test_classes_from_structures(tmp_path):
    settings = AssessmentSettings(folds=3, learning_curve=(0.5,), seeds=2)
    found = assess("mean_field", words(), settings=settings, parameters=QUICK, folder=tmp_path / "a")
    content = found.as_dict()
    assert {"metric", "mean", "std", "folds", "protocol", "baselines", "leakage", "seconds"} <= set(content)
    assert found.metric == "accuracy"
    assert found.mean == pytest.approx(np.mean(found.values))
    assert content["std"] == pytest.approx(np.std(found.values, ddof=1))
    assert content["interval"][0] < found.mean < content["interval"][1]
    assert [fold["value"] for fold in content["folds"]] == [
        np.mean(fold["seeds"]) for fold in content["folds"]
    ]
    assert set(content["baselines"]) == {
        "class frequencies",
        "labels + logistic",
        "WL-3 + logistic",
        "no arcs, same head",
    }
    assert all(len(entry["folds"]) == 3 for entry in content["baselines"].values())
    assert "p_value" in content["baselines"]["WL-3 + logistic"]["model_against_it"]
    assert [row["share"] for row in content["learning_curve"]] == [0.5, 1.0]
    assert content["learning_curve"][0]["train"] == 12
    assert json.loads((tmp_path / "a" / "assessment.json").read_text()) == content
    assert repr(Assessment.read(tmp_path / "a")).startswith("Assessment(accuracy 0.")
    # What a cell kept is what was reported.
    cell = json.loads((tmp_path / "a" / "cells" / "final-001-000-00-01.json").read_text())["content"]
    assert cell["metrics"]["accuracy"] == content["folds"][1]["seeds"][1]
    check_details(content, tmp_path / "a" / "cells")


def check_details(content, cells):
    """The size, the training curve and the ROC curve are those of the final cells."""
    finals = [json.loads(file.read_text())["content"] for file in sorted(cells.glob("final-*.json"))]
    assert {cell["num_parameters"] for cell in finals} == {content["num_parameters"]}
    assert content["baselines"]["class frequencies"]["num_parameters"] == 1
    assert content["baselines"]["WL-3 + logistic"]["num_parameters"] > 10
    assert 0 < content["baselines"]["no arcs, same head"]["num_parameters"] <= content["num_parameters"]
    curve = content["training_curve"]
    assert (curve["metric"], curve["epochs"], curve["runs"]) == ("valid_accuracy", [1, 2], [6, 6])
    assert curve["steps"][1] == 2 * curve["steps"][0] > 0
    for name in ("train_loss", "valid_loss", "valid_accuracy"):
        means = np.mean([cell["training"][0][name] for cell in finals], axis=0)
        np.testing.assert_allclose(curve[name], means, rtol=1e-4)
    roc = content["roc"]
    assert roc["positive"] == "yes"
    assert len(roc["false_positive"]) == len(roc["true_positive"]) == len(roc["std"]) == 101
    assert set(roc["baselines"]) == {"WL-3 + logistic", "no arcs, same head"}
    assert all(0.0 <= curve["auc"] <= 1.0 for curve in (roc, *roc["baselines"].values()))


def test_numbers_from_structures():
    pack = hf.datasets.huckel(30, seed=0)
    settings = AssessmentSettings(folds=2, metric="rmse")
    found = assess("loopy_bp", pack, pack.targets[:, 0].numpy(), settings, parameters=QUICK)
    assert found.as_dict()["task"] == "regression"
    assert found.as_dict()["metrics"]["rmse"] == pytest.approx(found.mean)
    assert found.as_dict()["metrics"]["mae"] < found.mean
    beside = found.as_dict()["baselines"]
    assert all(entry["metrics"]["rmse"] == pytest.approx(entry["mean"]) for entry in beside.values())
    ranges = found.as_dict()["ranges"]
    assert len(ranges) == 10
    assert sum(part["count"] for part in ranges) == 30
    np.testing.assert_allclose(
        np.diff([part["low"] for part in ranges]), ranges[0]["high"] - ranges[0]["low"]
    )
    assert all((part["mae"] is None) == (part["count"] == 0) for part in ranges)
    assert found.as_dict()["training_curve"]["metric"] == "valid_rmse"
    assert "roc" not in found.as_dict()
    assert set(found.as_dict()["baselines"]) == {
        "mean predictor",
        "labels + ridge",
        "WL-3 + ridge",
        "no arcs, same head",
    }


def test_the_test_part_has_no_part_in_any_choice(tmp_path):
    """Other targets of the test structures change the value, and nothing that was selected or predicted."""
    pack = words()
    y = np.array(["yes", "no"] * 18)
    test = np.arange(0, 36, 3)
    split = [Split("one", np.setdiff1d(np.arange(36), test), test)]
    settings = AssessmentSettings(
        split=split, nested=True, space={"dim": [2, 4], "rounds": [1, 2]}, seeds=2, baselines=False
    )
    changed = y.copy()
    changed[test] = np.where(y[test] == "yes", "no", "yes")
    results = []
    for name, answers in (("a", y), ("b", changed)):
        quick = {"epochs": 3, "hidden": 4, "ensemble": 2}
        found = assess("mean_field", pack, answers, settings, parameters=quick, folder=tmp_path / name)
        cells = sorted((tmp_path / name / "cells").glob("*.json"))
        results.append((found, [json.loads(cell.read_text())["content"] for cell in cells]))
    (first, cells), (second, others) = results
    assert first.as_dict()["folds"][0]["selected"] == second.as_dict()["folds"][0]["selected"]
    assert first.as_dict()["folds"][0]["epochs"] == second.as_dict()["folds"][0]["epochs"]
    assert [cell.get("predictions") for cell in cells] == [cell.get("predictions") for cell in others]
    assert first.mean == pytest.approx(1 - second.mean)


def test_selection_agrees_with_scikit_learn():
    """Nested selection of a scikit-learn estimator on features, beside GridSearchCV on the same splits."""
    from sklearn.model_selection import GridSearchCV

    X, y = table()
    space = {"n_neighbors": [1, 3, 9, 15]}
    settings = AssessmentSettings(folds=4, nested=True, space=space, inner="k_fold", inner_folds=3)
    found = assess(KNeighborsClassifier(), X, y, settings)
    problem = Problem.of(X, y)
    outer = outer_splits(problem, settings)
    for fold, split, inner in zip(
        found.as_dict()["folds"], outer, inner_splits(problem, outer, settings), strict=True
    ):
        local = [(np.searchsorted(split.train, s.train), np.searchsorted(split.train, s.test)) for s in inner]
        search = GridSearchCV(KNeighborsClassifier(), space, cv=local).fit(X[split.train], y[split.train])
        assert fold["selected"] == search.best_params_
        assert fold["value"] == search.score(X[split.test], y[split.test])
    assert found.as_dict()["protocol"]["seeds"] == 1
    assert set(found.as_dict()["baselines"]) == {"class frequencies", "features + logistic"}
    assert found.as_dict()["leakage"] is None
    assert set(found.as_dict()["roc"]["baselines"]) == {"features + logistic"}
    assert not {"num_parameters", "training_curve", "ranges"} & set(found.as_dict())


def test_random_search_and_ridge():
    X, _ = table()
    settings = AssessmentSettings(folds=3, nested=True, space={"alpha": Between(1e-3, 1e3)}, draws=4)
    found = assess(Ridge(), X, X[:, 0] * 2.0 + 0.1, settings)
    assert len(found.as_dict()["protocol"]["candidates"]) == 4
    assert found.mean < 0.1 < found.as_dict()["baselines"]["mean predictor"]["mean"]


class LengthClassifier(ClassifierMixin, BaseEstimator):
    """A stranger's estimator on structures: the majority among those of the same length."""

    def fit(self, X, y):
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.votes_ = {n: np.bincount(codes[X.num_nodes.numpy() == n]) for n in X.num_nodes.unique().tolist()}
        return self

    def predict(self, X):
        return self.classes_[[self.votes_.get(n, np.zeros(1)).argmax() for n in X.num_nodes.tolist()]]


def test_a_strangers_estimator_on_structures():
    found = assess(LengthClassifier(), words(), settings=AssessmentSettings(folds=3))
    assert found.as_dict()["model"] == "LengthClassifier"
    assert "no arcs, same head" not in found.as_dict()["baselines"]
    assert found.as_dict()["leakage"]["count"] >= 0


def test_scores_instead_of_probabilities():
    X, y = table()
    found = assess(LinearSVC(), X, y, AssessmentSettings(folds=3, metric="roc_auc"))
    assert 0.7 < found.mean <= 1


def test_accuracy_is_of_what_is_said_and_the_area_of_the_scores(tmp_path):
    """A threshold of the estimator's own, and as many scores as there are pairs of classes, beside scikit-learn."""
    from sklearn.model_selection import FixedThresholdClassifier, cross_val_score

    X, y = table(120)
    four = np.where(X[:, 1] > 0.8, "side", np.where(X[:, 2] > 0.8, "top", y))
    for number, (model, answers, metric) in enumerate(
        [
            (FixedThresholdClassifier(LogisticRegression(), threshold=0.1), y, "accuracy"),
            (FixedThresholdClassifier(LogisticRegression(), threshold=0.1), y, "balanced_accuracy"),
            (FixedThresholdClassifier(LogisticRegression(), threshold=0.1), y, "roc_auc"),
            (SVC(decision_function_shape="ovo"), four, "accuracy"),
        ]
    ):
        settings = AssessmentSettings(folds=3, metric=metric, baselines=False, seeds=1)
        splits = outer_splits(Problem.of(X, answers), settings)
        expected = cross_val_score(
            model, X, answers, scoring=metric, cv=[(split.train, split.test) for split in splits]
        )
        found = assess(model, X, answers, settings, folder=tmp_path / str(number))
        assert found.values == pytest.approx(expected.tolist())
        again = assess(model, X, answers, settings, folder=tmp_path / str(number), resume=True)
        assert settled(again) == settled(found)


def test_selection_and_a_single_split_go_by_what_is_said():
    from sklearn.model_selection import FixedThresholdClassifier

    X, y = table(200)
    model = FixedThresholdClassifier(LogisticRegression())
    settings = AssessmentSettings(
        split="hold_out", test_fraction=0.3, nested=True, space={"threshold": [0.01, 0.5]}, baselines=False
    )
    assert assess(model, X, y, settings).as_dict()["folds"][0]["selected"] == {"threshold": 0.5}
    found = assess(model.set_params(threshold=0.01), X, y, AssessmentSettings(split="hold_out"))
    assert found.as_dict()["interval"][0] <= found.mean <= found.as_dict()["interval"][1] < 0.9


class Dreamer(ClassifierMixin, BaseEstimator):
    """Says classes that there are not."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)

    def predict(self, X):
        return np.full(len(X), "sideways")


def test_a_single_split_has_an_interval_too():
    X, y = table()
    found = assess(LogisticRegression(), X, y, AssessmentSettings(split="hold_out", test_fraction=0.3))
    assert found.as_dict()["std"] is None
    assert found.as_dict()["interval"][0] <= found.mean <= found.as_dict()["interval"][1]
    assert found.as_dict()["protocol"]["interval"].startswith("bootstrap")


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_simple_models_of_a_single_split_have_intervals_and_are_compared(tmp_path, monkeypatch, task):
    pack = words(60)
    y = None if task == "classification" else pack.num_nodes.numpy() + 0.5
    given = {"settings": AssessmentSettings(split="hold_out", test_fraction=0.4), "parameters": QUICK}
    found = assess("mean_field", pack, y, **given, folder=tmp_path / "run")
    assert len(found.as_dict()["baselines"]) == 4
    for name, entry in found.as_dict()["baselines"].items():
        low, high = entry["interval"]
        assert low <= entry["mean"] <= high, name
        against = entry["model_against_it"]
        assert against["method"] == "paired bootstrap of the test structures"
        assert against["difference"] == pytest.approx(found.mean - entry["mean"])
        assert against["interval"][0] <= against["difference"] <= against["interval"][1]
        assert 0.0 < against["p_value"] <= 1.0
        if against["interval"][0] > 0 or against["interval"][1] < 0:
            assert against["verdict"] in ("better", "worse")
    if task == "regression":
        assert found.as_dict()["baselines"]["labels + ridge"]["model_against_it"]["verdict"] == "worse"
    # Cells of earlier versions, and those of very many structures, kept no predictions of simple models.
    cell = tmp_path / "run" / "cells" / "simple-000-000-00-00.json"
    assert len(json.loads(cell.read_text())["content"]["tables"]) == 3
    cell.unlink()
    monkeypatch.setattr(cells, "MOST_KEPT", 10)
    again = assess("mean_field", pack, y, **given, folder=tmp_path / "run", resume=True)
    assert "tables" not in json.loads(cell.read_text())["content"]
    assert again.as_dict()["interval"] == found.as_dict()["interval"]
    for name, entry in again.as_dict()["baselines"].items():
        assert ("model_against_it" in entry) == (name == "no arcs, same head")
        assert entry["mean"] == found.as_dict()["baselines"][name]["mean"]


def test_selection_on_the_reported_folds_is_shown_apart():
    settings = AssessmentSettings(folds=2, as_published=True, space={"dim": [2, 4]}, baselines=False)
    found = assess("mean_field", words(), settings=settings, parameters={"epochs": 4, "hidden": 4})
    published = found.as_dict()["as_published"]
    assert published["selected"]["dim"] in (2, 4)
    assert 1 <= published["epoch"] <= 4
    assert published["mean"] == pytest.approx(np.mean(published["folds"]))
    assert "too good" in published["text"]


def test_leakage_is_reported_and_what_it_is_worth():
    pack = words(20)
    pack = hf.concatenate([pack, pack[:4]])
    split = [Split("one", np.arange(12), np.arange(12, 24))]
    settings = AssessmentSettings(split=split)
    found = assess("mean_field", pack, settings=settings, parameters=QUICK)
    leakage = found.as_dict()["leakage"]
    assert leakage["folds"][0] == leakage["count"] >= 4
    assert leakage["mean_without"] is not None
    assert found.as_dict()["folds"][0]["test"] == 12


def test_missing_targets_are_left_out_and_given_positions_kept(tmp_path):
    X, y = table(20)
    y = y.astype(object)
    y[[3, 7]] = None
    file = tmp_path / "splits.json"
    file.write_text(json.dumps([{"train": list(range(10)), "test": list(range(10, 20))}]))
    found = assess(KNeighborsClassifier(), X, y, AssessmentSettings(split_file=file))
    counts = {"used": 18, "without target": 2, "tested": 10, "in no split": 0}
    assert found.as_dict()["structures"] == counts
    assert (found.as_dict()["folds"][0]["train"], found.as_dict()["folds"][0]["test"]) == (8, 10)
    model = KNeighborsClassifier().fit(np.delete(X[:10], [3, 7], axis=0), list(np.delete(y[:10], [3, 7])))
    assert found.mean == np.mean(model.predict(X[10:]) == y[10:])


def test_structures_that_no_split_contains_are_counted():
    X, y = table(20)
    split = [Split("one", np.arange(10), np.arange(10, 13)), Split("two", np.arange(8), np.arange(10, 15))]
    found = assess(KNeighborsClassifier(), X, y, AssessmentSettings(split=split, baselines=False))
    assert found.as_dict()["structures"] == {"used": 20, "without target": 0, "tested": 5, "in no split": 5}


def test_features_that_are_not_finite_numbers():
    """Estimators that take them are assessed, without a linear baseline, and the protocol says so."""
    pandas = pytest.importorskip("pandas")
    from scipy.sparse import coo_matrix
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    X, y = table()
    holes = X.copy()
    holes[3, 2] = np.nan
    frame = pandas.DataFrame({"a": X[:, 0], "b": np.array(list("xyz"))[np.arange(60) % 3]})
    encoded = make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough")
    settings = AssessmentSettings(folds=3)
    for model, given in (
        (HistGradientBoostingClassifier(max_iter=3), holes),
        (make_pipeline(encoded, LogisticRegression()), frame),
    ):
        found = assess(model, given, y, settings)
        assert set(found.as_dict()["baselines"]) == {"class frequencies"}
        assert "no linear baseline" in found.as_dict()["protocol"]["text"]
        assert "not all features are finite numbers" in found.as_dict()["protocol"]["note"]
    results = [assess(LogisticRegression(), given, y, settings) for given in (X, coo_matrix(X))]
    assert results[0].values == pytest.approx(results[1].values)
    assert results[0].as_dict()["baselines"] == results[1].as_dict()["baselines"]
    assert "note" not in results[1].as_dict()["protocol"]


def test_the_protocol_says_only_what_was_done():
    from sklearn.ensemble import GradientBoostingClassifier

    def words_for(estimator=None, parameters=None, **changes):
        given = (estimator, *table()) if parameters is None else ("mean_field", words(12))
        options = {"folds": 2, "baselines": False} | changes
        found = assess(*given, settings=AssessmentSettings(**options), parameters=parameters)
        return found.as_dict()["protocol"]["text"]

    # An epoch is chosen by our networks, if something is held out, and not by whatever has the same parameter.
    assert "epoch" not in words_for(GradientBoostingClassifier(n_estimators=3))
    assert "epoch chosen on a share of the training part" in words_for(parameters=QUICK)
    assert "epoch" not in words_for(parameters=QUICK | {"validation_fraction": 0.0})
    told = words_for(parameters=QUICK, nested=True, space={"dim": [4]}, inner_fraction=0.2)
    assert "nothing to select from; epoch chosen on the inner validation part (inner hold-out of 20%)" in told
    nested = {"nested": True, "space": {"C": [0.1, 1.0]}}
    assert "2 candidates, selected by accuracy on" in words_for(LogisticRegression(), draws=9, **nested)
    assert "1 candidate drawn at random, nothing" in words_for(LogisticRegression(), draws=1, **nested)
    assert "1 candidate, nothing to select from;" in words_for(LogisticRegression(), nested=True)
    nested["space"] = {"C": Between(0.1, 1.0)}
    assert "2 candidates drawn at random, selected" in words_for(LogisticRegression(), draws=2, **nested)


def test_splitters_of_scikit_learn_see_the_answered_entries():
    """With some targets missing they stratify and group as without."""
    from sklearn.model_selection import GroupKFold, StratifiedKFold

    y = np.array(["a"] * 81 + ["b"] * 20, dtype=object)
    y[0] = None
    groups = np.arange(101) % 7
    problem = Problem.of(np.zeros((101, 1)), y)
    settings = AssessmentSettings(split=StratifiedKFold(5, shuffle=True, random_state=0))
    found = outer_splits(problem, settings)
    assert [int(problem.truth[split.test].sum()) for split in found] == [4] * 5
    expected = settings.split.split(np.zeros((100, 1)), y[1:])
    assert [split.test.tolist() for split in found] == [test.tolist() for _, test in expected]
    for split in outer_splits(problem, AssessmentSettings(split=GroupKFold(3), groups=groups)):
        assert not set(groups[problem.positions][split.train]) & set(groups[problem.positions][split.test])


def test_a_missing_group_is_told_by_its_row():
    y = np.array([None, "a", "b", "a", "b"], dtype=object)
    for groups in (["", "x", "x", None, "y"], ["", "x", "x", float("nan"), "y"]):
        settings = AssessmentSettings(split="leave_one_group_out", groups=groups)
        with pytest.raises(InputError, match=r"the group of 1 structure is missing \(row 3\); fill it in"):
            outer_splits(Problem.of(np.zeros((5, 1)), y), settings)


def test_given_positions_count_the_rows_of_the_file(tmp_path):
    """Rows that a reader left out shift nothing."""
    rows = np.array([0, 1, 3, 4, 6, 7])  # 2 and 5 could not be read, and the target of row 4 is missing
    pack = hf.data.from_sequences(list("ABCDEF"), targets=["x", "y", "x", None, "y", "x"])
    pack = pack.replace(columns={"row in file": rows})
    file = tmp_path / "splits.json"
    given = AssessmentSettings(split_file=file)
    file.write_text('[{"train": [0, 1, 2, 3, 4], "test": [5, 6, 7]}]')
    (split,) = outer_splits(Problem.of(pack), given)
    kept = np.array([0, 1, 3, 6, 7])
    assert (kept[split.train].tolist(), kept[split.test].tolist()) == ([0, 1, 3], [6, 7])
    assert len(outer_splits(Problem.of(pack), AssessmentSettings(folds=2))) == 2
    listed = [Split("one", np.array([0, 1, 3]), np.array([2, 4, 5]))]  # of the structures themselves
    (split,) = outer_splits(Problem.of(pack), AssessmentSettings(split=listed))
    assert (split.train.tolist(), split.test.tolist()) == ([0, 1], [2, 3, 4])
    with pytest.raises(InputError, match="must hold different whole numbers"):
        outer_splits(Problem.of(pack.replace(columns={"row in file": rows * 0})), given)
    file.write_text('[{"train": [0, 1], "test": [6, 8]}]')
    with pytest.raises(InputError, match=r"names structure 8, .* of which some were left out"):
        outer_splits(Problem.of(pack), given)


def test_comparison_of_two_models():
    X, y = table()
    settings = AssessmentSettings(folds=5)
    good = assess(LogisticRegression(), X, y, settings)
    poor = assess(KNeighborsClassifier(n_neighbors=40), X[:, ::-1] * 0.0 + X, y, settings)
    found = compare(good, poor)
    assert found.difference == pytest.approx(good.mean - poor.mean)
    other = assess(LogisticRegression(), X, y, AssessmentSettings(folds=4))
    with pytest.raises(InputError, match="cannot be compared: splits"):
        compare(good, other)


# -- parallel and on disk ----------------------------------------------------------------------------------


def test_networks_side_by_side_are_assessed_as_one_by_one(tmp_path, monkeypatch):
    settings = AssessmentSettings(
        folds=2,
        nested=True,
        as_published=True,
        space={"dim": [4, 6], "rounds": [1, 2]},
        seeds=2,
        learning_curve=(0.5,),
    )
    options = {
        "epochs": 4,
        "hidden": 5,
        "batch_size": 8,
        "monitor": "accuracy",
        "ensemble": 1,
        "counts": False,
    }
    alone = assess("loopy_bp", words(), settings=settings, parameters=options, folder=tmp_path / "alone")
    groups = []

    def together(context, cells):
        groups.append(len(cells))
        yield from work_together(context, cells)

    monkeypatch.setattr(assessing, "_side_by_side", lambda context: True)
    monkeypatch.setattr(assessing, "work_together", together)
    found = assess("loopy_bp", words(), settings=settings, parameters=options, folder=tmp_path / "together")
    # The selection (2 folds, 2 widths, 2 numbers of rounds), the reported folds (the same), the final fits, the same
    # without arcs, and half the structures.
    assert groups == [8, 8, 4, 4, 2]
    assert [fold["selected"] for fold in found.as_dict()["folds"]] == [
        fold["selected"] for fold in alone.as_dict()["folds"]
    ]
    assert np.allclose(found.values, alone.values, atol=1e-6)
    assert found.as_dict()["as_published"] == alone.as_dict()["as_published"]
    for name, entry in alone.as_dict()["baselines"].items():
        assert np.isclose(found.as_dict()["baselines"][name]["mean"], entry["mean"]), name


def test_one_failure_side_by_side_loses_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(assessing, "_side_by_side", lambda context: True)
    plain = cells._final

    def failing(context, cell, model):
        if cell.fold == 1:
            raise TrainingError("the loss is no longer finite")
        return plain(context, cell, model)

    monkeypatch.setitem(cells.KINDS, "final", cells.Kind(cells._fit_final, failing, cells.FinalResult))
    given = {
        "settings": AssessmentSettings(folds=3, baselines=False),
        "parameters": QUICK,
        "folder": tmp_path / "run",
    }
    with pytest.raises(TrainingError, match="no longer finite"):
        assess("mean_field", words(16), **given)
    assert len(list((tmp_path / "run" / "cells").glob("final-*.json"))) == 2
    monkeypatch.undo()
    assert len(assess("mean_field", words(16), **given, resume=True).values) == 3


@pytest.mark.parametrize(
    ("device", "own", "expected"), [(None, "auto", True), ("cpu", "auto", False), (None, "cpu", False)]
)
def test_side_by_side_wherever_the_gpu_computes(monkeypatch, device, own, expected):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    problem = Problem.of(words(8), None)
    context = cells.Context(
        problem,
        hf.StructureClassifier(device=own),
        choose_metric(None, "classification"),
        (),
        (),
        device=device,
    )
    assert assessing._side_by_side(context) == expected


@pytest.mark.parametrize("parent", [7, 8])
def test_a_worker_ends_with_its_owner_even_if_that_is_gone_before(monkeypatch, parent):
    ended, started = [], []
    monkeypatch.setattr(assessing.os, "getppid", lambda: parent)
    monkeypatch.setattr(assessing.os, "_exit", ended.append)
    monkeypatch.setattr(assessing.threading.Thread, "start", lambda thread: started.append(thread))
    assessing._end_with.cache_clear()
    assessing._end_with(7)
    assessing._end_with.cache_clear()
    assert ended == ([] if parent == 7 else [1])
    assert started or parent != 7


def test_cells_that_were_lost_change_nothing(tmp_path):
    settings = AssessmentSettings(folds=2, seeds=2)
    given = {"settings": settings, "parameters": QUICK | {"patience": 1}, "folder": tmp_path / "run"}
    whole = settled(assess("mean_field", words(16), **given))
    lost = sorted((tmp_path / "run" / "cells").glob("*.json"))[::2]
    for file in lost:
        file.unlink()
    assert settled(assess("mean_field", words(16), **given, resume=True)) == whole
    assert all(file.exists() for file in lost)


def test_a_damaged_cell_is_computed_again(tmp_path):
    X, y = table()
    settings = AssessmentSettings(folds=3)
    first = settled(assess(LogisticRegression(), X, y, settings, folder=tmp_path / "run"))
    for number, text in enumerate(['{"checksum": "0", "content": {"metrics": {}}}', "{ half"]):
        (tmp_path / "run" / "cells" / f"final-00{number}-000-00-00.json").write_text(text)
    with pytest.warns(UserWarning, match="is damaged"):
        again = settled(assess(LogisticRegression(), X, y, settings, folder=tmp_path / "run", resume=True))
    assert again == first


def test_a_folder_belongs_to_one_plan(tmp_path):
    X, y = table()
    run = tmp_path / "run"
    settings = AssessmentSettings(folds=3)
    assess(LogisticRegression(), X, y, settings, folder=run)
    with pytest.raises(InputError, match="is not empty"):
        assess(LogisticRegression(), X, y, settings, folder=run)
    for change, message in [
        (
            lambda: assess(LogisticRegression(C=7.0), X, y, settings, folder=run, resume=True),
            "with parameters",
        ),
        (lambda: assess(LogisticRegression(), -X, y, settings, folder=run, resume=True), "with data"),
        (
            lambda: assess(LogisticRegression(), X, y, AssessmentSettings(folds=4), folder=run, resume=True),
            "with splits",
        ),
    ]:
        with pytest.raises(InputError, match=message):
            change()
    (run / "plan.json").write_text("{")
    with pytest.raises(ReadError, match="is not the plan of an assessment"):
        assess(LogisticRegression(), X, y, settings, folder=run, resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        assess(LogisticRegression(), X, y, settings, folder=tmp_path / "file")


def test_functions_are_told_by_name_and_code(tmp_path):
    """Where one lies in memory is no part of the plan; what it does is."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    X, y = table()
    settings = AssessmentSettings(folds=3, baselines=False)

    def run(function, **options):
        model = make_pipeline(FunctionTransformer(function), LogisticRegression())
        return settled(assess(model, X, y, settings, folder=tmp_path / "run", **options))

    def same(factor):
        return lambda table: table * factor

    first = run(same(1.0))
    assert run(same(1.0), resume=True) == first
    for other in (same(2.0), lambda table: table + 3.0):
        with pytest.raises(InputError, match="with parameters"):
            run(other, resume=True)
    assert "0x" not in (tmp_path / "run" / "plan.json").read_text()


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({"y": ["up"] * 60}, {}, "all 60 structures are of one class of 'target', 'up'"),
        ({"y": None}, {}, "there is nothing to predict"),
        ({"y": [None] * 60}, {}, "is missing for every structure"),
        ({"y": ["up"] * 59}, {}, "X has 60 entries and y has 59"),
        ({"y": np.zeros((60, 2))}, {}, "of one target, but there are 2"),
        ({}, {"metric": "f1"}, "unknown metric of a classification 'f1'; choose from: accuracy"),
        ({}, {"metric": "mae"}, "unknown metric of a classification 'mae'"),
        ({}, {"folds": 31}, "the rarest has"),
        ({}, {"task": "ranking"}, "unknown task 'ranking'"),
        ({}, {"inner": "loo"}, "unknown inner split 'loo'"),
        ({}, {"seeds": 0}, "seeds must be at least 1"),
        ({}, {"jobs": 0}, "at least one job"),
        ({}, {"space": {"C": [1]}}, "need a nested assessment"),
        ({}, {"nested": True, "space": {"D": [1]}}, "has no parameter 'D'"),
        (
            {},
            {"nested": True, "space": {"C": [1, 2]}, "inner": "k_fold", "inner_folds": 40},
            "inner selection of fold 1",
        ),
        ({}, {"learning_curve": (1.5,)}, "between 0 and 1, got 1.5"),
        (
            {},
            {"learning_curve": (0.5, 0.02)},
            "a share of 0.02 of the 40 training structures of fold 1 is 1, all of one class; ask for a larger share",
        ),
        ({}, {"groups": "family"}, "no column 'family'"),
        ({}, {"split": "leave_one_group_out", "groups": [1, 2]}, "60 structures, but 2 groups"),
        (
            {
                "estimator": hf.StructureClassifier(dim=2, hidden=2, epochs=1),
                "X": ["AB", "BA", "AA"] * 20,
                "y": [1, 0, 1] * 20,
            },
            {
                "as_published": True,
                "space": {"rounds": [1]},
                "metric": "balanced_accuracy",
                "baselines": False,
            },
            "needs balanced_accuracy after every epoch",
        ),
        ({"estimator": Ridge()}, {}, "does not fit the target"),
        ({"estimator": "loopy_pb"}, {}, "did you mean 'loopy_bp'"),
        ({"estimator": 3}, {}, "expected an estimator"),
        ({"estimator": Dreamer()}, {}, "Dreamer predicted 'sideways', which is no class of the target"),
        ({"parameters": {"C": 3}}, {}, "parameters are for a model that is named"),
    ],
)
def test_refused(change, settings, message):
    X, y = table()
    given = {"estimator": LogisticRegression(), "X": X, "y": y} | change
    with pytest.raises(HiddenfieldError, match=re.escape(message)):
        assess(**given, settings=AssessmentSettings(**{"folds": 3} | settings))


def test_what_has_no_epochs_is_selected_on_the_reported_folds_too():
    X, y = table()
    space = {"C": [1e-6, 1.0, 100.0]}
    found = assess(
        LogisticRegression(),
        X,
        y,
        AssessmentSettings(folds=3, as_published=True, space=space, baselines=False),
    ).as_published
    means = {
        C: assess(LogisticRegression(C=C), X, y, AssessmentSettings(folds=3, baselines=False)).mean
        for C in space["C"]
    }
    assert found.mean == max(means.values()) == means[found.selected["C"]]
    assert min(means.values()) < found.mean
    assert found.epoch is None
    assert "epoch" not in found.text


def test_a_metric_that_the_test_part_cannot_tell():
    X, y = table(20)
    train, test = np.flatnonzero(np.arange(20) % 5), np.flatnonzero(y == "up")[:2]
    split = [Split("one", np.setdiff1d(train, test), test)]
    with pytest.raises(InputError, match="roc_auc is undefined on the 2 structures"):
        assess(LogisticRegression(), X, y, AssessmentSettings(split=split, metric="roc_auc", baselines=False))


def test_what_is_not_an_assessment(tmp_path):
    (tmp_path / "x.json").write_text('{"mean": 1}')
    with pytest.raises(ReadError, match="is not a finished assessment"):
        Assessment.read(tmp_path / "x.json")
