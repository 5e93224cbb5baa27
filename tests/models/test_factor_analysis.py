"""Linear Gaussian models beside the normal density itself, direct maximisation and published fits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from hiddenfield.data.rows import Rows
from hiddenfield.errors import CollapseError, InputError
from hiddenfield.estimators import FactorAnalysis
from hiddenfield.estimators.factor_analysis import promax, varimax
from hiddenfield.learning.em import Fill, fit_em
from hiddenfield.models.factor_analysis import LinearGaussian, loading_pattern
from hiddenfield.models.factor_rows import FactorRows, rows_with_moments

ABILITY = np.zeros((6, 6))
ABILITY[np.tril_indices(6)] = [
    *(24.641, 5.991, 6.7, 33.52, 18.137, 149.831, 6.023, 1.782, 19.424, 12.711),
    *(20.755, 4.936, 31.43, 4.757, 52.604, 29.701, 7.204, 50.753, 9.075, 66.762, 135.292),
]
ABILITY += np.tril(ABILITY, -1).T


def made_up(seed: int, rows: int, columns: int, factors: int, holes: float) -> np.ndarray:
    """Return rows of a model with factors, some cells and one whole row missing."""
    generator = np.random.default_rng(seed)
    loadings = generator.standard_normal((factors, columns))
    values = (
        generator.standard_normal((rows, factors)) @ loadings
        + generator.standard_normal((rows, columns))
        + 3.0
    )
    values[generator.random(values.shape) < holes] = np.nan
    values[:3] = np.where(np.isnan(values[:3]), 0.5, values[:3])  # no column is empty
    values[-1] = np.nan
    return values


CENTRE = 2.5  # parameters are measured from there; not the mean of anything


def model_of(allowed: np.ndarray, tied: np.ndarray | None = None, floor: float = 0.05) -> LinearGaussian:
    size = len(allowed)
    tied = np.arange(size) if tied is None else tied
    return LinearGaussian(allowed, tied, np.full(tied.max() + 1, floor), np.full(size, CENTRE), np.ones(size))


def models(columns: int) -> dict[str, LinearGaussian]:
    return {
        "factors": model_of(np.ones((columns, 2), bool)),
        "tied": model_of(np.ones((columns, 2), bool), np.zeros(columns, int)),
        "two sides": model_of(loading_pattern([(columns - 2, 2), (2, 1)])),
    }


def rows_of(values: np.ndarray, weights: np.ndarray | None = None) -> FactorRows:
    return FactorRows(values, weights, centre=np.full(values.shape[1], CENTRE))


def covariance_of(model: LinearGaussian, parameters: dict) -> np.ndarray:
    return parameters["loadings"] @ parameters["loadings"].T + np.diag(parameters["noise"][model.tied])


def density(values: np.ndarray, model: LinearGaussian, parameters: dict) -> np.ndarray:
    """Return the log density of what is observed of each row, from the covariance matrix."""
    mean, covariance = model.centre + parameters["intercept"], covariance_of(model, parameters)
    patterns = Rows(values).patterns
    found = np.zeros(len(values))
    for seen, start, end in zip(patterns.observed, patterns.bounds, patterns.bounds[1:], strict=False):
        rows = patterns.order[start:end]
        if seen.any():
            normal = multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)])
            found[rows] = normal.logpdf(values[rows][:, seen])
    return found


@given(
    seed=st.integers(0, 1000),
    holes=st.sampled_from([0.0, 0.2, 0.6]),
    name=st.sampled_from(["factors", "tied", "two sides"]),
)
@settings(max_examples=15, deadline=None)
def test_objective_is_the_density_and_rises_to_where_its_slope_is_zero(
    seed: int, holes: float, name: str
) -> None:
    values = made_up(seed, 30, 5, 2, holes)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, len(values))
    model = models(5)[name]
    data = rows_of(values, weights)
    parameters = model.start(data, "auto", np.random.default_rng(seed))
    before = -np.inf
    for _ in range(20):
        found = model.expected_statistics(data, parameters, Fill())
        assert found["objective"] == pytest.approx(weights @ density(values, model, parameters), rel=1e-9)
        assert found["objective"] >= before - 1e-9
        before, parameters = found["objective"], model.maximize(found, parameters)
    found = model.expected_statistics(data, parameters, Fill())
    halves = [
        model.expected_statistics(data[part], parameters, Fill()) for part in (slice(9), slice(9, None))
    ]
    assert all(
        np.allclose(found[key], halves[0][key] + halves[1][key], rtol=1e-7, atol=1e-8) for key in found
    )
    np.testing.assert_allclose(model.log_likelihood(data, parameters), density(values, model, parameters))
    vector = model.as_vector(parameters)
    back = model.from_vector(vector, parameters)
    assert model.expected_statistics(data, back, Fill())["objective"] == pytest.approx(
        found["objective"], rel=1e-9
    )
    np.testing.assert_allclose(model.as_vector(back), vector, atol=1e-9)


@pytest.mark.parametrize("name", ["factors", "tied", "two sides"])
def test_agrees_with_direct_maximisation_with_holes(name: str) -> None:
    values, model = made_up(4, 40, 5, 2, 0.1), models(5)[name]
    data = rows_of(values)
    learned = fit_em(model, data, tolerance=1e-7, max_iterations=5000)

    def loss(vector: np.ndarray) -> float:
        return -density(values, model, model.from_vector(vector, learned.parameters)).sum()

    start = model.as_vector(learned.parameters)
    generator = np.random.default_rng(1)
    direct = minimize(loss, start + 0.1 * generator.standard_normal(start.shape), method="L-BFGS-B")
    assert learned.best.objective == pytest.approx(-direct.fun, abs=1e-3)


@pytest.mark.parametrize("factors", [1, 2, 3])
def test_agrees_with_the_published_fit_to_a_covariance_matrix(factors: int, data_path: Path) -> None:
    file = data_path.parent / "refs" / "fa" / "ability_cov_reference.json"
    if not file.is_file():
        pytest.skip(f"no reference fits at {file}")
    reference = json.loads(file.read_text())[str(factors)]
    deviation = np.sqrt(np.diag(ABILITY))
    rows = rows_with_moments(ABILITY / np.outer(deviation, deviation), np.zeros(6), 112.0)
    model = model_of(np.ones((6, factors), bool), floor=0.005)
    data = FactorRows(rows.values, rows.weights, centre=model.centre)
    learned = fit_em(model, data, tolerance=1e-10, max_iterations=20000, acceleration="squarem")
    assert learned.best.objective == pytest.approx(reference["loglik_corr"], abs=1e-4)
    assert learned.parameters["noise"] == pytest.approx(list(reference["uniquenesses"].values()), abs=2e-3)
    assert len(model.as_vector(learned.parameters)) - 6 == 21 - reference["df"]


def test_principal_components_have_their_closed_form() -> None:
    values = made_up(5, 200, 6, 2, 0.0)[:-1]
    model, data = models(6)["tied"], rows_of(values)
    learned = fit_em(model, data, tolerance=1e-12, max_iterations=5000)
    eigenvalues = np.linalg.eigvalsh(np.cov(values.T, bias=True))
    assert learned.parameters["noise"][0] == pytest.approx(eigenvalues[:4].mean(), rel=1e-5)
    explained = learned.parameters["loadings"]
    found = np.linalg.eigvalsh(explained.T @ explained) + eigenvalues[:4].mean()
    assert found == pytest.approx(eigenvalues[4:], rel=1e-4)


def test_sampled_factors_lead_to_the_same_parameters_on_average() -> None:
    values, model = made_up(7, 400, 5, 1, 0.2), model_of(np.ones((5, 1), bool))
    data = rows_of(values)
    exact = fit_em(model, data, tolerance=1e-9).parameters
    parameters, drawn, generator = exact, [], np.random.default_rng(0)
    for _ in range(300):
        found = model.expected_statistics(data, parameters, Fill("sample", generator))
        parameters = model.maximize(found, parameters)
        drawn.append(parameters["noise"])
    np.testing.assert_allclose(np.mean(drawn, axis=0), exact["noise"], rtol=0.1)
    with pytest.raises(InputError, match="has no maximum"):
        model.expected_statistics(data, exact, Fill("mode"))


@pytest.mark.parametrize("name", ["factors", "tied", "two sides"])
def test_conjugate_distributions(name: str) -> None:
    values, model = made_up(6, 60, 5, 2, 0.2), models(5)[name]
    data, generator = rows_of(values), np.random.default_rng(0)
    nothing = {key: np.zeros_like(value) for key, value in model.expected_statistics(
        data, model.start(data, "auto", generator), Fill()
    ).items()}  # fmt: skip
    assert model.divergence(model.posterior(nothing)) == pytest.approx(0, abs=1e-10)
    variational = fit_em(model, data, fill="variational", tolerance=1e-7, max_iterations=2000)
    assert (np.diff(variational.best.trace) > -1e-8).all()
    posterior = variational.best.posterior
    drawn = [model._draw(posterior, generator) for _ in range(4000)]
    for key in ("intercept", "loadings"):
        found = np.mean([each[key] for each in drawn], axis=0)
        np.testing.assert_allclose(found, variational.parameters[key], atol=0.05)
    # The bound is one: draws from the approximation weigh the likelihood, the factors summed out.
    few = drawn[:400]
    bound = np.mean([density(values, model, each).sum() for each in few]) - model.divergence(posterior)
    assert variational.best.objective <= bound + 1.0
    # What the E step takes is exp E[log p], summed over the factors: by quadrature for a single row.
    one, plugged = rows_of(values[:1]), model.plug_in(posterior)
    axis = np.linspace(-7, 7, 61)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    logs = np.zeros(len(grid))
    for each in few:
        noise = each["noise"][model.tied]
        error = values[0] - CENTRE - each["intercept"] - grid @ each["loadings"].T
        logs += (-0.5 * (error**2 / noise + np.log(2 * np.pi * noise))).sum(axis=1) / len(few)
    logs += -0.5 * (grid**2).sum(axis=1) - np.log(2 * np.pi)
    total = np.log(np.exp(logs).sum() * (axis[1] - axis[0]) ** 2)
    assert float(model.expected_statistics(one, plugged, Fill())["objective"]) == pytest.approx(
        total, abs=0.2
    )


def test_gibbs_draws_surround_the_maximum() -> None:
    values, model = made_up(8, 500, 5, 2, 0.2), models(5)["factors"]
    data = rows_of(values)
    exact = fit_em(model, data, tolerance=1e-8, max_iterations=5000)
    gibbs = fit_em(model, data, fill="gibbs", start=exact.parameters, max_iterations=400)
    covariances = [covariance_of(model, each) for each in gibbs.draws]
    spread = np.std(covariances, axis=0)
    assert (np.abs(np.mean(covariances, axis=0) - covariance_of(model, exact.parameters)) < 2 * spread).all()
    np.testing.assert_allclose(
        np.std([each["intercept"] for each in gibbs.draws], axis=0), np.nanstd(values, axis=0) / 20, rtol=0.35
    )


def test_what_is_missing_is_filled_in_by_the_conditional_normal() -> None:
    values, model = made_up(2, 12, 5, 2, 0.4), models(5)["two sides"]
    data = rows_of(values)
    parameters = model.start(data, "random", np.random.default_rng(0))
    mean, covariance = model.centre + parameters["intercept"], covariance_of(model, parameters)
    filled = model.impute(data, parameters)
    many, generator = rows_of(np.repeat(values, 3000, axis=0)), np.random.default_rng(0)
    drawn = model.sample_missing(many, parameters, generator).reshape(12, 3000, 5)
    scores = model.infer(data, parameters)
    for place, row in enumerate(values):
        seen, gone = ~np.isnan(row), np.isnan(row)
        weights = covariance[np.ix_(gone, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
        expected = mean[gone] + weights @ (row[seen] - mean[seen])
        spread = covariance[np.ix_(gone, gone)] - weights @ covariance[np.ix_(seen, gone)]
        np.testing.assert_allclose(filled[place, gone], expected)
        np.testing.assert_array_equal(drawn[place][:, seen], np.tile(row[seen], (3000, 1)))
        if gone.sum() > 1:
            np.testing.assert_allclose(np.cov(drawn[place][:, gone].T), spread, atol=0.12 * spread.max())
        pull = parameters["loadings"][seen].T @ np.linalg.inv(covariance[np.ix_(seen, seen)])
        variance = np.eye(2) - pull @ parameters["loadings"][seen]
        np.testing.assert_allclose(scores.deviation[place], np.sqrt(np.diag(variance)))
        np.testing.assert_allclose(scores.mean[place], pull @ (row[seen] - mean[seen]))
    complete, factors = model.sample(20000, parameters, generator)
    np.testing.assert_allclose(np.cov(complete.T), covariance, atol=0.05 * covariance.max())
    assert factors.shape == (20000, 2)


@given(seed=st.integers(0, 1000), power=st.sampled_from([2.0, 4.0]))
@settings(max_examples=20, deadline=None)
def test_rotations(seed: int, power: float) -> None:
    loadings = np.random.default_rng(seed).standard_normal((8, 3))
    rotation = varimax(loadings)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(3), atol=1e-9)
    normed = loadings / np.linalg.norm(loadings, axis=1, keepdims=True)

    def spread(turned: np.ndarray) -> float:
        return float((turned**2).var(axis=0).sum())

    best = spread(normed @ rotation)
    for angle in (-0.05, 0.05):
        for first, second in ((0, 1), (0, 2), (1, 2)):
            nudge = np.eye(3)
            nudge[[first, second], [first, second]] = np.cos(angle)
            nudge[first, second], nudge[second, first] = np.sin(angle), -np.sin(angle)
            assert spread(normed @ rotation @ nudge) <= best + 1e-7
    oblique = promax(loadings, power=power)
    correlations = np.linalg.inv(oblique.T @ oblique)
    np.testing.assert_allclose(np.diag(correlations), 1.0)
    np.testing.assert_allclose(
        (loadings @ oblique) @ correlations @ (loadings @ oblique).T, loadings @ loadings.T, atol=1e-9
    )


def test_factors_drawn_for_too_few_rows_are_named():
    rows = Rows(np.array([[0.1, 0.4, np.nan, 1.2], [0.7, np.nan, -0.3, 0.2], [-0.5, 0.6, 0.9, np.nan]]))
    model = FactorAnalysis(fill="sample", max_iterations=50)
    with pytest.raises(CollapseError, match="2 factors drawn for so few rows"):
        model.fit(rows.values)
