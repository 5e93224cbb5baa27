"""How far sampled statistics can be trusted: effective size, R-hat and Geweke's score of several chains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hiddenfield.shapes import Array, Float

ENOUGH, MIXED = 100.0, 1.1
"""Effective samples below which, and R-hat above which, chains are said not to mix."""


@dataclass(frozen=True, eq=False, repr=False)
class ChainDiagnostics:
    r"""Statistics along several chains, and how well these agree.

    :math:`\hat R` compares halves of chains, :math:`\sqrt{1 + B / W - 1 / n}` with B the variance of their means
    and W the mean variance within one (Gelman and Rubin 1992); about 1 where chains mix. The effective size is the
    variance of a statistic over that of its mean, by batch means. Geweke's score (1992) compares the first tenth of all
    chains with the last half, in standard errors.

    Parameters
    ----------
    names
        The statistics.
    trace
        Their values, sample by sample in each chain.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000, 1))
    >>> ChainDiagnostics(("edge",), draws)
    ChainDiagnostics(edge: effective size 4000 of 4,000, R-hat 1.000)
    """

    names: tuple[str, ...]
    trace: Float[Array, "chains samples features"]

    def __repr__(self) -> str:
        """List effective sizes and R-hat."""
        total = math.prod(self.trace.shape[:2])
        parts = [
            f"{name}: effective size {size:.0f} of {total:,}, R-hat {r:.3f}"
            for name, size, r in zip(self.names, self.effective_size, self.r_hat, strict=True)
        ]
        return f"ChainDiagnostics({'; '.join(parts)})"

    @cached_property
    def mean_covariance(self) -> Float[Array, "features features"]:
        """Covariance of the mean over all chains, by batch means."""
        chains, samples, features = self.trace.shape
        batches = max(1, math.isqrt(samples)) if samples >= 4 else samples
        length = samples // batches
        means = self.trace[:, : batches * length].reshape(chains * batches, length, features).mean(1)
        if len(means) < 2:
            return np.full((features, features), np.nan)
        return np.atleast_2d(np.cov(means.T)) / len(means)

    @cached_property
    def effective_size(self) -> Float[Array, " features"]:
        """Number of independent samples whose mean would be as accurate; at most the number of samples."""
        total = math.prod(self.trace.shape[:2])
        variance = self.trace.reshape(total, -1).var(0, ddof=1) if total > 1 else np.zeros(len(self.names))
        noise = np.diag(self.mean_covariance)
        return np.minimum(np.divide(variance, noise, out=np.full(len(noise), np.nan), where=noise > 0), total)

    @cached_property
    def r_hat(self) -> Float[Array, " features"]:
        """Potential scale reduction of the halves of all chains; NaN where a chain has fewer than four samples."""
        samples = self.trace.shape[1] // 2
        if samples < 2:
            return np.full(len(self.names), np.nan)
        halves = np.concatenate([self.trace[:, :samples], self.trace[:, -samples:]])
        within, between = halves.var(1, ddof=1).mean(0), halves.mean(1).var(0, ddof=1)
        ratio = np.divide(between, within, out=np.full(len(within), np.nan), where=within > 0)
        return np.sqrt(np.maximum(1 - 1 / samples + ratio, 0.0))

    @cached_property
    def geweke(self) -> Float[Array, " features"]:
        """Difference of the first tenth and the last half of all chains, in standard errors; NaN for short chains."""
        samples = self.trace.shape[1]
        if samples < 40:
            return np.full(len(self.names), np.nan)
        parts = [self.trace[:, : samples // 10], self.trace[:, samples // 2 :]]
        noise = sum(np.diag(ChainDiagnostics(self.names, part).mean_covariance) for part in parts)
        gap = parts[0].mean((0, 1)) - parts[1].mean((0, 1))
        return np.divide(gap, np.sqrt(noise), out=np.full(len(gap), np.nan), where=np.asarray(noise) > 0)

    @property
    def mixed(self) -> bool:
        """Whether every statistic has enough effective samples, and R-hat (where there is one) near 1."""
        chains = not (self.r_hat > MIXED).any()
        return bool(chains and (self.effective_size >= ENOUGH).all())

    def as_dict(self, *, points: int = 200) -> dict[str, Any]:
        """Return plain values, with the trace thinned to about `points` samples per chain."""
        every = max(1, self.trace.shape[1] // points)
        columns = {"effective_size": self.effective_size, "r_hat": self.r_hat, "geweke": self.geweke}
        found: dict[str, Any] = {
            key: {n: float(v) if math.isfinite(v) else None for n, v in zip(self.names, values, strict=True)}
            for key, values in columns.items()
        }
        trace = {n: self.trace[:, ::every, i].tolist() for i, n in enumerate(self.names)}
        return {**found, "mixed": self.mixed, "trace_every": every, "trace": trace}
