"""The supervised trainer: a short loop around Lightning Fabric, with the data where the network is."""

from __future__ import annotations

import copy
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.network import Network
from hiddenfield.errors import InputError, TrainingError
from hiddenfield.learning.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from hiddenfield.learning.sampling import epoch_order, resampling_weights
from hiddenfield.learning.settings import TrainSettings
from hiddenfield.learning.task import Task
from hiddenfield.progress import progress
from hiddenfield.shapes import Float, Tensor

if TYPE_CHECKING:
    from lightning.fabric import Fabric

__all__ = ["History", "predict", "train"]

PRECISIONS = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed", "64": "64-true"}
HIGHER_IS_BETTER = ("accuracy",)
# Nodes that are embedded at once when no gradient is needed.
NODES_AT_ONCE = 200_000


@dataclass
class History:
    """What happened: a row an epoch, which one was best, why training ended."""

    rows: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = 0
    best: float | None = None
    reason: str = ""


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
    if not len(structures):
        raise InputError("there are no structures to train on")
    if settings.patience is not None and validation is None:
        raise InputError("patience needs validation structures; give some, or set patience=None")
    run = _Run(network, task, structures, validation, settings, None if checkpoint is None else Path(checkpoint))
    run.restore(resume)
    run.loop(show_progress)
    return run.history


def predict(
    network: Network, structures: Structures, *, device: str = "auto", function: Callable[..., Tensor] | None = None
) -> Float[Tensor, "structures width"]:
    """Return a network's outputs for all structures, in host memory, a batch at a time.

    Parameters
    ----------
    network
        Trained or not.
    structures
        In the vocabularies that the network was built for.
    device
        As in `TrainSettings`.
    function
        What to call instead of the network, for example ``network.embed``.
    """
    place = resolve_device(device)
    network.to(place).eval()
    call = function or network
    parts: list[Tensor] = []
    bare = _bare(structures)
    with torch.inference_mode():
        for chosen in _chunks(bare):
            part = bare[chosen]
            prepared = [entry.to(place) for entry in network.prepare(part)]
            parts.append(call(part.to(place), *prepared).cpu())
    width = network.output_layer.out_features if function is None else network.width
    return torch.cat(parts) if parts else torch.zeros(0, width)


