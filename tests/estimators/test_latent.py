"""What every estimator of a model with something hidden does, over the registry: a new one is tested by its entry."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import hiddenfield as hf
from hiddenfield.errors import CollapseError, ConvergenceWarning, HiddenfieldError, InputError, ReadError
from hiddenfield.estimators import (
    LATENT,
    BayesianNetwork,
    FactorAnalysis,
    GaussianMixture,
    HiddenMarkovModel,
    MarkovNetwork,
    MixedMixture,
    PartialLeastSquares,
    ProbabilisticPCA,
    choose_size,
)
from hiddenfield.learning import Shards
from hiddenfield.learning.protocol import Fill
from hiddenfield.models.gaussians import COVARIANCES

# What an entry cannot do with a plain table of numbers, or needs for it.
OPTIONS: dict[str, dict] = {"gaussian_mixture": {"prior": "weak", "num_components": 2}}
NAMES = [
    name
    for name in LATENT
    if LATENT.facts(name)["data"] == "table" and not {"symbols", "targets"} & LATENT.facts(name).keys()
]


def numbers(rows=60, holes=0.2, seed=0):
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, 4)) @ random.normal(size=(4, 4))
    values[: rows // 2] += 3
    values[random.random(values.shape) < holes] = np.nan
    return values


@pytest.fixture(scope="module", params=NAMES)
def fitted(request):
    name = request.param
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LATENT[name](**OPTIONS.get(name, {}), max_iterations=30).fit(numbers())


@pytest.mark.parametrize("name", LATENT)
def test_entries_say_what_they_are(name):
    facts = LATENT.facts(name)
    assert {"summary", "reference", "data"} <= facts.keys()
    assert facts["data"] in ("table", "sequences", "documents")
    assert getattr(hf.estimators, LATENT[name].__name__) is LATENT[name]


def test_scores_agree(fitted):
    X = numbers()
    values = fitted.log_likelihood(X)
    assert values.shape == (60,)
    assert fitted.score(X) == pytest.approx(values.mean())
    assert fitted.learned_.best.objective == pytest.approx(
        values.sum() + fitted.model_.log_prior(fitted.parameters_)
    )
    assert fitted.bic(X) - fitted.aic(X) == pytest.approx(fitted.num_free_ * (np.log(60) - 2))
    hidden = fitted.posterior(X)
    hidden = hidden.mean if hasattr(hidden, "deviation") else hidden
    assert fitted.predict(X).shape[0] == hidden.shape[0] == 60
    weights = np.arange(60.0)
    assert fitted.score(X, sample_weight=weights) == pytest.approx(np.average(values, weights=weights))


def test_a_row_without_values_says_nothing(fitted):
    nothing = np.full((1, 4), np.nan)
    assert fitted.log_likelihood(nothing)[0] == pytest.approx(0, abs=1e-9)
    assert np.isfinite(fitted.impute(nothing)).all()


def test_holes_are_filled_and_nothing_else(fitted):
    pandas = pytest.importorskip("pandas")
    X = numbers(seed=1)
    frame = pandas.DataFrame(X, columns=list("abcd"), index=np.arange(60) + 7)
    own = clone(fitted).set_params(max_iterations=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        own.fit(frame)
    filled = own.impute(frame)
    drawn = own.sample_missing(frame, 2, random_state=0)
    for each in (filled, *drawn):
        assert list(each.columns) == list("abcd")
        assert (each.index == frame.index).all()
        values = each.to_numpy(float)
        assert np.isfinite(values).all()
        np.testing.assert_allclose(values[~np.isnan(X)], X[~np.isnan(X)])
    holes = np.isnan(X)
    assert (drawn[0].to_numpy(float)[holes] != drawn[1].to_numpy(float)[holes]).any()
    again = own.sample_missing(frame, 2, random_state=0)
    np.testing.assert_array_equal(again[1], drawn[1])
    assert type(fitted.impute(X)) is np.ndarray


def test_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = hf.load(tmp_path / "model")
    X = numbers(seed=2)
    np.testing.assert_array_equal(loaded.log_likelihood(X), fitted.log_likelihood(X))
    np.testing.assert_array_equal(loaded.impute(X), fitted.impute(X))
    assert loaded.get_params() == fitted.get_params()
    assert loaded.num_free_ == fitted.num_free_
    assert [run.trace for run in loaded.learned_.runs] == [run.trace for run in fitted.learned_.runs]
    assert sorted(file.name for file in (tmp_path / "model").iterdir()) == ["model.json", "model.safetensors"]
    description = json.loads((tmp_path / "model" / "model.json").read_text())
    (tmp_path / "model" / "model.json").write_text(json.dumps(description | {"kept": {}}))
    with pytest.raises(ReadError, match="does not fit its checksum"):
        hf.load(tmp_path / "model")


def test_free_coordinates(fitted):
    vector = fitted.model_.as_vector(fitted.parameters_)
    assert vector.shape == (fitted.num_free_,)
    back = fitted.model_.from_vector(vector, fitted.parameters_)
    X = numbers()
    data = fitted._read(X)
    before = fitted.model_.log_likelihood(data, fitted.parameters_)
    np.testing.assert_allclose(fitted.model_.log_likelihood(data, back), before, rtol=1e-8)
    # Each of them moves something.
    for i in range(len(vector)):
        moved = fitted.model_.from_vector(vector + 1e-3 * (np.arange(len(vector)) == i), fitted.parameters_)
        assert any(not np.array_equal(moved[name], back[name]) for name in back)


def mixed():
    """Return two sequences of numbers, counts and symbols with holes."""
    values, random = numbers(rows=40), np.random.default_rng(1)
    counts, words = random.poisson(3.0, 40).astype(float), random.choice(["a", "b", "c"], 40).astype(object)
    counts[::7], words[::5] = np.nan, None
    return {
        "x": values[:, 0],
        "y": values[:, 1],
        "n": counts,
        "w": words.tolist(),
        "id": ["s"] * 25 + ["t"] * 15,
    }


KINDS = {"x": "continuous", "y": "continuous", "n": "count"}
SYMBOLS = {name: ["u", "v", None, "v", "u", "v"] * 5 + ["u", "u"] for name in "abc"} | {
    "a": ["w", "v", "u", None] * 8,
    "b": ["u", "v", "v", "u", None, "u", "u", "v"] * 4,
}
SLOPES = [
    *(GaussianMixture(2, covariance=kind, prior="weak", concentration=1.5) for kind in COVARIANCES),
    GaussianMixture(2, freedom="learned", noise=True, prior=None),
    GaussianMixture(2, covariance="diagonal", freedom=4.0),
    MixedMixture(2, kinds=KINDS, drop=["id"]),
    *(
        HiddenMarkovModel(2, sequence="id", kinds=KINDS, initial=law, covariance=kind, num_components=2)
        for law, kind in (("free", "full"), ("stationary", "tied"), ((0.3, 0.7), "spherical"))
    ),
    HiddenMarkovModel(3, sequence="id", kinds=KINDS, transitions="left_to_right", concentration=2.0),
    FactorAnalysis(2),
    ProbabilisticPCA(1),
    PartialLeastSquares(1, num_own=1),
    BayesianNetwork({"a": ["b", "h"], "b": [], "c": ["h"]}, hidden={"h": 2}),
    MarkovNetwork([("a", "b"), ("b", "c", "h")], hidden={"h": 2}),
]


@pytest.mark.parametrize("model", SLOPES, ids=lambda model: type(model).__name__)
def test_slopes_are_those_of_the_objective(model):
    """Fisher's identity: the slope of the filled data is that of the observed ones, wherever one looks."""
    name = type(model).__name__
    X = (
        SYMBOLS
        if "Network" in name
        else mixed()
        if name in ("MixedMixture", "HiddenMarkovModel")
        else numbers()
    )
    y = numbers(holes=0, seed=5)[:, :1] if name == "PartialLeastSquares" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = "random" if name == "HiddenMarkovModel" else "auto"  # short runs end where there is no slope
        fitted = clone(model).set_params(max_iterations=2, start=start).fit(X, y)
    own, data = fitted.model_, fitted._read(X) if y is None else fitted._read(X, y=y)

    def objective(vector):
        given = own.from_vector(vector, fitted.parameters_)
        return float(own.expected_statistics(data, given, Fill())["objective"]) + own.log_prior(given)

    at = own.as_vector(fitted.parameters_)
    here = own.from_vector(at, fitted.parameters_)
    slope = own.gradient(own.expected_statistics(data, here, Fill()), here)
    expected = [(objective(at + step) - objective(at - step)) / 2e-5 for step in 1e-5 * np.eye(len(at))]
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_weights_count_rows(fitted):
    if not hasattr(fitted.model_, "expected_statistics"):
        pytest.skip("by stochastic gradients rows are drawn in proportion to their weights")
    X, counts = numbers(), np.arange(60) % 3
    start = dict(fitted.parameters_)
    options = {"start": start, "max_iterations": 3, "acceleration": "none"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weighted = clone(fitted).set_params(**options).fit(X, sample_weight=counts)
        copied = clone(fitted).set_params(**options).fit(np.repeat(X, counts, axis=0))
    assert weighted.learned_.best.trace == pytest.approx(copied.learned_.best.trace, rel=1e-6)
    with pytest.raises(InputError, match="the weight of row 1 is -1"):
        clone(fitted).fit(X, sample_weight=np.where(np.arange(60) == 1, -1.0, 1.0))


@pytest.mark.bad_input
def test_bad_input_is_named(fitted):
    X = numbers()
    for wrong, message in (
        (np.where(np.arange(4) == 2, np.inf, X), r"infinity"),
        (np.where(np.arange(4) == 2, np.nan, X), r"column '?x?2'? has no values"),
        (X[:0], r"0 sample|no rows|empty"),
    ):
        with pytest.raises(InputError, match=message):
            clone(fitted).fit(wrong)
    with pytest.raises(InputError, match="features"):
        fitted.score(X[:, :3])
    with pytest.raises(InputError, match="'fill' parameter"):
        clone(fitted).set_params(fill="mean").fit(X)


# The checks that do not apply, and why.
NOT_OURS: dict[str, dict[str, str]] = {
    "vae": {
        "check_sample_weight_equivalence_on_dense_data": "rows are drawn in proportion to their weights, so that a row "
        "of weight two is not in the same batches as two rows"
    }
}


@pytest.mark.parametrize("name", NAMES)
def test_all_of_scikit_learns_checks_that_apply(name):
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)  # they set parameters to what no annotation allows
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LATENT[name](**OPTIONS.get(name, {}), max_iterations=5)
            if name in ("gaussian_mixture", "mixed_mixture"):
                model.num_components = 4  # their targets have four classes
            found = check_estimator(
                model, expected_failed_checks=NOT_OURS.get(name, {}), on_fail=None, on_skip=None
            )
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    assert not {entry["check_name"]: entry["exception"] for entry in found if entry["status"] == "failed"}
    assert sum(entry["status"] == "passed" for entry in found) > 30


