"""The trainer: it learns, repeats, resumes to the bit, stops, and says what went wrong."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

import hiddenfield as hf
from hiddenfield.embedding import EMBEDDINGS, FeatureSizes, Predictor
from hiddenfield.learning import Task, TrainSettings, batches, load_checkpoint, predict, train
from hiddenfield.learning.batches import epoch_order, resampling_weights
from hiddenfield.learning.checkpoint import Checkpoint, save_checkpoint
from hiddenfield.learning.protocol import objective


@pytest.fixture(scope="module")
def pack():
    """Return words whose target is their number of A's."""
    generator = np.random.default_rng(0)
    texts = ["".join(generator.choice(list("ABC"), size=generator.integers(0, 9))) for _ in range(40)]
    return hf.data.from_sequences(texts, targets=[float(text.count("A")) for text in texts])


def fit(pack, validation=None, *, settings=None, init=0, network=None, **options):
    task = Task.of(pack)
    torch.manual_seed(init)
    network = network or Predictor(
        FeatureSizes.of(pack), task.outputs, dim=6, hidden=5, rounds=2, dropout=0.2
    )
    settings = TrainSettings(**{"epochs": 4, "batch_size": 8, "device": "cpu"} | (settings or {}))
    return network, train(network, task, pack, validation, settings, **options)


def same(one, other):
    return all(
        torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    )


def test_it_learns_to_count(pack):
    torch.manual_seed(0)
    network = Predictor(FeatureSizes.of(pack), 1, dim=8, hidden=8, rounds=1, model="mean_field")
    task = Task.of(pack)
    before = task.metrics(predict(network, pack, device="cpu"), pack.targets)["rmse"]
    train(
        network, task, pack, settings=TrainSettings(epochs=60, batch_size=8, learning_rate=0.01, device="cpu")
    )
    after = task.metrics(predict(network, pack, device="cpu"), pack.targets)["rmse"]
    assert after < 0.3 < 1.0 < before


def test_a_step_is_the_optimizers_own(pack):
    """One batch of everything without clipping is one step of Adam on the task's loss, by torch alone."""
    task = Task.of(pack)
    torch.manual_seed(1)
    mine = Predictor(FeatureSizes.of(pack), 1, dim=4, hidden=4)
    theirs = Predictor(FeatureSizes.of(pack), 1, dim=4, hidden=4)
    theirs.load_state_dict(mine.state_dict())
    settings = TrainSettings(epochs=1, batch_size=100, clip=None, schedule="constant", device="cpu")
    train(mine, task, pack, settings=settings)
    optimizer = torch.optim.Adam(theirs.parameters(), lr=settings.learning_rate)
    objective(task, theirs(pack), task.standardize(pack.targets).float()).backward()
    optimizer.step()
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_same_seed_same_weights_whatever_else_draws_numbers(pack):
    first, _ = fit(pack)
    torch.rand(3)
    np.random.default_rng().random()
    second, _ = fit(pack)
    other, _ = fit(pack, settings={"seed": 1})
    assert same(first, second)
    assert not same(first, other)


def test_training_leaves_the_global_generator_alone(pack):
    network = Predictor(FeatureSizes.of(pack), 1, dim=4, dropout=0.5)
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    train(network, Task.of(pack), pack, settings=TrainSettings(epochs=1, device="cpu"))
    assert torch.equal(torch.rand(2), expected)


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("stop", [1, 3])
def test_resuming_ends_with_the_same_bits(pack, tmp_path, monkeypatch, optimizer, stop):
    settings = {"optimizer": optimizer, "epochs": 5, "resample": 1.0}
    whole, history = fit(pack[:30], pack[30:], settings=settings)
    path = tmp_path / "run.safetensors"
    kill_after(monkeypatch, stop)
    with pytest.raises(Killed):
        fit(pack[:30], pack[30:], settings=settings, checkpoint=path)
    monkeypatch.undo()
    assert load_checkpoint(path).values["next_epoch"] == stop
    resumed, again = fit(pack[:30], pack[30:], settings=settings, init=99, checkpoint=path, resume=True)
    assert same(whole, resumed)
    for one, other in zip(history.rows, again.rows, strict=True):
        assert {k: one[k] for k in one if "second" not in k} == {
            k: other[k] for k in other if "second" not in k
        }
    finished, third = fit(pack[:30], pack[30:], settings=settings, init=7, checkpoint=path, resume=True)
    assert same(whole, finished)
    assert third.reason == "all 5 epochs done"


