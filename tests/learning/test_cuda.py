"""Training in half precision, which only a GPU has, and networks side by side, which it is for.

Needs no other test's helpers, so that it runs where only torch, numpy, numba, safetensors and pytest are
installed: ``python -m pytest --noconftest -c /dev/null tests/learning/test_cuda.py``.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hiddenfield.data import from_sequences
from hiddenfield.embedding import EMBEDDINGS, FeatureSizes, Predictor
from hiddenfield.learning import Task, TrainSettings, load_checkpoint, train, trainer
from hiddenfield.learning.together import train_together
from hiddenfield.learning.trainer import Fit

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.fixture(scope="module")
def pack():
    """Return words whose target is their number of A's."""
    generator = np.random.default_rng(0)
    texts = ["".join(generator.choice(list("ABC"), size=generator.integers(1, 20))) for _ in range(200)]
    return from_sequences(texts, targets=[float(text.count("A")) for text in texts])


def fit(pack, clip, **options):
    task = Task.of(pack)
    torch.manual_seed(options.pop("init", 0))
    network = Predictor(FeatureSizes.of(pack), task.outputs, dim=16, rounds=2)
    settings = TrainSettings(epochs=12, batch_size=20, precision="16", device="cuda", clip=clip)
    return network, train(network, task, pack, pack[:50], settings, **options)


@pytest.mark.parametrize("clip", [5.0, None])
def test_half_precision_learns_and_resumes_with_its_scale(pack, tmp_path, monkeypatch, clip):
    whole, history = fit(pack, clip, checkpoint=tmp_path / "whole.safetensors")
    assert history.rows[-1]["train_loss"] < 0.3 * history.rows[0]["train_loss"]

    save = trainer.save_run

    def save_and_stop(path, state, *rest):
        save(path, state, *rest)
        if state.next_epoch == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "save_run", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        fit(pack, clip, checkpoint=tmp_path / "run.safetensors")
    monkeypatch.undo()
    resumed, _ = fit(pack, clip, init=9, checkpoint=tmp_path / "run.safetensors", resume=True)
    ends = [
        load_checkpoint(tmp_path / f"{name}.safetensors").values["precision"] for name in ("whole", "run")
    ]
    assert ends[0] == ends[1]
    assert ends[0]["_growth_tracker"] > 60  # no epoch began with a scale of its own
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("model", EMBEDDINGS)
@pytest.mark.parametrize("options", [{}, {"every_round": True, "standardise": True}])
def test_side_by_side_agrees_with_alone(pack, model, options):
    found = []
    for device in ("cpu", "cuda"):
        fits = []
        for seed in range(4):
            torch.manual_seed(seed)
            dim = 16 if options else 8 * (1 + seed % 2)
            network = Predictor(FeatureSizes.of(pack), 1, model=model, dim=dim, rounds=3, **options)
            settings = TrainSettings(epochs=3, batch_size=20, device=device, seed=seed)
            fits.append(Fit(network, Task.of(pack), pack[: 150 + seed], pack[160:], settings, pack.name_of))
        if device == "cpu":
            histories = [train(f.network, f.task, f.structures, f.validation, f.settings) for f in fits]
        else:
            histories = train_together(fits)
        found.append([row["valid_loss"] for history in histories for row in history.rows])
    assert np.allclose(*found, rtol=2e-3, atol=2e-3)
