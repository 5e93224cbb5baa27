"""Checkpoints: everything that a run needs to go on, in one file that is there whole or not at all."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
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
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    content = {
        "version": VERSION,
        "values": checkpoint.values,
        "checksum": _checksum(tensors, checkpoint.values),
    }
    header = {"hiddenfield": json.dumps(content, allow_nan=True)}
    partial = path.with_name(f".{path.name}.partial")
    with open(partial, "wb") as sink:
        sink.write(save(tensors, metadata=header))
        sink.flush()
        os.fsync(sink.fileno())
    os.replace(partial, path)


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


def _checksum(tensors: dict[str, Tensor], values: dict[str, Any]) -> int:
    """Return a checksum of names, shapes, numbers and values; it tells of damage, not of intent."""
    result = zlib.crc32(json.dumps(values, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        result = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), result)
        result = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().tobytes(), result)
    return result
