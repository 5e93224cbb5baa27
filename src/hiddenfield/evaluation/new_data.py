"""New structures for a fitted model: read as its own were, with the rows that cannot be predicted left out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.paths import existing
from hiddenfield.data.reading import read
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, SkippedInputWarning
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
    reasons
        Why rows were left out, by row.
    ids
        Of all rows, None where one has none; None if there are no ids.
    """

    structures: Structures
    rows: Int[Array, " structures"]
    total: int
    reasons: Mapping[int, str] = field(default_factory=dict)
    ids: Array | None = None

    def spread(self, values: Array, missing: Any) -> Array:
        """Return one entry for each row of the file, `missing` for those that were left out."""
        result = np.full(
            (self.total, *values.shape[1:]), missing, dtype=values.dtype if missing is not None else object
        )
        result[self.rows] = values
        return result

    def row_columns(self, *, errors: bool = False) -> dict[str, Array]:
        """Return what a table says of every row: its number, its id, and if wanted why it was left out."""
        columns: dict[str, Array] = {"row": np.arange(self.total)}
        if self.ids is not None:
            columns["id"] = self.ids
        if errors:
            columns["error"] = np.array([self.reasons.get(row) for row in range(self.total)], dtype=object)
        return columns

    def left_out(self) -> list[dict[str, Any]]:
        """Return number, id and reason of each row that was left out, for a listing."""
        return [
            {"row": row, "id": None if self.ids is None else self.ids[row], "reason": reason}
            for row, reason in sorted(self.reasons.items())
        ]


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
    if options.get("on_error", "raise") not in ("raise", "skip"):
        raise InputError(f"on_error must be 'raise' or 'skip', got {options['on_error']!r}")
    before = read_settings(folder).get("reader", {})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        structures = _read_alike(path, before, _of_reader(path, options))
    reasons: dict[int, str] = {}
    names: dict[int, str] = {}
    for warning in caught:
        told = warning.message
        warnings.warn(told, stacklevel=2)
        if isinstance(told, SkippedInputWarning):
            why = told.reasons or ["it cannot be read"] * len(told.positions)
            reasons |= dict(zip(told.positions, why, strict=True))
            names |= dict(zip(told.positions, told.ids or (), strict=False))
    total = len(structures) + len(reasons)
    rows = np.array([row for row in range(total) if row not in reasons], dtype=np.int64)
    ids: Array | None = None
    if structures.ids is not None:
        ids = np.full(total, None, dtype=object)
        ids[rows] = structures.ids.tolist()
        ids[list(names)] = list(names.values())
    strange = model.features_.unknown(structures) if options.get("on_error") == "skip" else {}
    if strange:
        first, reason = next(iter(strange.items()))
        numbers = rows[list(strange)].tolist()
        warnings.warn(
            SkippedInputWarning(
                f"left out {len(strange)} of {total} rows with symbols that the model does not know, first "
                f"{structures.name_of(first)} in row {numbers[0]}: {reason}",
                numbers,
                list(strange.values()),
                None if ids is None else ids[numbers].tolist(),
            ),
            stacklevel=2,
        )
        reasons |= dict(zip(numbers, strange.values(), strict=True))
        known = np.setdiff1d(np.arange(len(structures)), list(strange))
        structures, rows = structures[known], rows[known]
    return NewData(structures, rows, total, reasons, ids)


def _read_alike(path: Path, before: Mapping[str, Any], options: Mapping[str, Any]) -> Structures:
    """Read as the training file was read; where that had its labels in the headers, new files may have them too."""
    known = accepted_options(path, before)
    alike = {name: value for name, value in known.items() if name not in OF_TRAINING}
    try:
        return read(path, **{**alike, **options})
    except InputError:
        if known.get("labels") != "header" or "labels" in options:
            raise
    return read(path, **{**alike, "labels": "header", **options})


def _of_reader(path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without ``on_error`` where the format has none: symbols are looked at here all the same."""
    if "format" in options or "on_error" in accepted_options(path, options):
        return dict(options)
    return {name: value for name, value in options.items() if name != "on_error"}
