"""No iteration says "converged", or "exact", of messages that are still on their way where potentials are extreme."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hiddenfield.fields import FactorGraph, from_factors
from hiddenfield.inference import infer, map_state
from tests.inference.oracle import enumerate_field


def chain(seed: int, scale: float, states: int = 2, size: int = 6) -> FactorGraph:
    generator = np.random.default_rng(seed)
    scopes = [[v, v + 1] for v in range(size - 1)] + [[v] for v in range(size)]
    return from_factors(scopes, [scale * generator.normal(size=(states,) * len(scope)) for scope in scopes])


def cycle(seed: int, scale: float, size: int = 6) -> FactorGraph:
    generator = np.random.default_rng(seed)
    scopes = [[v, (v + 1) % size] for v in range(size)] + [[v] for v in range(size)]
    return from_factors(scopes, [scale * generator.normal(size=(2,) * len(scope)) for scope in scopes])


# Chains on which damped messages seemed to have settled, with marginals that were wrong by 1.
EXTREME = [(4, 300.0), (10, 300.0), (14, 1000.0), (34, 300.0), (50, 1000.0)]

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("loopy_bp", {"damping": 0.5}),
    ("loopy_bp", {"damping": 0.9}),
    ("loopy_bp", {"damping": 0.5, "schedule": "sequential"}),
    ("loopy_bp", {"damping": 0.5, "schedule": "residual"}),
    ("loopy_bp", {"damping": 0.5, "backend": "torch"}),
    ("damped", {}),
    ("double_loop", {}),
    ("generalized_bp", {"damping": 0.5}),
    ("tree_reweighted", {}),
    ("tree_reweighted", {"damping": 0.5}),
]


@pytest.mark.parametrize(("method", "options"), SETTINGS)
@pytest.mark.parametrize(("seed", "scale"), EXTREME)
def test_exact_on_a_forest_of_extreme_potentials(
    seed: int, scale: float, method: str, options: dict[str, Any]
) -> None:
    field = chain(seed, scale)
    posterior, known = infer(field, method, **options), enumerate_field(field)
    assert posterior.guarantee == "exact"
    np.testing.assert_allclose(posterior.log_partition, known.log_partition, rtol=1e-9)
    np.testing.assert_allclose(posterior.marginals, np.stack(known.marginals), atol=1e-6)


@pytest.mark.parametrize("seed", [23, 36, 102, 134, 147])
@pytest.mark.parametrize(("method", "options"), [SETTINGS[0], SETTINGS[5], SETTINGS[6]])
def test_messages_on_a_cycle_do_not_stop_on_their_way(
    seed: int, method: str, options: dict[str, Any]
) -> None:
    # Bethe's free energy has one minimum on a single cycle.
    field = cycle(seed, 300.0)
    posterior, undamped = infer(field, method, **options), infer(field, "loopy_bp")
    assert posterior.status == undamped.status == "converged"
    np.testing.assert_allclose(posterior.marginals, undamped.marginals, atol=1e-4)


def test_a_bound_that_is_not_tight_is_not_called_exact() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        field = chain(int(generator.integers(1000)), 1000.0, 3, 5)
        posterior = infer(field, "tree_reweighted", backend="torch")
        exact = enumerate_field(field).log_partition
        assert float(posterior.log_partition) >= exact * (1 - 1e-12)
        if posterior.guarantee == "exact":
            np.testing.assert_allclose(posterior.log_partition, exact, rtol=1e-5)


def test_a_fixed_point_that_only_damping_finds_is_still_found() -> None:
    # Undamped messages swing between two states here: a residual grows threefold with every update.
    repel = np.array([[-1.0, 1.0], [1.0, -1.0]])
    scopes = [[v, u] for v in range(8) for u in range(v)]
    field = from_factors(scopes, [repel] * len(scopes))
    with pytest.warns(UserWarning, match="not converged"):
        assert not infer(
            from_factors([*scopes, [0]], [repel] * len(scopes) + [np.array([0.1, 0])]), "loopy_bp"
        ).converged
    posterior = infer(
        from_factors([*scopes, [0]], [repel] * len(scopes) + [np.array([0.1, 0])]), "loopy_bp", damping=0.8
    )
    assert posterior.status == "converged"
    assert infer(field, "loopy_bp", damping=0.8).status == "converged"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_hub_of_many_factors(dtype: torch.dtype) -> None:
    generator = np.random.default_rng(0)
    tables = list(generator.normal(size=(8, 2, 2)))
    size = 2_000
    scopes = [[0, leaf + 1] for leaf in range(size)]
    field = from_factors(scopes, [tables[leaf % 8] for leaf in range(size)], dtype=dtype)
    known = infer(field, "exact")
    accuracy = 1e-5 if dtype == torch.float32 else 1e-9
    # The pairs of regions at a hub, as many as its degree squared, would fill the memory.
    for method in ("loopy_bp", "tree_reweighted", "generalized_bp"):
        found = infer(field, method, **({"schedule": "sequential"} if method == "loopy_bp" else {}))
        assert found.guarantee == "exact"
        rtol = accuracy if method != "generalized_bp" else 1e-5
        np.testing.assert_allclose(found.log_partition, known.log_partition, rtol=rtol)
    assert map_state(field, "loopy_bp", schedule="sequential").guarantee == "exact"


def test_a_field_without_variables() -> None:
    field = from_factors([], [], [])
    assert infer(field, "exact", backend="torch").log_partition.tolist() == [0.0]
    for method in ("exact", "loopy_bp", "tree_reweighted"):
        assert map_state(field, method).assignment.shape == (0,)
