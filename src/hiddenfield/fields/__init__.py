"""Graphical models as data: build, read, ground and compress them; no inference."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
