from .build import concatenate_fields as concatenate_fields, from_factors as from_factors
from .factor_graph import FactorGraph as FactorGraph, FactorGroup as FactorGroup
from .graphs.region_clusters import (
    regions_from_cycles as regions_from_cycles,
    regions_from_junction_tree as regions_from_junction_tree,
)
from .graphs.region_graph import (
    RegionGraph as RegionGraph,
    regions_from_clusters as regions_from_clusters,
    regions_from_factors as regions_from_factors,
)
from .lifting.compression import Compressed as Compressed, compress as compress
from .pairwise import (
    edge_arcs as edge_arcs,
    grid_edges as grid_edges,
    ising_grid as ising_grid,
    pairwise_field as pairwise_field,
    potts_grid as potts_grid,
)
from .peers import (
    from_networkx as from_networkx,
    from_pgmpy as from_pgmpy,
    from_pyagrum as from_pyagrum,
    to_pgmpy as to_pgmpy,
    to_pyagrum as to_pyagrum,
)
from .readers import read as read, write as write
from .readers.uai import (
    UaiResult as UaiResult,
    read_evidence as read_evidence,
    read_result as read_result,
    write_evidence as write_evidence,
    write_result as write_result,
)
