"""Training side by side ends where training alone does."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas
import pytest
import torch

import hiddenfield as hf
from hiddenfield.embedding import FeatureSizes, Predictor
from hiddenfield.embedding.stack import stack_kind
from hiddenfield.errors import InputError, TrainingError
from hiddenfield.estimators import StructureClassifier, StructureRegressor
from hiddenfield.estimators.base import fit_in_parts
from hiddenfield.learning import History, Task, TrainSettings, together as module, train
from hiddenfield.learning.together import train_together
from hiddenfield.learning.trainer import Fit, Training, train_side_by_side


@pytest.fixture(scope="module")
def words():
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("ABC"), size=random.integers(1, 12))) for _ in range(90)]
    return hf.data.from_sequences(
        texts,
        targets={
            "a": [float(text.count("A")) if k % 7 else None for k, text in enumerate(texts)],
            "kind": ["b" if text.count("B") > 2 else "other" for text in texts],
        },
    )


def fits_of(words, count=4, sizes=(40, 45), network=None, **settings):
    """Return two copies of the same fits, with different training structures, seeds and widths."""
    result = []
    for _ in range(2):
        fits = []
        for number in range(count):
            order = np.random.default_rng(number).permutation(len(words))
            part = words[order[: sizes[number % 2]]]
            task = Task.of(part)
            torch.manual_seed(number)
            options = {"dim": 4 + 2 * (number % 2), "rounds": 2, "scale": 2.0 + number, **(network or {})}
            own = Predictor(FeatureSizes.of(words), task.outputs, **options)
            chosen = TrainSettings(
                **{"epochs": 5, "batch_size": 16, "device": "cpu", "seed": number, **settings}
            )
            fits.append(Fit(own, task, part, words[order[60:]], chosen, part.name_of))
        result.append(fits)
    return result


def alone(fit):
    return train(fit.network, fit.task, fit.structures, fit.validation, fit.settings, name_of=fit.name_of)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"optimizer": "adamw", "weight_decay": 0.1, "schedule": "linear", "clip": 0.1},
        {"optimizer": "sgd", "monitor": "rmse", "clip": None, "learning_rate": 0.05},
        {"patience": 1, "monitor": "roc_auc", "epochs": 9},
        {"resample": 0.5},
    ],
)
def test_histories_and_weights_are_those_of_training_alone(words, settings):
    together, apart = fits_of(words, **settings)
    histories = train_together(together)
    for fit, other, history in zip(together, apart, histories, strict=True):
        expected = alone(other)
        assert history.best_epoch == expected.best_epoch
        assert history.reason == expected.reason
        assert [row.keys() for row in history.rows] == [row.keys() for row in expected.rows]
        for row, theirs in zip(history.rows, expected.rows, strict=True):
            for name in set(row) - {"seconds", "structures_per_second"}:
                assert math.isclose(row[name], theirs[name], rel_tol=1e-3, abs_tol=1e-4), name
        for name, tensor in other.network.state_dict().items():
            assert torch.allclose(fit.network.state_dict()[name], tensor, atol=1e-3), name


def test_they_are_done_at_once(words, monkeypatch):
    sizes = []

    def training(team, fits, *options):
        sizes.append(len(fits))
        return train_side_by_side(team, fits, *options)

    monkeypatch.setattr(module, "train_side_by_side", training)
    assert len(train_together(fits_of(words)[0])) == sum(sizes) == 4
    assert len(sizes) == 1


def test_as_many_at_once_as_there_is_room_for(words, monkeypatch):
    sizes = []
    monkeypatch.setattr(
        module,
        "train_side_by_side",
        lambda _, fits, *options: sizes.append(len(fits)) or [History()] * len(fits),
    )
    fits = fits_of(words)[0]
    entries = max(fit.batch_entries for fit in fits)
    monkeypatch.setattr(module, "MOST_ENTRIES", 2.5 * entries)
    train_together(fits)
    assert sizes == [2, 2]


def test_without_validation_the_last_weights_stay(words):
    together, apart = fits_of(words)
    together, apart = ([dataclasses.replace(f, validation=None) for f in fits] for fits in (together, apart))
    for fit, other, history in zip(together, apart, train_together(together), strict=True):
        assert alone(other).best_epoch == history.best_epoch == 5
        for name, tensor in other.network.state_dict().items():
            assert torch.allclose(fit.network.state_dict()[name], tensor, atol=1e-3), name


def test_dropout_depends_on_the_seed_alone(words):
    network = {"dropout": 0.5, "dim": 4}
    first, second = (train_together(fits) for fits in fits_of(words, network=network))
    assert [h.rows[-1]["train_loss"] for h in first] == [h.rows[-1]["train_loss"] for h in second]
    smaller = train_together(fits_of(words, network=network)[0][:2])
    for few, many in zip(smaller, first[:2], strict=True):
        assert math.isclose(few.rows[-1]["train_loss"], many.rows[-1]["train_loss"], rel_tol=1e-4)
    plain = train_together(fits_of(words, network={"dim": 4})[0])
    assert [h.rows[-1]["train_loss"] for h in first] != [h.rows[-1]["train_loss"] for h in plain]


def test_one_that_fails_does_not_disturb_the_others(words):
    together, apart = fits_of(words)
    for fits in (together, apart):
        with torch.no_grad():
            fits[1].network.output_layer.weight.fill_(math.inf)
    found = train_together(together)
    assert isinstance(found[1], TrainingError)
    with pytest.raises(TrainingError) as error:
        alone(apart[1])
    assert str(found[1]) == str(error.value)
    for number in (0, 2, 3):
        assert math.isclose(
            found[number].rows[-1]["valid_loss"], alone(apart[number]).rows[-1]["valid_loss"], rel_tol=1e-3
        )


def test_other_kinds_and_other_data_go_alone(words):
    fits = fits_of(words, count=2)[0] + fits_of(words, count=2, network={"rounds": 3})[0]
    fits += fits_of(words.recode(node_vocabularies=(_reversed(words.node_vocabularies[0]),)), count=1)[0]
    assert [len(group) for group in module._alike(fits)] == [2, 2, 1]
    assert all(history.rows for history in train_together(fits))


def _reversed(vocabulary):
    return type(vocabulary)(vocabulary.name, tuple(reversed(vocabulary.symbols)))


def fit_together(models, data):
    return [model for _, model in sorted(fit_in_parts(models, data), key=lambda found: found[0])]


def test_estimators_fit_together_as_alone(words):
    texts = ["".join(words.node_vocabularies[0].symbols[k] for k in pack.node_labels[:, 0]) for pack in words]
    kinds = ["b" if text.count("B") > 2 else "other" for text in texts]
    lengths = [float(len(text)) for text in texts]
    options = {"epochs": 2, "dim": 4, "device": "cpu"}

    def models():
        return [
            StructureClassifier(random_state=0, ensemble=1, **options),
            StructureClassifier(random_state=1, ensemble=2, **options),
            StructureRegressor(random_state=2, **options),
        ]

    data = [(texts, kinds, None), (texts, kinds, np.arange(9)), (texts, lengths, None)]
    for together, apart, (X, y, held_out) in zip(fit_together(models(), data), models(), data, strict=True):
        apart.fit(X, y, held_out=held_out)
        assert together.validation_indices_.tolist() == apart.validation_indices_.tolist()
        if isinstance(apart, StructureRegressor):
            assert np.allclose(together.predict(X), apart.predict(X), atol=1e-3)
        else:
            assert together.classes_.tolist() == apart.classes_.tolist()
            assert np.allclose(together.predict_proba(X), apart.predict_proba(X), atol=1e-3)


def test_bad_input_is_refused_as_alone(words):
    fits = fits_of(words, monitor="nothing")[0]
    with pytest.raises(InputError, match="unknown monitor 'nothing'"):
        train_together(fits)


def test_a_monitor_that_cannot_be_told_keeps_the_last_weights():
    words, classes = ["GA", "GATTACA", "TTT", "A", "GATT", "CCAT", "GG", "AC"], list("xyxyxyxx")
    options = {"dim": 4, "hidden": 4, "epochs": 5, "batch_size": 4, "monitor": "roc_auc", "device": "cpu"}

    def model():
        return StructureClassifier(random_state=0, ensemble=2, **options)

    pack = hf.data.from_sequences(words)
    alone = model().fit(pack, classes, held_out=[6, 7])  # of one class
    (together,) = fit_together([model()], [(pack, classes, [6, 7])])
    assert np.allclose(together.predict_proba(pack), alone.predict_proba(pack), atol=1e-5)
    untrained = model()._begin(pack, classes, [6, 7]).fits[0].network
    pairs = zip(together.network_.state_dict().values(), untrained.state_dict().values(), strict=True)
    assert max(float((mine - theirs).abs().max()) for mine, theirs in pairs) > 1e-3


def test_one_that_stopped_cannot_fail(words, monkeypatch):
    fits = fits_of(words, count=2, sizes=(40, 40), patience=1, epochs=6)[0]
    run = Training(fits)
    plain = run._step

    def diverging(chosen, done):
        return plain(chosen, done) + (math.nan if done >= 3 else 0.0)

    monkeypatch.setattr(run, "_step", diverging)
    run.state.histories[0].reason = "stopped before"
    run.settings = dataclasses.replace(run.settings, patience=None)
    first, second = run.run()
    assert first.reason == "stopped before"
    assert isinstance(second, TrainingError)


def test_one_that_stopped_is_computed_no_more(words, monkeypatch):
    fits = fits_of(words, patience=1, epochs=9, monitor="roc_auc", network={"dropout": 0.5})[0]
    run, seen = Training(fits), []
    plain = run._step
    monkeypatch.setattr(run, "_step", lambda chosen, done: seen.append((done, chosen)) or plain(chosen, done))
    epochs = [len(history.rows) for history in run.run()]
    assert min(epochs) < max(epochs)
    for done, chosen in seen:
        assert [len(own) > 0 for own in chosen] == [done < count for count in epochs]


def test_names_do_not_matter(words):
    texts = ["GA", "GATTACA", "TTT", "A", "GATT", "CCAT"]
    lengths = np.array([float(len(text)) for text in texts])
    models = [StructureRegressor(dim=4, epochs=2, device="cpu", random_state=0) for _ in range(2)]
    data = [(texts, pandas.Series(lengths, name=name), None) for name in "ab"]
    assert [model.task_.columns[0].name for model in fit_together(models, data)] == ["a", "b"]
    with pytest.raises(InputError, match="got 2 estimators and data for 1"):
        fit_together(models, data[:1])


def test_large_vocabularies_go_alone():
    pack = hf.data.from_sequences([[f"s{k}" for k in range(1100)]], targets=[1.0])
    assert stack_kind(Predictor(FeatureSizes.of(pack), 1, dim=2)) is None
