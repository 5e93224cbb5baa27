"""Where a method says "converged", its beliefs solve its own equations: each checked in NumPy, written from those."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hiddenfield.fields import FactorGraph, concatenate_fields, from_factors, grid_edges, ising_grid
from hiddenfield.inference import METHODS, Posterior
from tests.fields.strategies import fields
from tests.inference.stationarity import bethe_regions, kikuchi_regions, mean_field_gap

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "parallel": ("loopy_bp", {"backend": "numba"}),
    "parallel, torch": ("loopy_bp", {"backend": "torch", "max_iterations": 50}),
    "parallel, damped": ("loopy_bp", {"damping": 0.5, "backend": "numba"}),
    "parallel, much damped": ("loopy_bp", {"damping": 0.95, "backend": "numba"}),
    "parallel, damped, torch": ("loopy_bp", {"damping": 0.5, "backend": "torch", "max_iterations": 50}),
    "sequential": ("loopy_bp", {"schedule": "sequential"}),
    "sequential, damped": ("loopy_bp", {"schedule": "sequential", "damping": 0.5}),
    "residual": ("loopy_bp", {"schedule": "residual"}),
    "residual, damped": ("loopy_bp", {"schedule": "residual", "damping": 0.5}),
    "cold": ("loopy_bp", {"temperature": 0.3, "damping": 0.2}),
    "max-product": ("loopy_bp", {"temperature": 0.0, "damping": 0.2}),
    "max-product, residual": ("loopy_bp", {"temperature": 0.0, "schedule": "residual"}),
    "damped": ("damped", {"backend": "numba", "max_iterations": 500}),
    "damped, torch": ("damped", {"backend": "torch", "max_iterations": 50}),
    "double loop": ("double_loop", {"backend": "numba", "max_iterations": 200}),
    "double loop, torch": (
        "double_loop",
        {"backend": "torch", "max_iterations": 6, "inner_iterations": 16},
    ),
    "double loop on cycles": ("double_loop", {"regions": "cycles", "max_iterations": 50}),
    "regions": ("generalized_bp", {"regions": "cycles", "outer_iterations": 5}),
    "regions, torch": (
        "generalized_bp",
        {"regions": "cycles", "backend": "torch", "max_iterations": 40, "outer_iterations": 0},
    ),
    "regions of a junction tree": ("generalized_bp", {"regions": "junction_tree", "max_iterations": 50}),
    "regions of factors": ("generalized_bp", {"regions": "bethe", "outer_iterations": 5}),
    "mean field": ("mean_field", {"backend": "numba"}),
    "mean field, torch": ("mean_field", {"backend": "torch", "max_iterations": 100}),
    "mean field, parallel": ("mean_field", {"schedule": "parallel", "damping": 0.5, "backend": "numba"}),
    "mean field, parallel, torch": (
        "mean_field",
        {"schedule": "parallel", "damping": 0.5, "backend": "torch", "max_iterations": 30},
    ),
    "tree-reweighted": ("tree_reweighted", {"samples": 10}),
    "tree-reweighted, parallel": ("tree_reweighted", {"schedule": "parallel", "samples": 10}),
    "tree-reweighted, torch": ("tree_reweighted", {"backend": "torch", "max_iterations": 50, "samples": 10}),
    "tree-reweighted, optimised": ("tree_reweighted", {"optimise": 1, "max_iterations": 100, "samples": 10}),
    "tree-reweighted max-product": ("tree_reweighted", {"temperature": 0.0, "samples": 10}),
}
"""Every way to run a method that iterates: its name and options."""


def run(setting: str, field: FactorGraph, tolerance: float, **more: Any) -> Posterior:
    method, options = SETTINGS[setting]
    with torch.no_grad():
        return METHODS[method](field, tolerance=tolerance, **{"max_iterations": 200, **options, **more})


def violation(setting: str, posterior: Posterior) -> dict[str, float]:
    """Return by how much the beliefs of a posterior miss each of the equations that they should solve."""
    method, options = SETTINGS[setting]
    value = posterior.log_partition.item()
    if value == -math.inf:  # nothing is possible, and there are no beliefs
        return {}
    scale = 1e-3 * (1 + abs(value))  # a free energy is stationary: its error is of second order
    if method == "mean_field":
        gap, bound = mean_field_gap(posterior)
        return {"coordinate equations": gap, "bound": 0.1 * abs(value - bound) / scale}
    temperature = options.get("temperature", 1.0)
    if options.get("regions", "bethe") != "bethe":
        regions = kikuchi_regions(posterior)
    else:
        weights = posterior.extra.get("weights")
        rho = None if weights is None else torch.cat([*weights, torch.zeros(0)]).tolist()
        regions = bethe_regions(posterior, rho, temperature)
    missed = {
        "agreement": regions.disagreement(),
        "balance": regions.unbalance(),
        "zeros": float(regions.unfounded_zeros()),
    }
    if (
        method != "tree_reweighted"
    ):  # whose bound holds before convergence and is above the free energy until then
        energy = temperature * regions.negative_free_energy()
        missed["free energy"] = 0.0 if temperature == 0 else 0.1 * abs(value - energy) / scale
    return missed


def assert_settled(setting: str, posterior: Posterior, tolerance: float) -> None:
    """Fail where it says converged and its equations do not; the regions' own residual is of one update of the mean."""
    if bool(posterior.converged.all()):
        missed = violation(setting, posterior)
        allowed = 2 * tolerance if "regions" in posterior.extra else (1 + 1e-6) * tolerance
        assert all(amount <= allowed for amount in missed.values()), missed
        assert float(posterior.residual.max()) <= tolerance


