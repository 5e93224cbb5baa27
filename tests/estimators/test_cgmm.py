"""Contextual graph Markov models as estimators: protocol, targets, saving, wrong input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.svm import SVC

import hiddenfield as hf
from hiddenfield.errors import InputError, ReadError, UnknownSymbolError
from hiddenfield.estimators import CGMMClassifier, CGMMEncoder, CGMMRegressor
from hiddenfield.kernels import jaccard

SMALL = {"num_states": 4, "depth": 3, "representation": "sequence"}


@pytest.fixture(scope="module")
def words():
    draw = np.random.default_rng(0)
    return ["".join(draw.choice(list("AC"), size=draw.integers(4, 12))) for _ in range(60)]


@pytest.fixture(scope="module")
def repeats(words):
    """Whether a word has more equal neighbours than different ones: nothing that single labels tell."""
    return np.array([2 * sum(a == b for a, b in itertools.pairwise(w)) > len(w) - 1 for w in words])


@pytest.fixture(scope="module")
def classifier(words, repeats):
    return CGMMClassifier(**SMALL).fit(words[:40], np.where(repeats[:40], "runs", "turns"))


def test_context_tells_what_labels_do_not(words, repeats, classifier):
    truth = np.where(repeats[40:], "runs", "turns")
    assert classifier.score(words[40:], truth) > 0.85
    alone = CGMMClassifier(**SMALL | {"depth": 1, "fingerprint": "unigram"})
    assert alone.fit(words[:40], np.where(repeats[:40], "runs", "turns")).score(words[40:], truth) < 0.75
    np.testing.assert_allclose(classifier.predict_proba(words).sum(axis=1), 1.0)


def test_any_head_and_depths_chosen_by_the_score(words, repeats):
    model = CGMMClassifier(**SMALL, head=SVC(kernel=jaccard), select="score", pool=2, patience=1)
    model.fit(words[:40], repeats[:40])
    assert model.predict(words).dtype == bool
    assert model.score(words[40:], repeats[40:]) > 0.8
    best = int(np.argmax(model.stack_.scores))
    assert len(model.stack_.layers) == best + 1
    with pytest.raises(InputError, match="the head SVC cannot be saved"):
        model.save("nowhere")


@pytest.mark.parametrize("states", ["hard", "soft"])
@pytest.mark.parametrize("previous", ["all", (1, 2)])
def test_an_encoder_is_saved_and_opened(words, states, previous, tmp_path):
    model = CGMMEncoder(**SMALL, states=states, previous=previous, pooling="mean", sparse_output=True)
    model = clone(model).fit(words)
    model.save(tmp_path / "model")
    again = hf.load(tmp_path / "model")
    found = model.transform(words)
    assert np.array_equal(again.transform(words).toarray(), found.toarray())
    assert np.array_equal(again.log_likelihood(words), model.log_likelihood(words))
    assert found.shape == (60, len(model.get_feature_names_out()))
    assert np.array_equal(model.transform(words[::-1]).toarray(), found.toarray()[::-1])


def test_predictors_are_opened_as_they_were_saved(words, repeats, classifier, tmp_path):
    from tests.estimators.test_saving import rewrite

    lengths = np.array([float(len(word)) for word in words])
    regressor = CGMMRegressor(**SMALL).fit(words, lengths)
    assert np.abs(regressor.predict(words) - lengths).mean() < 0.5
    for model in (classifier, regressor):
        model.save(tmp_path / "model", overwrite=True)
        again = hf.load(tmp_path / "model")
        assert np.array_equal(again.predict(words), model.predict(words))
    rewrite(tmp_path / "model", lambda content: content["parameters"].update(num_states=5))
    with pytest.raises(ReadError, match="transitions of layer 0 do not fit"):
        hf.load(tmp_path / "model")


@pytest.mark.parametrize("head", ["svm_rbf", "svm_jaccard", "svm_linear"])
def test_support_vector_machines_have_names_and_are_saved(words, repeats, head, tmp_path):
    lengths = np.array([float(len(word)) for word in words])
    options = SMALL | {"head": head, "strength": 10.0}
    for kind, y in ((CGMMClassifier, repeats), (CGMMRegressor, lengths)):
        model = kind(**options).fit(words[:40], y[:40])
        assert model.score(words[40:], y[40:]) > 0.7
        model.save(tmp_path / "model", overwrite=True)
        assert np.array_equal(hf.load(tmp_path / "model").predict(words), model.predict(words))


def test_the_rbf_head_is_scikit_learns_on_the_same_fingerprints(words, repeats):
    model = CGMMClassifier(**SMALL, head="svm_rbf", strength=3.0).fit(words, repeats)
    counts = model.fingerprints(words).toarray()
    theirs = SVC(C=3.0).fit(counts, repeats).decision_function(counts)
    np.testing.assert_allclose(model.decision_function(words), 2 * theirs, atol=1e-6)


def test_each_of_several_targets_has_a_head(words, repeats, tmp_path):
    known = [bool(each) if k % 3 else None for k, each in enumerate(repeats)]
    short = [len(word) < 7 for word in words]
    y = {"runs": known, "short": short}
    model = CGMMClassifier(**SMALL, select="score", head="svm_rbf").fit(words, y)
    assert (model.predict(words) == np.stack([repeats, short], axis=1)).mean() > 0.7
    alone = CGMMClassifier(**SMALL | {"depth": len(model.stack_.layers)}, head="svm_rbf").fit(words, short)
    assert np.array_equal(alone.predict(words), model.predict(words)[:, 1])
    model.save(tmp_path / "model")
    assert np.array_equal(hf.load(tmp_path / "model").predict(words), model.predict(words))


def test_runs_of_em_are_found_again(words, repeats, tmp_path):
    plain = CGMMClassifier(**SMALL).fit(words, repeats)
    kept = CGMMClassifier(**SMALL | {"depth": 2}, checkpoint=tmp_path).fit(words, repeats)
    files = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.safetensors")}
    assert len(files) == len(kept.stack_.layers) == 2
    deeper = CGMMClassifier(**SMALL, head="svm_rbf", checkpoint=tmp_path).fit(words, repeats)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 3
    for one, other in zip(deeper.stack_.parameters, plain.stack_.parameters, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)
    other = CGMMClassifier(**SMALL | {"depth": 1}, checkpoint=tmp_path).fit(words[:50], repeats[:50])
    assert len(list(tmp_path.rglob("*.safetensors"))) == 4
    assert len(other.stack_.layers) == 1


def test_structures_without_a_target_are_learned_from_too(words, repeats):
    known = [bool(each) if k % 2 else None for k, each in enumerate(repeats)]
    model = CGMMClassifier(**SMALL).fit(words, known)
    assert model.score(words, repeats) > 0.7
    labels = CGMMEncoder(**SMALL).fit(words)
    assert np.array_equal(model.fingerprints(words).toarray(), labels.transform(words))


def test_nodes_have_posteriors_likelihoods_and_samples(words):
    model = CGMMEncoder(**SMALL, missing=("?",)).fit(words)
    posterior = model.posterior(["AC?", "A"])
    assert [each.shape for each in posterior] == [(3, 4), (1, 4)]
    np.testing.assert_allclose(np.concatenate(posterior).sum(axis=1), 1.0)
    assert model.log_likelihood(["???"])[0, 0] == pytest.approx(0, abs=1e-12)
    common, rare = model.log_likelihood(["ACAC", "????"]).T[0]
    assert common < rare
    drawn = model.sample(["A" * 200, "CC"], random_state=1)
    assert [len(each["symbol"]) for each in drawn] == [200, 2]
    assert {"A", "C"} >= set(drawn[0]["symbol"])
    assert np.array_equal(drawn[0]["symbol"], model.sample(["A" * 200, "CC"], random_state=1)[0]["symbol"])


def test_graphs_with_attributes_isolated_nodes_and_no_nodes():
    draw = np.random.default_rng(0)
    kind = draw.integers(0, 2, 60)
    pack = hf.data.from_edges(
        np.arange(0, 60, 2),
        np.arange(1, 60, 2),
        node_ptr=[0, 30, 60, 60, 60],
        node_attributes=(5.0 * kind)[:, None],
    )
    alone = hf.data.from_edges([], [], node_ptr=[0, 2], node_attributes=np.array([[0.0], [5.0]]))
    model = CGMMEncoder(num_states=2, depth=2, fingerprint="unigram").fit(pack)
    found = model.transform(pack)
    assert sorted(found[0, :2].tolist()) == sorted([kind[:30].sum(), 30 - kind[:30].sum()])
    assert not found[2:].any()
    assert model.transform(alone)[0, :2].tolist() == [1.0, 1.0]
    assert np.isfinite(model.log_likelihood(alone)).all()


def test_wrong_input_is_named(words, repeats, classifier):
    with pytest.raises(UnknownSymbolError, match="symbol 'X' of node 1"):
        classifier.predict(["AXC"])
    plain = hf.data.from_sequences(["ACA"], arc_labels=None)
    with pytest.raises(InputError, match="arc"):
        classifier.predict(plain)
    with pytest.raises(InputError, match="no nodes"):
        CGMMEncoder().fit(hf.data.from_edges([], [], node_ptr=[0, 0]))
    with pytest.raises(InputError, match="previous must be"):
        CGMMEncoder(**SMALL, previous=(2,)).fit(words)
    with pytest.raises(InputError, match="'states' parameter of CGMMEncoder must be"):
        CGMMEncoder(**SMALL, states="firm").fit(words)
    with pytest.raises(InputError, match="no layer 7"):
        classifier.posterior(words, layer=7)
