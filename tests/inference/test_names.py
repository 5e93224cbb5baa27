"""Answers by name, joint distributions, and errors that say what to do instead of foreign ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies

import hiddenfield as hf
from hiddenfield.errors import InputError, MissingDependencyError, TooLargeError
from hiddenfield.fields import FactorGraph
from hiddenfield.inference import joint, map_state, marginal_map, sample
from hiddenfield.inference.posterior import MAP_METHODS
from tests.fields.strategies import fields
from tests.inference.oracle import enumerate_field

NETWORK = Path(__file__).parents[2] / "docs" / "examples" / "sprinkler.bif"


@pytest.fixture(scope="module")
def network() -> FactorGraph:
    return hf.fields.read(NETWORK)


def test_marginals_by_name(network: FactorGraph) -> None:
    posterior = hf.infer(network, evidence={"grass": "wet"})
    rain = posterior["rain"]
    assert list(rain) == ["no", "yes"]
    assert rain["yes"] == pytest.approx(float(posterior.marginals[2, 1]))
    assert posterior[2] == rain
    assert posterior.to_dict()["grass"] == {"dry": 0.0, "wet": 1.0}
    grid = hf.infer(hf.fields.ising_grid(2, 2, 0.5, 0.1))
    torch.testing.assert_close(grid[3], grid.marginals[3])
    assert grid.to_dict()[3] == grid.marginals[3].tolist()
    with pytest.raises(
        InputError, match=r"no variable is called 'rainn' \(did you mean 'rain'\?\); there are: cloudy"
    ):
        _ = posterior["rainn"]


def test_names_of_a_batch(network: FactorGraph) -> None:
    posterior = hf.infer(hf.fields.concatenate_fields([network, network.given({"grass": "wet"})]))
    assert posterior[7] == {"dry": 0.0, "wet": 1.0}
    assert list(posterior.to_dict()) == list(range(8))
    with pytest.raises(InputError, match="several variables of the batch are called 'rain'"):
        _ = posterior["rain"]
    frame = posterior.to_frame()
    assert frame["graph"].tolist() == [0] * 8 + [1] * 8
    assert frame["variable"].tolist()[::2] == [*network.variable_names] * 2


def test_frames(network: FactorGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    posterior = hf.infer(network)
    frame = posterior.to_frame()
    assert list(frame.columns) == ["variable", "state", "probability"]
    row = frame[(frame.variable == "rain") & (frame.state == "yes")]
    assert row.probability.item() == pytest.approx(0.5)
    both = posterior.joint(["rain", "sprinkler"]).to_frame()
    assert list(both.columns) == ["rain", "sprinkler", "probability"]
    assert both.probability.sum() == pytest.approx(1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match="hiddenfield\\[pandas\\]"):
        posterior.to_frame()


@pytest.mark.parametrize("method", ["auto", "exact", "loopy_bp", "tree_reweighted"])
def test_assignments_by_name(network: FactorGraph, method: str) -> None:
    assert method in MAP_METHODS
    best = map_state(network, method)
    assert best.to_dict() == {"cloudy": "yes", "sprinkler": "off", "rain": "yes", "grass": "wet"}
    assert best["rain"] == "yes"
    assert repr(best).startswith(f"MapState(log value {float(best.log_value):.6g} ({best.guarantee}); ")
    assert "rain=yes" in repr(best)
    grid = map_state(hf.fields.ising_grid(3, 3, 0.5, 0.1), method)
    assert (grid[4], repr(grid).endswith("5=1, ... (9 variables))")) == (1, True)


def test_marginal_map_by_name(network: FactorGraph) -> None:
    best = marginal_map(network, ["rain"], evidence={"grass": "wet"})
    assert best.log_value == marginal_map(network.given({"grass": "wet"}), ["rain"]).log_value
    assert best.to_dict() == {"rain": "yes"}
    assert (sample(network, 9, evidence={"grass": "wet"})[:, network.index_of("grass")] == 1).all()
    with pytest.raises(InputError, match="was summed over"):
        _ = best["cloudy"]
    with pytest.raises(InputError, match="did you mean 'rain'"):
        marginal_map(network, ["Rain"])
    with pytest.raises(InputError, match=r"write \['rain'\]"):
        marginal_map(network, "rain")


def test_automatic_assignments_keep_their_promise() -> None:
    draw = np.random.default_rng(0)
    field = hf.fields.ising_grid(
        4, 4, lambda size: draw.normal(size=size), lambda size: draw.normal(size=size)
    )
    exact = map_state(field, "exact")
    found = map_state(field, "auto", memory_limit=10.0)
    assert found.note.startswith("chosen by auto: exact inference needs")
    assert found.upper_bound is not None
    assert float(found.log_value) <= float(exact.log_value) + 1e-9 <= float(found.upper_bound) + 1e-6
    assert map_state(field, "auto").guarantee == "exact"


@given(fields(most_variables=5, most_states=3), strategies.data())
@settings(max_examples=40)
def test_joint_distributions_are_those_of_enumeration(
    field: FactorGraph, data: strategies.DataObject
) -> None:
    chosen = data.draw(
        strategies.lists(
            strategies.sampled_from(range(field.num_variables)), min_size=1, max_size=3, unique=True
        )
    )
    cards = field.cardinalities.tolist()
    states = torch.cartesian_prod(*(torch.arange(card) for card in cards)).reshape(-1, len(cards))
    values = field.log_value(states)[:, 0].exp()
    expected = torch.zeros([cards[v] for v in chosen], dtype=torch.float64)
    expected.index_put_(tuple(states[:, chosen].T), values, accumulate=True)
    if not np.isfinite(enumerate_field(field).log_partition):
        with pytest.raises(InputError, match="contradiction"):
            joint(field, chosen)
        return
    found = joint(field, chosen)
    torch.testing.assert_close(found.probabilities, expected / expected.sum())


def test_joint_distributions_by_name(network: FactorGraph) -> None:
    posterior = hf.infer(network, "loopy_bp", evidence={"grass": "wet"})
    both = posterior.joint(["rain", "cloudy"])
    assert both["yes", "no"] == pytest.approx(float(both.probabilities[1, 0]))
    assert sum(both.to_dict().values()) == pytest.approx(1)
    exact = hf.infer(network, "exact", evidence={"grass": "wet"})
    np.testing.assert_allclose(both.probabilities.sum(1), exact.marginals[2])
    assert joint(network, ["grass"], evidence={"rain": "yes"}).to_dict()["wet",] == pytest.approx(
        0.9162, abs=0.01
    )
    grid = hf.fields.ising_grid(8, 8)
    with pytest.raises(TooLargeError, match="ask for fewer variables"):
        joint(grid, range(40))
    for variables, text in (([], "got none"), ([0, 0], "named twice"), ([99], "no variable 99")):
        with pytest.raises(InputError, match=text):
            joint(grid, variables)
    with pytest.raises(InputError, match="several graphs"):
        joint(hf.fields.concatenate_fields([network, network]), [0, 5])
    with pytest.raises(InputError, match="one state for each of the 2"):
        _ = both["yes"]


@pytest.mark.bad_input
def test_errors_say_what_to_do(network: FactorGraph) -> None:
    def fails(text: str, call: object, *arguments: object, **options: object) -> None:
        with pytest.raises(InputError, match=text):
            call(*arguments, **options)

    for call in (hf.infer, map_state, marginal_map, joint, hf.inference.sample, hf.inference.log_partition):
        more = () if call in (hf.infer, map_state, hf.inference.log_partition) else ([0],)
        more = (3,) if call is hf.inference.sample else more
        fails(r"takes a field, got the path 'm.bif': read it with hf.fields.read", call, "m.bif", *more)
        fails(r"takes one field, got 2: join them", call, [network, network], *more)
        fails(r"takes a field, got dict", call, {"a": 1}, *more)
    fails(
        "damping is an option of loopy_bp, .*; name the method, as in method='loopy_bp'",
        hf.infer,
        network,
        damping=0.5,
    )
    fails("unknown option of auto 'time_limt' .did you mean 'time_limit'", hf.infer, network, time_limt=3)
    fails("evidence goes by name", hf.infer, network, {"rain": "yes"})
    fails("did you mean 'rain'", hf.infer, network, evidence={"rian": "yes"})
    fails("did you mean 'yes'", hf.infer, network, evidence={"rain": "yess"})
    fails("evidence maps variables to states", hf.infer, network, evidence=["rain"])
    fails("a state or a vector of log weights, got None", hf.infer, network, evidence={"rain": None})
    fails("a state or a vector of log weights, got {}", hf.infer, network, evidence={"rain": {}})
    fails("has the states 0 to 1, not True", hf.infer, network, evidence={"rain": True})
    fails("one number for each of the 8 states", network.with_potentials, torch.zeros(3), [])
    fails("for each of the 2 groups, got 1", network.with_potentials, network.log_unary, [torch.zeros(1)])
    tables = [group.log_tables for group in network.groups]
    fails("group 0 have shape", network.with_potentials, network.log_unary, [tables[0][:1], tables[1]])
    fails("devices: cpu", network.to, "nowhere")
    if not torch.cuda.is_available():
        fails("there is no CUDA device here", network.to, "cuda")
        fails("there is no CUDA device here", network.to, device="cuda")
    fails("floating-point", network.to, torch.int64)
    assert network.to(dtype=torch.float32).dtype == torch.float32


@pytest.mark.bad_input
@pytest.mark.parametrize("wrong", [torch.zeros(4), [0, 1, 0, 1]])
def test_an_assignment_holds_whole_numbers(network: FactorGraph, wrong: object) -> None:
    with pytest.raises(InputError, match=r"a tensor of whole numbers, .*; got (torch.float32|list)"):
        hf.inference.log_likelihood(network, wrong)
