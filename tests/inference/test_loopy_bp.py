"""Loopy belief propagation: exact on trees, its invariances elsewhere, and two real problems."""

from __future__ import annotations

import io
import math
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hiddenfield.fields import FactorGraph, from_factors, read
from hiddenfield.fields.relational import graph_scheme
from hiddenfield.inference import infer, map_state
from tests.fields.strategies import FieldParts, field_parts, fields, forests
from tests.inference.oracle import enumerate_field


@settings(max_examples=50)
@given(forests(), st.sampled_from([0.0, 0.3]), st.sampled_from(["parallel", "sequential", "residual"]))
def test_exact_on_forests(field: FactorGraph, damping: float, schedule: str) -> None:
    truth = enumerate_field(field)
    posterior = infer(field, "loopy_bp", tolerance=1e-10, damping=damping, schedule=schedule)
    assert posterior.guarantee == "exact"
    np.testing.assert_allclose(posterior.log_partition, [truth.log_partition], atol=1e-7)
    for variable, marginal in enumerate(truth.marginals):
        np.testing.assert_allclose(posterior.marginals[variable, : len(marginal)], marginal, atol=1e-7)
    for belief, expected in zip(posterior.factor_marginals, truth.factor_marginals, strict=True):
        np.testing.assert_allclose(belief, expected, atol=1e-7)


def test_contradiction_is_log_partition_of_minus_infinity() -> None:
    field = from_factors([[0, 1]], [torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]])])
    posterior = infer(field, "loopy_bp", evidence={0: 0, 1: 1})
    assert posterior.log_partition.item() == -torch.inf
    assert not posterior.log_marginals.isnan().any()


# -- joint assignments -------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(forests(most_variables=7), st.booleans())
def test_max_product_finds_a_best_assignment_on_forests(field: FactorGraph, tied: bool) -> None:
    if (
        tied
    ):  # few different values: many best assignments, and a state that is best in one need not be in another
        tables = [group.log_tables.sign().nan_to_num(neginf=-torch.inf) for group in field.groups]
        tables = [
            torch.where(g.log_tables == -torch.inf, g.log_tables, t)
            for g, t in zip(field.groups, tables, strict=True)
        ]
        field = field.with_potentials(0 * field.log_unary.clamp(min=-1), tables)
    best = map_state(field, "loopy_bp")
    truth = enumerate_field(field)
    assert best.guarantee == "exact"
    np.testing.assert_allclose(best.log_value, [truth.best], atol=1e-9)
    np.testing.assert_allclose(field.log_value(best.assignment), best.log_value)


@settings(max_examples=60)
@given(fields())
def test_a_decoded_assignment_is_a_lower_bound(field: FactorGraph) -> None:
    with torch.no_grad():
        best = map_state(field, "loopy_bp", damping=0.3, max_iterations=50)
    assert best.log_value.item() <= enumerate_field(field).best + 1e-9


def test_hard_constraints_are_kept_where_all_states_tie() -> None:
    # Colour a cycle of even length with two colours: by itself every variable is undecided.
    differ = np.array([[-np.inf, 0.0], [0.0, -np.inf]])
    cycle = from_factors([[v, (v + 1) % 8] for v in range(8)], [differ] * 8)
    best = map_state(cycle, "loopy_bp")
    assert best.log_value.item() == 0.0


# -- laws --------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(forests(most_variables=5), st.sampled_from([0.3, 2.5]))
def test_temperature_divides_the_potentials(field: FactorGraph, temperature: float) -> None:
    truth = enumerate_field(field)
    posterior = infer(field, "loopy_bp", temperature=temperature, tolerance=1e-10)
    top = truth.log_values.max()
    expected = top + temperature * np.log(np.exp((truth.log_values - top) / temperature).sum())
    np.testing.assert_allclose(posterior.log_partition, [expected], atol=1e-7)


@settings(max_examples=25)
@given(field_parts(zeros=False, scale=0.2, most_factors=5), st.integers(2, 3))
def test_a_factor_of_count_k_is_k_copies(parts: FieldParts, copies: int) -> None:
    cards, scopes, tables = parts
    once = from_factors(scopes, tables, cards, factor_counts=[float(copies)] * len(scopes))
    each = from_factors(scopes * copies, tables * copies, cards)
    for schedule in ("parallel", "residual"):
        one, many = (
            infer(field, "loopy_bp", tolerance=1e-11, schedule=schedule, damping=0.3)
            for field in (once, each)
        )
        np.testing.assert_allclose(one.log_marginals, many.log_marginals, atol=1e-7)
        np.testing.assert_allclose(one.log_partition, many.log_partition, atol=1e-7)


@pytest.mark.parametrize("states", [2, 3])
@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_a_ring_is_its_template(states: int, backend: str) -> None:
    generator = np.random.default_rng(states)
    table, own = generator.normal(size=(states, states)), generator.normal(size=states)
    ring = from_factors(
        [[v, (v + 1) % 7] for v in range(7)] + [[v] for v in range(7)], [table] * 7 + [own] * 7
    )
    template = from_factors([[0, 0], [0]], [table, own], counts=[7.0], factor_counts=[7.0, 7.0])
    whole = infer(ring, "loopy_bp", tolerance=1e-12, backend=backend)
    part = infer(template, "loopy_bp", tolerance=1e-12, backend=backend)
    np.testing.assert_allclose(whole.marginals, part.marginals.expand(7, -1), atol=1e-9)
    np.testing.assert_allclose(whole.log_partition, part.log_partition, atol=1e-9)


