"""Training by several processes: each takes its part of every batch, and they add up their gradients."""

from __future__ import annotations

import multiprocessing.context
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed

from hiddenfield.errors import HiddenfieldError, InputError, TrainingError
from hiddenfield.shapes import Array, Float, Shaped, Tensor

GUARD = 'call it below `if __name__ == "__main__":` in a script, since every process imports the script anew'


@dataclass(frozen=True)
class Team:
    """The processes that train one network, and which of them this is.

    Examples
    --------
    >>> [Team(rank, 2).part(np.arange(5)).tolist() for rank in range(2)]
    [[0, 1, 2], [3, 4]]
    """

    rank: int = 0
    size: int = 1

    def part(self, rows: Shaped[Array, " rows"]) -> Shaped[Array, " part"]:
        """Return the part of the rows that this process works on."""
        return rows if self.size == 1 else np.array_split(rows, self.size)[self.rank]

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors, in place, by their sums over all processes."""
        if self.size > 1:
            flat = torch.cat([tensor.flatten() for tensor in tensors])
            distributed.all_reduce(flat)
            for tensor, total in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
                tensor.copy_(total.view_as(tensor))

    def join(self, part: Float[Tensor, "part width"]) -> Float[Tensor, "rows width"]:
        """Return the parts of all processes end to end, in host memory."""
        if self.size == 1:
            return part
        parts: list[Any] = [None] * self.size
        distributed.all_gather_object(parts, part)
        return torch.cat(parts)


@contextmanager
def team_of(size: int, work: Callable[..., Any], *arguments: Any) -> Iterator[Team]:
    """Start the other processes of a team, each of which calls ``work(team, *arguments)``; this one is the first.

    Parameters
    ----------
    size
        Processes, this one included; with 1 nothing is started.
    work
        A function of a module, that does in its process what the caller does in this one.
    arguments
        Anything that can be pickled.
    """
    if size == 1:
        yield Team()
        return
    if distributed.is_initialized():
        raise InputError("this process belongs to a group of torch.distributed already; use devices=1")
    context, payload = multiprocessing.get_context("spawn"), pickle.dumps((work, arguments))
    helpers: list[multiprocessing.context.SpawnProcess] = []
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{Path(folder) / 'meeting'}"
        try:
            ready = [context.Event() for _ in range(1, size)]
            for rank in range(1, size):
                process = context.Process(
                    target=_help, args=(rank, size, meeting, ready[rank - 1], payload), daemon=True
                )
                process.start()
                helpers.append(process)
            for process, event in zip(helpers, ready, strict=True):
                while not event.wait(0.1):
                    if not process.is_alive():
                        code = process.exitcode
                        raise TrainingError(f"a process could not be started (exit code {code}); {GUARD}")
            _meet(meeting, 0, size)
            yield Team(0, size)
        except RuntimeError as error:
            if isinstance(error, HiddenfieldError):
                raise
            raise TrainingError(f"the processes lost each other ({error}); train with devices=1") from error
        finally:
            if distributed.is_initialized():
                distributed.destroy_process_group()
            for process in helpers:
                process.join(timeout=10)
                if process.is_alive():
                    process.terminate()


def _meet(meeting: str, rank: int, size: int) -> None:
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    distributed.init_process_group(backend, init_method=meeting, rank=rank, world_size=size)


def _help(rank: int, size: int, meeting: str, ready: Any, payload: bytes) -> None:
    work, arguments = pickle.loads(payload)
    ready.set()
    _meet(meeting, rank, size)
    try:
        work(Team(rank, size), *arguments)
    except HiddenfieldError:
        pass  # the first process has the same error, and raises it
    finally:
        distributed.destroy_process_group()
