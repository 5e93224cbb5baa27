"""The page of an experiment, from its result alone: tables, shortfalls, pictures, protocols."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
