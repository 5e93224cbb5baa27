"""The page of a study, from its result alone: conclusion, tables, shortfalls, plots, protocols."""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
