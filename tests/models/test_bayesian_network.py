"""Learning conditional tables from rows with holes: against enumeration, closed forms, optimisers, known truth."""

from __future__ import annotations

import itertools
import tarfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from scipy.optimize import minimize

from hiddenfield.data import Table, as_table
from hiddenfield.errors import InputError
from hiddenfield.fields import read, write
from hiddenfield.inference import infer
from hiddenfield.learning.em import Fill, fit_em
from hiddenfield.models.bayesian_network import CodedRows, LearnedNetwork
from hiddenfield.models.conditional_tables import ConditionalTables, as_structure, network_of

SPRINKLER = Path(__file__).parents[2] / "docs/examples/sprinkler.bif"


def sprinkler(prior: float = 0.0, inference: str = "exact") -> tuple[LearnedNetwork, np.ndarray]:
    """Return a model of the sprinkler network, and its tables."""
    structure = as_structure(SPRINKLER)
    network = network_of(structure, [])
    tables = np.concatenate([structure.tables[name].ravel() for name in network.names])
    return LearnedNetwork(network, np.full(network.num_entries, prior), inference), tables


def rows_of(model: LearnedNetwork, tables: np.ndarray, count: int, holes: float, seed: int) -> CodedRows:
    rng = np.random.default_rng(seed)
    values = model.sample(count, {"tables": tables}, rng)[0]
    values[rng.random(values.shape) < holes] = np.nan
    return CodedRows.of(
        model.network, Table(values, model.network.variables, None, rng.uniform(0.5, 2, count))
    )


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3, 1.0]))
def test_the_e_step_is_that_of_enumeration(seed, holes):
    model, tables = sprinkler()
    data, network = rows_of(model, tables, 12, holes, seed), model.network
    found = model.expected_statistics(data, {"tables": tables}, Fill())
    expected, objective = np.zeros(network.num_entries), 0.0
    for code, weight in zip(data.codes, data.weights, strict=True):
        options = [range(n) if c < 0 else [c] for c, n in zip(code, network.states, strict=True)]
        full = np.array(list(itertools.product(*options)))
        places = np.stack([network.places(v, full) for v in range(len(code))], axis=1)
        values = tables[places].prod(axis=1)
        np.add.at(expected, places.ravel(), np.repeat(weight * values / values.sum(), len(code)))
        objective += weight * np.log(values.sum())
    np.testing.assert_allclose(found["entries"], expected, atol=1e-9)
    assert float(found["objective"]) == pytest.approx(objective, abs=1e-9)
    assert float(found["count"]) == pytest.approx(data.row_weights[data.number].sum())
    if holes == 1:
        np.testing.assert_allclose(model.log_likelihood(data, {"tables": tables}), 0, atol=1e-12)


def test_complete_rows_give_relative_frequencies_at_once():
    model, tables = sprinkler(prior=0.5)
    data = rows_of(model, tables, 300, 0.0, 1)
    learned = fit_em(model, data)
    counts = model.network.counts(data.codes, data.weights) + 0.5
    np.testing.assert_allclose(learned.parameters["tables"], counts / model.network.per_row(counts))
    assert learned.best.iterations <= 3


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["expectation", "mode", "variational"]))
def test_turns_raise_the_objective(seed, fill):
    model, tables = sprinkler(prior=0.2)
    learned = fit_em(model, rows_of(model, tables, 60, 0.4, seed), fill=fill, seed=seed, max_iterations=3000)
    assert np.all(np.diff(learned.best.trace) > -1e-7)
    np.testing.assert_allclose(model.network.per_row(learned.parameters["tables"]), 1)


