"""Evaluation of models and of inference: assessment, splits, metrics, baselines, comparison of methods."""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
