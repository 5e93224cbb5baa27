"""The state of a training run, and checkpoints: all that a run needs to go on, in one file, written atomically."""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from hiddenfield.data.paths import atomic
from hiddenfield.data.structures import Structures
from hiddenfield.embedding.predictor import Predictor
from hiddenfield.errors import InputError, ReadError
from hiddenfield.learning.settings import TrainSettings
from hiddenfield.shapes import Tensor

VERSION = 1


@dataclass
class History:
    """What happened in training: one row per epoch, which epoch was best, why it ended."""

    rows: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = 0
    best: float | None = None
    reason: str = ""

    def is_over(self, settings: TrainSettings, epoch: int) -> bool:
        """Say whether training ends before this epoch, counted from 0, and note why."""
        patience = settings.patience
        if epoch >= settings.epochs:
            self.reason = self.reason or f"all {settings.epochs} epochs done"
        elif patience is not None and epoch - self.best_epoch >= patience:
            self.reason = f"no better {settings.monitor} for {patience} epochs"
        return bool(self.reason)

    def improves(self, higher: bool, value: float) -> bool:
        """Say whether a value of the monitor is better than the best so far; NaN never is."""
        if math.isnan(value) or self.best is None:
            return not math.isnan(value)
        return value > self.best if higher else value < self.best


@dataclass
class State:
    """How far training has come.

    Parameters
    ----------
    histories
        One per network.
    network, optimizer, scaler
        What moves: the weights, the optimizer's averages, the scale of the loss.
    next_epoch
        Counted from 0.
    best_weights
        Those of each network's best epoch, with a first axis over the networks; empty before there is one.
    """

    histories: list[History]
    network: Predictor
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    next_epoch: int = 0
    best_weights: dict[str, Tensor] = field(default_factory=dict)


def save_run(path: Path, state: State, identity: dict[str, Any]) -> None:
    """Write everything that a run needs to go on."""
    tensors = {f"weight.{name}": value for name, value in state.network.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in state.best_weights.items()}
    for number, moments in state.optimizer.state_dict()["state"].items():
        kept = {name: value for name, value in moments.items() if isinstance(value, Tensor)}
        tensors |= {f"optimizer.{number}.{name}": value for name, value in kept.items()}
    values = {
        "identity": identity,
        "next_epoch": state.next_epoch,
        "histories": [asdict(history) for history in state.histories],
        "precision": state.scaler.state_dict(),  # the scale of the loss in half precision; empty otherwise
    }
    save_checkpoint(Checkpoint(tensors, values), path)


def resume_run(path: Path, state: State, identity: dict[str, Any], *, resume: bool) -> None:
    """Take up the checkpoint if there is one and it is of this very run; refuse to where `resume` is False."""
    if not path.exists():
        return
    if not resume:
        raise InputError(f"{path} holds an earlier run; resume it, or remove it to start again")
    saved = load_own(path, identity)
    try:
        _load(saved, state)
    except (KeyError, TypeError, ValueError, RuntimeError):
        raise ReadError(
            "does not hold the whole state of a run; remove it to start again", file=path
        ) from None


def _load(saved: Checkpoint, state: State) -> None:
    def part(prefix: str) -> dict[str, Tensor]:
        return {
            key.removeprefix(prefix): value for key, value in saved.tensors.items() if key.startswith(prefix)
        }

    histories = [History(**history) for history in saved.values["histories"]]
    moments: dict[int, dict[str, Tensor]] = {}
    for key, value in part("optimizer.").items():
        number, name = key.split(".", 1)
        moments.setdefault(int(number), {})[name] = value
    state.network.load_state_dict(part("weight."))
    state.optimizer.load_state_dict({**state.optimizer.state_dict(), "state": moments})
    scaling = saved.values.get("precision", {})
    if not all(isinstance(value, (int, float)) for value in scaling.values()):
        raise TypeError("the state of the precision is made of numbers")
    state.scaler.load_state_dict(scaling)
    device = next(state.network.parameters()).device
    state.histories, state.next_epoch = histories, int(saved.values["next_epoch"])
    state.best_weights = {name: value.to(device) for name, value in part("best.").items()}


