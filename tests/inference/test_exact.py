"""Exact inference against enumeration, theorems, published values and other packages."""

from __future__ import annotations

import csv
import math
import sys
import tarfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.evaluation.query import ask
from hiddenfield.fields import FactorGraph, concatenate_fields, from_factors, ising_grid
from hiddenfield.inference import (
    Posterior,
    exact,
    infer,
    log_likelihood,
    log_partition,
    map_state,
    marginal_map,
    sample,
)
from hiddenfield.inference.cliques.messages import collect_messages, distribute_messages
from hiddenfield.inference.cliques.plan import clique_plan
from tests.fields.strategies import fields
from tests.inference.oracle import Enumerated, enumerate_field

WAYS: list[dict[str, Any]] = [
    {},
    {"order": "min_fill"},
    {"order": "min_weight"},
    {"backend": "torch"},
]
ways = st.sampled_from(WAYS)


def assert_exact(posterior: Posterior, truth: Enumerated, tolerance: float = 1e-9) -> None:
    assert posterior.guarantee == "exact"
    scale = max(1.0, abs(truth.log_partition)) if math.isfinite(truth.log_partition) else 1.0
    np.testing.assert_allclose(posterior.log_partition, [truth.log_partition], atol=tolerance * scale)
    for variable, marginal in enumerate(truth.marginals):
        np.testing.assert_allclose(posterior.marginals[variable, : len(marginal)], marginal, atol=tolerance)
    for belief, expected in zip(posterior.factor_marginals, truth.factor_marginals, strict=True):
        np.testing.assert_allclose(belief, expected, atol=tolerance)


# -- enumeration -------------------------------------------------------------------------------------------


@given(fields(), ways)
def test_marginals(field: FactorGraph, way: dict[str, Any]) -> None:
    assert_exact(infer(field, "exact", **way), enumerate_field(field))


@settings(max_examples=50)
@given(fields(scale=300.0), ways)
def test_numbers_that_no_float_holds(field: FactorGraph, way: dict[str, Any]) -> None:
    assert_exact(infer(field, "exact", **way), enumerate_field(field))


@given(fields(), st.data(), ways)
def test_evidence(field: FactorGraph, data: st.DataObject, way: dict[str, Any]) -> None:
    cards = field.cardinalities.tolist()
    seen = data.draw(st.dictionaries(st.integers(0, len(cards) - 1), st.integers(0, 3)))
    evidence = {variable: state % cards[variable] for variable, state in seen.items()}
    conditioned = field.given(evidence)
    truth = enumerate_field(conditioned)
    posterior = infer(field, "exact", evidence=evidence, **way)
    assert_exact(posterior, truth)
    assert ("contradiction" in posterior.status) == (truth.log_partition == -np.inf)
    assert not posterior.log_marginals.isnan().any()


@settings(max_examples=50)
@given(fields(most_factors=5), st.data(), ways)
def test_a_count_is_copies(field: FactorGraph, data: st.DataObject, way: dict[str, Any]) -> None:
    scopes, tables, counts = [], [], []
    for group in field.groups:
        for scope, table in zip(group.scopes.tolist(), group.expanded(), strict=True):
            scopes.append(scope)
            tables.append(table)
            counts.append(float(data.draw(st.integers(1, 3))))
    several = from_factors(scopes, tables, field.cardinalities.tolist(), factor_counts=counts)
    assert_exact(infer(several, "exact", **way), enumerate_field(several))


@settings(max_examples=50)
@given(st.lists(fields(most_variables=4), min_size=1, max_size=4), ways)
def test_a_batch_is_its_graphs(parts: list[FactorGraph], way: dict[str, Any]) -> None:
    together = infer(concatenate_fields(parts), "exact", **way)
    alone = [infer(part, "exact", **way) for part in parts]
    np.testing.assert_allclose(
        together.log_partition, torch.cat([one.log_partition for one in alone]), atol=1e-9
    )
    expected = torch.cat([one.log_marginals for one in alone]).exp()
    np.testing.assert_allclose(together.log_marginals.exp(), expected, atol=1e-9)


