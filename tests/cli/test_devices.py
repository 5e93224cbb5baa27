"""``hiddenfield fit --devices 2`` gives what one process gives."""

from __future__ import annotations

import json

import pytest

from tests.cli.calling import done


def test_two_processes_fit_what_one_fits(capsys, tmp_path):
    path = tmp_path / "words.csv"
    words = ["GA", "GATTACA", "TTT", "A", "GATT", "CCAT"] * 5
    path.write_text("sequence,size\n" + "".join(f"{word},{len(word)}.5\n" for word in words))
    found = {}
    for devices in (1, 2):
        command = [
            "fit",
            path,
            "--structure",
            "sequence",
            "--target",
            "size",
            "--out",
            tmp_path / str(devices),
        ]
        quick = ["--epochs", "2", "--dim", "4", "--rounds", "2", "-p", "hidden=4", "--device", "cpu"]
        quick += ["--ensemble", "1", "-p", "counts=false"]
        found[devices] = done(capsys, *command, *quick, "--devices", str(devices))
        settings = json.loads((tmp_path / str(devices) / "settings.json").read_text())
        assert settings["parameters"]["devices"] == devices
    assert found[1]["fitted"]["best_epoch"] == found[2]["fitted"]["best_epoch"]
    for name, value in found[1]["targets"]["size"]["metrics"].items():
        assert found[2]["targets"]["size"]["metrics"][name] == pytest.approx(value, rel=1e-4), name
