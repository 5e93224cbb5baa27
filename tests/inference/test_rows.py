"""Exact inference for rows of evidence against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hiddenfield.inference.cliques.rows import RowInference


@st.composite
def problems(draw):
    """Draw scopes, sizes, tables (some entries 0) and rows with holes."""
    count = draw(st.integers(1, 5))
    states = np.array(draw(st.lists(st.integers(1, 3), min_size=count, max_size=count)))
    scope = st.lists(st.integers(0, count - 1), min_size=1, max_size=3, unique=True)
    scopes = draw(st.lists(scope, min_size=1, max_size=5))
    scopes += [[v] for v in range(count) if not any(v in own for own in scopes)]
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    tables = rng.random(sum(int(np.prod(states[own])) for own in scopes))
    tables[rng.random(len(tables)) < draw(st.sampled_from([0.0, 0.2]))] = 0
    codes = rng.integers(0, states, (4, count))
    codes[rng.random(codes.shape) < draw(st.sampled_from([0.3, 0.6, 1.0]))] = -1
    return scopes, states, tables, codes.astype(np.int32), rng


def enumerate_row(scopes, states, tables, row):
    """Return all completions of a row, their values, and the entries that each reads."""
    found = []
    for x in itertools.product(
        *(range(n) if code < 0 else [code] for code, n in zip(row, states, strict=True))
    ):
        begin, value, entries = 0, 1.0, []
        for scope in scopes:
            shape = tuple(states[scope])
            entries.append(begin + int(np.ravel_multi_index([x[v] for v in scope], shape)))
            value *= tables[entries[-1]]
            begin += int(np.prod(shape))
        found.append((x, value, entries))
    return found


@settings(max_examples=60, deadline=None)
@given(problems())
def test_all_answers_are_those_of_enumeration(problem):
    scopes, states, tables, codes, rng = problem
    inference, weights = RowInference(scopes, states), rng.uniform(0.5, 2, len(codes))
    values, counts = inference.expected_counts(tables, codes, weights)
    marginals = inference.marginals(tables, codes)
    best, filled = inference.completed(tables, codes)
    _, drawn = inference.completed(tables, codes, rng)
    expected, ptr = np.zeros(len(tables)), np.concatenate([[0], np.cumsum(states)])
    for n, row in enumerate(codes):
        listed = enumerate_row(scopes, states, tables, row)
        total = sum(value for _, value, _ in listed)
        with np.errstate(divide="ignore"):
            assert values[n] == pytest.approx(np.log(total), abs=1e-9)
        if total == 0:
            np.testing.assert_array_equal(filled[n], row)
            continue
        own = np.zeros(ptr[-1])
        for x, value, entries in listed:
            np.add.at(expected, entries, weights[n] * value / total)
            own[ptr[:-1] + np.array(x)] += value / total
        np.testing.assert_allclose(marginals[n], own, atol=1e-12)
        top = max(value for _, value, _ in listed)
        reached = {x: value for x, value, _ in listed}
        assert reached[tuple(filled[n].tolist())] == pytest.approx(top)
        assert best[n] == pytest.approx(np.log(top), abs=1e-9)
        assert reached[tuple(drawn[n].tolist())] > 0
    np.testing.assert_allclose(counts, expected, atol=1e-12)
    np.testing.assert_allclose(inference.log_likelihood(tables, codes), values)


def test_draws_have_the_posterior_distribution():
    rng = np.random.default_rng(0)
    scopes, states = [[0, 1], [1, 2], [2, 3], [3, 0]], np.array([2, 3, 2, 2])
    tables = rng.random(6 + 6 + 4 + 4)
    row = np.array([-1, -1, 1, -1], np.int32)
    _, drawn = RowInference(scopes, states).completed(tables, np.tile(row, (20_000, 1)), rng)
    listed = enumerate_row(scopes, states, tables, row)
    total = sum(value for _, value, _ in listed)
    for x, value, _ in listed:
        share = (drawn == x).all(axis=1).mean()
        assert share == pytest.approx(value / total, abs=5 * np.sqrt(value / total / 20_000))


def test_costs_follow_what_a_row_lacks():
    chain = RowInference([[v, v + 1] for v in range(30)], np.full(31, 4))
    holes = np.zeros((2, 31), np.int32)
    assert chain.costs(holes)[0] == pytest.approx(2 * chain.tree.num_cliques)
    holes[1, 10] = -1
    assert chain.costs(holes)[0] - 2 * chain.tree.num_cliques == pytest.approx(6)
    long = RowInference([[v, v + 1] for v in range(3000)], np.full(3001, 2))
    tables = np.tile([1e-3, 2e-3, 3e-3, 4e-3], 3000)  # products that no double holds
    assert np.isfinite(long.log_likelihood(tables, np.full((1, 3001), -1, np.int32))[0])


def test_threads_do_not_change_a_bit():
    import torch

    rng = np.random.default_rng(1)
    chain = RowInference([[v, v + 1] for v in range(20)], np.full(21, 3))
    codes = rng.integers(-1, 3, (2000, 21)).astype(np.int32)
    tables, before = rng.random(180), torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(chain.expected_counts(tables, codes, np.ones(2000)))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
