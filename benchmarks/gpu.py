"""How fast do embedded mean field and loopy belief propagation train and predict on a GPU?

The networks and graphs of the benchmark of training, with batches of several sizes and in three precisions: 32 (exact
up to single precision's rounding), tf32 and bf16. Training is the library's own ``train`` from end to end, the best of
several epochs of 200,000 graphs (20,000 with batches of 50), without the capturing of the first. ``predict`` gives the
outputs for 200,000 graphs that lie in host memory or, *resident*, in that of the device.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from benchmarks.environment import main
from benchmarks.loader import molecule_sized
from benchmarks.training import DIM, ROUNDS, our_epoch
from hiddenfield.embedding import FeatureSizes, Predictor
from hiddenfield.learning import Task, predict

BATCHES = (50, 512, 4096, 16384)


def train_rows(model: str, quick: bool) -> list[dict[str, Any]]:
    """Time training with one model."""
    pack = molecule_sized(8192 if quick else 200_000)
    task, rows = Task.of(pack), []
    for precision in ("32", "tf32", "bf16"):
        for batch in BATCHES:
            torch.manual_seed(0)
            part = pack[:20_000] if batch == 50 else pack
            network = Predictor(FeatureSizes.of(pack), 1, model=model, dim=DIM, rounds=ROUNDS)
            epoch = our_epoch(network, task, part, batch, "cuda", precision)
            speed = len(part) / min(epoch() for _ in range(2))
            rows.append({"model": model, "batch": batch, "precision": precision, "graphs/s": speed})
    return rows


def predict_rows(model: str, quick: bool) -> list[dict[str, Any]]:
    """Time prediction with one model."""
    pack = molecule_sized(8192 if quick else 200_000)
    network = Predictor(FeatureSizes.of(pack), 1, model=model, dim=DIM, rounds=ROUNDS)
    rows = []
    for name, structures in (("predict", pack), ("predict, resident", pack.to("cuda"))):
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            predict(network, structures, device="cuda")
            best = min(best, time.perf_counter() - start)
        rows.append({"model": model, "batch": name, "precision": "32", "graphs/s": len(pack) / best})
    return rows


def run(quick: bool = False) -> dict[str, Any]:
    """Time every combination."""
    rows = []
    for model in ("mean_field", "loopy_bp"):
        rows += train_rows(model, quick) + predict_rows(model, quick)
    return {"question": "training and prediction on a GPU", "rows": rows}


if __name__ == "__main__":
    main(run)
