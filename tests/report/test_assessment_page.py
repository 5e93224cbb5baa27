"""The page and the table of an assessment: everything shown, nothing from data taken for HTML."""

from __future__ import annotations

import copy

import pytest

from hiddenfield.evaluation import Assessment, Assessments
from hiddenfield.evaluation.records import FittedModel, PartSizes, convert
from hiddenfield.report.assessment_page import write_report
from hiddenfield.report.assessment_text import assessment_as_text

FOLD = {
    "name": "group <b>1</b>", "value": 0.8, "seeds": [0.7, 0.9], "metrics": {"accuracy": 0.8}, "train": 30, "test": 10,
    "selected": {"dim": 16}, "epochs": [3, 4],
}  # fmt: skip
CONTENT = {
    "metric": "accuracy",
    "mean": 0.8,
    "std": 0.01,
    "interval": [0.7, 0.9],
    "metrics": {"accuracy": 0.8},
    "task": "classification",
    "target": "[red]<script>",
    "model": "loopy_bp",
    "structures": {"used": 40, "without target": 2},
    "folds": [FOLD, {**FOLD, "name": "two", "value": 0.81}],
    "protocol": {
        "text": "2 splits (given)", "split": "given", "folds": 2, "nested": True, "inner": "inner hold-out of 10%",
        "candidates": [{"dim": 16}, {"dim": 32}], "seeds": 2, "seed": 0, "test_share": 0.3,
        "interval": "corrected resampled t", "data": "d", "splits": "s",
    },
    "baselines": {
        "WL-3 + logistic": {
            "mean": 0.7, "std": 0.0, "interval": None, "folds": [0.7, 0.7],
            "model_against_it": {"difference": 0.1, "interval": [0.05, 0.15], "p_value": 0.0001, "verdict": "better"},
        }
    },
    "leakage": {
        "count": 25, "share": 0.5, "contradicting": 1, "folds": [13, 12], "ids": [["<i>a", "b"]] * 25,
        "mean_without": 0.6,
    },
    "learning_curve": [
        {"share": 0.5, "train": 15.0, "values": [0.6, 0.7], "baselines": {"WL-3 + logistic": [0.6, 0.6]}},
        {"share": 1.0, "train": 30.0, "values": [0.8, 0.81], "baselines": {"WL-3 + logistic": [0.7, 0.7]}},
    ],
    "as_published": {"mean": 0.85, "std": 0.02, "folds": [0.85, 0.85], "selected": {}, "epoch": 3, "text": "too good"},
    "seconds": 1.0,
}  # fmt: skip


def record(content):
    return convert(content, Assessment, "an assessment")


def test_page(tmp_path):
    text = write_report(tmp_path / "a" / "page.html", record(CONTENT), title="A <b>").read_text()
    for part in (
        "loopy_bp: accuracy 0.8000 (95 % interval 0.7000 to 0.9000)", "model better</td>", "&lt; 0.001", "dim 16",
        "3 4",
        "0.7000 0.9000", "25 test structures (50.0%)", "without them the result is 0.6000", "and 5 more",
        "as published (too good)", "chosen on these folds", "learning curve", "candidates", "2: dim 16, 32",
        "Nadeau and Bengio",
    ):  # fmt: skip
        assert part in text, part
    for part in ("<script>", "<i>a", "group <b>", "A <b>"):
        assert part not in text


def test_training_roc_ranges_and_size(tmp_path):
    content = copy.deepcopy(CONTENT)
    content["num_parameters"] = 12_345
    content["training_curve"] = {
        "metric": "valid_accuracy", "epochs": [1, 2], "steps": [700, 1400], "runs": [4, 3], "train_loss": [1.0, 0.5],
        "valid_accuracy": [None, 0.8],
    }  # fmt: skip
    content["roc"] = {
        "positive": "<b>yes", "false_positive": [0.0, 0.5, 1.0], "true_positive": [0.2, 0.8, 1.0], "auc": 0.75,
        "std": [0.1, 0.1, 0.0],
        "baselines": {"WL-3 + logistic": {"true_positive": [0.1, 0.6, 1.0], "std": None, "auc": 0.6}},
    }  # fmt: skip
    text = write_report(tmp_path / "page.html", record(content)).read_text()
    for part in (
        "12,345", "Training", "Loss by epoch", "Networks that stopped early", "loopy_bp (0.7500)",
        "WL-3 + logistic (0.6000)",
    ):  # fmt: skip
        assert part in text, part
    assert "<b>yes" not in text
    content["ranges"] = [{"low": 0.0, "high": 1.0, "count": 3, "mae": 0.1, "bias": 0.0}] * 10
    content["training_curve"] |= {"metric": "valid_loss", "valid_loss": [0.9, 0.8]}
    text = write_report(tmp_path / "page.html", record(content)).read_text()
    assert "mean absolute error" in text
    assert "mean of 4 networks" in text
    assert "accuracy on the held-out" not in text


