"""Which structures a model learns from and which it is measured on."""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
