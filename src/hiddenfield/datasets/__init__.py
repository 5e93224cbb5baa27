"""Data that the package generates: a library of conjugated molecules with computed Hückel energies."""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
