"""scikit-learn estimators on structures: each a thin composition of data, embedding and learning."""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
