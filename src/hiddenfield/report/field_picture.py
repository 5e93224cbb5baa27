"""A picture of a small model: variables as pies of their marginals, factors as lines and squares, or arrows."""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx
import numpy as np
from scipy.optimize import isotonic_regression

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers.text import ROUNDING
from hiddenfield.report.drawing import save_figure
from hiddenfield.report.page import shortened
from hiddenfield.shapes import Array, Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MOST_VARIABLES = 150
# Beyond this the better and slower layout takes long.
FEW = 90
LINE, RING = "#9aa4ae", "#3c4650"
# For up to five states; more take a map of colours.
STATE_COLOURS = ("#e3e9ef", "#3b6ea5", "#b5483a", "#d9a441", "#5f8f5b")


def draw_field(field: FactorGraph, marginals: Sequence[Array], path: str | Path, *, title: str = "") -> None:
    """Draw a field of at most 150 variables into an image file.

    Variables are pies whose slices are the probabilities of their states, starting at the top and going clockwise; a
    thick ring marks those with a single possible state, as evidence leaves. Of a Bayesian network, every child last in
    its scope, arrows lead from parents down to their children. Otherwise a factor of two variables is a line, one of
    more is a square joined to its variables. The same field always has the same layout.

    Parameters
    ----------
    field
        One graph.
    marginals
        A distribution for each variable.
    path
        .png, .svg or .pdf.
    title
        Above the picture.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from hiddenfield.fields import ising_grid
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "grid.png"
    >>> draw_field(ising_grid(2, 2), [np.array([0.5, 0.5])] * 4, path)
    >>> path.exists()
    True
    """
    if not 0 < field.num_variables <= MOST_VARIABLES:
        raise InputError(
            f"a picture shows 1 to {MOST_VARIABLES} variables, the model has {field.num_variables}; leave out --plot"
        )
    parents = network_parents(field)
    if parents is not None:
        _draw_network(field, parents, marginals, path, title)
        return
    scopes = [tuple(scope) for group in field.groups for scope in group.scopes.tolist()]
    places, squares = _layout(field.num_variables, scopes)
    points = np.concatenate([places, squares])
    extent = np.ptp(points, axis=0)
    radius = _radius(places)
    side = float(np.clip(0.5 * extent.max() / radius, 4.0, 13.0))
    shape = np.clip((extent + 4 * radius) / max(float((extent + 4 * radius).max()), 1e-9), 0.35, 1)

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set_aspect("equal")
        _draw_factors(axes, scopes, places, squares, radius)
        _draw_variables(axes, field, marginals, places, radius, 9.0 if len(places) <= 30 else 6.5)
        low, high = points.min(0) - 1.4 * radius, points.max(0) + 1.4 * radius
        axes.set_xlim(low[0] - radius, high[0] + radius)
        axes.set_ylim(low[1] - 0.8 * radius, high[1])
        if title:
            axes.set_title(title)
        _legend(axes, field)

    width, height = side * shape[0], side * shape[1] + 0.6
    save_figure(path, paint, width=width, height=height, dpi=150)


# -- Bayesian networks, in inches ----------------------------------------------------------------------------

FONT = 8.0
CHARACTER = 0.068  # mean width of one of that font, with some room
PIE = 0.24
LABEL = 0.34
LAYER = 1.25
WIDEST = 26.0


def network_parents(field: FactorGraph) -> list[list[int]] | None:
    """Return the parents of every variable if the factors are conditional tables of their last variables, else None.

    Evidence does not matter: it is no part of the factors of two and more variables.
    """
    parents: dict[int, list[int]] = {}
    if not field.groups:
        return None
    for group in field.groups:
        sums = group.log_tables.detach().double().exp().sum(-1)
        if not bool(((sums - 1).abs() <= ROUNDING).all()):
            return None
        for scope in group.scopes.tolist():
            if scope[-1] in parents:
                return None
            parents[scope[-1]] = scope[:-1]
    try:
        graphlib.TopologicalSorter(parents).prepare()
    except graphlib.CycleError:
        return None
    return [parents.get(variable, []) for variable in range(field.num_variables)]


