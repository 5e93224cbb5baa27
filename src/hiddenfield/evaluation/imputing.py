"""impute_run: the holes of a table filled by the model of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data import Structures, read
from hiddenfield.data.convert.mixed import as_table
from hiddenfield.data.table import Table, TableColumn
from hiddenfield.estimators import LATENT, load
from hiddenfield.estimators.sequence_inputs import read_sequences
from hiddenfield.evaluation.latent import MODEL, RESULT, SETTINGS, LearnRecord
from hiddenfield.evaluation.latent_data import LearnData, is_table
from hiddenfield.evaluation.records import read_record
from hiddenfield.shapes import Array, Float


@dataclass(frozen=True, eq=False)
class Imputed:
    """A table with its holes filled, once or several times; how many holes there were and are left; the ids' name."""

    tables: list[Table]
    holes: int
    left: int
    ids: str


def impute_run(
    folder: str | Path, source: Any, *, draws: int | None = None, seed: int = 0, unseen: str = "error"
) -> Imputed:
    """Fill the holes of a table by the model of a run: with what is expected, or with several draws.

    Parameters
    ----------
    folder
        Of `learn_run`.
    source
        A table, or a file of one, with the columns of the one that was learned from; of sequences also any other file
        that can be read, whose steps become the rows of a table.
    draws
        How many copies with drawn values; None for one with expected values.
    seed
        Of what is drawn.
    unseen
        What happens to a symbol that is new: "error", or "missing".
    """
    folder = Path(folder)
    record = read_record(folder / RESULT, LearnRecord, "the record of a run of learn_run")
    plan = read_record(folder / SETTINGS, dict, "the settings of a run of learn_run")
    columns = [TableColumn.from_dict(plain) for plain in record.columns]
    reader = {
        name: value for name, value in plan["reader"].items() if name not in ("kinds", "drop", "columns")
    }
    estimator: Any = load(folder / MODEL)
    if LATENT.facts(record.model)["data"] == "documents":
        estimator.impute(source)  # which is refused, before a table is looked for
    pack, ids = None, reader.get("id", "id")
    if record.sequences is not None and not is_table(source):
        pack, ids = read(source), "sequence"
        given = estimator.set_params(unseen=unseen)._given(pack)
        table = as_table(given.source, like=columns, unseen=unseen)
        names = np.arange(len(pack)) if pack.ids is None else np.asarray(pack.ids)
        table = replace(table, ids=np.repeat(names, given.sizes))
    else:
        known = {*record.used, *record.targets}
        used = as_table(source, like=[c for c in columns if c.name in known], unseen=unseen, **reader)
        rest = [column.name for column in columns if column.name not in known]
        table = _joined(used, as_table(source, columns=rest, **reader), columns) if rest else used
    data = LearnData(table, tuple(record.used), tuple(record.targets), record.sequence, pack)
    X = data.inputs()["X"]
    filled = (
        [estimator.impute(X)]
        if draws is None
        else estimator.sample_missing(X, draws, random_state=np.random.default_rng(seed))
    )
    generator = None if draws is None else np.random.default_rng([seed, 1])
    values = [_put_back(data, each, estimator, generator) for each in filled]
    left = int(np.isnan(values[0]).sum())
    tables = [table.with_values(each) for each in values]
    return Imputed(tables, int(table.missing.sum()), left, ids)


def _joined(used: Table, rest: Table, columns: Sequence[TableColumn]) -> Table:
    """Return the columns that the model has, and the others as they are, in their order."""
    both = {name: (part, j) for part in (used, rest) for j, name in enumerate(part.names)}
    chosen = [both[column.name] for column in columns]
    values = np.column_stack([part.values[:, j] for part, j in chosen])
    return replace(used, values=values, columns=tuple(part.columns[j] for part, j in chosen))


def _put_back(
    data: LearnData, filled: Any, estimator: Any, generator: np.random.Generator | None
) -> Float[Array, "rows columns"]:
    """Return all cells of a table, with those that a model has filled; targets by prediction, or draws from it."""
    table = data.table
    values = table.values.copy()
    values[:, [table.names.index(name) for name in data.used]] = cells_of(filled, table.select(data.used))
    if data.targets:
        places = [table.names.index(name) for name in data.targets]
        X = LearnData(table.with_values(values), data.used).inputs()["X"]
        mean, deviation = (each.reshape(len(table), -1) for each in estimator.predict(X, return_std=True))
        if generator is not None:
            mean = mean + deviation * generator.standard_normal(mean.shape)
        values[:, places] = np.where(np.isnan(values[:, places]), mean, values[:, places])
    return values


def cells_of(filled: Any, table: Table) -> Float[Array, "rows columns"]:
    """Return the cells of a filled table of whatever type; what is expected of a count need not be whole."""
    if isinstance(filled, np.ndarray) and filled.dtype != object:
        return filled
    if isinstance(filled, Structures):
        filled = read_sequences(filled).source
    like = [replace(each, kind="continuous") if each.kind == "count" else each for each in table.columns]
    return as_table(filled, like=like).values
