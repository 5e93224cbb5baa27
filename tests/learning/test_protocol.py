"""Anything that is `Supervised` can be trained, not only a `Task`."""

from __future__ import annotations

import numpy as np
import torch

import hiddenfield as hf
from hiddenfield.embedding import FeatureSizes, Predictor
from hiddenfield.learning import Task, TrainSettings, predict, train
from hiddenfield.learning.protocol import Supervised


class Quantile:
    """Predict a quantile of the target by the pinball loss."""

    kind, metric_names, of_nodes = "quantile", ("pinball",), False

    def __init__(self, share):
        self.share = share

    def check(self, structures, what):
        assert structures.targets is not None, what

    def standardize(self, targets):
        return targets

    def entries(self, outputs, standardized):
        gap = standardized[:, 0] - outputs[:, 0]
        return torch.maximum(self.share * gap, (self.share - 1) * gap), torch.ones_like(gap)

    def metrics(self, outputs, targets):
        return {"pinball": float(self.entries(outputs, targets.to(outputs.dtype))[0].mean())}

    def as_dict(self):
        return {"share": self.share}


def test_another_task_is_trained():
    values = np.random.default_rng(0).random(400)
    pack = hf.data.from_sequences(["A"] * 400, targets=values)
    task = Quantile(0.9)
    assert isinstance(task, Supervised)
    assert isinstance(Task.of(pack), Supervised)
    torch.manual_seed(0)
    network = Predictor(FeatureSizes.of(pack), 1, dim=4, rounds=1)
    settings = TrainSettings(epochs=25, batch_size=20, learning_rate=0.02, monitor="pinball", device="cpu")
    history = train(network, task, pack[:300], pack[300:], settings)
    assert history.best == min(row["valid_pinball"] for row in history.rows)
    found = float(predict(network, pack[:1], device="cpu")[0, 0])
    assert abs((values < found).mean() - 0.9) < 0.05
