"""What a model with something hidden has found: a section of the page for each kind of thing that a model has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.table import Table
from hiddenfield.evaluation.latent import LearnData
from hiddenfield.report.drawing import draw
from hiddenfield.report.learned_pictures import (
    MOST_STATES,
    paint_decoded,
    paint_ellipses,
    paint_loadings,
    paint_outliers,
    paint_profile,
    paint_states,
)
from hiddenfield.report.page import Section, escape, figure_box, figures, html_table, shortened
from hiddenfield.shapes import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_OUTLIERS = 10
"""Outliers that are listed."""

MOST_COLUMNS = 30
"""Columns of a table whose profiles are drawn."""

MOST_PAIRS = 4
"""Pairs of columns that are drawn against each other."""

MOST_DECODED, MOST_STEPS = 4, 400
"""Sequences that are drawn, and steps of each."""

UNEVEN = 10.0
"""Ratio of the spreads of columns from which on one noise for all is worth a warning."""

FAR = 0.999
"""Outlyingness from which on a row is an outlier."""


def found_sections(estimator: Any, data: LearnData) -> Iterator[Section]:
    """Yield what was found, by what the model has."""
    if hasattr(type(estimator), "covariances_") and hasattr(type(estimator), "means_"):
        yield "Components", _components(estimator, data)
    if hasattr(estimator, "profiles"):
        yield "Classes", _classes(estimator)
    if hasattr(type(estimator), "loadings_"):
        yield "Factors", _factors(estimator, data)
    if hasattr(type(estimator), "transitions_"):
        yield "States", _states(estimator, data)
        yield "Decoded sequences", _decoded(estimator, data)
    if hasattr(type(estimator), "tables_"):
        yield "Tables", _tables(estimator)
    if hasattr(estimator, "outlyingness"):
        yield "Outliers", _outliers(estimator, data)


def _components(estimator: Any, data: LearnData) -> str:
    """Draw the pairs of columns that tell components apart best, and list the means."""
    X, names = data.inputs()["X"], data.used
    values = data.table.select(names).values
    means, family = estimator.means_, estimator.model_.gaussians
    covariances = family.covariance_matrices(estimator.covariances_, len(means))
    owners = estimator.predict(X)
    between = means.var(axis=0) / np.array([covariances[:, j, j].mean() for j in range(len(names))])
    first = sorted(np.argsort(-between, kind="stable")[:4].tolist())
    boxes = []
    for number, pair in enumerate(list(combinations(first, 2))[:MOST_PAIRS]):
        chosen = list(pair)

        def paint(figure: Figure, chosen: list[int] = chosen) -> None:
            own = covariances[:, chosen][:, :, chosen]
            paint_ellipses(
                figure, values[:, chosen], owners, means[:, chosen], own, [names[j] for j in chosen]
            )

        boxes.append(
            figure_box(
                draw(f"pair{number}", paint, width=4.8, height=3.8, title="components"),
                "Rows that have both columns, by their most likely component; an ellipse holds 90 % of one.",
            )
        )
    rows = [
        [str(k), f"{weight:.3f}", *(f"{value:.4g}" for value in mean)]
        for k, (weight, mean) in enumerate(zip(estimator.weights_, means, strict=False))
    ]
    return figures(boxes) + html_table(["component", "weight", *names], rows)


def _classes(estimator: Any) -> str:
    """Draw what each column is like in each class."""
    shares = ", ".join(f"class {k}: {weight:.1%}" for k, weight in enumerate(estimator.weights_))
    return f"<p>{escape(f'Shares: {shares}.')}</p>" + _profiles(estimator.profiles())


def _profiles(profiles: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Draw a column on each card, by class or state."""
    boxes = []
    for number, (name, profile) in enumerate(list(profiles.items())[:MOST_COLUMNS]):

        def paint(figure: Figure, name: str = name, profile: Mapping[str, Any] = profile) -> None:
            axes = figure.add_subplot()
            if "mean" in profile or "rate" in profile:
                mean = np.array(profile.get("mean", profile.get("rate")))
                spread = np.array(profile["deviation"]) if "deviation" in profile else np.sqrt(mean)
                paint_profile(axes, name, None, mean[:, None], spread)
            else:
                paint_profile(axes, name, list(profile), np.array(list(profile.values())).T, None)

        height = 1.1 + 0.24 * len(next(iter(profile.values())))
        boxes.append(
            f'<div class="card">{draw(f"profile{number}", paint, width=3.0, height=height, title=name)}</div>'
        )
    more = len(profiles) - len(boxes)
    lead = "Of symbols the probability in each; of numbers the mean, with a standard deviation to each side."
    lead += f" {more} more columns are not drawn." if more > 0 else ""
    return f'<p>{escape(lead)}</p><div class="cards">{"".join(boxes)}</div>'