def _draw_network(
    field: FactorGraph, parents: list[list[int]], marginals: Sequence[Array], path: str | Path, title: str
) -> None:
    """Draw a Bayesian network in layers, one inch being one unit, so that texts are as wide as they were taken for."""
    texts = [_label(field, variable, row) for variable, row in enumerate(marginals)]
    widths = [max(2 * PIE, CHARACTER * max(map(len, text.split("\n")))) + 0.16 for text in texts]
    found = layered(parents, widths)
    levels = max(found.layer) + 1
    places = np.stack([found.across, -LAYER * np.array(found.layer, dtype=float)], axis=1)
    passing = [x for route in found.routes.values() for x in route]
    left = min([*(found.across - np.array(widths) / 2), *passing]) - 0.15
    right = max([*(found.across + np.array(widths) / 2), *passing]) + 0.15
    top, bottom = PIE + 0.15, -LAYER * (levels - 1) - PIE - LABEL - 0.15
    missing = max(0.0, 2.6 - (right - left)) / 2  # room for title and legend
    left, right = left - missing, right + missing
    scale = min(1.0, WIDEST / (right - left))
    head, foot = 0.35 * bool(title), 0.6

    def paint(figure: Figure) -> None:
        height = scale * (top - bottom) + head + foot
        figure.set_layout_engine("none")
        axes = figure.add_axes((0.0, foot / height, 1.0, scale * (top - bottom) / height))
        axes.set_axis_off()
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        _draw_arrows(axes, found, places, scale)
        _draw_variables(axes, field, marginals, places, PIE, FONT * scale)
        if title:
            figure.text(0.5, 1 - 0.5 * head / height, title, ha="center", va="center", fontsize=10)
        _legend(axes, field)

    save_figure(
        path,
        paint,
        width=scale * (right - left),
        height=scale * (top - bottom) + head + foot,
        dpi=150,
    )


