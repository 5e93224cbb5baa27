"""The double loop and Minka's damped dual: monotone, and with the fixed points of belief propagation."""

from __future__ import annotations

import tarfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import hiddenfield as hf
from hiddenfield.errors import ConvergenceWarning
from hiddenfield.fields import FactorGraph, from_factors, ising_grid
from hiddenfield.inference import infer
from tests.fields.strategies import fields, forests
from tests.inference.oracle import enumerate_field

BACKENDS = ("numba", "torch")


@settings(max_examples=8)
@given(
    fields(scale=2.0, most_states=3),
    st.sampled_from(["bethe", "cycles"]),
    st.sampled_from(BACKENDS),
)
def test_the_free_energy_never_rises(field: FactorGraph, regions: str, backend: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        posterior = infer(field, "double_loop", regions=regions, max_iterations=30, backend=backend)
    energies = np.array(posterior.trace["free_energy"])
    assert np.isfinite(energies).all()
    assert (np.diff(energies) <= 1e-6).all()


@settings(max_examples=8)
@given(
    fields(scale=0.4, zeros=False, most_states=3),
    st.sampled_from(["double_loop", "damped"]),
    st.sampled_from(BACKENDS),
)
def test_the_fixed_point_is_that_of_belief_propagation(field: FactorGraph, method: str, backend: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected = infer(field, "loopy_bp", tolerance=1e-10)
        posterior = infer(field, method, tolerance=1e-8, backend=backend)
    assume(bool(expected.converged.all()))
    assert bool(posterior.converged.all())
    np.testing.assert_allclose(posterior.log_partition, expected.log_partition, atol=1e-5)
    np.testing.assert_allclose(posterior.marginals, expected.marginals, atol=1e-5)


@settings(max_examples=8)
@given(forests(most_states=3), st.sampled_from(["double_loop", "damped"]))
def test_exact_on_forests(field: FactorGraph, method: str) -> None:
    truth = enumerate_field(field)
    posterior = infer(field, method, tolerance=1e-9)
    assert posterior.guarantee == "exact"
    np.testing.assert_allclose(posterior.log_partition, [truth.log_partition], atol=1e-5)
    for variable, marginal in enumerate(truth.marginals):
        np.testing.assert_allclose(posterior.marginals[variable, : len(marginal)], marginal, atol=1e-5)


def hard_grid() -> FactorGraph:
    draw = np.random.default_rng(0)
    return ising_grid(
        5, 5, lambda size: draw.uniform(-3, 3, size), lambda size: draw.uniform(-0.05, 0.05, size)
    )


@pytest.mark.parametrize("method", ["double_loop", "damped"])
def test_converges_where_belief_propagation_does_not(method: str) -> None:
    field = hard_grid()
    with pytest.warns(ConvergenceWarning):
        infer(field, "loopy_bp", max_iterations=300)
    posterior = infer(field, method, tolerance=1e-5)
    assert bool(posterior.converged.all())
    # Where it ended, belief propagation would stay, if only it were stable there.
    again = infer(
        field, "generalized_bp", regions="bethe", messages=posterior.extra["messages"], tolerance=1e-4
    )
    np.testing.assert_allclose(again.marginals, posterior.marginals, atol=1e-2)


@pytest.mark.parametrize("method", ["double_loop", "damped"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_counts_are_copies(method: str, backend: str) -> None:
    draw = np.random.default_rng(1)
    table = draw.normal(size=(2, 3))
    own = [0.0, 0.3]
    template = from_factors([[0, 1], [0]], [table, own], counts=[2, 1], factor_counts=[2, 2])
    ground = from_factors([[0, 2], [1, 2], [0], [1]], [table, table, own, own])
    one = infer(template, method, tolerance=1e-9, backend=backend)
    other = infer(ground, method, tolerance=1e-9, backend=backend)
    np.testing.assert_allclose(one.log_partition, other.log_partition, atol=1e-7)
    np.testing.assert_allclose(one.marginals, other.marginals[[0, 2]], atol=1e-7)


@pytest.mark.parametrize("method", ["double_loop", "damped"])
def test_not_converging_is_said(method: str) -> None:
    with pytest.warns(ConvergenceWarning, match="not converged after"):
        posterior = infer(hard_grid(), method, max_iterations=2)
    assert not bool(posterior.converged.any())


def test_divergence_does_not_pass_for_impossibility(data_path: Path, tmp_path: Path) -> None:
    """On a pedigree with hard zeros Minka's dual runs away; its messages must not come to look like hard zeros."""
    archive = data_path / "inference" / "uai2014_mar.tar.xz"
    if not archive.is_file():
        pytest.skip(f"no {archive}")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    found = sorted(tmp_path.rglob("Pedigree_13.uai"))
    if not found:
        pytest.skip("Pedigree_13 is not among the data")
    field = hf.fields.read(found[0])
    with pytest.warns(ConvergenceWarning, match="not converged"):
        posterior = infer(
            field, "damped", evidence=hf.fields.read_evidence(f"{found[0]}.evid"), max_iterations=1500
        )
    assert posterior.log_partition.isfinite().all()
    assert not posterior.marginals.isnan().any()
