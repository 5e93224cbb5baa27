"""All of scikit-learn's checks that apply, and its meta-estimators in our company."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

import hiddenfield as hf
from hiddenfield.data import from_edges
from hiddenfield.errors import InputError, SkippedInputWarning

TINY = {"dim": 4, "hidden": 4, "epochs": 2, "ensemble": 1, "random_state": 0, "device": "cpu"}


class OnRows:
    """Rows of numbers as bags of nodes, one for each column, so that scikit-learn's checks have an X to give.

    Nothing else differs from the estimators themselves: parameters, fitting, targets, weights, prediction.
    """

    def _pack(self, X):
        if isinstance(X, hf.Structures):
            return X
        rows, columns = X.shape
        none = np.zeros(0, dtype=np.int64)
        return from_edges(
            none,
            none,
            node_ptr=np.arange(rows + 1) * columns,
            node_labels=np.tile(np.arange(columns), rows)[:, None],
            node_attributes=X.reshape(-1, 1).astype(np.float64),
        )

    def _begin(self, X, y, held_out, sample_weight=None):
        X, y = validate_data(self, X, y, multi_output=True)
        if isinstance(self, hf.StructureClassifier):
            check_classification_targets(y)
        return super()._begin(self._pack(X), y, held_out, sample_weight)

    def _encoded(self, X):
        check_is_fitted(self, "networks_")
        X = X if isinstance(X, hf.Structures) else validate_data(self, X, reset=False)
        return super()._encoded(self._pack(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = True, False
        tags.no_validation, tags.target_tags.required = False, True
        return tags


class Scored(OnRows):
    def score(self, X, y, sample_weight=None):
        return super().score(self._pack(validate_data(self, X, reset=False)), y, sample_weight)


@dataclass(kw_only=True, eq=False, repr=False)
class Classifier(Scored, hf.StructureClassifier):
    pass


@dataclass(kw_only=True, eq=False, repr=False)
class Regressor(Scored, hf.StructureRegressor):
    pass


@dataclass(kw_only=True, eq=False, repr=False)
class Encoder(OnRows, hf.StructureEncoder):
    pass


# The checks that do not apply, and why.
NOT_OURS = {
    "check_sample_weight_equivalence_on_dense_data": "batches are drawn from the structures, so that a weight of 2 is "
    "twice the loss and not two structures",
    "check_classifier_multioutput": "classes_ and predict_proba are lists with an entry for each target, as those of "
    "scikit-learn's forests, and the check wants arrays where there is a decision_function",
}


@pytest.mark.parametrize("cls", [Classifier, Regressor, Encoder])
def test_all_of_scikit_learns_checks_that_apply(cls):
    import jaxtyping

    # Trained enough for the checks that ask for a score.
    options = {"dim": 4, "hidden": 16, "epochs": 40 if cls is Regressor else 20, "batch_size": 256}
    options |= {"learning_rate": 0.1, "validation_fraction": 0.0, "precision": "64", "ensemble": 1}
    model = cls(**options, random_state=0, device="cpu")
    jaxtyping.config.update("jaxtyping_disable", True)  # they set parameters to what no annotation allows
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = check_estimator(model, expected_failed_checks=NOT_OURS, on_fail=None, on_skip=None)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    failed = {entry["check_name"]: entry["exception"] for entry in found if entry["status"] == "failed"}
    assert not failed
    assert sum(entry["status"] == "passed" for entry in found) > 50
    skipped = {entry["check_name"] for entry in found if entry["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # only where SCIPY_ARRAY_API is set


MOLECULES = ["CCO", "CCN", "c1ccccc1", "CC(=O)O", "CCCl", "C1CCCCC1", "CC=O", "CCCC"]
SIZES = np.array([2.0, 2.0, 6.0, 2.0, 2.0, 6.0, 2.0, 4.0])


def test_data_frames_of_one_column_and_bagging():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"smiles": MOLECULES})
    plain = hf.StructureRegressor(**TINY).fit(MOLECULES, SIZES)
    model = hf.StructureRegressor(**TINY).fit(frame, SIZES)
    assert np.array_equal(model.predict(frame), plain.predict(MOLECULES))
    assert np.array_equal(model.predict(frame.to_numpy()), plain.predict(MOLECULES))
    with pytest.raises(InputError, match="got DataFrame of shape"):
        model.predict(pandas.DataFrame({"a": MOLECULES, "b": MOLECULES}))
    several = BaggingRegressor(hf.StructureRegressor(**TINY), n_estimators=2, random_state=0)
    assert several.fit(frame, SIZES).predict(frame).shape == (8,)
    several = BaggingClassifier(hf.StructureClassifier(**TINY), n_estimators=2, random_state=0)
    assert several.fit(frame, SIZES > 3).predict_log_proba(frame).shape == (8, 2)


def test_weights_of_structures():
    words, targets = ["AA"] * 40, np.array([0.0, 1.0] * 20)
    options = TINY | {
        "epochs": 60,
        "validation_fraction": 0.0,
        "learning_rate": 0.05,
        "batch_size": 40,
        "counts": False,
        "representation": "sequence",
    }
    weights = np.where(targets == 1, 9.0, 1.0)
    found = hf.StructureRegressor(**options).fit(words, targets, weights).predict(["AA"])[0]
    plain = hf.StructureRegressor(**options).fit(words, targets).predict(["AA"])[0]
    assert plain == pytest.approx(0.5, abs=0.1)
    assert found == pytest.approx(0.9, abs=0.1)
    # All equal: as without weights, to rounding. Zero: as if it were not there.
    equal = hf.StructureRegressor(**options).fit(words, targets, np.full(40, 3.0)).predict(["AA"])[0]
    assert equal == pytest.approx(plain, abs=1e-3)
    one = hf.StructureRegressor(**options).fit(words, targets, targets).predict(["AA"])[0]
    assert one == pytest.approx(1.0, abs=0.05)
    for wrong, message in (
        ([1.0], "one entry for each of the 40"),
        (-np.ones(40), "structure 0 is -1.0"),
        (np.zeros(40), "are zero"),
    ):
        with pytest.raises(InputError, match=message):
            hf.StructureRegressor(**options).fit(words, targets, wrong)


def test_the_validation_loss_is_weighted_too():
    words, targets = ["AA"] * 20, np.array([0.0, 1.0] * 10)
    weights = np.where(targets == 1, 1.0, 1e-9)
    options = TINY | {"representation": "sequence"}
    model = hf.StructureRegressor(**options).fit(words, targets, weights, held_out=[0, 1])
    plain = hf.StructureRegressor(**options).fit(words, targets, held_out=[0, 1])
    assert model.history_.rows[0]["valid_loss"] != pytest.approx(plain.history_.rows[0]["valid_loss"])


def test_scores_of_classes():
    two = hf.StructureClassifier(**TINY).fit(MOLECULES, ["ring" if "1" in m else "chain" for m in MOLECULES])
    odds, chances = two.decision_function(MOLECULES), two.predict_proba(MOLECULES)
    np.testing.assert_allclose(odds, np.log(chances[:, 1] / chances[:, 0]), rtol=1e-5)
    np.testing.assert_allclose(np.exp(two.predict_log_proba(MOLECULES)), chances, rtol=1e-6)
    assert (two.classes_[(odds > 0).astype(int)] == two.predict(MOLECULES)).all()
    three = hf.StructureClassifier(**TINY).fit(MOLECULES, ["a", "b", "c", "a", "b", "c", "a", "b"])
    assert three.decision_function(MOLECULES).shape == (8, 3)
    both = hf.StructureClassifier(**TINY).fit(MOLECULES, np.array([[k % 2, k // 4] for k in range(8)]))
    assert both.decision_function(MOLECULES).shape == (8, 2)
    assert [each.shape for each in both.predict_log_proba(MOLECULES)] == [(8, 2), (8, 2)]


def test_what_cannot_be_read_is_missing_and_nothing_moves_up():
    options = TINY | {"representation": "smiles", "representation_options": {"on_error": "skip"}}
    texts = ["CCO", "C(", "CCN", "c1ccccc1"]
    model = hf.StructureRegressor(**options).fit(MOLECULES, SIZES)
    alone = model.predict(["CCO", "CCN", "c1ccccc1"])
    with pytest.warns(SkippedInputWarning) as told:
        found = model.predict(texts)
    assert any("1 of 4 entries of X could not be read; what is returned" in str(w.message) for w in told)
    np.testing.assert_array_equal(found[[0, 2, 3]], alone)
    assert np.isnan(found[1])
    with pytest.warns(SkippedInputWarning):
        assert np.isnan(model.embed(texts)).all(axis=1).tolist() == [False, True, False, False]
    classes = hf.StructureClassifier(**options).fit(MOLECULES, ["x" if s > 3 else "y" for s in SIZES])
    with pytest.warns(SkippedInputWarning):
        assert [label is None for label in classes.predict(texts)] == [False, True, False, False]
    numbers = hf.StructureClassifier(**options).fit(MOLECULES, (SIZES > 3).astype(int))
    with pytest.warns(SkippedInputWarning):
        assert np.isnan(numbers.predict(texts)).tolist() == [False, True, False, False]
    # The same in fitting and scoring: targets and weights have an entry for each text.
    with pytest.warns(SkippedInputWarning):
        model = hf.StructureRegressor(**options).fit([*MOLECULES, "C("], [*SIZES, 1e6], np.ones(9))
    with pytest.warns(SkippedInputWarning):
        score = model.score([*MOLECULES, "C("], [*SIZES, 1e6])
    assert score == pytest.approx(model.score(MOLECULES, SIZES))


def test_precision_may_be_a_number():
    model = hf.StructureRegressor(**TINY, precision=64).fit(MOLECULES, SIZES)
    assert model.predict(MOLECULES).dtype == np.float64
    assert str(next(model.network_.parameters()).dtype) == "torch.float64"
