"""Latent classes against enumeration, closed forms and general optimisers, with holes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from scipy.optimize import minimize
from scipy.special import logsumexp

from hiddenfield.data import Table, TableColumn, Vocabulary, as_table
from hiddenfield.errors import CollapseError, InputError
from hiddenfield.learning.em import Fill, fit_em
from hiddenfield.models import column_priors
from hiddenfield.models.column_families import ColumnFamilies
from hiddenfield.models.mixed_mixture import MixtureOfColumns

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
    probabilities = np.concatenate([rng.dirichlet(np.ones(size), classes).T for size in (3, 2)])
    return {
        "weights": rng.dirichlet(np.ones(classes)),
        "probabilities": probabilities,
        "means": rng.normal([[5.0], [1000.0]], [[2.0], [5.0]], (2, classes)),
        "variances": rng.uniform(0.5, 5, (2, classes)),
        "rates": rng.uniform(0.5, 6, (1, classes)),
    }


def log_joint(table: Table, p: dict[str, np.ndarray]) -> np.ndarray:
    """Sum the log densities of the cells that are there, one by one."""
    result = np.tile(np.log(p["weights"]), (len(table), 1))
    for n, row in enumerate(table.values):
        for k in range(len(p["weights"])):
            laws = [
                lambda x, k=k: stats.norm.logpdf(x, p["means"][0, k], p["variances"][0, k] ** 0.5),
                lambda x, k=k: np.log(p["probabilities"][int(x), k]),
                lambda x, k=k: stats.poisson.logpmf(x, p["rates"][0, k]),
                lambda x, k=k: np.log(p["probabilities"][3 + int(x), k]),
                lambda x, k=k: stats.norm.logpdf(x, p["means"][1, k], p["variances"][1, k] ** 0.5),
            ]
            result[n, k] += sum(law(x) for law, x in zip(laws, row, strict=True) if not np.isnan(x))
    return result


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.sampled_from([0.0, 0.4, 1.0]))
def test_likelihood_and_posterior_are_those_of_the_definition(seed, classes, holes):
    table, p = table_of(seed, 6, holes), parameters_of(seed, classes)
    model = MixtureOfColumns(classes, ColumnFamilies.of(table))
    data, expected = model.families.rows(table), log_joint(table, p)
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
    np.testing.assert_allclose(filled[hole[:, 0], 0], (shares @ p["means"][0])[hole[:, 0]])
    np.testing.assert_array_equal(
        filled[hole[:, 1], 1], (shares @ p["probabilities"][:3].T).argmax(1)[hole[:, 1]]
    )
    np.testing.assert_array_equal(filled[~hole], table.values[~hole])


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0]))
def test_turns_raise_the_objective_to_a_stationary_point(seed, smoothing):
    table = table_of(seed, 40, 0.3)
    model = MixtureOfColumns(2, ColumnFamilies.of(table), smoothing, 1.5)
    data = model.families.rows(table)
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
    model = MixtureOfColumns(2, ColumnFamilies.of(table), 0.5)
    data = model.families.rows(table)
    learned = fit_em(model, data, tolerance=1e-10, max_iterations=5000, restarts=4)

    def negative(at):
        p = model.from_vector(at, learned.parameters)
        return -float(model.expected_statistics(data, p, Fill())["objective"]) - model.log_prior(p)

    found = minimize(negative, model.as_vector(learned.parameters) + 0.05, method="BFGS")
    assert -found.fun == pytest.approx(learned.best.objective, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_coordinates_are_free_and_lead_back(seed):
    table, p = table_of(seed, 10, 0.0), parameters_of(seed, 3)
    p["probabilities"][:3, 0] = [0.25, 0.0, 0.75]  # a zero stays
    model = MixtureOfColumns(3, ColumnFamilies.of(table))
    vector = model.as_vector(p)
    assert len(vector) == 2 + 3 * 2 + 3 * 1 + 6 + 6 + 3
    for name, value in model.from_vector(vector, p).items():
        np.testing.assert_allclose(value, p[name], rtol=1e-12)


def test_conjugate_distributions_agree_with_draws():
    table = table_of(1, 12, 0.2)
    model = MixtureOfColumns(2, ColumnFamilies.of(table), 1.0, 1.5)
    data, p = model.families.rows(table), parameters_of(1, 2)
    q = model.posterior(model.expected_statistics(data, p, Fill()))
    prior = model.posterior(
        {"mass": np.zeros(2), "sums": np.zeros((len(model.families.profile), 2)), "objective": 0, "count": 0}
    )
    assert model.divergence(prior) == pytest.approx(0, abs=1e-9)
    rng, count = np.random.default_rng(0), 1000
    draws = [model.draw(q, rng) for _ in range(count)]
    etas = np.array([model.families.natural(draw) for draw in draws])
    error = etas.std(axis=0) / np.sqrt(count)
    np.testing.assert_array_less(
        np.abs(etas.mean(axis=0) - model.families.natural(model.plug_in(q))), 5 * error + 1e-9
    )
    logs = np.array([np.log(draw["weights"]) for draw in draws])
    np.testing.assert_array_less(
        np.abs(logs.mean(0) - np.log(model.plug_in(q)["weights"])), 5 * logs.std(0) / np.sqrt(count)
    )
    for name, value in model.mean(q).items():
        drawn = np.array([draw[name] for draw in draws])
        assert np.abs(drawn.mean(0) - value).max() <= 6 * (drawn.std(0) / np.sqrt(count)).max(), name
    # KL(q || p): the mean of log q - log p, in which only the features' own exponential family matters.
    gap = _log_density(model, q, draws) - _log_density(model, prior, draws)
    assert abs(gap.mean() - model.divergence(q)) < 5 * gap.std() / np.sqrt(count)


def _log_density(model, q, draws):
    """Return the log density of draws, by SciPy's distributions."""
    families, values = model.families, []
    for draw in draws:
        value = stats.dirichlet.logpdf(draw["weights"], q["weights"])
        at = 0
        for j in families.discrete:
            block, size = families.blocks[j], families.columns[j].num_states
            for k in range(model.num_classes):
                own = draw["probabilities"][at : at + size, k]
                value += stats.dirichlet.logpdf(own / own.sum(), q["sums"][block, k] + 1)
            at += size
        rows, mean, shape, rate = column_priors._normal_gamma(families, q["sums"])
        means, variances = families._standard(draw)
        value += stats.gamma.logpdf(1 / variances, shape, scale=1 / rate).sum()
        value += stats.norm.logpdf(means, mean, np.sqrt(variances / rows)).sum()
        shape, rate = column_priors._shapes(families, q["sums"])
        value += stats.gamma.logpdf(draw["rates"], shape, scale=1 / rate).sum()
        values.append(value)
    return np.array(values)


