"""Factor analysis and its relatives as estimators: scikit-learn's answers where complete, holes, saving, warnings."""

from __future__ import annotations

import warnings

import jaxtyping
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA, FactorAnalysis as PeerFactorAnalysis
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

import hiddenfield as hf
from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.estimators import FactorAnalysis, PartialLeastSquares, ProbabilisticPCA

LOADINGS = np.array([[0.9, 0.8, 0.7, 0.6, 0.1, 0.0], [0.0, 0.2, 0.1, 0.2, 0.8, 0.9]])


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    hidden = generator.standard_normal((400, 2))
    values = hidden @ LOADINGS + 0.5 * generator.standard_normal((400, 6)) + 10.0
    return pd.DataFrame(values, columns=list("abcdef"))


@pytest.fixture(scope="module")
def holed(table: pd.DataFrame) -> pd.DataFrame:
    missing = np.random.default_rng(1).random(table.shape) < 0.2
    missing[0] = True
    return table.mask(missing)


def test_scikit_learns_checks_of_what_predicts_targets():
    jaxtyping.config.update("jaxtyping_disable", True)  # they set parameters to what no annotation allows
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PartialLeastSquares(1, max_iterations=300, tolerance=1e-4)
            found = check_estimator(model, on_fail=None, on_skip=None)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    assert {entry["check_name"]: entry["exception"] for entry in found if entry["status"] == "failed"} == {}
    assert sum(entry["status"] == "passed" for entry in found) > 35


def test_agrees_with_scikit_learn_where_nothing_is_missing(table):
    ours = FactorAnalysis(2, tolerance=1e-10, max_iterations=5000).fit(table)
    theirs = PeerFactorAnalysis(2, tol=1e-10, max_iter=5000).fit(table.to_numpy())
    assert ours.score(table) == pytest.approx(theirs.score(table.to_numpy()), abs=1e-7)
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_, atol=1e-3)
    np.testing.assert_allclose(ours.covariance_, theirs.get_covariance(), atol=1e-3)
    ours = ProbabilisticPCA(2, tolerance=1e-12, max_iterations=5000).fit(table)
    peer = PCA(2).fit(table.to_numpy())  # its noise is by n - 1, ours by n
    axes = ours.loadings_ / np.linalg.norm(ours.loadings_, axis=0)
    np.testing.assert_allclose(np.abs((axes * peer.components_.T).sum(axis=0)), 1.0, atol=1e-5)
    np.testing.assert_allclose(ours.noise_variance_, peer.noise_variance_ * 399 / 400, rtol=1e-4)


def test_holes_everywhere(holed, table, tmp_path):
    model = FactorAnalysis(2, rotation="promax").fit(holed)
    assert model.log_likelihood(holed)[0] == 0.0
    scores = model.posterior(holed)
    np.testing.assert_allclose(scores.mean[0], 0.0, atol=1e-12)
    np.testing.assert_allclose(scores.deviation[0], 1.0)
    assert (scores.deviation <= 1 + 1e-12).all()
    filled = model.impute(holed)
    assert list(filled.columns) == list(table.columns)
    assert filled.where(holed.notna()).equals(holed)
    hidden = holed.isna().to_numpy()
    error = (filled.to_numpy() - table.to_numpy())[hidden]
    assert error.std() < 0.85 * (table - table.mean()).to_numpy()[hidden].std()
    rotated = model.loadings_ @ model.factor_correlations_ @ model.loadings_.T + np.diag(
        model.noise_variance_
    )
    np.testing.assert_allclose(rotated, model.covariance_)
    plain = FactorAnalysis(2).fit(holed)
    np.testing.assert_allclose(plain.log_likelihood(holed), model.log_likelihood(holed))
    np.testing.assert_allclose(
        scores.mean @ model.loadings_.T, plain.transform(holed) @ plain.loadings_.T, atol=1e-9
    )
    model.save(tmp_path / "model")
    again = hf.load(tmp_path / "model")
    pd.testing.assert_frame_equal(again.impute(holed), filled)
    drawn = model.sample_missing(holed, 40)
    assert np.mean([each.to_numpy()[hidden] for each in drawn], axis=0) == pytest.approx(
        filled.to_numpy()[hidden], abs=0.8
    )
    outlier = holed.copy()
    outlier.iloc[7] = [10.0, 10.0, 25.0, np.nan, 10.0, 10.0]
    assert model.outlyingness(outlier)[7] > 0.999999
    assert (model.outlyingness(holed) < 0.999999).all()


