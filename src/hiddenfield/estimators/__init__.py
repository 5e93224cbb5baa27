"""scikit-learn estimators on structures: each a thin composition of data, embedding and learning."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