def fingerprint(structures: Structures) -> list[int]:
    """Return counts and a checksum that differ for another data set."""
    checksum, features = 0, ("node_labels", "arc_labels", "node_attributes", "arc_attributes", "targets")
    for name in ("node_ptr", "in_ptr", "source", *features):
        tensor: Tensor | None = getattr(structures, name)
        if tensor is not None:
            checksum = zlib.crc32(tensor.cpu().contiguous().numpy().tobytes(), checksum)
    return [len(structures), structures.total_nodes, structures.total_arcs, checksum]


# -- files -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and plain values."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]


def save_checkpoint(checkpoint: Checkpoint, path: str | Path) -> None:
    """Write a checkpoint as safetensors with the values as JSON in its header, atomically.

    Examples
    --------
    >>> import tempfile, torch
    >>> path = Path(tempfile.mkdtemp()) / "checkpoint.safetensors"
    >>> save_checkpoint(Checkpoint({"weight": torch.ones(2)}, {"epoch": 3}), path)
    >>> load_checkpoint(path).values["epoch"]
    3
    """
    from safetensors.torch import save

    path = Path(path)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    content = {
        "version": VERSION,
        "values": checkpoint.values,
        "checksum": _checksum(tensors, checkpoint.values),
    }
    header = {"hiddenfield": json.dumps(content, allow_nan=True)}
    with atomic(path) as partial, open(partial, "wb") as sink:
        sink.write(save(tensors, metadata=header))
        sink.flush()
        os.fsync(sink.fileno())


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint; nothing in it is executed, and a damaged one is refused with its name."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = Path(path)
    if not path.is_file():
        raise ReadError("there is no checkpoint here", file=path)
    try:
        contents = path.read_bytes()  # at once: a run that goes on replaces the file while it is read
        tensors = load(contents)
        # Eight bytes say how long the JSON is that follows; `load` has just checked both.
        values = json.loads(contents[8 : 8 + int.from_bytes(contents[:8], "little")])
        header = values.get("__metadata__", {}).get("hiddenfield")
    except (SafetensorError, OSError, ValueError, KeyError, AttributeError) as error:
        raise ReadError(
            f"is no whole safetensors file ({error}); restore it, or start again", file=path
        ) from None
    if header is None:
        raise ReadError("was not written by hiddenfield: its header has no entry of that name", file=path)
    try:
        values = json.loads(header)
        version, content, checksum = values["version"], values["values"], values["checksum"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ReadError("has a damaged header; restore it, or start again", file=path) from None
    if not isinstance(version, int) or version > VERSION:
        raise ReadError(
            f"has version {version!r}, and this hiddenfield reads up to {VERSION}; upgrade it", file=path
        )
    if not isinstance(content, dict) or checksum != _checksum(tensors, content):
        raise ReadError(
            "is damaged: its content does not fit its checksum; restore it, or start again", file=path
        )
    return Checkpoint(tensors, content)


def load_own(path: Path, identity: Mapping[str, Any]) -> Checkpoint:
    """Read the checkpoint of a run, if it is the run with this identity."""
    saved = load_checkpoint(path)
    theirs = saved.values.get("identity")
    for name, value in identity.items():
        if not isinstance(theirs, dict) or theirs.get(name) != value:
            raise InputError(
                f"{path} is of a run with other {name}; use the same, or remove it to start again"
            )
    return saved


def _checksum(tensors: dict[str, Tensor], values: dict[str, Any]) -> int:
    """Return a checksum of names, shapes, numbers and values; it tells of damage, not of intent."""
    result = zlib.crc32(json.dumps(values, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        result = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), result)
        if tensor.numel():  # an empty array has strides that cannot be viewed as bytes
            result = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().tobytes(), result)
    return result
