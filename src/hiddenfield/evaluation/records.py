"""Records of measurements: typed, written as JSON, and read back by one loader that names the file and the place."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from hiddenfield.data.paths import read_text, write_text
from hiddenfield.errors import InputError, ReadError

R = TypeVar("R")

FLAT_LIST = re.compile(r"\[(\n[^\[\]{}]*\n\s*)\]")

Interval = Annotated[list[float], msgspec.Meta(min_length=2, max_length=2)]
"""Lower and upper bound."""

Metrics = dict[str, float | None]
"""Values of metrics by name; None where a metric is not defined."""

CONSTANT = ("mean predictor", "class frequencies")
"""Names of the baselines that see nothing of the structures."""

MetricName = Literal["accuracy", "balanced_accuracy", "roc_auc", "mae", "rmse", "r2"]


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of all records. Fields with a default are left out of the JSON where they have it."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, as they are written."""
        return dict(msgspec.to_builtins(self))


class Summary(Record, frozen=True):
    """Mean over the folds, standard deviation (n - 1; None for one fold), 95 % interval of the mean."""

    mean: float
    std: float | None
    interval: Interval | None


class ComparisonRecord(Record, frozen=True):
    """Difference to another model, and the verdict: ``"better"``, ``"worse"`` or ``"not told apart"``."""

    difference: float | None
    interval: Interval | None
    p_value: float | None
    verdict: str
    method: str | None = None


class BaselineRecord(Summary, frozen=True):
    """A baseline on the same splits, fold by fold, how the assessed model compares with it, and what was chosen."""

    folds: list[float]
    metrics: Metrics | None = None
    num_parameters: int | None = None
    model_against_it: ComparisonRecord | None = None
    seconds: float | None = None
    note: str = ""


class FoldRecord(Record, frozen=True):
    """One outer split: value (mean over the seeds), sizes of its parts, selected parameters, epochs kept.

    Of the `train` structures, `validation` are those that the split holds out to choose settings or the epoch.
    """

    name: str
    value: float
    seeds: list[float]
    metrics: Metrics
    train: int
    test: int
    selected: dict[str, Any]
    epochs: list[int] | None = None
    validation: int | None = None


class Counts(Record, frozen=True, rename={"without_target": "without target", "in_no_split": "in no split"}):
    """Numbers of structures: with a target, without one, in some test part, in no part of any split."""

    used: int
    without_target: int
    tested: int | None = None
    in_no_split: int | None = None


class Protocol(Record, frozen=True):
    """How the assessment was done; ``text`` is for a reader, ``data`` and ``splits`` are fingerprints."""

    text: str
    split: str
    folds: int
    nested: bool
    inner: str | None
    candidates: list[dict[str, Any]]
    seeds: int
    seed: int
    test_share: float
    interval: str
    data: str
    splits: str
    note: str | None = None


class LeakageRecord(Record, frozen=True):
    """Test structures that have a copy in the training part of their split, and the means without them."""

    count: int
    share: float
    contradicting: int
    folds: list[int]
    ids: list[list[str]]
    mean_without: float | None
    metrics_without: Metrics | None = None


class TrainingCurve(Record, frozen=True):
    """Means over folds and seeds after each epoch; `metric` names the column to look at."""

    metric: str
    epochs: list[int]
    steps: list[int]
    runs: list[int]
    train_loss: list[float | None] | None = None
    valid_accuracy: list[float | None] | None = None
    valid_balanced_accuracy: list[float | None] | None = None
    valid_loss: list[float | None] | None = None
    valid_mae: list[float | None] | None = None
    valid_r2: list[float | None] | None = None
    valid_rmse: list[float | None] | None = None
    valid_roc_auc: list[float | None] | None = None


class RocCurve(Record, frozen=True):
    """True positive rates, their deviation over the folds (None for one fold), and the pooled area."""

    true_positive: list[float]
    std: list[float] | None
    auc: float


class Roc(Record, frozen=True):
    """ROC curve of the model at the rates `false_positive`, and those of the baselines."""

    positive: str
    false_positive: list[float]
    true_positive: list[float]
    std: list[float] | None
    auc: float
    baselines: dict[str, RocCurve]


class ErrorRange(Record, frozen=True):
    """Errors of a number in one range of the target; None in a range without an entry."""

    low: float
    high: float
    count: int
    mae: float | None
    bias: float | None


class LearningPoint(Record, frozen=True):
    """Values on all folds after fitting to a share of the training structures."""

    share: float
    train: float
    values: list[float]
    baselines: dict[str, list[float | None]]


class AsPublished(Record, frozen=True):
    """The result of selecting settings, and the epoch if there is one, on the reported folds: too good."""

    mean: float
    std: float | None
    folds: list[float]
    selected: dict[str, Any]
    epoch: int | None
    text: str