def frustrated(strength: float, seed: int) -> FactorGraph:
    draw = np.random.default_rng(seed)
    return ising_grid(3, 4, strength * draw.normal(size=17), 0.3 * strength * draw.normal(size=12))


def colouring(seed: int) -> FactorGraph:
    draw = np.random.default_rng(seed)
    differ = np.where(np.eye(3) > 0, -np.inf, 0.0)
    scopes = [edge.tolist() for edge in grid_edges(2, 4)]
    own = [[v] for v in range(8)]
    return from_factors(scopes + own, [differ] * len(scopes) + list(2 * draw.normal(size=(8, 3))))


def parity(seed: int) -> FactorGraph:
    draw = np.random.default_rng(seed)
    odd = np.indices((2, 2, 2, 2)).sum(axis=0) % 2 == 1
    check = np.where(odd, -np.inf, 0.0)
    scopes = [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 0, 1], [0, 2, 4, 6]]
    return from_factors(scopes + [[v] for v in range(8)], [check] * 5 + list(3 * draw.normal(size=(8, 2))))


def template() -> FactorGraph:
    agree = np.array([[0.9, 0.0], [0.0, 0.7]])
    return from_factors([[0, 0], [0]], [agree, [0.0, 0.1]], counts=[1000], factor_counts=[2000, 1000])


HARD = {
    "frustrated": lambda: frustrated(1.0, 0),
    "very frustrated": lambda: frustrated(5.0, 1),
    "frozen": lambda: frustrated(20.0, 4),
    "colouring": lambda: colouring(0),
    "parity": lambda: parity(1),
}


@pytest.mark.parametrize("setting", SETTINGS)
@settings(max_examples=5)
@given(
    fields(most_states=3, most_arity=3, most_factors=7, scale=2.0),
    st.sampled_from([1e-3, 1e-6]),
    st.sampled_from([0.2, 1.0, 10.0]),
)
def test_converged_beliefs_solve_the_equations(
    setting: str, field: FactorGraph, tolerance: float, strength: float
) -> None:
    tables = [strength * group.log_tables for group in field.groups]
    scaled = field.with_potentials(strength * field.log_unary, tables)
    assert_settled(setting, run(setting, scaled, tolerance), tolerance)


@pytest.mark.parametrize("setting", SETTINGS)
def test_converged_beliefs_solve_the_equations_of_hard_fields(setting: str) -> None:
    # The update in torch is the same and slow here, and a junction tree's tables are large: on two of them.
    names = ("frozen", "colouring") if "torch" in setting or "junction" in setting else HARD
    for make in (HARD[name] for name in names):
        assert_settled(setting, run(setting, make(), 1e-5), 1e-5)


