"""evaluate as a user meets it: JSON, table, page, mistakes, kill and resume."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.calling import call, done

QUICK = [
    "-p",
    "epochs=2",
    "-p",
    "dim=4",
    "-p",
    "hidden=4",
    "-p",
    "rounds=1",
    "-p",
    "ensemble=1",
    "-p",
    "counts=false",
    "--device",
    "cpu",
    "--jobs",
    "1",
]


@pytest.fixture
def molecules(tmp_path):
    """Write molecules with a size, a class and a family."""
    texts = ["CCO", "CCN", "c1ccccc1", "CC(=O)O", "Cc1ccccc1", "C1CC1", "CCCl", "c1ccncc1", "CCCC", "CO"] * 2
    lines = [
        f"m{k},{text},{text.lower().count('c')}.5,{'ring' if '1' in text else 'chain'},f{k % 3}"
        for k, text in enumerate(texts)
    ]
    path = tmp_path / "molecules.csv"
    path.write_text("name,smiles,size,kind,family\n" + "\n".join(lines) + "\n")
    return path


def test_nested_json_and_page(capsys, tmp_path, molecules):
    page = tmp_path / "page.html"
    result = done(
        capsys, "evaluate", molecules, "--target", "kind", "--model", "mean_field", "--folds", "2", "--nested",
        "--grid", "dim=2,4", "--seeds", "2", "--report", page, "--out", tmp_path / "run", "--set", "id=name",
        "--as-published", *QUICK,
    )  # fmt: skip
    assert {"metric", "mean", "std", "folds", "protocol", "baselines", "leakage", "seconds"} <= set(result)
    assert "2 candidates, selected by accuracy on inner hold-out of 10%" in result["protocol"]["text"]
    assert {fold["selected"]["dim"] for fold in result["folds"]} <= {2, 4}
    assert result["leakage"]["count"] > 0  # every molecule is there twice
    assert re.fullmatch(r"m\d+", result["leakage"]["ids"][0][0])
    text = page.read_text()
    for part in (
        "no arcs, same head",
        "Every split",
        "dim ",
        "Leakage",
        "as published",
        "training structures",
    ):
        assert part in text
    assert "http" not in re.sub(r'http-equiv="[^"]*"', "", text)


def test_table_and_comparison(capsys, tmp_path, molecules):
    words = ["evaluate", molecules, "--target", "size", "--folds", "3", "--model", "mean_field"]
    done(capsys, *words, "--out", tmp_path / "first", *QUICK)
    code, out, err = call(
        capsys, *words, "--against", tmp_path / "first", "--seed", "0", *QUICK, "-p", "bias=false"
    )
    assert code == 0, err
    for part in (
        "mean absolute error of size",
        "WL-3 + ridge",
        "95 % interval",
        "protocol: 3 splits (k_fold)",
        "against mean_field",
    ):
        assert part in out
    assert re.search(r"leakage: \d+ test structures", out)


@pytest.mark.parametrize(
    ("more", "count"),
    [
        (["--split", "scaffold", "--folds", "2"], 2),
        (["--split", "scaffold_hold_out", "--test-fraction", "0.3"], 1),
        (["--group", "family"], 3),
        (["--repeats", "2", "--folds", "2"], 4),
        (["--split", "hold_out"], 1),
    ],
)
def test_splits(capsys, molecules, more, count):
    result = done(
        capsys,
        "evaluate",
        molecules,
        "--target",
        "size",
        "--model",
        "mean_field",
        "--no-baselines",
        *more,
        *QUICK,
    )
    assert len(result["folds"]) == count
    assert result["baselines"] == {}


def test_published_splits(capsys, data_path):
    """Graphs of a published study with its own outer and inner splits."""
    folder = data_path / "graphs" / "ENZYMES"
    result = done(
        capsys, "evaluate", folder / "ENZYMES.zip", "--split-file", folder / "ENZYMES_model_assessment_splits.json.gz",
        "--nested", "--grid", "dim=2", "--seeds", "1", "--no-baselines", *QUICK, "-p", "epochs=1",
    )  # fmt: skip
    assert [fold["test"] for fold in result["folds"]] == [60] * 10
    assert "inner hold-out as given" in result["protocol"]["text"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--target", "kinds"], "kinds"),
        ([], "nothing to learn"),
        (["--target", "kind", "--folds", "12"], "use at most"),
        (["--target", "kind", "--folds", "3", "--metric", "auc"], "unknown metric of a classification 'auc'"),
        (["--target", "kind", "--model", "loopy"], "did you mean 'loopy_bp'"),
        (["--target", "kind", "--split-file", "missing.json"], "no such file"),
        (["--target", "kind", "--resume"], "name it with --out"),
        (["--target", "kind", "--grid", "dim=2"], "need a nested assessment"),
        (["--target", "kind", "--grid", "dim"], "expects NAME=VALUE"),
        (["--target", "kind", "--folds", "3", "--nested", "--grid", "dim=2..9"], "use a random search"),
        (["--target", "kind", "--learning-curve", "much"], "expects shares"),
        (["--target", "kind", "--group", "tribe"], "tribe"),
        (["--target", "kind", "-p", "dims=3"], "no parameter 'dims'"),
        (["--target", "kind", "--against", "nowhere"], "no such file or folder"),
    ],
)
def test_mistakes_are_one_line(capsys, molecules, more, message):
    code, out, err = call(capsys, "evaluate", molecules, *more)
    assert code == 1
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--split", "k_fold", "--group", "family"], "--group has no effect with --split k_fold"),
        (["--split", "stratified", "--repeats", "3"], "split that it goes with: repeated, hold_out"),
        (["--split", "scaffold", "--repeats", "3"], "--repeats has no effect with --split scaffold"),
        (["--group", "family", "--repeats", "3"], "--repeats has no effect with --group"),
        (["--split", "k_fold", "--split-file", "x.json"], "--split-file has no effect with --split k_fold"),
        (["--group", "family", "--split-file", "x.json"], "--split-file has no effect with --group"),
        (["--split", "hold_out", "--folds", "3"], "--folds has no effect with --split hold_out"),
        (["--split-file", "x.json", "--folds", "3"], "--folds has no effect with --split-file"),
        (["--test-fraction", "0.2"], "--test-fraction has no effect with --split auto"),
        (["--draws", "3"], "--draws has no effect without --nested or --as-published"),
        (["--inner", "k_fold"], "--inner has no effect without --nested"),
        (["--inner-folds", "3"], "--inner-folds has no effect without --nested"),
        (["--nested", "--inner-folds", "3"], "--inner-folds has no effect without --inner k_fold"),
        (
            ["--nested", "--inner", "k_fold", "--inner-fraction", "0.2"],
            "--inner-fraction has no effect without --inner hold_out",
        ),
        (["--split", "kfold"], "did you mean 'k_fold'"),
    ],
)
def test_what_has_no_effect_is_refused_before_anything_is_read(capsys, more, message):
    code, out, err = call(capsys, "evaluate", "nowhere.csv", *more)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--out", "molecules.csv/run", "molecules.csv, which is a file; name a folder elsewhere"),
        ("--out", "molecules.csv", "molecules.csv is a file; name a folder to write"),
        ("--report", ".", "is a folder; name a file to write"),
        ("--report", "molecules.csv/page.html", "molecules.csv, which is a file; name a file elsewhere"),
        (
            "--out",
            "/proc/foo",
            "--out: /proc/foo cannot be written (",
        ),
        (
            "--report",
            "/proc/foo.html",
            "--report: /proc/foo.html cannot be written (",
        ),
    ],
)
def test_where_nothing_can_be_written_is_told_before_any_work(
    capsys, monkeypatch, molecules, option, name, message
):
    monkeypatch.setattr("hiddenfield.evaluation.assessment.assessing.assess", unwanted)
    code, out, err = call(capsys, "evaluate", molecules, "--target", "kind", option, molecules.parent / name)
    assert (code, out) == (1, "")
    assert message in err
    assert "Errno" not in err
    assert ".partial" not in err
    assert err.count("\n") == 1


def unwanted(*_, **__):
    raise AssertionError("this work was not to be done")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--target", "size", "--metric", "rmse"], "metric is mae there and rmse here"),
        (["--target", "kind"], "metric is mae there and accuracy here"),
        (["--target", "size", "--seed", "1"], "splits is"),
        (["--target", "size", "--structure", "family", "--set", "kind=sequence"], "data is"),
    ],
)
def test_what_cannot_be_compared_is_told_before_any_work(
    capsys, monkeypatch, tmp_path, molecules, more, message
):
    words = ["evaluate", molecules, "--model", "mean_field", "--folds", "2", "--no-baselines", *QUICK]
    done(capsys, *words, "--target", "size", "--out", tmp_path / "first")
    monkeypatch.setattr("hiddenfield.evaluation.assessment.assessing.assess", unwanted)
    code, out, err = call(capsys, *words, *more, "--against", tmp_path / "first")
    assert (code, out) == (1, "")
    assert "first cannot be compared with: " in err
    assert message in err


def test_one_split_or_a_damaged_assessment_is_not_compared_with(capsys, monkeypatch, tmp_path, molecules):
    words = ["evaluate", molecules, "--target", "size", "--model", "mean_field", "--no-baselines", *QUICK]
    words += ["--split", "hold_out"]
    found = done(capsys, *words)
    monkeypatch.setattr("hiddenfield.evaluation.assessment.assessing.assess", unwanted)
    file = tmp_path / "other.json"
    for change, message in (
        ({}, "compared split by split, on two or more of them; here are 1"),
        ({"protocol": {"data": ""}}, "other.json: is not a finished assessment ("),
        ({"folds": [{"value": "x"}]}, "other.json: is not a finished assessment ("),
        ({"mean": None}, "other.json: is not a finished assessment ("),
    ):
        file.write_text(json.dumps(found | change))
        code, out, err = call(capsys, *words, "--against", file)
        assert (code, out) == (1, "")
        assert message in err


def test_the_result_is_printed_though_its_page_cannot_be_written(capsys, monkeypatch, tmp_path, molecules):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hiddenfield.report.assessment_page.write_report", full)
    words = [
        "evaluate",
        molecules,
        "--target",
        "size",
        "--model",
        "mean_field",
        "--folds",
        "2",
        "--no-baselines",
    ]
    code, out, err = call(capsys, *words, *QUICK, "--report", tmp_path / "page.html", "--json")
    assert code == 1
    assert "No space left" in err
    assert len(json.loads(out)["folds"]) == 2


def test_several_targets_by_name_list_and_pattern(capsys, tmp_path, molecules):
    words = ["evaluate", molecules, "--folds", "2", "--model", "mean_field", *QUICK]
    result = done(capsys, *words, "--target", "size", "--target", "kind", "--out", tmp_path / "run")
    assert list(result["targets"]) == ["size", "kind"]
    assert [mean["metric"] for mean in result["means"]] == ["mae", "accuracy"]
    assert result["targets"]["size"]["structures"]["used"] == 20
    single = done(capsys, *words, "--target", "kind")
    assert single["mean"] == result["targets"]["kind"]["mean"]
    code, out, err = call(
        capsys, *words, "--target", "si*,kind", "--report", tmp_path / "page.html", "--no-baselines"
    )
    assert (code, err) == (0, "")
    assert "mean of" not in out
    assert "All targets" in (tmp_path / "page.html").read_text()
    # A target that cannot be assessed is told, and the others are assessed.
    molecules.write_text(
        "\n".join(f"{line},{'same' if k else 'one'}" for k, line in enumerate(molecules.read_text().split()))
    )
    result = done(capsys, *words, "--target", "size,one", "--no-baselines")
    assert list(result["targets"]) == ["size"]
    assert "one class" in result["failed"]["one"]
    code, _, err = call(capsys, *words, "--target", "x*")
    assert code == 1
    assert "x*" in err


def test_a_baseline_that_is_better_is_named_with_the_command_that_fits_it(capsys, tmp_path):
    path = tmp_path / "chains.csv"
    path.write_text("smiles,size\n" + "".join(f"{'C' * k}O,{k + 1}.5\n" for k in range(1, 41)))
    words = ["evaluate", path, "--target", "size", "--folds", "4"]
    code, text, _ = call(capsys, *words, *QUICK, "--report", tmp_path / "page.html")
    assert code == 0
    assert "head=linear" in (tmp_path / "page.html").read_text()
    assert re.search(
        r"warning: the model is (worse|not significantly better) than (labels|WL-3) \+ ridge", text
    )
    assert "--model kernel:wl_subtree --parameter head=linear" in text
    kernel = ["--model", "kernel:wl_subtree", "-p", "head=linear", "-p", "normalise=false", "--jobs", "1"]
    code, text, _ = call(capsys, *words, *kernel)
    assert code == 0
    assert "--model kernel:wl_subtree" not in text
