"""Generalized belief propagation: belief propagation on Bethe's regions, exact on cliques, good on faces."""

from __future__ import annotations

import tarfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings, strategies as st

from hiddenfield.errors import ConvergenceWarning, InputError, TooLargeError
from hiddenfield.fields import (
    FactorGraph,
    concatenate_fields,
    from_factors,
    ising_grid,
    read,
    read_result,
    regions_from_clusters,
)
from hiddenfield.inference import Posterior, generalized_bp, infer
from tests.fields.strategies import FieldParts, field_parts, fields
from tests.inference.oracle import enumerate_field

BACKENDS = ("numba", "torch")


def agree(one: Posterior, other: Posterior, atol: float = 1e-6) -> None:
    np.testing.assert_allclose(one.log_partition, other.log_partition, atol=atol, rtol=1e-7)
    np.testing.assert_allclose(one.marginals, other.marginals, atol=atol)
    for belief, expected in zip(one.factor_marginals, other.factor_marginals, strict=True):
        np.testing.assert_allclose(belief, expected, atol=atol)


def random_grid(rows: int, columns: int, strength: float, seed: int, attractive: bool = False) -> FactorGraph:
    draw = np.random.default_rng(seed)
    low = 0.0 if attractive else -strength
    return ising_grid(
        rows,
        columns,
        lambda size: draw.uniform(low, strength, size),
        lambda size: draw.uniform(-0.05, 0.05, size),
    )


@settings(max_examples=25)
@given(fields(most_states=3), st.sampled_from(BACKENDS))
def test_exact_on_cliques_of_a_junction_tree(field: FactorGraph, backend: str) -> None:
    truth = enumerate_field(field)
    posterior = infer(field, "generalized_bp", regions="junction_tree", tolerance=1e-9, backend=backend)
    assert posterior.guarantee == "exact"
    np.testing.assert_allclose(posterior.log_partition, [truth.log_partition], atol=1e-6)
    for variable, marginal in enumerate(truth.marginals):
        np.testing.assert_allclose(posterior.marginals[variable, : len(marginal)], marginal, atol=1e-6)
    for belief, expected in zip(posterior.factor_marginals, truth.factor_marginals, strict=True):
        np.testing.assert_allclose(belief, expected, atol=1e-6)


