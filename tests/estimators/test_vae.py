"""Variational autoencoders as estimators: what low-order models miss, holes, saving, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.estimators import VariationalAutoencoder
from hiddenfield.models.vae import LearnedAutoencoder


def test_a_curve_is_found_and_holes_are_filled_along_it(tmp_path):
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, 600)
    rows = {
        "x": x,
        "y": x**2 + 0.05 * random.normal(size=600),
        "side": np.where(x > 0, "right", "left").tolist(),
    }
    holed = {
        name: [None if k % 5 == j else v for k, v in enumerate(rows[name])] for j, name in enumerate(rows)
    }
    model = VariationalAutoencoder(2, max_iterations=100).fit(holed)
    filled = model.impute({"x": [-0.8, 0.0, 0.8], "y": [None] * 3, "side": [None] * 3})
    assert filled["y"] == pytest.approx([0.64, 0.0, 0.64], abs=0.2)
    assert [filled["side"][0], filled["side"][2]] == ["left", "right"]
    drawn, hidden = model.sample(400, random_state=0)
    away = np.array(drawn["y"]) - np.array(drawn["x"]) ** 2
    assert np.abs(away).mean() < 0.25
    assert hidden.shape == (400, 2)
    model.save(tmp_path / "model")
    loaded = hf.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(holed), model.transform(holed))
    further = VariationalAutoencoder(2, start=model.parameters_, max_iterations=1).fit(holed)
    assert further.score(holed) > model.score(holed) - 0.5


def test_the_prior_is_shared_by_weights_and_memory_bounded(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(40, 2))
    precision = {}
    for weight in (1.0, 1000.0):
        model = VariationalAutoencoder(1, hidden=4, smoothing=1000.0, max_iterations=40, learning_rate=0.3)
        model.fit(rows, sample_weight=np.full(40, weight))
        precision[weight] = model.parameters_["log_precision"]
    assert (np.abs(precision[1.0]) < 0.3).all()
    assert (np.abs(precision[1000.0] - precision[1.0]) > 0.4).all()
    before, seen = model.log_likelihood(rows), []
    weigh = LearnedAutoencoder.weigh

    def watched(self, network, units, *rest):
        seen.append(len(units))
        return weigh(self, network, units, *rest)

    monkeypatch.setattr(LearnedAutoencoder, "weigh", watched)
    monkeypatch.setattr("hiddenfield.models.vae.CHUNK", 3 * 4 * model.draws)
    np.testing.assert_allclose(model.log_likelihood(rows), before)
    assert max(seen) == 3


@pytest.mark.bad_input
def test_what_cannot_be_is_refused():
    rows = np.random.default_rng(0).normal(size=(20, 2))
    for model, message in (
        (VariationalAutoencoder(beta=2.0), "use samples=1, got samples=5"),
        (VariationalAutoencoder(fill="gibbs"), "'fill' parameter"),
        (VariationalAutoencoder(start="k_means"), "starts from 'random' weights"),
        (VariationalAutoencoder(restarts=2), "use restarts=1"),
        (VariationalAutoencoder(num_latent=0), "'num_latent' parameter"),
    ):
        with pytest.raises(InputError, match=message):
            model.fit(rows)
    model = VariationalAutoencoder(max_iterations=1).fit(rows)
    with pytest.raises(InputError, match="choose by cross_validation"):
        model.icl(rows)
    with pytest.raises(InputError, match="has no standard errors"):
        model.standard_errors(rows)
