"""The log-likelihood over a grid of two weights, with the paths of several ascents over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme, choose_bindings
from hiddenfield.learning.maximum_likelihood import Ascent, confirm_maximum, maximise
from hiddenfield.models.relational.likelihood import (
    LIKELIHOODS,
    Penalised,
    as_list,
    check_weights,
    find_feature,
)
from hiddenfield.models.relational.observations import Network, check_network
from hiddenfield.shapes import Array, Float, Int

ROWS = 2000
"""Settings in one batch: between them a progress bar moves."""


@dataclass(frozen=True, eq=False)
class Landscape:
    """A log-likelihood over two weights.

    Parameters
    ----------
    names
        The features on the x and the y axis.
    x, y
        Their weights.
    log_likelihood
        At each point, one row per weight of `y`; NaN where belief propagation did not settle.
    phases
        How many phases there are at each point; 1 for methods that know none.
    ascents
        Several climbs, with traces of (x, y).
    best
        The highest point that an ascent settled on, None where none did: then there is no maximum in sight.
    fixed
        The other weights.
    method, quantity, bindings, weights
        What was computed, in which conventions; the quantity is a log-likelihood or a log pseudo-likelihood.
    """

    names: tuple[str, str]
    x: Float[Array, " columns"]
    y: Float[Array, " rows"]
    log_likelihood: Float[Array, "rows columns"]
    phases: Int[Array, "rows columns"]
    ascents: tuple[Ascent, ...]
    best: Ascent | None
    fixed: dict[str, float]
    method: str
    quantity: str
    bindings: str
    weights: str


def landscape(
    scheme: RelationalScheme,
    networks: Network | Sequence[Network],
    x: tuple[str, float, float],
    y: tuple[str, float, float],
    *,
    fixed: Mapping[str, float] | None = None,
    points: int = 100,
    runs: int = 8,
    optimiser: str = "conjugate_gradient",
    method: str = "bethe",
    bindings: str = "auto",
    weights: str = "ground",
    condition: bool = True,
    starts: Any = None,
    seed: int = 0,
    max_iterations: int = 100,
    advance: Callable[[int], None] | None = None,
) -> Landscape:
    """Compute the log-likelihood over a grid of two weights and climb it from several starts.

    Parameters
    ----------
    scheme, networks
        The model and what was observed.
    x, y
        A feature's name with the least and the largest weight, for each axis.
    fixed
        The weights of all other features.
    points
        On each axis.
    runs
        How many ascents, from starts spread over the grid at random.
    optimiser
        Of the ascents.
    method, bindings, weights, condition
        As in `fit_relational`; methods that sample have no landscape.
    starts
        Starts of one's own, rows of (x, y), instead of random ones.
    seed
        Of the random starts.
    max_iterations
        Of each ascent.
    advance
        Called with the number of points done, for a progress bar.

    Examples
    --------
    >>> import networkx
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> from hiddenfield.models.relational import landscape, network_from_edges
    >>> scheme = graph_scheme("edge", "triangle")
    >>> network = network_from_edges(scheme, list(networkx.florentine_families_graph().edges))
    >>> found = landscape(scheme, network, ("edge", -3, 0), ("triangle", -2, 1), points=20, runs=2)
    >>> found.log_likelihood.shape, found.best.parameters.round(2)
    ((20, 20), array([-1.42, -0.05]))
    """
    names = tuple(scheme.features)
    for network in as_list(networks):
        check_network(scheme, network)
    held = check_weights(scheme, fixed, "a fixed weight")
    axes = [find_feature(scheme, axis[0]) for axis in (x, y)]
    if axes[0] == axes[1] or set(axes) & set(held):
        raise InputError("the two axes are different features, and neither of them is fixed")
    loose = [name for i, name in enumerate(names) if i not in axes and i not in held]
    if loose:
        raise InputError(f"say at which weight to hold {', '.join(loose)}: they are neither axes nor fixed")
    if points < 2 or not all(low < high for _, low, high in (x, y)):
        raise InputError("a landscape needs at least 2 points on each axis, and ranges from low to high")
    likelihood = LIKELIHOODS.choose(method)(
        scheme, as_list(networks), bindings=bindings, weights=weights, condition=condition
    )
    if likelihood.sampled:
        raise InputError(f"method {method!r} samples, and has no landscape; use 'bethe'")
    across, up = np.linspace(x[1], x[2], points), np.linspace(y[1], y[2], points)
    grid = np.stack(np.meshgrid(across, up), -1).reshape(-1, 2)
    objective = Penalised(likelihood, held, axes)
    values, phases = np.empty(len(grid)), np.ones(len(grid), dtype=np.int64)
    for begin in range(0, len(grid), ROWS):
        rows = slice(begin, begin + ROWS)
        found = likelihood.examine(objective.full(grid[rows]))
        values[rows] = found.log_likelihood
        if found.phases is not None:
            phases[rows] = found.phases
        if advance is not None:
            advance(len(grid[rows]))
    values[phases == 0] = np.nan
    begins = np.random.default_rng(seed).uniform(grid.min(0), grid.max(0), (runs, 2))
    options: dict[str, Any] = {"optimiser": optimiser, "max_iterations": max_iterations}
    ascents = []
    for start in begins if starts is None else np.asarray(starts, dtype=float):
        ascent = maximise(objective, start, scale=objective.units, **options)
        ascents.append(confirm_maximum(objective, ascent, objective.names))
    settled = [ascent for ascent in ascents if ascent.converged]
    return Landscape(
        (x[0], y[0]),
        across,
        up,
        values.reshape(points, points),
        phases.reshape(points, points),
        tuple(ascents),
        max(settled, key=lambda ascent: ascent.value) if settled else None,
        {names[i]: value for i, value in held.items()},
        method,
        likelihood.quantity,
        choose_bindings(scheme, bindings),
        weights,
    )
