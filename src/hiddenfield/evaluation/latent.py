"""learn_run and impute_run: models with something hidden, learned for a range of sizes and kept in a folder."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from sklearn.utils import get_tags

from hiddenfield.data import Structures, read
from hiddenfield.data.convert.mixed import as_table, to_arrow
from hiddenfield.data.paths import inner_suffix
from hiddenfield.data.table import Table, TableColumn
from hiddenfield.errors import CollapseError, ConvergenceWarning, HiddenfieldError, InputError
from hiddenfield.estimators import LATENT, LatentEstimator, choose_size, load
from hiddenfield.estimators.sequence_inputs import read_sequences
from hiddenfield.estimators.sizes import CRITERIA
from hiddenfield.evaluation.fitting import check_parameters
from hiddenfield.evaluation.records import Record, claim_folder, finite, read_record, write_json
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Int

TABLES = (".csv", ".tsv", ".parquet", ".feather")
"""Suffixes of files with a row for each step of sequences."""

SETTINGS, RESULT, MODEL = "settings.json", "learned.json", "model"


class SizeRecord(Record, frozen=True, kw_only=True):
    """What was learned with one size: its best run, and criteria; with an error where no run has an end."""

    size: int | None
    log_likelihood: float | None = None
    free: int | None = None
    criteria: dict[str, float | None] = msgspec.field(default_factory=dict)
    iterations: int | None = None
    converged: bool = False
    status: str = ""
    error: str | None = None
    warnings: list[str] = msgspec.field(default_factory=list)


class LearnRecord(Record, frozen=True, kw_only=True):
    """What ``learned.json`` of a run holds."""

    model: str
    rows: int
    columns: list[dict[str, Any]]
    used: list[str]
    targets: list[str]
    missing: int
    size_parameter: str | None
    sizes: list[SizeRecord]
    chosen: int | None
    criterion: str
    seed: int
    command: str | None = None
    sequence: str | None = None
    sequences: int | None = None

    @property
    def best(self) -> SizeRecord:
        """That of the size that was chosen."""
        return next(one for one in self.sizes if one.size == self.chosen)


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
        All columns.
    used
        Names of those that the model takes: all, or those that hold numbers.
    targets
        Names of those that are predicted.
    sequence
        The name of the column that says which sequence a row belongs to; the table has it as ids.
    structures
        Sequences or trees that did not come as a table.
    lengths
        Of sequences and trees.
    left_out
        Columns that the model does not take, and why.
    """

    table: Table
    used: tuple[str, ...]
    targets: tuple[str, ...] = ()
    sequence: str | None = None
    structures: Structures | None = None
    lengths: Int[Array, " sequences"] | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_sequences(cls, source: Any, plan: LearnPlan) -> LearnData:
        """Read sequences: a table with a row for each step, or any format of sequences and trees."""
        named, missing = plan.reader.get("id"), tuple(plan.parameters.get("missing", ()))
        if is_table(source):
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
        return cls(table, used, tuple(targets), left_out=left_out)

    def inputs(self) -> dict[str, Any]:
        """Return X and, where there are targets, y."""
        if self.structures is not None:
            return {"X": self.structures}
        X = to_arrow(self.table.select(self.used))
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
    if LATENT.facts(plan.model).get("data") == "sequences":
        return LearnData.of_sequences(source, plan)
    return LearnData.of(as_table(source, **plan.reader), plan)


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


