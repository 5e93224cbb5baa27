"""Kernels as classifiers and regressors, through all the ways that other models go."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.svm import SVC

import hiddenfield as hf
from hiddenfield.datasets import huckel
from hiddenfield.errors import InputError
from hiddenfield.estimators import KernelClassifier, KernelRegressor, kernel_machines
from hiddenfield.kernels import Spectrum
from tests.cli.calling import call, done

WORDS = ["GAGA", "TCTC", "GGAA", "TTCC", "AGAG", "CTCT", "GAAG", "TCCT"] * 5
KINDS = ["purine", "other"] * 20


def molecules(count=60):
    pack = huckel(count)
    return pack.replace(
        targets=pack.targets[:, :1],
        target_names=pack.target_names[:1],
        target_vocabularies=pack.target_vocabularies[:1],
    )


def test_a_machine_is_that_of_scikit_learn():
    pack = hf.data.from_sequences(WORDS)
    model = KernelClassifier(kernel="spectrum", kernel_options={"k": 2}, strength=1.0).fit(pack, KINDS)
    kernel = Spectrum(k=2, normalise=True).fit(pack)
    machine = SVC(C=1.0, kernel="precomputed").fit(kernel.gram(pack), KINDS)
    new = hf.data.from_sequences(["AGG", "CCT", "ACCA", "XYZ", "", "G"])
    assert model.predict(new).tolist() == machine.predict(kernel.gram(new, pack)).tolist()
    assert model.form_ == "gram"
    assert np.allclose(model.predict_proba(new).sum(axis=1), 1)


def test_the_form_is_chosen_by_size(monkeypatch):
    pack = molecules()
    forms = {}
    for few in (True, False):
        monkeypatch.setattr(kernel_machines, "MOST_COMPARED", 1000 if few else 10)
        monkeypatch.setattr(kernel_machines, "MOST_IN_GRAM", 1000 if few else 10)
        for kernel in ("wl_subtree", "random_walk"):
            model = KernelRegressor(kernel=kernel, landmarks=40).fit(pack[:40])
            forms[kernel, few] = model.form_
            truth = pack.targets[40:, 0].numpy()
            errors = (
                np.abs(model.predict(pack[40:]) - truth),
                np.abs(pack.targets[:40].numpy().mean() - truth),
            )
            assert errors[0].mean() < errors[1].mean()
    assert forms == {
        ("wl_subtree", True): "gram",
        ("random_walk", True): "gram",
        ("wl_subtree", False): "features",
        ("random_walk", False): "landmarks",
    }


def test_landmarks_that_are_all_structures_give_the_kernel():
    pack = molecules(30)
    model = KernelRegressor(kernel="random_walk", head="auto", landmarks=30)
    model.kernel_, model.form_ = None, None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_machines, "MOST_IN_GRAM", 1)
        model.fit(pack)
    rows = model._represent(pack).toarray()
    assert np.allclose(rows @ rows.T, model.kernel_.gram(pack), atol=1e-6)


def test_parameters_of_the_kernel_are_its_own():
    model = KernelClassifier(kernel="wl_subtree").set_params(rounds=1, strength=2.0)
    assert model.get_params()["rounds"] == 1
    assert clone(model).fit(WORDS, KINDS).kernel_.rounds == 1
    with pytest.raises(InputError, match="the kernel wl_subtree has no parameter 'k'"):
        model.set_params(k=3)
    with pytest.raises(InputError, match="unknown kernel 'x'"):
        KernelClassifier(kernel="x").fit(WORDS, KINDS)


@pytest.mark.parametrize("head", ["svm", "linear"])
def test_saved_and_loaded(tmp_path, head):
    pack = molecules()
    model = KernelRegressor(head=head, kernel_options={"rounds": 2}).fit(pack[:40])
    model.save(tmp_path / "model")
    assert np.allclose(hf.load(tmp_path / "model").predict(pack[40:]), model.predict(pack[40:]), rtol=1e-8)
    words = KernelClassifier(kernel="gapped_kmers", kernel_options={"g": 3, "m": 1}, head=head)
    words.fit([*WORDS, "AT"], [*KINDS, None]).save(tmp_path / "words")
    loaded = hf.load(tmp_path / "words")
    assert np.allclose(loaded.predict_proba(["AGGA", "XX"]), words.predict_proba(["AGGA", "XX"]))
    assert loaded.classes_.tolist() == ["other", "purine"]


def test_several_targets_with_gaps():
    y = np.column_stack([np.arange(40.0), np.arange(40.0)[::-1]])
    y[3, 0] = np.nan
    model = KernelRegressor(kernel="spectrum").fit(WORDS, y)
    assert model.predict(WORDS[:2]).shape == (2, 2)
    assert model.num_parameters_ == 39 + 40


def test_fit_predict_and_evaluate(tmp_path, capsys):
    data = tmp_path / "molecules.parquet"
    hf.write(molecules(), data)
    run = tmp_path / "run"
    options = ["--model", "kernel:wl_subtree", "-p", "rounds=1"]
    result = done(capsys, "fit", data, "--target", "gap", *options, "--out", run, "--report")
    text = (run / "report.html").read_text(encoding="utf-8")
    assert "<h2>Substructures</h2>" in text
    assert "red where they speak for a larger value" in text
    assert result["fitted"]["settings"]["rounds"] == 1
    assert result["fitted"]["model"] == "kernel:wl_subtree"
    done(capsys, "predict", run, data, "--out", tmp_path / "predicted.csv")
    assert len((tmp_path / "predicted.csv").read_text().splitlines()) == 61
    assessed = done(
        capsys,
        "evaluate",
        data,
        "--target",
        "gap",
        *options,
        "--folds",
        2,
        "--nested",
        "--grid",
        "rounds=0,2",
        "--seeds",
        1,
    )
    assert len(assessed["folds"]) == 2
    code, _, message = call(capsys, "evaluate", data, "--target", "gap", "--model", "kernel:nothing")
    assert code == 1
    assert "kernel:wl_subtree" in message


def test_weights_of_substructures_give_the_answers():
    """Of two classes, of three (one machine for each pair), of numbers, and of a linear head."""
    words = ["".join(row) for row in np.random.default_rng(0).choice(list("ACGT"), size=(40, 12))]
    pairs = ["x" if "GA" in word else "y" for word in words]
    threes = ["z" if "CC" in word else pair for word, pair in zip(words, pairs, strict=True)]
    options = {"kernel": "spectrum", "kernel_options": {"k": 2}}

    model = KernelClassifier(**options, strength=1.0).fit(words, pairs)
    rows, machine = model.kernel_.transform(model.structures_), model.heads_[0].model
    own = machine.decision_function(rows @ rows.T.toarray()) - machine.intercept_
    assert np.allclose(rows @ model.substructure_weights()[:, 0], own)

    model = KernelClassifier(**options, strength=1.0).fit(words, threes)
    machine = model.heads_[0].model.set_params(decision_function_shape="ovo")
    first, second, third = (machine.decision_function(rows @ rows.T.toarray()) - machine.intercept_).T
    expected = np.stack([first + second, third - first, -second - third], axis=1)
    assert np.allclose(rows @ model.substructure_weights(), expected)

    model = KernelRegressor(**options).fit(words, [word.count("GA") for word in words])
    assert np.allclose(
        rows @ model.substructure_weights()[:, 0],
        model.heads_[0].model.regressor_.predict(rows @ rows.T.toarray()),
    )
    model = KernelRegressor(**options, head="linear").fit(words, [word.count("GA") for word in words])
    flat = rows @ model.substructure_weights()
    assert np.allclose(flat[:, 0] - flat[0, 0], model.predict(words) - model.predict(words)[0], atol=1e-6)
    assert KernelClassifier(kernel="mismatch").fit(words, pairs).substructure_weights() is None
