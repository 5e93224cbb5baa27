"""Exact inference, sampling, belief propagation on the ground field and on the template, side by side over a grid."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme, ground
from hiddenfield.inference.loopy_bp import loopy_bp
from hiddenfield.models.relational import enumerate_networks, evaluate, sample_networks
from hiddenfield.registry import choose
from hiddenfield.report.relational import CONVENTION, extent
from hiddenfield.shapes import Array, Bool, Float, Int

__all__ = ["COMPARED", "GridComparison", "MethodGrid", "compare_on_grid", "paint_comparison"]

METHOD_TITLES = {
    "exact": "exact",
    "mcmc": "MCMC (Gibbs)",
    "asynchronous_bp": "asynchronous BP, ground",
    "template_bp": "template BP",
}


@dataclass(frozen=True, eq=False)
class MethodGrid:
    """The results of one method over the grid.

    Parameters
    ----------
    method, size
        Its name and the number of vertices.
    seconds
        For one setting, on average.
    edge_probability
        One row per weight of the y axis.
    settled
        Where it converged.
    log_partition
        None for sampling, which does not know it.
    phases
        Number of phases at each setting, where the method looks for them.
    """

    method: str
    size: int
    seconds: float
    edge_probability: Float[Array, "rows columns"]
    settled: Bool[Array, "rows columns"]
    log_partition: Float[Array, "rows columns"] | None = None
    phases: Int[Array, "rows columns"] | None = None

    def deviation(self, truth: MethodGrid, *, one_phase: bool = False) -> tuple[float, float, float]:
        """Return mean, standard deviation and largest of the relative deviation of the edge's probability.

        With `one_phase` only over the settings at which this method found a single phase.
        """
        both = self.settled & truth.settled
        if one_phase and self.phases is not None:
            both = both & (self.phases == 1)
        relative = np.abs(self.edge_probability / truth.edge_probability - 1)[both]
        return float(relative.mean()), float(relative.std()), float(relative.max())

    def log_partition_error(self, truth: MethodGrid) -> float | None:
        """Return the mean relative deviation of the log partition, None where one of them has none."""
        if self.log_partition is None or truth.log_partition is None:
            return None
        both = self.settled & truth.settled
        return float(np.abs(self.log_partition / truth.log_partition - 1)[both].mean())


@dataclass(frozen=True, eq=False)
class GridComparison:
    """Several methods on several sizes over one grid of two weights."""

    names: tuple[str, str]
    x: Float[Array, " columns"]
    y: Float[Array, " rows"]
    grids: tuple[MethodGrid, ...]
    bindings: str
    weights: str

    def of(self, method: str, size: int) -> MethodGrid | None:
        """Return one method's grid, None where it was not run."""
        found = [g for g in self.grids if (g.method, g.size) == (method, size)]
        return found[0] if found else None

    def rows(self, truth: str = "exact") -> list[dict[str, Any]]:
        """Return a row for each method and size: time, deviation from the method `truth`."""
        result = []
        for grid in self.grids:
            base = self.of(truth, grid.size)
            row: dict[str, Any] = {
                "vertices": grid.size,
                "method": grid.method,
                "seconds per setting": grid.seconds,
                "settled": float(grid.settled.mean()),
            }
            if base is not None and base is not grid:
                mean, deviation, largest = grid.deviation(base)
                row |= {
                    "mean relative deviation": mean,
                    "its standard deviation": deviation,
                    "largest": largest,
                }
                if grid.phases is not None:
                    row["mean where there is one phase"] = grid.deviation(base, one_phase=True)[0]
                row["mean relative deviation of log Z"] = grid.log_partition_error(base)
            result.append(row)
        return result


def compare_on_grid(
    scheme: RelationalScheme,
    sizes: Sequence[int],
    x: tuple[str, float, float],
    y: tuple[str, float, float],
    *,
    points: int = 21,
    methods: Sequence[str] = ("exact", "mcmc", "asynchronous_bp", "template_bp"),
    bindings: str = "merged",
    weights: str = "ground",
    samples: int = 2000,
    burn_in: int = 200,
    seed: int = 0,
    advance: Callable[[int], None] | None = None,
) -> GridComparison:
    """Compute the probability of an edge and the log partition over a grid of two weights by several methods.

    Parameters
    ----------
    scheme
        An undirected network with two features.
    sizes
        Numbers of vertices.
    x, y
        A feature's name with the least and the largest weight, for each axis.
    points
        On each axis.
    methods
        Of `COMPARED`.
    bindings, weights
        See `hiddenfield.fields.relational.factor_kinds`.
    samples, burn_in
        Of the chain at each setting; a sweep each. Chains start from the empty network.
    seed
        Of the chains.
    advance
        Called with 1 after each method and size.

    Examples
    --------
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> found = compare_on_grid(
    ...     graph_scheme("edge", "triangle"),
    ...     [5],
    ...     ("triangle", -1, 1),
    ...     ("edge", -2, 2),
    ...     points=5,
    ...     methods=("exact", "template_bp"),
    ... )
    >>> mean, deviation, largest = found.of("template_bp", 5).deviation(found.of("exact", 5))
    >>> round(mean, 3)
    0.003
    """
    names = list(scheme.features)
    if sorted(names) != sorted({x[0], y[0]}):
        raise InputError(f"the axes must be the scheme's two features {names}, got {x[0]!r} and {y[0]!r}")
    across, up = np.linspace(x[1], x[2], points), np.linspace(y[1], y[2], points)
    grid = np.stack(np.meshgrid(across, up), -1).reshape(-1, 2)
    theta = grid if names[0] == x[0] else grid[:, ::-1].copy()
    options = {"bindings": bindings, "weights": weights, "samples": samples, "burn_in": burn_in, "seed": seed}
    found = []
    for size in sizes:
        for method in methods:
            run = choose("method", COMPARED, method)
            run(scheme, size, theta[:1], options)  # compile first
            began = time.perf_counter()
            columns = run(scheme, size, theta, options)
            seconds = (time.perf_counter() - began) / len(theta)
            grids = {name: values.reshape(points, points) for name, values in columns.items()}
            found.append(MethodGrid(method, size, seconds, **grids))
            if advance is not None:
                advance(1)
    return GridComparison((x[0], y[0]), across, up, tuple(found), bindings, weights)


