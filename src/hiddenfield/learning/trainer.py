"""The supervised trainer: a short loop around Lightning Fabric, with the data where the network is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import Prepared
from hiddenfield.embedding.network import Network
from hiddenfield.errors import InputError, TrainingError
from hiddenfield.learning.predicting import predict, resolve_device, without_host_columns
from hiddenfield.learning.sampling import epoch_order, resampling_weights
from hiddenfield.learning.settings import TrainSettings
from hiddenfield.learning.state import History, State, fingerprint, resume_run, save_run
from hiddenfield.learning.task import Task
from hiddenfield.progress import progress
from hiddenfield.shapes import Array, Tensor

if TYPE_CHECKING:
    from lightning.fabric import Fabric

__all__ = ["History", "predict", "train"]

PRECISIONS = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed", "64": "64-true"}
HIGHER_IS_BETTER = ("accuracy", "roc_auc")


def train(
    network: Network,
    task: Task,
    structures: Structures,
    validation: Structures | None = None,
    settings: TrainSettings | None = None,
    *,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    show_progress: bool = False,
    name_of: Callable[[int], str] | None = None,
) -> History:
    """Fit a network to structures with targets, in place.

    The pack lies on the device and batches are cut there. With validation structures the weights of the epoch with the
    best `monitor` are restored at the end. Everything random depends on ``settings.seed`` and the epoch's number, so
    that a run is repeatable and a resumed one ends, on the CPU, with exactly the weights of an uninterrupted one.

    Parameters
    ----------
    network, task
        What to train and what for.
    structures, validation
        With targets; validation structures are not trained on.
    settings
        See `TrainSettings`.
    checkpoint
        A file that is rewritten, atomically, after every epoch.
    resume
        Go on from `checkpoint` where it is there.
    show_progress
        Whether a bar shows how far it is; only on a terminal.
    name_of
        How a message names the structure at a position, for a caller that has cut `structures` from others.

    Raises
    ------
    TrainingError
        If the loss stops being finite, naming the batch's structures.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.embedding import FeatureSizes, Network
    >>> words = hf.data.from_sequences(["GA", "GATTACA", "TTT", "A"], targets=[2.0, 7.0, 3.0, 1.0])
    >>> task = Task.of(words)
    >>> network = Network(FeatureSizes.of(words), task.outputs, dim=8)
    >>> history = train(network, task, words, settings=TrainSettings(epochs=2, device="cpu"))
    >>> len(history.rows)
    2
    """
    settings = settings or TrainSettings()
    check_training(task, structures, validation, settings)
    path = None if checkpoint is None else Path(checkpoint)
    run = _Run(network, task, structures, validation, settings, path)
    run.name_of = name_of or structures.name_of
    if path is not None:
        run.state = resume_run(
            path, run.state, run.identity(), network, run.optimizer, run.precision, resume=resume
        )
    run.loop(show_progress)
    return run.state.history


def check_training(
    task: Task, structures: Structures, validation: Structures | None, settings: TrainSettings
) -> None:
    """Check that there is something to learn from, and to validate on if that is wanted."""
    if not len(structures):
        raise InputError("there are no structures to train on")
    if settings.patience is not None and validation is None:
        raise InputError("patience needs validation structures; give some, or set patience=None")
    _check_targets(structures, task, "structures to train on")
    if validation is not None:
        _check_targets(validation, task, "validation structures")
        _check_monitor(settings.monitor, task)


def _check_targets(structures: Structures, task: Task, what: str) -> None:
    found = 0 if structures.targets is None else structures.targets.shape[1]
    if found != len(task.columns):
        raise InputError(f"the task has {len(task.columns)} targets, but the {what} have {found}")
    assert structures.targets is not None
    if bool(structures.targets.isnan().all()):
        raise InputError(f"the targets of all {len(structures)} {what} are missing")


def _check_monitor(monitor: str, task: Task) -> None:
    kinds = {column.vocabulary is None for column in task.columns}
    known = [
        "loss",
        *(["mae", "rmse"] if True in kinds else []),
        *(["accuracy", "roc_auc"] if False in kinds else []),
    ]
    if monitor not in known:
        raise InputError(f"unknown monitor {monitor!r} for these targets; choose from: {', '.join(known)}")


class _Batch:
    """Structures with what was prepared of them: an object that Fabric passes on as it is.

    Of a dataclass it would convert every tensor to the precision of the network, indices included.
    """

    def __init__(self, structures: Structures, prepared: list[Prepared]) -> None:
        self.structures, self.prepared = structures, prepared


class _OfBatch(nn.Module):
    """The network as Fabric calls it."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: _Batch) -> Tensor:
        return self.network(batch.structures, *batch.prepared)


