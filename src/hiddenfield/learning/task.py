"""Task: what is predicted, how predictions are scored, and their units."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import torch
from torch.nn import functional

from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Symbol, Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.learning.metrics import accuracy, mae, rmse, roc_auc
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Tensor

LOSSES: dict[str, Callable[..., Tensor]] = {
    "square": functional.mse_loss,
    "absolute": functional.l1_loss,
    "huber": functional.huber_loss,
}
"""Losses of numbers, by name."""


@dataclass(frozen=True)
class Column:
    """One target: a number with the mean and scale of its training values, or a class out of some.

    Parameters
    ----------
    name
        Of the target.
    classes
        The symbols of the classes; None for a number.
    mean, scale
        What a number is standardised by.
    weights
        Of the classes in the loss; none for equal ones.
    """

    name: str
    classes: tuple[Symbol, ...] | None
    mean: float
    scale: float
    weights: tuple[float, ...]

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The classes with their codes; None for a number."""
        return None if self.classes is None else Vocabulary(self.name, self.classes)

    @property
    def outputs(self) -> int:
        """Number of network outputs for it: one, or one per class."""
        return 1 if self.classes is None else len(self.classes)


@dataclass(frozen=True)
class Task:
    """The targets of a data set as a learning problem: one column or several, numbers and classes, entries missing.

    A column of numbers is standardised inside and scored by the square, absolute or Huber loss; a column of classes
    is scored by the softmax loss over its classes, with weights if wanted. Missing entries do not count. The loss is
    the mean over the entries that are present.

    Parameters
    ----------
    columns
        One per target.
    loss
        For numbers: ``"square"``, ``"absolute"`` or ``"huber"``.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(
    ...     ["GA", "TA", "C"], targets={"y": [1.0, 3.0, None], "kind": ["a", "b", "a"]}
    ... )
    >>> task = Task.of(words)
    >>> task.outputs, task.columns[0].mean
    (3, 2.0)
    """

    columns: tuple[Column, ...]
    loss: str
    of_nodes = False

    @classmethod
    def of(
        cls,
        structures: Structures,
        *,
        loss: str = "square",
        class_weight: str | Mapping[Any, float] | None = None,
    ) -> Task:
        """Make the task of a pack's targets.

        Parameters
        ----------
        structures
            The training structures.
        loss
            For numbers.
        class_weight
            None, ``"balanced"`` (inverse to the classes' frequencies) or a weight for each class.
        """
        choose("loss", LOSSES, loss)
        if structures.targets is None or not structures.target_names:
            raise InputError(
                "there is nothing to learn: the structures have no targets; give y, or read with target="
            )
        values = structures.targets.cpu().numpy()
        names = zip(structures.target_names, structures.target_vocabularies, strict=True)
        columns = [_column(values[:, k], name, words, class_weight) for k, (name, words) in enumerate(names)]
        return cls(tuple(columns), loss)

    @property
    def outputs(self) -> int:
        """Number of network outputs for each structure."""
        return sum(column.outputs for column in self.columns)

    @property
    def is_regression(self) -> bool:
        """Whether every target is a number."""
        return all(column.classes is None for column in self.columns)

    @property
    def kind(self) -> str:
        """What tasks whose networks are trained side by side must have in common: the loss, not names and scales."""
        return repr((self.loss, [(c.outputs, c.classes is None, c.weights) for c in self.columns]))

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of what `metrics` returns."""
        numbers = any(column.classes is None for column in self.columns)
        classes = any(column.classes is not None for column in self.columns)
        return ("mae", "rmse") * numbers + ("accuracy", "roc_auc") * classes

    def check(self, structures: Structures, what: str) -> None:
        """Check that the structures have targets for this task; `what` names them in an error."""
        found = 0 if structures.targets is None else structures.targets.shape[1]
        if found != len(self.columns):
            raise InputError(f"the task has {len(self.columns)} targets, but the {what} have {found}")
        assert structures.targets is not None
        if bool(structures.targets.isnan().all()):
            raise InputError(f"the targets of all {len(structures)} {what} are missing")

    def slices(self) -> list[slice]:
        """Return which of the outputs belong to each column."""
        bounds = np.cumsum([0] + [column.outputs for column in self.columns])
        return [slice(int(a), int(b)) for a, b in pairwise(bounds)]

    def standardize(
        self, targets: Float[Tensor, "structures targets"]
    ) -> Float[Tensor, "structures targets"]:
        """Return the targets as the loss takes them: numbers with mean 0 and scale 1, class codes as they are."""
        mean = targets.new_tensor([column.mean for column in self.columns])
        scale = targets.new_tensor([column.scale for column in self.columns])
        return (targets - mean) / scale

    def entries(
        self, outputs: Float[Tensor, "structures outputs"], standardized: Float[Tensor, "structures targets"]
    ) -> tuple[Float[Tensor, " structures"], Float[Tensor, " structures"]]:
        """Return for every structure the weighted sum of its entries' losses, and the sum of their weights."""
        losses, weights = [], []
        for column, part, k in zip(self.columns, self.slices(), range(len(self.columns)), strict=True):
            target = standardized[:, k]
            present = ~target.isnan()
            weight = present.to(outputs.dtype)
            if column.classes is None:
                known = torch.where(present, target, 0.0).to(outputs.dtype)
                value = LOSSES[self.loss](outputs[:, part.start], known, reduction="none")
            else:
                codes = torch.where(present, target, 0.0).long()
                value = functional.cross_entropy(outputs[:, part], codes, reduction="none")
                if column.weights:
                    # Filled on the device, where a copy from the host would make it wait.
                    each = torch.stack([outputs.new_full((), weight) for weight in column.weights])
                    weight = weight * each[codes]
            losses.append(value * weight)
            weights.append(weight)
        if len(losses) == 1:
            return losses[0], weights[0]
        return torch.stack(losses).sum(dim=0), torch.stack(weights).sum(dim=0)

    def predictions(self, outputs: Float[Tensor, "structures outputs"]) -> list[Array]:
        """Return one array per column, in the user's units: numbers (N,), or probabilities of the classes (N, C)."""
        result = []
        for column, part in zip(self.columns, self.slices(), strict=True):
            values = outputs[:, part].double().cpu()
            if column.classes is None:
                result.append((values[:, 0] * column.scale + column.mean).numpy())
            else:
                result.append(values.softmax(dim=1).numpy())
        return result

    def metrics(
        self, outputs: Float[Tensor, "structures outputs"], targets: Float[Tensor, "structures targets"]
    ) -> dict[str, float]:
        """Return mean absolute and root mean square error over all columns of numbers; accuracy over those of classes.

        Where there are classes also the area under the ROC curve, averaged over the columns for which it is defined;
        NaN if there is none.
        """
        numbers: list[tuple[Array, Array]] = []
        codes: list[tuple[Array, Array]] = []
        areas: list[float] = []
        for k, (column, prediction) in enumerate(zip(self.columns, self.predictions(outputs), strict=True)):
            truth = targets[:, k].double().cpu().numpy()
            if column.classes is None:
                numbers.append((truth, prediction))
            else:
                codes.append((truth, prediction.argmax(axis=1)))
                areas.append(roc_auc(truth, prediction))
        result: dict[str, float] = {}
        if numbers:
            result |= {"mae": mae(*_joined(numbers)), "rmse": rmse(*_joined(numbers))}
        if codes:
            told = [area for area in areas if not math.isnan(area)]
            result |= {
                "accuracy": accuracy(*_joined(codes)),
                "roc_auc": float(np.mean(told)) if told else math.nan,
            }
        return result

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for saving."""
        return msgspec.json.decode(msgspec.json.encode(self))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Task:
        """Build from what `as_dict` returned; a value of another type is a `ValueError`."""
        return msgspec.convert(values, cls)


def _joined(pairs: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    truths, predictions = zip(*pairs, strict=True)
    return np.concatenate(truths), np.concatenate(predictions)


def _column(values: Array, name: str, words: Vocabulary | None, class_weight: Any) -> Column:
    present = values[~np.isnan(values)]
    if not len(present):
        raise InputError(f"target {name!r} is missing for every structure; there is nothing to learn from")
    if words is None:
        scale, size = float(present.std()), max(1.0, float(abs(present).max()))
        # A constant target has no scale; the smallest that is safe makes every prediction that constant.
        scale = scale if scale > 1e-12 * size else 1e-9 * size
        return Column(name, None, float(present.mean()), scale, ())
    counts = np.bincount(present.astype(np.int64), minlength=len(words))
    if (counts > 0).sum() < 2:
        only = words.symbols[int(counts.argmax())]
        raise InputError(
            f"target {name!r} has the one class {only!r} in all {len(present)} structures; at least two are needed"
        )
    return Column(name, words.symbols, 0.0, 1.0, _class_weights(name, words, counts, class_weight))


def _class_weights(name: str, words: Vocabulary, counts: Array, class_weight: Any) -> tuple[float, ...]:
    if class_weight is None:
        return ()
    if class_weight == "balanced":
        return tuple(float(w) for w in counts.sum() / ((counts > 0).sum() * np.maximum(counts, 1)))
    if not isinstance(class_weight, Mapping):
        raise InputError(
            f"class_weight must be None, 'balanced' or a weight for each class, got {class_weight!r}"
        )
    missing = [symbol for symbol in words.symbols if symbol not in class_weight]
    if missing:
        raise InputError(f"class_weight has no weight for class {missing[0]!r} of target {name!r}")
    return tuple(float(class_weight[symbol]) for symbol in words.symbols)
