"""Whatever the registries offer goes together: every pair of choices is fitted, predicts, is saved and loaded."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.embedding import ACTIVATIONS, EMBEDDINGS, POOLINGS
from hiddenfield.learning.settings import OPTIMIZERS, SCHEDULES
from hiddenfield.learning.task import LOSSES

CHOICES = {
    "estimator": [hf.StructureClassifier, hf.StructureRegressor, hf.StructureEncoder],
    "features": ["", "node_labels", "node_attributes", "arc_labels", "arc_attributes", "all"],
    "shape": ["trees", "rings", "one-way", "no arcs", "one node", "some empty"],
    "targets": [1, 2],
    "model": sorted(EMBEDDINGS),
    "activation": sorted(ACTIVATIONS),
    "pooling": sorted(POOLINGS),
    "rounds": [1, 3],
    "bias": [False, True],
    "every_round": [False, True],
    "standardise": [False, True],
    "node_width": [None, 3],
    "dropout": [0.0, 0.3],
    "batch_size": [1, 4, 100],
    "loss": sorted(LOSSES),
    "class_weight": [None, "balanced"],
    "counts": [False, True],
    "ensemble": [1, 2],
    "optimizer": sorted(OPTIMIZERS),
    "schedule": sorted(SCHEDULES),
    "precision": ["32", "64", "bf16"],
}
OWN = {"loss": "StructureClassifier", "class_weight": "StructureRegressor", "counts": "StructureEncoder"}
COUNT = 14


def every_pair():
    """Return few combinations among which every two choices stand together."""
    random, left = Random(0), set()
    for one, other in combinations(CHOICES, 2):
        left |= {(one, a, other, b) for a in range(len(CHOICES[one])) for b in range(len(CHOICES[other]))}
    rows = []
    while left:
        one, a, other, b = min(left)
        tried = []
        for _ in range(20):
            row = {name: random.randrange(len(values)) for name, values in CHOICES.items()}
            row |= {one: a, other: b}
            tried.append((row, {(n, row[n], m, row[m]) for n, m in combinations(CHOICES, 2)} & left))
        row, met = max(tried, key=lambda each: len(each[1]))
        left -= met
        rows.append({name: CHOICES[name][place] for name, place in row.items()})
    return rows


def pack_of(shape, features, generator):
    low, high = {"one node": (1, 2), "some empty": (0, 5)}.get(shape, (2, 7))
    sizes = generator.integers(low, high, COUNT)
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    edges = [
        (begin + generator.integers(node), begin + node)
        for begin, size in zip(ptr, sizes, strict=False)
        for node in range(1, size)
    ]
    if shape == "rings":
        edges += [
            (begin, begin + size - 1)
            for begin, size in zip(ptr, sizes, strict=False)
            if (begin, begin + size - 1) not in edges
        ]
    ends = np.array([] if shape == "no arcs" else edges, dtype=np.int64).reshape(-1, 2)
    values = {
        "node_labels": generator.choice(list("CNO"), ptr[-1]).tolist(),
        "node_attributes": generator.normal(size=(ptr[-1], 2)),
        "arc_labels": generator.choice(list("-="), len(ends)).tolist(),
        "arc_attributes": generator.normal(size=(len(ends), 1)),
    }
    chosen = {name: value for name, value in values.items() if features in (name, "all")}
    if shape == "one-way":
        return hf.Structures.from_arcs(ends[:, 0], ends[:, 1], node_ptr=ptr, **chosen)
    chosen = {name.replace("arc_", "edge_"): value for name, value in chosen.items()}
    return hf.Structures.from_edges(ends[:, 0], ends[:, 1], node_ptr=ptr, **chosen)


def answers(model, X):
    if isinstance(model, hf.StructureEncoder):
        return [model.transform(X)]
    found = model.predict_proba(X) if isinstance(model, hf.StructureClassifier) else model.predict(X)
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize(
    "row", every_pair(), ids=lambda row: f"{row['model']}-{row['features']}-{row['shape']}"
)
def test_every_pair_of_choices_works(row, tmp_path):
    generator, kind = np.random.default_rng(0), row["estimator"]
    pack = pack_of(row["shape"], row["features"], generator)
    if kind is hf.StructureClassifier:
        y = np.array(["a", "b", "c"])[np.arange(COUNT * row["targets"]).reshape(COUNT, -1) % 3]
    else:
        y = 100 + generator.normal(size=(COUNT, row["targets"]))
        y[::5, 0] = np.nan
    options = {
        name: value
        for name, value in row.items()
        if name not in ("estimator", "features", "shape", "targets")
    }
    options = {name: value for name, value in options.items() if OWN.get(name) != kind.__name__}
    model = kind(dim=4, hidden=4, epochs=2, validation_fraction=0.3, device="cpu", random_state=0, **options)
    model.fit(pack, y[:, 0] if row["targets"] == 1 else y)
    found = answers(model, pack)
    assert np.isfinite([each["train_loss"] for history in model.histories_ for each in history.rows]).all()
    model.save(tmp_path / "model")
    for values, again in zip(found, answers(hf.load(tmp_path / "model"), pack), strict=True):
        assert np.isfinite(values).all()
        assert np.array_equal(values, again)
    for values, alone in zip(found, answers(model, pack[[3]]), strict=True):
        np.testing.assert_allclose(alone[0], values[3], rtol=1e-3, atol=1e-3)


def test_a_single_structure_without_nodes():
    nothing = hf.Structures.from_edges([], [], node_ptr=[0, 0])
    model = hf.StructureRegressor(epochs=2, device="cpu", random_state=0).fit(nothing, [2.5])
    assert model.predict(nothing).round(3).tolist() == [2.5]
