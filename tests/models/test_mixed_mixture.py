"""Latent classes against enumeration, closed forms and general optimisers, with holes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from scipy.optimize import minimize
from scipy.special import logsumexp

from hiddenfield.data import Table, TableColumn, Vocabulary, as_table
from hiddenfield.data.rows import Rows
from hiddenfield.errors import CollapseError, InputError
from hiddenfield.estimators import MixedMixture
from hiddenfield.learning.em import Fill, fit_em

COLUMNS = (
    TableColumn("size", "continuous"),
    TableColumn("colour", "categorical", Vocabulary("colour", ("red", "green", "blue"))),
    TableColumn("visits", "count"),
    TableColumn("smokes", "binary", Vocabulary("smokes", ("no", "yes"))),
    TableColumn("age", "continuous"),
)


def table_of(seed: int, rows: int, holes: float) -> Table:
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, rows)
    values = np.column_stack(
        [
            3 + 4 * group + rng.normal(size=rows),
            rng.integers(0, 3, rows),
            rng.poisson(2 + 3 * group),
            rng.random(rows) < 0.2 + 0.6 * group,
            rng.normal(1000, 10, rows),
        ]
    ).astype(float)
    values[0, [0, 2, 4]] = 3.0, 2.0, 1000.0
    values[1:][rng.random((rows - 1, 5)) < holes] = np.nan
    return Table(values, COLUMNS, None, rng.uniform(0.5, 2, rows))


def parameters_of(seed: int, classes: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    laws = {
        f"probabilities.{COLUMNS[j].name}": rng.dirichlet(np.ones(k), classes) for j, k in ((1, 3), (3, 2))
    }
    return laws | {
        "weights": rng.dirichlet(np.ones(classes)),
        "means": rng.normal([5.0, 1000.0], [2.0, 5.0], (classes, 2)),
        "covariances": rng.uniform(0.5, 5, (classes, 2)),
        "rates": rng.uniform(0.5, 6, (classes, 1)),
    }


def model_of(table: Table, classes: int, smoothing: float = 1.0, concentration: float = 1.0, **options):
    """Return the model that the estimator makes for a table, and the data as it takes them."""
    estimator = MixedMixture(classes, smoothing=smoothing, concentration=concentration, **options)
    estimator.columns_ = [column.as_dict() for column in table.columns]
    data = Rows(table.values, table.weights)
    estimator._describe_all(table, data)
    return estimator._model(), data


def log_joint(table: Table, p: dict[str, np.ndarray]) -> np.ndarray:
    """Sum the log densities of the cells that are there, one by one."""
    result = np.tile(np.log(p["weights"]), (len(table), 1))
    for n, row in enumerate(table.values):
        for k in range(len(p["weights"])):
            laws = [
                lambda x, k=k: stats.norm.logpdf(x, p["means"][k, 0], p["covariances"][k, 0] ** 0.5),
                lambda x, k=k: np.log(p["probabilities.colour"][k, int(x)]),
                lambda x, k=k: stats.poisson.logpmf(x, p["rates"][k, 0]),
                lambda x, k=k: np.log(p["probabilities.smokes"][k, int(x)]),
                lambda x, k=k: stats.norm.logpdf(x, p["means"][k, 1], p["covariances"][k, 1] ** 0.5),
            ]
            result[n, k] += sum(law(x) for law, x in zip(laws, row, strict=True) if not np.isnan(x))
    return result


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.sampled_from([0.0, 0.4, 1.0]))
def test_likelihood_and_posterior_are_those_of_the_definition(seed, classes, holes):
    table, p = table_of(seed, 6, holes), parameters_of(seed, classes)
    (model, data), expected = model_of(table, classes), log_joint(table, p)
    np.testing.assert_allclose(model.log_joint(data, p), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        model.log_likelihood(data, p), logsumexp(expected, axis=1), rtol=1e-9, atol=1e-12
    )
    shares = np.exp(expected - logsumexp(expected, axis=1, keepdims=True))
    np.testing.assert_allclose(model.infer(data, p), shares, atol=1e-9)
    if holes == 1:
        np.testing.assert_allclose(model.log_likelihood(data, p)[1:], 0, atol=1e-12)
        np.testing.assert_allclose(shares[1:], np.tile(p["weights"], (5, 1)))
    # Conditional means and modes, by the law of total probability.
    filled = model.impute(data, p)
    hole = np.isnan(table.values)
    np.testing.assert_allclose(filled[hole[:, 0], 0], (shares @ p["means"][:, 0])[hole[:, 0]])
    np.testing.assert_array_equal(
        filled[hole[:, 1], 1], (shares @ p["probabilities.colour"]).argmax(1)[hole[:, 1]]
    )
    np.testing.assert_array_equal(filled[~hole], table.values[~hole])


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0]))
def test_turns_raise_the_objective_to_a_stationary_point(seed, smoothing):
    table = table_of(seed, 40, 0.3)
    model, data = model_of(table, 2, smoothing, 1.5)
    try:
        learned = fit_em(model, data, tolerance=1e-9, max_iterations=3000, seed=seed)
    except CollapseError:
        assert smoothing == 0
        return
    assert np.all(np.diff(learned.best.trace) > -1e-7 * (1 + np.abs(learned.best.trace[:-1])))
    vector = model.as_vector(learned.parameters)

    def objective(at):
        p = model.from_vector(at, learned.parameters)
        return float(model.expected_statistics(data, p, Fill())["objective"]) + model.log_prior(p)

    assert objective(vector) == pytest.approx(learned.best.objective, abs=1e-4)
    slopes = [
        (objective(vector + step) - objective(vector - step)) / 2e-4 for step in 1e-4 * np.eye(len(vector))
    ]
    np.testing.assert_allclose(slopes, 0, atol=0.05)


def test_the_maximum_is_that_of_a_general_optimiser():
    table = table_of(3, 30, 0.2).select(["colour", "smokes", "visits"])
    model, data = model_of(table, 2, 0.5)
    learned = fit_em(model, data, tolerance=1e-10, max_iterations=5000, restarts=4)

    def negative(at):
        p = model.from_vector(at, learned.parameters)
        return -float(model.expected_statistics(data, p, Fill())["objective"]) - model.log_prior(p)

    found = minimize(negative, model.as_vector(learned.parameters) + 0.05, method="BFGS")
    assert -found.fun == pytest.approx(learned.best.objective, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_coordinates_are_free_and_lead_back(seed):
    table, p = table_of(seed, 10, 0.0), parameters_of(seed, 3)
    p["probabilities.colour"][0] = [0.25, 0.0, 0.75]  # a zero stays
    model, _ = model_of(table, 3)
    vector = model.as_vector(p)
    assert len(vector) == 2 + 3 * 2 + 3 * 1 + 6 + 6 + 3
    for name, value in model.from_vector(vector, p).items():
        np.testing.assert_allclose(value, p[name], rtol=1e-12)


def test_conjugate_distributions_agree_with_draws():
    table = table_of(1, 12, 0.2)
    model, data = model_of(table, 2, 1.0, 1.5, fill="gibbs")
    statistics = model.expected_statistics(data, parameters_of(1, 2), Fill())
    q = model.posterior(statistics)
    prior = model.posterior({name: np.zeros_like(value) for name, value in statistics.items()})
    assert model.divergence(prior) == pytest.approx(0, abs=1e-9)
    rng, count = np.random.default_rng(0), 1000
    draws = [model.draw(q, rng) for _ in range(count)]
    # The E step at the plugged-in parameters is the mean of that at draws.
    expected = np.mean([model.log_joint(data, draw) for draw in draws], axis=0)
    error = np.std([model.log_joint(data, draw) for draw in draws], axis=0) / np.sqrt(count)
    told = model.log_joint(data, model.plug_in(q))
    np.testing.assert_array_less(np.abs(expected - told), 5 * error + 1e-9)
    for name, value in model.mean(q).items():
        drawn = np.array([draw[name] for draw in draws])
        assert np.abs(drawn.mean(0) - value).max() <= 6 * (drawn.std(0) / np.sqrt(count)).max(), name
    # KL(q || p): the mean of log q - log p.
    gap = _log_density(q, draws) - _log_density(prior, draws)
    assert abs(gap.mean() - model.divergence(q)) < 5 * gap.std() / np.sqrt(count)


def _log_density(q, draws):
    """Return the log density of draws, by SciPy's distributions."""
    values = []
    for draw in draws:
        value = stats.dirichlet.logpdf(draw["weights"], q["weights"])
        for name in ("probabilities.colour", "probabilities.smokes"):
            for own, exponents in zip(draw[name], q[name], strict=True):
                value += stats.dirichlet.logpdf(own / own.sum(), exponents)
        value += stats.gamma.logpdf(draw["rates"], q["shape"], scale=1 / q["rate"]).sum()
        variances, (freedom, scale) = draw["covariances"], (q["freedom"], q["scale"][..., 0, 0])
        value += stats.gamma.logpdf(1 / variances, freedom / 2, scale=2 / scale).sum()
        value += stats.norm.logpdf(draw["means"], q["mean"], np.sqrt(variances / q["strength"])).sum()
        values.append(value)
    return np.array(values)


