"""All phases of a relational model at one setting of its weights, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from hiddenfield.fields.relational import RelationalScheme, template
from hiddenfield.inference.infer import with_gradient
from hiddenfield.models.relational.fixed_points import fixed_points
from hiddenfield.shapes import Array, Float

__all__ = ["Phase", "find_phases"]


@dataclass(frozen=True, eq=False)
class Phase:
    """One fixed point of template-level belief propagation.

    Parameters
    ----------
    log_partition
        Bethe's estimate.
    marginals
        Of each attribute, the probability of each of its values.
    stable
        Whether iteration can settle there: a phase. Unstable points lie between phases.
    expected_counts
        Of each feature, in the convention of the weights.
    """

    log_partition: float
    marginals: dict[str, dict[str, float]]
    stable: bool
    expected_counts: dict[str, float]


def find_phases(
    scheme: RelationalScheme,
    sizes: Mapping[str, int] | int,
    theta: Float[Array, " features"],
    *,
    bindings: str = "merged",
    weights: str = "ground",
) -> list[Phase]:
    """Find the fixed points of template-level belief propagation, the best log partition first.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> found = find_phases(graph_scheme("edge", "triangle"), 30, np.array([-2.0, 0.2]))
    >>> [(round(point.marginals["exist"]["1"], 3), point.stable) for point in found]
    [(0.131, True), (0.956, True), (0.745, False)]
    """
    options: dict[str, Any] = {"bindings": bindings, "weights": weights}
    points = fixed_points(template(scheme, sizes, theta, **options))
    weight = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        field = template(scheme, sizes, weight, **options)
    found = []
    for point in points:
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(
                with_gradient(point.posterior, field).sum(), weight, retain_graph=True
            )
        marginals = {}
        for row, name in zip(point.posterior.marginals.tolist(), field.variable_names, strict=True):
            attribute = scheme.attributes[name.split("[")[0]]
            marginals[name] = dict(zip(attribute.values, row, strict=False))
        counts = dict(zip(scheme.features, slope.tolist(), strict=True))
        found.append(Phase(point.log_partition, marginals, point.stable, counts))
    return found
