"""What hard zeros exclude: sound pruning, and a search that finds an assignment or proves that there is none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from hiddenfield.fields import FactorGraph, concatenate_fields, from_factors
from hiddenfield.fields.hard_zeros import FOUND, IMPOSSIBLE, feasible_assignments, live_states
from tests.fields.strategies import field_parts, fields
from tests.inference.oracle import enumerate_field


@given(fields(most_variables=5))
def test_dead_states_have_no_probability(field: FactorGraph) -> None:
    truth = np.concatenate(enumerate_field(field).marginals)
    assert (truth[~live_states(field)] == 0).all()


@given(field_parts(zeros=True, most_factors=10), st.booleans())
def test_feasible_search_is_sound_and_complete_on_small_fields(parts: Any, break_it: bool) -> None:
    cards, scopes, tables = parts
    if break_it:
        tables = [np.where(np.random.default_rng(0).random(t.shape) < 0.5, -np.inf, t) for t in tables]
    field = from_factors(scopes, tables, cards)
    possible = enumerate_field(field).best > -math.inf
    assignments, found = feasible_assignments(field, 2)
    if bool((field.log_constant > -math.inf).all()):
        assert found.item() == (FOUND if possible else IMPOSSIBLE)
    if possible:
        assert (field.log_value(assignments) > -math.inf).all()


def test_a_contradiction_stays_in_its_graph() -> None:
    same = np.where(np.eye(2) > 0, 0.0, -np.inf)
    chain = from_factors([[0, 1], [1, 2]], [same, same])
    batch = concatenate_fields([chain.given({0: 0, 2: 1}), chain.given({0: 1})])
    _, found = feasible_assignments(batch)
    assert found.tolist() == [IMPOSSIBLE, FOUND]
    assert live_states(batch)[6:].tolist() == [False, True] * 3
