"""Does `hiddenfield fit` need to be told how many threads to use, and how soon does a fresh install train?

Each fit of 200 molecules, ten epochs, is a process of its own, as people start it: with the default number of threads,
and with OMP_NUM_THREADS 1 and the number of cores; as the machine is, and beside a busy process for every core. Of two
fits each, that take turns, the better: wall-clock and CPU seconds of the process, seconds of the epochs, the ratio of
the whole to the best setting, and a fingerprint of the weights, which must be the same in every row but the last two.
The last rows are of an empty cache of compiled loops, and of the same cache in a second run: one epoch, imports and
reading included. `load` is the load average of the minute before: about 0 on an idle machine, more where other programs
ran.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.environment import main

STRUCTURES, EPOCHS, REPEATS = 200, 10, 2
# Ends with the process that started it, however that ends.
BURN = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(100000))"


def fit(folder: Path, name: str, epochs: int, **variables: str) -> dict[str, Any]:
    """Fit in a new process; return its times and a fingerprint of the weights."""
    plain = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    out = folder / name
    words = ["fit", str(folder / "m.parquet"), "--target", "gap", "--out", str(out), "--epochs", str(epochs)]
    started, before = time.perf_counter(), _children()
    subprocess.run(
        [sys.executable, "-m", "hiddenfield", *words, "--device", "cpu", "--no-baselines", "--json"],
        env=plain | variables,
        check=True,
        capture_output=True,
    )
    wall, cpu = time.perf_counter() - started, _children() - before
    histories = json.loads((out / "history.json").read_text())  # of networks that were trained side by side
    weights = (out / "model" / "model.safetensors").read_bytes()
    training = max(sum(row["seconds"] for row in history["rows"]) for history in histories)
    return {
        "wall": wall,
        "cpu": cpu,
        "training": training,
        "weights": hashlib.sha256(weights).hexdigest()[:12],
    }


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(quick: bool = False) -> dict[str, Any]:
    import hiddenfield as hf

    folder, rows, epochs = Path(tempfile.mkdtemp()), [], 1 if quick else EPOCHS
    hf.write(hf.datasets.huckel(STRUCTURES, seed=0), folder / "m.parquet")
    cores = os.cpu_count() or 1
    settings = {"default": {}} | {f"{n} threads": {"OMP_NUM_THREADS": str(n)} for n in (1, cores)}
    fit(folder, "warm", 1)
    for load in ("as it is",) if quick else ("as it is", "busy"):
        others = 0 if load == "as it is" else cores
        burning = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(others)]
        try:
            above, found = os.getloadavg()[0], {}
            for turn in range(1 if quick else REPEATS):
                for name, own in settings.items():
                    one = fit(folder, f"{load} {name} {turn}", epochs, **own)
                    found[name] = min(one, found.get(name, one), key=lambda entry: entry["wall"])
        finally:
            for process in burning:
                process.kill()
                process.wait()
        best = min(entry["wall"] for entry in found.values())
        rows += [
            {"machine": load, "load": above, "threads": name, **entry, "to the best": entry["wall"] / best}
            for name, entry in found.items()
        ]
    cache = {"XDG_CACHE_HOME": str(folder / "cache"), "NUMBA_CACHE_DIR": ""}
    for name in ("first run of a fresh install", "its second run"):
        row = {"machine": "as it is", "load": os.getloadavg()[0], "threads": name}
        rows.append(row | fit(folder, name, 1, **cache) | {"to the best": None})
    return {"question": "threads, and the first run", "rows": rows}


if __name__ == "__main__":
    main(run)
