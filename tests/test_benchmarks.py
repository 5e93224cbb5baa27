"""What benchmarks write from their numbers."""

from __future__ import annotations

import numpy as np

from benchmarks.calibration import calibrate, section
from benchmarks.uai import conclusion
from hiddenfield.fields import ising_grid
from hiddenfield.inference import infer


def test_calibration_counts_standard_errors() -> None:
    field = ising_grid(4, 4, 0.2, 0.1)
    exact, run = infer(field, "exact"), infer(field, "gibbs")
    truth, log_partition = exact.log_marginals.exp().numpy(), float(exact.log_partition)
    good = calibrate(run, truth, log_partition, 0.0)
    assert good["converged"]
    assert good["variables"] == 16
    assert good["largest"] < 0.05
    assert good["within"] == sorted(good["within"])
    assert good["within"][2] >= 15
    assert good["log_partition_within"][1]
    bad = calibrate(run, truth.reshape(-1, 2)[:, ::-1].ravel(), log_partition + 100, 0.0)
    assert bad["within"][2] < 16
    assert bad["log_partition_within"] == [False, False]
    assert calibrate(run, truth, log_partition + 100, 100.0)["log_partition_within"] == [True, True]
    lines = section([{"family": "Grids", "calibration": [good, {**bad, "largest": 0.5}]}])
    assert "Of 2 runs that said *converged*, 1 were right" in "\n".join(lines)
    assert section([{"family": "Grids"}]) == []


def test_pages_of_problems_begin_with_a_conclusion() -> None:
    row = {"family": "Grids", "problem": "a", "guarantee": "exact", "chosen": "exact", "seconds": 1.0}
    hard = {
        **row,
        "problem": "b",
        "guarantee": "estimate",
        "chosen": "relaxed",
        "log_partition_error": np.log(10),
    }
    rows = [
        {**row, "method": "auto", "score": 1.0, "log_partition_error": 0.0},
        {**hard, "method": "auto", "score": 0.9},
        {**row, "method": "exact", "score": 1.0, "log_partition_error": 0.0},
        {"family": "Grids", "problem": "b", "method": "exact", "status": "refused"},
    ]
    text = " ".join(conclusion(rows, 20.0))
    assert "`auto`, scores 0.950 of 1 on the 2 problems" in text
    assert (
        "exact on 1 of them and takes `relaxed` on 1, and its log10 Z is off by 0.5 (median) and 0.5" in text
    )
    assert "`exact`, answers 1 of 2 and scores 0.500" in text
    assert conclusion(rows[2:], 20.0) == []
