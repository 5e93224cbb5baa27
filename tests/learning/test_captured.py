"""Steps that a GPU repeats by itself: batches of one size for all, and trainings as without them.

On a GPU, or the batches alone in Triton's interpreter:
``TRITON_INTERPRET=1 python -m pytest --noconftest -c /dev/null tests/learning/test_captured.py``. Needs no other
test's helpers.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from hiddenfield import Structures, Vocabulary
from hiddenfield.embedding import FeatureSizes, Predictor
from hiddenfield.errors import TrainingError
from hiddenfield.learning import Task, TrainSettings, train, trainer
from hiddenfield.learning.captured import DeviceCutter, Room
from hiddenfield.learning.together import train_in_parts
from hiddenfield.learning.trainer import Fit, Training

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
needs_cuda = pytest.mark.skipif(not CUDA, reason="no CUDA device")
needs_kernels = pytest.mark.skipif(
    not CUDA and os.environ.get("TRITON_INTERPRET") != "1", reason="neither a CUDA device nor the interpreter"
)


def graphs(count, seed=0):
    """Return random graphs of 0 to 30 nodes; the target is the number of nodes of the first kind."""
    random = np.random.default_rng(seed)
    sizes = random.integers(0, 31, count)
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    pairs = set()
    for start, size in zip(ptr, sizes, strict=False):
        for first, second in random.integers(0, max(size, 1), (size, 2)):
            if size:
                pairs.add((start + min(first, second), start + max(first, second)))
    first, second = np.array(sorted(pairs)).T
    labels = random.integers(0, 3, ptr[-1])
    targets = np.add.reduceat(np.append(labels == 0, False).astype(float), ptr[:-1]) * (sizes > 0)
    return Structures.from_edges(
        first,
        second,
        node_ptr=ptr,
        node_labels=labels,
        node_vocabularies=[Vocabulary("kind", (0, 1, 2))],
        node_attributes=random.normal(size=(ptr[-1], 2)),
        edge_labels=random.integers(0, 2, len(first)),
        edge_vocabularies=[Vocabulary("bond", (0, 1))],
        targets=targets,
    )


@pytest.mark.parametrize("seed", range(20))
def test_there_is_room_for_every_batch(seed):
    pack, random = graphs(60, seed), np.random.default_rng(seed)
    cutter, order = DeviceCutter(pack), random.permutation(60)
    size = int(random.integers(1, 30))
    room = Room.of(size, cutter.needs(order, size))
    for start in range(0, 60, size):
        chosen = pack[order[start : start + size]]
        nodes, arcs = room.nodes - chosen.total_nodes, room.arcs - chosen.total_arcs
        assert 0 <= nodes <= 64 * room.rest  # structures of the rest take up all nodes that are left
        assert 0 <= arcs <= 4 * nodes  # and their nodes all arcs
    assert room.holds(cutter.needs(order, size))
    crowded = order[np.argsort(-pack.num_nodes.numpy()[order], kind="stable")]
    assert room.holds(cutter.needs(crowded, size)) == all(
        batch.total_nodes <= room.nodes
        and 0 <= room.arcs - batch.total_arcs <= 4 * (room.nodes - batch.total_nodes) <= 256 * room.rest
        for batch in (pack[crowded[start : start + size]] for start in range(0, 60, size))
    )


@needs_kernels
def test_a_padded_batch_gives_what_the_batch_gives():
    pack = graphs(40)
    cutter, order = DeviceCutter(pack.to(DEVICE)), np.random.default_rng(1).permutation(40)
    room = Room.of(10, cutter.needs(order, 10))
    torch.manual_seed(0)
    network = Predictor(FeatureSizes.of(pack), 1, model="loopy_bp", dim=8, rounds=2).to(DEVICE)
    for start in range(0, 40, 10):
        first = torch.tensor([start], device=DEVICE)
        padded, index = cutter.cut(torch.from_numpy(order).to(DEVICE), first, room)
        assert index.tolist() == order[start : start + 10].tolist()
        batch = pack[index.cpu()].to(DEVICE)
        padded.topology.validate()
        assert padded.total_nodes == room.nodes
        found = []
        for structures in (batch, padded):
            network.zero_grad()
            outputs = network.head(network.embed(structures)[:10])
            outputs.square().sum().backward()
            found.append([outputs, *(parameter.grad for parameter in network.parameters())])
        for one, other in zip(*found, strict=True):
            assert torch.allclose(one, other, rtol=1e-4, atol=1e-5 * float(one.detach().abs().max()))


def fit(pack, monkeypatch=None, model="loopy_bp", network=None, validation=None, **options):
    """Train on the GPU, with captured steps or, given a monkeypatch, without."""
    if monkeypatch is not None:
        monkeypatch.setattr(trainer, "FEWEST_STEPS", 10**9)
    task = Task.of(pack)
    torch.manual_seed(0)
    own = {"dim": 16, "rounds": 3, "hidden": 8, **(network or {})}
    predictor = Predictor(FeatureSizes.of(pack), task.outputs, model=model, **own)
    settings = {"epochs": 6, "batch_size": 13, "device": "cuda", "learning_rate": 3e-3, **options}
    history = train(predictor, task, pack, validation, TrainSettings(**settings))
    return predictor, history.rows


@needs_cuda
@pytest.mark.parametrize("model", ["loopy_bp", "mean_field", "damped"])
@pytest.mark.parametrize(
    ("network", "options"),
    [
        ({}, {}),
        ({"standardise": True, "pooling": "mean"}, {"optimizer": "sgd", "clip": None}),
        (
            {"every_round": True, "pooling": "max"},
            {"optimizer": "adamw", "weight_decay": 0.01, "resample": 1.0},
        ),
        ({"activation": "tanh"}, {"precision": "64", "warmup": 2.0, "schedule": "linear", "batch_size": 500}),
    ],
)
def test_captured_steps_train_as_others(model, network, options, monkeypatch):
    pack = graphs(200)
    if options.get("batch_size") == 500:
        options = {**options, "epochs": 40}
    captured, rows = fit(pack, None, model, network, pack[:50], **options)
    plain, plain_rows = fit(pack, monkeypatch, model, network, pack[:50], **options)
    tolerance = 1e-6 if options.get("precision") == "64" else 1e-2
    for name in ("train_loss", "valid_loss", "learning_rate"):
        assert np.allclose([row[name] for row in rows], [row[name] for row in plain_rows], rtol=tolerance)
    for one, other in zip(captured.state_dict().values(), plain.state_dict().values(), strict=True):
        assert torch.allclose(one, other, rtol=tolerance, atol=tolerance)


@needs_cuda
@pytest.mark.parametrize("precision", ["32", "tf32", "bf16"])
def test_the_same_to_the_bit_every_time(precision):
    pack = graphs(200)
    (first, rows), (second, others) = (
        fit(pack, network={"dropout": 0.2}, precision=precision) for _ in range(2)
    )
    assert rows[-1]["train_loss"] == others[-1]["train_loss"] < rows[0]["train_loss"]
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


@needs_cuda
def test_resumed_to_the_bit(tmp_path, monkeypatch):
    pack, save = graphs(200), trainer.save_run
    task, settings = Task.of(pack), TrainSettings(epochs=6, batch_size=13, device="cuda")

    def run(path, **options):
        torch.manual_seed(0)
        network = Predictor(FeatureSizes.of(pack), 1, dim=16, hidden=8, dropout=0.2)
        train(network, task, pack, None, settings, checkpoint=tmp_path / path, **options)
        return network

    def save_and_stop(path, state, *rest):
        save(path, state, *rest)
        if state.next_epoch == 3:
            raise KeyboardInterrupt

    whole = run("whole")
    monkeypatch.setattr(trainer, "save_run", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        run("part")
    monkeypatch.undo()
    for one, other in zip(whole.parameters(), run("part", resume=True).parameters(), strict=True):
        assert torch.equal(one, other)


def fit_together(packs, monkeypatch=None, networks=({}, {}, {}), path=None, model="loopy_bp", **options):
    """Train networks side by side on the GPU, with captured steps or, given a monkeypatch, without."""
    if monkeypatch is not None:
        monkeypatch.setattr(trainer, "FEWEST_STEPS", 10**9)
    fits = []
    for seed, (pack, own) in enumerate(zip(packs, networks, strict=True)):
        torch.manual_seed(seed)
        predictor = Predictor(
            FeatureSizes.of(pack), 1, model=model, **{"dim": 16, "rounds": 3, "hidden": 8, **own}
        )
        settings = {"epochs": 6, "batch_size": 13, "device": "cuda", "learning_rate": 3e-3, **options}
        fits.append(Fit(predictor, Task.of(pack), pack, pack[:30], TrainSettings(seed=seed, **settings)))
    histories = dict(train_in_parts(fits, folder=path, resume=path is not None))
    return [fit.network for fit in fits], [histories[number].rows for number in range(len(fits))]


@needs_cuda
@pytest.mark.parametrize(
    ("networks", "options"),
    [
        (({}, {"dim": 8}, {"hidden": 4}), {}),
        (
            ({"standardise": True, "every_round": True, "scale": 3.0},) * 3,
            {"clip": 0.1, "optimizer": "adamw"},
        ),
        (({"rounds": 1, "activation": "silu"},) * 3, {"batch_size": 500, "epochs": 40}),
    ],
)
def test_captured_side_by_side_as_one_by_one(networks, options, monkeypatch):
    packs = [graphs(200, seed)[: 200 - 2 * seed] for seed in range(3)]
    captured, rows = fit_together(packs, None, networks, **options)
    plain, plain_rows = fit_together(packs, monkeypatch, networks, **options)
    for mine, theirs in zip(rows, plain_rows, strict=True):
        for name in ("train_loss", "valid_loss", "learning_rate"):
            assert np.allclose([row[name] for row in mine], [row[name] for row in theirs], rtol=1e-2)
    for one, other in zip(captured, plain, strict=True):
        for mine, theirs in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
            assert torch.allclose(mine, theirs, rtol=1e-2, atol=1e-2)


@needs_cuda
def test_captured_side_by_side_the_same_to_the_bit_and_resumed(tmp_path, monkeypatch):
    packs, networks = [graphs(200, seed) for seed in range(3)], ({"dropout": 0.2},) * 3
    save = trainer.save_run

    def save_and_stop(path, state, *rest):
        save(path, state, *rest)
        if state.next_epoch == 3:
            raise KeyboardInterrupt

    whole, rows = fit_together(packs, None, networks)
    assert all(row[-1]["train_loss"] < row[0]["train_loss"] for row in rows)
    monkeypatch.setattr(trainer, "save_run", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        fit_together(packs, None, networks, tmp_path)
    monkeypatch.undo()
    again, _ = fit_together(packs, None, networks, tmp_path)
    for one, other in zip(whole, again, strict=True):
        for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(mine, theirs)


@needs_cuda
def test_a_loss_that_is_not_finite_is_named():
    with pytest.raises(TrainingError, match="no longer finite"):
        fit(graphs(200), learning_rate=1e25, clip=None)


def test_without_a_capture_steps_are_taken_one_by_one(monkeypatch):
    def broken(*_):
        raise RuntimeError("out of luck")

    pack, found = graphs(60), []
    for fails in (False, True):
        torch.manual_seed(0)
        network = Predictor(FeatureSizes.of(pack), 1, dim=4, rounds=2, dropout=0.2, standardise=True)
        settings = TrainSettings(epochs=8, batch_size=9, device="cpu")
        run = Training([Fit(network, Task.of(pack), pack, None, settings)])
        if fails:
            run.may_capture = True
            monkeypatch.setattr(trainer.CapturedSteps, "__post_init__", lambda self: None)
            monkeypatch.setattr(trainer.CapturedSteps, "prepare", broken)
            monkeypatch.setattr(trainer, "leave_capture", lambda device: None)
            monkeypatch.setattr(torch.random, "fork_rng", lambda devices: torch.enable_grad())
            with pytest.warns(UserWarning, match="out of luck.*one by one") as caught:
                run.run()
            assert sum("one by one" in str(warning.message) for warning in caught) == 1
        else:
            run.run()
        found.append(network.state_dict())
    for one, other in zip(found[0].values(), found[1].values(), strict=True):
        assert torch.equal(one, other)


@needs_cuda
def test_a_capture_that_fails_leaves_the_device_as_it_was(monkeypatch):
    pack = graphs(200)
    plain, _ = fit(pack, monkeypatch, network={"dropout": 0.2})
    monkeypatch.undo()
    step = Training._captured_update

    def waiting(self, *arguments):
        torch.cuda.synchronize()
        return step(self, *arguments)

    monkeypatch.setattr(Training, "_captured_update", waiting)
    with pytest.warns(UserWarning, match="one by one"):
        other, _ = fit(pack, network={"dropout": 0.2})
    for one, two in zip(plain.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
