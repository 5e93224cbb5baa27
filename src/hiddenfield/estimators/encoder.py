"""StructureEncoder: vectors from structures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import StrOptions

from hiddenfield.data.structures import Structures
from hiddenfield.estimators.base import StructureEstimator
from hiddenfield.estimators.constraints import COMMON, OF_CLASSES, OF_NUMBERS
from hiddenfield.estimators.targets import Answers, as_classes, as_numbers, looks_like_classes

__all__ = ["StructureEncoder"]


@dataclass(kw_only=True, eq=False, repr=False)
class StructureEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, StructureEstimator):  # type: ignore[misc]
    """Turn structures into vectors that were learned for a target; a transformer for pipelines.

    It is fitted as `StructureRegressor` or `StructureClassifier` is, and gives what their networks see before the
    head: the pooled node embeddings. The parameters, X and y are described in `StructureEstimator`.

    Parameters
    ----------
    task
        ``"regression"`` or ``"classification"``; ``"auto"`` takes targets for classes if every one of them holds text,
        truth values, or at most ten different whole numbers.
    loss, class_weight
        As in `StructureRegressor` and `StructureClassifier`.

    Examples
    --------
    >>> from hiddenfield.estimators import StructureEncoder
    >>> encoder = StructureEncoder(dim=8, epochs=5, validation_fraction=0, random_state=0)
    >>> encoder.fit_transform(["GA", "GATTACA", "TTT", ""], [2.5, 7.5, 3.5, 0.5]).shape
    (4, 8)
    """

    task: str = "auto"
    loss: str = "square"
    class_weight: str | Mapping[Any, float] | None = None

    _parameter_constraints = (
        COMMON | OF_NUMBERS | OF_CLASSES | {"task": [StrOptions({"auto", "regression", "classification"})]}
    )

    def _with_targets(self, structures: Structures, columns: list[Answers]) -> Structures:
        auto = all(looks_like_classes(column) for column in columns)
        classes = auto if self.task == "auto" else self.task == "classification"
        return (as_classes if classes else as_numbers)(structures, columns)

    def transform(self, X: Any) -> Any:
        """Return one vector a structure, as `embed` does."""
        return self.embed(X)

    @property
    def _n_features_out(self) -> int:
        return sum(network.width for network in self._fitted("networks_"))