def test_the_maximum_is_that_of_a_general_optimiser():
    network = ConditionalTables(as_table({"h": [0, 1], "a": [0, 1], "b": [0, 1]}).columns, ((), (0,), (0,)))
    model = LearnedNetwork(network, np.full(network.num_entries, 0.3))
    rng = np.random.default_rng(0)
    values = np.column_stack([np.full(40, np.nan), rng.integers(0, 2, 40), rng.integers(0, 2, 40)]).astype(
        float
    )
    values[:5, 1] = np.nan
    data = CodedRows.of(network, Table(values, network.variables))
    learned = fit_em(model, data, tolerance=1e-11, max_iterations=20_000)

    def negative(at):
        p = model.from_vector(at, learned.parameters)
        return -float(model.expected_statistics(data, p, Fill())["objective"]) - model.log_prior(p)

    best = minimize(negative, model.as_vector(learned.parameters) + 0.1, method="BFGS")
    assert -best.fun == pytest.approx(learned.best.objective, abs=1e-3)
    assert len(model.as_vector(learned.parameters)) == 5


def test_conjugate_distributions_agree_with_draws():
    model, tables = sprinkler(prior=0.7)
    q = model.posterior(
        model.expected_statistics(rows_of(model, tables, 20, 0.3, 0), {"tables": tables}, Fill())
    )
    prior = {"tables": model.prior}
    assert model.divergence(prior) == pytest.approx(0, abs=1e-9)
    rng, count = np.random.default_rng(0), 2000
    draws = np.array([model.draw(q, rng)["tables"] for _ in range(count)])
    error = 6 * draws.std(0) / np.sqrt(count) + 1e-12
    np.testing.assert_array_less(np.abs(draws.mean(0) - model.mean(q)["tables"]), error)
    logs = np.log(draws)
    np.testing.assert_array_less(
        np.abs(logs.mean(0) - np.log(model.plug_in(q)["tables"])), 6 * logs.std(0) / np.sqrt(count)
    )
    rows = [model.network.row_of_entry == r for r in range(model.network.row_of_entry.max() + 1)]
    gap = sum(
        np.array([stats.dirichlet.logpdf(d[r] / d[r].sum(), q["tables"][r]) for d in draws[:500]])
        - np.array([stats.dirichlet.logpdf(d[r] / d[r].sum(), model.prior[r]) for d in draws[:500]])
        for r in rows
    )
    assert abs(gap.mean() - model.divergence(q)) < 5 * gap.std() / np.sqrt(500)


def test_draws_fill_holes_with_the_posterior():
    model, tables = sprinkler()
    values = np.tile([np.nan, np.nan, 1.0, np.nan], (5000, 1))
    data = CodedRows.of(model.network, Table(values, model.network.variables))
    p = {"tables": tables}
    drawn = model.sample_missing(data, p, np.random.default_rng(0))
    shares = model.infer(data, p)[0]
    for variable in (0, 1, 3):
        assert drawn[:, variable].mean() == pytest.approx(shares[2 * variable + 1], abs=0.03)
    sampled = model.expected_statistics(data, p, Fill("sample", np.random.default_rng(1)))
    soft = model.expected_statistics(data, p, Fill())
    np.testing.assert_allclose(sampled["entries"], soft["entries"], atol=200)


def test_an_estimate_is_exact_on_trees_and_says_so():
    network = ConditionalTables(
        as_table({n: ["u", "v", "w"] for n in "abcd"}).columns, ((), (0,), (0,), (2,))
    )
    rng = np.random.default_rng(0)
    tables = rng.random(network.num_entries)
    tables /= network.per_row(tables)
    exact, loopy = (LearnedNetwork(network, np.ones(network.num_entries), m) for m in ("exact", "loopy_bp"))
    data = rows_of(exact, tables, 30, 0.5, 2)
    found, other = (model.expected_statistics(data, {"tables": tables}, Fill()) for model in (exact, loopy))
    np.testing.assert_allclose(other["entries"], found["entries"], atol=1e-4)
    assert float(other["objective"]) == pytest.approx(float(found["objective"]), abs=1e-4)
    np.testing.assert_allclose(
        loopy.infer(data, {"tables": tables}), exact.infer(data, {"tables": tables}), atol=1e-4
    )
    assert (exact.monotone, loopy.monotone) == (True, False)