def _draw_arrows(axes: Axes, found: Layered, places: Array, scale: float) -> None:
    """Draw arcs as curves from below a parent's text to the pie of its child, upright where they pass a layer."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    for (parent, child), route in found.routes.items():
        points = [(places[parent][0], places[parent][1] - PIE - LABEL)]
        codes = [Curve.MOVETO]
        stops = [(x, -LAYER * (found.layer[parent] + 1 + k)) for k, x in enumerate(route)]
        for x, y in stops:
            points += _bend(points[-1], (x, y + PIE))
            points.append((x, y - PIE - LABEL))
            codes += [Curve.CURVE4] * 3 + [Curve.LINETO]
        points += _bend(points[-1], (places[child][0], places[child][1] + PIE + 0.02))
        codes += [Curve.CURVE4] * 3
        axes.add_patch(
            FancyArrowPatch(
                path=Curve(points, codes),
                arrowstyle="-|>",
                mutation_scale=9 * scale,
                color=LINE,
                linewidth=1.1 * scale,
                shrinkA=0,
                shrinkB=0,
                capstyle="round",
                zorder=1,
            )
        )


def _bend(start: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    """Return the control points of a curve that leaves and arrives upright."""
    middle = (start[1] + end[1]) / 2
    return [(start[0], middle), (end[0], middle), end]


def _label(field: FactorGraph, variable: int, row: Array) -> str:
    name = field.variable_names[variable] if field.variable_names else str(variable)
    best = int(np.argmax(row))
    state = field.state_names[variable][best] if field.state_names else str(best)
    return f"{shortened(name, 18)}\n{shortened(state, 12)} {row[best]:.2f}"


# -- other fields ----------------------------------------------------------------------------------------------


def _layout(
    variables: int, scopes: list[tuple[int, ...]]
) -> tuple[Float[Array, "variables 2"], Float[Array, "squares 2"]]:
    """Place variables, and a square for each factor of more than two."""
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(variables))
    squares = [scope for scope in scopes if len(scope) > 2]
    graph.add_edges_from(scope for scope in scopes if len(scope) == 2)
    for number, scope in enumerate(squares):
        graph.add_edges_from((variables + number, variable) for variable in scope)
    parts = [sorted(part) for part in networkx.connected_components(graph)]
    found: dict[int, Any] = {}
    left = 0.0
    for part in sorted(parts, key=lambda part: (-len(part), part)):
        places = _part_layout(graph.subgraph(part))
        points = np.array([places[node] for node in part])
        points += np.array([left, 0.0]) - points.min(0)
        found |= dict(zip(part, points, strict=True))
        left = float(points[:, 0].max()) + 1.0
    points = np.array([found[node] for node in range(variables + len(squares))]).reshape(-1, 2)
    return points[:variables], points[variables:]


def _part_layout(graph: Any) -> dict[int, Any]:
    """Lay out a connected graph so that neighbours are about one apart, the longer side level."""
    import networkx

    if len(graph) == 1:
        return {node: np.zeros(2) for node in graph}
    if len(graph) <= FEW:
        places = networkx.kamada_kawai_layout(graph)
    else:
        places = networkx.spring_layout(graph, seed=0, iterations=200)
    nodes = list(graph)
    points = np.array([places[node] for node in nodes])
    index = {node: k for k, node in enumerate(nodes)}
    ends = np.array([(index[first], index[second]) for first, second in graph.edges])
    points = _turned(points - points.mean(0), ends, index[min(nodes)])
    points /= np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1).mean()
    return dict(zip(nodes, points, strict=True))


def _turned(points: Float[Array, "nodes 2"], ends: Array, first: int) -> Float[Array, "nodes 2"]:
    """Turn a layout: edges that are all parallel or perpendicular become level and upright, another lies lengthwise."""
    along = points[ends[:, 1]] - points[ends[:, 0]]
    # Four times the angle is the same for all edges of a grid.
    common = np.exp(4j * np.arctan2(along[:, 1], along[:, 0])).mean()
    if len(ends) > 3 and abs(common) > 0.6:
        angle = -np.angle(common) / 4
        cosine, sine = np.cos(angle), np.sin(angle)
        points = points @ np.array([[cosine, sine], [-sine, cosine]])
        # The first variable goes to the top left corner.
        return points * np.array([-np.sign(points[first, 0]) or 1, np.sign(points[first, 1]) or 1])
    _, _, axes = np.linalg.svd(points, full_matrices=False)
    lengthwise = points @ axes.T
    wide, high = np.ptp(lengthwise, axis=0)
    return lengthwise if wide > 1.25 * high else points


def _radius(places: Float[Array, "variables 2"]) -> float:
    """Return a radius of pies that leaves room for their names."""
    if len(places) == 1:
        return 0.3
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) + 1e9 * np.eye(len(places))
    return float(np.clip(0.28 * np.quantile(gaps.min(1), 0.1), 0.08, 0.3))


def _draw_factors(
    axes: Axes, scopes: list[tuple[int, ...]], places: Array, squares: Array, radius: float
) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Rectangle

    lines = [places[list(scope)] for scope in scopes if len(scope) == 2]
    half = 0.3 * radius
    for scope, place in zip([scope for scope in scopes if len(scope) > 2], squares, strict=True):
        lines += [np.stack([place, places[variable]]) for variable in scope]
        corner = (place[0] - half, place[1] - half)
        axes.add_patch(Rectangle(corner, 2 * half, 2 * half, facecolor=RING, edgecolor="none", zorder=2))
    axes.add_collection(LineCollection(lines, colors=LINE, linewidths=1.2, zorder=1))


def _draw_variables(
    axes: Axes, field: FactorGraph, marginals: Sequence[Array], places: Array, radius: float, font: float
) -> None:
    from matplotlib.patches import Circle, Wedge

    possible = field.log_unary.detach().cpu().numpy() > -np.inf
    bounds = field.state_ptr.tolist()
    for variable, (place, row) in enumerate(zip(places, marginals, strict=True)):
        colours = _colours(len(row))
        ends = 90 - 360 * np.concatenate([[0], np.cumsum(np.nan_to_num(row))])
        for state, colour in enumerate(colours):
            first, last = ends[state + 1], ends[state]
            if first < last:
                axes.add_patch(
                    Wedge(place, radius, first, last, facecolor=colour, edgecolor="none", zorder=3)
                )
        settled = len(row) > 1 and possible[bounds[variable] : bounds[variable + 1]].sum() == 1
        width = 3.0 if settled else 0.9
        axes.add_patch(Circle(place, radius, fill=False, edgecolor=RING, linewidth=width, zorder=4))
        text = _label(field, variable, row)
        axes.annotate(
            text, (place[0], place[1] - 1.12 * radius), ha="center", va="top", fontsize=font, linespacing=1.05,
            color="#1c232b", zorder=5, bbox={"facecolor": "white", "alpha": 0.75, "pad": 0.6, "edgecolor": "none"},
        )  # fmt: skip


def _legend(axes: Axes, field: FactorGraph) -> None:
    """Name the colours where all variables have the same states."""
    from matplotlib.patches import Patch

    cards = set(field.cardinalities.tolist())
    names = set(field.state_names) or {tuple(str(state) for state in range(max(cards)))}
    if len(cards) > 1 or len(names) > 1 or len(next(iter(names))) > 8:
        return
    (states,) = names
    handles = [
        Patch(facecolor=colour, edgecolor=RING, linewidth=0.6, label=shortened(name, 16))
        for colour, name in zip(_colours(len(states)), states, strict=True)
    ]
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(handles), title="state"
    )


def _colours(states: int) -> list[Any]:
    if states <= len(STATE_COLOURS):
        return list(STATE_COLOURS[:states])
    import matplotlib

    return list(matplotlib.colormaps["viridis"](np.linspace(0.95, 0.05, states)))


# -- layers of acyclic networks: parents above their children, long arcs around what lies between ------------


SWEEPS = 24
THIN = 0.25
"""Width that a passing arc takes, in units of the nodes' widths."""


@dataclass(frozen=True)
class Layered:
    """Where nodes lie, and where arcs pass the layers between their ends.

    Parameters
    ----------
    layer
        Of each node, from 0 at the top.
    across
        Position of each node from left to right.
    routes
        For each arc (parent, child) the positions at which it passes the layers between, from the top.
    """

    layer: list[int]
    across: Float[Array, " nodes"]
    routes: dict[tuple[int, int], list[float]]


