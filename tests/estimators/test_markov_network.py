"""MarkovNetwork against enumeration, the published maxima, and as its users meet it."""

import csv
import itertools
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone

import hiddenfield as hf
from hiddenfield import MarkovNetwork
from hiddenfield.errors import InputError

REFERENCES = Path(__file__).parents[3] / "shared" / "refs" / "hidden_mrf"
LECTURE = {
    "alpha": ["x1", "x2", "x3", ("y", 2.0)],
    "w": [("x1", "x2"), ("x2", "x3"), ("x1", "x3"), *(((f"x{i}", "y"), -1.0) for i in (1, 2, 3))],
}
ROWS = {
    "x1": [0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 1],
    "x2": [1, 0, 0, 1, 1, 1, 1, 0, 1, 0, 0],
    "x3": [1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1],
}
TABLE = {
    "a": ["n", "y", "y", None, "n", "y", "n", "y"],
    "b": ["r", "g", "b", "g", None, "r", "r", "b"],
    "c": ["n", None, "y", "y", "n", "y", None, "n"],
}


def logarithm(x: tuple[int, ...], alpha: float, w: float) -> float:
    """Return the logarithm of the unnormalised probability of (x1, x2, x3, y) in the example of the lecture."""
    s, y = sum(x[:3]), x[3]
    return alpha * (s + 2 * y) + w * (x[0] * x[1] + x[1] * x[2] + x[0] * x[2] - y * s)


def test_the_hidden_variable_of_the_lecture() -> None:
    model = MarkovNetwork(features=LECTURE, hidden={"y": 2}, l2=0, tolerance=1e-13, max_iterations=3000).fit(
        ROWS
    )
    found = [model.feature_weights_[name] for name in ("alpha", "w")]
    assert found == pytest.approx([0.9573187214985799, -1.8879105079272247], abs=1e-5)
    assert model.log_likelihood(ROWS).sum() == pytest.approx(-20.5172937681849, abs=1e-8)
    exponents = {x: np.exp(logarithm(x, *found)) for x in itertools.product((0, 1), repeat=4)}
    total = sum(exponents.values())
    for row in itertools.product((0, 1), repeat=3):
        one = {f"x{i + 1}": [value] for i, value in enumerate(row)}
        both = [exponents[(*row, y)] / total for y in (0, 1)]
        assert model.log_likelihood(one)[0] == pytest.approx(np.log(sum(both)))
        assert model.posterior(one)["y"][0] == pytest.approx(np.array(both) / sum(both))


@pytest.mark.parametrize("name", ["a0.3_w0.8_n500", "a0.5_w-0.7_n500", "a-0.4_w1.2_n1000"])
def test_the_maxima_of_simulated_tables(name: str) -> None:
    if not REFERENCES.exists():
        pytest.skip("the references are not here")
    (best,) = json.loads((REFERENCES / "hidden_mrf_reference.json").read_text())[f"sim_{name}"][
        "stationary_points"
    ]
    with open(REFERENCES / f"data_{name}.csv") as file:
        rows = [[int(value) for value in row] for row in list(csv.reader(file))[1:]]
    table = {f"x{i + 1}": [row[i] for row in rows] for i in range(3)}
    for seed in range(2):  # from any start the same
        options = {"l2": 0, "tolerance": 1e-14, "max_iterations": 3000, "random_state": seed}
        model = MarkovNetwork(features=LECTURE, hidden={"y": 2}, **options).fit(table)
        found = [model.feature_weights_[name] for name in ("alpha", "w")]
        assert found == pytest.approx([best["alpha"], best["w"]], abs=2e-5)
        assert model.log_likelihood(table).sum() == pytest.approx(best["loglik"], abs=1e-7)


