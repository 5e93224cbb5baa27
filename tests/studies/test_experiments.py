"""Published experiments: each can be loaded and run on a crumb of its data, and pages come from results alone."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.cli import main
from hiddenfield.errors import InputError
from hiddenfield.evaluation import Assessment, AssessmentSettings
from hiddenfield.evaluation.splits import Split
from hiddenfield.report.study import Result, read_result, results_page
from hiddenfield.studies import (
    EXPERIMENTS,
    FULL,
    QUICK,
    Experiment,
    Scale,
    Trial,
    merge_results,
    run_experiment,
)
from hiddenfield.studies.base import cut_down
from tests.evaluation import made_up


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_trials_are_distinct_and_few_when_quick(name):
    for scale in (FULL, QUICK):
        trials = EXPERIMENTS[name].trials(scale)
        assert len({trial.name for trial in trials}) == len(trials) > 0


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_quick_version_of_it(data_path, tmp_path, name, capsys):
    quick = EXPERIMENTS[name].quick
    models = [trial.model for trial in EXPERIMENTS[name].trials(QUICK) if not quick or trial.data in quick]
    model = "loopy_bp" if "loopy_bp" in models else models[0]
    given = [
        "reproduce", name, "--quick", "--model", model, "--data", data_path, "--jobs", 1,
        "--keep", tmp_path / "cells", "--out", tmp_path / "result.json", "--page", tmp_path / f"{name}.md",
    ]  # fmt: skip
    code, out, err = call(capsys, *given)
    # A slow machine is told how far it has come.
    assert (code, [line for line in err.splitlines() if "% " not in line.replace("%)", "% ")]) == (0, [])
    first = (tmp_path / "result.json").read_text()
    content = json.loads(first)
    assert content["experiment"] == name
    for row in content["rows"]:
        assert {"metric", "mean", "protocol", "baselines", "column", "run"} <= set(row)
        assert row["protocol"]["text"].split(";")[0] in out
    assert "Only a part was run" in out
    if name == "s2v-huckel":
        # Again: nothing is computed twice, and the rows of the same trials replace each other.
        assert call(capsys, *given)[0] == 0
        again = json.loads((tmp_path / "result.json").read_text())
        assert [row["mean"] for row in again["rows"]] == [row["mean"] for row in content["rows"]]


def test_adding_a_study_is_adding_one_file(tmp_path, monkeypatch):
    (tmp_path / "coin_study.py").write_text(
        '"""Coins.\n\nHow often a coin\nlands on heads.\n\n- It is fair.\n"""\n'
        "from hiddenfield.studies.base import study\n"
        "@study('coins', computed=True)\n"
        "def trials(scale): return []\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(EXPERIMENTS, "_entries", dict(EXPERIMENTS._found()))
    importlib.import_module("coin_study")
    found = EXPERIMENTS.choose("coins")
    assert (found.title, found.about, found.remarks) == (
        "Coins",
        "How often a coin lands on heads.",
        ("It is fair.",),
    )


def test_molecules_as_published(data_path):
    (trial,) = [t for t in EXPERIMENTS["s2v-cep"].trials(QUICK) if t.model == "mean_field"]
    assert trial.settings.metric == "rmse"
    assert trial.parameters["validation_fraction"] == 0.2
    assert (data_path / "graphs" / "CEP" / "cep-processed.csv.xz").exists()


def test_mutag_in_the_order_of_its_folds(data_path):
    """The graphs that come with the folds are those of the collection, in another order."""
    trial = EXPERIMENTS["s2v-graphs"].trials(FULL)[0]
    pack, splits = trial.load(data_path)
    other = hf.read(data_path / "graphs" / "MUTAG" / "MUTAG.zip")
    assert trial.data == "MUTAG"
    assert sorted(pack.num_nodes.tolist()) == sorted(other.num_nodes.tolist())
    assert sorted(pack.num_edges.tolist()) == sorted(other.num_edges.tolist())
    assert sorted(np.bincount(pack.targets[:, 0].long())) == [63, 125]
    assert [len(split.test) for split in splits] == [18] * 10


def test_cutting_keeps_classes_in_every_part():
    words = hf.data.from_sequences(["A"] * 90, targets=["x"] * 80 + ["y"] * 10)
    order = np.random.default_rng(0).permutation(90)
    splits = [
        Split(f"fold {k}", np.sort(np.delete(order, range(k, 90, 3))), np.sort(order[k::3])) for k in range(3)
    ]
    pack, cut = cut_down(words, splits, Scale(structures=30, folds=2))
    assert len(cut) == 2
    for split in cut:
        for part in (split.train, split.test):
            assert set(pack.targets[part, 0].tolist()) == {0.0, 1.0}
    assert cut_down(words, splits, FULL)[0] is words


@pytest.mark.parametrize(
    ("name", "scale", "message"),
    [
        (
            "s2v-graphs",
            {"data": ("MUTAG", "MUTGA")},
            "data set of s2v-graphs 'MUTGA' .did you mean 'MUTAG'",
        ),
        ("inex", {"models": ("loopy_bp", "loopybp")}, "model of inex 'loopybp' .did you mean 'loopy_bp'"),
        (
            "s2v-graphs",
            {"variants": ("plain", "plane")},
            "variant of s2v-graphs 'plane' .did you mean 'plain'",
        ),
        (
            "s2v-cep",
            {"columns": ("T = 3", "T = 7")},
            "column of s2v-cep 'T = 7'.*; choose from: T = 1, T = 2",
        ),
        ("inex", {"variants": ("plain",)}, "inex has only one variant"),
        (
            "s2v-strings",
            {"data": ("FC_RES",), "columns": ("given split",)},
            "nothing of s2v-strings is left to run",
        ),
    ],
)
def test_every_name_must_be_one_of_the_experiment(tmp_path, name, scale, message):
    with pytest.raises(InputError, match=message):
        run_experiment(EXPERIMENTS[name], tmp_path, Scale(**scale))


def test_results_of_different_scales_do_not_go_together():
    first, second = (Result(experiment="inex", scale=Scale(folds=folds), rows=[]) for folds in (None, 2))
    with pytest.raises(InputError, match="do not go together"):
        merge_results(first, second)


def test_of_the_same_trial_the_later_row_stays():
    before = made_up.result("x", [made_up.row("A", "m", "nested", 0.1)])
    after = made_up.result("x", [made_up.row("B", "m", "nested", 0.1), made_up.row("A", "m", "nested", 0.2)])
    assert [(row.data, row.mean) for row in merge_results(before, after).rows] == [("A", 0.2), ("B", 0.1)]


def test_a_result_of_another_scale_is_refused_before_anything_is_read(tmp_path):
    other = Result(experiment="inex", scale=Scale(folds=2), rows=[])
    with pytest.raises(InputError, match="do not go together"):
        run_experiment(EXPERIMENTS["inex"], tmp_path / "nowhere", before=other)


def test_structures_that_are_read_need_a_folder():
    with pytest.raises(InputError, match="name the folder with graphs/"):
        run_experiment(EXPERIMENTS["inex"], None)


def ablation_in(order, monkeypatch):
    """Return the result of an ablation of which nothing is fitted, its variants run one at a time in this order."""

    def assessed(model, structures, *, parameters, **_):
        found = made_up.row("A", model, "nested", parameters["mean"], seed=parameters["seed"], baselines={})
        return msgspec.convert(found, Assessment)

    monkeypatch.setattr("hiddenfield.studies.base.assess", assessed)
    variants = {"plain": 0.5, "wide": 0.6, "deep": 0.55}
    words = hf.data.from_sequences(["A", "B"], targets=["x", "y"])
    trials = [
        Trial(
            "A",
            "m",
            "nested",
            lambda _: (words, None),
            AssessmentSettings(),
            {"mean": mean, "seed": k},
            (),
            name,
        )
        for k, (name, mean) in enumerate(variants.items())
    ]
    experiment = Experiment("x", "T", "", lambda _: trials, layout="ablation", computed=True)
    content = None
    for name in order:
        content = run_experiment(experiment, None, Scale(variants=(name,)), before=content)
    return content


def test_rows_stand_in_the_order_of_the_trials_whenever_they_were_run(monkeypatch):
    found = ablation_in(["deep", "plain", "wide"], monkeypatch)
    assert [row.variant for row in found.rows] == ["plain", "wide", "deep"]
    assert results_page(found) == results_page(ablation_in(["plain", "wide", "deep"], monkeypatch))


def test_an_ablation_without_its_first_variant_has_no_differences(monkeypatch):
    page = results_page(ablation_in(["wide", "deep"], monkeypatch))
    assert "| wide | 0.6000 ± 0.0200 |  |" in page
    assert "| deep | 0.5500 ± 0.0200 |  |" in page


# -- the command -------------------------------------------------------------------------------------------


def call(capsys, *given):
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in given])
    out, err = capsys.readouterr()
    return stop.value.code or 0, out, err


def test_a_page_from_a_result(capsys, tmp_path):
    figure = {"value": 0.8828, "source": "s2v", "protocol": "tuned"}
    row = made_up.row("MUTAG", "loopy_bp", "nested", 0.9, figures=[figure])
    content = {"experiment": "s2v-graphs", "title": "Graphs", "scale": {"folds": None}, "rows": [row]}
    file, page = tmp_path / "result.json", tmp_path / "results" / "page.md"
    file.write_text(json.dumps(content))
    code, out, _ = call(capsys, "reproduce", "s2v-graphs", "--from", file, "--page", page)
    assert code == 0
    assert page.read_text() == out
    for part in (
        "| s2v | tuned | loopy_bp | 0.8828 | 0.9000 | reached |",
        "12 test structures (6.4%) have a copy",
        "| *WL-3 + logistic* | nested |  | 0.5500 ± 0.0200 |",
        "Protocol: 10 splits (files); 4 candidates",
    ):
        assert part in out
    assert "Only a part was run" not in out
    code, _, err = call(capsys, "reproduce", "inex", "--from", file)
    assert code == 1
    assert "is the result of s2v-graphs, not of inex" in err
    for broken in ({"rows": []}, {"rows": [], "scale": {"x": 1}}, {"rows": 3, "scale": {}}):
        file.write_text(json.dumps({"experiment": "inex"} | broken))
        code, _, err = call(capsys, "reproduce", "inex", "--from", file)
        assert code == 1
        assert "is not the result of an experiment" in err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": {"folds": "x"}}, "experiment (Expected `int | null`, got `str` - at `$.scale.folds`"),
        ({"scale": {"models": "m"}}, "Expected `array | null`, got `str` - at `$.scale.models`"),
        ({"scale": {"x": 1}}, "Object contains unknown field `x` - at `$.scale`"),
        ({"scale": 1}, "Expected `object`, got `int` - at `$.scale`"),
        ({"rows": [1]}, "row 1 is damaged: Expected `object`, got `int`; run that trial again"),
        ({"rows": [{"data": "MUTAG"}]}, "row 1 is damaged: Object missing required field `metric`"),
    ],
)
def test_damaged_results_are_one_line(capsys, tmp_path, change, message):
    file = tmp_path / "result.json"
    file.write_text(json.dumps({"experiment": "s2v-graphs", "scale": {}, "rows": []} | change))
    check_one_line(capsys, file, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": "0.9"}, "mean: Expected `float`, got `str`"),
        ({"mean": True}, "mean: Expected `float`, got `bool`"),
        ({"metric": "luck"}, "metric: Invalid enum value 'luck'"),
        (
            {"figures": [{"value": 0.1, "source": "x"}]},
            "figures[0]: Object missing required field `protocol`",
        ),
        ({"protocol": {}}, "protocol: Object missing required field `text`"),
        ({"baselines": {"WL": 3}}, "baselines[...]: Expected `object`, got `int`"),
        ({"leakage": {}}, "leakage: Object missing required field `count`"),
        ({"folds": [{"name": "a", "value": None}]}, "folds[0].value: Expected `float`, got `null`"),
        ({"interval": 3}, "interval: Expected `array | null`, got `int`"),
        ({"interval": [3]}, "interval: Expected `array` of length >= 2"),
        ({"metric": [1]}, "metric: Expected `str`, got `array`"),
        ({"as_published": {"mean": 0.1}}, "as_published: Object missing required field `std`"),
        ({"roc": {"auc": 0.5}}, "roc: Object missing required field `positive`"),
        ({"ranges": [{"low": 1}]}, "ranges[0]: Object missing required field `high`"),
        ({"training_curve": []}, "training_curve: Expected `object | null`, got `array`"),
    ],
)
def test_damaged_rows_are_one_line_with_their_number(capsys, tmp_path, change, message):
    good = made_up.row("MUTAG", "loopy_bp", "nested", 0.9)
    file = tmp_path / "result.json"
    file.write_text(json.dumps({"experiment": "s2v-graphs", "scale": {}, "rows": [good, good | change]}))
    place, _, wrong = message.partition(": ")
    check_one_line(capsys, file, f"row 2 is damaged: {wrong}")
    check_one_line(capsys, file, f" - at `$.{place}`; run that trial again")


def check_one_line(capsys, file, message):
    code, out, err = call(capsys, "reproduce", "s2v-graphs", "--from", file)
    assert (code, out) == (1, "")
    assert f"{file}: " in err
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "[1]", '{"experiment": "s2v-graphs", "scale": {}, "rows": [NaN]}'])
def test_what_is_no_result_at_all(capsys, tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    check_one_line(capsys, tmp_path / "result.json", "is not the result of an experiment")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_results_of_this_repository_are_whole(name):
    file = Path(__file__).resolve().parents[2] / "docs" / "results" / f"{name}.json"
    assert read_result(file, name).rows


def test_results_of_several_machines_are_put_together(capsys, tmp_path):
    def row(data, model, mean=0.9):
        return made_up.row(data, model, "given split", mean)

    content = {"experiment": "inex", "title": "", "about": "", "scale": {"folds": None}, "rows": []}
    first, second, both = (tmp_path / f"{name}.json" for name in ("first", "second", "both"))
    trials = [(trial.data, trial.model) for trial in EXPERIMENTS["inex"].trials(FULL)]
    first.write_text(json.dumps(content | {"rows": [row(*trials[-1]), row(*trials[0], 0.1)]}))
    second.write_text(json.dumps(content | {"rows": [row("elsewhere", "m"), row(*trials[0], 0.2)]}))
    code, out, _ = call(capsys, "reproduce", "inex", "--from", first, "--from", second, "--out", both)
    assert code == 0
    found = json.loads(both.read_text())
    assert [(r["data"], r["mean"]) for r in found["rows"]][:1] == [(trials[0][0], 0.2)]
    assert [r["data"] for r in found["rows"]][-1] == "elsewhere"
    assert found["title"] == EXPERIMENTS["inex"].title
    assert len(found["missing"]) == len(trials) - 2
    # What was published is the experiment's to say, now; of a trial that it does not have the row's own stays.
    published = [figure.value for figure in EXPERIMENTS["inex"].trials(FULL)[0].figures]
    assert [figure["value"] for figure in found["rows"][0]["figures"]] == published != []
    assert "figures" not in found["rows"][-1]
    assert f"- **Not run yet**: {found['missing'][0][0]}, given split: " in out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["s2v-graph"], "did you mean 's2v-graphs'"),
        (["inex"], "no folder of data; give --data"),
        (["inex", "--data", "nowhere"], "no such file or folder"),
        (["inex", "--from", "nowhere.json"], "nowhere.json: no such file"),
        (["inex", "--from", "nowhere.json", "--quick"], "runs nothing; leave out --quick"),
        (["inex", "--from", "x.json", "--only", "A", "--model", "m"], "leave out --only, --model"),
        (["inex", "--from", "x.json", "--variant", "A", "--column", "m"], "leave out --variant, --column"),
        (["inex", "--from", "x.json", "--jobs", "2", "--data", "d"], "leave out --data, --jobs"),
        (["inex", "--page", "/proc/x.md"], "--page: /proc/x.md cannot be written ("),
        (["inex", "--out", "/proc"], "--out: /proc is a folder; name a file"),
        (
            ["inex", "--keep", f"{__file__}/cells"],
            "test_experiments.py, which is a file; name a folder elsewhere",
        ),
    ],
)
def test_mistakes(capsys, monkeypatch, more, message):
    monkeypatch.delenv("HIDDENFIELD_DATA", raising=False)
    code, out, err = call(capsys, "reproduce", *more)
    assert (code, out) == (1, "")
    assert message in err


def test_a_full_run_that_no_commit_describes_is_refused(capsys, monkeypatch, tmp_path):
    from hiddenfield import machine

    monkeypatch.setattr(machine, "describe_machine", lambda packages: {"revision": "abc1234 with changes"})
    code, _, err = call(capsys, "reproduce", "inex", "--data", tmp_path, "--out", tmp_path / "x.json")
    assert code == 1
    assert "changes since abc1234; commit them first" in err


def test_the_page_names_every_experiment_and_split():
    from hiddenfield.evaluation import SPLITTERS

    text = (Path(__file__).resolve().parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in text for name in (*EXPERIMENTS, *SPLITTERS))
