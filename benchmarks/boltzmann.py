"""How likely does a restricted Boltzmann machine make held-out digits after how long, beside scikit-learn's?

1,797 images of 8 x 8 of handwritten digits, a pixel on where it is at least half dark; a fifth of them held out. Both
learn 64 hidden variables by persistent chains in batches of 50 rows on one thread: scikit-learn's `BernoulliRBM` with
the learning rate that serves it best of 0.1, 0.05 and 0.01 (ours by default). Neither times nor numbers of passes are
matched: compare rows by their CPU seconds, which for scikit-learn are of the best rate alone. log Z is estimated by the
same annealed importance sampling for both; its standard error is that of the log-likelihoods, too. With all pixels
independent the log-likelihood is in the last row.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from benchmarks.environment import main
from hiddenfield.estimators import RestrictedBoltzmannMachine
from hiddenfield.models.rbm import Machine


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return the images to learn from, and those held out."""
    from sklearn.datasets import load_digits

    pixels = (load_digits().data >= 8).astype(np.float64)
    order = np.random.default_rng(0).permutation(len(pixels))
    return pixels[order[360:]], pixels[order[:360]]


def judged(machine: Machine, train: np.ndarray, test: np.ndarray) -> tuple[float, float, float]:
    """Return the mean log-likelihoods of both, and the standard error of log Z."""
    value, error = machine.annealed_log_partition(
        torch.Generator().manual_seed(0), chains=200, temperatures=5000
    )
    free = [float(-machine.free_energy(torch.from_numpy(rows)).mean()) for rows in (train, test)]
    return free[0] - float(value), free[1] - float(value), float(error)


def run(*, quick: bool = False) -> dict[str, Any]:
    """Learn with both, for several numbers of passes."""
    from sklearn.neural_network import BernoulliRBM

    torch.set_num_threads(1)
    train, test = digits()
    frame = {f"p{j}": column for j, column in enumerate(train.T.astype(int).tolist())}
    RestrictedBoltzmannMachine(12, epochs=1, kinds="binary").fit(frame)  # imports
    rows = []
    for epochs in (2,) if quick else (20, 100, 300):
        model = RestrictedBoltzmannMachine(64, epochs=epochs, kinds="binary")
        data = model._read(frame, fitting=True)
        learner, random = model._model(), torch.Generator().manual_seed(0)
        begin = time.process_time()
        start = learner.start(data, "auto", np.random.default_rng(0))
        options = {"epochs": epochs, "learning_rate": model.learning_rate, "persistent": True, "decay": True}
        with torch.no_grad():
            learned = learner.fit(data, start, random, model.batch_size, **options)
        seconds = time.process_time() - begin
        ours = learner.machine(learner.parameters(learned))
        rows.append(_row("hiddenfield", epochs, seconds, judged(ours, train, test)))
    for passes in (2,) if quick else (20, 100, 500):
        found = []
        for rate in (0.1, 0.05, 0.01):
            peer = BernoulliRBM(64, learning_rate=rate, batch_size=50, n_iter=passes, random_state=0)
            begin = time.process_time()
            peer.fit(train)
            seconds = time.process_time() - begin
            parts = peer.components_, peer.intercept_hidden_, peer.intercept_visible_
            machine = Machine(*(torch.from_numpy(np.array(part)) for part in parts))
            found.append((judged(machine, train, test), rate, seconds))
        best, rate, seconds = max(found)
        rows.append(_row(f"scikit-learn, rate {rate}", passes, seconds, best))
    rates = (train.sum(axis=0) + 0.5) / (len(train) + 1)
    apart = [
        float((x * np.log(rates) + (1 - x) * np.log1p(-rates)).sum(axis=1).mean()) for x in (train, test)
    ]
    rows.append(_row("independent pixels", 1, None, (*apart, 0.0)))
    return {"rows": rows}


def _row(name: str, passes: int, seconds: float, values: tuple[float, float, float]) -> dict[str, Any]:
    return {
        "learned by": name,
        "passes": passes,
        "CPU seconds": seconds,
        "log-likelihood": values[0],
        "held out": values[1],
        "standard error of log Z": values[2],
    }


if __name__ == "__main__":
    main(run)
