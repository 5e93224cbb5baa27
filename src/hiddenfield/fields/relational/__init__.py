"""Relational models: a language of types, attributes and features, and its fields on a domain."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
