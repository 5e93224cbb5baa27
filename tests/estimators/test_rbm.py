"""Restricted Boltzmann machines as estimators: stochastic learning, holes, log Z, and what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import hiddenfield as hf
from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.estimators import RestrictedBoltzmannMachine


def table(rows=400, seed=0):
    """Return numbers and symbols that hang together, with holes."""
    random = np.random.default_rng(seed)
    group = random.integers(2, size=rows)
    colour = np.array(["red", "green", "blue"], object)[
        np.where(group, random.choice(3, rows, p=[0.8, 0.1, 0.1]), 2)
    ]
    wet = np.where(random.random(rows) < np.where(group, 0.9, 0.2), "yes", "no").astype(object)
    size = random.normal(10 + 3 * group, 1.0)
    colour[::7], wet[::5], size[::4] = None, None, np.nan
    return {"colour": colour.tolist(), "wet": wet.tolist(), "size": size.tolist()}, group


@pytest.fixture(scope="module")
def learned():
    rows, _ = table()
    options = {"epochs": 60, "learning_rate": 0.02, "l2": 0.1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {
            method: RestrictedBoltzmannMachine(3, method, **options).fit(rows)
            for method in ("exact", "persistent", "contrastive")
        }


def test_chains_learn_nearly_what_sums_do(learned):
    rows, _ = table(seed=1)
    best = learned["exact"].score(rows)
    assert learned["persistent"].score(rows) > best - 0.1
    assert learned["contrastive"].score(rows) > best - 0.2
    for model in learned.values():
        assert model.log_partition_error_ == 0.0
        whole = {name: column[1:4] for name, column in rows.items()}
        energies = model.model_.machine(model.parameters_).free_energy(
            model.model_.encode(model._read(whole).values)[0]
        )
        np.testing.assert_allclose(model.free_energy(whole), energies)
        assert model.learned_.best.objective == pytest.approx(
            model.log_likelihood(table()[0]).sum() + model.model_.log_prior(model.parameters_)
        )


def test_weights_count_as_rows_and_precisions_have_a_prior():
    rows = {"size": [5.0] * 50, "wet": ["yes", "no"] * 25}
    options = {"epochs": 60, "learning_rate": 0.3, "kinds": {"size": "continuous"}}
    kept = RestrictedBoltzmannMachine(2, "persistent", smoothing=50.0, **options).fit(rows)
    free = RestrictedBoltzmannMachine(2, "persistent", smoothing=0.0, **options).fit(rows)
    assert np.exp(kept.parameters_["log_precision"]) < 4
    assert np.exp(free.parameters_["log_precision"]) > 100
    size = {}
    for weight in (1.0, 100.0):
        model = RestrictedBoltzmannMachine(2, "persistent", l2=100.0, epochs=60, learning_rate=0.1)
        model.fit(table(rows=50)[0], sample_weight=np.full(50, weight))
        size[weight] = np.abs(model.parameters_["weights"]).max()
    assert size[1.0] < size[100.0] / 2


def test_missing_cells_follow_the_rest_of_their_rows(learned):
    rows, group = table(seed=2)
    whole = {"colour": ["red", "blue"], "wet": ["yes", "no"], "size": [None, None]}
    for model in learned.values():
        filled = model.impute(rows)
        assert not any(cell is None for column in filled.values() for cell in column)
        large, small = model.impute(whole)["size"]
        assert large > 12 > 11 > small
        lost = np.flatnonzero([cell is None for cell in rows["colour"]])
        right = np.array(filled["colour"])[lost] == np.where(group[lost], "red", "blue")
        assert right.mean() > 0.8
        drawn = model.sample_missing(rows, 2, random_state=0)
        assert drawn[0]["size"] != drawn[1]["size"]
        again = model.reconstruct(whole)
        assert again["colour"] == ["red", "blue"]
        assert again["size"][0] > again["size"][1]
        sampled, hidden = model.sample(300, random_state=1)
        assert set(sampled["colour"]) == {"red", "green", "blue"}
        assert hidden.shape == (300, 3)
        assert np.mean(sampled["size"]) == pytest.approx(11.5, abs=0.6)


def test_many_hidden_variables_are_annealed_and_saved(tmp_path, monkeypatch):
    monkeypatch.setattr("hiddenfield.models.rbm.EXACT_LOG_PARTITION", 0)
    rows, _ = table(rows=60)
    model = RestrictedBoltzmannMachine(11, epochs=3, batch_size=20).fit(rows)
    exact = RestrictedBoltzmannMachine(11, "exact", max_iterations=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        exact.fit(rows)
    exact.parameters_ = {n: v for n, v in model.parameters_.items() if n != "log_partition"}
    value, error = model.log_partition_, model.log_partition_error_
    assert 0 < error < 0.2
    assert abs(exact.log_partition_ - value) < 4 * error + 0.02
    np.testing.assert_allclose(model.log_likelihood(rows), exact.log_likelihood(rows), atol=0.5)
    np.testing.assert_allclose(model.transform(rows), exact.transform(rows), atol=0.2)
    model.save(tmp_path / "model")
    loaded = hf.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.log_likelihood(rows), model.log_likelihood(rows))
    again = clone(model).fit(rows)
    np.testing.assert_array_equal(again.parameters_["weights"], model.parameters_["weights"])
    weighted = clone(model).set_params(epochs=2).fit(rows, sample_weight=np.arange(60.0))
    assert np.isfinite(weighted.score(rows))


@pytest.mark.bad_input
def test_what_cannot_be_is_refused():
    rows, _ = table(rows=30)
    for model, message in (
        (RestrictedBoltzmannMachine(method="gradient"), "'method' parameter"),
        (RestrictedBoltzmannMachine(30, "exact"), "use method='persistent'"),
        (RestrictedBoltzmannMachine(fill="gibbs"), "no conjugate prior"),
        (RestrictedBoltzmannMachine(start="k_means"), "starts from 'random' weights"),
        (RestrictedBoltzmannMachine(2, "persistent", restarts=2), "use restarts=1, got 2"),
    ):
        with pytest.raises(InputError, match=message):
            model.fit(rows)
    model = RestrictedBoltzmannMachine(2, l2=1.0).fit(rows)
    with pytest.raises(InputError, match="several hidden variables"):
        model.icl(rows)
    model = RestrictedBoltzmannMachine(2, "persistent", epochs=1).fit(rows)
    assert model.scores(rows).shape == (30, model.num_free_)
    with pytest.raises(InputError, match="standard errors are of a maximum"):
        model.standard_errors(rows)
    model = RestrictedBoltzmannMachine(11, epochs=1).fit({"wet": rows["wet"]})
    with pytest.raises(InputError, match="log Z is estimated"):
        model.scores({"wet": rows["wet"]})