@pytest.mark.parametrize("name", NAMES)
def test_the_objective_climbs_on_real_tables(name, data_path):
    climbs = "stochastic" not in LATENT.facts(name)
    pandas = pytest.importorskip("pandas")
    for file in sorted((data_path / "incomplete").glob("*.csv.xz")):
        frame = pandas.read_csv(file).select_dtypes("number")
        frame = frame.loc[:, frame.nunique() > 5].iloc[:500]
        if frame.shape[1] < 2:
            continue
        model = LATENT[name](**OPTIONS.get(name, {}), max_iterations=15, tolerance=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            trace = model.fit(frame).learned_.best.trace
        falls = np.diff(trace) < -1e-7 * np.abs(trace[-1])
        assert not falls.any() if climbs else trace[-1] > trace[0], file.name
        assert np.isfinite(model.impute(frame).to_numpy(float)).all(), file.name


# -- Gaussian mixtures -------------------------------------------------------------------------------------


def test_complete_data_agree_with_scikit_learn():
    from sklearn.mixture import GaussianMixture as Peer

    X = numbers(holes=0, rows=200)
    for ours, theirs in (
        ("full", "full"),
        ("tied", "tied"),
        ("diagonal", "diag"),
        ("spherical", "spherical"),
    ):
        peer = Peer(2, covariance_type=theirs, reg_covar=0, tol=1e-9, max_iter=2000, random_state=0).fit(X)
        model = GaussianMixture(2, covariance=ours, tolerance=1e-9).fit(X)
        assert model.score(X) == pytest.approx(peer.score(X), abs=1e-5)
        assert model.bic(X) == pytest.approx(peer.bic(X), abs=1e-2)
        assert model.covariances_.shape == peer.covariances_.shape
        order, other = np.argsort(model.means_[:, 0]), np.argsort(peer.means_[:, 0])
        np.testing.assert_allclose(model.means_[order], peer.means_[other], atol=2e-2)


def test_labels_restarts_and_sizes():
    X = numbers(holes=0.1, rows=120, seed=3)
    labels = np.array([None] * 120, dtype=object)
    labels[:5], labels[-5:] = "high", "low"
    model = GaussianMixture(2, restarts=2).fit(X, labels)
    assert model.classes_.tolist() == ["high", "low"]
    assert len(model.learned_.runs) == 2
    assert (model.predict(X[:60]) == 0).mean() > 0.7
    with pytest.raises(InputError, match="y has 3 classes, and there are 2 components"):
        GaussianMixture(2).fit(X, np.arange(120) % 3)
    found = choose_size(
        GaussianMixture(covariance="spherical", prior=None),
        X,
        [1, 2, 60],
        criterion="cross_validation",
        folds=3,
    )
    assert np.isfinite(found.cross_validated[:2]).all()
    assert found.best_estimator.num_components == found.best
    assert (found.icl[:2] >= found.bic[:2] - 1e-9).all()
    assert list(found.failures) == [60]
    assert "collapsed" in found.failures[60] or "empty" in found.failures[60]


def test_multiple_imputation_of_a_mean():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2)) @ np.array([[1.0, 0.9], [0.0, 0.5]])
    X[random.random(200) < 1 / (1 + np.exp(-2 * X[:, 0])), 1] = np.nan  # large ones are lost
    model = GaussianMixture(1, fill="gibbs", max_iterations=60).fit(X)
    pooled = model.multiple_imputation(
        X, lambda filled: (filled[:, 1].mean(), filled[:, 1].var() / 200), draws=20
    )
    low, high = pooled.interval(0.99)[0]
    assert low < 0 < high
    assert not low < np.nanmean(X[:, 1]) < high
    assert len(model.learned_.draws) == 30


