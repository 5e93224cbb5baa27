"""Compressed fields: the classes, and belief propagation that cannot tell them from the ground field."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.fields import FactorGraph, compress, concatenate_fields, from_factors
from hiddenfield.fields.relational import RelationalScheme, graph_scheme
from hiddenfield.inference import infer
from tests.data.strategies import built
from tests.fields.strategies import fields
from tests.inference.oracle import enumerate_field


def settle(field: FactorGraph, **options: Any) -> Any:
    return infer(field, "loopy_bp", **{"tolerance": 1e-12, "max_iterations": 5000, **options})


def after(field: FactorGraph, iterations: int) -> Any:
    """Stop after so many iterations, settled or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return infer(field, "loopy_bp", max_iterations=iterations)


# -- an oracle: rounds of refinement with dictionaries ----------------------------------------------------


def refined(field: FactorGraph) -> list[int]:
    """Colour variables as the definition says, all signatures of all rounds written out."""
    start = field.state_ptr.tolist()
    unary = field.log_unary.tolist()
    cards, counts, graph = field.cardinalities.tolist(), field.counts.tolist(), field.variable_graph.tolist()
    signatures: list[Any] = [
        (graph[v], counts[v], tuple(unary[start[v] : start[v + 1]])) for v in range(len(cards))
    ]
    alone = [sum(value > -np.inf for value in signature[2]) == 1 for signature in signatures]
    factors = []
    for number, group in enumerate(field.groups):
        rows = range(group.num_factors) if group.table is None else group.table.tolist()
        for scope, row, count in zip(group.scopes.tolist(), rows, group.count.tolist(), strict=True):
            table = group.log_tables[row].numpy()
            symmetric = [
                g
                for g in itertools.permutations(range(group.arity))
                if table.transpose(g).shape == table.shape and (table.transpose(g) == table).all()
            ]
            factors.append((scope, (number, table.tobytes(), count), symmetric))
    colours: list[int] = []
    while True:
        known: dict[Any, int] = {}
        new = [known.setdefault(signature, len(known)) for signature in signatures]
        if new == colours:
            return colours
        colours = new
        seen: list[list[Any]] = [[] for _ in cards]
        for scope, kind, symmetric in factors:
            tuples = [tuple(colours[scope[i]] for i in g) for g in symmetric]
            least = min(tuples)
            for port, variable in enumerate(scope):
                place = min(g.index(port) for g, t in zip(symmetric, tuples, strict=True) if t == least)
                seen[variable].append((kind, least, place))
        signatures = [
            (colours[v],) if alone[v] else (colours[v], tuple(sorted(seen[v]))) for v in range(len(cards))
        ]


# -- fields with symmetries -------------------------------------------------------------------------------


def cyclic(generator: np.random.Generator) -> np.ndarray:
    """A table of four binary ports that is unchanged when they are turned, but not when two are exchanged."""
    table = np.empty((2,) * 4)
    for states in itertools.product(range(2), repeat=4):
        turned = [states[i:] + states[:i] for i in range(4)]
        if min(turned) == states:
            value = generator.normal()
            for other in turned:
                table[other] = value
    return table


def symmetric_fields() -> st.SearchStrategy[FactorGraph]:
    """Draw ground fields whose factors share few tables, some of them symmetric, with some evidence."""

    def build(seed: int, variables: int, factors: int, observed: int) -> FactorGraph:
        generator = np.random.default_rng(seed)
        pair = generator.normal(size=(2, 2))
        triple = generator.normal(size=(2, 2, 2))
        tables = [
            pair,
            pair + pair.T,
            sum(triple.transpose(g) for g in itertools.permutations(range(3))),
            triple + triple.transpose(1, 0, 2),
            cyclic(generator),
        ]
        tables = [table for table in tables if table.ndim <= variables]
        if not tables:
            return from_factors([[0]], [generator.normal(size=2)])
        kinds = generator.choice(len(tables), size=generator.integers(1, 3))
        chosen = [tables[generator.choice(kinds)] for _ in range(factors)]
        scopes = [generator.permutation(variables)[: table.ndim].tolist() for table in chosen]
        copies = generator.integers(1, 3, size=factors) if seed % 3 == 0 else np.ones(factors)
        field = from_factors(scopes, chosen, [2] * variables, factor_counts=copies.tolist())
        evidence: dict[int, Any] = {}
        for variable in generator.permutation(variables)[:observed].tolist():
            evidence[variable] = int(generator.integers(2)) if generator.random() < 0.7 else [0.5, -0.5]
        return field.given(evidence)

    arguments = (st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 12), st.integers(0, 3))
    return st.tuples(*arguments).map(
        lambda drawn: built(build, drawn[0], drawn[1], drawn[2], min(drawn[1], drawn[3]))
    )


