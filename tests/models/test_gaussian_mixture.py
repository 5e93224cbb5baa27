"""Mixtures of Gaussians with holes: densities, moments and maxima beside independent computations."""

from __future__ import annotations

import contextlib
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, multivariate_t

from hiddenfield.data.rows import Rows
from hiddenfield.errors import CollapseError
from hiddenfield.learning.em import Fill, fit_em
from hiddenfield.models.gaussian_mixture import MixtureOfGaussians
from hiddenfield.models.gaussians import COVARIANCES, Gaussians, NormalPrior


def model_of(values, count, kind="full", **options):
    centre, spread = np.nanmean(values, 0), np.nanstd(values, 0)
    prior = None
    if options.pop("weak", False):
        prior = NormalPrior(
            centre, 0.5, (values.shape[1] if kind in ("full", "tied") else 1) + 2.0, spread**2
        )
    return MixtureOfGaussians(count, Gaussians(kind, centre, spread, prior), **options)


def table(seed, rows=40, dim=3, holes=0.3):
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, dim)) @ random.normal(size=(dim, dim))
    values[: rows // 2] += 4 * random.normal(size=dim)
    values[random.random(values.shape) < holes] = np.nan
    values[0] = np.nan  # a row without any value
    return values


def some_parameters(model, values, seed=0):
    return model.start(Rows(values), "random", np.random.default_rng(seed))


def log_density(row, mean, covariance, freedom=None):
    seen = ~np.isnan(row)
    if not seen.any():
        return 0.0
    if freedom is None:
        return multivariate_normal.logpdf(row[seen], mean[seen], covariance[np.ix_(seen, seen)])
    return multivariate_t.logpdf(row[seen], mean[seen], covariance[np.ix_(seen, seen)], freedom)


@pytest.mark.parametrize("kind", COVARIANCES)
@pytest.mark.parametrize("tails", [None, 3.5])
def test_rows_beside_scipy(kind, tails):
    values = table(1)
    model = model_of(values, 2, kind, freedom=tails)
    found = some_parameters(model, values)
    covariances = model.gaussians.covariance_matrices(found["covariances"], 2)
    joint = np.array(
        [
            [
                math.log(w) + log_density(row, m, c, tails)
                for w, m, c in zip(found["weights"], found["means"], covariances, strict=True)
            ]
            for row in values
        ]
    )
    expected = np.logaddexp.reduce(joint, 1)
    rows = Rows(values)
    np.testing.assert_allclose(model.log_likelihood(rows, found), expected, atol=1e-9)
    np.testing.assert_allclose(model.infer(rows, found), np.exp(joint - expected[:, None]), atol=1e-9)
    # A row without values has likelihood 1, and its posterior is the prior.
    assert model.log_likelihood(rows, found)[0] == pytest.approx(0)
    np.testing.assert_allclose(model.infer(rows, found)[0], found["weights"])
    complete = np.where(np.isnan(values), 0.5, values)
    joint = [log_density(row, found["means"][1], covariances[1], tails) for row in complete]
    np.testing.assert_allclose(
        model.log_joint(Rows(complete), found)[:, 1] - math.log(found["weights"][1]), joint
    )


def moments_by_hand(values, weights, model, found):
    """Return the expected statistics by the textbook's formulas, row after row."""
    centre = model.gaussians.centre
    covariances = model.gaussians.covariance_matrices(found["covariances"], len(found["means"]))
    shares = model.infer(Rows(values), found) * weights[:, None]
    first = np.zeros_like(found["means"])
    second = np.zeros((*first.shape, first.shape[1]))
    for row, share in zip(values, shares, strict=True):
        seen, lost = ~np.isnan(row), np.isnan(row)
        for k, (mean, covariance) in enumerate(zip(found["means"], covariances, strict=True)):
            filled, spare = np.where(seen, row, mean), np.zeros_like(covariance)
            if lost.any() and not model.gaussians.joint:
                filled[lost] = centre[lost]  # an independent column that is missing adds nothing
            elif lost.any():
                gain = covariance[np.ix_(lost, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
                filled[lost] += gain @ (row[seen] - mean[seen])
                spare[np.ix_(lost, lost)] = (
                    covariance[np.ix_(lost, lost)] - gain @ covariance[np.ix_(seen, lost)]
                )
            first[k] += share[k] * (filled - centre)
            second[k] += share[k] * (np.outer(filled - centre, filled - centre) + spare)
    return shares.sum(0), first, second


@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(list(COVARIANCES)),
    holes=st.sampled_from([0.0, 0.2, 0.6]),
)
@settings(max_examples=15, deadline=None)
def test_statistics_are_the_textbooks(seed, kind, holes):
    values = table(seed, rows=30, holes=holes)
    if holes == 0:
        values = values[1:]
    weights = np.random.default_rng(seed).integers(0, 3, len(values)).astype(float)
    weights[:3] = 1
    model = model_of(values, 2, kind)
    found = some_parameters(model, values, seed)
    mass, first, second = moments_by_hand(values, weights, model, found)
    if not model.gaussians.joint:
        second = np.einsum("kii->ki", second)
    told = model.expected_statistics(Rows(values, weights), found, Fill())
    scale = np.abs(second).max() + 1
    np.testing.assert_allclose(told["mass"], mass, atol=1e-9)
    np.testing.assert_allclose(told["first"] / scale, first / scale, atol=1e-9)
    np.testing.assert_allclose(told["second"] / scale, second / scale, atol=1e-9)
    assert told["count"] == weights.sum()


@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(list(COVARIANCES)),
    how=st.sampled_from(["expectation", "mode", "variational"]),
    extra=st.sampled_from(["none", "noise", "tails", "labels"]),
)
@settings(max_examples=12, deadline=None)
def test_every_turn_climbs(seed, kind, how, extra):
    values = table(seed, rows=60)
    labels = (
        np.where(np.arange(60) < 5, 0, np.where(np.arange(60) > 55, 1, -1)) if extra == "labels" else None
    )
    options = {"weak": True}
    if extra == "tails" and how != "variational":
        options["freedom"] = math.nan
    if extra == "noise":
        options["box"] = np.array([np.nanmin(values, 0), np.nanmax(values, 0)])
    model = model_of(values, 2, kind, **options)
    # A fall is an error of the driver, but for rounding.
    found = fit_em(model, Rows(values, None, labels), fill=how, start="random", seed=seed, tolerance=1e-3)
    assert (np.diff(found.best.trace) > -1e-5).all()
    again = fit_em(
        model,
        Rows(values, None, labels),
        fill=how,
        start="random",
        seed=seed,
        tolerance=1e-3,
        acceleration="squarem",
    )
    assert again.best.objective >= found.best.trace[0]
    vector = model.as_vector(found.parameters)
    back = model.from_vector(vector, found.parameters)
    assert back.keys() == found.parameters.keys()
    for name, value in found.parameters.items():
        np.testing.assert_allclose(back[name], value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_the_maximum_with_holes_is_that_of_a_general_optimiser(kind):
    values = table(3, rows=60, dim=2)
    model = model_of(values, 2, kind)
    found = fit_em(model, Rows(values), tolerance=1e-12, acceleration="squarem", max_iterations=3000)
    start = model.as_vector(found.parameters)

    def loss(vector):
        return -model.log_likelihood(Rows(values), model.from_vector(vector, found.parameters)).sum()

    # From a distance away, a general optimiser comes back to the same value and finds none that is better.
    away = start + 0.1 * np.random.default_rng(0).normal(size=len(start))
    best = minimize(loss, away, method="BFGS", options={"gtol": 1e-5, "maxiter": 500})
    assert -best.fun == pytest.approx(found.best.objective, abs=1e-4)


def test_old_faithful_with_and_without_holes(data_path):
    references = data_path.parent / "refs" / "gmm"
    if not references.exists():
        pytest.skip("the reference solutions are not here")
    values = np.genfromtxt(references / "faithful.csv", delimiter=",", skip_header=1)[:, -2:]
    told = json.loads((references / "faithful_reference.json").read_text())
    holes = values.copy()
    holes[4::5, 1] = holes[2::7, 0] = np.nan
    for name, expected in told.items():
        kind, count = name.removeprefix("missing_").split("_")
        data = Rows(holes if name.startswith("missing") else values)
        model = model_of(data.values, int(count), {"diag": "diagonal"}.get(kind, kind))
        found = fit_em(model, data, tolerance=1e-11, acceleration="squarem")
        assert found.best.objective == pytest.approx(expected["loglik"], abs=1e-6)
        order = np.argsort(found.parameters["means"][:, 0])
        for part in ("weights", "means"):
            np.testing.assert_allclose(found.parameters[part][order], expected[part], rtol=2e-4)
        if "n_par" in expected:
            assert len(model.as_vector(found.parameters)) == expected["n_par"]


def test_imputation_is_the_conditional_mean():
    values = table(5)
    model = model_of(values, 2)
    found = some_parameters(model, values, 2)
    row = np.array([[0.7, np.nan, -0.4]])
    filled = model.impute(Rows(row), found)[0]

    def weight(x):
        return math.exp(model.log_likelihood(Rows(np.array([[0.7, x, -0.4]])), found)[0])

    mass = quad(weight, -60, 60, limit=400, points=[filled[1]])[0]
    mean = quad(lambda x: x * weight(x), -60, 60, limit=400, points=[filled[1]])[0] / mass
    assert mass == pytest.approx(math.exp(model.log_likelihood(Rows(row), found)[0]), rel=1e-6)
    assert filled.tolist() == pytest.approx([0.7, mean, -0.4], rel=1e-6)
    draws = model.sample_missing(Rows(np.repeat(row, 20_000, axis=0)), found, np.random.default_rng(0))
    second = quad(lambda x: x * x * weight(x), -60, 60, limit=400, points=[filled[1]])[0] / mass
    assert draws[:, 1].mean() == pytest.approx(mean, abs=5 * draws[:, 1].std() / 140)
    assert draws[:, 1].std() == pytest.approx(math.sqrt(second - mean**2), rel=0.05)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_what_is_sampled_is_learned_back(kind):
    values = table(6, dim=2)
    for options in ({}, {"freedom": 4.0}):
        model = model_of(values, 2, kind, **options)
        truth = some_parameters(model, values, 1)
        drawn = model.sample(6000, truth, np.random.default_rng(0))
        free = model.expected_statistics(Rows(drawn.values, None, drawn.labels), truth, Fill())
        found = model.maximize(free, truth)
        for name in ("weights", "means"):
            np.testing.assert_allclose(found[name], truth[name], atol=0.25 * np.nanstd(values))


def test_variational_bayes_beside_the_evidence_of_one_gaussian():
    """With one component and no holes, the lower bound is the evidence, which is known."""
    from scipy.special import multigammaln

    values = table(7, rows=12, dim=2, holes=0)[1:]
    model = model_of(values, 1, weak=True)
    found = fit_em(model, Rows(values), fill="variational", tolerance=1e-13)
    prior, (count, dim) = model.gaussians.prior, values.shape
    mean = values.mean(0)
    strength, freedom = prior.strength + count, prior.freedom + count
    away = mean - prior.mean
    scale = np.diag(prior.scale) + (values - mean).T @ (values - mean)
    scale += prior.strength * count / strength * np.outer(away, away)
    expected = -count * dim / 2 * math.log(math.pi) + dim / 2 * math.log(prior.strength / strength)
    expected += multigammaln(freedom / 2, dim) - multigammaln(prior.freedom / 2, dim)
    expected += prior.freedom / 2 * np.log(prior.scale).sum() - freedom / 2 * np.linalg.slogdet(scale)[1]
    assert found.best.objective == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_draws_have_the_mean_of_the_conjugate_posterior(kind):
    values = table(8, rows=30, dim=2, holes=0)[1:]
    model = model_of(values, 1, kind, weak=True)
    start = some_parameters(model, values)
    posterior = model.posterior(model.expected_statistics(Rows(values), start, Fill()))
    random = np.random.default_rng(0)
    drawn = [model.draw(posterior, random) for _ in range(400)]
    if kind == "full":  # without holes and with one component, Gibbs sampling draws from the same
        drawn = fit_em(model, Rows(values), fill="gibbs", max_iterations=400).draws
    exact = model.mean(posterior)
    for name in ("means", "covariances"):
        stacked = np.array([each[name] for each in drawn])
        assert (np.abs(stacked.mean(0) - exact[name]) < 5 * stacked.std(0) / math.sqrt(len(drawn))).all()


def test_labels_and_noise_and_tails():
    random = np.random.default_rng(0)
    values = np.concatenate([random.normal(size=(60, 2)), random.normal(size=(60, 2)) + 2.5, [[40.0, -40.0]]])
    labels = np.full(121, -1)
    labels[[0, 1, 60, 61]] = [1, 1, 0, 0]
    model = model_of(values[:-1], 2)
    found = fit_em(model, Rows(values[:-1], None, labels[:-1]))
    assert found.parameters["means"][0].sum() > found.parameters["means"][1].sum()
    shares = model.infer(Rows(values[:-1], None, labels[:-1]), found.parameters)
    np.testing.assert_array_equal(shares[[0, 1, 60, 61]], [[0, 1], [0, 1], [1, 0], [1, 0]])
    noisy = model_of(values, 2, box=np.array([values.min(0), values.max(0)]))
    robust = fit_em(noisy, Rows(values), start="random", restarts=4)
    assert noisy.outlyingness(Rows(values), robust.parameters).argmax() == 120
    tails = model_of(values, 2, freedom=math.nan)
    options = {"tolerance": 1e-3, "acceleration": "squarem"}
    learned = fit_em(tails, Rows(values), start="random", restarts=4, seed=1, **options).parameters
    assert tails.outlyingness(Rows(values), learned).argmax() == 120
    assert max(np.abs(robust.parameters["means"]).max(), np.abs(learned["means"]).max()) < 4


def test_a_collapse_is_named_with_its_rows():
    values = np.concatenate([np.random.default_rng(0).normal(size=(30, 2)), np.full((3, 2), 7.0)])
    with pytest.raises(
        CollapseError, match=r"component \d has collapsed.*on rows 30, 31, 32\. Try more restarts"
    ):
        fit_em(model_of(values, 2), Rows(values))
    fit_em(model_of(values, 2, weak=True), Rows(values))  # a prior holds it


def test_a_prior_has_no_likely_singular_covariances():
    """What a leap makes close to singular is less likely than what it leapt from, or refused: never likelier."""
    random = np.random.default_rng(0)
    centre, spread = np.zeros(6), np.ones(6)
    family = Gaussians("full", centre, spread, NormalPrior.weak("full", centre, spread, 2))
    plain = family.log_prior({"means": np.zeros((1, 6)), "covariances": np.eye(6)[None]})
    for _ in range(200):
        root = np.tril(random.normal(size=(6, 6))) * 10.0 ** random.uniform(-9, 3, 6)
        given = {"means": np.zeros((1, 6)), "covariances": (root @ root.T)[None]}
        with contextlib.suppress(np.linalg.LinAlgError):
            assert family.log_prior(given) < plain + 200
