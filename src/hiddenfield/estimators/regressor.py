"""StructureRegressor: numbers from structures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.estimators.base import StructureEstimator
from hiddenfield.estimators.constraints import COMMON, OF_NUMBERS
from hiddenfield.estimators.targets import Answers, as_numbers, attach

__all__ = ["StructureRegressor"]


@dataclass(kw_only=True, eq=False, repr=False)
class StructureRegressor(RegressorMixin, StructureEstimator):  # type: ignore[misc]
    """Predict numbers from structures: embedded inference, trained end to end.

    The parameters, X and y are described in `StructureEstimator`; targets and predictions are in the user's units.

    Parameters
    ----------
    loss
        ``"square"``, ``"absolute"`` or ``"huber"``, of targets with mean 0 and scale 1.

    Examples
    --------
    >>> from hiddenfield.estimators import StructureRegressor
    >>> words = ["GA", "GATTACA", "TTT", "A", "GATT", "CCAT"]
    >>> model = StructureRegressor(dim=8, epochs=5, validation_fraction=0, random_state=0)
    >>> model.fit(words, [2.0, 7.0, 3.0, 1.0, 4.0, 4.0]).predict(["CAT", "GATA"]).shape
    (2,)
    """

    loss: str = "square"

    _parameter_constraints = COMMON | OF_NUMBERS

    def _with_targets(self, structures: Structures, columns: list[Answers]) -> Structures:
        return as_numbers(structures, columns)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predicted numbers, (structures,) or (structures, targets), as y was.

        Parameters
        ----------
        X
            Structures.
        return_std
            Whether the standard deviation over the members of the ensemble comes too. It tells how much the networks
            disagree, which is not the error to expect: that is measured on structures that were kept aside.
        """
        members = np.stack(self._predictions(X), axis=-1)
        if return_std and len(members) < 2:
            raise InputError("the spread of one network cannot be told; fit with ensemble=2 or more")
        members = members[..., 0] if self.single_target_ else members
        return (members.mean(axis=0), members.std(axis=0, ddof=1)) if return_std else members.mean(axis=0)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination, the mean over the targets; missing entries do not count.

        With ``y=None`` the structures' own targets are the truth.
        """
        from sklearn.metrics import r2_score

        predicted = np.atleast_2d(np.transpose(self.predict(X)))
        structures = self.reading_.convert(X)
        truth = as_numbers(structures, attach(structures, y)[0]).targets
        assert truth is not None
        if truth.shape[1] != len(predicted):
            raise InputError(
                f"the model predicts {len(predicted)} targets, but y has {truth.shape[1]} columns"
            )
        weights = (
            np.ones(len(structures)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        )
        scores = []
        for column, own in zip(truth.cpu().numpy().T, predicted, strict=True):
            present = ~np.isnan(column)
            scores.append(r2_score(column[present], own[present], sample_weight=weights[present]))
        return float(np.mean(scores))
