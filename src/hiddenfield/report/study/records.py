"""Results of a study: one row per trial, with the published figures; read from and written as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hiddenfield.errors import ReadError
from hiddenfield.evaluation.measuring import METRICS
from hiddenfield.evaluation.records import AsPublished, Assessment, Record, convert, read_record
from hiddenfield.evaluation.significance import summarise

ROUNDS = re.compile(r"T = \d+")

K = TypeVar("K")
V = TypeVar("V")


class Figure(Record, frozen=True):
    """A published number: its source, and the protocol by which it was obtained."""

    value: float
    source: str
    protocol: str


class Average(Record, frozen=True):
    """Data sets whose mean stands for them in a summary, and published means to compare it with.

    Parameters
    ----------
    data
        The first word of their names.
    figures
        Published means, perhaps over more sets than are here, which the source then says.
    """

    data: str
    figures: tuple[Figure, ...] = ()


class Scale(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of an experiment is run.

    Parameters
    ----------
    structures, folds, epochs
        At most this many; None for all.
    models, data, variants, columns
        Only these; None for all.
    small_grid
        Whether two candidates stand for the whole grid.
    """

    structures: int | None = None
    folds: int | None = None
    epochs: int | None = None
    models: tuple[str, ...] | None = None
    data: tuple[str, ...] | None = None
    variants: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    small_grid: bool = False


class Run(Record, frozen=True, kw_only=True):
    """When, where and with which versions a row was computed."""

    date: str | None = None
    revision: str | None = None
    device: str | None = None
    processor: str | None = None
    cores: int | None = None
    memory_gib: int | None = None
    gpu: str | None = None
    system: str | None = None
    python: str | None = None
    packages: dict[str, str | None] = msgspec.field(default_factory=dict)
    note: str | None = None


class Row(Assessment, frozen=True, kw_only=True):
    """One trial of a study: its assessment, its place in the table, and the published figures to compare it with.

    Parameters
    ----------
    data, variant, column
        Data set, way to train, and protocol: the place in the table, together with the model.
    figures
        Published numbers.
    parameters
        Fixed parameters of the model.
    run
        Machine, versions and date.
    reference
        In an ablation, the variant that differences are taken from.
    in_sight
        Whether the settings were found while the results on these test parts were seen.
    """

    data: str
    column: str
    variant: str = ""
    figures: tuple[Figure, ...] = ()
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    run: Run = Run()
    reference: str | None = None
    in_sight: bool = False

    @classmethod
    def of(cls, found: Assessment, **place: Any) -> Row:
        """Return an assessment as a row of a study.

        Parameters
        ----------
        found
            Of the trial.
        place
            The further fields of a row; `data` and `column` are empty where they are not given.
        """
        fields = {name: getattr(found, name) for name in Assessment.__struct_fields__}
        return cls(**(fields | {"data": "", "column": ""} | place))

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Data set, model, variant and column."""
        return self.data, self.model, self.variant, self.column

    @property
    def is_kernel(self) -> bool:
        """Whether its model is a kernel, which stands beside the networks."""
        return self.model.startswith("kernel:")

    @property
    def rounds(self) -> str:
        """``"T = k"`` where the rows of the study differ in it, else nothing."""
        return self.column if ROUNDS.fullmatch(self.column) else ""

    @property
    def group(self) -> str:
        """Protocol under which rows are compared; a number of rounds is a setting, not a protocol."""
        return "" if self.rounds else self.column

    @property
    def heading(self) -> str:
        """Data set and protocol: of the rows with which it is compared."""
        return ", ".join(filter(None, (self.data, self.group)))

    @property
    def label(self) -> str:
        """Model with its variant and number of rounds."""
        details = ", ".join(filter(None, (self.variant, self.rounds)))
        return f"{self.model} ({details})" if details else self.model

    @property
    def marked(self) -> bool:
        """Whether a reader must be told that the settings were found on these test parts, and nothing else says it."""
        return self.in_sight and self.as_published is None

    @property
    def shown(self) -> Row | AsPublished:
        """The record whose mean the row reports: the one selected on the reported folds where the row is about that."""
        return self if self.as_published is None else self.as_published

    @property
    def protocol_text(self) -> str:
        """How the reported mean was obtained."""
        if self.as_published is None:
            return self.protocol.text
        return f"{self.protocol.text.split(';')[0]}; {self.as_published.text}"

    @property
    def shown_interval(self) -> Sequence[float] | None:
        """95 % interval of the reported mean, computed from the folds where these were selected on."""
        if self.as_published is None:
            return self.interval
        folds, share = self.as_published.folds, self.protocol.test_share
        return summarise(folds, share, METRICS[self.metric]).interval


class Result(Record, frozen=True, kw_only=True):
    """All rows of a study at one scale, with the texts of its page.

    Parameters
    ----------
    experiment, title, about, layout, remarks, averages
        Of the study; see `Experiment`.
    scale
        How much of it was run.
    rows
        In the order of its trials.
    missing
        Places of the trials that have no row.
    """

    experiment: str
    title: str = ""
    about: str = ""
    layout: str = "table"
    remarks: tuple[str, ...] = ()
    averages: tuple[Average, ...] = ()
    scale: Scale
    rows: list[Row]
    missing: tuple[tuple[str, str, str, str], ...] = ()

    @property
    def partial(self) -> bool:
        """Whether only a part of the experiment was run."""
        return self.scale != Scale()


def read_result(file: str | Path, name: str) -> Result:
    """Read what ``hiddenfield reproduce NAME --out`` wrote; every row is checked.

    Parameters
    ----------
    file
        JSON.
    name
        Of the experiment that it must be of.
    """
    what = "the result of an experiment"
    content = read_record(file, dict, what)
    rows = content.get("rows")
    for number, row in enumerate(rows if isinstance(rows, list) else (), start=1):
        try:
            msgspec.convert(row, Row)
        except msgspec.ValidationError as error:
            told = f"row {number} is damaged: {error}; run that trial again, or remove the row"
            raise ReadError(told, file=file) from None
    result = convert(content, Result, what, file)
    if result.experiment != name:
        raise ReadError(f"is the result of {result.experiment}, not of {name}", file=file)
    return result


# -- comparing ---------------------------------------------------------------------------------------------


def gap(metric: str, value: float, other: float) -> float:
    """Return by how much a value is better than another.

    Examples
    --------
    >>> gap("accuracy", 0.75, 0.5), gap("rmse", 1.5, 1.0)
    (0.25, -0.5)
    """
    return value - other if METRICS[metric].higher_is_better else other - value


def best_of(rows: Iterable[Row]) -> Row:
    """Return the row with the best number; the first in a tie."""
    rows = list(rows)
    return max(rows, key=lambda row: gap(rows[0].metric, row.shown.mean, 0.0))


def by(rows: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    """Return the rows by what the key returns, in order of appearance."""
    found: dict[K, list[V]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found
