"""How good a model or an inference is: assessment, splits, metrics, and simple models or other methods beside it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
