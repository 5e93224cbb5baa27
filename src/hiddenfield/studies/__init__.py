"""Published experiments: one file each, with its data, protocol, grid and published figures."""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
