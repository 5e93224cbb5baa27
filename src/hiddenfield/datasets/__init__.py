"""Data that the package generates: a library of conjugated molecules, chains of ring systems, with Hückel energies.

`fragments` are the building blocks, `pieces` turns them into text and arrays and joins these into molecules,
`catalogue` lists, numbers and draws them, `orbitals` computes the targets, and `generate` gives packs and files.
"""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