def test_shards_of_a_folder(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X = numbers(rows=120)
    for i in range(3):
        columns = {name: arrow.array(X[i::3, j], from_pandas=True) for j, name in enumerate("abcd")}
        parquet.write_table(arrow.table(columns), tmp_path / f"part_{i}.parquet", row_group_size=25)
    parts = Shards.parquet(tmp_path)
    assert len(parts.parts) == 6
    whole = GaussianMixture(2).fit(X)
    model = GaussianMixture(2, start=whole.parameters_, max_iterations=3).fit(parts)
    assert model.score(parts) == pytest.approx(whole.score(X), abs=1e-5)
    assert model.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(InputError, match="holds no Parquet files"):
        Shards.parquet(tmp_path / "nowhere")


def test_without_options_a_collapse_is_told_and_learned_with_a_prior(tmp_path):
    random = np.random.default_rng(0)
    X = np.column_stack([random.normal(size=60), np.repeat([0.0, 5.0], 30)])
    X[0, 0] = np.nan
    with pytest.warns(
        ConvergenceWarning, match=r"component \d has collapsed: a variance .* learned with a weak prior"
    ):
        model = GaussianMixture(2, checkpoint=tmp_path / "runs").fit(X)
    assert [len(set(part)) for part in np.split(model.predict(X), 2)] == [1, 1]
    weak = GaussianMixture(2, prior="weak").fit(X)
    np.testing.assert_allclose(model.covariances_, weak.covariances_)
    with pytest.raises(CollapseError, match="or a prior"):
        GaussianMixture(2, prior=None).fit(X)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(hf.load(tmp_path / "model").posterior(X), model.posterior(X))


@pytest.mark.parametrize("fill", ["variational", "gibbs"])
def test_tails_have_no_bayesian_fill(fill):
    with pytest.raises(InputError, match=r"which variational .* freedom=None for Gaussians"):
        GaussianMixture(2, freedom=4.0, fill=fill).fit(numbers(rows=40))


def test_sizes_are_chosen_with_known_labels():
    X = numbers(rows=60)
    labels = [0] * 5 + [None] * 55
    found = choose_size(GaussianMixture(prior="weak"), X, [1, 2], y=labels, criterion="cross_validation")
    assert np.isfinite(found.cross_validated).all()
    assert found.best_estimator.classes_.tolist() == [0]


def test_columns_of_text_are_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1.0, "red"], [2.0, "blue"]], columns=["size", "colour"])
    with pytest.raises(
        InputError, match=r"'red' \(columns \['colour'\]\); leave them out, or use MixedMixture"
    ):
        GaussianMixture(1).fit(frame)
    with pytest.raises(InputError, match=r"'size' 2 times$"):
        GaussianMixture(1).fit(frame.set_axis(["size", "size"], axis=1))


