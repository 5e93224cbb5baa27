"""Structured data: packs of sequences, trees and graphs; readers, converters, the Arrow format, generators."""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
