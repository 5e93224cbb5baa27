"""``hiddenfield fit --report`` and ``--baselines``, as a user meets them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.errors import ReadError
from hiddenfield.estimators import StructureClassifier
from hiddenfield.evaluation import AssessmentSettings, Split
from hiddenfield.evaluation.held_out import measure_fit
from hiddenfield.report import collect_run
from hiddenfield.report.assessment_text import assessment_as_text
from tests.cli.calling import call, done
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
    out, quick = words.parent / "run", ["--epochs", 1, "--dim", 4, "--ensemble", 1, "--device", "cpu"]
    return call(capsys, "fit", words, "--out", out, *quick, "-p", "counts=false", *options), out


def test_the_page_and_the_table(capsys, words):
    (code, out, err), folder = fit(capsys, words, "--target", "length", "--report")
    assert (code, err) == (0, "")
    assert "WL-3 + ridge" in out
    assert str(folder / "report.html") in out
    page = checked(folder / "report.html")
    assert "words: length" in page.shown
    # Structures without ids are named by their rows in the file, not by their places among the test structures.
    test = json.loads((folder / "split.json").read_text())["test"]
    rows = {int(row) for row in re.findall(r"row (\d+)", page.shown.rpartition("Best and worst")[2])}
    assert rows <= set(test)
    assert len(rows) == min(8, len(test))
    assert "WL-3 + ridge" in page.shown


def test_the_comparison_as_json_without_a_page(capsys, words):
    (code, out, _), folder = fit(capsys, words, "--target", "kind", "--baselines", "--json")
    assert code == 0
    result = json.loads(out)
    kind = result["targets"]["kind"]
    assert list(kind["baselines"]) == ["class frequencies", "labels + logistic", "WL-3 + logistic"]
    assert kind["baselines"]["WL-3 + logistic"]["seconds"] > 0
    assert (kind["model"], kind["mean"]) == ("loopy_bp", kind["metrics"]["accuracy"])
    assert kind["protocol"]["splits"]
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
    (code, _, err), _ = fit(capsys, words, "--target", "length,kind")
    assert code == 1
    assert "target 'kind' is of classes and 'length' of numbers" in err
    assert not folder.exists()


def test_other_data_than_the_run_had_are_refused(capsys, words):
    (code, _, _), folder = fit(capsys, words, "--target", "length")
    assert code == 0
    structures = hf.read(words)
    assert collect_run(folder, structures).target == "length"
    with pytest.raises(ReadError, match="give the data of the run"):
        collect_run(folder, structures[:10])
    (folder / "split.json").write_text("[]")
    with pytest.raises(ReadError, match="is not the split of a run"):
        collect_run(folder, structures)


def test_a_fit_is_an_assessment_with_one_hold_out(capsys, words):
    """The record of a fit is that of evaluate on the same hold-out: same split, baselines, copies and protocol."""
    (code, out, _), _ = fit(capsys, words, "--target", "kind", "--json")
    assert code == 0
    mine = json.loads(out)["targets"]["kind"]
    quick = ["-p", "epochs=1", "-p", "dim=4", "-p", "ensemble=1", "-p", "counts=false", "-p", "device=cpu"]
    theirs = done(capsys, "evaluate", words, "--target", "kind", "--split", "hold_out", *quick, "--jobs", 1)
    assert mine["protocol"] == theirs["protocol"]
    assert mine["structures"] == theirs["structures"]
    assert set(mine) | {"command", "warnings"} == set(theirs)
    for name in ("class frequencies", "labels + logistic", "WL-3 + logistic"):
        for key in ("mean", "interval", "metrics", "num_parameters", "note"):
            assert mine["baselines"][name].get(key) == theirs["baselines"][name].get(key), (name, key)
    for key in ("count", "share", "contradicting", "folds", "ids"):
        assert mine["leakage"][key] == theirs["leakage"][key]


def test_a_class_that_is_only_in_the_test_part_is_counted_as_wrong():
    """The model has not seen it; the codes of the classes that sort after it do not move."""
    texts, kinds = ["G", "T"] * 20 + ["C", "T", "T"], ["a", "c"] * 20 + ["b", "c", "c"]
    pack = hf.data.from_sequences(texts, targets={"kind": kinds, "other": [*kinds[:40], None, None, None]})
    options = {"dim": 8, "epochs": 30, "ensemble": 1, "counts": False, "random_state": 0, "device": "cpu"}
    split = Split("one", np.arange(40), np.arange(40, 43))
    model = StructureClassifier(**options).fit(pack[split.train])
    assert model.predict(pack[split.test])[1:, 0].tolist() == ["c", "c"]
    record = measure_fit(model, pack, split, AssessmentSettings([split], baselines=False))
    assert record.targets["kind"].mean == pytest.approx(2 / 3)
    assert record.failed == {"other": "no test structure has it"}
    text = assessment_as_text(record)
    assert "not assessed: other: no test structure has it" in text
    assert "40 training, 0 validation, 3 test structures" in text


# -- what the numbers are worth ----------------------------------------------------------------------------


@pytest.fixture
def copied(tmp_path):
    """Write a table in which every molecule comes ten times, of a batch each, with a target that it decides."""
    texts = ["C" * k + end for k in range(1, 9) for end in ("O", "N", "Cl", "=O", "c1ccccc1")]
    lines = [f"{text},{len(text)}.5,{k % 7},b{k}" for k in range(10) for text in texts]
    path = tmp_path / "copies.csv"
    path.write_text("smiles,size,other,batch\n" + "\n".join(lines) + "\n")
    return path


def test_copies_in_training_are_reported_with_what_to_do(capsys, copied):
    (code, out, _), folder = fit(capsys, copied, "--target", "size", "--report")
    assert code == 0
    assert "leakage: 40 test structures (100.0%) have a copy in training" in out
    assert "warning: 40 of 40 test structures (100%) have a copy in training" in out
    assert "--split group_hold_out keeps copies together" in out
    assert "--split scaffold_hold_out tests on new scaffolds" in out
    page = checked(folder / "report.html")
    assert {"Read this first", "Leakage"} <= set(page.headings)
    assert "40 of 40 test structures (100%) have a copy" in page.shown


def test_groups_and_scaffolds_are_held_out_whole(capsys, copied):
    (code, out, err), folder = fit(capsys, copied, "--target", "size", "--split", "group_hold_out", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["targets"]["size"]["leakage"]["count"] == 0
    assert result["targets"]["size"]["protocol"]["split"] == "group_hold_out"
    pack = hf.read(copied, target="size", keep=["batch"])
    test = json.loads((folder / "split.json").read_text())["test"]
    assert len(test) == 40
    train = np.setdiff1d(np.arange(len(pack)), test)
    assert not set(pack.columns["smiles"][test]) & set(pack.columns["smiles"][train])
    (copied.parent / "run").rename(copied.parent / "first")
    (code, out, err), folder = fit(capsys, copied, "--target", "size", "--group", "batch", "--json")
    assert code == 0, err
    test = json.loads((folder / "split.json").read_text())["test"]
    assert len(set(pack.columns["batch"][test])) == 1
    assert json.loads(out)["targets"]["size"]["leakage"]["count"] == 40
    (copied.parent / "run").rename(copied.parent / "second")
    (code, out, err), folder = fit(
        capsys, copied, "--target", "size", "--split", "scaffold_hold_out", "--json"
    )
    assert code == 0, err
    test = json.loads((folder / "split.json").read_text())["test"]
    assert all(("1" in pack.columns["smiles"][k]) == ("1" in pack.columns["smiles"][test[0]]) for k in test)
    (code, _, err), _ = fit(capsys, copied, "--target", "size", "--split", "k_fold")
    assert code == 1
    assert "choose from: hold_out, group_hold_out, scaffold_hold_out" in err


def test_the_report_says_how_sure_it_is_and_how_to_run_it_again(capsys, copied):
    (code, out, _), folder = fit(capsys, copied, "--target", "size", "--report", "--seed", 3, "--resume")
    assert code == 0
    told = json.loads((folder / "assessment.json").read_text())
    low, high = told["targets"]["size"]["interval"]
    assert low < told["targets"]["size"]["mean"] < high
    interval = f"{low:.4f} to {high:.4f}"
    assert interval in out
    page = checked(folder / "report.html")
    assert f"95 % interval {interval}" in page.shown
    command = f"hiddenfield fit {copied} --out {folder}"
    assert command in page.shown
    assert told["command"].startswith(command)
    # What "auto" stood for, and the counts of the parts.
    assert told["fitted"]["settings"]["batch_size"] == 8
    assert told["fitted"]["settings"]["device"] == "cpu"
    assert "batch size8" in page.shown.replace("\n", "")
    assert "auto" not in page.shown
    assert told["fitted"]["structures"] == {"train": 324, "validation": 36, "test": 40}
    for name, count in told["fitted"]["structures"].items():
        assert f"{count} structures" in page.shown, name


def test_every_target_of_a_multi_task_fit_is_reported(capsys, copied):
    text = copied.read_text().splitlines()
    text[1] = text[1].replace(",0,", ",,")
    copied.write_text("\n".join(text) + "\n")
    (code, out, _), folder = fit(capsys, copied, "--target", "size", "--target", "other", "--report")
    assert code == 0
    told = json.loads((folder / "assessment.json").read_text())
    assert sorted(told["targets"]) == ["other", "size"]
    assert "mean predictor" in told["targets"]["other"]["baselines"]
    assert told["targets"]["other"]["structures"]["used"] == 399
    page = checked(folder / "report.html")
    assert {"All targets", "size", "other"} <= set(page.headings)
    assert {"parity", "ranges", "parity-2", "ranges-2"} <= {i.rsplit("-", 1)[0] for i in page.identifiers}
    assert {"size", "other", "mean"} <= set(re.findall(r"│ (\w+) ", out))


def test_a_model_that_is_worth_nothing_is_said_to_be(capsys, copied):
    (_, out, _), _ = fit(capsys, copied, "--target", "other")
    assert "warning: the model is no better than always predicting the most frequent class" in out
    assert "do not use its predictions" in out


def test_a_baseline_that_is_better_is_named(capsys, copied):
    (_, out, _), _ = fit(capsys, copied, "--target", "size")
    assert re.search(r"warning: the model is worse than (labels|WL-3) \+ ridge \(mean absolute error", out)
    said = "--model kernel:wl_subtree --parameter head=linear --parameter normalise=false"
    assert said in out
    words = ["--target", "size", "--out", copied.parent / "counted", *said.split()]
    code, out, _ = call(capsys, "fit", copied, *words)
    assert code == 0
    assert "worse than" not in out


def test_few_test_structures_are_said_to_be_few(capsys, words):
    (_, out, _), _ = fit(capsys, words, "--target", "length")
    assert "warning: 5 test structures are too few to tell" in out


def test_one_test_structure_has_no_interval(capsys, tmp_path):
    path = tmp_path / "five.csv"
    path.write_text("sequence,y\nGAT,0.5\nCAT,1.5\nTAG,2.5\nACT,3.5\nTTA,4.5\n")
    (code, out, _), folder = fit(capsys, path, "--target", "y")
    assert code == 0
    assert "warning: 1 test structure is too few to tell" in out
    assert "interval" not in out
    told = json.loads((folder / "assessment.json").read_text())
    assert set(told["targets"]["y"]["intervals"].values()) == {None}


def test_targets_of_one_class_are_named_all_at_once(capsys, copied):
    lines = copied.read_text().splitlines()
    lines = [f"{lines[0]},same,none,rare"] + [f"{line},a,,{k % 2}" for k, line in enumerate(lines[1:])]
    copied.write_text("\n".join(lines) + "\n")
    (code, _, err), folder = fit(capsys, copied, "--target", "same,other,none,rare")
    assert code == 1
    assert "target 'same', 'none': missing or of one class in all 360 training structures" in err
    assert "leave it out: --target other,rare" in err
    assert not folder.exists()


def test_molecules_for_a_model_of_sequences_are_said_to_be_of_another_kind(capsys, tmp_path, copied):
    path = tmp_path / "five.csv"
    path.write_text("sequence,y\nGAT,0.5\nCAT,1.5\nTAG,2.5\nACT,3.5\nTTA,4.5\n")
    _, folder = fit(capsys, path, "--target", "y", "--no-baselines")
    code, _, err = call(capsys, "predict", folder, copied, "--out", tmp_path / "p.csv")
    assert code == 1
    assert "the data of the run were read with --set arc_labels=direction: give data of that kind" in err
