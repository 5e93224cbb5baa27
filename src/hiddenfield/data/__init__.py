"""Structured data: packs of sequences, trees and graphs; readers, converters, the Arrow format, generators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.data.build import from_arcs, from_edges
    from hiddenfield.data.combine import concatenate
    from hiddenfield.data.convert.edge_lists import from_edge_lists, to_edge_lists
    from hiddenfield.data.convert.networkx import from_networkx, to_networkx
    from hiddenfield.data.convert.parents import from_parents, to_parents
    from hiddenfield.data.convert.pyg import from_pyg, to_pyg
    from hiddenfield.data.convert.sequences import from_sequences, to_sequences
    from hiddenfield.data.convert.tables import from_table, to_table
    from hiddenfield.data.description import Description, describe
    from hiddenfield.data.kmers import with_kmers
    from hiddenfield.data.molecule_library import huckel, huckel_range, huckel_shards, write_huckel
    from hiddenfield.data.molecules import from_smiles
    from hiddenfield.data.positions import with_positions
    from hiddenfield.data.reading import read, scan, write
    from hiddenfield.data.structures import Structures
    from hiddenfield.data.vocabulary import Vocabulary

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Description": "hiddenfield.data.description",
        "Structures": "hiddenfield.data.structures",
        "Vocabulary": "hiddenfield.data.vocabulary",
        "concatenate": "hiddenfield.data.combine",
        "describe": "hiddenfield.data.description",
        "from_arcs": "hiddenfield.data.build",
        "from_edge_lists": "hiddenfield.data.convert.edge_lists",
        "from_edges": "hiddenfield.data.build",
        "from_networkx": "hiddenfield.data.convert.networkx",
        "from_parents": "hiddenfield.data.convert.parents",
        "from_pyg": "hiddenfield.data.convert.pyg",
        "from_sequences": "hiddenfield.data.convert.sequences",
        "from_smiles": "hiddenfield.data.molecules",
        "from_table": "hiddenfield.data.convert.tables",
        "huckel": "hiddenfield.data.molecule_library",
        "huckel_range": "hiddenfield.data.molecule_library",
        "huckel_shards": "hiddenfield.data.molecule_library",
        "read": "hiddenfield.data.reading",
        "scan": "hiddenfield.data.reading",
        "to_edge_lists": "hiddenfield.data.convert.edge_lists",
        "to_networkx": "hiddenfield.data.convert.networkx",
        "to_parents": "hiddenfield.data.convert.parents",
        "to_pyg": "hiddenfield.data.convert.pyg",
        "to_sequences": "hiddenfield.data.convert.sequences",
        "to_table": "hiddenfield.data.convert.tables",
        "with_kmers": "hiddenfield.data.kmers",
        "with_positions": "hiddenfield.data.positions",
        "write": "hiddenfield.data.reading",
        "write_huckel": "hiddenfield.data.molecule_library",
    },
)
