r"""Terms of exponential random graph models that no template holds: of whole vertices, or of numbers in the data.

- ``gwdegree``: geometrically weighted degrees, :math:`e^\alpha \sum_i \{1 - (1 - e^{-\alpha})^{d_i}\}`;
- ``gwb1degree`` and ``gwb2degree``: the same of the vertices of the first and of the second type of a two-mode network;
- ``gwesp``: geometrically weighted edgewise shared partners,
  :math:`e^\alpha \sum_{i \sim j} \{1 - (1 - e^{-\alpha})^{p_{ij}}\}`, :math:`p_{ij}` the number of common neighbours;
- ``nodecov``: :math:`\sum_{i \sim j} (v_i + v_j)`; ``absdiff``: :math:`\sum_{i \sim j} |v_i - v_j|`; ``edgecov``:
  :math:`\sum_{i \sim j} w_{ij}`, with numbers :math:`v` of vertices or :math:`w` of pairs that a network carries. In a
  two-mode network ``nodecov`` may have numbers of one type alone, as b1cov and b2cov of the R package ergm.

References
----------
Snijders, Pattison, Robins and Handcock (2006), New specifications for exponential random graph models; Hunter (2007),
Curved exponential family models for social networks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float

WEIGHTED, COVARIATE = "geometrically weighted", "of a covariate"
TERMS = {
    "gwdegree": WEIGHTED,
    "gwesp": WEIGHTED,
    "gwb1degree": WEIGHTED,
    "gwb2degree": WEIGHTED,
    "nodecov": COVARIATE,
    "absdiff": COVARIATE,
    "edgecov": COVARIATE,
}
"""The terms, and what each takes: a decay, or the name of a covariate."""
ABLE = "pseudo_likelihood, monte_carlo, contrastive_divergence"
"""Likelihoods that hold all terms; "exact" holds those without covariates."""


@dataclass(frozen=True)
class Term:
    """What a feature without template counts.

    Parameters
    ----------
    kind
        A name of `TERMS`.
    decay
        Of geometric weights, at least 0: the larger, the more a further edge or partner counts. Fixed, not estimated.
    covariate
        The numbers of vertices or pairs that it takes from a network.
    """

    kind: str
    decay: float = 0.0
    covariate: str = ""

    def __post_init__(self) -> None:
        """Check the kind, and that it has what it takes."""
        takes = choose("term", TERMS, self.kind)
        if not math.isfinite(self.decay) or self.decay < 0:
            raise InputError(f"{self.kind}: the decay is a number of at least 0, got {self.decay}")
        if takes == COVARIATE and not self.covariate:
            raise InputError(f"{self.kind}: name the numbers that it takes from a network, covariate=…")
        if takes == WEIGHTED and self.covariate:
            raise InputError(f"{self.kind} takes a decay and no covariate, got {self.covariate!r}")

    @property
    def mode(self) -> int | None:
        """Whose degrees are weighted in a two-mode network: 0 of the first type, 1 of the second; None otherwise."""
        return {"gwb1degree": 0, "gwb2degree": 1}.get(self.kind)

    @property
    def independent(self) -> bool:
        """Whether it looks at one pair at a time."""
        return TERMS[self.kind] == COVARIATE

    def check_pairs(self, *, two_mode: bool, ordered: bool) -> None:
        """Raise an `InputError` unless it is a term of networks with such pairs."""
        if self.independent:
            return
        if two_mode and self.mode is None:
            raise InputError(
                f"{self.kind} is for undirected networks, and this one is two-mode; use gwb1degree or gwb2degree, the "
                "geometrically weighted degrees of either type"
            )
        if self.mode is not None and not two_mode:
            raise InputError(f"{self.kind} is for two-mode networks; use gwdegree")
        if ordered and not two_mode:
            raise InputError(f"{self.kind} is for undirected networks, and the scheme's pairs are ordered")

    def powers(self, size: int) -> Float[Array, " counts"]:
        r"""Return :math:`(1 - e^{-\alpha})^k` for k from 0 to `size`: what one more edge or partner adds after k."""
        return np.power(1.0 - math.exp(-self.decay), np.arange(size + 1))

    def weighted(self, size: int) -> Float[Array, " counts"]:
        """Return what k edges or partners count together, for k from 0 to `size`."""
        return np.concatenate([[0.0], np.cumsum(self.powers(size))[:-1]])

    def of_pairs(self, values: Float[Array, ...]) -> Float[Array, "vertices vertices"]:
        """Return what each pair counts, from the numbers of vertices or pairs."""
        if self.kind == "edgecov":
            return values
        if self.kind == "absdiff":
            return np.abs(np.subtract.outer(values, values))
        return np.add.outer(values, values)
