"""An assessment that is killed goes on where it was, and nothing tells it from one that was not."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import hiddenfield as hf
from tests.cli.calling import done


def test_a_killed_assessment_resumes_to_the_same_json(capsys, tmp_path):
    """Kill a real process, and with it its two workers, as soon as some cells are there; then go on with one."""
    hf.write(hf.datasets.huckel(24, seed=0), tmp_path / "m.parquet")
    words = [
        "evaluate", tmp_path / "m.parquet", "--target", "gap", "--folds", "3", "--nested", "--grid", "dim=2,4,6",
        "--seeds", "2", "-p", "epochs=2", "-p", "dropout=0.2", "-p", "hidden=4", "--device", "cpu",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    run = tmp_path / "run"
    command = [sys.executable, "-m", "hiddenfield.cli", *map(str, words), "--jobs", "2", "--out", run]
    process = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL)
    cells = kill_after(process, run / "cells", 4)
    assert process.returncode == -signal.SIGKILL
    assert not (run / "assessment.json").exists()
    kept = {cell: cell.stat().st_mtime_ns for cell in cells}
    resumed = done(capsys, *words, "--jobs", "1", "--out", run, "--resume")
    assert {cell: cell.stat().st_mtime_ns for cell in cells} == kept  # what was done was not done again
    whole = done(capsys, *words, "--jobs", "1", "--out", tmp_path / "whole")
    own = {"seconds": 0, "command": ""}
    assert resumed | own == whole | own
    assert {"num_parameters", "ranges", "training_curve"} <= set(whole)
    names = [
        sorted(cell.name for cell in (folder / "cells").glob("[!.]*")) for folder in (run, tmp_path / "whole")
    ]
    assert names[0] == names[1]


def kill_after(process, folder, count):
    """Wait until so many cells are there, by looking at the folder, and end the process there and then."""
    try:
        while process.poll() is None and len(list(folder.glob("[!.]*.json"))) < count:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.02)
    finally:
        process.kill()
        process.communicate()
    return list(folder.glob("[!.]*.json"))
