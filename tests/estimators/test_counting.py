"""What goes with the networks: models on counts, weights chosen on held-out structures, degrees as labels."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import hiddenfield as hf
from hiddenfield.errors import InputError, ReadError
from hiddenfield.estimators.counting import choose_weights
from hiddenfield.estimators.targets import split_held_out
from hiddenfield.learning import Task

SHORT = {"dim": 4, "hidden": 4, "rounds": 2, "epochs": 2, "random_state": 0}


@pytest.fixture(scope="module")
def words():
    draw = np.random.default_rng(0)
    return ["".join(draw.choice(list("ACGT"), size=draw.integers(3, 12))) for _ in range(60)]


@pytest.fixture(scope="module")
def counted(words):
    """A target that counting tells, and networks of two epochs do not."""
    return np.array([float(word.count("A") - 2 * word.count("GT")) for word in words])


def test_where_counting_is_better_it_has_the_weight(words, counted):
    options = SHORT | {"representation": "sequence"}
    model = hf.StructureRegressor(**options).fit(words[:50], counted[:50])
    alone = hf.StructureRegressor(**options, counts=False).fit(words[:50], counted[:50])
    assert model.blend_["networks"] < 0.5
    assert sum(model.blend_.values()) == pytest.approx(1)
    assert alone.blend_["networks"] == 1.0
    errors = [np.abs(one.predict(words[50:]) - counted[50:]).mean() for one in (model, alone)]
    assert errors[0] < 0.5 * errors[1]


def test_a_prediction_is_the_average_with_the_weights(words, counted):
    options = SHORT | {"representation": "sequence", "ensemble": 2}
    model = hf.StructureRegressor(**options).fit(words, counted)
    pack = model.features_.encode(model.reading_.convert(words))
    networks = [model.task_.predictions(hf.learning.predict(n, pack))[0] for n in model.networks_]
    linear, forest = model.counting_.predict(pack)
    expected = [
        np.dot(list(model.blend_.values()), [networks[m], linear[m][0], forest[m][0]]) for m in range(2)
    ]
    np.testing.assert_allclose(model.predict(words), np.mean(expected, axis=0), rtol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_opened_as_it_was_saved(words, counted, classes, tmp_path):
    kinds = np.digitize(counted, np.quantile(counted, [0.5] if classes == 2 else [0.3, 0.6]))
    model = hf.StructureClassifier(**SHORT, representation="sequence", counts=True).fit(words, kinds)
    assert model.counting_ is not None
    model.save(tmp_path / "model")
    again = hf.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(words), model.predict_proba(words))
    assert again.blend_ == model.blend_
    none = hf.data.from_sequences(words, arc_labels="direction")[:0]
    assert model.predict_proba(none).shape == (0, classes)


def test_damaged_counts_are_refused(words, counted, tmp_path):
    from safetensors.torch import load_file, save_file

    from tests.estimators.test_saving import rewrite

    model = hf.StructureRegressor(**SHORT, representation="sequence", ensemble=1, counts=True)
    model.fit(words, counted).save(tmp_path / "model")
    assert model.counting_ is not None
    file = tmp_path / "model" / "model.safetensors"
    good = load_file(file)

    def refused(name, change):
        tensors = {key: value.clone() for key, value in good.items()}
        changed = change(tensors[name])
        tensors = (
            {**tensors, name: changed}
            if changed is not None
            else {k: v for k, v in tensors.items() if k != name}
        )
        save_file(tensors, file)
        import hashlib

        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        rewrite(tmp_path / "model", lambda content: content.update(weights_sha256=digest))
        with pytest.raises(ReadError):
            hf.load(tmp_path / "model")

    refused("counting.linear.0.0.weights", lambda value: value[:-1].contiguous())
    refused("counting.linear.0.0.weights", lambda value: value * torch.inf)
    refused("counting.forest.0.left", lambda value: torch.zeros_like(value))
    refused("counting.forest.0.column", lambda value: value + 10_000)
    refused("counting.round1.ptr", lambda value: value[:-1].contiguous())
    refused("counting.round1.ptr", lambda value: None)


def test_counts_need_structures_that_are_held_out(words, counted):
    options = SHORT | {"representation": "sequence", "validation_fraction": 0.0}
    assert hf.StructureRegressor(**options).fit(words, counted).counting_ is None
    with pytest.raises(InputError, match="'counts' parameter of StructureRegressor must be False or 'auto'"):
        hf.StructureRegressor(**options, counts=True).fit(words, counted)


@given(
    total=st.integers(2, 60),
    members=st.integers(1, 7),
    fraction=st.sampled_from([0.1, 0.2, 0.3, 0.5]),
    seed=st.integers(0, 9),
)
@settings(deadline=None, max_examples=50)
def test_members_hold_out_different_structures(total, members, fraction, seed):
    pack = hf.data.from_sequences(["A"] * total, targets=[float(k) for k in range(total)])
    parts = split_held_out(pack, fraction, seed, members=members)
    size = int(total * fraction)
    assert len(parts) == members
    for kept, held_out in parts:
        assert len(held_out) == size
        assert sorted([*kept, *held_out]) == list(range(total))
    if members * fraction <= 1 + 1e-9 and size:
        every = np.concatenate([held_out for _, held_out in parts])
        assert len(np.unique(every)) >= members * (size - 1)


@given(st.integers(0, 100))
@settings(deadline=None, max_examples=20)
def test_weights_are_no_worse_than_any_kind_alone(seed):
    draw = np.random.default_rng(seed)
    truth = draw.normal(size=30)
    pack = hf.data.from_sequences(["A"] * 30, targets=truth.tolist())
    kinds = [truth + draw.normal(size=30) * scale for scale in draw.uniform(0.1, 2, size=3)]
    weights = choose_weights(Task.of(pack), truth[:, None], [[kind] for kind in kinds])
    blended = ((np.dot(weights, kinds) - truth) ** 2).mean()
    assert blended <= min(((kind - truth) ** 2).mean() for kind in kinds) + 1e-12


def test_degrees_are_labels_where_there_are_none(tmp_path):
    """Stars and rings of equal size differ in nothing but degrees."""
    networkx = pytest.importorskip("networkx")
    graphs = [kind(size) for size in range(5, 25) for kind in (networkx.star_graph, networkx.cycle_graph)]
    kinds = ["star", "ring"] * 20
    model = hf.StructureClassifier(dim=8, epochs=30, ensemble=1, counts=False, random_state=0)
    assert model.fit(graphs, kinds).score(graphs, kinds) > 0.9
    assert model.features_.node_vocabularies[0].name == "degree"
    # A degree beyond those of training is the largest of them.
    assert model.predict([networkx.star_graph(90)]).tolist() == ["star"]
    model.save(tmp_path / "model")
    assert hf.load(tmp_path / "model").predict(graphs).tolist() == model.predict(graphs).tolist()
    assert json.loads((tmp_path / "model/model.json").read_text())["features"]["largest_degree"] == 24


def test_several_networks_go_on_from_where_they_were(words, counted, tmp_path, monkeypatch):
    from hiddenfield.learning import trainer

    options = SHORT | {"representation": "sequence", "epochs": 6, "ensemble": 3}
    whole = hf.StructureRegressor(**options, checkpoint=tmp_path / "whole").fit(words, counted)
    save, count = trainer.save_run, []

    def killed(*given):
        save(*given)
        count.append(1)
        if len(count) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "save_run", killed)
    with pytest.raises(KeyboardInterrupt):
        hf.StructureRegressor(**options, checkpoint=tmp_path / "cut").fit(words, counted)
    monkeypatch.setattr(trainer, "save_run", save)
    resumed = hf.StructureRegressor(**options, checkpoint=tmp_path / "cut").fit(words, counted)
    assert np.array_equal(resumed.predict(words), whole.predict(words))
    for mine, other in zip(resumed.networks_, whole.networks_, strict=True):
        for name, value in other.state_dict().items():
            assert torch.equal(mine.state_dict()[name], value), name
