"""The driver of alternations, on EM for a mixture of two coins, where the likelihood must rise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hiddenfield.learning.alternation import alternate


class Coins:
    """Two coins with unknown sides, one of which is drawn and then tossed ten times."""

    tosses = 10

    def expected_statistics(self, data, parameters):
        heads, (share, one, other) = np.asarray(data), parameters
        first = share * one**heads * (1 - one) ** (self.tosses - heads)
        second = (1 - share) * other**heads * (1 - other) ** (self.tosses - heads)
        owner = first / (first + second)
        likelihood = np.log(first + second).sum()
        best = (
            owner.mean(),
            (owner @ heads) / (self.tosses * owner.sum()),
            ((1 - owner) @ heads) / (self.tosses * (1 - owner).sum()),
        )
        return best, likelihood, max(abs(a - b) for a, b in zip(best, parameters, strict=True))

    def maximize(self, statistics, parameters):
        return statistics[0]

    def score(self, statistics):
        return float(statistics[1])

    def residual(self, statistics):
        return float(statistics[2])


@pytest.fixture(scope="module")
def heads():
    random = np.random.default_rng(0)
    owner = random.random(400) < 0.3
    return random.binomial(10, np.where(owner, 0.9, 0.4))


def test_the_likelihood_rises_to_a_stationary_point(heads):
    end = alternate(Coins(), heads, (0.5, 0.8, 0.3), tolerance=1e-8, max_iterations=500)
    assert end.converged
    assert (np.diff(end.scores) >= -1e-9).all()
    assert end.parameters == pytest.approx((0.3, 0.9, 0.4), abs=0.06)
    assert len(end.scores) == len(end.residuals)


def test_it_goes_on_from_where_it_was(heads):
    options = {"tolerance": 1e-8, "max_iterations": 500}
    seen = []
    end = alternate(Coins(), heads, (0.5, 0.8, 0.3), **options, after=seen.append)
    assert [len(seen), seen[-1]] == [len(end.scores), end]
    halfway = alternate(Coins(), heads, (0.5, 0.8, 0.3), tolerance=1e-8, max_iterations=7)
    rest = alternate(Coins(), heads, halfway, **options)
    assert (rest.parameters, rest.scores) == (end.parameters, end.scores)


def test_noise_must_settle_for_several_turns(heads):
    short, long = (
        alternate(Coins(), heads, (0.5, 0.8, 0.3), tolerance=1e-4, max_iterations=500, settle=settle)
        for settle in (1, 4)
    )
    assert len(long.scores) == len(short.scores) + 3


def test_it_ends_where_it_cannot_go_on_and_when_turns_run_out(heads):
    few = alternate(Coins(), heads, (0.5, 0.8, 0.3), tolerance=1e-12, max_iterations=3)
    assert not few.converged
    assert len(few.scores) == 3

    class Stuck(Coins):
        def residual(self, statistics):
            return math.nan

    stuck = alternate(Stuck(), heads, (0.5, 0.8, 0.3), tolerance=1.0, max_iterations=9)
    assert not stuck.converged
    assert stuck.parameters == (0.5, 0.8, 0.3)
    assert stuck.statistics is not None