@settings(max_examples=25)
@given(field_parts(zeros=False, scale=0.3), st.integers(0, 2**31))
def test_order_and_constants_change_nothing_else(parts: FieldParts, seed: int) -> None:
    cards, scopes, tables = parts
    generator = np.random.default_rng(seed)
    rename, order = generator.permutation(len(cards)), generator.permutation(len(scopes))
    shifts = generator.normal(size=len(scopes))
    field = from_factors(scopes, tables, cards)
    other = from_factors(
        [[int(rename[v]) for v in scopes[f]] for f in order],
        [tables[f] + shifts[f] for f in order],
        [cards[v] for v in np.argsort(rename)],
    )
    one, two = (infer(each, "loopy_bp", tolerance=1e-11) for each in (field, other))
    np.testing.assert_allclose(two.marginals[rename], one.marginals, atol=1e-8)
    np.testing.assert_allclose(two.log_partition, one.log_partition + shifts.sum(), atol=1e-8)


@pytest.mark.parametrize("schedule", ["parallel", "sequential", "residual"])
def test_evidence_holds_exactly(schedule: str) -> None:
    generator = np.random.default_rng(0)
    scopes = [[v, v + 1] for v in range(9)] + [[0, 9], [2, 6]]
    field = from_factors(scopes, list(generator.normal(size=(11, 2, 2)))).to(torch.float32)
    posterior = infer(field, "loopy_bp", evidence={4: 1, 0: 0}, schedule=schedule)
    assert posterior.marginals[4].tolist() == [0.0, 1.0]
    assert posterior.marginals[0].tolist() == [1.0, 0.0]


# -- real problems -----------------------------------------------------------------------------------------


def member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as files:
        found = next(entry for entry in files if Path(entry.name).name == name)
        content = files.extractfile(found)
        assert content is not None
        return content.read()


def test_decodes_a_word_from_a_noisy_channel(data_path: Path) -> None:
    archive = data_path / "inference" / "ldpc.tar.xz"
    checks = np.loadtxt(io.BytesIO(member(archive, "bsc_H_750x1000.txt")), dtype=int)
    received = np.loadtxt(io.BytesIO(member(archive, "bsc_received_1000.txt")), dtype=int).reshape(-1)
    parity = np.where(np.indices((2,) * 4).sum(0) % 2 == 0, 0.0, -np.inf)
    scopes = [np.flatnonzero(row).tolist() for row in checks]
    flips = [np.log([0.9, 0.1]), np.log([0.1, 0.9])]
    field = from_factors(
        scopes + [[bit] for bit in range(1000)],
        [parity] * len(scopes) + [flips[bit] for bit in received],
        [2] * 1000,
    )
    for schedule in ("parallel", "sequential", "residual"):
        posterior = infer(field, "loopy_bp", schedule=schedule)
        word = posterior.most_likely.numpy()
        assert not (checks @ word % 2).any()
        assert int((word != received).sum()) == 110
        text = np.packbits(word[:248]).tobytes().decode("ascii")
        assert text == "Happy Holidays! Dmitry&David :)"


@pytest.mark.parametrize(
    ("name", "expected"), [("testfast.fg", 14.32895201), ("hoi1.fg", 5.543229954), ("alarm.fg", -0.00019992)]
)
def test_the_same_estimates_as_another_implementation(
    name: str, expected: float, data_path: Path, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(member(data_path / "inference" / "libdai_fg.tar.xz", name))
    field = read(path)
    for schedule in ("parallel", "sequential", "residual"):
        posterior = infer(field, "loopy_bp", tolerance=1e-9, schedule=schedule)
        assert posterior.log_partition.item() == pytest.approx(expected, abs=2e-8)
    if name == "testfast.fg":
        error = [
            0.5 * np.abs(posterior.marginals[variable].numpy() - marginal).sum()
            for variable, marginal in enumerate(enumerate_field(field).marginals)
        ]
        assert np.mean(error) == pytest.approx(3.480e-3, abs=1e-6)
        assert np.max(error) == pytest.approx(8.924e-3, abs=1e-6)


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_a_million_copies_leave_their_digits(backend: str) -> None:
    r"""To first order, :math:`\operatorname{logit} p = \theta_1 + (n - 2) \log(1 + p^2 (e^{\theta_2} - 1))`."""
    field = graph_scheme("edge", "triangle").template(1_000_000, [-10.0, 0.5])
    posterior = infer(field, "loopy_bp", tolerance=1e-9, backend=backend)
    expected = 1 / (1 + math.exp(10))
    for _ in range(20):
        shift = (1_000_000 - 2) * math.log1p(expected**2 * math.expm1(0.5))
        expected = 1 / (1 + math.exp(10 - shift))
    assert posterior.marginals[0, 1].item() == pytest.approx(expected, rel=1e-5)
    assert posterior.converged.all()
