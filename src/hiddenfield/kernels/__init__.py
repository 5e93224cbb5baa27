"""Graph kernels by their explicit features: structures go in, sparse counts come out."""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
