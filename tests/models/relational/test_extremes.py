"""Domains and numbers at the edge of sense: one vertex, a billion, and what is no number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.relational import RelationalScheme, graph_scheme
from hiddenfield.inference import infer
from hiddenfield.models.relational import (
    Network,
    count_features,
    enumerate_networks,
    evaluate,
    fit_relational,
    goodness_of_fit,
    landscape,
    network_from_edges,
    observations,
    predict_pairs,
    read_network,
    sample_networks,
)
from hiddenfield.models.relational.phases import find_phases
from tests.cli.calling import call

SCHEME, THETA = graph_scheme("edge", "triangle"), [-2.0, 0.1]
METHODS = ("bethe", "bethe_observed", "exact", "pseudo_likelihood", "monte_carlo", "contrastive_divergence")
BILLION = 10**9
FILE = 'types = ["v"]\n[[attributes]]\nname = "exist"\nof = ["v", "v"]\n[[features]]\nlibrary = "edge"\n'


def with_covariate(kind: str = "nodecov") -> RelationalScheme:
    scheme = graph_scheme("edge")
    scheme.term(kind, covariate="wealth")
    return scheme


def network_of(size: Any, **further: Any) -> Network:
    return Network({"vertex": size}, {"exist": np.zeros((0, 2), dtype=np.int64)}, **further)


# -- one vertex -------------------------------------------------------------------------------------------


def test_one_vertex_has_one_network() -> None:
    one = network_of(1)
    assert repr(one) == "Network(1 vertex; exist: 0 of 0)"
    assert count_features(SCHEME, one).tolist() == [0.0, 0.0]
    counts = enumerate_networks(SCHEME, 1)
    assert counts.log_partition(THETA) == 0
    assert counts.counts.tolist() == [1]
    assert infer(SCHEME.template(1, THETA)).log_partition == 0
    assert infer(SCHEME.ground(1, THETA)).log_partition == 0


ONE: dict[str, tuple[Callable[[Network], Any], str]] = {
    "sample": (lambda one: sample_networks(SCHEME, 1, THETA), "no pair to draw"),
    "goodness": (lambda one: goodness_of_fit(SCHEME, one, THETA), "no pair to draw"),
    "evaluate": (lambda one: evaluate(SCHEME, 1, THETA), "1 vertex is too few"),
    "phases": (lambda one: find_phases(SCHEME, 1, np.array(THETA)), "1 vertex is too few"),
    "predict": (lambda one: predict_pairs(SCHEME, one, THETA), "no unknown pairs"),
    "landscape": (lambda one: landscape(SCHEME, one, ("edge", -1, 1), ("triangle", -1, 1)), "no pairs"),
    **{
        m: (lambda one, m=m: fit_relational(SCHEME, one, method=m), "no pairs to learn from") for m in METHODS
    },
}


@pytest.mark.parametrize("name", ONE)
def test_one_vertex_is_told(name: str) -> None:
    ask, message = ONE[name]
    with pytest.raises(InputError, match=message):
        ask(network_of(1))


# -- a billion vertices -----------------------------------------------------------------------------------


def test_a_billion_vertices_have_a_template() -> None:
    status = infer(SCHEME.template(BILLION, [-20.0, 0.5])).status
    assert status.startswith("converged; 2 phases, of log Z 8.33333e+25")
    (phase,) = find_phases(SCHEME, BILLION, np.array([-20.0, 1e-9]))
    # All but independent: the logit of -20 for each pair.
    assert phase.marginals["exist"]["1"] == pytest.approx(1 / (1 + math.exp(20)), rel=1e-3)
    assert evaluate(SCHEME, BILLION, [-20.0, 1e-9]).phases.tolist() == [1]
    # Not lost in the rounding of 1.7e26 triangles.
    alone = BILLION * (BILLION - 1) / 2 * math.log1p(math.exp(-20))
    assert phase.log_partition == pytest.approx(alone, rel=1e-6)
    assert infer(SCHEME.template(BILLION, [-20.0, 0.0])).log_partition.item() == pytest.approx(
        alone, rel=1e-6
    )


LARGE: dict[str, Callable[[Any], Any]] = {
    "network": lambda path: network_of(BILLION),
    "from edges": lambda path: network_from_edges(SCHEME, [(0, 1)], vertices=range(BILLION)),
    "read": lambda path: read_network(SCHEME, path, size=BILLION),
    "sample": lambda path: sample_networks(SCHEME, BILLION, THETA),
    "enumerate": lambda path: enumerate_networks(SCHEME, BILLION),
    "ground": lambda path: SCHEME.ground(BILLION, THETA),
    "goodness": lambda path: goodness_of_fit(SCHEME, network_of(10**7), THETA),
    "unknown pairs": lambda path: fit_relational(
        SCHEME, network_of(10**7, unknown={"exist": np.array([[0, 1]])}), starts=1
    ),
    **{
        method: lambda path, method=method: fit_relational(SCHEME, network_of(10**7), method=method)
        for method in ("exact", "pseudo_likelihood", "monte_carlo", "contrastive_divergence")
    },
}


@pytest.mark.parametrize("name", LARGE)
def test_what_no_computer_holds_is_refused_at_once(name: str, tmp_path: Any) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("a,b\n")
    with pytest.raises((TooLargeError, InputError), match=r"too large|at most|would take|would have"):
        LARGE[name](path)


# -- no numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [math.nan, math.inf, 1.5, "x", None, 0, -1, True])
def test_sizes_are_whole_numbers(size: Any) -> None:
    for ask in (
        lambda: SCHEME.template(size, THETA),
        lambda: SCHEME.ground(size, THETA),
        lambda: SCHEME.check_sizes({"vertex": size}),
    ):
        with pytest.raises(InputError, match=r"whole number|at least one entity"):
            ask()


UNKNOWN = network_from_edges(SCHEME, [(0, 1), (1, 2)], unknown=[(0, 2)])
WEIGHED: dict[str, Callable[[Any], Any]] = {
    "template": lambda theta: SCHEME.template(4, theta),
    "ground": lambda theta: SCHEME.ground(4, theta),
    "evaluate": lambda theta: evaluate(SCHEME, 4, theta),
    "phases": lambda theta: find_phases(SCHEME, 4, theta),
    "sample": lambda theta: sample_networks(SCHEME, 4, theta),
    "goodness": lambda theta: goodness_of_fit(SCHEME, network_of(4), theta),
    "predict": lambda theta: predict_pairs(SCHEME, UNKNOWN, theta),
    "enumerate": lambda theta: enumerate_networks(SCHEME, 4).solve(theta),
}


@pytest.mark.parametrize("name", WEIGHED)
def test_weights_are_one_finite_number_for_each_feature(name: str) -> None:
    for theta, message in (
        (["-2", "x"], "weights must be finite numbers, got"),
        ({"edge": "x", "triangle": 0.1}, "weights must be finite numbers, got"),
        (None, "weights must be finite numbers, got None"),
        ([math.nan, 0.1], "weights must be finite numbers"),
        ([-2.0], "one weight for each of the features edge, triangle"),
        ([-2.0, 0.1, -2.0, 0.2], "one weight for each of the features edge, triangle"),
        ({"edge": -2.0}, "no weight for the feature 'triangle'"),
        ({"edge": -2.0, "triangel": 0.1}, "did you mean 'triangle'"),
    ):
        with pytest.raises(InputError, match=message):
            WEIGHED[name](theta)
    WEIGHED[name](dict(zip(SCHEME.features, THETA, strict=True)))


@pytest.mark.parametrize("value", ["rich", None, [1]])
def test_a_covariate_is_a_number(value: Any) -> None:
    with pytest.raises(InputError, match=r"the covariate 'wealth' of 'Medici' must be a finite number, got"):
        observations._finite("wealth", "Medici", value)


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_covariates_are_finite_numbers(value: float) -> None:
    message = r"the covariate 'wealth' of .* must be a finite number, got "
    with pytest.raises(InputError, match=message + repr(value)):
        network_from_edges(with_covariate(), [("a", "b")], covariates={"wealth": {"a": value, "b": 1}})
    with pytest.raises(InputError, match=message + repr(value)):
        network_from_edges(
            with_covariate("edgecov"), [("a", "b")], covariates={"wealth": {("a", "b"): value}}
        )


@pytest.mark.parametrize("numbers", [[math.nan, 1.0, 2.0], [1.0, 2.0]])
def test_covariates_of_a_network_are_checked(numbers: list[float]) -> None:
    """Also where a network is made of arrays: NaN gave a fit at zero, and samples that took no notice."""
    scheme = with_covariate()
    network = network_of(3, covariates={"wealth": np.array(numbers)})
    for ask in (
        lambda: fit_relational(scheme, network, method="pseudo_likelihood"),
        lambda: fit_relational(scheme, network, method="monte_carlo"),
        lambda: sample_networks(scheme, 3, [0.0, 0.0], network=network),
        lambda: count_features(scheme, network),
    ):
        with pytest.raises(InputError, match=r"'wealth' must be finite numbers of all vertices.*\(3,\)"):
            ask()


@pytest.mark.parametrize("value", [math.nan, 1.5, None, 2])
def test_attributes_have_one_of_their_values(value: Any) -> None:
    with pytest.raises(InputError, match=f"'color' of 'a' is {value!r}; it has 2 values"):
        network_from_edges(graph_scheme("edge", colors=2), [("a", "b")], values={"color": {"a": value}})


@pytest.mark.parametrize("options", [{"burn_in": math.nan}, {"burn_in": math.inf}, {"thin": math.nan}])
def test_lengths_of_chains_are_numbers(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected samples and burn_in of at least 0"):
        sample_networks(SCHEME, 5, THETA, **options)


# -- on the command line ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["infer", "--size", "1", "-t", "edge=-1"], "1 v is too few"),
        (["infer", "--size", "nan", "-t", "edge=-1"], "--size expects a number of vertices"),
        (["sample", "--size", "1", "-t", "edge=-1"], "there is no pair to draw"),
        (
            ["sample", "--size", str(BILLION), "-t", "edge=-1"],
            "1,000,000,000 vertices is too large to be held",
        ),
        (["learn", "--network", "edges.csv", "--size", str(BILLION)], "too large to be held"),
        (["learn", "--network", "one.csv", "--vertices", "vertices.csv"], "no pairs to learn from"),
    ],
)
def test_the_command_line_says_so_in_one_line(
    capsys: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("scheme.toml", FILE),
        ("edges.csv", "a,b\n"),
        ("one.csv", "#\n"),
        ("vertices.csv", "name\na\n"),
    ):
        (tmp_path / name).write_text(text)
    code, out, err = call(capsys, "relational", words[0], "scheme.toml", *words[1:])
    assert (code, out) == (1, "")
    assert message in " ".join(err.split())


def test_the_command_line_infers_for_a_billion(capsys: Any, tmp_path: Any) -> None:
    (tmp_path / "scheme.toml").write_text(FILE)
    code, out, _ = call(
        capsys, "relational", "infer", tmp_path / "scheme.toml", "--size", BILLION, "-t", "edge=-30"
    )
    assert code == 0
    assert "one phase" in out
