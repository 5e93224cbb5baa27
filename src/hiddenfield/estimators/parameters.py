"""Accepted values of the estimators' parameters, in scikit-learn's declarative form, and what ``"auto"`` stands for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, InvalidParameterError, Options, StrOptions

from hiddenfield.embedding.base import ACTIVATIONS, EMBEDDINGS
from hiddenfield.embedding.predictor import POOLINGS
from hiddenfield.errors import InputError
from hiddenfield.estimators.inputs import REPRESENTATIONS
from hiddenfield.learning.settings import OPTIMIZERS, PRECISIONS, SCHEDULES
from hiddenfield.learning.task import LOSSES

# Steps of training, at most: more gain little, whatever the data. Of classes half as many as structures, at least so
# many: where pooled embeddings are standardised the best epoch comes early; see docs/decisions/0017.
STEPS, FEWEST_STEPS = 2000, 500
FEWEST_EPOCHS, MOST_EPOCHS = 20, 200
FEWEST_PATIENT = 10
# Networks of an ensemble for at most so many structures.
ENSEMBLES = {10_000: 5, 30_000: 3}

COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")

# Parameters that the network takes as they are. The keys of a registry are those of the time of the check.
OF_NETWORK: dict[str, list[Any]] = {
    "model": [StrOptions(EMBEDDINGS.keys())],
    "dim": [COUNT],
    # Weights are shared by the rounds: nothing but this keeps a saved model from asking for a million of them.
    "rounds": [Interval(Integral, 1, 1000, closed="both")],
    "activation": [StrOptions(set(ACTIVATIONS))],
    "bias": ["boolean"],
    "pooling": [StrOptions(set(POOLINGS))],
    "every_round": ["boolean", StrOptions({"auto"})],
    "standardise": ["boolean", StrOptions({"auto"})],
    "node_width": [COUNT, None],
    "hidden": [COUNT],
    "dropout": [Interval(Real, 0, 1, closed="left")],
}
COMMON = OF_NETWORK | {
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
    "patience": [COUNT, StrOptions({"auto"}), None],
    "validation_fraction": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
    "monitor": [StrOptions({"loss", "mae", "rmse", "accuracy", "roc_auc"})],
    "resample": [POSITIVE, None],
    "precision": [
        StrOptions(set(PRECISIONS)),
        Options(Integral, {int(p) for p in PRECISIONS if p.isdigit()}),
    ],
    "device": [str],
    "devices": [COUNT],
    "ensemble": [COUNT, StrOptions({"auto"})],
    "random_state": ["random_state"],
    "checkpoint": [str, os.PathLike, None],
    "resume": ["boolean"],
    "verbose": ["boolean"],
}
OF_PREDICTIONS: dict[str, list[Any]] = {"counts": ["boolean", StrOptions({"auto"})]}
OF_NUMBERS: dict[str, list[Any]] = {"loss": [StrOptions(set(LOSSES))]}
OF_CLASSES: dict[str, list[Any]] = {"class_weight": [dict, StrOptions({"balanced"}), None]}


def check(estimator: Any) -> None:
    """Check an estimator's parameters against its ``_parameter_constraints``; a wrong one is an `InputError`."""
    try:
        estimator._validate_params()
    except InvalidParameterError as error:
        raise InputError(str(error)) from None


def plain(value: Any) -> Any:
    """Return a parameter that may be a NumPy scalar as a plain value."""
    return value.item() if isinstance(value, np.generic) else value


def auto_batch_size(structures: int, classes: bool = False) -> int:
    """Return a power of two up to 128, such that an epoch has some 30 steps, of classes half as many.

    Examples
    --------
    >>> [auto_batch_size(count) for count in (20, 170, 1000, 100_000)]
    [8, 8, 32, 128]
    """
    size, steps = (16, 22.5) if classes else (8, 45)
    while size < 128 and structures / size > steps:
        size *= 2
    return size


def auto_epochs(structures: int, batch_size: int, classes: bool = False) -> int:
    """Return how many epochs make about `STEPS` steps, of classes fewer where structures are few; from 20 to 200.

    Examples
    --------
    >>> [auto_epochs(count, auto_batch_size(count)) for count in (170, 1000, 100_000)]
    [91, 62, 20]
    >>> [auto_epochs(count, auto_batch_size(count, True), True) for count in (170, 1000, 100_000)]
    [45, 31, 20]
    """
    steps = min(STEPS, max(FEWEST_STEPS, structures // 2)) if classes else STEPS
    return min(MOST_EPOCHS, max(FEWEST_EPOCHS, round(steps / -(-structures // batch_size))))


def auto_ensemble(structures: int) -> int:
    """Return how many networks are averaged: several where one is trained quickly.

    Examples
    --------
    >>> [auto_ensemble(count) for count in (200, 20_000, 100_000)]
    [5, 3, 1]
    """
    return next((count for most, count in ENSEMBLES.items() if structures <= most), 1)


def auto_fraction(members: int) -> float:
    """Return the share that each network holds out: with five of them, every structure is held out once."""
    return 0.2 if members > 1 else 0.1


def auto_patience(epochs: int) -> int:
    """Return after how many epochs without a better one training stops: a quarter of them, at least ten."""
    return max(FEWEST_PATIENT, epochs // 4)


def as_json(name: str, value: Any) -> Any:
    """Return a parameter as JSON can hold it; a mapping as pairs, since its keys may be numbers."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {"pairs": [[as_json(name, key), as_json(name, entry)] for key, entry in value.items()]}
    if isinstance(value, (list, tuple)):
        return [as_json(name, entry) for entry in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return None  # a generator has moved on since it was used
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputError(
        f"the {name!r} parameter cannot be saved: it holds {value!r:.100} of type {type(value).__name__}"
    )


def from_json(value: Any) -> Any:
    """Return what `as_json` made plain; sequences are lists."""
    if isinstance(value, dict):
        return {from_json(key): from_json(entry) for key, entry in value["pairs"]}
    return [from_json(entry) for entry in value] if isinstance(value, list) else value