def half_precision_on_the_cpu(monkeypatch):
    """Let precision 16 run here, with a scale of the loss that overflows at first and then moves every few steps."""
    from hiddenfield.learning import trainer

    def scaler(settings, device):
        return torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=3)

    monkeypatch.setattr(trainer, "make_scaler", scaler)


@pytest.mark.parametrize("clip", [0.5, None])
def test_the_scale_of_half_precision_is_resumed(pack, tmp_path, monkeypatch, clip):
    settings = {"precision": "16", "epochs": 5, "clip": clip}
    with monkeypatch.context() as patch:
        half_precision_on_the_cpu(patch)
        whole, _ = fit(pack, settings=settings, checkpoint=tmp_path / "whole.safetensors")
        path = tmp_path / "run.safetensors"
        with patch.context() as inner:
            kill_after(inner, 2)
            with pytest.raises(Killed):
                fit(pack, settings=settings, checkpoint=path)
        saved = load_checkpoint(path).values["precision"]
        assert 1.0 < saved["scale"] < 2.0**24
        resumed, _ = fit(pack, settings=settings, init=99, checkpoint=path, resume=True)
        ends = [load_checkpoint(file).values["precision"] for file in (path, tmp_path / "whole.safetensors")]
        assert ends[0] == ends[1] != saved
        assert same(whole, resumed)

        # A checkpoint without the scale, or with another thing in its place, is refused, not half resumed.
        content = load_checkpoint(path)
        for strange in ({}, {**saved, "scale": "large"}):
            save_checkpoint(Checkpoint(content.tensors, {**content.values, "precision": strange}), path)
            with pytest.raises(hf.errors.ReadError, match="does not hold the whole state of a run"):
                fit(pack, settings=settings, checkpoint=path, resume=True)


def kill_after(monkeypatch, epochs):
    """End the run after that many checkpoints."""
    from hiddenfield.learning import trainer

    save, done = trainer.save_run, []

    def save_and_die(*arguments):
        save(*arguments)
        done.append(1)
        if len(done) == epochs:
            raise Killed

    monkeypatch.setattr(trainer, "save_run", save_and_die)


@pytest.mark.parametrize(
    ("change", "what"),
    [({"learning_rate": 0.1}, "settings"), ({"seed": 3}, "settings"), ({"batch_size": 9}, "settings")],
)
def test_another_run_is_not_taken_up(pack, tmp_path, change, what):
    path = tmp_path / "run.safetensors"
    fit(pack, checkpoint=path)
    with pytest.raises(hf.errors.InputError, match=f"of a run with other {what}"):
        fit(pack, settings=change, checkpoint=path, resume=True)
    with pytest.raises(hf.errors.InputError, match="of a run with other data"):
        fit(pack[torch.arange(39, -1, -1)], checkpoint=path, resume=True)
    with pytest.raises(hf.errors.InputError, match="of a run with other network"):
        fit(pack, checkpoint=path, resume=True, network=Predictor(FeatureSizes.of(pack), 1, dim=3))
    with pytest.raises(hf.errors.InputError, match="holds an earlier run; resume it, or remove it"):
        fit(pack, checkpoint=path)


def test_attributes_tell_data_apart(tmp_path):
    def nodes(value):
        return hf.data.from_edges([0], [1], node_ptr=[0, 2], node_attributes=[[1.0], [value]], targets=[1.0])

    def run(pack):
        network = Predictor(FeatureSizes.of(pack), 1, dim=2)
        settings = TrainSettings(epochs=1, device="cpu")
        train(network, Task.of(pack), pack, settings=settings, checkpoint=tmp_path / "c", resume=True)

    run(nodes(1.0))
    with pytest.raises(hf.errors.InputError, match="other data"):
        run(nodes(2.0))


