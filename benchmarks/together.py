"""How fast are small networks trained side by side, compared with one after the other?

The networks of an assessment: embedded loopy belief propagation, d = 64, T = 4, Adam, batches of 50 graphs of about
30 nodes and 63 arcs, each network with its own 1,000 graphs, order and initial weights. Compared with our own
`train`, one network at a time, of which three are timed; on a GPU the steps of both are captured as CUDA graphs, those
of several networks with a branch for each. Both end with the same weights up to rounding; the largest
difference of their losses after the last epoch is in the table. Graphs per second of all networks together; best of
several epochs.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from benchmarks.environment import main
from benchmarks.loader import molecule_sized
from hiddenfield.embedding import FeatureSizes, Predictor
from hiddenfield.learning import Task, TrainSettings, train
from hiddenfield.learning.together import train_together
from hiddenfield.learning.trainer import Fit

EPOCHS = 32


def fits_of(count: int, graphs: int, device: str) -> list[Fit]:
    """Return networks to be trained, each with its own graphs and seed."""
    pack = molecule_sized(graphs + 10 * count)
    pack = pack.replace(
        targets=pack.num_nodes[:, None].double(), target_names=("nodes",), target_vocabularies=(None,)
    )
    task, fits = Task.of(pack), []
    for seed in range(count):
        torch.manual_seed(seed)
        network = Predictor(FeatureSizes.of(pack), task.outputs, dim=64, rounds=4, scale=30.0)
        settings = TrainSettings(epochs=EPOCHS, batch_size=50, device=device, seed=seed)
        part = pack[10 * seed : 10 * seed + graphs]
        fits.append(Fit(network, task, part, None, settings))
    return fits


def run(quick: bool = False) -> dict[str, Any]:
    """Return a row for each number of networks."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    graphs, counts = (100, (2,)) if quick else (1000, (10, 60, 200) if device == "cuda" else (10,))
    rows = []
    for count in counts:
        together, alone = fits_of(count, graphs, device), fits_of(count, graphs, device)[:3]
        started = time.perf_counter()
        histories = train_together(together)
        ours = min(sum(history.rows[k]["seconds"] for history in histories) for k in range(1, EPOCHS))
        whole = time.perf_counter() - started
        single = [train(f.network, f.task, f.structures, None, f.settings) for f in alone]
        theirs = min(row["seconds"] for history in single for row in history.rows[1:])
        gap = max(
            abs(a.rows[-1]["train_loss"] - b.rows[-1]["train_loss"])
            for a, b in zip(histories, single, strict=False)
        )
        rows.append(
            {
                "device": device,
                "networks": count,
                "side by side, graphs/s": round(count * graphs / ours),
                "one after the other, graphs/s": round(graphs / theirs),
                "ratio": round(count * theirs / ours, 1),
                "all epochs, s": round(whole, 2),
                "greatest difference of losses": f"{gap:.1e}",
            }
        )
    return {"question": "training networks side by side", "rows": rows}


if __name__ == "__main__":
    main(run)