def test_one_contradiction_in_a_batch_leaves_the_others() -> None:
    agree = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]])
    field = from_factors([[0, 1]], [agree])
    batch = concatenate_fields([field, field]).given({0: 0, 1: 1, 2: 0})
    for way in WAYS:
        posterior = infer(batch, "exact", **way)
        assert posterior.log_partition.tolist() == [-math.inf, 0.0]
        assert posterior.marginals.tolist() == [[0, 0], [0, 0], [1, 0], [1, 0]]
        assert "1 of 2 graphs" in posterior.status


def test_a_field_without_factors_and_one_without_variables() -> None:
    for way in WAYS:
        loose = infer(from_factors([], [], [3, 1]), "exact", **way)
        assert loose.log_partition.item() == pytest.approx(math.log(3))
    assert infer(from_factors([[]], [2.0], []), "exact").log_partition.tolist() == [2.0]


# -- assignments and samples -------------------------------------------------------------------------------


@settings(max_examples=50)
@given(fields(), st.sampled_from(["best", "min_weight"]))
def test_best_assignment(field: FactorGraph, order: str) -> None:
    truth = enumerate_field(field)
    found = map_state(field, "exact", order=order)
    assert found.guarantee == "exact"
    np.testing.assert_allclose(found.log_value, [truth.best], atol=1e-9)
    np.testing.assert_allclose(field.log_value(found.assignment), [truth.best], atol=1e-9)


def test_ties_are_broken_to_one_joint_assignment() -> None:
    differ = np.array([[-1.0, 0.0], [0.0, -1.0]])
    field = from_factors([[0, 1], [1, 2], [2, 3], [3, 0]], [differ] * 4)
    found = map_state(field, "exact")
    assert field.log_value(found.assignment).item() == found.log_value.item() == 0.0
    assert found.assignment.tolist() == map_state(field, "exact").assignment.tolist()


@settings(max_examples=50)
@given(fields(), st.data())
def test_marginal_map(field: FactorGraph, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, field.num_variables - 1), unique=True))
    truth = enumerate_field(field)
    values: dict[tuple[int, ...], float] = defaultdict(lambda: -np.inf)
    for row, value in zip(truth.assignments[:, chosen].tolist(), truth.log_values, strict=True):
        values[tuple(row)] = np.logaddexp(values[tuple(row)], value)
    found = marginal_map(field, chosen)
    best = max(values.values())
    np.testing.assert_allclose(found.log_value, [best], atol=1e-9)
    np.testing.assert_allclose(values[tuple(found.assignment[chosen].tolist())], best, atol=1e-9)
    others = np.setdiff1d(np.arange(field.num_variables), chosen)
    assert (found.assignment[others] == -1).all()


@settings(max_examples=25)
@given(fields(most_variables=4), st.integers(0, 2**31))
def test_samples_have_the_joint_distribution(field: FactorGraph, seed: int) -> None:
    truth = enumerate_field(field)
    drawn = sample(field, 4000, seed=seed).numpy()
    code = np.ravel_multi_index(tuple(drawn.T), field.cardinalities.tolist())
    share = np.bincount(code, minlength=len(truth.log_values)) / len(drawn)
    probability = np.exp(truth.log_values - truth.log_partition)
    assert (share[probability == 0] == 0).all()
    # Five standard deviations, and room for the many comparisons.
    assert (np.abs(share - probability) < 5 * np.sqrt(probability / len(drawn)) + 2e-3).all()


