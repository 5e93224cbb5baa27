"""Graphical models as data: build, read, ground and compress them; no inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.fields.build import concatenate_fields, from_factors
    from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
    from hiddenfield.fields.grid import grid_edges, ising_grid, potts_grid
    from hiddenfield.fields.networks import from_networkx
    from hiddenfield.fields.pairwise import edge_arcs, pairwise_field

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "FactorGraph": "hiddenfield.fields.factor_graph",
        "FactorGroup": "hiddenfield.fields.factor_graph",
        "concatenate_fields": "hiddenfield.fields.build",
        "edge_arcs": "hiddenfield.fields.pairwise",
        "from_factors": "hiddenfield.fields.build",
        "from_networkx": "hiddenfield.fields.networks",
        "grid_edges": "hiddenfield.fields.grid",
        "ising_grid": "hiddenfield.fields.grid",
        "pairwise_field": "hiddenfield.fields.pairwise",
        "potts_grid": "hiddenfield.fields.grid",
    },
)