@given(symmetric_fields())
def test_classes_are_those_of_the_definition(field: FactorGraph) -> None:
    assert compress(field).variable_class.tolist() == refined(field)


@given(symmetric_fields())
@settings(max_examples=12)
def test_lifted_is_ground_at_every_iteration(field: FactorGraph) -> None:
    lifted = compress(field)
    assert lifted.field.counts.sum() == field.num_variables
    for steps in (1, 2, 7):
        low, high = after(field, steps), after(lifted.field, steps)
        torch.testing.assert_close(lifted.expand(high), low.marginals, atol=1e-10, rtol=0)
        torch.testing.assert_close(high.log_partition, low.log_partition, atol=1e-8, rtol=1e-9)


@given(fields(most_variables=5))
@settings(max_examples=10)
def test_fields_of_all_kinds(field: FactorGraph) -> None:
    """Mixed numbers of states and ports, hard zeros, repeated factors; most have nothing to join."""
    doubled = concatenate_fields([field, field])
    joined = dataclasses.replace(
        doubled,
        variable_ptr=doubled.variable_ptr[[0, 2]],
        log_constant=doubled.log_constant.sum(0, keepdim=True),
    )
    lifted = compress(joined)
    assert lifted.variable_class.tolist() == refined(joined)
    assert lifted.field.num_variables <= field.num_variables
    for steps in (1, 4):
        low, high = after(joined, steps), after(lifted.field, steps)
        torch.testing.assert_close(lifted.expand(high), low.marginals, atol=1e-10, rtol=0)
        torch.testing.assert_close(high.log_partition, low.log_partition, atol=1e-8, rtol=1e-9)


@given(symmetric_fields(), symmetric_fields())
@settings(max_examples=10)
def test_graphs_of_a_batch_stay_apart(one: FactorGraph, other: FactorGraph) -> None:
    lifted = compress(concatenate_fields([one, other, one]))
    alone = [compress(field) for field in (one, other, one)]
    assert lifted.field.variable_ptr.diff().tolist() == [each.field.num_variables for each in alone]
    found = after(lifted.field, 6)
    expected = torch.cat([after(each.field, 6).log_partition for each in alone])
    torch.testing.assert_close(found.log_partition, expected, atol=1e-8, rtol=1e-9)


@given(symmetric_fields())
@settings(max_examples=10)
def test_compressing_twice_changes_nothing(field: FactorGraph) -> None:
    once = compress(field).field
    twice = compress(once).field
    assert twice.num_variables <= once.num_variables
    first, second = after(once, 5), after(twice, 5)
    torch.testing.assert_close(first.log_partition, second.log_partition, atol=1e-8, rtol=1e-9)


# -- networks ---------------------------------------------------------------------------------------------


