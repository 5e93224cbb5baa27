"""Cells: the pieces of an assessment that can be done apart, each a function of the context and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.errors import HiddenfieldError, InputError, TrainingError
from hiddenfield.evaluation.assessment.measuring import Metric, finite, measured, predicted
from hiddenfield.evaluation.assessment.problem import Problem
from hiddenfield.evaluation.assessment.simple import BLIND, constant_row, simple_models
from hiddenfield.evaluation.assessment.training import training_records
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.evaluation.splits.drawn import hold_out_positions
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Int

__all__ = ["Cell", "Context", "accepts_aside", "without_arcs", "work", "work_together"]

# Of simple models, predictions of so many test structures are kept.
MOST_KEPT = 300_000


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
        Of the colours that simple models count.
    """

    problem: Problem
    estimator: Any
    metric: Metric
    splits: tuple[Split, ...]
    inner: tuple[tuple[Split, ...], ...]
    seed: int = 0
    device: str | None = None
    wl_rounds: Sequence[int] = (3,)

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


def work(context: Context, cell: Cell) -> dict[str, Any]:
    """Do a cell; return plain values."""
    kind = choose("kind of cell", KINDS, cell.kind)
    fitting = kind.fitting(context, cell)
    return kind.result(context, cell, None if fitting is None else fitting.fit())