def test_samples_follow_the_seed() -> None:
    field = from_factors([[0, 1]], [np.zeros((3, 3))])
    assert torch.equal(sample(field, 50, seed=3), sample(field, 50, seed=3))
    assert not torch.equal(sample(field, 50, seed=3), sample(field, 50, seed=4))
    first, second = (sample(field, 50, seed=torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, second)
    with pytest.raises(InputError, match="no assignment"):
        sample(field.given(torch.full((6,), -torch.inf, dtype=torch.float64)), 1)


# -- gradients ---------------------------------------------------------------------------------------------


def loopy(seed: int) -> tuple[list[list[int]], list[torch.Tensor]]:
    random = torch.Generator().manual_seed(seed)
    scopes = [[0, 1], [1, 2], [2, 0], [2, 3], [0], [1, 3, 4]]
    shape = {0: 2, 1: 3, 2: 2, 3: 2, 4: 2}
    return scopes, [
        torch.randn([shape[v] for v in scope], generator=random, dtype=torch.float64) for scope in scopes
    ]


def total(tables: list[torch.Tensor], scopes: list[list[int]], **way: Any) -> torch.Tensor:
    return infer(from_factors(scopes, tables), "exact", **way).log_partition.sum()


def test_gradient_is_the_marginals_either_way() -> None:
    scopes, tables = loopy(0)
    tables = [table.requires_grad_() for table in tables]
    envelope = torch.autograd.grad(total(tables, scopes), tables)
    unrolled = torch.autograd.grad(total(tables, scopes, unroll=True), tables)
    for one, other in zip(envelope, unrolled, strict=True):
        torch.testing.assert_close(one, other)


def test_second_derivatives_are_covariances() -> None:
    scopes, tables = loopy(1)
    coupling = tables[0].clone().requires_grad_()

    def function(table: torch.Tensor) -> torch.Tensor:
        return total([table, *tables[1:]], scopes, unroll=True)

    hessian = torch.autograd.functional.hessian(function, coupling).reshape(6, 6)
    truth = enumerate_field(from_factors(scopes, tables))
    marginal = truth.factor_marginals[0][0].reshape(-1)
    np.testing.assert_allclose(hessian, np.diag(marginal) - np.outer(marginal, marginal), atol=1e-9)


def test_second_derivatives_beside_hard_zeros() -> None:
    zero = torch.tensor([[0.0, -torch.inf], [0.3, 0.1]], dtype=torch.float64)
    free = torch.tensor([[0.2, 0.5], [-0.1, 0.4]], dtype=torch.float64)
    pairs = [[0, 1], [1, 2], [2, 0]]
    assert torch.autograd.gradgradcheck(
        lambda table: total([zero, table, zero], pairs, unroll=True), free.requires_grad_()
    )


@pytest.mark.parametrize("method", ["exact", "auto"])
def test_second_derivatives_of_exact_inference_need_no_unrolling(method: str) -> None:
    field = ising_grid(3, 3, 0.5, 0.1).given({4: 1})

    def value(unary: torch.Tensor, **options: Any) -> torch.Tensor:
        own = field.with_potentials(unary, [group.log_tables for group in field.groups])
        return infer(own, method, **options).log_partition.sum() ** 2

    unary = ising_grid(3, 3, 0.5, 0.1).log_unary
    found = torch.autograd.functional.hessian(value, unary)
    expected = torch.autograd.functional.hessian(lambda x: value(x, unroll=True), unary)
    assert float(expected.abs().max()) > 0.1
    torch.testing.assert_close(found, expected)
    assert torch.autograd.gradgradcheck(value, unary.clone().requires_grad_())


@pytest.mark.parametrize("method", ["loopy_bp", "mean_field", "gibbs"])
def test_second_derivatives_that_would_be_wrong_are_refused(method: str) -> None:
    field = ising_grid(3, 3, 0.1, 0.1)
    unary = field.log_unary.clone().requires_grad_()
    own = field.with_potentials(unary, [group.log_tables for group in field.groups])
    value = infer(own, method).log_partition.sum()
    (gradient,) = torch.autograd.grad(value, unary, create_graph=True)  # the first derivative is fine
    with pytest.raises(InputError, match=r"second derivatives .* 'exact'") as caught:
        gradient[0].backward()
    assert ("unroll=True" in str(caught.value)) == (method != "gibbs")


def test_transforms_of_functions_are_refused_in_words() -> None:
    field = ising_grid(2, 2, 0.5)

    def value(unary: torch.Tensor) -> torch.Tensor:
        own = field.with_potentials(unary, [group.log_tables for group in field.groups])
        return infer(own, "exact").log_partition.sum()

    with pytest.raises(InputError, match=r"torch\.autograd\.grad"):
        torch.func.grad(value)(field.log_unary)
    with pytest.raises(InputError, match="do not reach through inference"):
        torch.func.grad(lambda table: hf.infer(hf.fields.from_factors([[0]], [table])).log_partition.sum())(
            torch.zeros(2, dtype=torch.float64)
        )


def test_marginals_carry_gradients_when_unrolled() -> None:
    scopes, tables = loopy(2)
    tables = [table.requires_grad_() for table in tables]
    posterior = infer(from_factors(scopes, tables), "exact", unroll=True)
    (gradient,) = torch.autograd.grad(posterior.marginals[4, 1], tables[0])
    assert gradient.abs().sum() > 0
    assert gradient.sum().item() == pytest.approx(0.0, abs=1e-12)


def test_log_likelihood_is_observed_minus_expected() -> None:
    scopes, tables = loopy(3)
    tables = [table.requires_grad_() for table in tables]
    field = from_factors(scopes, tables)
    assignment = torch.tensor([1, 2, 0, 1, 0])
    (gradient,) = torch.autograd.grad(log_likelihood(field, assignment).sum(), tables[0])
    expected = -torch.from_numpy(enumerate_field(field).factor_marginals[0][0])
    expected[1, 2] += 1
    torch.testing.assert_close(gradient, expected)


# -- numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_long_chain(dtype: torch.dtype) -> None:
    random = np.random.default_rng(0)
    length, states = 2000, 5
    unary, table = 3 * random.normal(size=(length, states)), 2 * random.normal(size=(states, states)) + 5
    pairs = [[i, i + 1] for i in range(length - 1)]
    scopes = pairs + [[i] for i in range(length)]
    field = from_factors(scopes, [table] * len(pairs) + list(unary), dtype=dtype)
    forward = unary[0]
    for row in unary[1:]:
        forward = row + np.logaddexp.reduce(forward[:, None] + table, axis=0)
    truth = np.logaddexp.reduce(forward)
    assert truth > 1e4
    posterior = exact(field)
    assert posterior.log_partition.item() == pytest.approx(
        truth, rel=1e-6 if dtype == torch.float32 else 1e-12
    )
    np.testing.assert_allclose(posterior.marginals.sum(1), 1.0, atol=1e-5)


def test_a_tiny_probability_is_not_lost_on_the_way() -> None:
    # The state that evidence at the far end asks for is unlikely by a factor that no float holds.
    unlikely = np.array([[0.0, -500.0], [-500.0, 0.0]])
    field = from_factors([[0], [0, 1], [1, 2], [2, 3]], [np.array([0.0, -900.0]), *[unlikely] * 3])
    assert_exact(exact(field.given({3: 1})), enumerate_field(field.given({3: 1})))


def test_hub_with_many_leaves_is_computed_in_logs() -> None:
    leaves = 3000
    table = np.log(np.array([[0.9, 0.1], [0.2, 0.8]]))
    field = from_factors([[0, leaf] for leaf in range(1, leaves + 1)], [table] * leaves)
    field = field.given(dict.fromkeys(range(1, leaves + 1), 0))
    expected = np.logaddexp(leaves * np.log(0.9), leaves * np.log(0.2))
    assert exact(field).log_partition.item() == pytest.approx(expected, rel=1e-12)
    soft = from_factors(
        [[0, leaf] for leaf in range(1, leaves + 1)], [table + np.array([[0], [-1]])] * leaves
    )
    assert collect_messages(soft, clique_plan(soft)).in_logs.any()
    assert exact(soft).log_partition.item() == pytest.approx(np.logaddexp(0.0, -leaves), abs=1e-9)


@pytest.mark.parametrize("strength", [0.3, 300.0])
def test_the_loops_tell_how_far_they_are(strength: float, monkeypatch: pytest.MonkeyPatch) -> None:
    field, told = ising_grid(4, 4, strength, 0.1), []

    def watch(function: Any, arguments: tuple[Any, ...], work: float) -> None:
        stop = np.zeros(3, np.int64)
        function(stop, *arguments)
        told.append(stop[2] / work)

    exact(field)
    monkeypatch.setattr("hiddenfield.ops.compile.WATCHED_WORK", 0)
    monkeypatch.setattr("hiddenfield.ops.compile.call_watched", watch)
    exact(field)
    # The way back, which is longer, comes on top of the way up.
    assert told[-2:] == [pytest.approx(0.4), 1.0]


# -- what it leaves out, and what it refuses ---------------------------------------------------------------


def test_evidence_cuts_a_grid_apart() -> None:
    field = hf.fields.ising_grid(40, 40, 0.3)
    with pytest.raises(InputError, match=r"treewidth is up to \d+.*loopy_bp"):
        exact(field, max_memory=1e6)
    seen = {40 * row + column: 0 for row in range(40) for column in range(0, 40, 4)}
    posterior = exact(field.given(seen), max_memory=1e7)
    assert posterior.extra["treewidth"] <= 4


def test_refuses_before_it_runs() -> None:
    pairs = [[i, j] for i in range(40) for j in range(i)]
    dense = from_factors(pairs, [np.zeros((4, 4))] * len(pairs))
    for call in (exact, lambda field: map_state(field, "exact"), lambda field: sample(field, 1)):
        with pytest.raises(InputError, match=r"treewidth .*; raise max_memory"):
            call(dense)


def test_refuses_counts_of_variables_and_unknown_words() -> None:
    with pytest.raises(InputError, match="stand for several"):
        exact(from_factors([[0, 1]], [np.zeros((2, 2))], counts=[2.0, 1.0]))
    field = from_factors([[0, 1]], [np.zeros((2, 2))])
    with pytest.raises(InputError, match="choose from: best"):
        exact(field, order="fill")
    with pytest.raises(InputError, match="variables are 0 to 1"):
        marginal_map(field, [2])


# -- one pass where the log partition is all that is asked for ---------------------------------------------


@settings(max_examples=30)
@given(fields(), st.sampled_from(["numba", "torch"]))
def test_one_pass_has_the_log_partition_and_no_marginals(field: FactorGraph, backend: str) -> None:
    both, one = (exact(field, backend=backend, marginals=marginals) for marginals in (True, False))
    torch.testing.assert_close(one.log_partition, both.log_partition, rtol=0, atol=0)
    assert one.status == both.status
    if one.status == "converged":
        assert bool(one.log_marginals.isnan().all())


def test_messages_go_back_only_where_marginals_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    field = ising_grid(3, 3, 0.4, 0.1)
    expected = infer(field, "exact")
    unary = field.log_unary.clone().requires_grad_()
    own = field.with_potentials(unary, [group.log_tables for group in field.groups])
    passes: list[str] = []
    monkeypatch.setattr(
        sys.modules["hiddenfield.inference.exact"],  # the package's name is that of the function
        "distribute_messages",
        lambda *given: passes.append("back") or distribute_messages(*given),
    )
    for method in ("auto", "exact"):
        assert log_partition(field, method).equal(expected.log_partition)
        assert ask(field, "partition", method).as_dict()["log_partition"] == float(expected.log_partition)
        log_likelihood(field, torch.zeros(9, dtype=torch.int64), method)
        with torch.no_grad():
            log_partition(own, method)
    assert not passes
    log_partition(own).sum().backward()
    assert passes == ["back"]
    torch.testing.assert_close(unary.grad, expected.log_marginals.exp())
    with pytest.raises(InputError, match="marginals were not asked for"):
        _ = ask(field, "partition").marginals


def test_a_log_partition_is_expected_to_take_less_than_half_of_the_time() -> None:
    field = ising_grid(12, 12, 0.4)
    one, both = (clique_plan(field, marginals=marginals).seconds for marginals in (False, True))
    assert one < both / 2


# -- published problems and another package ----------------------------------------------------------------


@pytest.fixture(scope="module")
def unpacked(data_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inference")
    for name in ("uai2014_mar.tar.xz", "bnlearn_bif.tar.xz"):
        archive = data_path / "inference" / name
        if not archive.exists():
            pytest.skip(f"no {archive}")
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    return folder


def member(folder: Path, name: str) -> Path:
    found = sorted(folder.rglob(name))
    if not found:
        pytest.skip(f"{name} is not among the data")
    return found[0]


@pytest.mark.parametrize("name", ["Promedus_24", "Promedus_30", "Promedus_15", "Segmentation_11", "CSP_12"])
def test_published_problems(unpacked: Path, data_path: Path, name: str) -> None:
    path = member(unpacked, f"{name}.uai")
    field = hf.fields.read(path)
    posterior = exact(field.given(hf.fields.read_evidence(f"{path}.evid")))
    with open(data_path / "inference" / "uai2014_reference.csv", encoding="utf-8") as file:
        log10 = {row["name"]: row["log10Z_exact_recomputed"] for row in csv.DictReader(file)}[name]
    assert posterior.log_partition.item() / math.log(10) == pytest.approx(float(log10), rel=1e-7)
    for variable, marginal in enumerate(hf.fields.read_result(f"{path}.MAR").marginals):
        np.testing.assert_allclose(posterior.marginals[variable, : len(marginal)], marginal, atol=2e-6)


@pytest.mark.parametrize("name", ["asia", "alarm", "hailfinder", "win95pts", "andes", "pigs"])
def test_bayesian_networks_agree_with_pyagrum(unpacked: Path, name: str) -> None:
    pyagrum = pytest.importorskip("pyagrum")
    path = member(unpacked, f"{name}.bif")
    network = pyagrum.loadBN(str(path))
    field = hf.fields.read(path)
    names = list(field.variable_names)
    random = np.random.default_rng(0)
    # Evidence that is possible: a few states of one assignment drawn from the field.
    drawn = sample(field, 1, seed=1)[0]
    seen = {int(v): int(drawn[v]) for v in random.choice(len(names), size=3, replace=False)}
    for evidence in ({}, seen):
        posterior = exact(field.given(evidence))
        rival = pyagrum.LazyPropagation(network)
        rival.setEvidence({names[v]: state for v, state in evidence.items()})
        rival.makeInference()
        for variable, label in enumerate(names):
            expected = rival.posterior(label).toarray()
            states = int(field.cardinalities[variable])
            found = posterior.marginals[variable, :states]
            labels = list(network.variable(label).labels())
            same = (
                [field.state_names[variable].index(word) for word in labels]
                if field.state_names
                else slice(None)
            )
            np.testing.assert_allclose(found[same], expected, atol=1e-8)


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("scale", [0.3, 40.0])
@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_crowded_cliques(scale: float, observed: bool, backend: str) -> None:
    """Fourteen variables all of which meet, with other variables that hang on pairs of them: hundreds of terms."""
    draw = np.random.default_rng(0)
    cards = [2] * 12 + [1, 3] + [2] * 30
    scopes = [[i, j] for i in range(14) for j in range(i)] + [[i] for i in range(14)]
    scopes += [[14 + k, *draw.permutation(14)[:2].tolist()] for k in range(30)]
    tables = [scale * draw.normal(size=[cards[v] for v in scope]) for scope in scopes]
    tables[0][0, 1] = -np.inf
    field = from_factors(scopes, tables, cards)
    field = field.given({1: 1, 20: 0}) if observed else field
    plan = clique_plan(field)
    crowd = np.diff(plan.layout.term_ptr)[np.argmax(plan.tree.log_clique_states)]
    assert crowd < (30 if observed else 20)
    found = exact(field, backend=backend)
    # Reference: the same field with the sum over what hangs on pairs done by a tree of single eliminations.
    plain = clique_plan(field, stage=np.zeros(field.num_variables, np.int64))
    collected = collect_messages(field, plain)
    np.testing.assert_allclose(found.log_partition, collected.log_partition, rtol=1e-10)
    flat = torch.from_numpy(distribute_messages(plain, collected))
    np.testing.assert_allclose(found.log_marginals.exp(), flat[: field.log_unary.shape[0]], atol=1e-9)
    begin = field.log_unary.shape[0]
    for belief in found.factor_marginals:
        np.testing.assert_allclose(belief.reshape(-1), flat[begin : begin + belief.numel()], atol=1e-9)
        begin += belief.numel()