def test_structures_come_in_many_forms(tmp_path):
    graph = nx.DiGraph(
        [("cloudy", "sprinkler"), ("cloudy", "rain"), ("sprinkler", "grass"), ("rain", "grass")]
    )
    field = read(SPRINKLER)
    forms = [
        SPRINKLER,
        str(SPRINKLER),
        field,
        graph,
        {"sprinkler": "cloudy", "rain": ["cloudy"], "grass": ["sprinkler", "rain"]},
    ]
    for form in forms:
        parents = as_structure(form).parents
        assert {name: set(own) for name, own in parents.items()} == {
            "cloudy": set(), "sprinkler": {"cloudy"}, "rain": {"cloudy"}, "grass": {"sprinkler", "rain"}
        }  # fmt: skip
    model, tables = sprinkler()
    again = model.network.field(tables)
    write(again, tmp_path / "again.bif")
    evidence = {"grass": "wet"}
    for other in (again, read(tmp_path / "again.bif")):
        np.testing.assert_allclose(
            infer(other, "exact", evidence=evidence).marginals,
            infer(field, "exact", evidence=evidence).marginals,
        )
    plain = ConditionalTables.from_dict(model.network.as_dict())
    assert (plain.names, plain.parents, plain.shapes) == (
        model.network.names,
        model.network.parents,
        model.network.shapes,
    )


@pytest.mark.parametrize(
    ("structure", "hidden", "message"),
    [
        ({"a": ["b"], "b": ["a"]}, {}, "cycle"),
        ({"a": ["a"]}, {}, "other than itself"),
        ({"a": ["b"], "b": [], "c": []}, {}, "no column is named 'c'; if that variable is hidden"),
        ({"a": ["b"]}, {"d": 2}, "unknown variable 'd'"),
        (7, {}, "a structure is a file"),
    ],
)
def test_mistakes_in_structures_are_named(structure, hidden, message):
    columns = as_table({"a": ["x", "y"], "b": ["x", "z"]}).columns
    with pytest.raises(InputError, match=message):
        network_of(as_structure(structure), columns, hidden)


def test_states_that_a_network_does_not_have_are_named():
    with pytest.raises(InputError, match="column 'rain' holds 'maybe', which is no state of that variable"):
        network_of(as_structure(SPRINKLER), as_table({"rain": ["maybe", "yes"]}).columns)


def test_alarm_is_learned_from_rows_with_a_fifth_of_cells_missing(tmp_path, data_path):
    with tarfile.open(data_path / "inference/bnlearn_bif.tar.xz") as archive:
        archive.extract("bif/alarm.bif", tmp_path, filter="data")
    structure = as_structure(tmp_path / "bif/alarm.bif")
    network = network_of(structure, [])
    truth = np.concatenate([structure.tables[name].ravel() for name in network.names])
    model = LearnedNetwork(network, np.full(network.num_entries, 0.1))
    data = rows_of(model, truth, 3000, 0.2, 0)
    learned = fit_em(model, data, max_iterations=30, tolerance=1e-4)
    assert np.all(np.diff(learned.best.trace) > -1e-6)
    p = learned.parameters
    assert learned.best.objective > float(
        model.expected_statistics(data, {"tables": truth}, Fill())["objective"]
    ) + model.log_prior(p)
    # Rows of tables that were seen often are close to the truth.
    statistics = model.expected_statistics(data, p, Fill())
    often = network.per_row(statistics["entries"]) > 500
    assert often.sum() > 100
    assert np.abs(p["tables"] - truth)[often].max() < 0.1
    fresh = rows_of(model, truth, 500, 0.2, 1)
    gap = model.log_likelihood(fresh, {"tables": truth}).mean() - model.log_likelihood(fresh, p).mean()
    assert 0 < gap < 0.3
