"""Restricted Boltzmann machines against enumeration, published values and finite differences."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy import integrate
from scipy.special import logsumexp

from hiddenfield.data.rows import Rows
from hiddenfield.errors import ConvergenceWarning
from hiddenfield.learning.em import Fill, fit_em
from hiddenfield.models.rbm import (
    LearnedMachine,
    Machine,
    Visible,
    contrastive_divergence,
    fit_rbm,
    fit_stack,
    start_machine,
)

# Computed independently, in double precision: a machine of the lecture's size, and bars and stripes of 3 x 3.
LECTURE = {
    "W": [[0.5, -0.3], [0.2, 0.8], [-0.6, 0.1], [0.4, 0.4], [-0.2, -0.7]],
    "b_visible": [0.1, -0.2, 0.3, 0.0, -0.1],
    "a_hidden": [0.2, -0.4],
    "logZ": 5.118549296709656,
    "v": [1.0, 0.0, 1.0, 1.0, 0.0],
    "p_h_given_v": [0.6224593312018546, 0.45016600268752216],
    "logp_v": -3.1463334431479573,
}
BARS = {
    2: {
        "fixed_theta": "W=0.1*sin(1..nv*H) row-major (nv,H); b=0.05*cos(0..8); c=-0.1",
        "fixed_mean_ll": -6.2432323042299895,
        "fixed_logZ": 7.568640298243752,
        "fixed_grad_norm": 0.06644007001326419,
        "best_mean_ll_lbfgs_10_restarts": -5.127308948147828,
    },
    8: {
        "fixed_theta": "W=0.1*sin(1..nv*H) row-major (nv,H); b=0.05*cos(0..8); c=-0.1",
        "fixed_mean_ll": -6.247304545152554,
        "fixed_logZ": 11.491726867677293,
        "fixed_grad_norm": 0.09710442445582884,
        "best_mean_ll_lbfgs_10_restarts": -2.639057334425729,
    },
}


def states(count):
    return torch.tensor(list(itertools.product([0.0, 1.0], repeat=count)))


@pytest.fixture
def rbm():
    """Return the machine of the lecture: two hidden and five visible variables."""
    generator = torch.Generator().manual_seed(0)
    return Machine(*(torch.randn(shape, generator=generator) for shape in ((2, 5), (2,), (5,))))


def scores(rbm):
    """Return -E(h, v), a row for each v and a column for each h."""
    v, h = states(5), states(2)
    return (h @ rbm.hidden_bias)[None] + (v @ rbm.visible_bias)[:, None] + v @ rbm.weights.T @ h.T


def test_conditionals_free_energy_and_log_z_equal_enumeration(rbm):
    joint = scores(rbm)
    torch.testing.assert_close(rbm.free_energy(states(5)), -joint.logsumexp(dim=1))
    torch.testing.assert_close(rbm.hidden_given(states(5)), joint.softmax(dim=1) @ states(2))
    torch.testing.assert_close(rbm.visible_given(states(2)), joint.softmax(dim=0).T @ states(5))
    torch.testing.assert_close(rbm.log_partition(), joint.logsumexp(dim=(0, 1)))


def test_the_values_of_the_lectures_machine():
    known = LECTURE
    w, a, b, row = (torch.tensor(known[n], dtype=torch.float64) for n in ("W", "a_hidden", "b_visible", "v"))
    machine, row = Machine(w.T, a, b), row[None]
    assert float(machine.log_partition()) == pytest.approx(known["logZ"], abs=1e-9)
    assert machine.hidden_given(row)[0].tolist() == pytest.approx(known["p_h_given_v"])
    value = float(-machine.free_energy(row) - machine.log_partition())
    assert value == pytest.approx(known["logp_v"], abs=1e-9)
    estimate, error = machine.annealed_log_partition(torch.Generator().manual_seed(0), temperatures=200)
    assert abs(float(estimate) - known["logZ"]) < 4 * float(error) + 1e-3
    assert 0 < float(error) < 0.02


def bars(size):
    """Return the distinct images of bars, all of them across or all of them down."""
    shown = np.array(list(itertools.product([0.0, 1.0], repeat=size)))
    return np.unique(np.concatenate([np.repeat(shown, size, axis=1), np.tile(shown, (1, size))]), axis=0)


@pytest.mark.parametrize("hidden", [2, 8])
def test_bars_and_stripes_are_learned_as_well_as_is_known(hidden):
    known, data, plain = BARS[hidden], Rows(bars(3)), (np.zeros(9), np.ones(9))
    model = LearnedMachine((2,) * 9, hidden, *plain)
    order = np.sin(np.arange(1, 9 * hidden + 1)).reshape(9, hidden)
    fixed = {
        "weights": 0.1 * order.T,
        "visible_bias": 0.05 * np.cos(np.arange(9)),
        "hidden_bias": np.full(hidden, -0.1),
        "log_precision": np.empty(0),
    }
    assert model.log_likelihood(data, fixed).mean() == pytest.approx(known["fixed_mean_ll"], abs=1e-10)
    assert model.log_partition(fixed)[0] == pytest.approx(known["fixed_logZ"], abs=1e-10)
    slope = model.gradient(model.expected_statistics(data, fixed, Fill()), fixed) / len(data)
    assert np.linalg.norm(slope) == pytest.approx(known["fixed_grad_norm"], abs=1e-9)
    found = fit_em(
        model, data, acceleration="quasi_newton", restarts=2 if hidden == 8 else 10, tolerance=1e-7
    )
    assert found.best.objective / 14 == pytest.approx(known["best_mean_ll_lbfgs_10_restarts"], abs=1e-4)
    assert (np.diff(found.best.trace) > 0).all()


KINDS = st.lists(st.sampled_from([0, 2, 3]), min_size=1, max_size=3)


@settings(max_examples=20)
@given(KINDS, st.integers(1, 3), st.integers(0, 1000))
def test_rows_with_holes_are_summed_out(kinds, hidden, seed):
    """Against sums over symbols and quadrature over numbers, of the joint density that the page of the model has."""
    random = np.random.default_rng(seed)
    model = LearnedMachine(tuple(kinds), hidden, np.zeros(len(kinds)), np.ones(len(kinds)))
    width = len(model.visible.owner)
    numbers = model.visible.numbers.numpy()
    w, a, b = random.normal(size=(hidden, width)), random.normal(size=hidden), random.normal(size=width)
    logs = 0.5 * random.normal(size=numbers.sum())
    parameters = {"weights": w, "hidden_bias": a, "visible_bias": b, "log_precision": logs}
    axes = [np.linspace(-15, 15, 151) if count == 0 else np.arange(count) for count in kinds]
    cells = np.array(list(itertools.product(*axes)), float)
    units, _ = model.encode(cells)
    units = units.numpy()
    h = np.array(list(itertools.product([0, 1], repeat=hidden)))
    joint = (
        units @ w.T @ h.T
        + h @ a
        + (units @ b)[:, None]
        - (units[:, numbers] ** 2 @ np.exp(logs))[:, None] / 2
    )
    size = [len(axis) for axis in axes]
    density = logsumexp(joint, axis=1)
    table = np.exp(density - density.max()).reshape(size)

    def total(values, lost):
        for column in sorted(lost, reverse=True):
            axis = axes[column]
            values = (
                integrate.simpson(values, x=axis, axis=column) if kinds[column] == 0 else values.sum(column)
            )
        return values

    everything = total(table, range(len(kinds)))
    if numbers.sum() > 1:
        return  # the grid is too coarse to say more
    place = random.integers(len(cells))
    row = cells[place].copy()
    lost = [column for column in range(len(kinds)) if random.random() < 0.5]
    row[lost] = np.nan
    keep = tuple(0 if c in lost else slice(i, i + 1) for c, i in enumerate(np.unravel_index(place, size)))
    keep = tuple(slice(None) if c in lost else part for c, part in enumerate(keep))
    expected = float(np.log(total(table[keep], lost).reshape(-1)[0] / everything))
    data = Rows(row[None])
    assert model.log_likelihood(data, parameters)[0] == pytest.approx(expected, abs=1e-3)
    chained = LearnedMachine(tuple(kinds), hidden, np.zeros(len(kinds)), np.ones(len(kinds)), most_exact=0)
    assert chained.log_likelihood(data, parameters)[0] == pytest.approx(expected, abs=0.6)


@pytest.mark.parametrize("kinds", [(2, 3, 0), (0, 0), (4,)])
def test_slopes_are_those_of_the_objective_and_draws_have_the_expectations(kinds):
    random = np.random.default_rng(0)
    model = LearnedMachine(kinds, 2, np.zeros(len(kinds)), np.ones(len(kinds)), l2=0.3)
    values = np.column_stack(
        [random.normal(size=20) if k == 0 else random.integers(k, size=20) for k in kinds]
    )
    values = np.where(random.random(values.shape) < 0.3, np.nan, values)
    data = Rows(values, random.uniform(0.5, 2, 20))
    start = model.start(data, "auto", random)
    at = model.as_vector(start) + 0.3 * random.normal(size=len(model.as_vector(start)))

    def objective(vector):
        given_ = model.from_vector(vector, start)
        return float(model.expected_statistics(data, given_, Fill())["objective"]) + model.log_prior(given_)

    here = model.from_vector(at, start)
    slope = model.gradient(model.expected_statistics(data, here, Fill()), here)
    for i, row in enumerate(1e-5 * np.eye(len(at))):
        assert slope[i] == pytest.approx((objective(at + row) - objective(at - row)) / 2e-5, abs=1e-5)
    for each in (model, LearnedMachine(kinds, 2, model.centre, model.spread, most_exact=0)):
        drawn, _ = each.sample(4000, here, np.random.default_rng(1))
        found = each.encode(drawn)[0].mean(dim=0).numpy()
        np.testing.assert_allclose(found, model.expectations(here)["visible_bias"], atol=0.08)


@pytest.mark.parametrize("fill", ["expectation", "mode", "sample"])
def test_turns_of_em_climb(fill):
    model = LearnedMachine((2,) * 4, 2, np.zeros(4), np.ones(4), l2=0.1)
    values = np.random.default_rng(0).integers(2, size=(30, 4)).astype(float)
    values[3, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = fit_em(model, Rows(values), fill=fill, max_iterations=8, tolerance=1e-12)
    assert fill == "sample" or (np.diff(found.best.trace) > -1e-7).all()


@pytest.mark.parametrize("persistent", [False, True])
def test_long_chains_give_the_gradient_of_the_likelihood(rbm, persistent):
    rows = states(5)[[3, 8, 8, 20]]
    parts = [part.clone().requires_grad_() for part in rbm.parts]
    tracked = Machine(*parts)
    (-tracked.free_energy(rows).mean() - (-tracked.free_energy(states(5))).logsumexp(dim=0)).backward()
    many = rows.repeat(10_000, 1)
    chains = torch.zeros(40_000, 5) if persistent else None
    found, _ = contrastive_divergence(
        rbm, many, 30, chains=chains, generator=torch.Generator().manual_seed(1)
    )
    for estimate, part in zip(found, parts, strict=False):
        torch.testing.assert_close(estimate, part.grad, atol=0.02, rtol=0)


def test_learning_raises_the_likelihood_and_repeats():
    rows = torch.tensor([[1.0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]).repeat(20, 1)

    def fitted(epochs, persistent=False):
        generator = torch.Generator().manual_seed(0)
        machine = start_machine((rows.sum(0) + 0.5) / 41, 3, generator=generator)
        options = {"epochs": epochs, "steps": 2, "learning_rate": 0.05, "persistent": persistent}
        return fit_rbm(lambda _: [rows], machine, generator=generator, **options)

    def likelihood(rbm):
        return float(-rbm.free_energy(rows).mean() - rbm.log_partition())

    assert likelihood(fitted(0)) < -3.0
    assert likelihood(fitted(200)) > -1.0  # the rows' own entropy is log 2
    assert not torch.equal(fitted(5).weights, fitted(5, persistent=True).weights)
    assert torch.equal(fitted(5).weights, fitted(5).weights)
    stack = fit_stack(lambda: [rows], [3, 2], epochs=5, generator=torch.Generator().manual_seed(0))
    assert [tuple(machine.weights.shape) for machine in stack] == [(3, 6), (2, 3)]


def test_symbols_are_drawn_with_their_probabilities():
    visible = Visible.of([3, 2, 0])
    inputs, precision = torch.tensor([[1.0, -0.5, 0.3, 2.0]]), torch.tensor([4.0])
    _, mean = visible.log_sums(inputs, precision)
    drawn = visible.draw(inputs.expand(40_000, 4), precision, torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn.mean(dim=0), mean[0], atol=0.02, rtol=0)
    assert float(drawn[:, 3].var()) == pytest.approx(0.25, rel=0.05)
    assert set(map(tuple, drawn[:, :2].tolist())) == {(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)}
