"""fit, predict and embed as a user meets them: run folders, held-out metrics, mistakes, kill and resume."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import tarfile

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.evaluation import Assessment
from tests.cli.calling import call, done

QUICK = [
    "--epochs",
    "2",
    "--dim",
    "4",
    "--rounds",
    "2",
    "-p",
    "hidden=4",
    "-p",
    "counts=false",
    "--device",
    "cpu",
]
QUICK += ["--ensemble", "1", "-p", "every_round=false"]


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as source:
        return list(csv.DictReader(source))


@pytest.fixture
def molecules(tmp_path):
    """Write molecules with the number of carbons as a target, and a class."""
    texts = ["CCO", "CCN", "c1ccccc1", "CC(=O)O", "CCC", "C=C", "CCCl", "C#N", "CCCC", "CO"] * 4
    lines = [
        f"m{k},{text},{text.lower().count('c')}.5,{'ring' if '1' in text else 'chain'}"
        for k, text in enumerate(texts)
    ]
    path = tmp_path / "molecules.csv"
    path.write_text("name,smiles,size,kind\n" + "\n".join(lines) + "\n")
    return path


def test_regression(capsys, tmp_path, molecules):
    run = tmp_path / "run"
    result = done(capsys, "fit", molecules, "--target", "size", "--out", run, *QUICK)
    assert result["fitted"]["task"] == "regression"
    assert result["fitted"]["structures"] == {"train": 33, "validation": 3, "test": 4}
    measured = result["targets"]["size"]
    assert set(measured["metrics"]) == set(measured["intervals"]) == {"mae", "rmse", "r2"}
    assert set(measured["baselines"]["mean predictor"]["metrics"]) == {"mae", "rmse", "r2"}
    assert (measured["folds"][0]["train"], measured["folds"][0]["validation"]) == (36, 3)
    assert sorted(path.name for path in run.iterdir()) == [
        "assessment.json",
        "checkpoint",
        "history.json",
        "model",
        "settings.json",
        "split.json",
    ]
    split = json.loads((run / "split.json").read_text())
    assert sorted(split["train"] + split["validation"] + split["test"]) == list(range(40))
    assert len(json.loads((run / "history.json").read_text())[0]["rows"]) == 2
    told = json.loads((run / "assessment.json").read_text())
    assert told == {name: result[name] for name in told}
    assert Assessment.read(run).as_dict() == told["targets"]["size"]

    # What is reported is what the saved model gives for the structures that were held out.
    model, pack = hf.load(run), hf.read(molecules, target="size")
    test = pack[split["test"]]
    error = np.abs(model.predict(test) - test.targets[:, 0].numpy()).mean()
    assert error == pytest.approx(result["targets"]["size"]["metrics"]["mae"], rel=1e-6)

    done(capsys, "predict", run, molecules, "-o", tmp_path / "out.csv", "--set", "id=name")
    rows = rows_of(tmp_path / "out.csv")
    assert [row["id"] for row in rows] == [f"m{k}" for k in range(40)]
    np.testing.assert_allclose([float(row["size"]) for row in rows], model.predict(pack), rtol=1e-6)

    for name in ("emb.parquet", "emb.csv", "emb.npy"):
        result = done(capsys, "embed", run, molecules, "-o", tmp_path / name)
        assert (result["rows"], result["width"]) == (40, 4)
    np.testing.assert_array_equal(np.load(tmp_path / "emb.npy"), model.embed(pack))


def test_classification(capsys, tmp_path, molecules):
    code, out, err = call(
        capsys, "fit", molecules, "--target", "kind", "--out", tmp_path / "run", *QUICK, "--ensemble", 2
    )
    assert (code, err) == (0, "")
    assert "classification with 2 networks of loopy_bp" in out
    assert "accuracy of kind" in out
    assert "class frequencies" in out
    done(capsys, "predict", tmp_path / "run", molecules, "-o", tmp_path / "out.csv", "--probabilities")
    rows = rows_of(tmp_path / "out.csv")
    assert set(rows[0]) == {"row", "kind", "kind=chain", "kind=ring"}
    for row in rows:
        assert float(row["kind=chain"]) + float(row["kind=ring"]) == pytest.approx(1)
        assert row["kind"] in ("chain", "ring")


def test_several_numbers_with_their_spread(capsys, tmp_path):
    pack = hf.datasets.huckel(30, seed=0)
    hf.write(pack, tmp_path / "m.parquet")
    result = done(capsys, "fit", tmp_path / "m.parquet", "--out", tmp_path / "run", *QUICK, "--ensemble", 2)
    assert set(result["targets"]) == {"gap", "pi_energy", "pce"}
    done(capsys, "predict", tmp_path / "run", tmp_path / "m.parquet", "-o", tmp_path / "out.parquet")
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert {"gap", "gap_std", "pce", "pce_std"} <= set(table.column_names)
    np.testing.assert_allclose(
        table["gap"].to_numpy(), hf.load(tmp_path / "run").predict(pack)[:, 0], rtol=1e-6
    )


def test_rows_that_cannot_be_predicted_are_left_empty(capsys, tmp_path, molecules):
    run = tmp_path / "run"
    done(capsys, "fit", molecules, "--target", "size", "--out", run, *QUICK)
    new = tmp_path / "new.csv"
    new.write_text("smiles\nCCO\nC1CC\n[Gd]\nCC\n")
    code, _, err = call(capsys, "predict", run, new, "-o", tmp_path / "out.csv")
    assert code == 1
    assert "line 3: 'C1CC' cannot be read as a molecule" in err
    assert not (tmp_path / "out.csv").exists()
    code, out, err = call(capsys, "predict", run, new, "-o", tmp_path / "out.csv", "--on-error", "skip")
    assert code == 0
    assert "2 of 4 rows predicted" in out
    assert "unclosed ring" in err
    assert "symbols that the model does not know" in err
    rows = rows_of(tmp_path / "out.csv")
    assert [row["size"] == "" for row in rows] == [False, True, True, False]
    assert [row["error"] for row in rows] == [
        "",
        "unclosed ring",
        "element 'Gd' of node 0 is not among the 4 known symbols",
        "",
    ]
    new.write_text("smiles\nCCO\n[Gd]\n")
    code, _, err = call(capsys, "embed", run, new, "-o", tmp_path / "out.npy")
    assert code == 1
    assert "structure 1: element 'Gd' of node 0 is not among" in err
    code, _, _ = call(capsys, "embed", run, new, "-o", tmp_path / "out.npy", "--on-error", "skip")
    assert np.isnan(np.load(tmp_path / "out.npy")).all(axis=1).tolist() == [False, True]


def test_rows_that_are_left_out_keep_their_ids(capsys, tmp_path, molecules):
    run, new = tmp_path / "run", tmp_path / "new.csv"
    done(capsys, "fit", molecules, "--target", "size", "--set", "id=name", "--out", run, *QUICK)
    new.write_text("name,smiles\na,CCO\nb,C1CC\nc,[Gd]\nd,CC\na,\n")
    listed = [
        {"row": 1, "id": "b", "reason": "unclosed ring"},
        {"row": 2, "id": "c", "reason": "element 'Gd' of node 0 is not among the 4 known symbols"},
        {"row": 4, "id": "a", "reason": "the text is empty"},
    ]
    for command, name in (("predict", "out.csv"), ("embed", "emb.csv"), ("embed", "emb.npy")):
        result = done(capsys, command, run, new, "-o", tmp_path / name, "--on-error", "skip")
        assert result["left_out"] == listed
    for name in ("out.csv", "emb.csv"):
        rows = rows_of(tmp_path / name)
        assert [row["id"] for row in rows] == ["a", "b", "c", "d", "a"]
        assert [row["error"] for row in rows] == [
            "",
            *(entry["reason"] for entry in listed[:2]),
            "",
            "the text is empty",
        ]
    code, _, err = call(capsys, "predict", run, new, "-o", tmp_path / "out.csv", "--on-error", "skip")
    assert code == 0
    assert "line 3: 'C1CC' (unclosed ring; id 'b')" in err
    code, _, err = call(capsys, "predict", run, new, "-o", tmp_path / "out.csv", "--on-error", "drop")
    assert code == 1
    assert "--on-error must be 'raise' or 'skip', got 'drop'" in err


def test_unknown_symbols_of_any_format_can_be_left_out(capsys, tmp_path):
    import pyarrow.parquet

    texts = ["GATTACA", "CAT", "TAG", "ACT", "GAG", "TTT"] * 3
    (tmp_path / "old.fasta").write_text("".join(f">{k % 2} s{k}\n{text}\n" for k, text in enumerate(texts)))
    (tmp_path / "new.fasta").write_text(">first\nGAT\n>second\nGAU\n")
    done(capsys, "fit", tmp_path / "old.fasta", "--set", "labels=header", "--out", tmp_path / "run", *QUICK)
    words = ["predict", tmp_path / "run", tmp_path / "new.fasta", "-o"]
    result = done(capsys, *words, tmp_path / "out.parquet", "--on-error", "skip")
    reason = "symbol 'U' of node 2 is not among the 4 known symbols"
    assert result["left_out"] == [{"row": 1, "id": "second", "reason": reason}]
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert table["id"].to_pylist() == ["first", "second"]
    assert table["error"].to_pylist() == [None, reason]
    # Headers are ids, unless they cannot be: then they are classes, as they were in the training file.
    (tmp_path / "new.fasta").write_text(">0\nGAT\n>1\nTAG\n>0\nCAT\n")
    assert done(capsys, *words, tmp_path / "out.parquet")["predicted"] == 3
    (tmp_path / "new.fasta").write_text(">first\nGAT\n")
    assert done(capsys, *words, tmp_path / "out.parquet", "--on-error", "skip")["left_out"] == []
    assert str(pyarrow.parquet.read_schema(tmp_path / "out.parquet").field("error").type) == "string"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["fit", "{data}", "--out", "run"], 1, "nothing to learn"),
        (["fit", "{data}", "--target", "sise", "--out", "run"], 1, "sise"),
        (["fit", "{data}", "--target", "none", "--out", "run"], 1, "all 40 entries of 'none' are missing"),
        (["fit", "{data}", "--target", "size"], 2, "--out"),
        (
            ["fit", "{data}", "--target", "size", "--out", "run", "--model", "loopy"],
            1,
            "unknown model 'loopy' (did you mean 'loopy_bp'?)",
        ),
        (["fit", "{data}", "--target", "size", "--out", "run", "--epochs", "0"], 2, "--epochs"),
        (
            ["fit", "{data}", "--target", "kind", "--out", "run", "--task", "regression"],
            1,
            "is the text 'chain'",
        ),
        (
            ["fit", "{data}", "--target", "size", "--out", "run", "--task", "classification"],
            1,
            "use --task regression",
        ),
        (
            ["fit", "{data}", "--target", "size", "--out", "run", "--task", "ranking"],
            1,
            "unknown task 'ranking'",
        ),
        (
            ["fit", "{data}", "--target", "size", "--out", "run", "--test-fraction", "1"],
            1,
            "must lie in [0, 1)",
        ),
        (
            ["fit", "{data}", "--target", "size", "--out", "run", "-p", "colour=red"],
            1,
            "has no parameter 'colour'",
        ),
        (
            ["fit", "{data}", "--target", "size", "--out", "run", "-p", "dropout"],
            1,
            "--parameter expects NAME=VALUE",
        ),
        (
            ["fit", "{data}", "--target", "size", "--out", "run", "--device", "cuda:9"],
            1,
            "use 'auto' or 'cpu'",
        ),
        (["fit", "nothing.csv", "--out", "run"], 1, "no such file or folder"),
        (["predict", "nothing", "{data}", "-o", "out.csv"], 1, "no model.json"),
        (["predict", "nothing", "{data}", "-o", "out.txt"], 1, "must end in .csv, .tsv or .parquet"),
        (["embed", "nothing", "{data}"], 2, "Missing option '--out'"),
        (["embed", "nothing", "{data}", "--output", "e.npy"], 2, "Possible options: --out"),
    ],
)
def test_mistakes(capsys, monkeypatch, tmp_path, molecules, words, code, text):
    monkeypatch.chdir(tmp_path)
    molecules.write_text(molecules.read_text().replace("name,", "none,name,", 1).replace("\nm", "\n,m"))
    found, out, err = call(capsys, *[word.format(data=molecules) for word in words])
    assert (found, out) == (code, "")
    assert text in " ".join(err.split())
    assert "Traceback" not in err
    if code == 1:
        assert len(err.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["molecules.csv"]


def test_a_folder_that_is_not_empty(capsys, tmp_path, molecules):
    words = ["fit", molecules, "--target", "size", "--out", tmp_path / "run", *QUICK]
    first = done(capsys, *words)
    code, _, err = call(capsys, *words)
    assert code == 1
    assert "is not empty; choose another folder, or go on" in err
    again = done(capsys, *words, "--resume")["targets"]["size"]
    assert again["metrics"] == first["targets"]["size"]["metrics"]
    code, _, err = call(capsys, *words, "--seed", "7", "--resume")
    assert code == 1
    assert "is of a run with seed 0, not 7" in err


def test_damaged_settings_are_told_in_one_line(capsys, tmp_path, molecules):
    run = tmp_path / "run"
    done(capsys, "fit", molecules, "--target", "size", "--out", run, *QUICK, "-p", "precision=64")
    for text in ('{"reader": 3}', '{"reader": {"extra": [[7]]}}', "[1]", '{"reader": '):
        (run / "settings.json").write_text(text)
        code, _, err = call(capsys, "predict", run, molecules, "-o", tmp_path / "out.csv")
        assert code == 1
        assert "settings.json: is not the settings of a run" in err or "the option extra must be" in err
        assert len(err.strip().splitlines()) == 1


# -- kill and resume ---------------------------------------------------------------------------------------


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}


def test_a_killed_run_resumes_to_the_same_bits(capsys, tmp_path):
    """Kill real processes as soon as their checkpoint shows the wanted epoch; this one then finishes."""
    hf.write(hf.datasets.huckel(40, seed=0), tmp_path / "m.parquet")
    options = ["--epochs", "12", "--dim", "4", "-p", "hidden=4", "-p", "dropout=0.1", "--batch-size", "4"]
    options += ["--ensemble", "2"]

    def words(out, *more):
        return [
            str(word)
            for word in ("fit", tmp_path / "m.parquet", "--out", out, *options, "--device", "cpu", *more)
        ]

    command = [sys.executable, "-m", "hiddenfield.cli", *words(tmp_path / "run", "--resume")]
    for epoch in (1, 5):
        process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE)
        kill_at(process, tmp_path / "run" / "checkpoint" / "member-0.safetensors", epoch)
        assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "run" / "model").exists()
    done(capsys, *words(tmp_path / "run", "--resume"))
    done(capsys, *words(tmp_path / "whole"))
    weights = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "run")]
    assert weights[0] == weights[1]
    told = [json.loads((tmp_path / name / "assessment.json").read_text()) for name in ("whole", "run")]
    for entry in told:
        assert f"--out {tmp_path}" in entry.pop("command")
        for one in entry["targets"].values():
            one.pop("seconds")
            for baseline in one["baselines"].values():
                baseline.pop("seconds")
    assert told[0] == told[1]


def kill_at(process, checkpoint, epoch):
    """Wait for the checkpoint of an epoch, by looking at the file, and end the process there and then."""
    from hiddenfield.learning import load_checkpoint

    try:
        while process.poll() is None:
            if checkpoint.exists() and load_checkpoint(checkpoint).values["next_epoch"] >= epoch:
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.02)
    finally:
        process.kill()
        process.communicate()


# -- real data ---------------------------------------------------------------------------------------------


def through_the_three_commands(capsys, folder, data, *options):
    """Fit, predict and embed the same file; return what fit said."""
    result = done(capsys, "fit", data, "--out", folder / "run", *QUICK, "--epochs", 1, *options)
    settings = [
        word
        for k, word in enumerate(options)
        if word.startswith("labels=") or (k and options[k - 1] == "--set")
    ]
    more = [part for setting in settings for part in ("--set", setting)]
    predicted = done(capsys, "predict", folder / "run", data, "-o", folder / "out.csv", *more)
    embedded = done(capsys, "embed", folder / "run", data, "-o", folder / "emb.npy", *more)
    assert (
        predicted["rows"]
        == predicted["predicted"]
        == embedded["embedded"]
        == sum(result["fitted"]["structures"].values())
    )
    assert embedded["width"] == 4
    return result


def test_real_guides(capsys, tmp_path, data_path):
    import gzip

    file = data_path / "sequences" / "crispr_fc_res.csv.gz"
    if not file.exists():
        pytest.skip("no CRISPR data")
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()[:301]
    (tmp_path / "guides.csv").write_text("\n".join(lines) + "\n")
    result = through_the_three_commands(
        capsys, tmp_path, tmp_path / "guides.csv", "--structure", "30mer", "--target", "score_drug_gene_rank"
    )
    assert result["fitted"]["task"] == "regression"
    model = hf.load(tmp_path / "run")
    assert [v.name for v in model.features_.arc_vocabularies] == ["direction"]


def test_real_proteins(capsys, tmp_path, data_path):
    archive = data_path / "sequences" / "scop.tar.xz"
    if not archive.exists():
        pytest.skip("no SCOP data")
    with tarfile.open(archive) as opened:
        name = next(name for name in opened.getnames() if name.endswith("1.34.test.fasta"))
        text = io.TextIOWrapper(opened.extractfile(name)).read()
    records = text.split(">")[1:]
    chosen = [record for record in records if record.startswith("1")][:10] + [
        r for r in records if r.startswith("0")
    ][:50]
    (tmp_path / "scop.fasta").write_text("".join(f">{record.strip()}\n" for record in chosen))
    result = through_the_three_commands(capsys, tmp_path, tmp_path / "scop.fasta", "--set", "labels=header")
    assert result["fitted"]["task"] == "classification"


def test_real_trees(capsys, tmp_path, data_path):
    import lzma

    file = data_path / "graphs" / "INEX2005" / "inex05.train.elastic.tree.xz"
    if not file.exists():
        pytest.skip("no INEX data")
    with lzma.open(file, "rt", encoding="utf-8") as source:
        lines = [line for line, _ in zip(source, range(150), strict=False)]
    (tmp_path / "inex.tree").write_text("".join(lines))
    result = through_the_three_commands(capsys, tmp_path, tmp_path / "inex.tree")
    assert result["fitted"]["task"] == "classification"
