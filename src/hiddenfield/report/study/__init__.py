"""The page of a study, from its result alone: conclusion, tables, shortfalls, plots, protocols."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
