"""What the parameters of the estimators may be, in scikit-learn's declarative form."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import Interval, StrOptions

from hiddenfield.embedding.base import ACTIVATIONS, EMBEDDINGS
from hiddenfield.embedding.predictor import POOLINGS
from hiddenfield.estimators.representation import REPRESENTATIONS
from hiddenfield.learning.settings import OPTIMIZERS, PRECISIONS, SCHEDULES
from hiddenfield.learning.task import LOSSES

__all__ = ["COMMON", "OF_CLASSES", "OF_NUMBERS"]

COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")

COMMON: dict[str, list[Any]] = {
    "model": [StrOptions(set(EMBEDDINGS))],
    "dim": [COUNT],
    # Weights are shared by the rounds: nothing but this keeps a saved model from asking for a million of them.
    "rounds": [Interval(Integral, 1, 1000, closed="both")],
    "activation": [StrOptions(set(ACTIVATIONS))],
    "bias": ["boolean"],
    "pooling": [StrOptions(set(POOLINGS))],
    "every_round": ["boolean"],
    "standardise": ["boolean"],
    "node_width": [COUNT, None],
    "hidden": [COUNT],
    "dropout": [Interval(Real, 0, 1, closed="left")],
    "model_options": [dict, None],
    "representation": [StrOptions({"auto", *REPRESENTATIONS})],
    "representation_options": [dict, None],
    "epochs": [COUNT, StrOptions({"auto"})],
    "batch_size": [COUNT, StrOptions({"auto"})],
    "learning_rate": [POSITIVE],
    "optimizer": [StrOptions(set(OPTIMIZERS))],
    "weight_decay": [Interval(Real, 0, None, closed="left")],
    "schedule": [StrOptions(set(SCHEDULES))],
    "clip": [POSITIVE, None],
    "patience": [COUNT, None],
    "validation_fraction": [Interval(Real, 0, 1, closed="left")],
    "monitor": [StrOptions({"loss", "mae", "rmse", "accuracy", "roc_auc"})],
    "resample": [POSITIVE, None],
    "precision": [StrOptions(set(PRECISIONS))],
    "device": [str],
    "devices": [COUNT],
    "ensemble": [COUNT],
    "random_state": ["random_state"],
    "checkpoint": [str, os.PathLike, None],
    "resume": ["boolean"],
    "verbose": ["boolean"],
}
OF_NUMBERS: dict[str, list[Any]] = {"loss": [StrOptions(set(LOSSES))]}
OF_CLASSES: dict[str, list[Any]] = {"class_weight": [dict, StrOptions({"balanced"}), None]}