def test_filling_by_mode_and_by_draws_are_about_whole_classes():
    table, p = table_of(5, 50, 0.2), parameters_of(5, 2)
    model = MixtureOfColumns(2, ColumnFamilies.of(table))
    data, joint = model.families.rows(table), log_joint(table, p)
    best = model.expected_statistics(data, p, Fill("mode"))
    # The jointly most likely class and missing symbols, found one by one.
    symbols = {1: p["probabilities"][:3], 3: p["probabilities"][3:]}
    filled = joint + sum(
        table.missing[:, [j]] * np.log(law.max(axis=0, keepdims=True)) for j, law in symbols.items()
    )
    chosen = filled.argmax(1)
    assert float(best["objective"]) == pytest.approx(filled.max(1) @ table.weights)
    np.testing.assert_allclose(best["mass"], np.bincount(chosen, table.weights, 2))
    whole = table.values.copy()
    for j, law in symbols.items():
        whole[:, j] = np.where(table.missing[:, j], law.argmax(axis=0)[chosen], whole[:, j])
    counted = model.families.rows(table.with_values(whole), chosen)
    told = model.expected_statistics(counted, p, Fill())
    np.testing.assert_allclose(best["sums"], told["sums"])
    rng, soft = np.random.default_rng(0), model.expected_statistics(data, p, Fill())
    drawn = np.mean(
        [model.expected_statistics(data, p, Fill("sample", rng))["mass"] for _ in range(300)], axis=0
    )
    np.testing.assert_allclose(drawn, soft["mass"], atol=1.0)


def test_rows_with_labels_are_of_their_class():
    table = table_of(2, 20, 0.3)
    labels = np.full(20, -1)
    labels[:4] = [1, 1, 0, 1]
    model = MixtureOfColumns(2, ColumnFamilies.of(table))
    shares = model.infer(model.families.rows(table, labels), parameters_of(2, 2))
    np.testing.assert_array_equal(shares[:4], np.eye(2)[labels[:4]])


def test_what_cannot_be_learned_is_named():
    with pytest.raises(InputError, match="column 'b' has no values; leave it out"):
        ColumnFamilies.of(as_table({"a": [1, 2], "b": [None, None]}))
    table = as_table({"u": [0.5, 0.5, 7.25, 1.5], "v": [3.5, 3.5, 3.5, 3.5]})
    families = ColumnFamilies.of(table)
    data = families.rows(table)
    with pytest.raises(CollapseError, match=r"variance of .[uv]. in class . has shrunk"):
        fit_em(MixtureOfColumns(3, families, 0.0), data, restarts=3)
    learned = fit_em(MixtureOfColumns(3, families), data)  # a constant column is no obstacle with a prior
    assert np.isfinite(learned.best.objective)
    with pytest.raises(InputError, match="smoothing must be above 0"):
        MixtureOfColumns(3, families, 0.0).posterior({"mass": np.ones(3), "sums": np.ones((6, 3))})


def test_draws_have_the_moments_of_the_model():
    table, p = table_of(0, 10, 0.0), parameters_of(0, 2)
    model = MixtureOfColumns(2, ColumnFamilies.of(table))
    values, labels = model.sample(20_000, p, np.random.default_rng(0))
    assert np.bincount(labels) / 20_000 == pytest.approx(p["weights"], abs=0.02)
    for k in range(2):
        own = values[labels == k]
        error = 5 / np.sqrt(len(own))
        assert own[:, 0].mean() == pytest.approx(p["means"][0, k], abs=error * p["variances"][0, k] ** 0.5)
        assert own[:, 2].mean() == pytest.approx(p["rates"][0, k], abs=error * p["rates"][0, k] ** 0.5)
        assert np.bincount(own[:, 1].astype(int), minlength=3) / len(own) == pytest.approx(
            p["probabilities"][:3, k], abs=error
        )
    holes = Table(np.full((20_000, 5), np.nan), COLUMNS)
    filled = model.sample_missing(model.families.rows(holes), p, np.random.default_rng(1))
    np.testing.assert_array_less(np.abs(filled.mean(0) - values.mean(0)), 7 * values.std(0) / np.sqrt(20_000))
