"""Checkpoints: everything that a run needs to go on, in one file that is there whole or not at all."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from hiddenfield.errors import ReadError

__all__ = ["Checkpoint", "load_checkpoint", "save_checkpoint"]

VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and plain values beside them."""

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
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {"hiddenfield": json.dumps({"version": VERSION, "values": checkpoint.values}, allow_nan=True)}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    partial = path.with_name(f".{path.name}.partial")
    with open(partial, "wb") as sink:
        sink.write(save(tensors, metadata=header))
        sink.flush()
        os.fsync(sink.fileno())
    os.replace(partial, path)


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint; nothing in it is executed, and a damaged one is refused with its name."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise ReadError("there is no checkpoint here", file=path)
    try:
        with safe_open(path, framework="pt") as opened:
            header = (opened.metadata() or {}).get("hiddenfield")
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, UnicodeDecodeError) as error:
        raise ReadError(f"is no whole safetensors file ({error}); restore it, or start again", file=path) from None
    if header is None:
        raise ReadError("was not written by hiddenfield: its header has no entry of that name", file=path)
    try:
        values = json.loads(header)
        version, content = values["version"], values["values"]
    except (ValueError, KeyError, TypeError):
        raise ReadError("has a damaged header; restore it, or start again", file=path) from None
    if not isinstance(version, int) or version > VERSION:
        raise ReadError(f"has version {version!r}, and this hiddenfield reads up to {VERSION}; upgrade it", file=path)
    if not isinstance(content, dict):
        raise ReadError("has a damaged header; restore it, or start again", file=path)
    return Checkpoint(tensors, content)