def test_a_single_split_is_told_as_one(tmp_path):
    content = copy.deepcopy(CONTENT)
    content |= {"folds": [FOLD], "std": None, "metric": "roc_auc"}
    content["protocol"] |= {"folds": 1, "interval": "bootstrap of the test structures", "candidates": [{}]}
    content["training_curve"] = {
        "metric": "valid_roc_auc", "epochs": [1, 2], "steps": [7, 14], "runs": [1, 1], "train_loss": [1.0, 0.5],
        "valid_roc_auc": [0.7, 0.8],
    }  # fmt: skip
    content["structures"] = {"used": 1188, "without target": 0, "tested": 1180, "in no split": 8}
    text = write_report(tmp_path / "page.html", record(content)).read_text()
    for part in (
        "bootstrap",
        "ROC AUC on the held-out structures",
        "none: 1 candidate",
        "1,180",
        "in no split",
    ):
        assert part in text, part
    for part in ("Nadeau", "Roc auc", "candidates</th>"):
        assert part not in text, part


@pytest.mark.parametrize("missing", ["learning_curve", "as_published"])
def test_what_was_not_asked_for_is_not_there(tmp_path, missing):
    content = copy.deepcopy(CONTENT)
    del content[missing]
    content |= {"baselines": {}, "leakage": None, "interval": None, "std": None, "folds": [FOLD]}
    text = write_report(tmp_path / "page.html", record(content)).read_text()
    assert "Leakage" not in text
    table = assessment_as_text(record(content))
    assert "protocol: 2 splits" in table
    assert "leakage" not in table


def test_table():
    text = assessment_as_text(record(CONTENT))
    for part in (
        "accuracy of [red]<script>",
        "WL-3 + logistic",
        "better",
        "< 0.001",
        "as published (too good)",
        "25 test",
        "\n40 structures; 2 without a target left out\n",
    ):
        assert part in text


def test_structures_that_take_no_part_are_told():
    counts = {"used": 1188, "without target": 0, "tested": 180, "in no split": 8}
    text = assessment_as_text(record(CONTENT | {"structures": counts}))
    assert "\n1,188 structures; 8 in no split\n" in text
    text = assessment_as_text(record(CONTENT | {"structures": counts | {"in no split": 0}}))
    assert "structures;" not in text


def test_targets_of_both_kinds_keep_the_metrics_of_each(tmp_path):
    numbers = copy.deepcopy(CONTENT) | {
        "metric": "mae",
        "metrics": {"mae": 0.8, "rmse": 1.0, "r2": 0.4321},
        "task": "regression",
        "target": "size",
    }
    del numbers["as_published"], numbers["learning_curve"], numbers["baselines"]["WL-3 + logistic"]
    classes = copy.deepcopy(CONTENT)
    classes["metrics"] |= {"balanced_accuracy": 0.7, "roc_auc": 0.8765}
    both = Assessments.of({"kind": record(classes), "size": record(numbers)}, {})
    table = assessment_as_text(both)
    assert "mean of" not in table
    page = write_report(tmp_path / "page.html", both).read_text()
    for part in (
        ">ROC AUC</th>",
        ">R²</th>",
        "0.8765",
        "0.4321",
        "Accuracy 0.8000; mean absolute error 0.8000.",
    ):
        assert part in page, part


@pytest.mark.parametrize(
    ("epochs", "text"),
    [([9, 9, 9], "best epoch 5, 2, 7 of 9\n"), ([9, 6, 9], "best epoch 5 of 9, 2 of 6, 7 of 9\n")],
)
def test_the_best_epoch_of_each_network_stands_beside_its_last(epochs, text):
    fitted = FittedModel("regression", "loopy_bp", PartSizes(8, 0, 2), 100, epochs, [5, 2, 7], {})
    assert text in assessment_as_text(Assessments({}, {}, [], fitted=fitted))
