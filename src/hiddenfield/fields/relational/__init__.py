"""Relational models: a language of types, attributes and features, and its fields on a domain."""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