def test_one_edge_observed() -> None:
    ground = graph_scheme("edge", "triangle").ground(5, [-1.0, 0.5])
    lifted = compress(ground, {"exist[0, 1]": 1})
    assert lifted.field.counts.tolist() == [1, 6, 3]
    posterior = settle(lifted.field)
    marginals = lifted.expand(posterior)[:, 1]
    assert marginals[0] == 1
    np.testing.assert_allclose(marginals[1:7], 0.32974530, atol=1e-8)
    np.testing.assert_allclose(marginals[7:], 0.30597665, atol=1e-8)
    assert posterior.log_partition.item() == pytest.approx(2.07460263, abs=1e-8)
    exact = enumerate_field(ground.given({0: 1}))
    assert exact.marginals[1][1] == pytest.approx(0.33045405, abs=1e-8)
    assert exact.marginals[9][1] == pytest.approx(0.30660725, abs=1e-8)
    assert exact.log_partition == pytest.approx(2.07662550, abs=1e-8)


def color_scheme() -> RelationalScheme:
    scheme = graph_scheme("edge", "open_chain", "quadruplet", colors=3)
    exist = scheme.attributes["exist"]
    color = scheme.attributes["color"]
    scheme.feature("directed", lambda a, b, c: exist[a, b] & ~exist[b, c] & (color[a] == color[c]))
    return scheme


@pytest.mark.parametrize("bindings", ["merged", "ordered", "cluster"])
@pytest.mark.parametrize(
    "scheme", [graph_scheme("edge", "triangle"), graph_scheme("open_chain", "star3"), color_scheme()]
)
def test_without_evidence_it_is_the_template(scheme: RelationalScheme, bindings: str) -> None:
    theta = torch.linspace(-1, 0.3, len(scheme.features))
    ground = scheme.ground(6, theta, bindings=bindings)
    template = scheme.template(6, theta, bindings=bindings)
    lifted = compress(ground).field
    assert lifted.counts.tolist() == template.counts.tolist()
    assert lifted.cardinalities.tolist() == template.cardinalities.tolist()
    torch.testing.assert_close(lifted.log_unary, template.log_unary)
    # Orders of one kind of factor that all look alike may share a class: as many ground factors of each kind.
    for mine, theirs in zip(lifted.groups, template.groups, strict=True):
        assert mine.count.sum() == theirs.count.sum()
        torch.testing.assert_close(mine.log_tables, theirs.log_tables)
        assert {tuple(scope) for scope in mine.scopes.tolist()} == {tuple(s) for s in theirs.scopes.tolist()}
    options = {"damping": 0.5, "tolerance": 1e-11}
    torch.testing.assert_close(settle(lifted, **options).marginals, settle(template, **options).marginals)


def test_link_prediction_leaves_observed_edges_together() -> None:
    """All but few edges are observed: they are two classes, and the hidden ones are told apart by what they close."""
    generator = np.random.default_rng(1)
    ground = graph_scheme("edge", "triangle").ground(12, [-1.0, 0.5])
    hidden = generator.permutation(66)[:5].tolist()
    state = generator.integers(0, 2, size=66)
    evidence = {v: int(state[v]) for v in range(66) if v not in hidden}
    lifted = compress(ground, evidence)
    assert lifted.field.num_variables <= 2 + 5
    low, high = settle(ground, evidence=evidence), settle(lifted.field)
    torch.testing.assert_close(lifted.expand(high), low.marginals)
    torch.testing.assert_close(high.log_partition, low.log_partition)
    assert high.log_partition.item() == pytest.approx(exact_given(ground, evidence, hidden), abs=0.05)


def exact_given(ground: FactorGraph, evidence: dict[int, int], hidden: list[int]) -> float:
    rows = torch.tensor(
        [[evidence.get(v, 0) for v in range(ground.num_variables)]] * 2 ** len(hidden), dtype=torch.int64
    )
    rows[:, hidden] = torch.tensor(list(itertools.product(range(2), repeat=len(hidden))))
    return float(torch.logsumexp(ground.log_value(rows)[:, 0], 0))


@pytest.mark.parametrize("method", ["damped", "double_loop", "mean_field"])
def test_other_algorithms_run_unchanged(method: str) -> None:
    ground = graph_scheme("edge", "triangle").ground(6, [-1.0, 0.3]).given({0: 1, 7: 0})
    lifted = compress(ground)
    low, high = infer(ground, method), infer(lifted.field, method)
    torch.testing.assert_close(lifted.expand(high), low.marginals, atol=1e-5, rtol=0)
    torch.testing.assert_close(high.log_partition, low.log_partition, atol=1e-5, rtol=0)


