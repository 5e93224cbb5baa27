"""A library of conjugated molecules, computed and not downloaded: chains of ring systems, and their orbitals.

`fragments` are the building blocks, `states` the ways in which a ring system takes part in a chain, `lines`
and `pieces` turn them into text and arrays, `strata` numbers chains, `catalogue` lists them all,
`permutation` draws from them, `assembly` joins pieces into molecules, `orbitals` and `photovoltaics` compute
the targets, and `generate` gives packs.
"""

from __future__ import annotations

from hiddenfield.datasets.molecule_library.generate import huckel, huckel_range, huckel_shards, library_size
from hiddenfield.datasets.molecule_library.writing import write_huckel

__all__ = ["huckel", "huckel_range", "huckel_shards", "library_size", "write_huckel"]
