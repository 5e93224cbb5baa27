"""Structured data: packs of sequences, trees and graphs; readers, converters, the Arrow format, generators."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
