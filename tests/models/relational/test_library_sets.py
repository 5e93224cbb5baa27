"""Every set of up to three ready features: features with as many ports as another are no special case."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
import torch

from hiddenfield.estimators import RelationalModel
from hiddenfield.fields import concatenate_fields
from hiddenfield.fields.relational import FEATURES, RelationalScheme, graph_scheme
from hiddenfield.inference import infer
from hiddenfield.inference.loopy_bp import loopy_bp
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.models.relational import (
    BetheLikelihood,
    ExactLikelihood,
    Network,
    enumerate_networks,
    evaluate,
    fit_relational,
    network_from_edges,
)
from hiddenfield.models.relational.learning import dependent_features
from hiddenfield.models.relational.phases import find_phases

SETS = [names for count in (1, 2, 3) for names in itertools.combinations(FEATURES, count)]
BINDINGS = ("merged", "ordered", "cluster")
ALIKE = ("edge", "open_chain", "triangle")

ALIKE_SETS = [names for names in SETS if len(names) > 1 and {"open_chain", "triangle", "star3"} >= set(names)]
"""Three features have three ports each."""
FOUR = {"star3", "quadruplet"}
ONE_CLUSTER = [names for names in SETS if not FOUR & set(names) or FOUR | {"edge"} >= set(names)]
"""Features of three vertices, or of four, and edges: clusters of two sizes would overlap."""

sets = pytest.mark.parametrize("names", SETS, ids="-".join)


def small_weights(names: tuple[str, ...]) -> list[float]:
    """So small that there is one phase."""
    return [-0.2, 0.05, -0.03][: len(names)]


def by_turns(names: tuple[str, ...]) -> str:
    """Bindings that take turns over the sets, so that each feature meets all of them."""
    return BINDINGS[SETS.index(names) % len(BINDINGS)]


@sets
def test_copies_of_a_template_pass_its_messages(names: tuple[str, ...]) -> None:
    """Each copy in a batch sends what the template sends alone, whatever shapes its groups share."""
    for bindings in BINDINGS:
        field = graph_scheme(*names).template(5, small_weights(names), bindings=bindings)
        size = field.wiring.message_state.shape[0]
        rows = torch.randn((2, size), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        batch, passing = concatenate_fields([field] * 2), MessagePassing(field)
        flat = batch.wiring.interleave(rows)
        assert torch.equal(batch.wiring.separate(flat, 2), rows)
        together = batch.wiring.separate(MessagePassing(batch).update(flat), 2)
        torch.testing.assert_close(together, torch.stack([passing.update(row) for row in rows]))


@sets
def test_template_ground_field_and_enumeration_agree(names: tuple[str, ...]) -> None:
    """All bindings are the same distribution, and the template says what its ground field says."""
    scheme, theta = graph_scheme(*names), small_weights(names)
    chosen = torch.cartesian_prod(*[torch.arange(2)] * 6)[[0, 11, 37, 63]]
    grounds = {bindings: scheme.ground(4, theta, bindings=bindings) for bindings in BINDINGS}
    values = [[field.log_value(state).item() for state in chosen] for field in grounds.values()]
    np.testing.assert_allclose(values, [values[0]] * len(BINDINGS), atol=1e-12)
    bindings = by_turns(names)
    options = {"damping": 0.3, "tolerance": 1e-10}
    small = loopy_bp(scheme.template(4, theta, bindings=bindings), **options)
    large = loopy_bp(grounds[bindings], **options)
    torch.testing.assert_close(small.log_partition, large.log_partition, atol=1e-8, rtol=0)
    torch.testing.assert_close(small.marginals.expand_as(large.marginals), large.marginals)
    if names not in ONE_CLUSTER:  # those are compared with all networks below
        exact = enumerate_networks(scheme, 4).log_partition(theta)[0]
        assert infer(grounds[bindings], "exact").log_partition.item() == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("names", ALIKE_SETS, ids="-".join)
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
    network = network_from_edges(scheme, [(i, i + 1) for i in range(size - 1)])
    values = [
        kind(scheme, [network], bindings="cluster", weights="ground")(np.array(theta))
        for kind in (BetheLikelihood, ExactLikelihood)
    ]
    assert values[0][0] == pytest.approx(values[1][0], abs=1e-8)
    np.testing.assert_allclose(values[0][1], values[1][1], atol=1e-6)


@sets
def test_gradients_are_slopes(names: tuple[str, ...]) -> None:
    """Over a short step the log-likelihood grows by the mean of both gradients along it, whatever the bindings."""
    scheme = graph_scheme(*names)
    network = network_from_edges(scheme, [(0, 1), (0, 2), (1, 2), (2, 3)], vertices=range(5))
    step = 0.002 * np.array([1.0, -0.5, 0.7][: len(names)])
    likelihood = BetheLikelihood(scheme, [network], bindings=by_turns(names))
    found = likelihood.examine(np.stack([0 * step, step]))
    growth = found.log_likelihood[1] - found.log_likelihood[0]
    assert growth == pytest.approx(found.gradient.mean(0) @ step, rel=1e-3)
    assert found.phases is not None
    assert found.phases.tolist() == [1, 1]


def florentine(scheme: RelationalScheme) -> Network:
    graph = networkx.florentine_families_graph()
    return network_from_edges(scheme, list(graph.edges), vertices=list(graph))


def test_the_main_model_is_fitted() -> None:
    """A maximum has the observed counts, whatever the bindings, and the estimator knows its phases."""
    observed = {"edge": 20, "open_chain": 38, "triangle": 3}
    model = RelationalModel(ALIKE, starts=1).fit(networkx.florentine_families_graph())
    assert model.converged_
    assert model.fit_.bindings == "cluster"
    assert model.fit_.check is not None
    assert model.fit_.check.agrees
    assert model.phases_[0].expected_counts == pytest.approx(observed, abs=1e-2)
    scheme, start = model.scheme_, dict(zip(ALIKE, model.theta_.tolist(), strict=True))
    options = {"bindings": "ordered", "starts": 1, "start": start, "check": False}  # not far away
    fit = fit_relational(scheme, florentine(scheme), **options)
    assert fit.converged
    expected = evaluate(scheme, 15, fit.theta, bindings="ordered").expected[0]
    assert expected.tolist() == pytest.approx(list(observed.values()), abs=0.01)


def test_features_that_always_add_up_have_no_unique_maximum() -> None:
    """An open chain is a star of two less three triangles: no data tell their weights apart."""
    scheme = graph_scheme("open_chain", "triangle", "star2")
    network = florentine(scheme)
    fit = fit_relational(scheme, network, starts=1, check=False)
    assert not fit.converged
    assert "open_chain" in fit.status
    assert "flat" in fit.status or "linearly dependent" in fit.status
    assert dependent_features(scheme, [network], [0, 1]) == []  # the star's weight is held


def test_features_of_one_shape_have_two_phases() -> None:
    """Strong weights: an empty phase, a full one, and what lies between; a feature without weight adds nothing."""
    scheme, theta = graph_scheme(*ALIKE), np.array([-2.0, 0.0, 0.2])
    points = find_phases(scheme, 30, theta)
    alone = find_phases(graph_scheme("edge", "triangle"), 30, theta[[0, 2]])
    assert [point.stable for point in points] == [point.stable for point in alone]
    for point, other in zip(points, alone, strict=True):
        assert point.log_partition == pytest.approx(other.log_partition)
        assert point.marginals["exist"]["1"] == pytest.approx(other.marginals["exist"]["1"])
