"""Results for a person to look at: plots and pages."""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
