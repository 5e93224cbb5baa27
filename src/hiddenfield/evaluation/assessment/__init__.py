"""Assessment: an estimate of how good a model is that one can stake money on."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
