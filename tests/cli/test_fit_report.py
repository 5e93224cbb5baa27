"""``hiddenfield fit --report`` and ``--baselines``, as a user meets them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.errors import ReadError
from hiddenfield.report import collect_run
from tests.cli.calling import call
from tests.report.test_report import checked


@pytest.fixture
def words(tmp_path):
    generator = np.random.default_rng(0)
    texts = ["".join(generator.choice(list("GAT"), size=generator.integers(1, 9))) for _ in range(50)]
    targets = {
        "length": [float(len(t)) + 0.5 for t in texts],
        "kind": ["odd" if len(t) % 2 else "even" for t in texts],
    }
    path = tmp_path / "words.parquet"
    hf.write(hf.data.from_sequences(texts, targets=targets, arc_labels="direction"), path)
    return path


def fit(capsys, words, *options):
    out = words.parent / "run"
    return call(
        capsys, "fit", words, "--out", out, "--epochs", 1, "--dim", 4, "--device", "cpu", *options
    ), out


def test_the_page_and_the_table(capsys, words):
    (code, out, err), folder = fit(capsys, words, "--target", "length", "--report")
    assert (code, err) == (0, "")
    assert "WL-3 + ridge" in out
    assert str(folder / "report.html") in out
    page = checked(folder / "report.html")
    assert "words: length" in page.shown
    # Structures without ids are named by their rows in the file, not by their places among the test structures.
    test = json.loads((folder / "split.json").read_text())["test"]
    rows = {int(row) for row in re.findall(r"row (\d+)", page.shown)}
    assert rows <= set(test)
    assert len(rows) == min(8, len(test))
    assert "WL-3 + ridge" in page.shown


def test_the_comparison_as_json_without_a_page(capsys, words):
    (code, out, _), folder = fit(capsys, words, "--target", "kind", "--baselines", "--json")
    assert code == 0
    result = json.loads(out)
    assert [row["name"] for row in result["comparison"]] == [
        "class frequencies",
        "labels + logistic",
        "WL-3 + logistic",
        "loopy_bp",
    ]
    assert result["comparison"][-1]["metrics"]["accuracy"] == pytest.approx(
        result["test"]["kind"]["accuracy"]
    )
    assert not (folder / "report.html").exists()


def test_the_page_without_baselines(capsys, words):
    (code, out, _), folder = fit(capsys, words, "--target", "length", "--report", "--no-baselines")
    assert code == 0
    assert "WL-3" not in out
    assert "WL-3" not in checked(folder / "report.html").shown


def test_what_is_refused_is_refused_before_fitting(capsys, words):
    (code, _, err), folder = fit(capsys, words, "--target", "length", "--report", "--test-fraction", 0)
    assert code == 1
    assert "needs test structures" in err
    (code, _, err), _ = fit(capsys, words, "--target", "width")
    assert code == 1
    assert "no target 'width'; they have: length, kind" in err
    assert not folder.exists()


def test_other_data_than_the_run_had_are_refused(capsys, words):
    (code, _, _), folder = fit(capsys, words, "--target", "length")
    assert code == 0
    structures = hf.read(words)
    assert collect_run(folder, structures, rounds=None).target == "length"
    with pytest.raises(ReadError, match="give the data of the run"):
        collect_run(folder, structures[:10])
    (folder / "split.json").write_text("[]")
    with pytest.raises(ReadError, match="is not the split of a run"):
        collect_run(folder, structures)