def test_complete_rows_and_all_interactions_give_back_frequencies() -> None:
    rng = np.random.default_rng(0)
    table = {name: rng.integers(0, states, 200).tolist() for name, states in (("a", 2), ("b", 3), ("c", 2))}
    model = MarkovNetwork([("a", "b", "c")], l2=0).fit(table)
    rows = np.array(list(table.values())).T
    for row in rows[:5]:
        share = (rows == row).all(1).mean()
        one = {name: [value] for name, value in zip(table, row.tolist(), strict=True)}
        assert np.exp(model.log_likelihood(one)[0]) == pytest.approx(share, rel=1e-4)
    assert model.num_free_ == 2 * 3 * 2 - 1


@pytest.mark.parametrize("inference", ["exact", "loopy_bp", "tree_reweighted"])
@pytest.mark.parametrize("fill", ["expectation", "mode", "sample"])
def test_every_fill_and_inference_learns_from_holes(fill: str, inference: str) -> None:
    model = MarkovNetwork([("a", "b"), ("b", "c")], fill=fill, inference=inference, max_iterations=20, l2=0.1)
    model.fit(TABLE)
    assert model.guarantee_ == ("exact" if inference == "exact" else "estimate")
    filled = model.impute(TABLE)
    assert not any(value is None for column in filled.values() for value in column)
    assert np.isfinite(model.log_likelihood(TABLE)).all()
    # On a tree estimates are exact, and likelihoods sum to 1.
    every = [{"a": [a], "b": [b], "c": [c]} for a in "ny" for b in "rgb" for c in "ny"]
    if inference != "tree_reweighted":
        assert sum(np.exp(model.log_likelihood(one)[0]) for one in every) == pytest.approx(1, abs=1e-6)


def test_penalty_structure_and_saving(tmp_path: Path) -> None:
    field = hf.fields.from_factors(
        [[0, 1]], [np.ones((2, 3))], variable_names=["a", "b"], state_names=[["n", "y"], ["r", "g", "b"]]
    )
    for structure in (None, nx.Graph([("a", "b")]), field, [("a", "b")]):
        model = MarkovNetwork(structure, random_state=1).fit(TABLE)
        assert "a=y, b=g" in model.feature_weights_
    model.save(tmp_path / "model")
    again = hf.load(tmp_path / "model")
    assert again.feature_weights_ == model.feature_weights_
    assert (again.log_likelihood(TABLE) == model.log_likelihood(TABLE)).all()
    strong = MarkovNetwork([("a", "b")], l2=1e4).fit(TABLE)
    assert max(map(abs, strong.feature_weights_.values())) < 1e-2
    drawn = model.sample(500, random_state=0)
    assert set(drawn) == {"a", "b"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure": [("a", "z")]}, "no column is named 'z'"),
        ({"structure": 3}, "a structure is a list"),
        ({"features": {"f": [("a", "a")]}}, "different variables"),
        ({"features": {"f": [(("a", "b"), np.ones((2, 2)))]}}, "in the shape"),
        ({"l2": -1}, "'l2' parameter"),
        ({"inference": "guess"}, "inference"),
        ({"fill": "variational"}, "no conjugate prior"),
    ],
)
def test_bad_input_is_named(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        MarkovNetwork(**options).fit(TABLE)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MarkovNetwork(nx.Graph([("a", "b"), ("b", "c")])),
        lambda: MarkovNetwork(hf.BayesianNetwork({"b": ["a"], "c": ["b"]}).fit(TABLE).field()),
        lambda: hf.BayesianNetwork(nx.DiGraph([("a", "b"), ("c", "b")])),
        lambda: hf.BayesianNetwork(hf.BayesianNetwork({"b": ["a"], "c": ["b"]}).fit(TABLE).field()),
    ],
)
def test_a_structure_is_saved_as_names_whatever_it_was(make, tmp_path) -> None:
    model = make().fit(TABLE)
    model.save(tmp_path / "model")
    again = hf.load(tmp_path / "model")
    assert isinstance(again.structure, (list, dict))
    assert again.impute(TABLE) == model.impute(TABLE)
    np.testing.assert_array_equal(again.log_likelihood(TABLE), model.log_likelihood(TABLE))
    refitted = clone(again).fit(TABLE)
    np.testing.assert_allclose(refitted.log_likelihood(TABLE), model.log_likelihood(TABLE), atol=0.02)
