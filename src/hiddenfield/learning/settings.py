"""The settings of training, checked when they are given."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from hiddenfield.errors import InputError
from hiddenfield.registry import choose

OPTIMIZERS = ("adam", "adamw", "sgd")
PRECISIONS = ("32", "tf32", "bf16", "16", "64")


# Factor of the learning rate when a share of the training is done.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: 0.5 * (1 + math.cos(math.pi * progress)),
    "exponential": lambda progress: 0.01**progress,
}


@dataclass(frozen=True)
class TrainSettings:
    """Settings of `train`.

    Parameters
    ----------
    epochs
        Passes over the training structures, at most.
    batch_size
        Structures in a batch.
    optimizer
        ``"adam"``, ``"adamw"`` or ``"sgd"`` (with `momentum`).
    learning_rate, momentum, weight_decay
        Of the optimizer.
    schedule
        How the learning rate falls over the epochs: ``"constant"``, ``"linear"``, ``"cosine"`` or ``"exponential"``
        (to a hundredth).
    warmup
        Epochs over which the learning rate rises from 0 first; a fraction is allowed.
    clip
        Largest norm of the gradient; None for no limit.
    patience
        Epochs without a better `monitor` on the validation structures after which training stops; None: never.
    monitor
        ``"loss"`` or the name of a metric of the task, measured on the validation structures.
    resample
        Draw structures so that rare targets come as often as frequent ones: for numbers the width of the bins (in
        the target's units) of which one is drawn uniformly, for classes any number; None: every structure once.
    precision
        ``"32"``, ``"bf16"`` or ``"16"`` (mixed), ``"64"``; ``"tf32"`` is ``"32"`` with products of factors rounded to
        11 bits, where a GPU has them.
    device
        ``"auto"`` (a GPU where there is one), ``"cpu"``, ``"cuda"``.
    devices
        Processes that share every batch, on as many GPUs or on the cores of the CPU.
    seed
        Of the order of the batches and of dropout.

    Examples
    --------
    >>> TrainSettings(epochs=3).batch_size
    128
    >>> TrainSettings(learning_rate=-1)
    Traceback (most recent call last):
    hiddenfield.errors.InputError: learning_rate must be greater than 0, got -1
    """

    epochs: int = 50
    batch_size: int = 128
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: str = "cosine"
    warmup: float = 0.0
    clip: float | None = 5.0
    patience: int | None = None
    monitor: str = "loss"
    resample: float | None = None
    precision: str = "32"
    device: str = "auto"
    devices: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience", "devices"):
            value = getattr(self, name)
            if value is None and name == "patience":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} must be an integer of at least 1, got {value!r}")
        _check_number("learning_rate", self.learning_rate, False)
        for name in ("weight_decay", "warmup", "momentum"):
            _check_number(name, getattr(self, name), True)
        for name in ("clip", "resample"):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name), False)
        choose("optimizer", dict.fromkeys(OPTIMIZERS), self.optimizer)
        choose("schedule", SCHEDULES, self.schedule)
        choose("precision", dict.fromkeys(PRECISIONS), self.precision)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InputError(f"seed must be an integer of at least 0, got {self.seed!r}")

    def rate(self, done: float) -> float:
        """Return the learning rate when `done` epochs, fractions included, are over."""
        warm = min(1.0, (done + 1e-12) / self.warmup) if self.warmup > 0 else 1.0
        return self.learning_rate * warm * SCHEDULES[self.schedule](min(1.0, done / self.epochs))

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, for saving."""
        return asdict(self)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the settings' names."""
        return tuple(field.name for field in fields(cls))


def _check_number(name: str, value: Any, allow_zero: bool) -> None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not good or value < 0 or (value == 0 and not allow_zero):
        raise InputError(f"{name} must be {'at least' if allow_zero else 'greater than'} 0, got {value!r}")
