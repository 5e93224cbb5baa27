"""Assessment: an estimate of how good a model is that one can stake money on."""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