@settings(max_examples=25)
@given(fields(scale=0.5, zeros=False, most_states=3), st.sampled_from(BACKENDS))
def test_belief_propagation_on_bethe_regions(field: FactorGraph, backend: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected = infer(field, "loopy_bp", tolerance=1e-10)
    assume(bool(expected.converged.all()))
    agree(infer(field, "generalized_bp", regions="bethe", tolerance=1e-8, backend=backend), expected)


@settings(max_examples=12)
@given(fields(zeros=True, most_states=3))
def test_hard_zeros_give_no_nan(field: FactorGraph) -> None:
    for regions in ("bethe", "auto"):
        for backend in BACKENDS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                posterior = infer(
                    field,
                    "generalized_bp",
                    regions=regions,
                    outer_iterations=5,
                    max_iterations=100,
                    backend=backend,
                )
            assert not posterior.log_partition.isnan().any()
            assert not posterior.log_marginals.isnan().any()
            possible = torch.cat([torch.from_numpy(m > 0) for m in enumerate_field(field).marginals])
            assert bool((posterior.log_marginals[possible] > -torch.inf).all())


@given(field_parts(scale=0.5, most_states=3), st.integers(0, 1000))
@settings(max_examples=12)
def test_order_of_variables_and_factors_does_not_matter(parts: FieldParts, seed: int) -> None:
    cards, scopes, tables = parts
    draw = np.random.default_rng(seed)
    new, order = draw.permutation(len(cards)), draw.permutation(len(scopes))
    one = from_factors(scopes, tables, cards)
    other = from_factors(
        [[int(new[v]) for v in scopes[f]] for f in order],
        [tables[f] for f in order],
        [cards[v] for v in np.argsort(new)],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = infer(one, "generalized_bp", tolerance=1e-9, regions="cycles", outer_iterations=0)
        second = infer(other, "generalized_bp", tolerance=1e-9, regions="cycles", outer_iterations=0)
    assume(bool(first.converged.all() and second.converged.all()))
    np.testing.assert_allclose(first.log_partition, second.log_partition, atol=1e-6)
    np.testing.assert_allclose(first.marginals, second.marginals[new], atol=1e-5)


def test_a_constant_shifts_the_log_partition_alone() -> None:
    field = random_grid(4, 4, 1.0, 0)
    group = field.groups[0]
    shifted = field.with_potentials(field.log_unary, [group.log_tables + 3.0])
    one, other = infer(field, "generalized_bp"), infer(shifted, "generalized_bp")
    np.testing.assert_allclose(other.log_partition - one.log_partition, 3.0 * group.num_factors, atol=1e-5)
    np.testing.assert_allclose(one.marginals, other.marginals, atol=1e-6)


@pytest.mark.parametrize("attractive", [False, True])
def test_faces_beat_belief_propagation_on_grids(attractive: bool) -> None:
    faces, plain = [], []
    for seed in range(5):
        field = random_grid(4, 4, 1.0, seed, attractive)
        truth = enumerate_field(field)
        expected = np.stack(truth.marginals)
        for method, errors in (("generalized_bp", faces), ("loopy_bp", plain)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                posterior = infer(field, method)
            error = np.abs(posterior.marginals.numpy() - expected).mean()
            errors.append((error, abs(float(posterior.log_partition) - truth.log_partition)))
    assert (np.mean(faces, axis=0) < 0.25 * np.mean(plain, axis=0)).all()


@pytest.mark.parametrize("strength", [1.0, 2.0])
def test_back_ends_agree_on_faces(strength: float) -> None:
    field = random_grid(5, 5, strength, 1)
    posteriors = [infer(field, "generalized_bp", tolerance=1e-8, backend=backend) for backend in BACKENDS]
    agree(*posteriors, atol=1e-5)
    assert all(len(posterior.extra["regions"].outer) == 16 for posterior in posteriors)
    single = infer(field.to(torch.float32), "generalized_bp", tolerance=1e-5)
    assert single.log_marginals.dtype == torch.float32
    np.testing.assert_allclose(single.marginals, posteriors[0].marginals, atol=1e-3)


def test_falls_over_to_the_double_loop_and_says_so() -> None:
    field = random_grid(4, 4, 3.0, 0)
    posterior = infer(field, "generalized_bp", damping=0.0, memory=0, max_iterations=16)
    assert "by the double loop" in posterior.status
    assert bool(posterior.converged.all())
    agree(posterior, infer(field, "double_loop", regions="faces"), atol=1e-4)
    with pytest.warns(ConvergenceWarning, match="not converged"):
        infer(field, "generalized_bp", damping=0.0, memory=0, max_iterations=16, outer_iterations=0)


def test_only_what_did_not_converge_falls_over() -> None:
    parts = [random_grid(3, 3, 0.3, 0), random_grid(4, 4, 3.0, 0)]
    options = {"damping": 0.0, "memory": 0, "max_iterations": 24}
    batch = infer(concatenate_fields(parts), "generalized_bp", **options)
    assert "in 1 of 2 graphs" in batch.status
    alone = [infer(part, "generalized_bp", **options) for part in parts]
    np.testing.assert_allclose(
        batch.log_partition, torch.cat([posterior.log_partition for posterior in alone]), atol=1e-6
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_is_its_graphs(backend: str) -> None:
    parts = [random_grid(3, 4, 1.0, seed) for seed in range(3)] + [from_factors([[0]], [[0.0, 1.0]])]
    batch = infer(concatenate_fields(parts), "generalized_bp", tolerance=1e-8, backend=backend)
    alone = [infer(part, "generalized_bp", tolerance=1e-8, backend=backend) for part in parts]
    np.testing.assert_allclose(
        batch.log_partition, torch.cat([posterior.log_partition for posterior in alone]), atol=1e-6
    )
    assert batch.converged.shape == (4,)


def test_evidence_and_contradictions() -> None:
    field = random_grid(3, 3, 1.0, 0)
    posterior = infer(field, "generalized_bp", evidence={4: 1}, tolerance=1e-8)
    assert posterior.marginals[4].tolist() == [0.0, 1.0]
    truth = enumerate_field(field.given({4: 1}))
    # Without its centre the grid is one cycle of eight, which faces only approximate.
    np.testing.assert_allclose(posterior.marginals, np.stack(truth.marginals), atol=1e-2)
    never = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]])
    triangle = from_factors([[0, 1], [1, 2], [2, 0]], [never] * 3)
    posterior = infer(triangle, "generalized_bp", evidence={0: 0, 1: 1})
    assert posterior.log_partition.tolist() == [-torch.inf]


@pytest.mark.parametrize(
    ("nodes", "regions", "size"),
    [
        (60, "junction_tree", r"clique of 2\^\d+"),
        (100, "cycles", "100,000 chordless"),
        (80, "cycles", r"clusters or regions share [\d,]+ variables"),
    ],
)
def test_regions_that_would_be_too_many_are_refused_by_size(nodes: int, regions: str, size: str) -> None:
    edges = [[i, j] for i in range(nodes) for j in range(i + 1, nodes)]
    field = from_factors(edges, [np.zeros((2, 2))] * len(edges))
    with pytest.raises(TooLargeError, match=size):
        infer(field, "generalized_bp", regions=regions)


def test_counts_of_factors_are_copies_and_of_variables_bethe_only() -> None:
    draw = np.random.default_rng(0)
    edges, tables = [[0, 1], [1, 2], [2, 0]], [draw.normal(size=(2, 2)) for _ in range(3)]
    counted = from_factors(edges, tables, factor_counts=[2, 1, 3])
    copies = from_factors(edges + [edges[0]] + [edges[2]] * 2, tables + [tables[0]] + [tables[2]] * 2)
    one, other = (
        infer(counted, "generalized_bp", regions="cycles"),
        infer(copies, "generalized_bp", regions="cycles"),
    )
    np.testing.assert_allclose(one.log_partition, other.log_partition, atol=1e-8)
    np.testing.assert_allclose(one.log_partition, [enumerate_field(copies).log_partition], atol=1e-8)
    ring = from_factors([[0, 0]], [0.3 * tables[0]], counts=[6], factor_counts=[6])
    agree(infer(ring, "generalized_bp", tolerance=1e-9), infer(ring, "loopy_bp", tolerance=1e-10), atol=1e-6)
    with pytest.raises(InputError, match="ground field"):
        infer(ring, "generalized_bp", regions="cycles")


def test_gradient_of_the_log_partition_is_the_marginals() -> None:
    field = random_grid(3, 3, 0.7, 0)
    unary = field.log_unary.clone().requires_grad_()
    posterior = infer(
        field.with_potentials(unary, [field.groups[0].log_tables]), "generalized_bp", tolerance=1e-9
    )
    posterior.log_partition.sum().backward()
    step = torch.zeros_like(field.log_unary)
    step[3] = 1e-4
    up = infer(field.given(step), "generalized_bp", tolerance=1e-10).log_partition
    down = infer(field.given(-step), "generalized_bp", tolerance=1e-10).log_partition
    assert unary.grad is not None
    np.testing.assert_allclose(unary.grad[3], ((up - down) / 2e-4).item(), atol=1e-5)


def test_stored_values_of_another_implementation(data_path: Path, tmp_path: Path) -> None:
    import tarfile

    archive = data_path / "inference" / "libdai_fg.tar.xz"
    if not archive.exists():
        pytest.skip(f"no {archive}")
    with tarfile.open(archive) as files:
        files.extract("libdai/testfast.fg", tmp_path, filter="data")
    field = read(tmp_path / "libdai" / "testfast.fg")
    posterior = infer(field, "generalized_bp", regions="faces", tolerance=1e-10)
    np.testing.assert_allclose(posterior.log_partition, [14.32822149], atol=1e-7)
    exact = np.stack(enumerate_field(field).marginals)
    np.testing.assert_allclose(np.abs(posterior.marginals.numpy() - exact)[:, 0].mean(), 4.029e-6, rtol=2e-3)
    bethe = infer(field, "generalized_bp", regions="bethe", tolerance=1e-10)
    np.testing.assert_allclose(bethe.log_partition, [14.32895201], atol=1e-7)


def sharp_grid(seed: int) -> FactorGraph:
    """Draw a grid most of whose states are all but impossible, as where an image is cut into its objects."""
    draw = np.random.default_rng(seed)
    return ising_grid(
        8, 8, lambda size: draw.uniform(0, 1.5, size), lambda size: draw.choice([-20.0, 0.5, 20.0], size)
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_tiny_probabilities_do_not_slow_it_down(backend: str) -> None:
    """Their logarithms move a lot and mean nothing: mixing of past states must not be led by them."""
    for seed in range(3):
        posterior = infer(sharp_grid(seed), "generalized_bp", outer_iterations=0, backend=backend)
        assert int(posterior.iterations) < (100 if backend == "numba" else 400)


def test_image_segmentation_settles_in_the_single_loop(data_path: Path, tmp_path: Path) -> None:
    archive = data_path / "inference" / "uai2014_mar.tar.xz"
    if not archive.is_file():
        pytest.skip(f"no {archive}")
    name = "Segmentation_11.uai"
    with tarfile.open(archive) as tar:
        for member in tar:
            if Path(member.name).name in (name, f"{name}.MAR"):
                member.name = Path(member.name).name
                tar.extract(member, tmp_path, filter="data")
    field = read(tmp_path / name)
    posterior = infer(field, "generalized_bp")
    assert (posterior.status, int(posterior.iterations) < 300) == ("converged", True)
    reference = np.array(read_result(tmp_path / f"{name}.MAR").marginals)
    error, bethe = (
        np.abs(found.marginals.numpy() - reference).mean() for found in (posterior, infer(field, "loopy_bp"))
    )
    assert error < 0.5 * bethe


def test_options_are_checked() -> None:
    field = ising_grid(2, 2)
    with pytest.raises(InputError, match="damping"):
        generalized_bp(field, damping=1.0)
    with pytest.raises(InputError, match="memory"):
        generalized_bp(field, memory=-1)
    with pytest.raises(InputError, match="backend"):
        generalized_bp(field, backend="cuda")
    large = from_factors([[v] for v in range(40)], [np.zeros(2)] * 40)
    with pytest.raises(InputError, match="smaller clusters"):
        generalized_bp(large, regions=regions_from_clusters(large, [list(range(40))]))
