"""scikit-learn estimators on structures: each a thin composition of data, embedding and learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.estimators.base import StructureEstimator
    from hiddenfield.estimators.classifier import StructureClassifier
    from hiddenfield.estimators.encoder import StructureEncoder
    from hiddenfield.estimators.regressor import StructureRegressor
    from hiddenfield.estimators.relational import RelationalModel
    from hiddenfield.estimators.saving import load

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "RelationalModel": "hiddenfield.estimators.relational",
        "StructureClassifier": "hiddenfield.estimators.classifier",
        "StructureEncoder": "hiddenfield.estimators.encoder",
        "StructureEstimator": "hiddenfield.estimators.base",
        "StructureRegressor": "hiddenfield.estimators.regressor",
        "load": "hiddenfield.estimators.saving",
    },
)
