"""Graphical models as data: build, read, ground and compress them; no inference."""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
