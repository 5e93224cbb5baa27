"""What is learned from: the columns of a table, sequences, or shards of a table, as a model takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from hiddenfield.data import Structures, read
from hiddenfield.data.convert.mixed import as_table, encoded
from hiddenfield.data.convert.parts import Survey, survey
from hiddenfield.data.documents import Documents, as_documents
from hiddenfield.data.paths import inner_suffix
from hiddenfield.data.table import Table, TableColumn
from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.estimators import LATENT, LatentEstimator
from hiddenfield.estimators.sequence_inputs import read_sequences
from hiddenfield.estimators.sizes import CRITERIA
from hiddenfield.learning.shards import Shards
from hiddenfield.learning.starts import MOST_ROWS
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Bool, Float, Int

TABLES = (".csv", ".tsv", ".parquet", ".feather")
"""Suffixes of files with a row for each step of sequences."""

MOST_CELLS = 20_000_000
"""Cells of a table of Parquet files that is read into memory; larger ones are learned from shard by shard."""


@dataclass(frozen=True)
class LearnPlan:
    """Settings of a run; a run that is resumed must be given the same.

    Parameters
    ----------
    model
        A name of `hiddenfield.estimators.LATENT`.
    sizes
        Sizes to try (components, states or factors); empty for the model's default.
    criterion
        One of `hiddenfield.estimators.sizes.CRITERIA`, by which a size is chosen.
    parameters
        Those of the estimator that are not left at their defaults.
    targets
        Columns that are predicted, where the model predicts any.
    reader
        Options with which the data were read.
    seed
        Of everything random.
    """

    model: str
    sizes: Sequence[int] = ()
    criterion: str = "bic"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    targets: Sequence[str] = ()
    reader: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        choose("criterion", CRITERIA, self.criterion)
        LATENT.choose(self.model)
        if any(size < 1 for size in self.sizes):
            raise InputError(f"sizes must be at least 1, got {list(self.sizes)}")

    @property
    def kind(self) -> type[LatentEstimator]:
        """The class of the estimator."""
        return LATENT.choose(self.model)

    @property
    def size_parameter(self) -> str | None:
        """The parameter that is the size of the model, if it has one."""
        name = self.kind._size
        return name if name in self.kind._get_param_names() else None


@dataclass(frozen=True, eq=False)
class LearnData:
    """A table as a model takes it.

    Parameters
    ----------
    table
        All columns; of a table in shards some of the rows.
    used
        Names of those that the model takes: all, or those that hold numbers.
    targets
        Names of those that are predicted.
    sequence
        The name of the column that says which sequence a row belongs to; the table has it as ids.
    structures
        Sequences, trees or documents that did not come as a table.
    lengths
        Of sequences and trees.
    left_out
        Columns that the model does not take, and why.
    note
        What the model takes for granted, as nothing else was said.
    shards, whole
        The parts of a table that is not read into memory as a whole, and what they hold.
    """

    table: Table
    used: tuple[str, ...]
    targets: tuple[str, ...] = ()
    sequence: str | None = None
    structures: Structures | Documents | None = None
    lengths: Int[Array, " sequences"] | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    shards: Shards | None = None
    whole: Survey | None = None

    @classmethod
    def of_sequences(cls, source: Any, plan: LearnPlan) -> LearnData:
        """Read sequences: a table with a row for each step, or any format of sequences and trees."""
        named, missing = plan.reader.get("id"), tuple(plan.parameters.get("missing", ()))
        if is_table(source):
            if _in_shards(source) is not None:
                raise TooLargeError(
                    f"{plan.model} takes whole sequences; in a table of more than {MOST_CELLS:,} cells they may lie in "
                    "several shards; in Python give the estimator Shards of whole sequences, or learn from fewer rows"
                )
            table = as_table(source, **plan.reader)
            data = replace(cls.of(table, plan), sequence=named)
            given = read_sequences(data.inputs()["X"], sequence=named)
            return replace(data, lengths=np.diff(given.forest.structure_ptr))
        pack = read(source)
        given = read_sequences(pack, missing=missing)
        rest = {name: value for name, value in plan.reader.items() if name != "id"}
        table = as_table(given.source, **rest)
        return cls(table, table.names, (), None, pack, np.diff(given.forest.structure_ptr))

    @classmethod
    def of_documents(cls, source: Any) -> LearnData:
        """Read documents; the table has what there is to say of each."""
        documents = as_documents(source)
        columns = tuple(TableColumn(name, "count") for name in ("tokens", "different words"))
        values = np.column_stack([documents.lengths, np.diff(documents.counts.indptr)]).astype(np.float64)
        table = Table(values, columns, documents.ids)
        return cls(table, table.names, structures=documents)

    @classmethod
    def of(cls, table: Table, plan: LearnPlan) -> LearnData:
        """Choose the columns that a model can take and from which something can be learned."""
        kind, targets = plan.kind, plan.targets
        for name in targets:
            choose("column", dict.fromkeys(table.names), name)
        left_out = {
            column.name: reason
            for j, column in enumerate(table.columns)
            if (reason := _why_left_out(column, table.values[~table.missing[:, j], j], plan))
        }
        if wrong := [name for name in targets if name in left_out]:
            raise InputError(
                f"target {wrong[0]!r} cannot be predicted by {kind.__name__}, as {left_out[wrong[0]]}"
            )
        used = tuple(name for name in table.names if name not in (*left_out, *targets))
        if not used:
            reasons = "; ".join(
                f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''}: {reason}"
                for reason in dict.fromkeys(left_out.values())
                for names in [[repr(name) for name, own in left_out.items() if own == reason]]
            )
            raise InputError(
                f"{kind.__name__} can learn from no column of this table ({reasons}); use mixed_mixture, or other data"
            )
        if get_tags(kind()).target_tags.required and not targets:
            raise InputError(
                f"{kind.__name__} predicts columns from others; name what is predicted with targets"
            )
        taken, note = LATENT.facts(plan.model).get("unstructured"), ""
        if taken and len(used) > 1 and not {"structure", "features"} & {*plan.parameters}:
            note = f"no structure is given: {taken}; name the file of one with structure (-p structure=FILE)"
        return cls(table, used, tuple(targets), left_out=left_out, note=note)

    @classmethod
    def of_shards(cls, shards: Shards, plan: LearnPlan) -> LearnData:
        """Pass over shards once, to say what they hold and to have rows of all of them."""
        if plan.targets:
            raise TooLargeError(
                f"{plan.model} takes targets of rows in memory, and this table has more than {MOST_CELLS:,} cells; "
                "use factor_analysis, which predicts any column from all others, or learn from fewer rows"
            )
        if plan.criterion == "cross_validation":
            raise TooLargeError(
                f"cross_validation holds out rows in memory, and this table has more than {MOST_CELLS:,} cells; "
                "choose bic, aic or icl"
            )
        total = sum(rows for _, _, rows, _ in shards.parts)
        some = np.random.default_rng(plan.seed).choice(total, min(total, MOST_ROWS), replace=False)
        found = survey(shards, np.sort(some), **plan.reader)
        data = cls.of(found.sample, plan)

        def encode(part: Any) -> Any:
            return encoded(as_table(part, like=data.table.select(data.used).columns))

        opened = Shards(shards.parts, shards.open, None).map(encode)
        return replace(data, shards=replace(opened, first=data.shown()["X"]), whole=found)

    @cached_property
    def _patterns(self) -> Any:
        return self.table.patterns()

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.table) if self.whole is None else self.whole.rows

    @cached_property
    def missing(self) -> Int[Array, " columns"]:
        """How many cells each column misses."""
        return self.table.missing.sum(axis=0) if self.whole is None else self.whole.missing

    @property
    def patterns(self) -> tuple[Bool[Array, "patterns columns"], Int[Array, " patterns"]]:
        """The patterns of missingness, which columns each has, and how many rows have it, frequent ones first."""
        found = self._patterns if self.whole is None else self.whole
        return found.observed, found.counts

    def inputs(self) -> dict[str, Any]:
        """Return X and, where there are targets, y."""
        return self.shown() if self.shards is None else {"X": self.shards}

    def shown(self) -> dict[str, Any]:
        """Return the same of the rows in memory, which pictures are made of."""
        if self.structures is not None:
            return {"X": self.structures}
        X = encoded(self.table.select(self.used))
        if self.sequence is not None:
            assert self.table.ids is not None
            X = X.append_column(self.sequence, [self.table.ids.tolist()])
        return {"X": X, "y": self.table.select(self.targets).values} if self.targets else {"X": X}

    def kinds(self) -> dict[str, str]:
        """Return what each column that is used was taken for."""
        return {column.name: column.kind for column in self.table.columns if column.name in self.used}


def is_table(source: Any) -> bool:
    """Return whether this is a table, or a file or folder of one, rather than a file of sequences or trees."""
    if not isinstance(source, (str, Path)):
        return True
    return inner_suffix(Path(source)) in TABLES or any(Path(source).glob("*.parquet"))


def read_data(source: Any, plan: LearnPlan) -> LearnData:
    """Read a table or sequences, or a file of them, as the model of a plan takes them."""
    kind = LATENT.facts(plan.model)["data"]
    if kind == "sequences":
        return LearnData.of_sequences(source, plan)
    if kind == "documents":
        if refused := [*plan.reader, *(["target"] if plan.targets else [])]:
            raise InputError(
                f"documents are counts of words, not columns of a table; leave out: {', '.join(refused)}"
            )
        return LearnData.of_documents(source)
    if (shards := _in_shards(source)) is not None:
        return LearnData.of_shards(shards, plan)
    return LearnData.of(as_table(source, **plan.reader), plan)


def _in_shards(source: Any) -> Shards | None:
    """Return the row groups of Parquet files that are too large together to be read."""
    if not isinstance(source, (str, Path)) or not is_table(source):
        return None
    path = Path(source)
    if path.is_file() and inner_suffix(path) != ".parquet":
        return None
    from pyarrow import parquet

    shards = Shards.parquet(path)
    width = parquet.read_schema(shards.parts[0][0])
    return shards if sum(rows for _, _, rows, _ in shards.parts) * len(width) > MOST_CELLS else None


def _why_left_out(column: TableColumn, seen: Float[Array, " values"], plan: LearnPlan) -> str:
    """Say why a model does not take a column, of which these values are known; nothing where it does."""
    if not len(seen):
        return "there are no values"
    if column.vocabulary is not None:
        return "" if get_tags(plan.kind()).input_tags.categorical else "the model takes numbers"
    if LATENT.facts(plan.model).get("symbols"):
        # A structure names the columns that it needs.
        whole = column.kind == "count" or "structure" in plan.parameters
        return "" if whole else "the model takes symbols"
    constant = column.kind == "continuous" and not plan.kind._takes_constants and (seen == seen[0]).all()
    return "there is a single value" if constant else ""