ODD = {
    "few": numbers(3, 0.1),
    "alike": np.repeat(numbers(2, 0), 10, axis=0),
    "one row": numbers(1, 0),
    "constant": np.where(np.arange(4) == 1, 2.5, numbers()),
    "empty column": np.where(np.arange(4) == 1, np.nan, numbers()),
    "empty row": np.where(np.arange(60)[:, None] == 3, np.nan, numbers()),
    "far": numbers() + 1e9,
}


@pytest.mark.parametrize("fill", ["expectation", "mode", "sample", "variational", "gibbs"])
@pytest.mark.parametrize("name", LATENT)
@pytest.mark.filterwarnings("ignore::hiddenfield.errors.ConvergenceWarning")
def test_odd_tables_are_learned_or_refused_by_an_error_of_ours(name, fill):
    facts, refused = LATENT.facts(name), set()
    for what, values in ODD.items():
        X = values
        if "symbols" in facts:
            X = np.where(np.isnan(values), None, np.where(values > np.nanmean(values), "a", "b"))
        more = {"y": values[:, 0]} if "targets" in facts else {}
        if what == "empty row" and facts["data"] == "table":
            more["sample_weight"] = (np.arange(len(values)) % 3).astype(float)
        try:
            model = LATENT[name](fill=fill, max_iterations=6).fit(X, **more)
        except HiddenfieldError:
            refused.add(what)
            continue
        assert np.isfinite(model.log_likelihood(X)).all(), what
        filled = np.asarray(model.impute(X))
        assert not any(cell is None or cell != cell for cell in filled.ravel().tolist()), what
    if refused != set(ODD):  # that of factors by the mode is refused for all
        assert not refused & {"empty row", "far"}
