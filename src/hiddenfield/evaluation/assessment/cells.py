"""Cells: the independent pieces of an assessment, each a function of the context and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.errors import HiddenfieldError, InputError, TrainingError
from hiddenfield.estimators.cgmm import ContextualGraphMarkovModel
from hiddenfield.evaluation.assessment.problem import Problem
from hiddenfield.evaluation.baselines import problem_baselines
from hiddenfield.evaluation.measuring import Metric, Predictions, Score, measured, predicted, rounded
from hiddenfield.evaluation.records import Metrics, Record, finite, finite_metrics
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.evaluation.splits.drawn import hold_out_positions
from hiddenfield.shapes import Array, Int

# Predictions of baselines are kept for at most so many test structures.
MOST_KEPT = 300_000

# The assessed network with nothing to pass along: what remains is the sum of the node labels and the same head.
BLIND: dict[str, Any] = {"model": "mean_field", "rounds": 1, "model_options": None}
BLIND_NAME = "no arcs, same head"


# -- what a cell leaves behind -----------------------------------------------------------------------------


class SelectResult(Record, frozen=True):
    """The metric of a candidate on an inner validation part; None, and the error, if training failed."""

    value: float | None
    error: str | None = None


class FinalResult(Record, frozen=True):
    """Metrics and predictions on a test part; of networks also epochs kept, number of weights, training curves."""

    metrics: Metrics
    predictions: list[Any]
    labels: list[int] | None = None
    epochs: list[int] | None = None
    num_parameters: int | None = None
    training: list[dict[str, list[float | None]]] | None = None

    def kept(self) -> Predictions:
        """Return the predictions in the form in which metrics take them."""
        return Predictions(
            np.asarray(self.predictions), None if self.labels is None else np.asarray(self.labels)
        )


class BaselineResult(Record, frozen=True):
    """Metrics and sizes of the baselines; scores for a ROC curve; of a single split also predictions and notes."""

    scores: dict[str, Metrics]
    num_parameters: dict[str, int] = msgspec.field(default_factory=dict)
    predictions: dict[str, list[float]] = msgspec.field(default_factory=dict)
    tables: dict[str, list[Any]] = msgspec.field(default_factory=dict)
    seconds: dict[str, float | None] = msgspec.field(default_factory=dict)
    notes: dict[str, str] = msgspec.field(default_factory=dict)


class CurveResult(Record, frozen=True):
    """Metrics on a test part after fitting to `size` training structures."""

    size: int
    metrics: Metrics


class PublishedResult(Record, frozen=True):
    """The metric on the *test* part after every epoch, or of what has no epochs once."""

    curve: list[float | None]


# -- cells -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Context:
    """What all cells share.

    Parameters
    ----------
    problem, estimator, metric
        What is learned, by what, measured how.
    splits
        The outer splits.
    inner
        For each of them the inner ones, as positions in the problem; empty without a selection.
    seed, device
        Of everything random; where estimators compute that can choose.
    wl_rounds
        Of the Weisfeiler-Lehman colours that baselines count.
    shared
        Where estimators whose fits have pieces in common keep these; None for nowhere.
    """

    problem: Problem
    estimator: Any
    metric: Metric
    splits: tuple[Split, ...]
    inner: tuple[tuple[Split, ...], ...]
    seed: int = 0
    device: str | None = None
    wl_rounds: Sequence[int] = (3,)
    shared: Path | None = None

    @cached_property
    def without_arcs(self) -> Context:
        """The same with structures that are bags of their nodes."""
        return replace(self, problem=replace(self.problem, X=without_arcs(self.problem.X)))


@dataclass(frozen=True)
class Cell:
    """One piece of work.

    Parameters
    ----------
    kind
        A name of `KINDS`.
    fold
        Position of the outer split.
    parameters
        Of the estimator.
    seed
        Which of the seeds.
    part
        Which candidate, for those that are selected from.
    inner
        Which inner split.
    fraction
        Share of the training structures that is used.
    """

    kind: str
    fold: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    part: int = 0
    inner: int = 0
    fraction: float = 1.0

    @property
    def key(self) -> str:
        """A name for its file."""
        numbers = f"{self.fold:03d}-{self.part:03d}-{self.inner:02d}-{self.seed:02d}"
        return f"{self.kind}-{numbers}" + ("" if self.fraction == 1.0 else f"-{self.fraction:g}")


def work(context: Context, cell: Cell) -> Record:
    """Do a cell; return its result."""
    kind = KINDS[cell.kind]
    model, (X, y, held_out) = kind.fitting(context, cell)
    try:
        if model is not None:
            model.fit(X, y, **({} if held_out is None else {"held_out": held_out}))
    except TrainingError as error:
        model = error
    return kind.result(context, cell, model)


def work_together(context: Context, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Record]]:
    """Do cells whose estimators are networks, as many as possible side by side; yield each as soon as it is done.

    Where some fail, the first error is raised after all the others.
    """
    from hiddenfield.estimators.base import fit_in_parts

    models, data = zip(*(KINDS[cell.kind].fitting(context, cell) for cell in cells), strict=True)
    error: HiddenfieldError | None = None
    for place, model in fit_in_parts(models, data):
        try:
            result = KINDS[cells[place].kind].result(context, cells[place], model)
        except HiddenfieldError as failure:
            error = error or failure
        else:
            yield cells[place], result
    if error is not None:
        raise error


Fitting = tuple[Any, tuple[Any, Any, Any]]
"""An estimator, and X, y and positions to choose the epoch on, or None, that it is to be fitted to."""


@dataclass(frozen=True)
class Kind:
    """A kind of cell: what is fitted, what is then measured, and the record that it leaves."""

    fitting: Callable[[Context, Cell], Fitting]
    result: Callable[[Context, Cell, Any], Record]
    record: type[Record]


# -- the kinds ---------------------------------------------------------------------------------------------


def _select(context: Context, cell: Cell, model: Any) -> SelectResult:
    """Measure a candidate on the inner validation part."""
    if isinstance(model, TrainingError):
        return SelectResult(None, str(model))
    metrics, _ = _tested(context, context.inner[cell.fold][cell.inner], model)
    return SelectResult(metrics[context.metric.name])


def _fit_final(context: Context, cell: Cell) -> Fitting:
    """Fit to the training part, the epoch chosen on an inner validation part."""
    split, inner = context.splits[cell.fold], context.inner[cell.fold]
    # Whatever selected the settings, stopping is decided by the same structures, or another part of them for each seed.
    held_out = inner[cell.seed % len(inner)].test if inner and accepts_held_out(context.estimator) else None
    train = split.train if held_out is None else np.setdiff1d(split.train, held_out)
    return _fitting(context, cell, train, held_out)


def _final(context: Context, cell: Cell, model: Any) -> FinalResult:
    """Measure on the test part."""
    metrics, found = _tested(context, context.splits[cell.fold], model)
    histories = getattr(model, "histories_", None) or None
    return FinalResult(
        metrics,
        found.values.tolist(),
        None if found.labels is None else found.labels.tolist(),
        None if histories is None else [history.best_epoch for history in histories],
        getattr(model, "num_parameters_", None),
        training_records(histories or ()),
    )


def training_records(histories: Sequence[Any]) -> list[dict[str, list[float | None]]] | None:
    """Return, for every network, the steps done and the losses and metrics after each epoch.

    None where there is no history, or steps were not counted. Times are left out: they differ from run to run.
    """
    if not histories or not all(history.rows and "steps" in history.rows[0] for history in histories):
        return None
    return [
        {
            name: [rounded(row.get(name), 6) for row in history.rows]
            for name in ("steps", "train_loss", *sorted(n for n in history.rows[0] if n.startswith("valid_")))
        }
        for history in histories
    ]


def _fit_blind(context: Context, cell: Cell) -> Fitting:
    """Do as the final cell does, on structures without arcs."""
    return _fit_final(context.without_arcs, replace(cell, parameters={**cell.parameters, **BLIND}))


def _baselines(context: Context, cell: Cell, model: None) -> BaselineResult:
    """Fit the baselines to the training part; measure them on the test part."""
    split = context.splits[cell.fold]
    train = _part_of(context, cell, split.train)
    scores = problem_baselines(context.problem, train, split.test, context.wl_rounds)
    return baseline_result(context, split, scores, cell.fraction == 1.0)


def baseline_result(
    context: Context, split: Split, scores: Sequence[Score], whole: bool = True
) -> BaselineResult:
    """Return scores of baselines as they are kept, with predictions if they were fitted to the whole training part."""
    predictions: dict[str, list[float]] = {}
    tables: dict[str, list[Any]] = {}
    if whole:
        found = {score.name: score.predictions for score in scores if score.predictions is not None}
        name, last = next(reversed(found.items()))
        if len(context.problem.classes or ()) == 2 and len(last) == len(split.test):
            # Of the one that sees most, for its ROC curve.
            predictions[name] = last[:, 1].round(6).tolist()
        if len(context.splits) == 1 and len(split.test) <= MOST_KEPT:
            # A single split has no other folds: intervals come from its test structures.
            tables = {name: values.tolist() for name, values in found.items()}
    return BaselineResult(
        {score.name: finite_metrics(score.metrics) for score in scores},
        {score.name: score.parameters for score in scores},
        predictions,
        tables,
        notes={score.name: score.note for score in scores} if tables else {},
    )


def _curve(context: Context, cell: Cell, model: Any) -> CurveResult:
    """Measure on the test part what was fitted to a share of the training part."""
    split = context.splits[cell.fold]
    return CurveResult(len(_part_of(context, cell, split.train)), _tested(context, split, model)[0])


def _published(context: Context, cell: Cell, model: Any) -> PublishedResult:
    """Record the metric on the *test* part after every epoch: what selection on the reported folds looks at."""
    name = f"valid_{context.metric.name}"
    rows = [history.rows for history in getattr(_sound(model), "histories_", ())]
    if not rows:
        return PublishedResult([_tested(context, context.splits[cell.fold], model)[0][context.metric.name]])
    if any(name not in row for row in rows[0]):
        raise InputError(
            f"selection on the reported folds needs {context.metric.name} after every epoch, which this estimator does "
            f"not record; metrics that are: accuracy, roc_auc, mae, rmse"
        )
    return PublishedResult([finite(row[name]) for row in rows[0]])


# The names are those of the files in a resumable folder. Candidates are fitted to the inner training part and validated
# on the inner validation part; published ones are fitted to the training part and validated on the *test* part. The
# baselines, which are quick, are fitted where they are measured.
KINDS: dict[str, Kind] = {
    "select": Kind(
        lambda c, cell: _validated(c, cell, c.inner[cell.fold][cell.inner]), _select, SelectResult
    ),
    "final": Kind(_fit_final, _final, FinalResult),
    "blind": Kind(_fit_blind, lambda c, cell, model: _final(c.without_arcs, cell, model), FinalResult),
    "simple": Kind(lambda c, cell: (None, (None, None, None)), _baselines, BaselineResult),
    "curve": Kind(
        lambda c, cell: _fitting(c, cell, _part_of(c, cell, c.splits[cell.fold].train)), _curve, CurveResult
    ),
    "published": Kind(lambda c, cell: _validated(c, cell, c.splits[cell.fold]), _published, PublishedResult),
}


# -- fitting -----------------------------------------------------------------------------------------------


def accepts_held_out(estimator: Any) -> bool:
    """Return whether an estimator takes the structures on which to choose the epoch."""
    return "held_out" in inspect.signature(estimator.fit).parameters


def _fitting(
    context: Context, cell: Cell, train: Int[Array, " train"], held_out: Int[Array, " held_out"] | None = None
) -> Fitting:
    """Make a new estimator, with a seed that depends on the fold and the seed's number alone."""
    from sklearn.base import clone

    model, problem = clone(context.estimator), context.problem
    known = model.get_params()
    state = int(np.random.default_rng([context.seed, cell.fold, cell.seed]).integers(2**31 - 1))
    seeds = {name: state for name in known if name.split("__")[-1] == "random_state"}
    places = {name: context.device for name in known if name.split("__")[-1] == "device"}
    pieces = {"checkpoint": context.shared} if isinstance(model, ContextualGraphMarkovModel) else {}
    model.set_params(**cell.parameters, **seeds, **pieces, **(places if context.device else {}))
    if held_out is None or not accepts_held_out(model):
        return model, (problem.take(train), problem.y[train], None)
    both = np.concatenate([train, held_out])
    return model, (problem.take(both), problem.y[both], np.arange(len(train), len(both)))


