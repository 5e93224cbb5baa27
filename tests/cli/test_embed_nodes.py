"""``hiddenfield embed`` on the nodes of a network."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.estimators import LINEEncoder, SDNEEncoder
from tests.cli.calling import call, done

QUICK = ("--dim", 4, "-p", "samples=2000")


@pytest.fixture
def network(tmp_path):
    path = tmp_path / "network.txt"
    path.write_text("ann bob\nbob cid\ncid ann\ncid dan\n")
    return path


def test_vectors_with_names(network, tmp_path, capsys):
    result = done(
        capsys, "embed", network, "--model", "line", *QUICK, "--seed", 3, "--out", tmp_path / "v.csv"
    )
    assert (result["rows"], result["embedded"], result["width"]) == (4, 4, 4)
    rows = list(csv.DictReader((tmp_path / "v.csv").read_text().splitlines()))
    assert [row["id"] for row in rows] == ["ann", "bob", "cid", "dan"]
    expected = LINEEncoder(dim=4, samples=2000, random_state=3).fit_transform(network)
    np.testing.assert_allclose([[float(row[f"embedding_{k}"]) for k in range(4)] for row in rows], expected)
    done(capsys, "embed", network, "--model", "line", *QUICK, "--seed", 3, "--out", tmp_path / "v.npy")
    assert np.array_equal(np.load(tmp_path / "v.npy"), expected)
    done(capsys, "embed", network, "--model", "spectral", "--dim", 2, "--out", tmp_path / "v.parquet")


def test_a_saved_encoder_embeds_new_nodes(network, tmp_path, capsys):
    model = SDNEEncoder(dim=2, hidden=4, epochs=1).fit(network)
    model.save(tmp_path / "model")
    (tmp_path / "new.txt").write_text("eve ann\neve bob\n")
    result = done(capsys, "embed", tmp_path / "model", tmp_path / "new.txt", "--out", tmp_path / "v.npy")
    assert result["rows"] == 3
    assert np.array_equal(
        np.load(tmp_path / "v.npy"), hf.load(tmp_path / "model").transform(tmp_path / "new.txt")
    )
    code, _, err = call(capsys, "predict", tmp_path / "model", network, "--out", tmp_path / "p.csv")
    assert code == 1
    assert "which predict nothing; hiddenfield embed gives them" in err


def test_tables_are_lists_of_edges(tmp_path, capsys):
    table = tmp_path / "network.csv"
    table.write_text("source,target,weight\nann,bob,1\nbob,cid,2\n")
    result = done(capsys, "embed", table, "--model", "line", *QUICK, "--out", tmp_path / "v.csv")
    assert result["rows"] == 3
    table.write_text("ann,bob\nbob,cid,2\n")
    code, _, err = call(capsys, "embed", table, "--model", "line", *QUICK, "--out", tmp_path / "v.csv")
    assert code == 1
    assert "network.csv, line 2: expected 2 fields, as on line 1, got 3" in err


def test_options_of_the_reader_and_what_is_skipped(network, tmp_path, capsys):
    network.write_text("from,to\nann,bob\nbob,bob\nbob,ann\nbob,cid\n")
    words = ("embed", network, "--model", "line", *QUICK, "--format", "edge_list", "--set", "header=true")
    code, _, err = call(capsys, *words, "--out", tmp_path / "v.csv")
    assert code == 1
    assert "1 self-loops, first edge ('bob', 'bob'); 1 edges listed again" in err
    assert "--on-error skip" in err
    code, _, err = call(capsys, *words, "--on-error", "skip", "--out", tmp_path / "v.csv")
    assert code == 0
    assert "warning: skipped or merged: 1 self-loops" in err
    network.write_text("0 1\n1 0\n1 2\n")
    done(
        capsys,
        "embed",
        network,
        "--model",
        "line",
        *QUICK,
        "--set",
        "directed=true",
        "--out",
        tmp_path / "v.csv",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["net"], "expected RUN and PATH for a fitted model, or NETWORK alone with --model"),
        (["net", "net", "--model", "line"], "expected RUN and PATH"),
        (
            ["net", "--model", "lime"],
            "unknown model 'lime' (did you mean 'line'?); choose from: line, sdne, spectral",
        ),
        (
            ["net", "--model", "line", "-p", "width=3"],
            "LINEEncoder has no parameter 'width'; its parameters are: dim, ",
        ),
        (["net", "net", "--dim", "3"], "a fitted model has its own parameters, but dim was given"),
        (["none.txt", "--model", "line"], "none.txt"),
        (["net", "--model", "line", "--dim", "3"], "dim must be even, got 3"),
        (["net", "--model", "line", "--set", "colour=1"], "has no option 'colour'"),
    ],
)
def test_what_is_refused(network, tmp_path, capsys, words, message):
    words = [network if word == "net" else word for word in words]
    code, _, err = call(capsys, "embed", *words, "--out", tmp_path / "v.csv")
    assert code == 1
    assert message in err
    assert not (tmp_path / "v.csv").exists()