def test_filling_by_mode_and_by_draws_are_about_whole_classes():
    table, p = table_of(5, 50, 0.2), parameters_of(5, 2)
    (model, data), joint = model_of(table, 2), log_joint(table, p)
    best = model.expected_statistics(data, p, Fill("mode"))
    # The jointly most likely class and missing symbols, found one by one.
    symbols = {1: p["probabilities.colour"].T, 3: p["probabilities.smokes"].T}
    filled = joint + sum(
        table.missing[:, [j]] * np.log(law.max(axis=0, keepdims=True)) for j, law in symbols.items()
    )
    chosen = filled.argmax(1)
    assert float(best["objective"]) == pytest.approx(filled.max(1) @ table.weights)
    np.testing.assert_allclose(best["mass"], np.bincount(chosen, table.weights, 2))
    whole = table.values.copy()
    for j, law in symbols.items():
        whole[:, j] = np.where(table.missing[:, j], law.argmax(axis=0)[chosen], whole[:, j])
    told = model.expected_statistics(Rows(whole, table.weights, chosen), p, Fill())
    for name in told.keys() - {"objective"}:
        np.testing.assert_allclose(best[name], told[name])
    rng, soft = np.random.default_rng(0), model.expected_statistics(data, p, Fill())
    drawn = np.mean(
        [model.expected_statistics(data, p, Fill("sample", rng))["mass"] for _ in range(300)], axis=0
    )
    np.testing.assert_allclose(drawn, soft["mass"], atol=1.0)