def _validated(context: Context, cell: Cell, split: Split) -> Fitting:
    """Fit to the training part of a split; the epoch is chosen on its test part."""
    return _fitting(context, cell, split.train, split.test)


def _sound(model: Any) -> Any:
    """Return a fitted estimator; raise the error if its training failed."""
    if isinstance(model, TrainingError):
        raise model
    return model


def _tested(context: Context, split: Split, model: Any) -> tuple[Metrics, Predictions]:
    """Return the metrics and the predictions on the test part of a split."""
    found = predicted(_sound(model), context.problem.take(split.test), context.problem)
    return measured(context.metric, context.problem.truth[split.test], found), found


def _part_of(context: Context, cell: Cell, train: Int[Array, " train"]) -> Int[Array, " part"]:
    """Return a share of the training positions; a larger share holds a smaller one."""
    if cell.fraction == 1.0:
        return train
    codes = context.problem.codes
    drawn = hold_out_positions(
        len(train),
        None if codes is None else codes[train],
        cell.fraction,
        np.random.default_rng([context.seed, cell.fold, 1]),
    )
    part = train[drawn[1]]
    if codes is not None and len(np.unique(codes[part])) < 2:
        raise InputError(
            f"a share of {cell.fraction:g} of the {len(train)} training structures of {context.splits[cell.fold].name} "
            f"is {len(part)}, all of one class; ask for a larger share"
        )
    return part


def without_arcs(structures: Structures) -> Structures:
    """Return the structures as bags of their nodes.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> without_arcs(hf.data.from_sequences(["GATTACA"]))
    Structures(1 structure, 7 nodes, 0 arcs; node labels: symbol (4))
    """
    return structures.replace(
        in_ptr=torch.zeros_like(structures.in_ptr),
        source=structures.source[:0],
        reverse=structures.reverse[:0],
        arc_labels=None,
        arc_vocabularies=(),
        arc_attributes=None,
        arc_attribute_names=(),
    )