def learn_run(
    data: LearnData,
    folder: str | Path,
    plan: LearnPlan,
    *,
    resume: bool = False,
    verbose: bool = False,
    command: str | None = None,
) -> LearnRecord:
    """Learn a model for each of several sizes, choose one, and keep it in a folder.

    The folder then holds ``model/`` (that `hiddenfield.load` opens), ``learned.json``, ``settings.json``, and a folder
    for each size with its model. What is finished is never done again, and runs of EM go on where they were: however
    often it is interrupted, the result is the same.

    Parameters
    ----------
    data
        What is learned from.
    folder
        New or empty; with `resume` that of a run that was interrupted.
    plan
        What to do.
    resume
        Whether to go on with what is there.
    verbose
        Whether progress is shown.
    command
        The command line, for the record.
    """
    folder, parameter = Path(folder), plan.size_parameter
    check_parameters(plan.parameters, plan.kind, plan.kind._get_param_names())
    if data.lengths is not None and plan.criterion == "cross_validation" and data.structures is None:
        raise InputError(
            "cross_validation holds out rows, and those of a sequence belong together; choose bic, aic or icl"
        )
    if plan.sizes and parameter is None:
        raise InputError(f"{plan.model} has no size to choose")
    fresh = claim_folder(folder, SETTINGS, asdict(plan), "a run", resume=resume)
    sizes: list[int | None] = list(plan.sizes)
    if not sizes:
        default = (
            None if parameter is None else plan.parameters.get(parameter, getattr(plan.kind(), parameter))
        )
        sizes = [default]
    try:
        records = [_learn_size(data, folder, plan, size, verbose) for size in sizes]
    except HiddenfieldError:
        if fresh and not any(folder.glob("size-*/*")):
            shutil.rmtree(folder)  # so that a corrected command finds the folder as it was
        raise
    done = [one for one in records if one.error is None]
    if not done:
        if fresh:
            shutil.rmtree(folder)
        raise CollapseError(f"no size could be learned: {records[0].error}")
    sign = -1 if plan.criterion == "cross_validation" else 1
    chosen = min(done, key=lambda one: sign * _criterion(one, plan.criterion)).size
    load(folder / _name(chosen) / MODEL).save(folder / MODEL, overwrite=(folder / MODEL).exists())
    table = data.table
    record = LearnRecord(
        model=plan.model,
        rows=len(table),
        columns=[column.as_dict() for column in table.columns],
        used=list(data.used),
        targets=list(data.targets),
        missing=int(table.missing.sum()),
        size_parameter=parameter,
        sizes=records,
        chosen=chosen,
        criterion=plan.criterion,
        seed=plan.seed,
        command=command,
        sequence=data.sequence,
        sequences=None if data.lengths is None else len(data.lengths),
    )
    write_json(folder / RESULT, record.as_dict())
    return record


def _name(size: int | None) -> str:
    return "size-default" if size is None else f"size-{size}"


def _criterion(one: SizeRecord, name: str) -> float:
    value = one.criteria.get(name)
    if value is None:
        raise InputError(f"there is no {name} of this model; choose another criterion")
    return value


def _learn_size(
    data: LearnData, folder: Path, plan: LearnPlan, size: int | None, verbose: bool
) -> SizeRecord:
    """Learn with one size, or return what was learned before."""
    own = folder / _name(size)
    if (own / RESULT).is_file():
        return read_record(
            own / RESULT, SizeRecord, "the record of a size; remove its folder to learn it again"
        )
    estimator = _estimator(data, plan, checkpoint=own / "checkpoint", verbose=verbose)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            found = choose_size(estimator, sizes=[size], criterion=plan.criterion, **data.inputs())
        except (CollapseError, InputError) as error:
            if isinstance(error, InputError) and len(plan.sizes) < 2:
                raise
            record = SizeRecord(size=size, error=str(error))
            write_json(own / RESULT, record.as_dict())
            return record
    found.best_estimator.save(own / MODEL, overwrite=(own / MODEL).exists())
    best = found.best_estimator.learned_.best
    criteria = {name: float(getattr(found, name)[0]) for name in ("bic", "aic", "icl")}
    criteria["cross_validation"] = float(found.cross_validated[0])
    record = SizeRecord(
        size=size,
        log_likelihood=finite(float(found.log_likelihood[0])),
        free=int(found.num_free[0]),
        criteria={name: finite(value) for name, value in criteria.items() if not np.isnan(value)},
        iterations=best.iterations,
        converged=best.converged,
        status=best.status,
        warnings=sorted({str(one.message) for one in caught if issubclass(one.category, ConvergenceWarning)}),
    )
    write_json(own / RESULT, record.as_dict())
    shutil.rmtree(own / "checkpoint", ignore_errors=True)
    return record


def _estimator(data: LearnData, plan: LearnPlan, **options: Any) -> LatentEstimator:
    own = {"random_state": plan.seed, **plan.parameters, **options}
    names = plan.kind._get_param_names()
    if "kinds" in names and data.structures is None:
        own = {"kinds": data.kinds(), **own}
    if "sequence" in names and data.sequence is not None:
        own = {"sequence": data.sequence, **own}
    return plan.kind(**own)