class _Run:
    """One training run: what is trained and on what, and the state that moves."""

    def __init__(
        self,
        network: Network,
        task: Task,
        structures: Structures,
        validation: Structures | None,
        settings: TrainSettings,
        checkpoint: Path | None,
    ) -> None:
        self.network, self.task, self.settings, self.checkpoint = network, task, settings, checkpoint
        self.structures, self.validation = structures, validation
        self.name_of: Callable[[int], str] = structures.name_of
        self.fabric = _fabric(settings)
        self.precision = self.fabric.strategy.precision
        self.state = State()
        self.optimizer = make_optimizer(network.to(self.fabric.device), settings)
        self.module, self.wrapped_optimizer = self.fabric.setup(_OfBatch(network), self.optimizer)
        self.data, self.prepared = self._place(structures)
        weighted = settings.resample is not None
        self.weights = resampling_weights(structures, settings.resample or 0.0) if weighted else None

    def _place(self, structures: Structures) -> tuple[Structures, list[Prepared]]:
        """Put the structures, with standardised targets, and what is prepared of them on the device."""
        bare = bare_structures(structures, self.task, next(self.network.parameters()).dtype)
        prepared = self.network.prepare(bare)
        return bare.to(self.fabric.device), [entry.to(self.fabric.device) for entry in prepared]

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for a run to go on: settings, network, task, data."""
        return {
            "settings": {name: value for name, value in self.settings.as_dict().items() if name != "device"},
            "network": self.network.settings(),
            "task": self.task.as_dict(),
            "data": [fingerprint(pack) for pack in (self.structures, self.validation) if pack is not None],
        }

    # -- the loop ------------------------------------------------------------------------------------------

    def loop(self, show_progress: bool) -> None:
        """Run the epochs that are left, then restore the best weights."""
        state, total = self.state, self.settings.epochs * len(self.structures)
        with progress(total, "training", shown=show_progress) as advance:
            advance(state.next_epoch * len(self.structures))
            while not state.history.is_over(self.settings, state.next_epoch):
                self._epoch(state.next_epoch, advance)
                state.next_epoch += 1
                if self.checkpoint is not None:
                    self._save()
        if state.best_weights:
            self.network.load_state_dict(state.best_weights)
        self.network.eval()

    def _save(self) -> None:
        assert self.checkpoint is not None
        save_run(self.checkpoint, self.state, self.identity(), self.network, self.optimizer, self.precision)

    def _epoch(self, epoch: int, advance: Callable[..., None]) -> None:
        started = time.perf_counter()
        loss = self._train_epoch(epoch, advance)
        seconds = time.perf_counter() - started
        row = epoch_row(self.settings, epoch, len(self.structures), loss)
        if self.validation is not None:
            outputs = predict(self.network, self.validation, device=str(self.fabric.device))
            row |= measured_row(self.task, outputs, self.validation)
            self._keep_best(epoch + 1, row)
        else:
            self.state.history.best_epoch = epoch + 1
        row |= {"seconds": seconds, "structures_per_second": len(self.structures) / seconds}
        self.state.history.rows.append(row)

    def _train_epoch(self, epoch: int, advance: Callable[..., None]) -> float:
        self.module.train()
        order = epoch_order(len(self.structures), self.settings.seed, epoch, self.weights)
        size, losses, weight = self.settings.batch_size, [], []
        steps = math.ceil(len(order) / size)
        devices = [self.fabric.device.index or 0] if self.fabric.device.type == "cuda" else []
        started = time.perf_counter()
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(
                np.random.SeedSequence([self.settings.seed, epoch, 1]).generate_state(1)[0].item()
            )
            for step, start in enumerate(range(0, len(order), size)):
                index = torch.from_numpy(order[start : start + size])
                losses.append(self._step(index, epoch + step / steps))
                weight.append(len(index))
                if self.fabric.device.type == "cpu":
                    self._check_finite([losses[-1]], order, start)
                    rate = (start + len(index)) / (time.perf_counter() - started)
                    advance(
                        len(index),
                        f"epoch {epoch + 1}, loss {float(losses[-1]):.4g}, {rate:,.0f} structures/s",
                    )
                else:
                    advance(len(index), f"epoch {epoch + 1}")
        self._check_finite(losses, order, 0)
        return float(np.average(torch.stack(losses).double().cpu().numpy(), weights=weight))

    def _step(self, index: Tensor, done: float) -> Tensor:
        batch = self.data[index]
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate(done)
        self.wrapped_optimizer.zero_grad(set_to_none=True)
        outputs = self.module(_Batch(batch, [entry[index] for entry in self.prepared]))
        assert batch.targets is not None
        loss = self.task.score(outputs.to(batch.targets.dtype), batch.targets)
        self.fabric.backward(loss)
        if self.settings.clip is not None:
            self.fabric.clip_gradients(
                self.module, self.wrapped_optimizer, max_norm=self.settings.clip, error_if_nonfinite=False
            )
        self.wrapped_optimizer.step()
        return loss.detach()

    def _check_finite(self, losses: list[Tensor], order: Array, start: int) -> None:
        bad = torch.nonzero(~torch.stack(losses).isfinite())
        if len(bad):
            first = start + int(bad[0]) * self.settings.batch_size
            raise not_finite(order[first : first + self.settings.batch_size], self.name_of)

    def _keep_best(self, epoch: int, row: dict[str, float]) -> None:
        if is_best(self.state.history, self.settings.monitor, epoch, row):
            weights = self.network.state_dict()
            self.state.best_weights = {key: tensor.detach().cpu().clone() for key, tensor in weights.items()}


# -- what networks that are trained side by side need too ----------------------------------------------------


def bare_structures(structures: Structures, task: Task, dtype: torch.dtype) -> Structures:
    """Return the structures with standardised targets, and without what training does not read."""
    assert structures.targets is not None
    return without_host_columns(structures).replace(
        targets=task.standardize(structures.targets).to(dtype),
        node_targets=None,
        node_target_names=(),
        node_target_vocabularies=(),
    )


def epoch_row(settings: TrainSettings, epoch: int, structures: int, loss: float) -> dict[str, float]:
    """Return what is known of an epoch before anything is validated."""
    steps = (epoch + 1) * math.ceil(structures / settings.batch_size)
    rate = settings.rate(float(epoch))
    return {"epoch": epoch + 1, "steps": steps, "learning_rate": rate, "train_loss": loss}


def measured_row(task: Task, outputs: Tensor, validation: Structures) -> dict[str, float]:
    """Return the loss and the metrics on validation structures, by their names in a history."""
    assert validation.targets is not None
    targets = validation.targets.cpu()
    standardized = task.standardize(targets).to(outputs.dtype)
    found = {"loss": float(task.score(outputs, standardized)), **task.metrics(outputs, targets)}
    return {f"valid_{name}": value for name, value in found.items()}


def is_best(history: History, monitor: str, epoch: int, row: dict[str, float]) -> bool:
    """Say whether an epoch is the best so far, and note it in the history if it is."""
    value, sign = row[f"valid_{monitor}"], -1.0 if monitor in HIGHER_IS_BETTER else 1.0
    if math.isnan(value) or (history.best is not None and sign * value >= sign * history.best):
        return False
    history.best, history.best_epoch = value, epoch
    return True


def not_finite(batch: Array, name_of: Callable[[int], str]) -> TrainingError:
    """Return the error for a batch whose loss is not finite."""
    names = ", ".join(name_of(int(position)) for position in batch[:5])
    more = ", …" if len(batch) > 5 else ""
    return TrainingError(
        f"the loss is no longer finite, first in a batch of {len(batch)} structures: {names}{more}; "
        "lower the learning rate, set clip, or look for extreme attributes or targets among them"
    )


def _fabric(settings: TrainSettings) -> Fabric:
    from lightning.fabric import Fabric

    place = resolve_device(settings.device)
    if settings.precision == "16" and place.type == "cpu":
        raise InputError("precision '16' needs a GPU; on the CPU choose from: 32, bf16, 64")
    devices: Any = [place.index] if place.index is not None else 1
    return Fabric(accelerator=place.type, devices=devices, precision=PRECISIONS[settings.precision])  # type: ignore[arg-type]


def make_optimizer(network: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    """Return the optimizer of all weights."""
    common: dict[str, Any] = {
        "lr": settings.learning_rate,
        "weight_decay": settings.weight_decay,
        # A fused step would divide by the scale of the loss itself, too late for clipping.
        "fused": settings.precision != "16",
    }
    parameters = list(network.parameters())
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=settings.momentum, **common)
    return (torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam)(parameters, **common)
