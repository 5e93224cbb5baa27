"""Saved estimators: the same predictions, whole or not at all, and every kind of damage refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load as unpack, save as pack_tensors

import hiddenfield as hf
from hiddenfield.estimators import saving

TEXTS = ["GATTACA", "CAT", "TTT", "", "GAGA", "ACGT", "CC", "TAG"]
TINY = {"dim": 3, "hidden": 3, "rounds": 2, "epochs": 1, "ensemble": 1, "random_state": 0}


def models():
    graphs = hf.data.from_edges(
        [0, 1, 0],
        [1, 2, 1],
        node_ptr=[0, 3, 5],
        node_attributes=np.arange(10).reshape(5, 2),
        targets=[1.0, 2.0],
    )
    numbers = np.array(
        [[1.0, np.nan], [2.0, 5.0], [3.0, 1.0], [0.0, 2.0], [1.0, 1.0], [4.0, 2.0], [1.5, 0.0], [2.0, 1.0]]
    )
    kinds = ["x", "y"] * 4
    yield "regressor", hf.StructureRegressor(**TINY | {"ensemble": 2}).fit(TEXTS, numbers[:, 0]), TEXTS
    yield "several", hf.StructureRegressor(**TINY, precision="64").fit(TEXTS, numbers), TEXTS
    yield (
        "classes",
        hf.StructureClassifier(**TINY, class_weight={"x": 1.0, "y": np.float64(2)}).fit(TEXTS, kinds),
        TEXTS,
    )
    yield "booleans", hf.StructureClassifier(**TINY).fit(TEXTS, [True, False] * 4), TEXTS
    yield "encoder", hf.StructureEncoder(**TINY).fit(TEXTS, kinds), TEXTS
    yield "graphs", hf.StructureRegressor(**TINY, model="tree_reweighted").fit(graphs), graphs
    options = {"model": "generalized_bp", "model_options": {"longest_cycle": np.int64(6)}}
    yield "options", hf.StructureRegressor(**TINY, **options).fit(TEXTS, numbers[:, 0]), TEXTS


MODELS = {name: (model, X) for name, model, X in models()}


def answers(model, X):
    if isinstance(model, hf.StructureEncoder):
        return [model.transform(X)]
    if isinstance(model, hf.StructureClassifier):
        return [model.predict_proba(X), model.predict(X)]
    return [model.predict(X), model.embed(X)]


@pytest.mark.parametrize("name", MODELS)
def test_opened_as_saved(name, tmp_path):
    model, X = MODELS[name]
    model.save(tmp_path / "model")
    opened = hf.load(tmp_path / "model")
    assert type(opened) is type(model)
    for one, other in zip(answers(model, X), answers(opened, X), strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    assert opened.get_params() == model.get_params()
    assert opened.histories_ == model.histories_
    assert (opened.task_, opened.features_, opened.reading_) == (model.task_, model.features_, model.reading_)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    opened.save(tmp_path / "again")
    for file in ("model.json", "model.safetensors"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "model" / file).read_bytes()
    assert sorted(file.name for file in (tmp_path / "model").iterdir()) == ["model.json", "model.safetensors"]


def test_an_opened_model_can_be_fitted_again(tmp_path):
    model, X = MODELS["classes"]
    model.save(tmp_path / "model")
    opened = hf.load(tmp_path / "model").fit(X, ["x", "y"] * 4)
    assert np.array_equal(opened.predict_proba(X), model.predict_proba(X))


@pytest.fixture
def folder(tmp_path):
    MODELS["regressor"][0].save(tmp_path / "model")
    return tmp_path / "model"


def test_what_exists_is_not_overwritten_unless_asked(folder):
    model, _ = MODELS["classes"]
    with pytest.raises(hf.errors.InputError, match="exists already; choose another name, or overwrite=True"):
        model.save(folder)
    model.save(folder, overwrite=True)
    assert isinstance(hf.load(folder), hf.StructureClassifier)
    assert [entry.name for entry in folder.parent.iterdir()] == ["model"]
    (folder / "thesis.tex").write_text("all my work")
    with pytest.raises(hf.errors.InputError, match="exists already and is no saved model"):
        model.save(folder, overwrite=True)
    assert (folder / "thesis.tex").exists()


def test_a_failed_save_leaves_nothing(tmp_path, monkeypatch):
    model, _ = MODELS["classes"]
    monkeypatch.setattr("os.fsync", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_fitted_or_not_plain_is_not_saved(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        hf.StructureRegressor().save(tmp_path / "model")
    model = hf.StructureRegressor(**TINY | {"random_state": np.random.RandomState(0)}).fit(
        TEXTS, np.arange(8.0)
    )
    model.save(tmp_path / "model")
    assert hf.load(tmp_path / "model").random_state is None


@pytest.mark.parametrize("missing", ["model.json", "model.safetensors"])
def test_an_incomplete_folder(folder, missing):
    (folder / missing).unlink()
    with pytest.raises(hf.errors.ReadError, match=f"holds no saved model: there is no {missing} in it"):
        hf.load(folder)
    with pytest.raises(hf.errors.ReadError, match="is no folder"):
        hf.load(folder / "nothing")


def rewrite(folder, change):
    """Change the description and make its checksum fit again, as a stranger might."""
    file = folder / "model.json"
    content = json.loads(file.read_text())
    change(content)
    content["checksum"] = saving._checksum(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format="pickle"), "does not describe a model of hiddenfield"),
        (
            lambda c: c.update(version=99, hiddenfield="7.0"),
            "version 99, written by hiddenfield 7.0.* upgrade it",
        ),
        (lambda c: c.update(version="1"), "damaged"),
        (lambda c: c.update({"class": "subprocess.Popen"}), "no class 'subprocess.Popen'"),
        (lambda c: c["parameters"].update(dim=10**12), "no model that can be built"),
        (lambda c: c["parameters"].update(dim=10**6), "no model that can be built"),
        (lambda c: c["parameters"].update(rounds=10**9), "'rounds' parameter"),
        (lambda c: c["parameters"].update(hidden=10**9), "no model that can be built"),
        (lambda c: (c["parameters"].update(ensemble=10**12), c.update(members=10**12)), "number of networks"),
        (lambda c: c["parameters"].update(colour="red"), "colour"),
        (lambda c: c["features"].update(mean_nodes=0.0), "scale must be finite"),
        (lambda c: c["network"].update(dim=4), "do not fit the parameters"),
        (lambda c: c["task"]["columns"].append(c["task"]["columns"][0]), "targets and their kinds"),
        (
            lambda c: c["task"]["columns"][0].update(classes=["a", "b"]),
            "not such as StructureRegressor predicts",
        ),
        (lambda c: c["task"]["columns"][0].update(scale=float("nan")), "finite"),
        (lambda c: c["features"]["node_vocabularies"][0]["symbols"].append("A"), "distinct"),
        (lambda c: c["features"]["node_vocabularies"][0]["symbols"].append("U"), "should have shape"),
        (lambda c: c.update(representation="shell"), "no representation 'shell'"),
        (lambda c: c.update(weights_sha256=None), "checksum"),
        (lambda c: c.update(histories=[]), "number of networks"),
    ],
)
def test_a_crafted_folder(folder, change, message):
    rewrite(folder, change)
    with pytest.raises(hf.errors.ReadError, match=message):
        hf.load(folder)


def test_every_key_is_needed(folder):
    original = (folder / "model.json").read_text()
    paths = []

    def walk(value, at):
        if isinstance(value, dict):
            for key in value:
                paths.append((*at, key))
                walk(value[key], (*at, key))
        elif isinstance(value, list) and value:
            walk(value[0], (*at, 0))

    walk(json.loads(original), ())
    model, X = MODELS["regressor"]
    expected = model.predict(X)
    for at in paths:

        def drop(content, at=at):
            for key in at[:-1]:
                content = content[key]
            content.pop(at[-1], None)

        (folder / "model.json").write_text(original)
        rewrite(folder, drop)
        try:
            found = hf.load(folder).predict(X)
        except hf.errors.ReadError:
            continue
        # What is told for information only, or is a parameter's default.
        assert at[0] in {"hiddenfield", "histories", "parameters", "checksum", "resolved"} or at[1:] == (
            "largest_degree",
        ), at
        assert np.array_equal(found, expected), at


def test_swapped_types_are_refused_or_harmless(folder):
    """Put every kind of JSON value in the place of every entry, with a checksum that fits."""
    original = (folder / "model.json").read_text()
    model, X = MODELS["regressor"]
    expected = model.predict(X)
    for key in json.loads(original):
        for value in (None, True, -1, 1.5, "text", [], {}, [[]], {"pairs": [[[], 1]]}, [None]):
            (folder / "model.json").write_text(original)
            rewrite(folder, lambda content, key=key, value=value: content.update({key: value}))
            try:
                found = hf.load(folder).predict(X)
            except hf.errors.HiddenfieldError:
                continue
            assert np.array_equal(found, expected), (key, value)


def test_hundreds_of_damaged_folders(folder):
    model, X = MODELS["regressor"]
    expected = model.predict(X)
    generator = np.random.default_rng(0)
    for name in ("model.json", "model.safetensors"):
        contents = (folder / name).read_bytes()
        for trial in range(200):
            damaged = bytearray(contents)
            position = int(generator.integers(len(damaged)))
            if trial % 4 == 0:
                damaged = damaged[:position]
            elif trial % 4 == 1:
                del damaged[position]
            else:
                damaged[position] ^= 1 << int(generator.integers(8))
            (folder / name).write_bytes(bytes(damaged))
            try:
                found = hf.load(folder).predict(X)
            except hf.errors.ReadError:
                continue
            assert np.array_equal(found, expected)
        (folder / name).write_bytes(contents)
    assert np.array_equal(hf.load(folder).predict(X), expected)


@pytest.mark.parametrize("kind", ["shape", "missing", "extra", "type", "infinite", "garbage"])
def test_weights_that_do_not_fit(folder, kind):
    file = folder / "model.safetensors"
    tensors = unpack(file.read_bytes())
    name = sorted(tensors)[0]
    if kind == "shape":
        tensors[name] = torch.zeros(1000, 1000)
    elif kind == "missing":
        del tensors[name]
    elif kind == "extra":
        tensors["9.more"] = torch.zeros(2)
    elif kind == "type":
        tensors[name] = tensors[name].half()
    elif kind == "infinite":
        tensors[name][0] = torch.inf
    data = b"PK\x03\x04 not tensors" if kind == "garbage" else pack_tensors(tensors)
    file.write_bytes(data)
    with pytest.raises(hf.errors.ReadError, match="damaged, or belongs to another model"):
        hf.load(folder)
    import hashlib

    rewrite(folder, lambda content: content.update(weights_sha256=hashlib.sha256(data).hexdigest()))
    with pytest.raises(hf.errors.ReadError):
        hf.load(folder)


def test_weights_of_another_model(folder, tmp_path):
    MODELS["several"][0].save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "model.safetensors", folder / "model.safetensors")
    with pytest.raises(hf.errors.ReadError, match="belongs to another model"):
        hf.load(folder)


def test_deeply_nested_and_binary_descriptions(folder):
    for contents in (b"[" * 100_000, b"\x80\x04.", b"", b"null", b'{"format": 3}', "é".encode("latin-1")):
        (folder / "model.json").write_bytes(contents)
        with pytest.raises(hf.errors.ReadError, match=r"model\.json"):
            hf.load(folder)
