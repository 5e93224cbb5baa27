"""Every set of up to three ready features: features with as many ports as another are no special case."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
import torch

from hiddenfield.estimators import RelationalModel
from hiddenfield.fields import concatenate_fields
from hiddenfield.fields.relational import graph_scheme
from hiddenfield.fields.relational.library import FEATURES
from hiddenfield.inference import infer
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.models.relational import (
    BetheLikelihood,
    ExactLikelihood,
    enumerate_networks,
    evaluate,
    fit_relational,
    network_from_edges,
)
from hiddenfield.models.relational.phases import find_phases

SETS = [names for count in (1, 2, 3) for names in itertools.combinations(FEATURES, count)]
BINDINGS = ("merged", "ordered", "cluster")
ALIKE = ("edge", "open_chain", "triangle")

ALIKE_SETS = [names for names in SETS if len({"open_chain", "triangle", "star3"} & set(names)) > 1]
"""Three features have three ports each."""
FOUR = {"star3", "quadruplet"}
ONE_CLUSTER = [names for names in SETS if not FOUR & set(names) or FOUR | {"edge"} >= set(names)]
"""Features of three vertices, or of four, and edges: clusters of two sizes would overlap."""

sets = pytest.mark.parametrize("names", SETS, ids="-".join)
alike = pytest.mark.parametrize("names", ALIKE_SETS, ids="-".join)


def small_weights(names: tuple[str, ...]) -> list[float]:
    """So small that there is one phase."""
    return [-0.2, 0.05, -0.03][: len(names)]


@sets
def test_copies_of_a_template_pass_its_messages(names: tuple[str, ...]) -> None:
    """Each copy in a batch sends what the template sends alone, whatever shapes its groups share."""
    for bindings in BINDINGS:
        field = graph_scheme(*names).template(5, small_weights(names), bindings=bindings)
        size = field.wiring.message_state.shape[0]
        rows = torch.randn((3, size), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        batch = concatenate_fields([field] * 3)
        flat = batch.wiring.interleave(rows)
        assert torch.equal(batch.wiring.separate(flat, 3), rows)
        together = batch.wiring.separate(MessagePassing(batch).update(flat), 3)
        alone = torch.stack([MessagePassing(field).update(row) for row in rows])
        torch.testing.assert_close(together, alone)


@sets
def test_template_ground_field_and_enumeration_agree(names: tuple[str, ...]) -> None:
    scheme, theta = graph_scheme(*names), small_weights(names)
    exact = enumerate_networks(scheme, 4).log_partition(theta)[0]
    for bindings in BINDINGS:
        ground = scheme.ground(4, theta, bindings=bindings)
        # All bindings are the same distribution.
        assert infer(ground, "exact").log_partition.item() == pytest.approx(exact, abs=1e-9)
        options = {"tolerance": 1e-11, "damping": 0.3}
        small = infer(scheme.template(4, theta, bindings=bindings), "loopy_bp", **options)
        large = infer(ground, "loopy_bp", **options)
        torch.testing.assert_close(small.log_partition, large.log_partition, atol=1e-8, rtol=0)
        torch.testing.assert_close(small.marginals.expand_as(large.marginals), large.marginals)


@alike
def test_the_phase_is_what_evaluation_finds(names: tuple[str, ...]) -> None:
    scheme, theta = graph_scheme(*names), np.array(small_weights(names))
    (phase,) = find_phases(scheme, 4, theta)
    found = evaluate(scheme, 4, theta)
    assert phase.stable
    assert phase.log_partition == pytest.approx(found.log_partition.item(), abs=1e-7)
    assert list(phase.expected_counts.values()) == pytest.approx(found.expected[0].tolist(), abs=1e-5)


@pytest.mark.parametrize("names", ONE_CLUSTER, ids="-".join)
def test_one_cluster_is_exact(names: tuple[str, ...]) -> None:
    """With as many vertices as the features have arguments, a cluster holds the whole network."""
    scheme, theta = graph_scheme(*names), small_weights(names)
    size = max(3, *(len(feature.arguments) for feature in scheme.features.values()))
    found, exact = evaluate(scheme, size, theta, bindings="cluster"), enumerate_networks(scheme, size)
    np.testing.assert_allclose(found.log_partition, exact.log_partition(theta))
    np.testing.assert_allclose(found.expected, exact.expectations(theta), atol=1e-6)
    network = network_from_edges(scheme, [(i, i + 1) for i in range(size - 1)])
    values = [
        kind(scheme, [network], bindings="cluster", weights="ground")(np.array(theta))
        for kind in (BetheLikelihood, ExactLikelihood)
    ]
    assert values[0][0] == pytest.approx(values[1][0], abs=1e-8)
    np.testing.assert_allclose(values[0][1], values[1][1], atol=1e-6)


@sets
def test_learning_climbs(names: tuple[str, ...]) -> None:
    """A step along the gradient goes up, whatever the bindings."""
    scheme = graph_scheme(*names)
    network = network_from_edges(scheme, [(0, 1), (0, 2), (1, 2), (2, 3)], vertices=range(5))
    start = np.zeros(len(names))
    for bindings in ("auto", "merged", "ordered"):
        likelihood = BetheLikelihood(scheme, [network], bindings=bindings)
        first = likelihood.examine(start[None])
        step = 0.02 * first.gradient[0] / np.abs(first.gradient).max()
        found = likelihood.examine((start + step)[None])
        assert found.log_likelihood[0] > first.log_likelihood[0]
        assert found.phases is not None
        assert found.phases[0] == 1


@pytest.mark.parametrize("bindings", ["auto", "merged", "ordered"])
def test_the_main_model_is_fitted(bindings: str) -> None:
    """A maximum has the observed counts."""
    scheme = graph_scheme(*ALIKE)
    graph = networkx.florentine_families_graph()
    network = network_from_edges(scheme, list(graph.edges), vertices=list(graph))
    fit = fit_relational(scheme, network, bindings=bindings, starts=1, check=False)
    assert fit.converged
    assert evaluate(scheme, 15, fit.theta, bindings=bindings).expected[0].tolist() == pytest.approx(
        [20, 38, 3], abs=0.01
    )


def test_features_that_always_add_up_have_no_unique_maximum() -> None:
    """An open chain is a star of two less three triangles: whatever the bindings, no data tell their weights apart."""
    scheme = graph_scheme("open_chain", "triangle", "star2")
    graph = networkx.florentine_families_graph()
    network = network_from_edges(scheme, list(graph.edges), vertices=list(graph))
    for bindings in ("auto", "merged"):
        fit = fit_relational(scheme, network, bindings=bindings, starts=1, check=False)
        assert not fit.converged
        assert "open_chain" in fit.status
        assert "flat" in fit.status or "linearly dependent" in fit.status
    held = fit_relational(scheme, network, fixed={"star2": 0.0}, starts=1, check=False)
    assert "dependent" not in held.status


def test_the_estimator_knows_the_phases_of_its_fit() -> None:
    model = RelationalModel(ALIKE, starts=1).fit(networkx.florentine_families_graph())
    assert model.converged_
    assert model.fit_.bindings == "cluster"
    assert model.fit_.check is not None
    assert model.fit_.check.agrees
    assert model.phases_[0].expected_counts == pytest.approx(
        {"edge": 20, "open_chain": 38, "triangle": 3}, abs=1e-2
    )


def test_features_of_one_shape_have_two_phases() -> None:
    """Strong weights: an empty phase, a full one, and what lies between; a feature without weight adds nothing."""
    scheme, theta = graph_scheme(*ALIKE), np.array([-2.0, 0.0, 0.2])
    points = find_phases(scheme, 30, theta)
    alone = find_phases(graph_scheme("edge", "triangle"), 30, theta[[0, 2]])
    assert [point.stable for point in points] == [point.stable for point in alone]
    for point, other in zip(points, alone, strict=True):
        assert point.log_partition == pytest.approx(other.log_partition)
        assert point.marginals["exist"]["1"] == pytest.approx(other.marginals["exist"]["1"])
