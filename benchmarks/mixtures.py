"""How long does a turn of EM for a Gaussian mixture take, with and without holes, compared with scikit-learn?

A mixture of full covariances is learned from 100,000 rows of 10 columns with 10 components. A turn is an E step and an
M step from the same parameters; scikit-learn's are its own two methods. Rows with holes have no exact rival: they
are compared with complete rows. Of the rows of 30 columns almost every one misses other cells than all others. The
candidates alternate; best of several runs, one thread. The deviation is the
largest difference of a mean after the turn from scikit-learn's; with holes, on 200 rows, from the textbook's formulas
row after row. Turns to the maximum are from one start on 20,000 of the rows with holes, plain and accelerated, to the
same tolerance, with the log-likelihood reached (per row, less the best).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.environment import main, side_by_side
from hiddenfield.data.rows import Rows
from hiddenfield.learning.em import Fill, fit_em
from hiddenfield.models.gaussian_mixture import MixtureOfGaussians
from hiddenfield.models.gaussians import Gaussians


def drawn(rows: int, columns: int, components: int, apart: float = 3.0) -> np.ndarray:
    """Return rows of a mixture whose components overlap a little."""
    random = np.random.default_rng(0)
    centres = apart * random.normal(size=(components, columns))
    return centres[random.integers(components, size=rows)] + random.normal(size=(rows, columns))


def pierced(values: np.ndarray, share: float) -> np.ndarray:
    """Return the rows with a share of the cells missing at random."""
    lost = np.random.default_rng(1).random(values.shape) < share
    return np.where(lost, np.nan, values)


def model_of(values: np.ndarray, components: int) -> MixtureOfGaussians:
    """Return the model of full covariances."""
    return MixtureOfGaussians(components, Gaussians("full", np.nanmean(values, 0), np.nanstd(values, 0)))


def by_hand(model: MixtureOfGaussians, values: np.ndarray, given: dict[str, np.ndarray]) -> np.ndarray:
    """Return the means after a turn, by the textbook's formulas."""
    shares = model.infer(Rows(values), given)
    total = np.zeros_like(given["means"])
    for row, share in zip(values, shares, strict=True):
        seen, lost = ~np.isnan(row), np.isnan(row)
        for k, (mean, covariance) in enumerate(zip(given["means"], given["covariances"], strict=True)):
            filled = np.where(seen, row, mean)
            gain = covariance[np.ix_(lost, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
            filled[lost] += gain @ (row[seen] - mean[seen])
            total[k] += share[k] * filled
    return total / shares.sum(0)[:, None]


def turns(rows: int, repeats: int) -> list[dict[str, Any]]:
    """Measure a turn on complete rows and on rows with holes."""
    from sklearn.mixture import GaussianMixture

    values = drawn(rows, 10, 10)
    model, start = model_of(values, 10), None
    start = model.start(Rows(values), "k_means", np.random.default_rng(0))
    precisions = np.linalg.inv(start["covariances"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = GaussianMixture(
            10, reg_covar=0, max_iter=1, weights_init=start["weights"], means_init=start["means"]
        )
        peer.precisions_init = precisions
        peer.fit(values)  # sets it up, and takes the one turn that is compared
    after = peer.means_.copy()

    def theirs() -> None:
        _, log_shares = peer._e_step(values)
        peer._m_step(values, log_shares)

    candidates: dict[str, Any] = {"scikit-learn, complete": theirs}
    data = {"complete": Rows(values)} | {
        f"{s:.0%} missing": Rows(pierced(values, s)) for s in (0.05, 0.2, 0.5)
    }
    for name, each in data.items():
        candidates[name] = lambda each=each: model.maximize(
            model.expected_statistics(each, start, Fill()), start
        )
    seconds = side_by_side(candidates, repeats)
    own = model.maximize(model.expected_statistics(data["complete"], start, Fill()), start)["means"]
    found = []
    for name, value in seconds.items():
        deviation = None
        if name == "complete":
            deviation = float(np.abs(own - after).max())
        elif name in data:
            few = data[name].values[:200]
            told = model.maximize(model.expected_statistics(Rows(few), start, Fill()), start)["means"]
            deviation = float(np.abs(told - by_hand(model, few, start)).max())
        patterns = len(data[name].patterns.observed) if name in data else None
        found.append(
            {
                "rows": f"{rows:,} x 10, {name}" if name in data else f"{name}, {rows:,} x 10",
                "patterns": patterns,
                "ms a turn": 1e3 * value,
                "times scikit-learn": seconds["scikit-learn, complete"] / value,
                "of complete": value / seconds["complete"],
                "deviation": deviation,
            }
        )
    return found


def wide(rows: int, repeats: int) -> list[dict[str, Any]]:
    """Measure a turn where almost every row has a pattern of its own."""
    values = drawn(rows, 30, 5)
    model = model_of(values, 5)
    start = model.start(Rows(values), "k_means", np.random.default_rng(0))
    data = {"complete": Rows(values), "20% missing": Rows(pierced(values, 0.2))}
    seconds = side_by_side(
        {
            name: lambda each=each: model.maximize(model.expected_statistics(each, start, Fill()), start)
            for name, each in data.items()
        },
        repeats,
    )
    return [
        {
            "rows": f"{rows:,} x 30, {name}",
            "patterns": len(data[name].patterns.observed),
            "ms a turn": 1e3 * value,
            "of complete": value / seconds["complete"],
        }
        for name, value in seconds.items()
    ]


def acceleration(rows: int) -> list[dict[str, Any]]:
    """Count the turns to the maximum, plain and accelerated."""
    values = pierced(drawn(rows, 10, 4, apart=0.7), 0.2)  # they overlap, where EM is slow
    model = model_of(values, 4)
    start = model.start(Rows(values), "k_means", np.random.default_rng(0))
    found = {
        kind: fit_em(
            model, Rows(values), start=start, acceleration=kind, tolerance=1e-7, max_iterations=3000
        ).best
        for kind in ("none", "squarem")
    }
    best = max(run.objective for run in found.values())
    return [
        {
            "rows": f"{rows:,} x 10, 20% missing, {'SQUAREM' if kind == 'squarem' else 'plain'} to the maximum",
            "turns": run.iterations,
            "below the best": (best - run.objective) / rows,
        }
        for kind, run in found.items()
    ]


def run(*, quick: bool = False) -> dict[str, Any]:
    """Measure, with one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            rows = turns(5_000 if quick else 100_000, 2 if quick else 7)
            rows += wide(1_000 if quick else 20_000, 2 if quick else 5)
            rows += acceleration(2_000 if quick else 20_000)
    finally:
        torch.set_num_threads(before)
    columns = dict.fromkeys(name for row in rows for name in row)
    return {"rows": [dict.fromkeys(columns) | row for row in rows]}


if __name__ == "__main__":
    main(run)
