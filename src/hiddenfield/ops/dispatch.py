"""Which implementation of an op runs, and the checks and allocations that all ops share."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from hiddenfield.errors import InputError
from hiddenfield.ops.compile import Compiled, as_array
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Int, Tensor

BACKENDS = {name: name for name in ("auto", "numba", "torch")}
"""The back ends that a user can ask for."""

FLOATS = frozenset({torch.float32, torch.float64})
COMPILED_DTYPES = FLOATS | {torch.int32, torch.int64}
INDEX_DTYPES = (torch.int32, torch.int64)

HUGE_PAGE = 1 << 21
MADV_HUGEPAGE = 14
SMALLEST_ADVISED, LARGEST_ADVISED = 4 * HUGE_PAGE, 128 * HUGE_PAGE


@dataclass(frozen=True)
class Implementations:
    """The implementations of one op, all with the same arguments and results; the first argument decides.

    Parameters
    ----------
    reference
        Plain PyTorch; runs on every device and with every dtype, and is what the others are tested against.
    cpu
        A compiled loop for float32, float64, int32 and int64 in host memory.
    cuda
        A Triton kernel. None while an op has none: the reference then runs on the device.
    gradient
        From the context of the call and the result's gradient to those of the leading arguments. The context has
        `arguments`, with the number of its rows in place of every floating-point tensor, and what `keep` kept. None
        for an op without gradient.
    keep
        The tensors that the gradient needs, given the result and the arguments.

    Examples
    --------
    >>> from hiddenfield.ops.dispatch import Implementations
    >>> negate = Implementations(reference=lambda x: -x, cpu=lambda x: x.neg())
    >>> negate(torch.ones(2))
    tensor([-1., -1.])
    """

    reference: Callable[..., Any]
    cpu: Callable[..., Any] | None = None
    cuda: Callable[..., Any] | None = None
    gradient: Callable[[Any, Tensor], tuple[Tensor | None, ...]] | None = None
    keep: Callable[..., Sequence[Tensor]] = lambda *_: ()

    def __call__(self, *arguments: Any) -> Any:
        """Run the implementation for the device and dtype of the first argument, noting how to differentiate it."""
        wanted = any(isinstance(value, Tensor) and value.requires_grad for value in arguments)
        if wanted and self.gradient is not None and torch.is_grad_enabled():
            return _Differentiated.apply(self, *arguments)
        return self.run(*arguments)

    def run(self, first: Tensor, *others: Any) -> Any:
        """Run the implementation without noting anything."""
        if first.is_cpu:
            if self.cpu is not None and first.dtype in COMPILED_DTYPES:
                return self.cpu(first, *others)
        elif first.is_cuda and self.cuda is not None:
            return self.cuda(first, *others)
        return self.reference(first, *others)


class _Differentiated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, op: Implementations, *arguments: Any) -> Tensor:
        out: Tensor = op.run(*arguments)
        ctx.op = op
        ctx.arguments = [
            len(value) if isinstance(value, Tensor) and value.is_floating_point() else value
            for value in arguments
        ]
        ctx.save_for_backward(*op.keep(out, *arguments))
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        found = ctx.op.gradient(ctx, gradient)
        return (None, *found, *[None] * (len(ctx.arguments) - len(found)))


def use_compiled(*tensors: Tensor, backend: str = "auto", converts: bool = False) -> bool:
    """Choose between compiled loops and torch, for algorithms that have both.

    "auto" takes the loops on the CPU, in single or double precision, where no gradient is wanted.

    Parameters
    ----------
    tensors
        What is computed on.
    backend
        "auto", "numba" or "torch", as the user asked; "numba" is refused for what the loops cannot do.
    converts
        The loops copy their input to double precision, so that any floating type will do.

    Examples
    --------
    >>> (
    ...     use_compiled(torch.ones(2)),
    ...     use_compiled(torch.ones(2), backend="torch"),
    ...     use_compiled(torch.ones(2).half()),
    ... )
    (True, False, False)
    """
    choose("backend", BACKENDS, backend)
    suited = all(tensor.is_cpu and (converts or tensor.dtype in FLOATS) for tensor in tensors)
    if backend == "numba" and not suited:
        dtypes = "any floating type" if converts else "float32 and float64"
        found = ", ".join(sorted({f"{tensor.dtype} on {tensor.device}" for tensor in tensors}))
        raise InputError(f"the numba back end is for {dtypes} on the CPU, got {found}; use backend='torch'")
    if backend != "auto" or not suited:
        return suited and backend == "numba"
    return not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))


def empty(shape: Sequence[int], like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Allocate an uninitialised result beside `like`, on huge pages where that pays.

    Fresh memory costs a page fault for every 4 KiB when it is first written, which for results beyond the
    allocator's reuse (some 32 MiB) takes as long as the op itself; 2 MiB pages made forward and backward of
    `cavity_sum` 1.5 times faster at 250,000 and at 1,000,000 arcs (measured with and without). Beyond 256 MiB
    it did not pay: a virtual machine that hands free memory back to its host pays dearly for huge pages it
    has not touched. Linux only, and only a hint to the system.
    """
    out = like.new_empty(shape, dtype=dtype)
    size = out.nbytes
    if SMALLEST_ADVISED <= size <= LARGEST_ADVISED and out.is_cpu:
        advise = _memory_advice()
        if advise is not None:
            begin = -(-out.data_ptr() // HUGE_PAGE) * HUGE_PAGE
            end = (out.data_ptr() + size) // HUGE_PAGE * HUGE_PAGE
            advise(begin, end - begin, MADV_HUGEPAGE)
    return out


@functools.cache
def _memory_advice() -> Callable[[int, int, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    if advise is not None:
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return advise


def over_segments(
    loop: Compiled,
    rows: Tensor,
    ptr: Tensor,
    *,
    dtype: torch.dtype | None = None,
    effort: int = 1,
) -> Tensor:
    """Run ``loop(rows, ptr, out)`` on matrices, with one row of the result per segment."""
    pointers = as_array(ptr)
    check_total(pointers, rows.shape[0])
    out = empty((pointers.size - 1, *rows.shape[1:]), rows, dtype)
    flat = rows.unsqueeze(1) if rows.ndim == 1 else rows
    target = out.view(out.shape[0], flat.shape[1]).numpy()
    loop(as_array(flat), pointers, target, work=effort * flat.numel())
    return out


def reject(message: str) -> NoReturn:
    """Raise the error for a bad argument."""
    raise InputError(message)


def check_tensor(values: Any, name: str) -> None:
    """Check that `values` is a tensor."""
    if not isinstance(values, Tensor):
        reject(f"{name} must be a tensor, got {type(values).__name__}; convert it with torch.as_tensor")


def _check_floats(values: Tensor, name: str) -> None:
    if not values.is_floating_point():
        reject(
            f"{name} must hold floating-point numbers, got {values.dtype}; convert with .to(torch.float32)"
        )


def check_rows(values: Tensor, name: str, rows: int, per: str, index: Tensor) -> None:
    """Check in O(1) that `values` is a float matrix of `rows` rows on the device of `index`."""
    check_tensor(values, name)
    if values.ndim != 2 or values.shape[0] != rows:
        reject(
            f"{name} must have shape ({rows}, dim), one row for each of the {rows} {per}, "
            f"got {tuple(values.shape)}"
        )
    _check_floats(values, name)
    if values.device != index.device:
        reject(
            f"{name} is on {values.device} and the indices are on {index.device}; move one with .to(device)"
        )


def check_like(values: Tensor, other: Tensor) -> None:
    """Check in O(1) that a constant can be added to sums of the rows of `other`."""
    if values.shape[1] != other.shape[1] or values.dtype != other.dtype:
        reject(
            f"the constant must have as many columns as the rows that are summed, {other.shape[1]}, and their type "
            f"{other.dtype}, got {values.shape[1]} of {values.dtype}"
        )


def through_rectifier(gradient: Tensor, out: Tensor) -> Tensor:
    """Return the gradient before the rectifier, given the one after it and its result."""
    return torch.ops.aten.threshold_backward(gradient, out, 0)


def check_pointers(rows: Tensor, ptr: Int[Tensor, " segment_bounds"], segments: int | None = None) -> None:
    """Check in O(1) that `rows` is (rows,) or (rows, dim) and that `ptr` can point into it."""
    check_tensor(rows, "rows")
    if rows.ndim not in (1, 2):
        reject(f"rows must have shape (rows,) or (rows, dim), got {tuple(rows.shape)}")
    _check_floats(rows, "rows")
    check_index(ptr, "ptr", rows.device)
    if ptr.shape[0] == 0 or (segments is not None and ptr.shape[0] != segments + 1):
        wanted = "segments + 1" if segments is None else f"{segments} + 1"
        reject(f"ptr must hold {wanted} numbers, beginning with 0, got {ptr.shape[0]}")


def check_total(ptr: Array, num_rows: int) -> None:
    """Check in O(1), in host memory, that the segments end where the rows do."""
    if ptr[-1] != num_rows:
        reject(f"the last number of ptr must be the number of rows, {num_rows}, got {int(ptr[-1])}")


def check_index(index: Tensor, name: str, device: torch.device | None = None) -> None:
    """Check in O(1) that `index` is a vector of int32 or int64, and on `device` if one is given."""
    check_tensor(index, name)
    if index.ndim != 1 or index.dtype not in INDEX_DTYPES:
        reject(
            f"{name} must be a vector of int32 or int64, got shape {tuple(index.shape)} and {index.dtype}; "
            "convert with .to(torch.int32)"
        )
    if device is not None and index.device != device:
        reject(
            f"{name} is on {index.device} and the other tensors are on {device}; move one with .to(device)"
        )