def _states(estimator: Any, data: LearnData) -> str:
    """Draw the states and their transitions, and what each emits."""
    transitions = estimator.transitions_
    mean, variance = estimator._moments()
    profiles: dict[str, dict[str, list[float]]] = {}
    for j, column in enumerate(estimator.table_columns_):
        if column.vocabulary is None:
            profiles[column.name] = {
                "mean": mean[:, j].tolist(),
                "deviation": np.sqrt(variance[:, j]).tolist(),
            }
            continue
        law = estimator.parameters_[f"probabilities.{column.name}"].T
        symbols = [str(symbol) for symbol in column.vocabulary.symbols]
        profiles[column.name] = {name: own.tolist() for name, own in zip(symbols, law, strict=True)}
    labels = [_state_label(profiles, k) for k in range(len(transitions))]
    picture = ""
    if len(transitions) <= MOST_STATES:
        posterior = _steps(estimator.posterior(data.inputs()["X"]))

        def paint(figure: Figure) -> None:
            paint_states(figure, transitions, posterior.mean(axis=0), labels)

        caption = "States, as large as they are frequent; in each the probability to stay, on arrows those to go on."
        picture = figures(
            [
                figure_box(
                    draw(
                        "states",
                        paint,
                        width=4.6,
                        height=2.2 if len(transitions) == 2 else 4.0,
                        title="states",
                    ),
                    caption,
                )
            ]
        )
    heads = ["from", "first", *(f"to {k}" for k in range(len(transitions)))]
    rows = [
        [f"{k} ({label})", f"{first:.3f}", *(f"{p:.3f}" for p in own)]
        for k, (label, first, own) in enumerate(zip(labels, estimator.initial_, transitions, strict=True))
    ]
    return picture + html_table(heads, rows) + _profiles(profiles)


def _state_label(profiles: Mapping[str, Mapping[str, Sequence[float]]], state: int) -> str:
    """Say in few words what a state emits of the first column."""
    name, profile = next(iter(profiles.items()))
    if "mean" in profile:
        return f"{shortened(name, 12)} {profile['mean'][state]:.4g}"
    symbol = max(profile, key=lambda word: profile[word][state])
    return f"{shortened(symbol, 12)} {profile[symbol][state]:.0%}"


def _steps(found: Any) -> Array:
    """Return what belongs to steps as one array."""
    return np.concatenate(found) if isinstance(found, list) else found


def _decoded(estimator: Any, data: LearnData) -> str:
    """Draw the longest sequences with their most likely states."""
    X, table, lengths = data.inputs()["X"], data.table, data.lengths
    assert lengths is not None
    path, posterior = _steps(estimator.predict(X)), _steps(estimator.posterior(X))
    numbers = [j for j, column in enumerate(table.columns) if column.vocabulary is None]
    if data.sequence is None:
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        parts = [np.arange(start, end) for start, end in pairwise(bounds)]
    else:
        assert table.ids is not None
        parts = [np.flatnonzero(table.ids == name) for name in dict.fromkeys(table.ids.tolist())]
    chosen = sorted(np.argsort([-len(part) for part in parts], kind="stable")[:MOST_DECODED].tolist())
    boxes = []
    for number in chosen:
        own = parts[number][:MOST_STEPS]
        label = table.names[numbers[0]] if numbers else ""

        def paint(figure: Figure, own: Array = own, label: str = label) -> None:
            series = table.values[own, numbers[0]] if numbers else None
            paint_decoded(figure, path[own], posterior[own], series, label)

        more = (
            f"; the first {MOST_STEPS:,} of {len(parts[number]):,} steps"
            if len(parts[number]) > len(own)
            else ""
        )
        picture = draw(f"decoded{number}", paint, width=8.0, height=3.2, title="decoded sequence")
        name = str(table.ids[own[0]]) if table.ids is not None and len(own) else str(number)
        boxes.append(
            figure_box(
                picture, f"Sequence {name} with its most likely states (above) and their posterior{more}."
            )
        )
    return figures(boxes)


