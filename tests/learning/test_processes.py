"""Two processes give what one gives, up to rounding: real processes, with the gloo back end."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

import hiddenfield as hf
from hiddenfield.embedding import FeatureSizes, Predictor
from hiddenfield.learning import Task, TrainSettings, train
from hiddenfield.learning.processes import Team

OPTIONS = {
    "epochs": 6,
    "batch_size": 7,
    "device": "cpu",
    "patience": 2,
    "resample": 1.0,
    "learning_rate": 0.05,
}


@pytest.fixture(scope="module")
def pack():
    """Return words with two targets, some missing: their number of A's, and whether they hold a B."""
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("ABC"), size=random.integers(1, 9))) for _ in range(43)]
    targets = {
        "a": [float(text.count("A")) if k % 6 else None for k, text in enumerate(texts)],
        "b": ["B" if "B" in text else "none" for text in texts],
    }
    return hf.data.from_sequences(texts, targets=targets)


def fit(pack, devices, **options):
    task = Task.of(pack)
    torch.manual_seed(0)
    network = Predictor(FeatureSizes.of(pack), task.outputs, dim=6, hidden=5, rounds=2, dropout=0.3)
    settings = TrainSettings(**OPTIONS, devices=devices)
    return network, train(network, task, pack[:29], pack[29:], settings, **options)


def test_two_processes_give_what_one_gives(pack, tmp_path):
    one, history = fit(pack, 1)
    two, again = fit(pack, 2, checkpoint=tmp_path / "run.safetensors")
    assert (history.best_epoch, history.reason) == (again.best_epoch, again.reason)
    assert len(history.rows) == len(again.rows)
    for row, theirs in zip(history.rows, again.rows, strict=True):
        assert row.keys() == theirs.keys()
        for name in set(row) - {"seconds", "structures_per_second"}:
            assert math.isclose(row[name], theirs[name], rel_tol=1e-4, abs_tol=1e-5), name
    for name, tensor in one.state_dict().items():
        assert torch.allclose(two.state_dict()[name], tensor, atol=1e-4), name
    # What two processes saved, one takes up: it is the same run.
    resumed, third = fit(pack, 1, checkpoint=tmp_path / "run.safetensors", resume=True)
    assert third.rows == again.rows
    assert all(torch.equal(a, b) for a, b in zip(two.parameters(), resumed.parameters(), strict=True))
    assert torch.distributed.is_initialized() is False


def test_parts_make_up_the_whole():
    rows = np.arange(10)
    for size in (1, 3, 12):
        parts = [Team(rank, size).part(rows) for rank in range(size)]
        assert np.concatenate(parts).tolist() == rows.tolist()


def test_what_cannot_be_divided_is_refused(pack):
    network = Predictor(FeatureSizes.of(pack), 3, dim=4, standardise=True)
    with pytest.raises(hf.errors.InputError, match="standardise needs every batch in one process"):
        train(network, Task.of(pack), pack, settings=TrainSettings(devices=2, device="cpu"))
    with pytest.raises(hf.errors.InputError, match="devices must be an integer of at least 1, got 0"):
        TrainSettings(devices=0)


def test_a_script_without_a_guard_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import hiddenfield as hf
        words = ["GA", "GATTACA", "TTT", "A"]
        model = hf.StructureRegressor(dim=4, epochs=1, ensemble=1, devices=2, device="cpu", validation_fraction=0)
        model.fit(words, [2.0, 7.0, 3.0, 1.0])
        """)
    )
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, env=dict(os.environ))
    assert found.returncode == 1
    assert "a process could not be started (exit code 1); call it below" in found.stderr
