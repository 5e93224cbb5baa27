"""Contextual graph Markov models on the command line: fit, resume, predict, embed, evaluate, report, wrong input."""

from __future__ import annotations

import numpy as np
import pytest

import hiddenfield as hf
from tests.cli.calling import call, done
from tests.report.test_report import checked

SMALL = ["--model", "cgmm", "-p", "num_states=4", "-p", "depth=2"]


def words(count=40):
    draw = np.random.default_rng(0)
    return ["".join(draw.choice(list("GAT"), size=draw.integers(2, 9))) for _ in range(count)]


@pytest.fixture
def source(tmp_path):
    """Write words with their length, and whether it is odd."""
    texts = words()
    targets = {
        "length": [len(t) + 0.5 for t in texts],
        "kind": ["odd" if len(t) % 2 else "even" for t in texts],
    }
    path = tmp_path / "words.parquet"
    hf.write(hf.data.from_sequences(texts, targets=targets, arc_labels="direction"), path)
    return path


def test_fit_predict_embed_and_the_report(capsys, tmp_path, source):
    run = tmp_path / "run"
    fit = ["fit", source, "--target", "length", "--out", run, *SMALL, "--report"]
    result = done(capsys, *fit)
    assert (result["fitted"]["model"], result["fitted"]["task"]) == ("cgmm", "regression")
    assert result["fitted"]["settings"]["num_states"] == 4
    assert result["targets"]["length"]["metrics"]["mae"] < 0.5
    model = hf.load(run)
    assert result["fitted"]["num_parameters"] == model.num_parameters_
    page = checked(run / "report.html")
    for told in ("Depth", "Average fingerprints", "layer 2", "States of nodes", "Best and worst"):
        assert told in page.shown
    assert done(capsys, "predict", run, source, "-o", tmp_path / "out.parquet")["predicted"] == 40
    width = done(capsys, "embed", run, source, "-o", tmp_path / "out.npy")["width"]
    embedded = np.load(tmp_path / "out.npy")
    assert embedded.shape == (40, width)
    assert np.array_equal(embedded, model.embed(hf.read(source)))
    files = {file: file.stat().st_mtime_ns for file in (run / "checkpoint").rglob("*.safetensors")}
    again = done(capsys, *fit, "--resume")
    assert again["targets"]["length"]["metrics"] == result["targets"]["length"]["metrics"]
    assert len(files) == 2 == len(list((run / "checkpoint").rglob("*.safetensors")))


def test_several_targets_with_a_support_vector_machine(capsys, tmp_path, source):
    run, out = tmp_path / "run", tmp_path / "out.csv"
    code, text, _ = call(
        capsys,
        "fit",
        source,
        "--target",
        "kind",
        "--out",
        run,
        *SMALL,
        "-p",
        "head=svm_jaccard",
        "--no-baselines",
    )
    assert code == 0
    assert text.startswith("classification with cgmm, ")
    assert "epoch" not in text.splitlines()[0]
    done(capsys, "predict", run, source, "-o", out, "--probabilities")
    assert out.read_text().splitlines()[0] == "row,kind,kind=even,kind=odd"


def test_evaluate_nested_and_as_published(capsys, tmp_path, source):
    folder = tmp_path / "folder"
    found = done(
        capsys, "evaluate", source, "--target", "length", *SMALL, "--folds", 2, "--jobs", 1, "--nested",
        "--as-published", "--grid", "depth=1,2", "--seeds", 1, "--out", folder,
    )  # fmt: skip
    assert found["model"] == "cgmm"
    assert {fold["selected"]["depth"] for fold in found["folds"]} <= {1, 2}
    published = found["as_published"]
    assert published["epoch"] is None
    assert "epoch" not in published["text"]
    assert published["mean"] <= found["mean"] + 1e-9  # the best of the reported folds, and these are errors
    assert not (folder / "shared").exists()


def written(tmp_path, pack, name="new.parquet"):
    hf.write(pack, tmp_path / name)
    return tmp_path / name


def test_wrong_input_is_one_line(capsys, tmp_path, source):
    run, out = tmp_path / "run", tmp_path / "out.csv"
    done(capsys, "fit", source, "--target", "kind", "--out", run, *SMALL, "--no-baselines")
    strange = written(tmp_path, hf.data.from_sequences(["GAT", "GUT"], arc_labels="direction"))
    bare = written(tmp_path, hf.data.from_sequences(["GAT"], arc_labels=None), "bare.parquet")
    for path, text in (
        (strange, "symbol 'U' of node 1 is not among the 3 known symbols"),
        (bare, "arc label columns ['direction']"),
    ):
        code, _, err = call(capsys, "predict", run, path, "-o", out)
        assert code == 1
        assert text in err
        assert len(err.strip().splitlines()) == 1
    assert done(capsys, "predict", run, strange, "-o", out, "--on-error", "skip")["predicted"] == 1
    # A graph without nodes has a fingerprint of zeros, and a prediction.
    empty = written(tmp_path, hf.data.from_sequences(["", "GAT"], arc_labels="direction"), "empty.parquet")
    assert done(capsys, "embed", run, empty, "-o", tmp_path / "out.npy")["embedded"] == 2
    assert not np.load(tmp_path / "out.npy")[0].any()
    assert done(capsys, "predict", run, empty, "-o", out)["predicted"] == 2
    nothing = hf.data.from_sequences([""] * 10, targets={"kind": ["a", "b"] * 5}, arc_labels="direction")
    code, _, err = call(
        capsys, "fit", written(tmp_path, nothing), "--target", "kind", "--out", tmp_path / "none", *SMALL
    )
    assert code == 1
    assert "no nodes" in err
    assert not (tmp_path / "none").exists()
    code, _, err = call(
        capsys, "fit", source, "--target", "kind", "--out", tmp_path / "none", *SMALL, "--dim", 3
    )
    assert code == 1
    assert "CGMMClassifier has no parameter 'dim'" in err