def test_rows_with_labels_are_of_their_class():
    table = table_of(2, 20, 0.3)
    labels = np.full(20, -1)
    labels[:4] = [1, 1, 0, 1]
    model, data = model_of(table, 2)
    shares = model.infer(Rows(data.values, data.weights, labels), parameters_of(2, 2))
    np.testing.assert_array_equal(shares[:4], np.eye(2)[labels[:4]])


def test_what_cannot_be_learned_is_named():
    with pytest.raises(InputError, match="column 'b' has no values; leave it out"):
        MixedMixture().fit({"a": [1, 2], "b": [None, None]})
    table = as_table({"u": [0.5, 0.5, 7.25, 1.5], "v": [3.5, 3.5, 3.5, 3.5]})
    with pytest.raises(CollapseError, match=r"component . has collapsed: a variance has become 0, on row"):
        MixedMixture(3, smoothing=0, restarts=3).fit(table)
    learned = MixedMixture(3).fit(table)  # a constant column is no obstacle with a prior
    assert np.isfinite(learned.learned_.best.objective)
    with pytest.raises(InputError, match="smoothing must be above 0"):
        MixedMixture(3, smoothing=0, fill="gibbs").fit(table)


def test_draws_have_the_moments_of_the_model():
    table, p = table_of(0, 10, 0.0), parameters_of(0, 2)
    model, _ = model_of(table, 2)
    values, labels = model.sample(20_000, p, np.random.default_rng(0))
    assert np.bincount(labels) / 20_000 == pytest.approx(p["weights"], abs=0.02)
    for k in range(2):
        own = values[labels == k]
        error = 5 / np.sqrt(len(own))
        assert own[:, 0].mean() == pytest.approx(p["means"][k, 0], abs=error * p["covariances"][k, 0] ** 0.5)
        assert own[:, 2].mean() == pytest.approx(p["rates"][k, 0], abs=error * p["rates"][k, 0] ** 0.5)
        assert np.bincount(own[:, 1].astype(int), minlength=3) / len(own) == pytest.approx(
            p["probabilities.colour"][k], abs=error
        )
    holes = Rows(np.full((20_000, 5), np.nan))
    filled = model.sample_missing(holes, p, np.random.default_rng(1))
    np.testing.assert_array_less(np.abs(filled.mean(0) - values.mean(0)), 7 * values.std(0) / np.sqrt(20_000))
