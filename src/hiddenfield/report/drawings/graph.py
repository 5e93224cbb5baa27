"""Any structure as dots and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.report.drawing import draw
from hiddenfield.report.drawings.colours import share_colours
from hiddenfield.shapes import Array, Float

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_graph", "layout"]

# Beyond this a layout takes long and shows nothing.
MOST_NODES = 400
# Kamada and Kawai's layout is the better and the slower one.
SMALL = 60


def draw_graph(structure: Structures, shares: Float[Array, " nodes"] | None, name: str) -> str | None:
    """Return the structure as SVG, its nodes with their first label; None if it is too large or empty."""
    if not 0 < structure.total_nodes <= MOST_NODES:
        return None
    places = layout(structure)
    colours: Any = "#e9edf1" if shares is None else share_colours(shares)
    ends = np.stack([structure.source.cpu().numpy(), structure.target.cpu().numpy()], axis=1)
    size = float(np.clip(2600 / structure.total_nodes, 12, 150))

    def paint(figure: Figure) -> None:
        from matplotlib.collections import LineCollection

        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.add_collection(LineCollection(list(places[ends]), colors="#9aa4ae", linewidths=1.0, zorder=1))
        axes.scatter(
            places[:, 0], places[:, 1], s=size, c=colours, edgecolors="#6b7782", linewidths=0.6, zorder=2
        )
        if structure.node_labels is not None and structure.total_nodes <= SMALL:
            codes = structure.node_labels[:, 0].cpu().numpy()
            for place, symbol in zip(places, structure.node_vocabularies[0].decode(codes), strict=True):
                axes.annotate(str(symbol)[:3], place, ha="center", va="center", fontsize=6.5, zorder=3)
        axes.margins(0.12)

    return draw(name, paint, width=3.0, height=2.2, title="graph")


def layout(structure: Structures) -> Float[Array, "nodes axes"]:
    """Return a place in the plane for every node; the same structure always has the same."""
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(structure.total_nodes))
    graph.add_edges_from(zip(structure.source.tolist(), structure.target.tolist(), strict=True))
    if structure.total_nodes <= SMALL and structure.total_nodes > 1 and networkx.is_connected(graph):
        places = networkx.kamada_kawai_layout(graph)
    else:
        places = networkx.spring_layout(graph, seed=0)
    return np.array([places[node] for node in range(structure.total_nodes)], dtype=np.float64).reshape(-1, 2)