@pytest.mark.parametrize("setting", SETTINGS)
def test_an_easy_field_converges(setting: str) -> None:
    draw = np.random.default_rng(3)
    field = ising_grid(3, 3, 0.2 * draw.normal(size=12), draw.normal(size=9))
    posterior = run(setting, field, 1e-3)
    assert bool(posterior.converged.all()), posterior.status
    assert_settled(setting, posterior, 1e-3)


@pytest.mark.parametrize("setting", [name for name in SETTINGS if "cycles" not in str(SETTINGS[name])])
def test_templates_too(setting: str) -> None:
    if "junction" in setting or "tree-reweighted" in setting:
        return  # for ground fields, or for given weights
    assert_settled(setting, run(setting, template(), 1e-7), 1e-7)


def test_every_method_that_iterates_is_here() -> None:
    # `relaxed` iterates between copies of variables: its equations are those of the relaxed field (test_relaxed.py).
    others = {"auto", "exact", "gibbs", "relaxed"}
    assert {method for method, _ in SETTINGS.values()} == set(METHODS) - others


def test_each_graph_of_a_batch_answers_for_itself() -> None:
    parts = [ising_grid(3, 3, 0.2, 0.1), frustrated(2.0, 5), frustrated(0.5, 1), frustrated(3.0, 2)]
    batch = concatenate_fields(parts)
    mixed = 0
    for setting in ("parallel", "residual", "sequential", "damped", "regions of factors"):
        posterior = run(setting, batch, 1e-6, max_iterations=40)
        states = factors = 0
        for number, part in enumerate(parts):
            group = part.groups[0].num_factors
            here = slice(number, number + 1)
            alone = dataclasses.replace(
                posterior,
                field=part,
                log_marginals=posterior.log_marginals[states : states + len(part.log_unary)],
                factor_log_marginals=(posterior.factor_log_marginals[0][factors : factors + group],),
                log_partition=posterior.log_partition[here],
                converged=posterior.converged[here],
                iterations=posterior.iterations[here],
                residual=posterior.residual[here],
            )
            assert_settled(setting, alone, 1e-6)
            states, factors = states + len(part.log_unary), factors + group
        mixed += bool(posterior.converged.any()) and not bool(posterior.converged.all())
    assert mixed, "no batch in which some converged and some did not"


# -- the check itself --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting", ["parallel", "sequential", "damped", "regions", "mean field", "tree-reweighted"]
)
def test_what_has_not_settled_is_noticed(setting: str) -> None:
    posterior = run(setting, frustrated(0.7, 3), 1e-6, max_iterations=1)
    if setting == "regions":  # the double loop would take over
        posterior = run(setting, frustrated(0.7, 3), 1e-6, max_iterations=1, outer_iterations=0)
    assert not bool(posterior.converged.all())
    assert max(violation(setting, posterior).values()) > 1e-4


def test_beliefs_that_agree_need_not_be_stationary() -> None:
    with torch.no_grad():
        regions = bethe_regions(METHODS["exact"](frustrated(0.7, 3)))
    assert regions.disagreement() < 1e-12
    assert regions.unbalance() > 1e-3


@pytest.mark.parametrize("schedule", ["parallel", "sequential", "residual"])
def test_beliefs_may_turn_on_what_messages_all_but_exclude(schedule: str) -> None:
    """Two factors that are sure of the contrary: each message is (1, 0) to all digits, and beliefs are what is left."""
    sure = np.array([[40.0, 0.0], [0.0, 40.0]])
    draw = np.random.default_rng(0)
    scopes = [[v, (v + 1) % 6] for v in range(6)] + [[v] for v in range(6)]
    tables = [sure] * 6 + [np.array([0.0, (-1) ** v * 40.0 + draw.normal()]) for v in range(6)]
    with torch.no_grad():
        posterior = METHODS["loopy_bp"](from_factors(scopes, tables), schedule=schedule)
    assert bool(posterior.converged.all())
    assert bethe_regions(posterior).disagreement() <= 1e-6