class Assessment(Record, frozen=True, kw_only=True):
    """Estimate of how good a model is on structures that it has not seen, and all that is needed to judge it.

    Parameters
    ----------
    metric
        Name of the metric that is reported.
    mean, std, interval
        Mean over the folds, standard deviation over the folds, 95 % interval of the mean.
    metrics, intervals
        Means of all metrics of the task; of a single split also their 95 % intervals, None where one is not defined.
    task, target, model
        Kind of task, what is predicted, by what.
    structures, folds, protocol
        Counts, results by fold, and how it was done.
    baselines
        By name.
    leakage
        Copies of test structures in training; None for a table of features.
    num_parameters, training_curve
        Of networks.
    roc, ranges
        Of two classes, and of a number.
    learning_curve, as_published
        Where they were requested.
    command
        The command line, where it was one.
    seconds
        Wall-clock time; of a model that was fitted before, the time that took.
    """

    metric: MetricName
    mean: float
    std: float | None
    interval: Interval | None
    metrics: Metrics
    task: str
    target: str
    model: str
    structures: Counts
    folds: list[FoldRecord]
    protocol: Protocol
    baselines: dict[str, BaselineRecord]
    leakage: LeakageRecord | None
    num_parameters: int | None = None
    training_curve: TrainingCurve | None = None
    roc: Roc | None = None
    ranges: list[ErrorRange] | None = None
    learning_curve: list[LearningPoint] | None = None
    as_published: AsPublished | None = None
    command: str | None = None
    intervals: dict[str, Interval | None] = msgspec.field(default_factory=dict)
    seconds: float

    @property
    def values(self) -> list[float]:
        """The metric, fold by fold."""
        return [fold.value for fold in self.folds]

    @property
    def constant(self) -> BaselineRecord | None:
        """The mean of the training targets or, for classes, their frequencies, where baselines were fitted."""
        return next((self.baselines[name] for name in CONSTANT if name in self.baselines), None)

    @property
    def best_baseline(self) -> str | None:
        """The best of the baselines that see something of the structures; None where none was fitted."""
        sign = 1.0 if self.metric in ("mae", "rmse") else -1.0
        others = [name for name in self.baselines if name not in CONSTANT]
        return min(others, key=lambda name: sign * self.baselines[name].mean, default=None)

    @classmethod
    def read(cls, path: str | Path) -> Assessment:
        """Read the assessment of one target: what ``evaluate`` or ``fit`` printed with ``--json``, or their folder."""
        found = Assessments.read(path)
        if len(found.targets) != 1:
            names = ", ".join(found.targets) or "none"
            raise ReadError(
                f"holds assessments of {len(found.targets)} targets ({names}); name a file of one", file=path
            )
        return next(iter(found.targets.values()))

    def __repr__(self) -> str:
        """Metric, mean, deviation and protocol on one line."""
        spread = "" if self.std is None else f" ± {self.std:.4g}"
        return f"Assessment({self.metric} {self.mean:.4g}{spread}; {self.protocol.text})"


class PartSizes(Record, frozen=True):
    """Numbers of training, validation and test structures, and of those that were left out."""

    train: int
    validation: int
    test: int
    without_target: int = 0


class SplitRecord(Record, frozen=True):
    """Positions of the training, validation and test structures of a fit."""

    train: list[int]
    validation: list[int]
    test: list[int]


class FittedModel(Record, frozen=True):
    """The model that ``hiddenfield fit`` keeps, and how it was learned.

    Parameters
    ----------
    task, model
        Kind of task, and the embedded algorithm.
    structures
        Sizes of the parts; structures without any target are left out.
    num_parameters
        Number of trained weights, of all networks.
    epochs, best_epoch
        Of each network: epochs trained, and the one whose weights were kept.
    settings
        Those of training, with ``"auto"`` resolved.
    blend
        Shares of the networks and of models on counts in a prediction.
    """

    task: str
    model: str
    structures: PartSizes
    num_parameters: int
    epochs: list[int]
    best_epoch: list[int]
    settings: dict[str, Any]
    blend: dict[str, float] = msgspec.field(default_factory=dict)


class TargetMean(Record, frozen=True):
    """Mean of a metric over the targets for which it was measured; the deviation is that between targets."""

    metric: str
    targets: int
    mean: float
    std: float | None


class Assessments(Record, frozen=True):
    """Assessments by target: of one model after the other, or of one that ``hiddenfield fit`` fitted to all.

    Parameters
    ----------
    targets
        The structures that each is about are those that have it: ``targets[name].structures.used``.
    failed
        Targets that could not be assessed, with the reason.
    means
        Over the targets, for each metric.
    command
        The command line, where it was one.
    warnings
        What a person must know before using the fitted model.
    fitted
        The model of a fit.
    """

    targets: dict[str, Assessment]
    failed: dict[str, str]
    means: list[TargetMean]
    command: str | None = None
    warnings: list[str] = msgspec.field(default_factory=list)
    fitted: FittedModel | None = None

    @classmethod
    def of(cls, targets: Mapping[str, Assessment], failed: Mapping[str, str], **further: Any) -> Assessments:
        """Return assessments of several targets with their means."""
        means = []
        for metric in dict.fromkeys(one.metric for one in targets.values()):
            values = [one.mean for one in targets.values() if one.metric == metric]
            std = stdev(values) if len(values) > 1 else None
            means.append(TargetMean(metric, len(values), fmean(values), std))
        return cls(dict(targets), dict(failed), means, **further)

    @classmethod
    def read(cls, path: str | Path) -> Assessments:
        """Read what ``evaluate`` or ``fit`` printed with ``--json``, or what their folder holds, of any targets."""
        file, what = Path(path), "a finished assessment; name what evaluate or fit wrote with --out or --json"
        inner = file / "assessment.json"
        if file.is_dir() and not inner.exists():
            raise ReadError(f"does not hold {what}", file=file)
        file = inner if file.is_dir() else file
        content = read_record(file, dict, what)
        if "targets" in content:
            return convert(content, cls, what, file)
        one = convert(content, Assessment, what, file)
        return cls.of({one.target: one}, {}, command=one.command)