def _factors(estimator: Any, data: LearnData) -> str:
    """Draw standardised loadings."""
    names = [*data.used, *(f"{name} (target)" for name in data.targets)]
    deviations = np.sqrt(np.diag(estimator.covariance_))
    loadings = estimator.loadings_ / deviations[:, None]
    width, height = 2.8 + 0.8 * loadings.shape[1], 0.9 + 0.28 * len(names)
    own = estimator.num_own if data.targets else 0
    shared = loadings.shape[1] - own
    heads = [f"{'shared' if data.targets else 'factor'} {k + 1}" for k in range(shared)]
    heads += [f"own {k + 1}" for k in range(own)]

    def paint(figure: Figure) -> None:
        paint_loadings(figure, loadings, estimator.uniquenesses_, names, heads, len(data.targets))

    caption = (
        "Loadings of standardised columns on the factors, and the share of each variance that they leave."
    )
    if data.targets:
        caption += (
            " Targets load on the factors that they share with the columns, which have others of their own."
        )
    box = figure_box(draw("loadings", paint, width=width, height=height, title="loadings"), caption)
    explained = (loadings**2).sum(axis=0) / len(names)
    rows = [[head, f"{share:.1%}"] for head, share in zip(heads, explained, strict=True)]
    correlations = estimator.factor_correlations_
    text = html_table(["factor", "of the variance of standardised columns"], rows)
    if not np.allclose(correlations, np.eye(len(correlations))):
        rows = [[head, *(f"{v:.2f}" for v in row)] for head, row in zip(heads, correlations, strict=True)]
        text += html_table(["correlation", *heads], rows)
    tied, spread = estimator.model_.tied, estimator.spread_
    uneven = max(spread[tied == k].max() / spread[tied == k].min() for k in set(tied.tolist()))
    if uneven > UNEVEN:
        text += (
            f"<p>Columns whose noise is the same have standard deviations that differ {uneven:,.0f}-fold: those that "
            "vary most take the factors. Bring columns to comparable units first.</p>"
        )
    return figures([box]) + text


def _tables(estimator: Any) -> str:
    """List the conditional tables of a network."""
    network = estimator.model_.network
    variables = {variable.name: variable for variable in network.variables}
    parts = [f"<p>Inference: {escape(estimator.guarantee_)}.</p>"]
    for name, table in list(estimator.tables_.items())[:MOST_COLUMNS]:
        parents = [network.names[number] for number in network.parents[network.names.index(name)]]
        states = [str(symbol) for symbol in variables[name].vocabulary.symbols]
        grid = [np.array(variables[parent].vocabulary.symbols, dtype=object) for parent in parents]
        rows = []
        for place in list(np.ndindex(*table.shape[:-1]))[:16]:
            given = [str(grid[k][code]) for k, code in enumerate(place)]
            rows.append([*given, *(f"{p:.3f}" for p in table[place])])
        more = int(np.prod(table.shape[:-1])) - len(rows)
        parts.append(
            f"<h3>{escape(name)}</h3>{html_table([*parents, *states], rows, text=range(len(parents)))}"
        )
        parts.append(f"<p>and {more:,} more rows</p>" if more > 0 else "")
    return "".join(parts)


def _outliers(estimator: Any, data: LearnData) -> str:
    """Draw how outlying each row is, and list the most outlying ones."""
    X = data.inputs()["X"]
    values = np.asarray(estimator.outlyingness(X))
    chosen = np.argsort(-values, kind="stable")[:MOST_OUTLIERS]
    chosen = chosen[values[chosen] >= FAR]
    # Probabilities close to 1 cannot be told apart by the eye.
    shown = -np.log10(np.maximum(1 - values, 1e-16))

    def paint(figure: Figure) -> None:
        paint_outliers(figure, shown, chosen, "outlyingness, -log10(1 - p)")

    caption = "How far out each row lies: 3 means that one row in 1,000 of the model lies as far out."
    if getattr(estimator, "noise", None) is True:
        caption = "The probability p of each row to be noise: 3 stands for 0.999."
    box = figure_box(draw("outliers", paint, width=6.4, height=3.2, title="outlyingness by row"), caption)
    if not len(chosen):
        return figures([box]) + "<p>No row is an outlier.</p>"
    table = data.table
    cells = [table.decoded(place) for place in range(len(table.names))]
    rows = [
        [_row_name(table, row), f"{shown[row]:.1f}", *(_cell(column[row]) for column in cells)]
        for row in chosen
    ]
    return figures([box]) + html_table(["row", "outlyingness", *table.names], rows)


def _row_name(table: Table, row: Any) -> str:
    return str(row) if table.ids is None else str(table.ids[row])


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else shortened(str(value), 24)
