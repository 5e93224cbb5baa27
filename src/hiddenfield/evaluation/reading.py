"""Files for learning and for prediction: structures read as models take them, and predictions as columns."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import is_classifier

from hiddenfield.data.convert.sequences import DIRECTION
from hiddenfield.data.formats import FORMATS, Format, read
from hiddenfield.data.paths import existing
from hiddenfield.data.readers.delimited import read_table
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, OptionError, SkippedInputWarning
from hiddenfield.estimators.base import Fitted
from hiddenfield.estimators.network_inputs import read_edges, read_network
from hiddenfield.estimators.node_encoders import NODE_ENCODERS, NodeEncoder
from hiddenfield.estimators.supervised import class_array
from hiddenfield.estimators.targets import select_targets
from hiddenfield.evaluation.fitting import check_parameters, read_settings
from hiddenfield.shapes import Array, Float, Int

# Options that concern the training file alone.
OF_TRAINING = {"format", "target", "classes", "keep", "cache", "on_error", "labels", "label", "label_id"}

# Formats that may hold sequences.
OF_SEQUENCES = ("fasta", "table")


def read_for_learning(
    path: str | Path, options: Mapping[str, Any], keep: str | None = None
) -> tuple[Structures, dict[str, Any]]:
    """Read structures, sequences with arcs labelled by direction; return them and the options that did it.

    Parameters
    ----------
    path
        Of the structures.
    options
        Of the reader. Of a format that has its own targets, those that the option ``target`` names are kept.
    keep
        A column that is to travel along, where the format has an option for that.
    """
    found = _format(Path(path), options.get("format"))
    known, reader = _options(found), dict(options)
    if keep is not None and "keep" in known:
        reader.setdefault("keep", [keep])
    if found is not None and found.name == "table" and "target" not in options:
        form = {name: options[name] for name in ("header", "separator") if name in options}
        columns = read_table(existing(path), **form).listing()
        raise InputError(f"there is nothing to learn: name a target with target=; {path} has {columns}")
    names = None if "target" in known else reader.pop("target", None)
    structures = read(path, **reader)
    if names:
        structures = select_targets(structures, [names] if isinstance(names, str) else list(names))
    # Molecules have labels of bonds: a pack without labels of arcs, from such a file, holds sequences.
    flat = found is not None and found.name in OF_SEQUENCES
    if flat and "arc_labels" not in options and not structures.arc_vocabularies:
        # As `from_sequences` does: to the symbol after, or to the one before.
        backwards = (structures.source > structures.target).to(torch.int32)
        structures = structures.replace(arc_labels=backwards[:, None], arc_vocabularies=(DIRECTION,))
        reader["arc_labels"] = "direction"
    return structures, reader


def _format(path: Path, name: str | None = None) -> Format[Structures] | None:
    return FORMATS.recognise(path) if name is None else FORMATS.get(name)


def _options(found: Format[Structures] | None) -> set[str]:
    """Return the names of the options of a format; none where it is not known, of which reading complains."""
    return set() if found is None else set(inspect.signature(found.read).parameters)


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
        kind = object if missing is None else values.dtype
        result = np.full((self.total, *values.shape[1:]), missing, dtype=kind)
        result[self.rows] = values
        return result

    def row_columns(self, *, errors: bool = False) -> dict[str, Array]:
        """Return columns for all rows: number, id and, on request, why a row was left out."""
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


def read_new(model: Fitted, folder: str | Path, path: str | Path, options: Mapping[str, Any]) -> NewData:
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
        structures = _read_alike(path, before, options)
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


def make_node_encoder(name: str, parameters: Mapping[str, Any], *, verbose: bool = False) -> NodeEncoder:
    """Return the encoder of nodes of a name with these parameters, if it has them all."""
    encoder = NODE_ENCODERS.choose(name)(verbose=verbose)
    check_parameters(parameters, type(encoder), encoder.get_params())
    found: NodeEncoder = encoder.set_params(**parameters)
    return found


def embed_nodes(
    encoder: NodeEncoder, path: str | Path, options: Mapping[str, Any]
) -> tuple[NewData, Float[Array, "nodes dim"]]:
    """Return the nodes of a network in a file, and their vectors; an encoder that is not fitted is fitted to it.

    Of the options of the reader, `on_error` and `directed` are those of the encoder.
    """
    of_encoder = {name: options[name] for name in ("on_error", "directed") if name in options}
    own = {name: value for name, value in options.items() if name not in of_encoder}
    encoder.set_params(**of_encoder)
    network = read_network(path, encoder.directed, **own)
    fitted = hasattr(encoder, "embedding_")
    vectors = encoder.transform(network) if fitted else encoder.fit_transform(network)
    alone = np.flatnonzero(np.isnan(vectors[:, 0]))
    reasons = dict.fromkeys(alone.tolist(), "the node has no edges")
    rows = np.setdiff1d(np.arange(len(vectors)), alone)
    return NewData(network, rows, len(vectors), reasons, read_edges(network).names), vectors


def _read_alike(path: Path, before: Mapping[str, Any], options: Mapping[str, Any]) -> Structures:
    """Read as the training file was read; where that had its labels in the headers, new files may have them too."""
    accepted = _options(_format(path))
    if "format" not in options and "on_error" not in accepted:  # symbols are checked all the same
        options = {name: value for name, value in options.items() if name != "on_error"}
    known = {name: value for name, value in before.items() if name in accepted}
    alike = {name: value for name, value in known.items() if name not in OF_TRAINING}
    try:
        return read(path, **{**alike, **options})
    except InputError as error:
        if isinstance(error, OptionError) and error.option in alike:
            own = f"{error.option}={alike[error.option]}"
            raise InputError(
                f"{error}; the data of the run were read with {own}: give data of that kind"
            ) from None
        if known.get("labels") != "header" or "labels" in options:
            raise
    return read(path, **{**alike, "labels": "header", **options})


def prediction_columns(model: Fitted, new: NewData, *, probabilities: bool = False) -> dict[str, Array]:
    """Return one column for each target and, where there are several networks, one for their standard deviation.

    Parameters
    ----------
    model
        A fitted regressor or classifier.
    new
        Structures; rows that were left out are NaN, or None in a column of classes.
    probabilities
        Whether a column for each class comes too.
    """
    if not hasattr(model, "predict"):
        raise InputError("an encoder predicts nothing; use it with embed")
    classify = is_classifier(model)
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