def convert(content: Any, kind: type[R], what: str, file: str | Path | None = None) -> R:
    """Return plain values as a record; what does not fit is a `ReadError` that names the place.

    Parameters
    ----------
    content
        Plain values.
    kind
        The type of the record.
    what
        What it should be, for the error.
    file
        Where the values come from.

    Examples
    --------
    >>> convert({"mean": "0.5", "std": None}, Summary, "a summary", "x.json")
    Traceback (most recent call last):
    hiddenfield.errors.ReadError: x.json: is not a summary (Expected `float`, got `str` - at `$.mean`)
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise ReadError(_not(what, error), file=file) from None


def read_record(file: str | Path, kind: type[R], what: str) -> R:
    """Read a record from a file of JSON; what does not fit is a `ReadError` that names the file and the place."""
    try:
        return msgspec.json.decode(read_text(file), type=kind)
    except msgspec.DecodeError as error:
        raise ReadError(_not(what, error), file=file) from None


def _not(what: str, error: Exception) -> str:
    name, semicolon, remedy = what.partition(";")
    return f"is not {name} ({error}){semicolon}{remedy}"


def finite(value: float) -> float | None:
    """Return None for what JSON has no number for."""
    return float(value) if math.isfinite(value) else None


def finite_metrics(metrics: Mapping[str, float]) -> Metrics:
    """Return the metrics as they are written, None for those that are not defined."""
    return {name: finite(value) for name, value in metrics.items()}


def write_json(file: Path, content: Any) -> None:
    """Write JSON, whole or not at all, even if several processes write the same file; NaN is refused."""
    text = json.dumps(content, indent=1, allow_nan=False, default=msgspec.to_builtins)
    # A line break in JSON is never part of a value: lists of plain values come on one line, to be read and compared.
    text = FLAT_LIST.sub(lambda found: "[" + re.sub(r"\s*\n\s*", " ", found[1]).strip() + "]", text)
    write_text(file, text + "\n")


def claim_folder(folder: Path, name: str, plan: Mapping[str, Any], what: str, *, resume: bool) -> bool:
    """Take a folder for one plan, which is kept in the file `name`; return whether the folder was new.

    Parameters
    ----------
    folder
        New or empty; with `resume` one of the same plan.
    name
        Of the file that keeps the plan.
    plan
        Everything that the results depend on, in terms that JSON knows.
    what
        What the plan is of, for errors.
    resume
        Whether to continue with what is there.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder")
    fresh = not folder.exists() or not any(folder.iterdir())
    plan = json.loads(json.dumps(plan))
    if not fresh and not resume:
        raise InputError(
            f"{folder} is not empty; choose another folder, or go on with what is there with resume"
        )
    if not fresh:
        before = read_record(folder / name, dict, f"the plan of {what}; choose another folder")
        if before != plan:
            key, there, here = _first_difference(before, plan)
            raise InputError(
                f"{folder} is of {what} with {key} {there}, not {here}; give the same, or choose another folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / name, plan)
    return fresh


def _first_difference(before: Any, after: Any, name: str = "") -> tuple[str, str, str]:
    """Return where two plans differ first, and both values from where they differ, shortened.

    Examples
    --------
    >>> _first_difference({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}})
    ('a.b[1]', '2', '3')
    >>> _first_difference({"a": "x" * 200 + "1"}, {"a": "x" * 200 + "2"})[1:]
    ('...xxxxxxxxxxxxxxxxxxxx1"', '...xxxxxxxxxxxxxxxxxxxx2"')
    """
    if isinstance(before, dict) and isinstance(after, dict):
        key = min(key for key in {*before, *after} if before.get(key) != after.get(key))
        return _first_difference(before.get(key), after.get(key), f"{name}.{key}" if name else key)
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        place = next(k for k, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1])
        return _first_difference(before[place], after[place], f"{name}[{place}]")
    texts = json.dumps(before), json.dumps(after)
    start = next(
        (k for k, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1]), min(map(len, texts))
    )
    cut = max(0, start - 20) if max(map(len, texts)) > 120 else 0
    there, here = ("..." * (cut > 0) + text[cut:] for text in texts)
    there, here = (text if len(text) <= 120 else text[:117] + "..." for text in (there, here))
    return name, there, here
