"""The command line as a user meets it: output, exit codes, errors of one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import hiddenfield as hf
from hiddenfield.cli import main
from tests.cli.calling import call

REQUIRED = {
    "structures",
    "mean_nodes",
    "mean_edges",
    "node_labels",
    "edge_labels",
    "node_attributes",
    "targets",
}


@pytest.fixture
def fasta(tmp_path):
    path = tmp_path / "words.fasta"
    path.write_text(">a\nGATTACA\n>b\nCAT\n")
    return path


def test_describe_as_text_and_as_json(capsys, fasta):
    code, out, err = call(capsys, "describe", fasta)
    assert (code, err) == (0, "")
    assert "structures" in out
    assert "mean 5" in out
    code, out, _ = call(capsys, "describe", fasta, "--json")
    result = json.loads(out)
    assert code == 0
    assert set(result) >= REQUIRED
    assert (result["structures"], result["mean_nodes"], result["node_labels"]) == (2, 5.0, 4)


def test_describe_draws(capsys, fasta, tmp_path):
    code, _, _ = call(capsys, "describe", fasta, "--plot", tmp_path / "new" / "words.png")
    assert code == 0
    assert (tmp_path / "new" / "words.png").read_bytes().startswith(b"\x89PNG")
    code, _, err = call(capsys, "describe", fasta, "--plot", tmp_path / "words.txt")
    assert code == 1
    assert "must end in .png" in err


def test_convert_and_read_back(capsys, fasta, tmp_path):
    for name in ("words.parquet", "words.arrow"):
        code, out, _ = call(capsys, "convert", fasta, tmp_path / name, "--json")
        assert code == 0
        assert json.loads(out)["structures"] == 2
        assert hf.read(tmp_path / name) == hf.read(fasta)
    code, _, _ = call(capsys, "convert", fasta, tmp_path / "shards", "--shard-size", 1)
    assert code == 0
    assert hf.read(tmp_path / "shards") == hf.read(fasta)


def test_options_of_a_format(capsys, tmp_path):
    path = tmp_path / "labelled.fasta"
    path.write_text(">1\nGATTACA\n>0\nCAT\n")
    code, out, _ = call(capsys, "describe", path, "--set", "labels=header", "--json")
    assert code == 0
    assert json.loads(out)["targets"][0]["counts"] == {"1": 1, "0": 1}
    code, _, err = call(capsys, "describe", path, "--set", "label")
    assert code == 1
    assert "--set expects NAME=VALUE" in err
    code, _, err = call(capsys, "describe", path, "--set", "colour=red")
    assert code == 1
    assert "has no option 'colour'; its options are" in err


def test_generate(capsys, tmp_path):
    code, out, _ = call(
        capsys, "generate", "huckel", "-n", 7, "--seed", 2, "--out", tmp_path / "m.parquet", "--json"
    )
    assert code == 0
    assert json.loads(out)["structures"] == 7
    assert hf.read(tmp_path / "m.parquet") == hf.datasets.huckel(7, seed=2)
    code, _, _ = call(
        capsys, "generate", "huckel", "-n", 7, "--smiles", "--shard-size", 3, "--out", tmp_path / "shards"
    )
    assert code == 0
    assert hf.read(tmp_path / "shards") == hf.datasets.huckel(7, smiles=True)
    code, out, _ = call(capsys, "describe", tmp_path / "shards", "--json")
    assert json.loads(out)["structures"] == 7
    for name in ("later.parquet", "later"):
        words = ["-n", 4, "--start", 7, "--shard-size", 3, "--out", tmp_path / name, "--json"]
        code, out, _ = call(capsys, "generate", "huckel", *words)
        assert (code, json.loads(out)["start"]) == (0, 7)
        assert hf.read(tmp_path / name) == hf.datasets.huckel(11)[7:]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["describe"], 2, "Missing argument"),
        (["describe", "nothing-here.csv"], 1, "no such file or folder"),
        (["describe", "nothing.csv", "--colour"], 2, "No such option"),
        (["nonsense"], 2, "No such command"),
        (["generate", "huckel", "-n", "0", "--out", "x"], 2, "--number"),
        (["generate", "huckel", "-n", "3", "--out", "x.txt"], 1, "must end in .parquet"),
        (["generate", "rubbish", "--out", "x"], 2, "rubbish"),
        (["generate", "huckel", "-n", "3", "--start", "-1", "--out", "x"], 2, "--start"),
        (["generate", "huckel", "-n", "3", "--start", "99999999", "--out", "x"], 1, "size of the library"),
        (["generate", "huckel"], 2, "--out"),
    ],
)
def test_mistakes(capsys, monkeypatch, tmp_path, words, code, text):
    monkeypatch.chdir(tmp_path)
    found, out, err = call(capsys, *words)
    assert (found, out) == (code, "")
    assert text in err
    assert "Traceback" not in err
    if code == 1:
        assert len(err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_malformed_file_is_one_line_and_a_traceback_only_on_request(capsys, tmp_path):
    path = tmp_path / "bad.fasta"
    path.write_text("GATTACA\n>late\nCAT\n")
    code, _, err = call(capsys, "describe", path)
    assert code == 1
    assert "bad.fasta, line 1" in err
    assert len(err.strip().splitlines()) == 1
    with pytest.raises(hf.errors.ReadError):
        main(["describe", str(path), "--debug"])


def test_version_and_formats(capsys):
    code, out, _ = call(capsys, "version", "--json")
    assert code == 0
    assert json.loads(out)["hiddenfield"] == hf.__version__
    code, out, _ = call(capsys, "formats", "--json")
    names = [entry["name"] for entry in json.loads(out)["formats"]]
    assert {"arrow", "tu", "table", "fasta", "inex", "sexpr", "xml", "graphml", "edge_list"} <= set(names)
    code, out, _ = call(capsys, "formats")
    assert "options: " in out


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_a_reader_that_stops_listening_is_no_error(fasta):
    command = f"{sys.executable} -m hiddenfield.cli describe {fasta} --json | head -c 1"
    result = subprocess.run(
        command, shell=True, capture_output=True, text=True, env=environment(), check=False
    )
    assert result.stdout == "{"
    assert "Traceback" not in result.stderr
    assert "BrokenPipe" not in result.stderr


def test_completion_is_offered():
    result = subprocess.run(
        [sys.executable, "-m", "hiddenfield", "--help"],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    assert "--install-completion" in result.stdout
