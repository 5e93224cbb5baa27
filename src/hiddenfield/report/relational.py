"""Results on relational models: a record for programs, lines for a terminal, pictures, and one self-contained page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.evaluation.records import finite
from hiddenfield.fields.relational import RelationalScheme, choose_bindings
from hiddenfield.models.relational.checking import SimulationCheck
from hiddenfield.models.relational.goodness import Distribution
from hiddenfield.models.relational.landscape import Landscape
from hiddenfield.models.relational.learning import RelationalFit
from hiddenfield.models.relational.likelihood import sum_counts
from hiddenfield.models.relational.observations import Network
from hiddenfield.models.relational.phases import Phase
from hiddenfield.models.relational.prediction import PairPrediction
from hiddenfield.report.drawing import BLUE, GREY, RED, plot
from hiddenfield.report.page import Section, facts, figures, html_table, write_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARK: dict[str, Any] = {"markersize": 8, "linestyle": "", "markeredgecolor": "black"}
CONVENTION = {"ground": "per ground feature", "binding": "per binding"}
CONVENTIONS = {
    "ground": "a weight counts once for each different ground feature (a triangle is one)",
    "binding": "a weight counts once for each legal binding (a triangle is six)",
    "merged": "one factor for each different ground feature",
    "ordered": "one factor for each legal binding",
    "cluster": "one factor for each set of entities, with all features on it",
}
MOST_SHOWN = 20
"""Unknown pairs that are printed; the record has all."""

Description = tuple[dict[str, Any], list[str]]


def describe_phases(
    scheme: RelationalScheme,
    sizes: Mapping[str, int],
    theta: Mapping[str, float],
    points: Sequence[Phase],
    bindings: str,
    weights: str,
) -> Description:
    """Describe the fixed points of belief propagation at one setting of the weights."""
    bindings = choose_bindings(scheme, bindings)
    stable = sum(point.stable for point in points)
    status = {0: "no phase: belief propagation settles nowhere", 1: "one phase"}.get(
        stable, f"{stable} phases; the first has the highest log Z and holds almost all probability"
    )
    warnings = []
    if stable > 1:
        warnings.append(
            f"{stable} phases. The model is near-degenerate: a chain stays in the phase it starts in, and samples need "
            "not look like the dominant one"
        )
    elif not stable:
        warnings.append(f"{status}; try bindings='cluster'")
    record = {
        "status": status,
        "warnings": warnings,
        "sizes": dict(sizes),
        "theta": dict(theta),
        "conventions": _conventions(bindings, weights),
        "phases": stable,
        "fixed_points": [vars(point) for point in points],
    }
    lines = [repr(scheme), *_explained(bindings, weights), f"{len(points)} fixed points, {stable} stable"]
    lines += [status, *_warned(warnings)]
    for number, point in enumerate(points):
        kind = "unstable, between phases" if not point.stable else "stable"
        kind += ", the dominant phase" * (number == 0 and stable > 1)
        lines.append(f"log Z {point.log_partition:.8g}, {kind}")
        for name, row in point.marginals.items():
            lines.append(f"  {name}: " + "  ".join(f"{value} {p:.6f}" for value, p in row.items()))
        lines.append("  expected " + ", ".join(f"{n} {v:,.6g}" for n, v in point.expected_counts.items()))
    return record, lines


def describe_prediction(network: Network, found: PairPrediction) -> Description:
    """Describe the probabilities of the unknown pairs of a network."""
    names = list(network.names.values())
    rows = [
        ([names[0][a], names[-1][b]], p)
        for (a, b), p in zip(found.pairs.tolist(), found.probability.tolist(), strict=True)
    ]
    record = {
        "predictions": [{"pair": pair, "probability": p} for pair, p in rows],
        "lifting": found.ratio,
        "prediction_status": found.status,
    }
    fewer = f"{found.ratio:.3g} times fewer ports by lifting"
    lines = [f"{len(rows):,} unknown pairs given the rest, {fewer}: {found.status}"]
    lines += [f"  {' - '.join(pair)}  {p:.4f}" for pair, p in rows[:MOST_SHOWN]]
    if len(rows) > MOST_SHOWN:
        lines.append(f"  ... and {len(rows) - MOST_SHOWN:,} more; --json has all")
    return record, lines


LIKELIHOOD_KNOWN = ("exact", "monte_carlo")
"""Methods whose log-likelihood is that of the model, so that criteria such as AIC mean something."""


def describe_goodness(found: Mapping[str, Distribution]) -> Description:
    """Describe how observed distributions compare with sampled ones."""
    lines = []
    for distribution in found.values():
        low, high = distribution.interval
        rows = zip(
            distribution.labels,
            distribution.observed,
            distribution.sampled.mean(0),
            low,
            high,
            distribution.p_values,
            strict=True,
        )
        lines.append(f"{distribution.name:<16}{'observed':>9}{'mean':>9}{'2.5 %':>8}{'97.5 %':>8}{'p':>7}")
        lines += [f"{v:>16}{o:>9g}{m:>9.2f}{lo:>8g}{hi:>8g}{p:>7.3f}" for v, o, m, lo, hi, p in rows]
    return {name: distribution.as_dict() for name, distribution in found.items()}, lines


def paint_goodness(figure: Figure, found: Mapping[str, Distribution]) -> None:
    """Draw each distribution: the 95 % band and mean of sampled networks, and the data on top."""
    axes = figure.subplots(1, len(found), squeeze=False)[0]
    for ax, distribution in zip(axes, found.values(), strict=True):
        x = range(len(distribution.labels))
        low, high = distribution.interval
        ax.bar(x, high - low, bottom=low, width=1.0, alpha=0.3, label="95 % of samples")
        ax.plot(x, distribution.sampled.mean(0), linestyle="--", label="mean of samples")
        ax.plot(x, distribution.observed, color="black", marker="o", markersize=3, label="observed")
        ticks = list(x)[:: max(1, len(distribution.labels) // 8)]
        if distribution.labels[-1] == "inf":  # those without a path are always named
            ticks[-1] = len(distribution.labels) - 1
        ax.set_xticks(ticks, [distribution.labels[tick] for tick in ticks])
        ax.set_xlabel(distribution.name.replace("_", " "))
    axes[0].set_ylabel("count")
    axes[0].legend(fontsize="small")


def describe_fit(networks: Sequence[Network], fit: RelationalFit) -> Description:
    """Describe fitted weights with their standard errors, or that there is no maximum."""
    record = {
        "conventions": _conventions(fit.bindings, fit.weights),
        "method": fit.method,
        "theta": _named(fit.names, fit.theta),
        "standard_errors": _named(fit.names, fit.standard_errors),
        _key(fit.quantity): finite(fit.objective),
        "log_likelihood_error": finite(fit.log_likelihood_error),
        "aic": finite(fit.aic) if fit.method in LIKELIHOOD_KNOWN else None,
        "bic": finite(fit.bic) if fit.method in LIKELIHOOD_KNOWN else None,
        "diagnostics": None if fit.diagnostics is None else fit.diagnostics.as_dict(),
        "gradient": _named(fit.names, fit.gradient),
        "converged": fit.converged,
        "status": fit.status,
        "warnings": list(fit.warnings),
        "phases": fit.phases,
        "simulation": None if fit.check is None else _simulation(fit.check),
        "ascents": [
            {"end": ascent.parameters.tolist(), "value": finite(ascent.value), "status": ascent.status}
            for ascent in fit.ascents
        ],
    }
    lines = [*map(repr, networks), *_explained(fit.bindings, fit.weights), f"{fit.method}: {fit.status}"]
    lines += _warned(fit.warnings)
    width = max(len(name) for name in fit.names)
    for name, value, error in zip(fit.names, fit.theta, fit.standard_errors, strict=True):
        spread = "fixed" if error == 0 else f"standard error {_number(error)}"
        lines.append(f"  {name:<{width}}  {value: .6g}  {spread}")
    if math.isfinite(fit.objective):
        noise = f" (Monte Carlo error {fit.log_likelihood_error:.2g})" if fit.log_likelihood_error else ""
        lines.append(f"{fit.quantity} {fit.objective:.8g}{noise}")
        if fit.converged and fit.method in LIKELIHOOD_KNOWN:
            lines.append(f"AIC {fit.aic:.6g}, BIC {fit.bic:.6g}")
    if fit.diagnostics is not None:
        lines.append(repr(fit.diagnostics))
    if fit.check is not None and fit.check.agrees:
        lines.append(str(fit.check))
    return record, lines


def describe_landscape(networks: Sequence[Network], found: Landscape) -> Description:
    """Describe a landscape: its points, and where the ascents ended."""
    record = {
        "conventions": _conventions(found.bindings, found.weights),
        "method": found.method,
        "axes": list(found.names),
        "fixed": found.fixed,
        "x": found.x.tolist(),
        "y": found.y.tolist(),
        _key(found.quantity): [[finite(v) for v in row] for row in found.log_likelihood.tolist()],
        "phases": found.phases.tolist(),
        "ascents": [
            {
                "start": ascent.trace[0].tolist(),
                "end": ascent.parameters.tolist(),
                _key(found.quantity): finite(ascent.value),
                "converged": ascent.converged,
                "status": ascent.status,
            }
            for ascent in found.ascents
        ],
        "best": None if found.best is None else found.best.parameters.tolist(),
    }
    several, none = float((found.phases > 1).mean()), float((found.phases == 0).mean())
    lines = [*map(repr, networks), *_explained(found.bindings, found.weights)]
    lines.append(
        f"{len(found.x)} x {len(found.y)} points; {several:.0%} with several phases, {none:.1%} where nothing settled"
    )
    lines += [f"  {_listed(found.names, a.parameters, 4)}: {a.status}" for a in found.ascents]
    if found.best is None:
        lines.append("no ascent reached a maximum")
    else:
        end = _listed(found.names, found.best.parameters, 5)
        lines.append(f"best maximum: {end}, {found.quantity} {found.best.value:.6g}")
    return record, lines


def write_fit_report(
    path: str | Path, scheme: RelationalScheme, networks: Sequence[Network], fit: RelationalFit, *, title: str
) -> Path:
    """Write a fit as a page: weights with standard errors, how it was found, the paths of the ascents."""
    lead = f"{fit.method}: {fit.status}. Weights {CONVENTION[fit.weights]}, bindings {fit.bindings}."
    if not fit.converged:
        lead += " There is no maximum here: the numbers below are where the search ended, not estimates."
    sections: list[Section] = [("Weights", _weights(scheme, networks, fit))]
    if fit.warnings:
        sections.insert(0, ("Warnings", "".join(f"<p>{escape(reason)}</p>" for reason in fit.warnings)))
    caption = "Weights, with 1.96 standard errors to either side."
    caption = caption if fit.converged else "Where the search ended."
    boxes = [plot("weights", caption, _paint_weights, fit, width=6, height=1.2 + 0.4 * len(fit.names))]
    if any(len(ascent.trace) > 1 for ascent in fit.ascents):
        caption = "The free weights along each ascent; one that found no maximum is dashed."
        boxes.append(plot("traces", caption, _paint_traces, fit, width=6, height=3.4))
    sections.append(("Pictures", figures(boxes)))
    rows = [(f"network {i + 1}", repr(network)) for i, network in enumerate(networks)]
    search = [(f"start {i + 1}", f"{a.status}, {len(a.trace)} steps") for i, a in enumerate(fit.ascents)]
    sections.append(("Data and search", facts([("Networks", rows), ("Search", search)])))
    return write_html(path, title, lead, sections)


def write_landscape_report(
    path: str | Path, networks: Sequence[Network], found: Landscape, *, title: str
) -> Path:
    """Write a landscape as a page."""
    lead = (
        f"{found.quantity.capitalize()} ({found.method}) over two weights, {CONVENTION[found.weights]}, bindings "
        f"{found.bindings}; "
        f"{(found.phases > 1).mean():.0%} of the points have several phases."
    )
    caption = "Grey: belief propagation did not settle."
    picture = plot("landscape", caption, paint_landscape, found, width=6.4, height=5.2)
    ends = [
        (f"ascent {i + 1}", f"{_listed(found.names, a.parameters, 4)}: {a.status}")
        for i, a in enumerate(found.ascents)
    ]
    held = [(name, f"{value:.6g}") for name, value in found.fixed.items()] or [("none", "")]
    rows = [(f"network {i + 1}", repr(network)) for i, network in enumerate(networks)]
    sections: list[Section] = [
        ("Landscape", picture),
        ("Ascents", facts([("Conjugate gradient", ends), ("Held weights", held), ("Networks", rows)])),
    ]
    return write_html(path, title, lead, sections)


def _weights(scheme: RelationalScheme, networks: Sequence[Network], fit: RelationalFit) -> str:
    counts = [""] * len(fit.names)
    if all(network.complete for network in networks):
        counts = [f"{count:,.6g}" for count in sum_counts(scheme, networks, fit.weights)]
    errors = ["fixed" if error == 0 else _number(error) for error in fit.standard_errors]
    rows = [
        [name, f"{fit.theta[i]:.6g}", errors[i], counts[i], _number(fit.gradient[i])]
        for i, name in enumerate(fit.names)
    ]
    return html_table(["feature", "weight", "standard error", "observed count", "observed - expected"], rows)


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "unknown"


def _paint_weights(figure: Figure, fit: RelationalFit) -> None:
    axes = figure.add_subplot()
    places = np.arange(len(fit.names))[::-1]
    reach = np.where(np.isfinite(fit.standard_errors), 1.96 * fit.standard_errors, 0.0)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.errorbar(fit.theta, places, xerr=reach, fmt="o", color=BLUE if fit.converged else RED, capsize=3)
    axes.set_yticks(places, labels=[name.replace("_", " ") for name in fit.names])
    axes.set_ylim(-0.6, len(places) - 0.4)
    axes.set_xlabel(f"weight ({CONVENTION[fit.weights]})")


def _paint_traces(figure: Figure, fit: RelationalFit) -> None:
    axes = figure.add_subplot()
    free = [name for name, error in zip(fit.names, fit.standard_errors, strict=True) if error != 0]
    colours = [f"C{i % 10}" for i in range(len(free))]
    for ascent in fit.ascents:
        for column, colour in enumerate(colours):
            style = "-" if ascent.converged else "--"
            axes.plot(ascent.trace[:, column], style, color=colour, linewidth=1.1, alpha=0.8)
    for name, colour in zip(free, colours, strict=True):
        axes.plot([], [], color=colour, label=name.replace("_", " "))
    axes.set_xlabel("step")
    axes.set_ylabel(f"weight ({CONVENTION[fit.weights]})")
    axes.legend(fontsize=8)


def _label(name: str, weights: str) -> str:
    """Return an axis label that states what a weight counts."""
    return f"weight of {name.replace('_', ' ')} ({CONVENTION[weights]})"


def paint_landscape(
    figure: Figure,
    found: Landscape,
    *,
    truth: Sequence[float] | None = None,
    depth: float | None = None,
    axes: Axes | None = None,
    title: str = "",
    legend: bool = True,
) -> None:
    """Draw a landscape: log-likelihood below its best as colour, ascents as lines, their ends as marks.

    Parameters
    ----------
    figure
        Where to draw.
    found
        The landscape.
    truth
        Weights that the data were drawn with, marked by a star.
    depth
        How far below the best the colours reach; by default so far that four fifths of the points are told apart.
    axes
        Part of the figure to draw on.
    title
        Above it.
    legend
        Whether to say below the figure what the marks are.
    """
    axes = figure.add_subplot() if axes is None else axes
    axes.grid(False)
    finite = found.log_likelihood[np.isfinite(found.log_likelihood)]
    top = float(finite.max()) if len(finite) else 0.0
    below = found.log_likelihood - top
    # A logarithm of the distance to the best tells apart both the summit and the plains.
    reach = depth if depth is not None else max(float(np.quantile(-below[np.isfinite(below)], 0.8)), 1.0)
    bounds = extent(found.x, found.y)
    shown = np.log10(1 + np.minimum(-below, reach))
    image = axes.imshow(
        shown, origin="lower", extent=bounds, aspect="auto", cmap="viridis_r", interpolation="nearest"
    )
    _draw_phases(axes, found)
    _draw_ascents(axes, found)
    if truth is not None:
        axes.plot(
            *truth, marker="*", color="white", label="weights of the samples", **{**MARK, "markersize": 14}
        )
    axes.set_xlim(bounds[0], bounds[1])
    axes.set_ylim(bounds[2], bounds[3])
    axes.set_xlabel(_label(found.names[0], found.weights))
    axes.set_ylabel(_label(found.names[1], found.weights))
    if len(axes.get_shared_y_axes().get_siblings(axes)) > 1:  # one axis for several panels is labelled once
        axes.label_outer()
    axes.set_title(title, fontsize=9)
    bar = figure.colorbar(image, ax=axes, fraction=0.05)
    ticks = [t for t in (0, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7) if t <= reach]
    bar.set_ticks([float(np.log10(1 + t)) for t in ticks], labels=[f"{-t:,.0f}" if t else "0" for t in ticks])
    bar.set_label(f"{found.quantity} below the best, {top:,.1f} (nats)")
    if legend:
        handles, labels = axes.get_legend_handles_labels()
        entries = dict(zip(labels, handles, strict=True))
        if entries:
            figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=3, fontsize=8)


def _draw_phases(axes: Axes, found: Landscape) -> None:
    """Outline where there are two phases or more; leave grey where nothing settled."""
    axes.set_facecolor("#c9ced4")
    several = (found.phases > 1).astype(float)
    if several.any():
        axes.plot([], [], color="#9aa4ae", linestyle="--", label="two phases inside")
    if several.any() and not several.all():
        style: dict[str, Any] = {"colors": "white", "linewidths": 1, "linestyles": "--"}
        axes.contour(found.x, found.y, several, levels=[0.5], **style)


def _draw_ascents(axes: Axes, found: Landscape) -> None:
    path: dict[str, Any] = {
        "color": "#20262d",
        "linewidth": 0.9,
        "marker": "o",
        "markersize": 3,
        "markevery": [0],
    }
    for ascent in found.ascents:
        axes.plot(*ascent.trace[:, :2].T, label="ascent from its start", **path)
        end = ascent.parameters[:2]
        if ascent.converged:
            axes.plot(*end, marker="^", color="#ffd23f", label="maximum", **MARK)
        else:
            axes.plot(*end, marker="X", color="#e4572e", label="ended without a maximum", **MARK)


def extent(x: Any, y: Any) -> tuple[float, float, float, float]:
    """Return the bounds of an image whose pixels are centred on the points of a grid."""
    half_x, half_y = (x[1] - x[0]) / 2, (y[1] - y[0]) / 2
    return (float(x[0] - half_x), float(x[-1] + half_x), float(y[0] - half_y), float(y[-1] + half_y))


def _warned(warnings: Iterable[str]) -> list[str]:
    return [f"WARNING: {reason}" for reason in warnings]


def _key(quantity: str) -> str:
    """Return the name that a quantity has in records."""
    return quantity.replace(" ", "_").replace("-", "_")


def _simulation(check: SimulationCheck) -> dict[str, Any]:
    return {
        "agrees": check.agrees,
        "observed": _named(check.names, check.observed),
        "simulated": _named(check.names, check.simulated),
        "standard_deviation": _named(check.names, check.spread),
        "standard_errors_off": _named(check.names, check.steps),
    }


def _conventions(bindings: str, weights: str) -> dict[str, str]:
    return {"bindings": bindings, "weights": weights, "meaning": "; ".join(_explained(bindings, weights))}


def _explained(bindings: str, weights: str) -> list[str]:
    return [f"weights {weights}: {CONVENTIONS[weights]}", f"bindings {bindings}: {CONVENTIONS[bindings]}"]


def _listed(names: Iterable[str], values: Iterable[float], digits: int) -> str:
    return ", ".join(f"{name} {value:.{digits}g}" for name, value in zip(names, values, strict=True))


def _named(names: Iterable[str], values: Iterable[float]) -> dict[str, float | None]:
    return {name: finite(value) for name, value in zip(names, values, strict=True)}
