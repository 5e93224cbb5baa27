"""Tasks: losses against formulas written out, missing entries, units, weights, saving."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import hiddenfield as hf
from hiddenfield.learning import Task
from hiddenfield.learning.protocol import objective
from hiddenfield.learning.task import LOSSES


def words(targets, **options):
    first = next(iter(targets.values())) if isinstance(targets, dict) else targets
    return hf.data.from_sequences(["AB"] * len(first), targets=targets, **options)


def loss_by_hand(task, outputs, targets):
    """Add the losses of single entries in plain Python."""
    total = count = 0.0
    for row, truth in zip(outputs.tolist(), targets.tolist(), strict=True):
        for column, part, value in zip(task.columns, task.slices(), truth, strict=True):
            if value != value:
                continue
            if column.vocabulary is None:
                difference = row[part.start] - (value - column.mean) / column.scale
                loss = {
                    "square": difference**2,
                    "absolute": abs(difference),
                    "huber": 0.5 * difference**2 if abs(difference) < 1 else abs(difference) - 0.5,
                }[task.loss]
                weight = 1.0
            else:
                scores = row[part]
                loss = float(np.logaddexp.reduce(scores)) - scores[int(value)]
                weight = column.weights[int(value)] if column.weights else 1.0
            total, count = total + weight * loss, count + weight
    return total / max(count, 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("class_weight", [None, "balanced", {"a": 0.5, "b": 2.0, "c": 1.0}])
@given(seed=st.integers(0, 1000))
def test_loss_is_the_weighted_mean_over_what_is_there(loss, class_weight, seed):
    generator = np.random.default_rng(seed)
    count = int(generator.integers(6, 12))
    numbers = [None if generator.random() < 0.3 else float(generator.normal(5, 3)) for _ in range(count)]
    kinds = [
        None if generator.random() < 0.3 else str(generator.choice(["a", "b", "c"])) for _ in range(count)
    ]
    numbers[0], kinds[:3] = 1.0, ["a", "b", "c"]
    pack = words({"number": numbers, "kind": kinds})
    task = Task.of(pack, loss=loss, class_weight=class_weight)
    outputs = torch.from_numpy(generator.normal(size=(count, task.outputs)) * 2)
    found = objective(task, outputs, task.standardize(pack.targets))
    assert float(found) == pytest.approx(loss_by_hand(task, outputs, pack.targets), rel=1e-9)


def test_missing_entries_get_no_gradient():
    pack = words({"a": [1.0, None, 3.0], "b": [None, None, 2.0]})
    task = Task.of(pack)
    outputs = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    objective(task, outputs, task.standardize(pack.targets)).backward()
    assert ((outputs.grad != 0) <= ~pack.targets.isnan()).all()
    nothing = objective(
        task, torch.ones(1, 2, dtype=torch.float64), torch.full((1, 2), torch.nan, dtype=torch.float64)
    )
    assert float(nothing) == 0.0


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_predictions_are_in_the_users_units(values):
    pack = words(values)
    task = Task.of(pack)
    again = task.predictions(task.standardize(pack.targets))[0]
    assert again == pytest.approx(np.array(values), rel=1e-9, abs=1e-6)
    assert task.metrics(task.standardize(pack.targets), pack.targets)["mae"] == pytest.approx(0, abs=1e-6)


def test_standardised_targets_have_mean_zero_and_scale_one_even_if_constant():
    pack = words([3.0, 5.0, 10.0])
    standard = Task.of(pack).standardize(pack.targets)
    assert standard.mean().item() == pytest.approx(0, abs=1e-12)
    assert standard.std(unbiased=False).item() == pytest.approx(1)
    constant = words([7.0, 7.0])
    task = Task.of(constant)
    assert task.standardize(constant.targets).tolist() == [[0.0], [0.0]]
    assert task.predictions(torch.zeros(1, 1))[0].tolist() == [7.0]


def test_metrics():
    pack = words({"x": [1.0, 2.0, None], "kind": ["a", "b", "b"]})
    task = Task.of(pack)
    outputs = torch.tensor([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    found = task.metrics(outputs, pack.targets)
    assert found == pytest.approx({"mae": 0.5, "rmse": 0.5, "accuracy": 2 / 3, "roc_auc": 0.75})
    assert np.isnan(task.metrics(outputs, torch.full_like(pack.targets, torch.nan))["mae"])
    one = pack.targets.clone()
    one[:, 1] = 0.0
    assert np.isnan(task.metrics(outputs, one)["roc_auc"])


def test_balanced_weights_make_classes_count_alike():
    pack = words(["a"] * 9 + ["b"])
    weights = Task.of(pack, class_weight="balanced").columns[0].weights
    assert weights[0] * 9 == pytest.approx(weights[1])
    assert (weights[0] * 9 + weights[1]) == pytest.approx(10)


def test_saving():
    pack = words({"x": [1.0, 2.0], "kind": ["a", "b"]})
    task = Task.of(pack, loss="huber", class_weight="balanced")
    assert Task.from_dict(task.as_dict()) == task
    assert (task.outputs, task.is_regression) == (3, False)


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        ([1.0, 2.0], {"loss": "cubic"}, "unknown loss 'cubic'; choose from: square, absolute, huber"),
        ([None, None], {}, "'target' is missing for every structure"),
        (["a", "a"], {}, "'target' has the one class 'a' in all 2 structures; at least two are needed"),
        (["a", "b"], {"class_weight": {"a": 1.0}}, "no weight for class 'b'"),
        (["a", "b"], {"class_weight": "even"}, "must be None, 'balanced' or a weight for each class"),
    ],
)
def test_mistakes(targets, options, message):
    with pytest.raises(hf.errors.InputError, match=message):
        Task.of(words(targets), **options)


def test_no_targets():
    with pytest.raises(hf.errors.InputError, match="nothing to learn"):
        Task.of(hf.data.from_sequences(["A"]))