def test_gradient_is_that_of_the_ground_field() -> None:
    scheme = graph_scheme("edge", "triangle")
    gradients = []
    for lift in (False, True):
        theta = torch.tensor([-1.0, 0.4], dtype=torch.float64, requires_grad=True)
        ground = scheme.ground(6, theta).given({0: 1, 3: 0})
        field = compress(ground).field if lift else ground
        settle(field).log_partition.sum().backward()
        gradients.append(theta.grad)
    torch.testing.assert_close(gradients[0], gradients[1])


# -- details ----------------------------------------------------------------------------------------------


def test_ports_that_turn_but_cannot_be_exchanged() -> None:
    """A table with the symmetry of a wheel: neighbours and opposites must be told apart, whatever the orbits say."""
    table = cyclic(np.random.default_rng(0))
    field = from_factors([[0, 1, 2, 3], [4, 5, 6, 7]], [table, table], [2] * 8)
    field = field.given({v: [0.3, 0.0] for v in (0, 1, 4, 6)})
    lifted = compress(field)
    assert lifted.variable_class.tolist() == [0, 0, 1, 1, 2, 3, 2, 3]
    assert lifted.field.num_factors == 2
    torch.testing.assert_close(lifted.expand(settle(lifted.field)), settle(field).marginals)


def test_the_same_table_stored_twice_is_one() -> None:
    table = np.random.default_rng(0).normal(size=(2, 2))
    field = from_factors([[0, 1], [2, 3]], [table, table.copy()])
    assert compress(field).field.num_factors == 1


def test_rounding_joins_what_is_nearly_equal() -> None:
    table = np.random.default_rng(0).normal(size=(2, 2))
    field = from_factors([[0, 1], [2, 3]], [table, table + 1e-12])
    assert compress(field).field.num_factors == 2
    assert compress(field, decimals=8).field.num_factors == 1


def test_factors_without_freedom_count() -> None:
    """Both ports observed: nothing is left to infer, but the log partition is their value."""
    table = np.random.default_rng(0).normal(size=(2, 2))
    field = from_factors([[0, 1], [1, 2]], [table, table]).given({0: 0, 1: 1, 2: 0})
    lifted = compress(field)
    assert settle(lifted.field).log_partition.item() == pytest.approx(table[0, 1] + table[1, 0])
    impossible = dataclasses.replace(field, log_unary=field.log_unary.clone().fill_(-torch.inf))
    assert infer(compress(impossible).field, "loopy_bp").log_partition.item() == -torch.inf


def test_fields_without_factors() -> None:
    field = from_factors([[0], [1], [2]], [np.zeros(2), np.zeros(2), np.ones(2)])
    lifted = compress(field)
    assert lifted.variable_class.tolist() == [0, 0, 1]
    assert lifted.ratio == 1
    assert lifted.field.log_value(torch.tensor([0, 0])).item() == 1


def test_a_long_chain_is_folded() -> None:
    """Refinement from both ends, a round a link: quadratic if every round looked at everything."""
    table = np.array([[0.5, 0.0], [0.0, 0.5]])
    length = 20_001
    field = from_factors([[i, i + 1] for i in range(length - 1)], [table] * (length - 1))
    lifted = compress(field)
    assert lifted.field.num_variables == (length + 1) // 2
    assert lifted.field.counts.tolist() == [2] * (length // 2) + [1]


def test_names_and_types_follow() -> None:
    field = graph_scheme("edge", "triangle").ground(4, [-1.0, 0.5], dtype=torch.float32)
    lifted = compress(field, {0: 1})
    assert lifted.field.dtype == torch.float32
    assert lifted.field.variable_names[0] == "exist[0, 1]"
    with pytest.raises(InputError, match="posterior of the compressed field"):
        lifted.expand(settle(field, tolerance=1e-5))
