"""Cells: the pieces of an assessment that can be done apart, each a function of the context and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, TrainingError
from hiddenfield.evaluation.assessment.measuring import Metric, finite, measured, predicted
from hiddenfield.evaluation.assessment.problem import Problem
from hiddenfield.evaluation.assessment.simple import BLIND, simple_models
from hiddenfield.evaluation.assessment.training import training_records
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.evaluation.splits.drawn import hold_out_positions
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Int

__all__ = ["Cell", "Context", "accepts_aside", "without_arcs", "work"]


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
    return choose("kind of cell", KINDS, cell.kind)(context, cell)


# -- the kinds ---------------------------------------------------------------------------------------------


def _select(context: Context, cell: Cell) -> dict[str, Any]:
    """Fit a candidate to the inner training part; measure it on the inner validation part."""
    inner, problem = context.inner[cell.fold][cell.inner], context.problem
    try:
        model = _fit(context, cell, inner.train, inner.test)
    except TrainingError as error:
        return {"value": None, "error": str(error)}
    values = predicted(model, problem.take(inner.test), problem)
    return {"value": measured(context.metric, problem.truth[inner.test], values)[context.metric.name]}


def _final(context: Context, cell: Cell) -> dict[str, Any]:
    """Fit to the training part, the epoch chosen on an inner validation part; measure on the test part."""
    split, problem = context.splits[cell.fold], context.problem
    inner = context.inner[cell.fold]
    # Whatever selected the settings, stopping is decided by the same structures, or another part of them for each seed.
    aside = inner[cell.seed % len(inner)].test if inner and accepts_aside(context.estimator) else None
    train = split.train if aside is None else np.setdiff1d(split.train, aside)
    model = _fit(context, cell, train, aside)
    values = predicted(model, problem.take(split.test), problem)
    return {
        "metrics": measured(context.metric, problem.truth[split.test], values),
        "predictions": values.tolist(),
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


def _blind(context: Context, cell: Cell) -> dict[str, Any]:
    """Do as the final cell does, on structures without arcs."""
    problem = context.problem
    changed = replace(context, problem=replace(problem, X=without_arcs(problem.X)))
    parameters = {k: v for k, v in cell.parameters.items() if k not in BLIND} | BLIND
    return _final(changed, Cell("final", cell.fold, parameters, cell.seed))


def _simple(context: Context, cell: Cell) -> dict[str, Any]:
    """Fit the simple models to the training part; measure them on the test part."""
    split = context.splits[cell.fold]
    scores = simple_models(
        context.problem, _part_of(context, cell, split.train), split.test, context.wl_rounds
    )
    result: dict[str, Any] = {
        "scores": {score.name: score.as_dict()["metrics"] for score in scores},
        "num_parameters": {score.name: score.parameters for score in scores},
    }
    last = scores[-1]
    if cell.fraction == 1.0 and last.predictions is not None and len(context.problem.classes or ()) == 2:
        # Of the one that sees most, for its ROC curve.
        result["predictions"] = {last.name: last.predictions[:, 1].round(6).tolist()}
    return result


def _curve(context: Context, cell: Cell) -> dict[str, Any]:
    """Fit to a share of the training part; measure on the test part."""
    split, problem = context.splits[cell.fold], context.problem
    train = _part_of(context, cell, split.train)
    values = predicted(_fit(context, cell, train, None), problem.take(split.test), problem)
    return {"size": len(train), "metrics": measured(context.metric, problem.truth[split.test], values)}


def _published(context: Context, cell: Cell) -> dict[str, Any]:
    """Record the metric on the *test* part after every epoch: what selection on the reported folds looks at."""
    split, name = context.splits[cell.fold], f"valid_{context.metric.name}"
    model = _fit(context, cell, split.train, split.test)
    rows = [history.rows for history in getattr(model, "histories_", [])]
    if not rows or any(name not in row for row in rows[0]):
        raise InputError(
            f"selection on the reported folds needs {context.metric.name} after every epoch, which this estimator does "
            f"not record; metrics that are: accuracy, roc_auc, mae, rmse"
        )
    return {"curve": [finite(row[name]) for row in rows[0]]}


KINDS: dict[str, Callable[[Context, Cell], dict[str, Any]]] = {
    "select": _select,
    "final": _final,
    "blind": _blind,
    "simple": _simple,
    "curve": _curve,
    "published": _published,
}


# -- fitting -----------------------------------------------------------------------------------------------


def accepts_aside(estimator: Any) -> bool:
    """Say whether an estimator can be told which structures to choose the epoch on."""
    return "aside" in inspect.signature(estimator.fit).parameters


def _fit(
    context: Context, cell: Cell, train: Int[Array, " train"], aside: Int[Array, " aside"] | None
) -> Any:
    """Fit a new estimator, with a seed that depends on the fold and the seed's number alone."""
    model = _prepared(context, cell)
    problem = context.problem
    if aside is None or not accepts_aside(model):
        return model.fit(problem.take(train), problem.y[train])
    both = np.concatenate([train, aside])
    return model.fit(problem.take(both), problem.y[both], aside=np.arange(len(train), len(both)))


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
    return train[drawn[1]]


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
