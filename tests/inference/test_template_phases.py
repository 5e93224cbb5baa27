"""Fields that stand for many variables: the dominant phase is the answer, and others are told."""

from __future__ import annotations

import pytest
import torch

from hiddenfield.fields import concatenate_fields
from hiddenfield.fields.relational import graph_scheme
from hiddenfield.inference import infer

SCHEME = graph_scheme("edge", "triangle")


def test_the_default_gives_the_dominant_phase() -> None:
    posterior = infer(SCHEME.template(1_000_000, [-10.0, 0.5]))
    assert posterior.log_partition.item() == pytest.approx(8.3328e16, rel=1e-4)
    assert posterior.marginals[0, 1] > 0.999
    for text in (posterior.status, posterior.note):
        assert "2 phases, of log Z 8.33281e+16, 2.27096e+07: this is the dominant one" in text
    best, other = posterior.extra["phases"][0]
    assert best.log_partition > other.log_partition
    assert other.marginals[0, 1] == pytest.approx(4.5459e-5, rel=1e-3)


def test_belief_propagation_says_that_another_phase_dominates() -> None:
    posterior = infer(SCHEME.template(1_000_000, [-10.0, 0.5]), "loopy_bp")
    assert posterior.marginals[0, 1] < 1e-3
    assert "not the dominant one, which method 'auto' finds" in posterior.status


def test_one_phase_is_not_talked_about() -> None:
    field = SCHEME.template(30, [-2.0, 0.1])
    for method in ("auto", "loopy_bp"):
        posterior = infer(field, method)
        assert posterior.status == "converged"
        assert "phases" not in posterior.note


def test_a_batch_has_the_dominant_phase_of_each_graph() -> None:
    fields = [SCHEME.template(30, theta) for theta in ([-2.0, 0.1], [-2.0, 0.2], [-2.0, 0.3])]
    together = infer(concatenate_fields(fields))
    alone = torch.cat([infer(field).log_partition for field in fields])
    torch.testing.assert_close(together.log_partition, alone)
    assert "2 phases in 2 graphs, first in graph 1" in together.status
