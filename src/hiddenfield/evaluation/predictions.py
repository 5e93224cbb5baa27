"""Predictions as columns of a table."""

from __future__ import annotations

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.estimators import StructureClassifier, StructureEncoder, StructureEstimator
from hiddenfield.estimators.supervised import class_array
from hiddenfield.evaluation.new_data import NewData
from hiddenfield.shapes import Array

__all__ = ["prediction_columns"]


def prediction_columns(
    model: StructureEstimator, new: NewData, *, probabilities: bool = False
) -> dict[str, Array]:
    """Return a column for each target, and where there are several networks one for their spread.

    Parameters
    ----------
    model
        A fitted regressor or classifier.
    new
        Structures; rows that were left out are NaN, or None in a column of classes.
    probabilities
        Whether a column for each class comes too.
    """
    if isinstance(model, StructureEncoder):
        raise InputError("an encoder predicts nothing; use it with embed")
    classify = isinstance(model, StructureClassifier)
    if probabilities and not classify:
        raise InputError("a regressor has no probabilities; leave --probabilities out")
    columns: dict[str, Array] = {}
    for column, kind, members in zip(
        model.task_.columns, model.target_kinds_, model._predictions(new.structures), strict=True
    ):
        average = members.mean(axis=0)
        if not classify:
            columns[column.name] = new.spread(average, np.nan)
            if len(members) > 1:
                columns[f"{column.name}_std"] = new.spread(members.std(axis=0, ddof=1), np.nan)
            continue
        assert column.vocabulary is not None
        classes = class_array(column.vocabulary.symbols, kind)
        columns[column.name] = new.spread(classes[average.argmax(axis=1)].astype(object), None)
        if probabilities:
            for code, symbol in enumerate(classes.tolist()):
                columns[f"{column.name}={symbol}"] = new.spread(average[:, code], np.nan)
    return columns