Columns = dict[str, Array]


def _exact(scheme: RelationalScheme, size: int, theta: Array, options: dict[str, Any]) -> Columns:
    table = enumerate_networks(scheme, size, weights=options["weights"])
    return {
        "edge_probability": table.edge_probability(theta),
        "log_partition": table.log_partition(theta),
        "settled": np.ones(len(theta), dtype=bool),
    }


def _mcmc(scheme: RelationalScheme, size: int, theta: Array, options: dict[str, Any]) -> Columns:
    given = {name: options[name] for name in ("samples", "burn_in", "weights", "seed")}
    drawn = sample_networks(scheme, size, theta, chains=len(theta), **given)
    # A chain that never saw an edge knows no more than that there are few.
    least = 0.5 / (options["samples"] * math.comb(size, 2))
    return {
        "edge_probability": np.maximum(drawn.edge_probability, least),
        "settled": np.ones(len(theta), dtype=bool),
    }


def _asynchronous(scheme: RelationalScheme, size: int, theta: Array, options: dict[str, Any]) -> Columns:
    search: dict[str, Any] = {"tolerance": 1e-8, "max_iterations": 500, "damping": 0.1}
    rows = []
    for row in theta:
        field = ground(scheme, size, row, bindings=options["bindings"], weights=options["weights"])
        with torch.no_grad():
            here = loopy_bp(field, schedule="sequential", **search)
        rows.append((here.marginals[:, 1].mean().item(), here.converged.item(), here.log_partition.item()))
    names = ("edge_probability", "settled", "log_partition")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _template(scheme: RelationalScheme, size: int, theta: Array, options: dict[str, Any]) -> Columns:
    result = evaluate(scheme, size, theta, bindings=options["bindings"], weights=options["weights"])
    return {
        "edge_probability": result.marginals[:, 0, 1].numpy(),
        "log_partition": result.log_partition.numpy(),
        "settled": result.phases.numpy() > 0,
        "phases": result.phases.numpy(),
    }


COMPARED: dict[str, Callable[..., Columns]] = {
    "exact": _exact,
    "mcmc": _mcmc,
    "asynchronous_bp": _asynchronous,
    "template_bp": _template,
}
"""The methods that are compared: enumeration; Gibbs sampling; belief propagation on the ground field, one message after
another; template-level belief propagation from three starts."""


def paint_comparison(
    figure: Figure, found: GridComparison, quantity: str = "edge_probability", *, methods: Sequence[str] = ()
) -> None:
    """Draw a grid of panels, one row per method and one column per size, all in one scale of colour.

    Parameters
    ----------
    figure
        Where to draw.
    found
        The comparison.
    quantity
        "edge_probability", or "log_partition" (each column then has a scale of its own).
    methods
        Which, in order; all that have the quantity by default.
    """
    chosen = list(methods) or list(dict.fromkeys(grid.method for grid in found.grids))
    chosen = [
        m for m in chosen if any(g.method == m and getattr(g, quantity) is not None for g in found.grids)
    ]
    sizes = sorted({grid.size for grid in found.grids})
    panels: Any = figure.subplots(len(chosen), len(sizes), squeeze=False, sharex=True, sharey=True)
    for column, size in enumerate(sizes):
        values = [getattr(g, quantity) for g in found.grids if g.size == size and g.method in chosen]
        low, high = (0.0, 1.0)
        if quantity == "log_partition":
            low, high = float(np.nanmin(values)), float(np.nanmax(values))
        for row, method in enumerate(chosen):
            axes = panels[row, column]
            axes.grid(False)
            axes.set_facecolor("#c9ced4")
            grid = found.of(method, size)
            if grid is None:
                axes.set_axis_off()
                continue
            image = axes.imshow(
                np.where(grid.settled, getattr(grid, quantity), np.nan),
                origin="lower",
                extent=extent(found.x, found.y),
                aspect="auto",
                cmap="RdYlBu_r",
                vmin=low,
                vmax=high,
                interpolation="nearest",
            )
            if row == 0:
                axes.set_title(f"{size:,} vertices", fontsize=9)
            if column == 0:
                axes.set_ylabel(
                    f"{METHOD_TITLES.get(method, method)}\nweight of {found.names[1]}", fontsize=8
                )
            if row == len(chosen) - 1:
                axes.set_xlabel(f"weight of {found.names[0]}", fontsize=8)
        if quantity == "log_partition":
            figure.colorbar(
                image, ax=panels[:, column], location="bottom", label="log Z (nats)", fraction=0.06, pad=0.02
            )
    if quantity != "log_partition":
        figure.colorbar(image, ax=panels, label="probability of an edge", fraction=0.04)
    figure.suptitle(f"weights {CONVENTION[found.weights]}, bindings {found.bindings}", fontsize=8)
