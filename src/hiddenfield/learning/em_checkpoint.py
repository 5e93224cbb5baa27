"""Runs of EM on disk: all that one needs to go on, bit by bit."""

from __future__ import annotations

import dataclasses
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import ReadError
from hiddenfield.learning.alternation import Alternation
from hiddenfield.learning.checkpoint import Checkpoint, load_own, save_checkpoint
from hiddenfield.learning.protocol import Arrays
from hiddenfield.learning.shards import Shards
from hiddenfield.learning.turns import Turn
from hiddenfield.shapes import Tensor

SHARE = 0.05
"""Of the time that goes into saving."""

ARRAYS = ("parameters", "fallback", "known", "running")
NUMBERS = ("least", "objective", "steps", "count")


class Saved:
    """The file of one run."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path, self.identity = path, dict(identity)
        self.due = 0.0

    def save_sometimes(
        self, now: Alternation[Turn, Any], draws: Sequence[Arrays], random: np.random.Generator
    ) -> None:
        """Save where that has not been done for a while."""
        if time.monotonic() >= self.due:
            self.save(now, draws, random)

    def save(self, now: Alternation[Turn, Any], draws: Sequence[Arrays], random: np.random.Generator) -> None:
        """Write how far the run has come, atomically."""
        begun, turn = time.monotonic(), now.parameters
        groups: dict[str, Arrays] = {name: getattr(turn, name) or {} for name in ARRAYS}
        groups["turn"] = {} if turn.before is None else {"before": turn.before}
        tensors = flattened(groups, draws)
        values = {
            "identity": self.identity,
            "numbers": {name: getattr(turn, name) for name in NUMBERS},
            "scores": now.scores,
            "residuals": now.residuals,
            "converged": now.converged,
            "random": random.bit_generator.state,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        save_checkpoint(Checkpoint(tensors, values), self.path)
        spent = time.monotonic() - begun
        self.due = time.monotonic() + spent / SHARE

    def load(self, random: np.random.Generator) -> tuple[Alternation[Turn, Any], list[Arrays]] | None:
        """Return how far the run had come, and bring the generator to where it was; None where nothing was saved."""
        if not self.path.exists():
            return None
        saved = load_own(self.path, self.identity)
        try:
            groups, draws = grouped(saved.tensors)
            state = {name: groups.get(name) for name in ARRAYS} | saved.values["numbers"]
            turn = Turn(**state, before=groups.get("turn", {}).get("before"))
            random.bit_generator.state = saved.values["random"]
            done = (saved.values["converged"], saved.values["scores"], saved.values["residuals"])
            return Alternation(turn, None, *done), draws
        except (KeyError, TypeError, ValueError) as error:
            raise ReadError(
                f"does not hold a run ({error}); remove it to start again", file=self.path
            ) from None


def flattened(groups: Mapping[str, Arrays], draws: Sequence[Arrays]) -> dict[str, Tensor]:
    """Return arrays of several groups, and draws of parameters, by one name each."""
    stacked = {name: np.stack([each[name] for each in draws]) for name in (draws[0] if draws else ())}
    return {
        f"{group}.{name}": torch.from_numpy(np.array(value, order="C"))
        for group, own in {**groups, "draws": stacked}.items()
        for name, value in own.items()
    }


def grouped(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Arrays], list[Arrays]]:
    """Return the groups and the draws that `flattened` has put together; groups without arrays are not there."""
    groups: dict[str, Arrays] = {}
    for name, tensor in tensors.items():
        group, own = name.split(".", 1)
        groups.setdefault(group, {})[own] = tensor.numpy()
    stacked = groups.pop("draws", {})
    count = len(next(iter(stacked.values()), ()))
    return groups, [{name: value[i] for name, value in stacked.items()} for i in range(count)]


def fingerprint(value: Any) -> int:
    """Return a checksum of arrays and settings, however they are nested; of shards, of what they are opened from.

    Examples
    --------
    >>> fingerprint({"a": np.ones(2)}) == fingerprint({"a": np.ones(2)}) != fingerprint({"a": np.ones(3)})
    True
    >>> from scipy.sparse import csr_array
    >>> fingerprint(csr_array([[0, 1]])) == fingerprint(csr_array([[0, 2]]))
    False
    """
    if isinstance(value, torch.Tensor):
        value = value.numpy(force=True)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return zlib.crc32(
            np.ascontiguousarray(value).tobytes(), zlib.crc32(f"{value.dtype}{value.shape}".encode())
        )
    if isinstance(value, Shards):
        return fingerprint(list(value.parts))
    from scipy.sparse import issparse

    if issparse(value):  # whose own text names its shape alone
        rows = value.tocsr()
        value = [rows.shape, rows.data, rows.indices, rows.indptr]
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)} | {
            "": type(value).__name__
        }
    if isinstance(value, Mapping):
        value = [[str(name), fingerprint(entry)] for name, entry in value.items()]
    elif isinstance(value, (list, tuple, np.ndarray)):
        value = [fingerprint(entry) for entry in value]
    return zlib.crc32(repr(value).encode())
