"""A library of conjugated molecules, computed and not downloaded: chains of ring systems, and their orbitals.

`fragments` are the building blocks, `pieces` turns them into text and arrays and joins these into molecules, `strata`
numbers chains and draws from them, `catalogue` lists them all, `orbitals` computes the targets, and `generate` gives
packs and files.
"""

from __future__ import annotations