def test_number_of_factors(holed):
    models = {k: FactorAnalysis(k).fit(holed) for k in (1, 2, 3)}
    assert min(models, key=lambda k: models[k].bic(holed)) == 2
    search = GridSearchCV(FactorAnalysis(), {"num_factors": [1, 2]}, cv=3).fit(holed)
    assert search.best_params_ == {"num_factors": 2}
    assert models[2].num_free_ == 6 + 6 + 6 * 2 - 1


def test_a_column_without_noise_is_named(table):
    copied = table.assign(g=table["a"] + table["f"])
    with pytest.warns(ConvergenceWarning, match=r"Heywood case.*'g'"):
        model = FactorAnalysis(2).fit(copied)
    assert "'g'" in model.heywood_


def test_a_covariance_matrix_alone(table):
    ours = FactorAnalysis(2, tolerance=1e-9, max_iterations=5000)
    direct, fitted = clone(ours).fit(table), ours.fit_covariance(table.cov(ddof=0), 400, table.mean())
    np.testing.assert_allclose(direct.loadings_, fitted.loadings_, atol=2e-3)
    np.testing.assert_allclose(direct.log_likelihood(table), fitted.log_likelihood(table), atol=1e-3)
    with pytest.raises(InputError, match="negative eigenvalue"):
        ours.fit_covariance(np.array([[1.0, 2.0], [2.0, 1.0]]), 10)
    with pytest.raises(InputError, match="square"):
        ours.fit_covariance(np.ones((2, 3)), 10)


def test_partial_least_squares_predicts_from_what_there_is(table, holed):
    X, y = holed.drop(columns=["a"]), table[["a"]]
    model = PartialLeastSquares(2, 1, max_iterations=3000).fit(X, y)
    mean, deviation = model.predict(X, return_std=True)
    missed = np.abs(mean - y.to_numpy()) > 1.645 * deviation
    assert 0.05 < missed.mean() < 0.15
    assert mean[0] == pytest.approx(y.mean().to_numpy(), abs=0.02)
    complete = PartialLeastSquares(2, 1, max_iterations=3000).fit(table.drop(columns=["a"]), table["a"])
    truth = LinearRegression().fit(table.drop(columns=["a"]), table["a"])
    others = table.drop(columns=["a"])
    assert complete.score(others, table["a"]) == pytest.approx(truth.score(others, table["a"]), abs=0.01)
    assert complete.target_loadings_.shape == (1, 2)
    np.testing.assert_allclose(complete.loadings_[-1, 2], 0.0)
    known = np.where(np.arange(400) < 300, table["a"], np.nan)
    assert PartialLeastSquares(2, 0).fit(others, known).score(others, table["a"]) > 0.5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, np.nan], [2.0, np.nan]], "column 1 has no values"),
        ([[1.0, 3.0], [2.0, 3.0]], "column 1 has a single value"),
        ([[1.0, np.inf], [2.0, 3.0]], "infinity, in row 0 of column 1"),
        ([[1.0, 2.0]], "one sample"),
    ],
)
def test_what_cannot_be_learned_from(values, message):
    with pytest.raises(InputError, match=message):
        FactorAnalysis(1).fit(np.array(values))


def test_as_many_rows_as_factors_end_at_the_least_noise():
    """The factors explain everything, which is named; before the least noise rounding must not look like a fall."""
    for seed in range(4):
        values = np.random.default_rng(seed).standard_normal((3, 3)) * [1.0, 5.0, 2.0]
        with pytest.warns(ConvergenceWarning, match="Heywood case"):
            model = ProbabilisticPCA(2).fit(values)
        np.testing.assert_allclose(model.predict(values), values, atol=0.05)


def test_more_factors_than_columns():
    with pytest.raises(InputError, match="3 factors are more than the 2 columns"):
        FactorAnalysis(3).fit(np.random.default_rng(0).standard_normal((9, 2)))
