"""Comparing methods: errors against the exact answer, refusals, and the distance that is reported."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from hiddenfield.errors import InputError
from hiddenfield.evaluation import ask, compare_methods
from hiddenfield.evaluation.comparing import total_variation
from hiddenfield.evaluation.query import named_evidence
from hiddenfield.fields import FactorGraph, concatenate_fields, from_factors, ising_grid
from hiddenfield.inference import METHODS, infer
from tests.fields.strategies import fields
from tests.inference.oracle import enumerate_field


@given(fields(most_variables=4, most_states=3))
@settings(max_examples=25)
def test_errors_are_those_of_enumeration(field: FactorGraph) -> None:
    truth = enumerate_field(field)
    packed = torch.from_numpy(np.concatenate(truth.marginals))
    (result,) = compare_methods(field, ["mean_field"], exact=(packed, truth.log_partition))
    posterior = infer(field, "mean_field")
    bounds = field.state_ptr.tolist()
    found = posterior.log_marginals.exp().numpy()
    errors = [
        0.5 * np.abs(found[bounds[v] : bounds[v + 1]] - marginal).sum()
        for v, marginal in enumerate(truth.marginals)
        if np.isfinite(field.log_unary[bounds[v] : bounds[v + 1]].numpy()).sum() > 1
    ]
    assert result.mean_error == pytest.approx(np.mean(errors) if errors else 0, abs=1e-6)
    assert result.max_error == pytest.approx(max(errors, default=0), abs=1e-6)
    assert result.log_partition_error is not None
    assert result.log_partition_error <= 1e-9


def test_total_variation_leaves_out_what_is_observed() -> None:
    field = ising_grid(1, 3).given({0: 1})
    first = torch.tensor([0.0, 1.0, 0.5, 0.5, 0.2, 0.8], dtype=torch.float64)
    second = torch.tensor([0.0, 1.0, 0.4, 0.6, 0.2, 0.8], dtype=torch.float64)
    np.testing.assert_allclose(total_variation(field, first, second), [0.1, 0.0])


def test_a_refusal_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def stubborn(field: FactorGraph) -> None:
        raise InputError("not today")

    monkeypatch.setattr(METHODS, "_entries", dict(METHODS._entries))
    METHODS.register()(stubborn)
    results = compare_methods(ising_grid(2, 2), ["stubborn", "loopy_bp"])
    assert [result.status for result in results] == ["refused: not today", "converged"]
    assert results[0].as_dict()["seconds"] is None


def test_bad_comparisons() -> None:
    grid = ising_grid(2, 2)
    with pytest.raises(InputError, match="one graph at a time"):
        compare_methods(concatenate_fields([grid, grid]))
    with pytest.raises(InputError, match="unknown method 'magic'"):
        compare_methods(grid, ["magic"])
    with pytest.raises(InputError, match="'colour'"):
        compare_methods(grid, ["loopy_bp"], options={"colour": "red"})


def test_answers_give_what_was_asked_for() -> None:
    grid = ising_grid(2, 2, 0.3, 0.1)
    best = ask(grid, "map", "loopy_bp")
    assert best.assignment == [1, 1, 1, 1]
    with pytest.raises(InputError, match="not asked for"):
        _ = best.marginals
    with pytest.raises(InputError, match="not asked for"):
        _ = ask(grid, "partition").assignment


def test_names_win_over_numbers() -> None:
    names = {"variable_names": ["1", "0"], "state_names": [["1", "0"], ["a=b", "c"]]}
    field = from_factors([[0], [1]], [[0.0, 0.0], [0.0, 0.0]], **names)
    assert named_evidence(field, ["1=0"]) == {"1": "0"}
    assert infer(field, evidence=named_evidence(field, ["1=0"])).most_likely[0] == 1
