"""Builders: every one against the product of potentials written as loops; bad input is one clear error."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.fields import (
    FactorGraph,
    concatenate_fields,
    edge_arcs,
    from_factors,
    from_networkx,
    grid_edges,
    ising_grid,
    pairwise_field,
    potts_grid,
)
from tests.data.strategies import built, structures
from tests.fields.strategies import FieldParts, field_parts


def assignments(field: FactorGraph, number: int = 20) -> torch.Tensor:
    draw = np.random.default_rng(0)
    return torch.from_numpy(draw.integers(0, field.cardinalities.numpy(), (number, field.num_variables)))


@given(field_parts())
def test_factors_multiply(parts: FieldParts) -> None:
    cards, scopes, tables = parts
    field = from_factors(scopes, tables, cards)
    states = assignments(field)
    expected = [
        sum(float(table[tuple(row[scope])]) for scope, table in zip(scopes, tables, strict=True))
        for row in states.numpy()
    ]
    np.testing.assert_allclose(field.log_value(states)[:, 0], expected)


@given(field_parts(zeros=False), st.booleans())
def test_tensors_and_arrays_give_the_same_field(parts: FieldParts, gradient: bool) -> None:
    cards, scopes, tables = parts
    field = from_factors(scopes, tables, cards)
    tensors = [torch.tensor(table, requires_grad=gradient) for table in tables]
    other = from_factors(scopes, tensors, cards)
    states = assignments(field)
    torch.testing.assert_close(other.log_value(states).detach(), field.log_value(states))
    if gradient and tables:
        other.log_value(states[0]).sum().backward()
        for scope, tensor in zip(scopes, tensors, strict=True):
            assert tensor.grad is not None
            expected = torch.zeros_like(tensor)
            expected[tuple(states[0][scope].tolist())] = 1
            torch.testing.assert_close(tensor.grad, expected)


def test_tables_that_are_one_object_are_stored_once_and_rows_of_an_array_are_not_confused() -> None:
    shared = np.eye(2)
    assert from_factors([[0, 1], [1, 2]], [shared, shared]).groups[0].log_tables.shape == (1, 2, 2)
    rows = np.arange(12.0).reshape(3, 2, 2)
    field = from_factors([[0, 1], [1, 2], [2, 3]], rows)
    np.testing.assert_array_equal(field.groups[0].log_tables, rows)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("scopes", "tables", "options", "text"),
    [
        ([[0, 1]], [], {}, "one log table for each scope"),
        ([[0, 1]], [np.zeros(2)], {}, "must have 2 axes"),
        ([[0, 1]], [[[1.0], [1.0, 2.0]]], {}, "factor 0 is not an array of numbers"),
        ([[0, 1]], [[["a", "b"], ["c", "d"]]], {}, "factor 0 is not an array of numbers"),
        ([[0], [0, 1]], [np.zeros(2), [[0, np.nan], [0, 0]]], {}, "factor 1 holds nan at (0, 1)"),
        ([[0, 1]], [np.zeros((2, 3))], {"cardinalities": [2, 2]}, "must have shape (2, 2), got (2, 3)"),
        ([[0, 5]], [np.zeros((2, 2))], {"cardinalities": [2, 2]}, "names variable 5"),
        ([[0, -1]], [np.zeros((2, 2))], {}, "names variable -1"),
        ([[0, 2]], [np.zeros((2, 2))], {}, "variable 1 is in no scope"),
        ([[0, 0]], [np.zeros((2, 2))], {}, "names variable 0 twice"),
        ([["a", "b"]], [np.zeros((2, 2))], {}, "numbers of variables"),
        ([[0]], [np.zeros(2)], {"cardinalities": [0]}, "at least one state"),
        ([[0]], [np.zeros(2)], {"factor_counts": [0.0]}, "positive"),
        ([[0]], [np.zeros(2)], {"variable_names": ["a", "b"]}, "one name for each"),
        ([[0]], [np.zeros(2)], {"state_names": [["a"]]}, "names of all states"),
    ],
)
def test_bad_factors(scopes, tables, options, text) -> None:
    with pytest.raises(InputError) as error:
        from_factors(scopes, tables, **options)
    assert text in str(error.value)


# -- pairwise ----------------------------------------------------------------------------------------------


@given(structures(), st.integers(0, 2**32 - 1))
def test_pairwise_is_a_factor_an_edge(pack: hf.Structures, seed: int) -> None:
    draw = np.random.default_rng(seed)
    nodes = torch.from_numpy(draw.normal(size=(pack.total_nodes, 3)))
    table = torch.from_numpy(draw.normal(size=(3, 3)))
    field = pairwise_field(pack, nodes, table)
    assert field.num_graphs == len(pack)
    states = assignments(field, 3)
    expected = torch.zeros(3, len(pack), dtype=torch.float64)
    source, target, reverse = pack.source.tolist(), pack.target.tolist(), pack.reverse.tolist()
    owner = pack.structure_of_node.tolist()
    for row, state in enumerate(states.tolist()):
        for node in range(pack.total_nodes):
            expected[row, owner[node]] += nodes[node, state[node]]
        for arc, (i, j) in enumerate(zip(source, target, strict=True)):
            if reverse[arc] < 0 or i < j or reverse[arc] == arc:
                expected[row, owner[i]] += table[state[i], state[j]]
    torch.testing.assert_close(field.log_value(states), expected)


@settings(max_examples=30)
@given(structures(), st.integers(0, 2**32 - 1))
def test_a_table_an_edge_and_a_table_a_label(pack: hf.Structures, seed: int) -> None:
    draw = np.random.default_rng(seed)
    nodes = torch.zeros(pack.total_nodes, 2, dtype=torch.float64)
    arcs = edge_arcs(pack)
    assert len(arcs) == int(pack.num_edges.sum())
    for column, vocabulary in enumerate(pack.arc_vocabularies):
        tables = torch.from_numpy(draw.normal(size=(len(vocabulary), 2, 2)))
        labelled = pairwise_field(pack, nodes, tables, arc_label=vocabulary.name)
        assert pack.arc_labels is not None
        each = pairwise_field(pack, nodes, tables[pack.arc_labels[arcs, column].long()])
        states = assignments(each, 3)
        torch.testing.assert_close(labelled.log_value(states), each.log_value(states))


@pytest.mark.bad_input
def test_pairwise_gradients_and_errors() -> None:
    words = built(hf.data.from_sequences, ["CAT", "A"])
    nodes = torch.zeros(4, 2, requires_grad=True)
    table = torch.zeros(2, 2, requires_grad=True)
    field = pairwise_field(words, nodes, table)
    assert field.dtype == torch.float32
    field.log_value(torch.tensor([0, 1, 1, 0])).sum().backward()
    assert table.grad.tolist() == [[0, 1], [0, 1]]
    for bad, text in [
        ((torch.zeros(3, 2), torch.zeros(2, 2)), "node_log_potentials must have shape (4, states)"),
        ((torch.zeros(4, 2), torch.zeros(3, 3)), "edge_log_potentials must have shape (2, 2)"),
        ((torch.zeros(4, 2), torch.zeros(5, 2, 2)), "edges, states, states"),
        ((torch.zeros(4, 2), torch.full((2, 2), torch.nan)), "numbers or -inf, got nan"),
    ]:
        with pytest.raises(InputError) as error:
            pairwise_field(words, *bad)
        assert text in str(error.value)
    with pytest.raises(InputError, match="no column 'bond'"):
        pairwise_field(words, torch.zeros(4, 2), torch.zeros(2, 2, 2), arc_label="bond")


# -- grids -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 4), (2, 2), (3, 2), (4, 5)])
def test_grid_edges_are_those_of_networkx(rows: int, columns: int, periodic: bool) -> None:
    graph = networkx.grid_2d_graph(rows, columns, periodic=periodic)
    graph.remove_edges_from(list(networkx.selfloop_edges(graph)))
    expected = {frozenset((a * columns + b, c * columns + d)) for (a, b), (c, d) in graph.edges}
    edges = grid_edges(rows, columns, periodic=periodic)
    assert {frozenset(pair) for pair in edges.tolist()} == expected
    assert len(edges) == len(expected)


def test_ising_and_potts_values() -> None:
    draw = np.random.default_rng(1)
    edges = grid_edges(2, 3)
    coupling, outer = draw.normal(size=len(edges)), draw.normal(size=(2, 3))
    field = ising_grid(2, 3, coupling, outer)
    potts = potts_grid(2, 3, 2, 2 * coupling, np.stack([-outer, outer], axis=-1))
    for state in itertools.product([0, 1], repeat=6):
        spin = 2 * np.array(state) - 1
        expected = (coupling * spin[edges[:, 0]] * spin[edges[:, 1]]).sum() + (outer.ravel() * spin).sum()
        assert float(field.log_value(torch.tensor(state))) == pytest.approx(expected)
        # x y = 2 [x = y] - 1
        assert float(potts.log_value(torch.tensor(state))) == pytest.approx(expected + coupling.sum())
    assert ising_grid(3, 3, 0.5).groups[0].log_tables.shape == (1, 2, 2)
    assert potts_grid(2, 2, 3, np.zeros((3, 3)), np.zeros(3)).num_factors == 4
    assert ising_grid(1, 1).num_factors == 0


@pytest.mark.bad_input
def test_bad_grids() -> None:
    for build, text in [
        (lambda: ising_grid(0, 3), "at least one row"),
        (lambda: ising_grid(2, 2, np.zeros(3)), "coupling must be a number or 4"),
        (lambda: ising_grid(2, 2, 1.0, np.zeros(3)), "field must be a number or 4"),
        (lambda: ising_grid(2, 2, "strong"), "coupling must be numbers"),
        (lambda: ising_grid(2, 2, np.nan), "coupling must be finite"),
        (lambda: potts_grid(2, 2, 0), "num_states"),
        (lambda: potts_grid(2, 2, 3, np.zeros((2, 2))), "coupling must have one of the shapes"),
        (lambda: potts_grid(2, 2, 3, 1.0, np.zeros(2)), "field must have one of the shapes"),
    ]:
        with pytest.raises(InputError) as error:
            build()
        assert text in str(error.value)


# -- networkx ----------------------------------------------------------------------------------------------


def test_networkx_in_any_order_of_nodes() -> None:
    table = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    graph = networkx.DiGraph()
    graph.add_node("b")
    graph.add_edge("a", "b", log_potential=table)
    graph.add_edge("b", "b", log_potential=np.diag([7.0, 8.0, 9.0]))
    field = from_networkx(graph)
    assert field.variable_names == ("b", "a")
    assert float(field.log_value(torch.tensor([2, 1]))) == 6 + 9
    double = networkx.MultiGraph()
    double.add_edge(0, 1, log_potential=table)
    double.add_edge(1, 0, log_potential=table)
    assert from_networkx(double).num_factors == 2


def test_bad_networkx() -> None:
    graph = networkx.path_graph(3)
    with pytest.raises(InputError, match=r"edge \(0, 1\) has no attribute"):
        from_networkx(graph)
    networkx.set_edge_attributes(graph, np.zeros((2, 2)), "log_potential")
    networkx.set_node_attributes(graph, {2: np.zeros(3)}, "log_potential")
    with pytest.raises(InputError, match="has 2 states for node '2', which has 3"):
        from_networkx(graph)
    graph.nodes[2]["log_potential"] = np.zeros((2, 2))
    with pytest.raises(InputError, match="must have 1 axes"):
        from_networkx(graph)
    with pytest.raises(InputError, match="how many states"):
        from_networkx(networkx.empty_graph(1))
    with pytest.raises(InputError, match="same name"):
        from_networkx(networkx.empty_graph([1, "1"]))


@settings(max_examples=30)
@given(st.lists(field_parts(most_variables=3), min_size=1, max_size=3))
def test_a_batch_is_its_fields_side_by_side(parts: list[FieldParts]) -> None:
    single = [from_factors(scopes, tables, cards) for cards, scopes, tables in parts]
    batch = concatenate_fields(single)
    states = [assignments(field, 4) for field in single]
    together = torch.cat([field.log_value(rows) for field, rows in zip(single, states, strict=True)], dim=1)
    torch.testing.assert_close(batch.log_value(torch.cat(states, dim=1)), together)


def test_evidence_that_contradicts_itself_or_is_not_a_number_is_refused() -> None:
    field = from_factors([[0]], [[0.0, 0.0]], variable_names=["rain"], state_names=[["no", "yes"]])
    with pytest.raises(InputError, match="observed twice"):
        field.given({"rain": "yes", 0: 0})
    with pytest.raises(InputError, match="NaN"):
        field.given(torch.tensor([0.0, float("nan")]))
