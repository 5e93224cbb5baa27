"""Estimators of tables: real tables just work, types come back, folders load, mistakes are named."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import hiddenfield as hf
from hiddenfield.data import as_table
from hiddenfield.errors import InputError
from hiddenfield.estimators import LATENT, BayesianNetwork, MixedMixture
from hiddenfield.learning import Shards

TABLES = (
    "BreastCancer HouseVotes84 Ozone PimaIndiansDiabetes2 Soybean airquality boys faithful geyser iris nhanes nhanes2 "
    "penguins sleep tao titanic"
)
SPRINKLER = Path(__file__).parents[2] / "docs/examples/sprinkler.bif"
NOT_APPLICABLE = {
    "check_positive_only_tag_during_fit": "its numbers are no categories",
    "check_sample_weight_equivalence_on_dense_data": "its numbers are no categories",
}


def frame(rows: int = 80, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, rows)
    table = pd.DataFrame(
        {
            "size": 3 + 4 * group + rng.normal(size=rows),
            "kind": pd.Categorical(np.array(["ant", "bee", "cat"])[(group + rng.integers(0, 2, rows)) % 3]),
            "legs": pd.array(rng.poisson(2 + 3 * group), dtype="Int64"),
            "wild": np.where(rng.random(rows) < 0.8, group, 1 - group).astype(bool),
        }
    )
    return table.mask(rng.random(table.shape) < 0.15)


@pytest.mark.bad_input
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_is_content_with_networks():
    model = BayesianNetwork(max_iterations=50)
    results = check_estimator(model, expected_failed_checks=NOT_APPLICABLE, on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped", "xfail"}


def test_both_are_registered():
    for name, kind in (("mixed_mixture", MixedMixture), ("bayesian_network", BayesianNetwork)):
        assert LATENT.choose(name) is kind
        assert LATENT.facts(name)["data"] == "table"


@pytest.mark.parametrize("fill", ["expectation", "mode", "sample", "variational", "gibbs"])
def test_mixed_mixture_in_all_ways(tmp_path, fill):
    table = frame()
    model = MixedMixture(2, fill=fill, restarts=2, max_iterations=60, tolerance=1e-4, kinds={"legs": "count"})
    model.fit(table)
    assert [column["kind"] for column in model.columns_] == ["continuous", "categorical", "count", "binary"]
    filled = model.impute(table)
    assert not filled.isna().to_numpy().any()
    seen = table.notna()
    for name in table:
        same = filled[name][seen[name]].astype(object) == table[name][seen[name]].astype(object)
        assert same.all(), name
    model.save(tmp_path / "model")
    again = hf.load(tmp_path / "model")
    pd.testing.assert_frame_equal(again.impute(table), filled)
    np.testing.assert_array_equal(again.log_likelihood(table), model.log_likelihood(table))
    assert again.profiles() == model.profiles()
    one, other = model.sample_missing(table, 2, random_state=1)
    assert list(one.columns) == list(table.columns)
    assert not one.equals(other)
    drawn, labels = model.sample(5)
    assert (list(drawn), len(labels)) == (list(table.columns), 5)
    assert model.bic(table) > model.aic(table)


def test_classes_that_are_known_come_first():
    table = frame(60)
    y = np.where(table["size"] > 5, "large", "small").astype(object)
    y[20:] = None
    model = MixedMixture(2).fit(table, y)
    assert model.classes_.tolist() == ["large", "small"]
    means = model.profiles()["size"]["mean"]
    assert means[0] > means[1]


def test_new_tables_must_be_like_the_old():
    table = frame()
    model = MixedMixture(2).fit(table)
    strange = table.astype({"kind": object})
    strange.loc[3, "kind"] = "dog"
    with pytest.raises(InputError, match="row 3: column 'kind': 'dog' was not among the symbols"):
        model.predict(strange)
    tolerant = MixedMixture(2, unseen="missing").fit(table)
    blank = table.copy()
    blank.loc[3, "kind"] = None
    np.testing.assert_array_equal(tolerant.posterior(strange), tolerant.posterior(blank))
    nothing = table.iloc[:2].mask(np.ones((2, 4), bool))
    np.testing.assert_allclose(model.log_likelihood(nothing), 0, atol=1e-12)
    np.testing.assert_allclose(model.posterior(nothing), np.tile(model.weights_, (2, 1)))


@pytest.mark.parametrize("name", TABLES.split())
def test_real_tables_just_work(data_path, name):
    path = data_path / "incomplete" / f"{name}.csv.xz"
    model = MixedMixture(3, max_iterations=200, tolerance=1e-5).fit(path)
    trace = np.array(model.learned_.best.trace)
    assert np.all(np.diff(trace) > -1e-7 * np.abs(trace[:-1]))
    filled = as_table(model.impute(path), like=model.table_columns_)
    table = as_table(path)
    assert not filled.missing.any()
    np.testing.assert_allclose(filled.values[~table.missing], table.values[~table.missing])


def test_votes_and_penguins_show_their_groups(data_path):
    for name, label, least in (("HouseVotes84", "Class", 0.85), ("penguins", "species", 0.75)):
        table = pd.read_csv(data_path / "incomplete" / f"{name}.csv.xz")
        groups = table[label].nunique()
        model = MixedMixture(groups, restarts=4).fit(table.drop(columns=label))
        shares = pd.crosstab(model.predict(table.drop(columns=label)), table[label])
        assert shares.max(axis=1).sum() / len(table) > least


# -- networks ----------------------------------------------------------------------------------------------


def visits(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rain = rng.random(rows) < 0.3
    sprinkler = rng.random(rows) < np.where(rain, 0.05, 0.5)
    wet = rng.random(rows) < np.where(rain | sprinkler, 0.95, 0.02)
    table = pd.DataFrame({"rain": rain, "sprinkler": sprinkler, "wet": wet}).replace(
        {True: "yes", False: "no"}
    )
    return table.mask(rng.random(table.shape) < 0.1)


@pytest.mark.parametrize("fill", ["expectation", "mode", "sample", "variational", "gibbs"])
def test_networks_in_all_ways(tmp_path, fill):
    table = visits()
    model = BayesianNetwork(
        {"sprinkler": ["rain"], "wet": ["rain", "sprinkler"]}, fill=fill, max_iterations=60, tolerance=1e-4
    ).fit(table)
    assert model.guarantee_ == "exact"
    assert model.tables_["wet"][0, 0, 1] < 0.1 < 0.8 < model.tables_["wet"][1, 0, 1]
    filled = model.impute(table)
    assert list(filled.columns) == list(table.columns)
    assert not filled.isna().to_numpy().any()
    shares = model.marginal(table, "wet")
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    known = table["wet"].notna() & table["rain"].notna() & table["sprinkler"].notna()
    assert (model.predict(table, "wet")[known] == table["wet"][known]).mean() > 0.9
    model.save(tmp_path / "model")
    again = hf.load(tmp_path / "model")
    np.testing.assert_array_equal(again.log_likelihood(table), model.log_likelihood(table))
    model.write(tmp_path / "learned.bif")
    posterior = hf.infer(hf.fields.read(tmp_path / "learned.bif"), "exact", evidence={"wet": "yes"})
    row = pd.DataFrame({"rain": [None], "sprinkler": [None], "wet": ["yes"]}, dtype=object)
    rain = [posterior["rain"][state] for state in ("no", "yes")]
    np.testing.assert_allclose(rain, model.posterior(row)["rain"][0], atol=1e-6)
    assert set(model.sample(3)) == {"rain", "sprinkler", "wet"}


def test_a_hidden_variable_is_learned():
    rng = np.random.default_rng(1)
    group = rng.integers(0, 2, 400)
    table = {f"x{k}": (rng.random(400) < np.where(group, 0.9, 0.1)).astype(int).tolist() for k in range(4)}
    structure = {name: ["h"] for name in table}
    model = BayesianNetwork(structure, hidden={"h": ["u", "v"]}, restarts=3).fit(table)
    best = model.posterior(table)["h"].argmax(axis=1)
    assert max((best == group).mean(), (best != group).mean()) > 0.9
    assert "h" in model.sample(2)
    same = MixedMixture(2, restarts=3, smoothing=0.1).fit(table)
    agree = (same.predict(table) == best).mean()
    assert max(agree, 1 - agree) > 0.98


def test_networks_start_from_the_tables_of_a_file_and_say_what_is_wrong():
    table = {"rain": ["no", "yes", None], "sprinkler": ["off", "on", None], "more": ["1", "2", "3"]}
    model = BayesianNetwork(SPRINKLER, prior="laplace", strength=0.1)
    names = hf.fields.read(SPRINKLER).state_names
    table["sprinkler"] = [names[1][0], names[1][1], None]
    table["rain"] = [names[2][0], names[2][1], None]
    model.fit(table)
    assert model.network_["parents"] == [[], [0], [0], [1, 2]]
    assert model.impute(table)["more"] == ["1", "2", "3"]
    with pytest.raises(InputError, match="no column is a variable of the structure"):
        BayesianNetwork(SPRINKLER).fit({"a": [1, 2]})
    with pytest.raises(InputError, match="which takes texts and whole numbers"):
        BayesianNetwork().fit({"a": [0.5, 2]})
    with pytest.raises(InputError, match="unknown inference 'exactly'"):
        BayesianNetwork(inference="exactly").fit({"a": [0, 2]})


def test_estimates_say_so():
    model = BayesianNetwork(
        {"wet": ["rain", "sprinkler"]}, inference="loopy_bp", max_iterations=5, tolerance=1e-2
    )
    model.fit(visits(60))
    assert model.guarantee_ == "estimate"
    np.testing.assert_allclose(model.tables_["wet"].sum(axis=-1), 1)


def test_columns_that_are_dropped_stay_out():
    table = frame()
    for X, drop in ((table, ["wi*"]), (table.drop(columns="kind").astype(float).to_numpy(), ["x2"])):
        model = MixedMixture(2, drop=drop).fit(X)
        assert len(model.columns_) == X.shape[1] - 1
        assert model.predict(X).shape == (80,)


def test_what_is_too_wide_is_estimated(monkeypatch):
    monkeypatch.setattr("hiddenfield.estimators.bayesian_network.MOST_STATES", 10)
    model = BayesianNetwork({"wet": ["rain", "sprinkler"]}, max_iterations=20, tolerance=1e-3).fit(visits(60))
    assert (model.guarantee_, model.model_.inference) == ("estimate", "loopy_bp")
    exact = BayesianNetwork(model.structure, inference="exact", tolerance=1e-3).fit(visits(60))
    np.testing.assert_allclose(model.tables_["rain"], exact.tables_["rain"], atol=0.02)


@pytest.mark.parametrize(
    "model", [MixedMixture(2), BayesianNetwork({"wild": ["kind"]})], ids=lambda m: type(m).__name__
)
def test_shards_batches_leaps_and_checkpoints(tmp_path, model):
    table = frame(90)[["kind", "wild"]].astype({"kind": object})
    parts = Shards([table.iloc[:30], table.iloc[30:60], table.iloc[60:]])
    whole = clone(model).set_params(acceleration="squarem", checkpoint=tmp_path).fit(table)
    again = clone(whole).fit(table)
    np.testing.assert_array_equal(again.log_likelihood(table), whole.log_likelihood(table))
    start = {"start": whole.parameters_, "max_iterations": 20, "tolerance": 1e-4}
    sharded = clone(model).set_params(**start).fit(parts)
    assert sharded.score(table) == pytest.approx(whole.score(table), abs=1e-2)
    stepwise = clone(model).set_params(batch_size=30, **start).fit(table)
    assert stepwise.score(table) == pytest.approx(whole.score(table), abs=0.05)


def test_latent_classes_as_published():
    """Goodman (1974), Exploratory latent structure analysis: the role conflicts of Stouffer and Toby (1951)."""
    counts = np.array([42, 23, 6, 25, 6, 24, 7, 38, 1, 4, 1, 6, 2, 9, 2, 20])
    rows = np.array(list(itertools.product([1, 2], repeat=4)))
    perfect = (counts * np.log(counts / 216)).sum()
    for classes, published in ((1, 81.084), (2, 2.720)):
        model = MixedMixture(classes, smoothing=0, restarts=3, tolerance=1e-12, max_iterations=20_000)
        model.set_params(kinds="categorical", acceleration="squarem").fit(rows, sample_weight=counts)
        gap = 2 * (perfect - (model.log_likelihood(rows) * counts).sum())
        assert gap == pytest.approx(published, abs=5e-4)
    assert sorted(model.weights_.round(3)) == [0.279, 0.721]
    first = np.array([model.profiles()[f"x{j}"]["1"] for j in range(4)])[:, model.weights_.argsort()]
    np.testing.assert_allclose(
        first.T, [[0.993, 0.940, 0.927, 0.769], [0.714, 0.330, 0.354, 0.132]], atol=6e-4
    )
