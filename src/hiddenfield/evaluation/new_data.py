"""New structures for a fitted model: read as its own were, with the rows that cannot be predicted left out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.files import existing
from hiddenfield.data.reading import read
from hiddenfield.data.structures import Structures
from hiddenfield.errors import SkippedInputWarning
from hiddenfield.estimators import StructureEstimator
from hiddenfield.evaluation.run import accepted_options, read_settings
from hiddenfield.shapes import Array, Int

__all__ = ["NewData", "read_new"]

# What is said of the training file alone.
OF_TRAINING = {"format", "target", "classes", "keep", "cache", "on_error", "labels", "label", "label_id"}


@dataclass(frozen=True, eq=False)
class NewData:
    """Structures that a model can take, and where they stood.

    Parameters
    ----------
    structures
        What was read and is known to the model.
    rows
        The row of each in the file, from 0.
    total
        How many rows there were.
    """

    structures: Structures
    rows: Int[Array, " structures"]
    total: int

    def spread(self, values: Array, missing: Any) -> Array:
        """Return one entry for each row of the file, `missing` for those that were left out."""
        result = np.full(
            (self.total, *values.shape[1:]), missing, dtype=values.dtype if missing is not None else object
        )
        result[self.rows] = values
        return result


def read_new(
    model: StructureEstimator, folder: str | Path, path: str | Path, options: Mapping[str, Any]
) -> NewData:
    """Read new structures for the model in a folder, as those that it was fitted on were read.

    Parameters
    ----------
    model, folder
        A loaded model, and the folder of its run, whose settings say how its structures were read.
    path
        Of the new structures, in any format.
    options
        Of the reader; those of the run hold where nothing else is said. With ``on_error="skip"`` structures that cannot
        be read, or that have symbols unknown to the model, are left out with a warning.
    """
    path = existing(path)
    before = read_settings(folder).get("reader", {})
    alike = {name: value for name, value in before.items() if name not in OF_TRAINING}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        structures = read(path, **{**accepted_options(path, alike), **options})
    left_out: set[int] = set()
    for warning in caught:
        warnings.warn(warning.message, stacklevel=2)
        if isinstance(warning.message, SkippedInputWarning):
            left_out |= set(warning.message.positions)
    total = len(structures) + len(left_out)
    rows = np.array([row for row in range(total) if row not in left_out], dtype=np.int64)
    if options.get("on_error") == "skip":
        known = model.features_.known(structures)
        if not known.all():
            strange = rows[~known].tolist()
            first = structures.name_of(int(np.argmin(known)))
            warnings.warn(
                SkippedInputWarning(
                    f"left out {len(strange)} of {total} rows with symbols that the model does not know, first {first} "
                    f"in row {strange[0]}",
                    strange,
                ),
                stacklevel=2,
            )
            structures, rows = structures[np.flatnonzero(known)], rows[known]
    return NewData(structures, rows, total)