def layered(parents: Sequence[Sequence[int]], widths: Sequence[float]) -> Layered:
    """Lay out an acyclic network by the method of Sugiyama, Tagawa and Toda.

    Nodes go into layers by their longest path from a root, arcs over several layers get a point in each, the orders
    within layers are improved by barycentres, and positions are least-squares fits to those of the neighbours that keep
    the order and the widths.

    Parameters
    ----------
    parents
        Of each node.
    widths
        How wide each node is; neighbours in a layer do not overlap.

    References
    ----------
    Sugiyama, Tagawa and Toda (1981), Methods for visual understanding of hierarchical system structures.

    Examples
    --------
    >>> places = layered([[], [0], [0], [1, 2]], [1.0] * 4)
    >>> places.layer, places.across.tolist()
    ([0, 1, 1, 2], [0.5, 0.0, 1.0, 0.5])
    """
    layer = _layers(parents)
    size, rows = len(parents), [list[int]() for _ in range(max(layer, default=0) + 1)]
    wide = list(widths)
    for node, level in enumerate(layer):
        rows[level].append(node)
    links: list[tuple[int, int]] = []
    chains: dict[tuple[int, int], list[int]] = {}
    for child, own in enumerate(parents):
        for parent in own:
            chain = [parent]
            for level in range(layer[parent] + 1, layer[child]):
                rows[level].append(len(wide))
                chain.append(len(wide))
                wide.append(THIN)
            links += itertools.pairwise([*chain, child])
            chains[parent, child] = chain[1:]
    above: list[list[int]] = [[] for _ in wide]
    below: list[list[int]] = [[] for _ in wide]
    for first, second in links:
        below[first].append(second)
        above[second].append(first)
    across = _positions(_ordered(rows, above, below), above, below, wide)
    routes = {arc: [float(across[point]) for point in chain] for arc, chain in chains.items()}
    return Layered(layer, across[:size], routes)


def _layers(parents: Sequence[Sequence[int]]) -> list[int]:
    """Return the longest path from a root to each node; a root lies just above its first child."""
    graph = networkx.DiGraph((parent, child) for child, own in enumerate(parents) for parent in own)
    graph.add_nodes_from(range(len(parents)))
    rows = enumerate(networkx.topological_generations(graph))
    layer = {node: level for level, row in rows for node in row}
    first = {node: min((layer[child] for child in graph[node]), default=1) for node in graph}
    return [layer[node] if own else first[node] - 1 for node, own in enumerate(parents)]


def _ordered(rows: list[list[int]], above: list[list[int]], below: list[list[int]]) -> list[list[int]]:
    """Order layers by the mean place of neighbours, downwards and upwards in turn; keep the fewest crossings."""
    best, fewest = rows, _crossings(rows, below)
    for sweep in range(SWEEPS):
        near = above if sweep % 2 == 0 else below
        place = {node: k for row in rows for k, node in enumerate(row)}
        new: list[list[int]] = [list(row) for row in rows]
        for level in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            key = {
                node: float(np.mean([place[other] for other in near[node]]))
                if near[node]
                else float(place[node])
                for node in new[level]
            }
            new[level].sort(key=key.__getitem__)
            place.update({node: k for k, node in enumerate(new[level])})
        rows = new
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def _crossings(rows: list[list[int]], below: list[list[int]]) -> int:
    total = 0
    for row, following in itertools.pairwise(rows):
        place = {node: k for k, node in enumerate(following)}
        ends = np.array(
            [place[other] for node in row for other in sorted(below[node], key=place.__getitem__)]
        )
        starts = np.array([k for k, node in enumerate(row) for _ in below[node]])
        before = starts[:, None] < starts[None]
        total += int((before & (ends[:, None] > ends[None])).sum()) if len(ends) else 0
    return total


def _positions(
    rows: list[list[int]], above: list[list[int]], below: list[list[int]], widths: list[float]
) -> Float[Array, " points"]:
    """Return positions near those of the neighbours that keep the order and the widths within each layer."""
    across = np.zeros(len(widths))
    gaps = []
    for row in rows:
        wide = np.array([widths[node] for node in row])
        gaps.append(np.concatenate([[0.0], np.cumsum((wide[1:] + wide[:-1]) / 2)]))
        across[row] = gaps[-1] - gaps[-1][-1] / 2
    for sweep in range(2 * SWEEPS):
        for level in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            row, wanted = rows[level], []
            for node in row:
                near = (above if sweep % 2 == 0 else below)[node] or (above[node] + below[node]) or [node]
                wanted.append(float(np.mean(across[near])))
            across[row] = isotonic_regression(np.array(wanted) - gaps[level]).x + gaps[level]
    lefts = [across[node] for row in rows for node in row]
    return across - min(lefts, default=0.0)