def test_a_damaged_checkpoint_is_refused(pack, tmp_path):
    path = tmp_path / "run.safetensors"
    fit(pack, settings={"epochs": 1}, checkpoint=path)
    contents = path.read_bytes()
    generator = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(contents)
        damaged[int(generator.integers(len(damaged)))] ^= 1 << int(generator.integers(8))
        path.write_bytes(bytes(damaged))
        with pytest.raises(hf.errors.ReadError):
            load_checkpoint(path)
    for length in [0, 4, 8, 100, len(contents) // 2, len(contents) - 1]:
        path.write_bytes(contents[:length])
        with pytest.raises(hf.errors.ReadError, match=r"run\.safetensors"):
            fit(pack, settings={"epochs": 1}, checkpoint=path, resume=True)


def test_a_checkpoint_is_there_whole_or_not_at_all(pack, tmp_path, monkeypatch):
    path = tmp_path / "new" / "run.safetensors"
    fit(pack, settings={"epochs": 1}, checkpoint=path)
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        fit(pack, settings={"epochs": 2, "seed": 0}, checkpoint=tmp_path / "new" / "other.safetensors")
    assert path.read_bytes() == before
    assert not (tmp_path / "new" / "other.safetensors").exists()


def test_the_best_epoch_is_restored(pack):
    network, history = fit(pack[:30], pack[30:], settings={"epochs": 8, "learning_rate": 0.05})
    losses = [row["valid_loss"] for row in history.rows]
    assert history.best_epoch == int(np.argmin(losses)) + 1
    assert history.best == min(losses)
    task = Task.of(pack[:30])
    outputs = predict(network, pack[30:], device="cpu")
    found = float(objective(task, outputs, task.standardize(pack[30:].targets).float()))
    assert found == pytest.approx(history.best, rel=1e-6)


def test_patience_and_monitor(pack):
    settings = {"epochs": 200, "learning_rate": 0.3, "patience": 3, "monitor": "mae"}
    _, history = fit(pack[:30], pack[30:], settings=settings)
    assert len(history.rows) == history.best_epoch + 3 < 200
    assert history.reason == "no better mae for 3 epochs"
    with pytest.raises(
        hf.errors.InputError, match="unknown monitor 'accuracy' for these targets; choose from: loss, mae"
    ):
        fit(pack[:30], pack[30:], settings={"monitor": "accuracy"})
    with pytest.raises(hf.errors.InputError, match="patience needs validation structures"):
        fit(pack, settings={"patience": 3})


def test_accuracy_is_better_when_higher():
    pack = hf.data.from_sequences(["AA", "BB", "AB", "BA"] * 5, targets=["x", "y", "x", "y"] * 5)
    _, history = fit(
        pack[:12], pack[12:], settings={"monitor": "accuracy", "epochs": 6, "learning_rate": 0.05}
    )
    assert history.best == max(row["valid_accuracy"] for row in history.rows)


def test_extreme_targets_and_rates_end_in_one_clear_error(pack):
    with pytest.raises(
        hf.errors.TrainingError, match="no longer finite, first in a batch of 8 structures: structure"
    ):
        fit(pack, settings={"optimizer": "sgd", "learning_rate": 1e30, "clip": None, "schedule": "constant"})


def test_targets_must_fit(pack):
    task = Task.of(pack)
    network = Predictor(FeatureSizes.of(pack), 1, dim=2)
    with pytest.raises(hf.errors.InputError, match="no structures to train on"):
        train(network, task, pack[:0])
    with pytest.raises(
        hf.errors.InputError, match="task has 1 targets, but the structures to train on have 0"
    ):
        train(network, task, pack.replace(targets=None, target_names=(), target_vocabularies=()))
    with pytest.raises(hf.errors.InputError, match="all 40 validation structures are missing"):
        train(network, task, pack, pack.replace(targets=torch.full_like(pack.targets, torch.nan)))


@pytest.mark.parametrize("model", EMBEDDINGS)
@pytest.mark.parametrize("precision", ["64", "bf16"])
def test_every_model_trains_in_every_precision(model, precision):
    pack = hf.datasets.huckel(6, seed=0)
    pack = pack.replace(targets=pack.targets[:, :1], target_names=("gap",), target_vocabularies=(None,))
    task = Task.of(pack)
    network = Predictor(FeatureSizes.of(pack), 1, model=model, dim=4, rounds=2)
    before = [parameter.detach().clone().double() for parameter in network.parameters()]
    settings = TrainSettings(epochs=1, precision=precision, device="cpu")
    history = train(network, task, pack, pack, settings)
    assert math.isfinite(history.rows[0]["valid_loss"])
    assert any(not torch.equal(a, b.double()) for a, b in zip(before, network.parameters(), strict=True))


def test_half_precision_needs_a_gpu(pack):
    with pytest.raises(hf.errors.InputError, match="precision '16' needs a GPU"):
        fit(pack, settings={"precision": "16"})


def test_devices():
    from hiddenfield.learning.device import resolve_device

    assert resolve_device("cpu").type == "cpu"
    for name in ("rubbish", "meta", "cuda:99"):
        with pytest.raises(hf.errors.InputError, match="auto"):
            resolve_device(name)


def test_predict_in_parts_is_predict_at_once(pack, monkeypatch):
    network = Predictor(FeatureSizes.of(pack), 2, dim=4)
    whole = predict(network, pack, device="cpu")
    monkeypatch.setitem(batches.NODES_AT_ONCE, "cpu", 7)
    torch.testing.assert_close(predict(network, pack, device="cpu"), whole)
    assert predict(network, pack[:0], device="cpu").shape == (0, 2)
    assert predict(network, pack[:0], device="cpu", function=network.embed).shape == (0, 4)


def test_epoch_order():
    first = epoch_order(50, 0, 3)
    assert sorted(first.tolist()) == list(range(50))
    assert first.tolist() == epoch_order(50, 0, 3).tolist() != epoch_order(50, 0, 4).tolist()
    assert first.tolist() != epoch_order(50, 1, 3).tolist()
    weights = np.array([0.0, 1.0, 0.0])
    assert set(epoch_order(3, 0, 0, weights).tolist()) == {1}


def test_resampling_draws_every_bin_alike():
    values = np.concatenate([np.full(990, 0.05), np.full(10, 0.95)])
    pack = hf.data.from_sequences(["A"] * 1000, targets=values)
    weights = resampling_weights(pack, 0.1)
    assert weights.sum() == pytest.approx(1)
    assert weights[:990].sum() == pytest.approx(0.5)
    drawn = values[epoch_order(1000, 0, 0, weights)]
    assert 400 < (drawn > 0.5).sum() < 600
    with pytest.raises(hf.errors.InputError, match="too narrow"):
        resampling_weights(pack, 1e-9)
    with pytest.raises(hf.errors.InputError, match="none"):
        resampling_weights(hf.data.from_sequences(["A"]), 0.1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs must be an integer of at least 1, got 0"),
        ({"batch_size": True}, "batch_size must be an integer"),
        ({"learning_rate": 0.0}, "learning_rate must be greater than 0"),
        ({"weight_decay": -1.0}, "weight_decay must be at least 0"),
        ({"clip": 0.0}, "clip must be greater than 0"),
        ({"optimizer": "adma"}, "did you mean 'adam'"),
        ({"schedule": "cosin"}, "did you mean 'cosine'"),
        ({"precision": "8"}, "unknown precision"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(hf.errors.InputError, match=message):
        TrainSettings(**settings)


@pytest.mark.parametrize(
    ("schedule", "end"), [("constant", 1.0), ("linear", 0.0), ("cosine", 0.0), ("exponential", 0.01)]
)
def test_schedules(schedule, end):
    settings = TrainSettings(epochs=10, learning_rate=1.0, schedule=schedule, warmup=2.0)
    rates = [settings.rate(done / 4) for done in range(41)]
    assert rates[0] == pytest.approx(0, abs=1e-9)
    assert rates[-1] == pytest.approx(end, abs=1e-9)
    assert rates[8:] == sorted(rates[8:], reverse=True)
    assert json.loads(json.dumps(settings.as_dict())) == settings.as_dict()


@pytest.mark.parametrize(
    ("threads", "entries", "processes", "expected"),
    [(2, 1e6, 1, 1), (2, 1e7, 1, 2), (16, 1e5, 1, 1), (16, 3e6, 1, 7), (16, 1e9, 1, 16), (16, 1e9, 4, 4)],
)
def test_a_batch_gets_the_threads_it_has_work_for(threads, entries, processes, expected):
    from hiddenfield.learning.device import few_threads

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        with few_threads(entries, processes):
            assert torch.get_num_threads() == expected
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("model", ["loopy_bp", "mean_field"])
def test_the_weights_do_not_depend_on_the_number_of_threads(monkeypatch, model):
    from hiddenfield.learning import device, trainer

    pack = hf.datasets.huckel(260, seed=0)
    found = []
    for threads in (1, 2, 4):
        # Whatever it would choose: so many, for a batch that has work for them.
        monkeypatch.setattr(trainer, "few_threads", lambda *_, count=threads: device.torch_threads(count))
        options = {"epochs": 1, "batch_size": 256, "ensemble": 1, "counts": False, "device": "cpu"}
        fitted = hf.StructureRegressor(model=model, random_state=0, **options)
        fitted.fit(pack, pack.targets[:, 0].numpy())
        found.append([parameter.detach().numpy().tobytes() for parameter in fitted.network_.parameters()])
    assert found[0] == found[1] == found[2]
