"""Where and how to compute: device, precision, optimizer, threads."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from hiddenfield.errors import InputError
from hiddenfield.learning.processes import Team
from hiddenfield.learning.settings import TrainSettings

# Entries of a vector on every node and arc of a batch per thread. On 16 idle cores threads pay from here on: eight are
# 2.7 times as fast as one at 3 million entries, and 5 times at 24 million.
ENTRIES_PER_THREAD = 400_000

# With fewer cores than this a second thread brings little (1.3 times at 3 million entries), and where other programs
# run it waits for them: on a busy machine with two cores two threads were 2 to 15 times slower than one.
FEW_CORES, ENTRIES_PER_THREAD_OF_FEW = 4, 4_000_000


def resolve_device(device: str) -> torch.device:
    """Return the device of that name; ``"auto"`` is a GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError):
        place = torch.device("meta")
    if place.type not in ("cpu", "cuda"):
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda', got {device!r}")
    found = torch.cuda.device_count()
    if place.type == "cuda" and (place.index or 0) >= found:
        raise InputError(f"device {device!r} was asked for, and CUDA finds {found} here; use 'auto' or 'cpu'")
    return place


def device_of(settings: TrainSettings, team: Team) -> torch.device:
    """Return the device of this process: the one that was asked for, or the GPU of its rank."""
    place = resolve_device(settings.device)
    if place.type == "cpu" or team.size == 1:
        return place
    if (found := torch.cuda.device_count()) < team.size:
        raise InputError(f"devices={team.size} needs as many GPUs, and CUDA finds {found}; use device='cpu'")
    return torch.device("cuda", team.rank)


@contextmanager
def precision_of(settings: TrainSettings) -> Iterator[None]:
    """Let a GPU round the factors of products to 11 bits, where that was asked for, and as before afterwards."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = before or settings.precision == "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def autocast(settings: TrainSettings, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context in which a network runs in mixed precision, where that was asked for."""
    kinds = {"bf16": torch.bfloat16, "16": torch.float16}
    if settings.precision not in kinds:
        return nullcontext()
    return torch.autocast(device.type, dtype=kinds[settings.precision])


def make_scaler(settings: TrainSettings, device: torch.device) -> torch.amp.GradScaler:
    """Return the scale of the loss, which half precision needs and others leave alone."""
    if settings.precision == "16" and device.type == "cpu":
        raise InputError("precision '16' needs a GPU; on the CPU choose from: 32, bf16, 64")
    return torch.amp.GradScaler(device.type, enabled=settings.precision == "16")


def make_optimizer(network: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    """Return the optimizer of all weights."""
    common: dict[str, Any] = {
        "lr": settings.learning_rate,
        "weight_decay": settings.weight_decay,
        # A fused step would divide by the scale of the loss itself, too late for clipping.
        "fused": settings.precision != "16",
    }
    parameters = list(network.parameters())
    capturable = parameters[0].is_cuda and settings.precision != "16"
    if settings.optimizer == "sgd":
        return light(torch.optim.SGD)(parameters, momentum=settings.momentum, **common)
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return light(kind)(parameters, capturable=capturable, **common)


def light(kind: type[torch.optim.Optimizer]) -> Any:
    """Return an optimizer without the wrappers that import the compiler of PyTorch, which is not used here.

    The import takes longer than a short training (1.1 s of CPU time, 3.5 s where modules are not cached as byte code).
    """
    wrapped = ("add_param_group", "zero_grad", "state_dict", "load_state_dict", "step")
    plain = {name: inspect.unwrap(getattr(kind, name)) for name in wrapped}
    return type(kind.__name__, (kind,), plain | {"step": torch.no_grad()(plain["step"])})


def start_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Make the optimizer's averages, if it has none, and put its rate on the device, so that steps can be captured."""
    fresh = not optimizer.state
    for group in optimizer.param_groups:
        group["lr"] = torch.zeros((), device=group["params"][0].device)
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    if fresh:
        optimizer.step()  # at rate 0
        for moments in optimizer.state.values():
            for value in moments.values():
                if isinstance(value, torch.Tensor):
                    value.zero_()


@contextmanager
def few_threads(entries: float, processes: int = 1) -> Iterator[None]:
    """Use no more threads of torch than a batch has work for, and as many as before afterwards.

    The number depends on the batch and the machine, not on its load, so that a run is repeatable to the bit.
    """
    before = torch.get_num_threads()
    each = ENTRIES_PER_THREAD if before >= FEW_CORES else ENTRIES_PER_THREAD_OF_FEW
    with torch_threads(max(1, min(before // processes, int(entries / each)))):
        yield


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use so many threads, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
