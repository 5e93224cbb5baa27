"""Data that the package generates: a library of conjugated molecules with computed Hückel energies."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
