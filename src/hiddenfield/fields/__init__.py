"""Graphical models as data: build, read, ground and compress them; no inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.fields.build import concatenate_fields, from_factors
    from hiddenfield.fields.compression import Compressed, compress
    from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
    from hiddenfield.fields.grid import grid_edges, ising_grid, potts_grid
    from hiddenfield.fields.networks import from_networkx
    from hiddenfield.fields.pairwise import edge_arcs, pairwise_field
    from hiddenfield.fields.readers.uai_evidence import read_evidence, write_evidence
    from hiddenfield.fields.readers.uai_results import UaiResult, read_result, write_result
    from hiddenfield.fields.reading import read, write
    from hiddenfield.fields.region_clusters import regions_from_cycles, regions_from_junction_tree
    from hiddenfield.fields.region_graph import RegionGraph, regions_from_clusters, regions_from_factors

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Compressed": "hiddenfield.fields.compression",
        "FactorGraph": "hiddenfield.fields.factor_graph",
        "FactorGroup": "hiddenfield.fields.factor_graph",
        "compress": "hiddenfield.fields.compression",
        "concatenate_fields": "hiddenfield.fields.build",
        "edge_arcs": "hiddenfield.fields.pairwise",
        "from_factors": "hiddenfield.fields.build",
        "from_networkx": "hiddenfield.fields.networks",
        "grid_edges": "hiddenfield.fields.grid",
        "ising_grid": "hiddenfield.fields.grid",
        "pairwise_field": "hiddenfield.fields.pairwise",
        "potts_grid": "hiddenfield.fields.grid",
        "read": "hiddenfield.fields.reading",
        "read_evidence": "hiddenfield.fields.readers.uai_evidence",
        "read_result": "hiddenfield.fields.readers.uai_results",
        "RegionGraph": "hiddenfield.fields.region_graph",
        "regions_from_clusters": "hiddenfield.fields.region_graph",
        "regions_from_cycles": "hiddenfield.fields.region_clusters",
        "regions_from_factors": "hiddenfield.fields.region_graph",
        "regions_from_junction_tree": "hiddenfield.fields.region_clusters",
        "UaiResult": "hiddenfield.fields.readers.uai_results",
        "write": "hiddenfield.fields.reading",
        "write_evidence": "hiddenfield.fields.readers.uai_evidence",
        "write_result": "hiddenfield.fields.readers.uai_results",
    },
)