def work_together(context: Context, cells: Sequence[Cell]) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Do cells whose estimators are networks, as many as possible side by side; yield each as soon as it is done.

    Where some fail, the first error is raised after all the others.
    """
    from hiddenfield.estimators.together import fit_in_parts

    kinds = [choose("kind of cell", KINDS, cell.kind) for cell in cells]
    fittings = [kind.fitting(context, cell) for kind, cell in zip(kinds, cells, strict=True)]
    several = [fitting for fitting in fittings if fitting is not None]
    error: HiddenfieldError | None = None
    for place, model in fit_in_parts([f.model for f in several], [(f.X, f.y, f.aside) for f in several]):
        try:
            result = kinds[place].result(context, cells[place], model)
        except HiddenfieldError as failure:
            error = error or failure
        else:
            yield cells[place], result
    if error is not None:
        raise error


@dataclass(frozen=True, eq=False)
class Fitting:
    """An estimator and what it is to be fitted to."""

    model: Any
    X: Any
    y: Any
    aside: Int[Array, " aside"] | None

    def fit(self) -> Any:
        """Return the fitted estimator, or the error if training failed."""
        try:
            return (
                self.model.fit(self.X, self.y)
                if self.aside is None
                else self.model.fit(self.X, self.y, aside=self.aside)
            )
        except TrainingError as error:
            return error


@dataclass(frozen=True)
class Kind:
    """A kind of cell: what is fitted, and what is then measured."""

    fitting: Callable[[Context, Cell], Fitting | None]
    result: Callable[[Context, Cell, Any], dict[str, Any]]


# -- the kinds ---------------------------------------------------------------------------------------------


def _fit_select(context: Context, cell: Cell) -> Fitting:
    """Fit a candidate to the inner training part."""
    inner = context.inner[cell.fold][cell.inner]
    return _fitting(context, cell, inner.train, inner.test)


def _select(context: Context, cell: Cell, model: Any) -> dict[str, Any]:
    """Measure a candidate on the inner validation part."""
    if isinstance(model, TrainingError):
        return {"value": None, "error": str(model)}
    inner, problem = context.inner[cell.fold][cell.inner], context.problem
    values = predicted(model, problem.take(inner.test), problem)
    return {"value": measured(context.metric, problem.truth[inner.test], values)[context.metric.name]}


def _fit_final(context: Context, cell: Cell) -> Fitting:
    """Fit to the training part, the epoch chosen on an inner validation part."""
    split, inner = context.splits[cell.fold], context.inner[cell.fold]
    # Whatever selected the settings, stopping is decided by the same structures, or another part of them for each seed.
    aside = inner[cell.seed % len(inner)].test if inner and accepts_aside(context.estimator) else None
    train = split.train if aside is None else np.setdiff1d(split.train, aside)
    return _fitting(context, cell, train, aside)


def _final(context: Context, cell: Cell, model: Any) -> dict[str, Any]:
    """Measure on the test part."""
    split, problem = context.splits[cell.fold], context.problem
    values = predicted(_sound(model), problem.take(split.test), problem)
    return {
        "metrics": measured(context.metric, problem.truth[split.test], values),
        **values.as_dict(),
        **_of_networks(model),
    }


def _of_networks(model: Any) -> dict[str, Any]:
    """Return what an estimator of networks tells about their training: epochs kept, weights, curves."""
    result: dict[str, Any] = {}
    if hasattr(model, "histories_"):
        result["epochs"] = [history.best_epoch for history in model.histories_]
    if hasattr(model, "networks_"):
        result["num_parameters"] = sum(network.num_parameters for network in model.networks_)
    records = training_records(model)
    return result if records is None else result | {"training": records}


def _fit_blind(context: Context, cell: Cell) -> Fitting:
    """Do as the final cell does, on structures without arcs."""
    return _fit_final(context.without_arcs, _blind_cell(cell))


def _blind(context: Context, cell: Cell, model: Any) -> dict[str, Any]:
    """Measure on the test part, on structures without arcs."""
    return _final(context.without_arcs, _blind_cell(cell), model)


def _blind_cell(cell: Cell) -> Cell:
    parameters = {k: v for k, v in cell.parameters.items() if k not in BLIND} | BLIND
    return Cell("final", cell.fold, parameters, cell.seed)


def _fit_nothing(context: Context, cell: Cell) -> None:
    """Leave the fitting to the measuring: simple models are quick."""


def _simple(context: Context, cell: Cell, model: None) -> dict[str, Any]:
    """Fit the simple models to the training part; measure them on the test part."""
    split = context.splits[cell.fold]
    train = _part_of(context, cell, split.train)
    scores = simple_models(context.problem, train, split.test, context.wl_rounds)
    result: dict[str, Any] = {
        "scores": {score.name: score.as_dict()["metrics"] for score in scores},
        "num_parameters": {score.name: score.parameters for score in scores},
    }
    last = scores[-1]
    if cell.fraction == 1.0 and last.predictions is not None and len(context.problem.classes or ()) == 2:
        # Of the one that sees most, for its ROC curve.
        result["predictions"] = {last.name: last.predictions[:, 1].round(6).tolist()}
    if cell.fraction == 1.0 and len(context.splits) == 1 and len(split.test) <= MOST_KEPT:
        # A single split has no other folds: what these models are worth is told from its test structures.
        result["tables"] = {
            score.name: (
                constant_row(context.problem, train) if score.predictions is None else score.predictions
            ).tolist()
            for score in scores
        }
    return result


def _fit_curve(context: Context, cell: Cell) -> Fitting:
    """Fit to a share of the training part."""
    return _fitting(context, cell, _part_of(context, cell, context.splits[cell.fold].train), None)


def _curve(context: Context, cell: Cell, model: Any) -> dict[str, Any]:
    """Measure on the test part what was fitted to a share of the training part."""
    split, problem = context.splits[cell.fold], context.problem
    values = predicted(_sound(model), problem.take(split.test), problem)
    size = len(_part_of(context, cell, split.train))
    return {"size": size, "metrics": measured(context.metric, problem.truth[split.test], values)}


def _fit_published(context: Context, cell: Cell) -> Fitting:
    """Fit to the training part with the *test* part for validation."""
    split = context.splits[cell.fold]
    return _fitting(context, cell, split.train, split.test)


def _published(context: Context, cell: Cell, model: Any) -> dict[str, Any]:
    """Record the metric on the *test* part after every epoch: what selection on the reported folds looks at."""
    name = f"valid_{context.metric.name}"
    rows = [history.rows for history in getattr(_sound(model), "histories_", [])]
    if not rows or any(name not in row for row in rows[0]):
        raise InputError(
            f"selection on the reported folds needs {context.metric.name} after every epoch, which this estimator does "
            f"not record; metrics that are: accuracy, roc_auc, mae, rmse"
        )
    return {"curve": [finite(row[name]) for row in rows[0]]}


KINDS: dict[str, Kind] = {
    "select": Kind(_fit_select, _select),
    "final": Kind(_fit_final, _final),
    "blind": Kind(_fit_blind, _blind),
    "simple": Kind(_fit_nothing, _simple),
    "curve": Kind(_fit_curve, _curve),
    "published": Kind(_fit_published, _published),
}


# -- fitting -----------------------------------------------------------------------------------------------


def accepts_aside(estimator: Any) -> bool:
    """Say whether an estimator can be told which structures to choose the epoch on."""
    return "aside" in inspect.signature(estimator.fit).parameters


def _fitting(
    context: Context, cell: Cell, train: Int[Array, " train"], aside: Int[Array, " aside"] | None
) -> Fitting:
    """Make a new estimator, with a seed that depends on the fold and the seed's number alone."""
    model = _prepared(context, cell)
    problem = context.problem
    if aside is None or not accepts_aside(model):
        return Fitting(model, problem.take(train), problem.y[train], None)
    both = np.concatenate([train, aside])
    return Fitting(model, problem.take(both), problem.y[both], np.arange(len(train), len(both)))


def _sound(model: Any) -> Any:
    """Return a fitted estimator; raise the error if its training failed."""
    if isinstance(model, TrainingError):
        raise model
    return model


def _prepared(context: Context, cell: Cell) -> Any:
    from sklearn.base import clone

    model = clone(context.estimator)
    known = model.get_params()
    for name in cell.parameters:
        if name not in known:
            raise InputError(
                f"{type(model).__name__} has no parameter {name!r}; its parameters are: {', '.join(sorted(known))}"
            )
    state = int(np.random.default_rng([context.seed, cell.fold, cell.seed]).integers(2**31 - 1))
    seeds = {name: state for name in known if name.split("__")[-1] == "random_state"}
    places = {name: context.device for name in known if name.split("__")[-1] == "device"}
    return model.set_params(**cell.parameters, **seeds, **(places if context.device else {}))


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
