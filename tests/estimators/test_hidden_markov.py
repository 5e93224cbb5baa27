"""HiddenMarkovModel: every form of input, forecasts by definition, holes, scikit-learn's checks, saving."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import hiddenfield as hf
from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.estimators import HiddenMarkovModel

TEXTS = ["aababcababbcc", "abbccabca", "c", "abcabccbaab"]


@pytest.fixture(scope="module")
def letters():
    return HiddenMarkovModel(2, tolerance=1e-4, start="random").fit(TEXTS)


@pytest.fixture(scope="module")
def series():
    """Two columns of numbers and a count, with holes, in sequences of unequal length, and a model of them."""
    random = np.random.default_rng(0)
    hidden = [np.repeat([0, 1, 0, 1], size) for size in (5, 8, 3)]
    found = []
    for path in hidden:
        values = 4.0 * path[:, None] + random.normal(size=(len(path), 3))
        values[:, 2] = random.poisson(1 + 6 * path)
        values[random.random(values.shape) < 0.2] = np.nan
        found.append(values)
    found[1][3] = np.nan
    model = HiddenMarkovModel(2, prior="weak", kinds={2: "count"}, tolerance=1e-4).fit(found)
    return found, hidden, model


def test_forms_of_symbols_agree(letters, tmp_path):
    """A pack, a FASTA file, texts, lists, and a table with the rows of two sequences in turns."""
    values = letters.log_likelihood(TEXTS)
    (tmp_path / "texts.fasta").write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(TEXTS)))
    pack = hf.data.from_sequences(TEXTS)
    for form in (pack, hf.read(tmp_path / "texts.fasta"), np.array(TEXTS, object).tolist()):
        np.testing.assert_allclose(letters.log_likelihood(form), values)
    assert [each.tolist() for each in letters.predict(pack)] == [
        each.tolist() for each in letters.predict(TEXTS)
    ]

    rows = [
        (name, symbol)
        for pair in zip(TEXTS[0], TEXTS[1], strict=False)
        for name, symbol in zip("xy", pair, strict=True)
    ]
    rows += [("x", symbol) for symbol in TEXTS[0][len(TEXTS[1]) :]]
    table = {"who": [name for name, _ in rows], "symbol": [symbol for _, symbol in rows]}
    by_table = clone(letters).set_params(sequence="who", start=letters.parameters_, max_iterations=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        by_table.fit(table)
    assert by_table.learned_.best.trace[0] == pytest.approx(values[:2].sum())
    by_table.parameters_ = letters.parameters_
    states = by_table.predict(table)
    np.testing.assert_array_equal(states[np.array(table["who"]) == "x"], letters.predict(TEXTS)[0])


def test_trees_in_two_forms():
    parents = [[-1, 0, 0, 1, 1], [1, 2, -1]]
    symbols = [list("aabba"), list("bab")]
    pack = hf.data.from_parents(parents, node_labels=symbols, arc_labels="direction")
    frame = {
        "tree": [0] * 5 + [1] * 3,
        "above": [None if above < 0 else above for tree in parents for above in tree],
        "label": [symbol for tree in symbols for symbol in tree],
    }
    fits = []
    for X, options in ((pack, {}), (frame, {"sequence": "tree", "parent": "above"})):
        model = HiddenMarkovModel(2, start="random", tolerance=1e-3, concentration=1.5, **options).fit(X)
        assert model.posterior(X)[0].shape in ((5, 2), (2,))
        fits.append(model)
    one, two = fits
    np.testing.assert_allclose(one.log_likelihood(pack), two.log_likelihood(frame))
    np.testing.assert_array_equal(np.concatenate(one.predict(pack)), two.predict(frame))
    drawn, states = one.sample(parents=parents, random_state=0)
    assert [len(each["label"]) for each in drawn] == [len(each) for each in states] == [5, 3]
    with pytest.raises(InputError, match="a forecast is of sequences"):
        one.forecast(pack)


def test_a_forecast_is_a_ratio_of_likelihoods(letters):
    past = "abca"
    forecast = letters.forecast([past], 2)
    before = letters.log_likelihood([past])[0]
    gap = clone(letters).set_params(missing=("?",))
    for name in ("columns_", "centre_", "spread_", "model_", "parameters_"):
        setattr(gap, name, getattr(letters, name))
    for j, symbol in enumerate("abc"):
        one = np.exp(letters.log_likelihood([past + symbol])[0] - before)
        assert forecast.probabilities["symbol"][0, 0, j] == pytest.approx(one, rel=1e-9)
        two = np.exp(gap.log_likelihood([past + "?" + symbol])[0] - before)
        assert forecast.probabilities["symbol"][0, 1, j] == pytest.approx(two, rel=1e-9)
    np.testing.assert_allclose(letters.forecast([""], 1).states[0, 0], letters.initial_)


def test_holes_in_series(series):
    X, hidden, model = series
    right = np.concatenate([a == b for a, b in zip(model.predict(X), hidden, strict=True)]).mean()
    assert max(right, 1 - right) > 0.9
    filled = model.impute(X)
    draws = model.sample_missing(X, 2, random_state=0)
    for own in (filled, *draws):
        for before, after in zip(X, own, strict=True):
            assert np.isfinite(after).all()
            np.testing.assert_array_equal(after[~np.isnan(before)], before[~np.isnan(before)])
    nothing = np.full((4, 3), np.nan)
    assert model.log_likelihood([nothing])[0] == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(model.posterior([nothing])[0][1], model.initial_ @ model.transitions_)
    longer = np.concatenate([X[0], nothing])
    assert model.log_likelihood([longer])[0] == pytest.approx(model.log_likelihood(X)[0])
    forecast = model.forecast(X, 3)
    assert forecast.mean["x0"].shape == forecast.deviation["x2"].shape == (3, 3)
    # A hole beyond the end is filled by the forecast.
    np.testing.assert_allclose(model.impute([longer])[0][-4, 0], forecast.mean["x0"][0, 0])


def test_a_data_frame_comes_back_as_one(series):
    pandas = pytest.importorskip("pandas")
    X, _, model = series
    frame = pandas.DataFrame(np.concatenate(X), columns=["u", "v", "c"])
    frame["who"] = np.repeat(["p", "q", "r"], [len(each) for each in X])
    own = HiddenMarkovModel(2, prior="weak", kinds={"c": "count"}, sequence="who", tolerance=1e-4).fit(frame)
    np.testing.assert_allclose(own.log_likelihood(frame), model.log_likelihood(X), rtol=1e-6)
    filled = own.impute(frame)
    assert list(filled.columns) == ["u", "v", "c", "who"]
    assert not filled.isna().any().any()
    assert own.predict(frame).shape == (len(frame),)


def test_criteria_weights_and_saving(series, tmp_path):
    X, _, model = series
    value = model.log_likelihood(X).sum()
    steps = sum((~np.isnan(each).all(1)).sum() for each in X)
    assert model.bic(X) == pytest.approx(model.num_free_ * np.log(steps) - 2 * value)
    assert model.icl(X) >= model.bic(X)
    assert model.score(X) == pytest.approx(value / 3)
    options = {"start": model.parameters_, "max_iterations": 2, "acceleration": "none"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weighted = clone(model).set_params(**options).fit(X, sample_weight=[2, 0, 1])
        copied = clone(model).set_params(**options).fit([X[0], X[0], X[2]])
    np.testing.assert_allclose(weighted.transitions_, copied.transitions_, rtol=1e-6)
    model.save(tmp_path / "model")
    loaded = hf.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.log_likelihood(X), model.log_likelihood(X))
    assert loaded.get_params() == model.get_params()


def test_draws_one_at_a_time(series):
    X, _, model = series
    drawn = clone(model).set_params(fill="gibbs", sampler="one_at_a_time", max_iterations=20).fit(X)
    assert drawn.parameters_.keys() == model.parameters_.keys()
    assert drawn.learned_.draws
    assert drawn.learned_.draws[0].keys() == model.parameters_.keys()


def test_texts_and_packs_are_filled_in():
    texts = ["aab?abbb", "abbb?aab"]
    model = HiddenMarkovModel(2, missing=("?",), start="random", tolerance=1e-3).fit(texts)
    filled = model.impute(texts)
    assert all(
        own in (text.replace("?", "a"), text.replace("?", "b"))
        for own, text in zip(filled, texts, strict=True)
    )
    pack = model.impute(hf.data.from_sequences(texts))
    assert hf.data.to_sequences(pack) == filled
    assert model.impute([list(texts[0])])[0] == list(filled[0])


def test_left_to_right():
    texts = ["aaabbbccc", "aabbbbcc", "abbcccc"]
    model = HiddenMarkovModel(3, transitions="left_to_right").fit(texts)
    assert model.initial_.tolist() == [1, 0, 0]
    assert (np.tril(model.transitions_, -1) == 0).all()
    assert model.transitions_[0, 2] == 0
    assert model.predict(["aabbc"])[0].tolist() == [0, 0, 1, 1, 2]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("options", "X", "message"),
    [
        ({}, [], "no sequences"),
        ({}, [np.array([1.0, np.inf, 2.5])], "infinit"),
        ({"kinds": "continuous"}, [np.ones(5)], "single value"),
        ({}, [np.array([1.5, 2.5]), np.ones((2, 2))], "entries 0 and 1 of X are not alike"),
        ({"initial": [0.5, 0.6]}, TEXTS, "initial must be 2 probabilities"),
        ({"transitions": [[1, 0]]}, TEXTS, "2 x 2 matrix"),
        ({"sequence": "who"}, {"x": [1.5, 2.5]}, "who"),
        ({"fill": "gibbs", "initial": "stationary"}, TEXTS, "no conjugate prior"),
    ],
)
def test_bad_input_is_named(options, X, message):
    with pytest.raises(InputError, match=message):
        HiddenMarkovModel(2, **options).fit(X)


def test_a_symbol_that_was_not_there(letters):
    with pytest.raises(InputError, match="'d'"):
        letters.predict(["abd"])


# The rows of a table are steps of one sequence: what holds of each depends on the others and on their order.
IN_ORDER = "the rows are steps of a sequence"
EXPECTED = {
    "check_methods_subset_invariance": IN_ORDER,
    "check_methods_sample_order_invariance": IN_ORDER,
    "check_sample_weight_equivalence_on_dense_data": "weights are of sequences",
    "check_sample_weights_not_overwritten": "weights are of sequences",
    "check_sample_weights_list": "weights are of sequences",
    "check_sample_weights_shape": "weights are of sequences",
    "check_sample_weights_not_an_array": "weights are of sequences",
    "check_sample_weights_pandas_series": "weights are of sequences",
    "check_all_zero_sample_weights_error": "weights are of sequences",
    "check_fit2d_1sample": "one step has no variance",
}


@pytest.mark.bad_input
def test_scikit_learn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            HiddenMarkovModel(2, prior="weak", max_iterations=5, start="k_means"),
            expected_failed_checks=EXPECTED,
            on_fail=None,
        )
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed, failed