def resolve_device(device: str) -> torch.device:
    """Return the device of that name; ``"auto"`` is a GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
    except RuntimeError:
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda', got {device!r}") from None
    if place.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {device!r} was asked for, and there is no CUDA device here; use 'auto' or 'cpu'")
    return place


def _bare(structures: Structures) -> Structures:
    """Return the pack without what stays in host memory, which a batch need not carry."""
    return structures.replace(ids=None, columns={})


def _chunks(structures: Structures) -> Iterator[slice]:
    """Cut the pack into ranges of about `NODES_AT_ONCE` nodes, at least one structure each."""
    bounds = structures.node_ptr.cpu().numpy()
    start = 0
    while start < len(structures):
        stop = int(np.searchsorted(bounds, bounds[start] + NODES_AT_ONCE, side="right")) - 1
        stop = min(max(stop, start + 1), len(structures))
        yield slice(start, stop)
        start = stop


class _Run:
    """The state of one training run: what moves, and what is saved so that it can go on."""

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
        self.fabric = _fabric(settings)
        self.history = History()
        self.best_weights: dict[str, Tensor] = {}
        self.next_epoch = 0
        self.optimizer = _optimizer(network.to(self.fabric.device), settings)
        self.module, self.wrapped_optimizer = self.fabric.setup(network, self.optimizer)
        self.data, self.prepared = self._place(structures)
        weighted = settings.resample is not None
        self.weights = resampling_weights(structures, settings.resample or 0.0) if weighted else None

    def _place(self, structures: Structures) -> tuple[Structures, list[Any]]:
        """Put the structures, with standardised targets, and what is prepared of them on the device."""
        assert structures.targets is not None
        dtype = next(self.network.parameters()).dtype
        targets = self.task.standardize(structures.targets).to(dtype)
        bare = _bare(structures).replace(targets=targets, node_targets=None, node_target_names=())
        prepared = self.network.prepare(bare)
        return bare.to(self.fabric.device), [entry.to(self.fabric.device) for entry in prepared]

    # -- the loop ------------------------------------------------------------------------------------------

    def loop(self, show_progress: bool) -> None:
        """Run the epochs that are left, then restore the best weights."""
        total = self.settings.epochs * len(self.structures)
        with progress(total, "training", shown=show_progress) as advance:
            advance(self.next_epoch * len(self.structures))
            for epoch in range(self.next_epoch, self.settings.epochs):
                if self._out_of_patience(epoch):
                    break
                self._epoch(epoch, advance)
                self.next_epoch = epoch + 1
                self._save()
            else:
                self.history.reason = f"all {self.settings.epochs} epochs done"
        if self.best_weights:
            self.network.load_state_dict(self.best_weights)
        self.network.eval()

    def _out_of_patience(self, epoch: int) -> bool:
        patience = self.settings.patience
        if patience is None or not self.history.rows or epoch - self.history.best_epoch < patience:
            return False
        self.history.reason = f"no better {self.settings.monitor} for {patience} epochs"
        return True

    def _epoch(self, epoch: int, advance: Callable[..., None]) -> None:
        started = time.perf_counter()
        loss = self._train_epoch(epoch, advance)
        seconds = time.perf_counter() - started
        row = {"epoch": epoch + 1, "learning_rate": self.settings.rate(float(epoch)), "train_loss": loss}
        if self.validation is not None:
            row |= {f"valid_{name}": value for name, value in self._evaluate(self.validation).items()}
            self._keep_best(epoch + 1, row)
        else:
            self.history.best_epoch = epoch + 1
        row |= {"seconds": seconds, "structures_per_second": len(self.structures) / seconds}
        self.history.rows.append(row)

    def _train_epoch(self, epoch: int, advance: Callable[..., None]) -> float:
        self.module.train()
        order = epoch_order(len(self.structures), self.settings.seed, epoch, self.weights)
        size, losses, weight = self.settings.batch_size, [], []
        devices = [self.fabric.device.index or 0] if self.fabric.device.type == "cuda" else []
        started = time.perf_counter()
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(np.random.SeedSequence([self.settings.seed, epoch, 1]).generate_state(1)[0].item())
            for start in range(0, len(order), size):
                index = torch.from_numpy(order[start : start + size])
                losses.append(self._step(index, epoch + start / len(order)))
                weight.append(len(index))
                if self.fabric.device.type == "cpu":
                    self._check_finite([losses[-1]], order, start)
                    rate = (start + len(index)) / (time.perf_counter() - started)
                    advance(len(index), f"epoch {epoch + 1}, loss {float(losses[-1]):.4g}, {rate:,.0f} structures/s")
                else:
                    advance(len(index), f"epoch {epoch + 1}")
        self._check_finite(losses, order, 0)
        return float(np.average(torch.stack(losses).double().cpu().numpy(), weights=weight))

    def _step(self, index: Tensor, done: float) -> Tensor:
        batch = self.data[index]
        prepared = [entry[index] for entry in self.prepared]
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate(done)
        self.wrapped_optimizer.zero_grad(set_to_none=True)
        outputs = self.module(batch, *prepared)
        assert batch.targets is not None
        loss = self.task.score(outputs.to(batch.targets.dtype), batch.targets)
        self.fabric.backward(loss)
        if self.settings.clip is not None:
            self.fabric.clip_gradients(self.module, self.wrapped_optimizer, max_norm=self.settings.clip, error_if_nonfinite=False)
        self.wrapped_optimizer.step()
        return loss.detach()

    def _check_finite(self, losses: list[Tensor], order: np.ndarray, start: int) -> None:
        bad = torch.nonzero(~torch.stack(losses).isfinite())
        if len(bad):
            first = start + int(bad[0]) * self.settings.batch_size
            chosen = order[first : first + self.settings.batch_size]
            names = ", ".join(self.structures.name_of(int(position)) for position in chosen[:5])
            raise TrainingError(
                f"the loss is no longer finite, first in a batch of {len(chosen)} structures: {names}, …; "
                "lower the learning rate, set clip, or look for extreme attributes or targets among them"
            )

    # -- validation ----------------------------------------------------------------------------------------

    def _evaluate(self, structures: Structures) -> dict[str, float]:
        outputs = predict(self.network, structures, device=str(self.fabric.device))
        assert structures.targets is not None
        standardized = self.task.standardize(structures.targets).to(outputs.dtype).cpu()
        return {"loss": float(self.task.score(outputs, standardized)), **self.task.metrics(outputs, structures.targets)}

    def _keep_best(self, epoch: int, row: dict[str, float]) -> None:
        name = f"valid_{self.settings.monitor}"
        if name not in row:
            known = ", ".join(key.removeprefix("valid_") for key in row if key.startswith("valid_"))
            raise InputError(f"unknown monitor {self.settings.monitor!r}; choose from: {known}")
        value, best = row[name], self.history.best
        better = best is None or (value > best if self.settings.monitor in HIGHER_IS_BETTER else value < best)
        if better:
            self.history.best, self.history.best_epoch = value, epoch
            self.best_weights = {key: tensor.detach().cpu().clone() for key, tensor in self.network.state_dict().items()}

    # -- checkpoints ---------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """Return what must be the same for a run to go on: settings, network, task, data."""
        return {
            "settings": {name: value for name, value in self.settings.as_dict().items() if name != "device"},
            "network": self.network.settings(),
            "task": self.task.as_dict(),
            "data": [_fingerprint(pack) for pack in (self.structures, self.validation) if pack is not None],
        }

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        tensors = {f"weight.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best_weights.items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value for name, value in state.items() if isinstance(value, Tensor)}
        values = {
            "identity": self._identity(),
            "next_epoch": self.next_epoch,
            "history": {"rows": self.history.rows, "best_epoch": self.history.best_epoch, "best": self.history.best},
        }
        save_checkpoint(Checkpoint(tensors, values), self.checkpoint)

    def restore(self, resume: bool) -> None:
        """Take up a checkpoint, if there is one and it is of this very run."""
        if self.checkpoint is None or not self.checkpoint.exists():
            return
        if not resume:
            raise InputError(f"{self.checkpoint} holds an earlier run; resume it, or remove it to start again")
        saved = load_checkpoint(self.checkpoint)
        mine, theirs = self._identity(), saved.values.get("identity", {})
        for name, value in copy.deepcopy(mine).items():
            if theirs.get(name) != value:
                raise InputError(f"{self.checkpoint} is of a run with other {name}; use the same, or remove it to start again")
        self._load(saved)

    def _load(self, saved: Checkpoint) -> None:
        def part(prefix: str) -> dict[str, Tensor]:
            return {key.removeprefix(prefix): value for key, value in saved.tensors.items() if key.startswith(prefix)}

        self.network.load_state_dict(part("weight."))
        self.best_weights = part("best.")
        states: dict[int, dict[str, Tensor]] = {}
        for key, value in part("optimizer.").items():
            number, name = key.split(".", 1)
            states.setdefault(int(number), {})[name] = value
        state = self.optimizer.state_dict()
        self.optimizer.load_state_dict({**state, "state": states})
        self.next_epoch = int(saved.values["next_epoch"])
        self.history = History(**saved.values["history"])


def _fabric(settings: TrainSettings) -> Fabric:
    from lightning.fabric import Fabric

    place = resolve_device(settings.device)
    devices: Any = [place.index] if place.index is not None else 1
    return Fabric(accelerator=place.type, devices=devices, precision=PRECISIONS[settings.precision])  # type: ignore[arg-type]


def _optimizer(network: Network, settings: TrainSettings) -> torch.optim.Optimizer:
    common: dict[str, Any] = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay, "fused": True}
    parameters = list(network.parameters())
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=settings.momentum, **common)
    return (torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam)(parameters, **common)


def _fingerprint(structures: Structures) -> list[int]:
    """Return counts and a checksum by which another data set is told apart."""
    checksum = 0
    for tensor in (structures.node_ptr, structures.source, structures.node_labels, structures.arc_labels, structures.targets):
        if tensor is not None:
            checksum = zlib.crc32(tensor.cpu().contiguous().numpy().tobytes(), checksum)
    return [len(structures), structures.total_nodes, structures.total_arcs, checksum]
