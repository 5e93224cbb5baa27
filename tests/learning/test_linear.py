"""Ridge regression on sparse counts: the solution of the whole problem, whatever was taken out of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack, identity, random

from hiddenfield.learning import linear
from hiddenfield.learning.linear import SparseRidge, equal_columns


def expected(x, y, strength):
    """Solve the normal equations of the centred rows."""
    centred, mean = x - x.mean(axis=0), y.mean()
    weights = np.linalg.solve(centred.T @ centred + strength * np.eye(x.shape[1]), centred.T @ (y - mean))
    return weights, mean - x.mean(axis=0) @ weights


def counts(rows, columns, lone, seed=0):
    """Counts with columns that are equal, empty, and in one row only; some rows have several of the last."""
    generator = np.random.default_rng(seed)
    some = random(rows, columns, 0.3, random_state=seed, data_rvs=lambda k: generator.integers(1, 5, k))
    alone = csr_matrix(
        (
            generator.integers(1, 4, lone).astype(float),
            (generator.integers(rows, size=lone), np.arange(lone)),
        ),
        shape=(rows, lone),
    )
    x = hstack([some, some.tocsc()[:, : columns // 2], csr_matrix((rows, 2)), alone]).tocsr()
    return x, x.toarray()[:, 0] + generator.normal(size=rows)


@pytest.mark.parametrize("strength", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("lone", [0, 40])
def test_it_is_the_solution_of_the_normal_equations(strength, lone):
    x, y = counts(50, 12, lone)
    problem = SparseRidge.of(x)
    assert problem.by_row.shape[1] <= 12
    weights, intercept = problem.expand(y, strength, problem.solve(y, strength, 1e-10))
    true_weights, true_intercept = expected(x.toarray(), y, strength)
    np.testing.assert_allclose(weights, true_weights, atol=1e-7)
    assert intercept == pytest.approx(true_intercept, abs=1e-7)


@pytest.mark.parametrize("together", [0, 3])
def test_the_preconditioner_and_the_start_change_how_soon_and_not_what(together, monkeypatch):
    monkeypatch.setattr(linear, "TOGETHER", together)
    monkeypatch.setattr(linear, "LOOKED_AT", 20)
    x, y = counts(50, 12, 30)
    problem = SparseRidge.of(x)
    start = problem.solve(y, 10.0, 1e-3)
    weights, _ = problem.expand(y, 1.0, problem.solve(y, 1.0, 1e-10, start))
    np.testing.assert_allclose(weights, expected(x.toarray(), y, 1.0)[0], atol=1e-7)


def test_rows_that_have_nothing_in_common():
    x, y = csr_matrix(2.0 * identity(5)), np.arange(5.0)
    problem = SparseRidge.of(x)
    assert problem.by_row.shape == (5, 0)
    weights, intercept = problem.expand(y, 1.0, problem.solve(y, 1.0, 1e-6))
    true_weights, true_intercept = expected(x.toarray(), y, 1.0)
    np.testing.assert_allclose(weights, true_weights, atol=1e-9)
    assert intercept == pytest.approx(true_intercept)


def test_a_constant_target_has_no_weights():
    x, _ = counts(30, 6, 5)
    problem = SparseRidge.of(x)
    weights, intercept = problem.expand(np.full(30, 4.0), 1.0, problem.solve(np.full(30, 4.0), 1.0, 1e-6))
    np.testing.assert_allclose(weights, 0.0, atol=1e-9)
    assert intercept == pytest.approx(4.0)


def test_columns_are_equal_where_places_and_values_are():
    table = np.array([[1.0, 1.0, 0.0, 1.0, 0.0], [2.0, 2.0, 0.0, 3.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]])
    group, first = equal_columns(csr_matrix(table).tocsc())
    assert group.tolist() == [0, 0, 1, 2, 3]
    assert first.tolist() == [0, 2, 3, 4]
