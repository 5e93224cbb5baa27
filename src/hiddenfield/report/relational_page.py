"""Reports on relational models: one page each, that holds all it needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hiddenfield.data.paths import write_text
from hiddenfield.fields.relational import RelationalScheme
from hiddenfield.models.relational.landscape import Landscape
from hiddenfield.models.relational.learning import RelationalFit
from hiddenfield.models.relational.likelihood import sum_counts
from hiddenfield.models.relational.observations import Network
from hiddenfield.report.drawing import BLUE, GREY, RED, draw
from hiddenfield.report.page import Section, escape, facts, figure_box, page
from hiddenfield.report.relational_figures import CONVENTION, paint_landscape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_fit_report", "write_landscape_report"]

FOOTER = "Made by hiddenfield. This file holds all it needs."


def write_fit_report(
    path: str | Path, scheme: RelationalScheme, networks: Sequence[Network], fit: RelationalFit, *, title: str
) -> Path:
    """Write a fit as a page: weights with standard errors, how it was found, the paths of the ascents."""
    lead = f"{fit.method}: {fit.status}. Weights {CONVENTION[fit.weights]}, bindings {fit.bindings}."
    if not fit.converged:
        lead += " There is no maximum here: the numbers below are where the search ended, not estimates."
    sections: list[Section] = [("Weights", _weights(scheme, networks, fit))]
    picture = draw(
        "weights", lambda figure: _paint_weights(figure, fit), width=6, height=1.2 + 0.4 * len(fit.names)
    )
    caption = (
        "Weights, with 1.96 standard errors to either side." if fit.converged else "Where the search ended."
    )
    boxes = [figure_box(picture, caption)]
    if any(len(ascent.trace) > 1 for ascent in fit.ascents):
        traces = draw("traces", lambda figure: _paint_traces(figure, fit), width=6, height=3.4)
        boxes.append(
            figure_box(traces, "The free weights along each ascent; one that found no maximum is dashed.")
        )
    sections.append(("Pictures", f'<div class="figures">{"".join(boxes)}</div>'))
    rows = [(f"network {i + 1}", repr(network)) for i, network in enumerate(networks)]
    search = [(f"start {i + 1}", f"{a.status}, {len(a.trace)} steps") for i, a in enumerate(fit.ascents)]
    sections.append(("Data and search", facts([("Networks", rows), ("Search", search)])))
    write_text(path, page(title, lead, sections, FOOTER))
    return Path(path)


def write_landscape_report(
    path: str | Path, networks: Sequence[Network], found: Landscape, *, title: str
) -> Path:
    """Write a landscape as a page."""
    lead = (
        f"Log-likelihood ({found.method}) over two weights, {CONVENTION[found.weights]}, bindings {found.bindings}; "
        f"{(found.phases > 1).mean():.0%} of the points have several phases."
    )
    picture = draw("landscape", lambda figure: paint_landscape(figure, found), width=6.4, height=5.2)
    ends = [
        (
            f"ascent {i + 1}",
            f"{', '.join(f'{n} {v:.4g}' for n, v in zip(found.names, a.parameters, strict=True))}: {a.status}",
        )
        for i, a in enumerate(found.ascents)
    ]
    held = [(name, f"{value:.6g}") for name, value in found.fixed.items()] or [("none", "")]
    rows = [(f"network {i + 1}", repr(network)) for i, network in enumerate(networks)]
    sections: list[Section] = [
        ("Landscape", figure_box(picture, "Grey: belief propagation did not settle.")),
        ("Ascents", facts([("Conjugate gradient", ends), ("Held weights", held), ("Networks", rows)])),
    ]
    write_text(path, page(title, lead, sections, FOOTER))
    return Path(path)


def _weights(scheme: RelationalScheme, networks: Sequence[Network], fit: RelationalFit) -> str:
    counts = [""] * len(fit.names)
    if all(network.complete for network in networks):
        counts = [f"{count:,.6g}" for count in sum_counts(scheme, networks, fit.weights)]
    head = ["weight", "standard error", "observed count", "observed - expected"]
    cells = "".join(f'<th class="number">{name}</th>' for name in head)
    body = ""
    for i, name in enumerate(fit.names):
        error = "fixed" if fit.standard_errors[i] == 0 else _number(fit.standard_errors[i])
        values = [f"{fit.theta[i]:.6g}", error, counts[i], _number(fit.gradient[i])]
        row = "".join(f'<td class="number">{escape(value)}</td>' for value in values)
        body += f"<tr><td>{escape(name)}</td>{row}</tr>"
    table = f"<thead><tr><th>feature</th>{cells}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="scores">{table}</table></div>'


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
