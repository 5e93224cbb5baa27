from .arrow_tables import to_table as to_table, write as write
from .build import concatenate as concatenate, from_arcs as from_arcs, from_edges as from_edges
from .columns import Columns as Columns
from .convert.edge_lists import from_edge_lists as from_edge_lists, to_edge_lists as to_edge_lists
from .convert.mixed import as_table as as_table
from .convert.networkx import from_networkx as from_networkx, to_networkx as to_networkx
from .convert.parents import from_parents as from_parents, to_parents as to_parents
from .convert.pyg import from_pyg as from_pyg, to_pyg as to_pyg
from .convert.sequences import (
    from_sequences as from_sequences,
    to_sequences as to_sequences,
    with_kmers as with_kmers,
    with_positions as with_positions,
)
from .description import Description as Description, describe as describe
from .documents import Documents as Documents, as_documents as as_documents
from .formats import read as read, scan as scan
from .molecules import from_smiles as from_smiles
from .readers.arrow import from_table as from_table
from .rows import Patterns as Patterns
from .structures import Structures as Structures
from .table import Table as Table, TableColumn as TableColumn
from .vocabulary import Vocabulary as Vocabulary
