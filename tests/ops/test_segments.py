"""The segment ops: against their references, PyTorch on each segment alone, and their laws."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, strategies as st

import hiddenfield.ops as ops
from hiddenfield.errors import InputError
from hiddenfield.ops import (
    segment_argmax,
    segment_argmax_reference,
    segment_logsumexp,
    segment_max,
    segment_repeat,
    segment_repeat_reference,
    segment_softmax,
    segment_sum,
)

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}
REDUCTIONS = [segment_sum, segment_max, segment_logsumexp]
OPS = [*REDUCTIONS, segment_softmax]
ORACLES = {
    segment_sum: lambda rows: rows.sum(0),
    segment_max: lambda rows: rows.amax(0) if len(rows) else rows.new_full(rows.shape[1:], -torch.inf),
    segment_logsumexp: lambda rows: rows.logsumexp(0),
    segment_softmax: lambda rows: rows.softmax(0).nan_to_num(0),
}
needs_cuda = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA device: nothing to compare with"
)


@st.composite
def segmented(draw, hard=True):
    """Draw rows, (rows,) or (rows, dim), contiguous or not, with ties and -inf, and pointers with empty segments."""
    lengths = draw(st.lists(st.integers(0, 6), max_size=6))
    ptr = torch.tensor([0, *lengths]).cumsum(0).to(draw(st.sampled_from([torch.int32, torch.int64])))
    rows, shape = sum(lengths), draw(st.sampled_from([(), (0,), (1,), (5,)]))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    layout = draw(st.sampled_from([1, 2]))
    values = torch.randn(layout * rows, *shape, generator=random, dtype=dtype)[::layout]
    if draw(st.booleans()):
        values = values.round()  # ties
    if hard and draw(st.booleans()):
        values = values.masked_fill(torch.rand(values.shape, generator=random) < 0.6, -torch.inf)
    return values, ptr


def close(first, second):
    assert first.dtype == second.dtype
    torch.testing.assert_close(first, second, rtol=TOLERANCE[first.dtype], atol=TOLERANCE[first.dtype])


def softmax_reference(rows, ptr):
    return torch.cat([rows[:0], *(rows[a:b].softmax(0).nan_to_num(0) for a, b in pairwise(ptr.tolist()))])


def reference(op):
    return softmax_reference if op is segment_softmax else getattr(ops, f"{op.__name__}_reference")


def with_gradient(op, rows, ptr):
    rows = rows.detach().clone().requires_grad_()
    out = op(rows, ptr)
    cotangent = torch.randn(out.shape, generator=torch.Generator().manual_seed(0), dtype=out.dtype)
    return out.detach(), torch.autograd.grad(out, rows, cotangent)[0]


@pytest.mark.parametrize("op", OPS)
@given(case=segmented())
def test_kernel_agrees_with_the_reference(op, case):
    rows, ptr = case
    close(op(rows, ptr), reference(op)(rows, ptr))


@pytest.mark.parametrize("op", OPS)
@given(case=segmented(hard=False))
def test_gradient_agrees_with_that_of_the_reference(op, case):
    for ours, theirs in zip(with_gradient(op, *case), with_gradient(reference(op), *case), strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("op", OPS)
@given(case=segmented())
def test_each_segment_is_treated_alone(op, case):
    rows, ptr = case
    pieces = [rows[ptr[s] : ptr[s + 1]] for s in range(len(ptr) - 1)]
    each = [ORACLES[op](piece) for piece in pieces]
    if op is segment_softmax:
        expected = torch.cat(each) if each else rows
    else:
        expected = torch.stack(each) if each else rows.new_zeros(0, *rows.shape[1:])
    close(op(rows, ptr), expected)


@pytest.mark.parametrize("op", OPS)
@given(case=segmented())
def test_hard_zeros_leave_no_nan(op, case):
    out, gradient = with_gradient(op, *case)
    assert not out.isnan().any()
    assert gradient.isfinite().all()


@given(case=segmented())
def test_argmax_is_the_first_maximal_row(case):
    rows, ptr = case
    winner = segment_argmax(rows, ptr)
    assert torch.equal(winner, segment_argmax_reference(rows, ptr))
    for segment in range(len(ptr) - 1):
        begin, end = int(ptr[segment]), int(ptr[segment + 1])
        if begin == end:
            assert (winner[segment] == -1).all()
        else:
            assert torch.equal(winner[segment], begin + rows[begin:end].argmax(0))


def test_nan_wins_over_every_number():
    rows = torch.tensor([1.0, torch.nan, torch.inf, torch.nan])
    ptr = torch.tensor([0, 4])
    assert segment_argmax(rows, ptr).tolist() == segment_argmax_reference(rows, ptr).tolist() == [1]
    assert segment_max(rows, ptr).isnan().all()


@given(case=segmented())
def test_softmax_sums_to_one_where_anything_is_possible(case):
    rows, ptr = case
    total = segment_sum(segment_softmax(rows, ptr), ptr)
    possible = segment_max(rows, ptr) > -torch.inf
    close(total, possible.to(rows.dtype))


@given(case=segmented(), shift=st.floats(-50, 50))
def test_logsumexp_moves_with_a_shift(case, shift):
    rows, ptr = case
    moved = segment_logsumexp(rows.double() + shift, ptr)
    torch.testing.assert_close(moved, segment_logsumexp(rows.double(), ptr) + shift)


@given(case=segmented())
def test_softmax_is_the_exponential_less_the_logsumexp(case):
    rows, ptr = case
    total = segment_repeat(segment_logsumexp(rows, ptr), ptr, len(rows))
    expected = torch.where(total > -torch.inf, (rows - total).exp(), 0)
    close(segment_softmax(rows, ptr), expected)


@given(case=segmented(hard=False))
def test_repeat_agrees_and_is_the_adjoint_of_sum(case):
    rows, ptr = case
    sums = segment_sum(rows, ptr)
    repeated = segment_repeat(sums, ptr, len(rows))
    assert torch.equal(repeated, segment_repeat_reference(sums, ptr, len(rows)))
    torch.testing.assert_close((repeated * rows).sum(), (sums * sums).sum(), rtol=1e-4, atol=1e-4)


@given(case=segmented(), seed=st.integers(0, 2**31))
def test_the_order_within_a_segment_does_not_matter(case, seed):
    rows, ptr = case
    random = torch.Generator().manual_seed(seed)
    ends = ptr.tolist()
    order = [b + torch.randperm(e - b, generator=random) for b, e in pairwise(ends)]
    order = torch.cat([*order, torch.empty(0, dtype=torch.int64)])
    for op in REDUCTIONS:
        close(op(rows[order], ptr), op(rows, ptr))
    close(segment_softmax(rows[order], ptr), segment_softmax(rows, ptr)[order])


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shape", [(9,), (9, 2)])
def test_first_and_second_derivatives(op, shape):
    rows = torch.randn(
        shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    ).requires_grad_()
    # An empty segment is -inf in two of the ops, whose numerical derivative is NaN: left out for these.
    ptr = torch.tensor([0, 4, 4, 5, 9] if op in (segment_sum, segment_softmax) else [0, 4, 5, 9])
    assert torch.autograd.gradcheck(lambda x: op(x, ptr), rows)
    assert torch.autograd.gradgradcheck(lambda x: op(x, ptr), rows)


def test_derivatives_of_repeat():
    values = torch.randn(
        4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    ).requires_grad_()
    ptr = torch.tensor([0, 4, 4, 5, 9])
    assert torch.autograd.gradcheck(lambda x: segment_repeat(x, ptr, 9), values)
    assert torch.autograd.gradgradcheck(lambda x: segment_repeat(x, ptr, 9), values)


def test_second_derivatives_with_hard_zeros_are_finite():
    rows = torch.tensor(
        [0.5, -torch.inf, 1.0, -torch.inf, -torch.inf], dtype=torch.float64, requires_grad=True
    )
    ptr = torch.tensor([0, 3, 5])
    for op in (segment_logsumexp, segment_softmax):
        out = op(rows, ptr)
        (first,) = torch.autograd.grad((out.nan_to_num(neginf=0) ** 2).sum(), rows, create_graph=True)
        (second,) = torch.autograd.grad((first**2).sum(), rows)
        assert first.isfinite().all()
        assert second.isfinite().all()


def test_large_numbers_do_not_overflow():
    rows, ptr = torch.tensor([1e30, 1e30, -1e30]), torch.tensor([0, 3])
    assert segment_softmax(rows, ptr).tolist() == [0.5, 0.5, 0.0]
    assert segment_logsumexp(rows, ptr).isfinite().all()
    assert segment_logsumexp(torch.tensor([torch.inf, 1.0]), torch.tensor([0, 2])).item() == torch.inf


@pytest.mark.parametrize("op", OPS)
def test_threads_do_not_change_a_bit(op):
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 40, (1_000,), generator=random)
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    rows = torch.randn(int(ptr[-1]), 4, generator=random)
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        results.append(with_gradient(op, rows, ptr))
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


@needs_cuda
@pytest.mark.parametrize("op", OPS)
@given(case=segmented())
def test_devices_agree(op, case):
    rows, ptr = case
    close(op(rows.cuda(), ptr.cuda()).cpu(), op(rows, ptr))


@pytest.mark.bad_input
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("rows", "ptr", "text"),
    [
        (torch.zeros(2, 2, 2), torch.tensor([0, 2]), r"shape \(rows,\) or \(rows, dim\), got \(2, 2, 2\)"),
        (torch.zeros(2, dtype=torch.int32), torch.tensor([0, 2]), "floating-point"),
        (torch.zeros(2), torch.tensor([0.0, 2.0]), "ptr must be a vector of int32 or int64"),
        (torch.zeros(2), torch.tensor([], dtype=torch.int64), "ptr must hold segments \\+ 1 numbers"),
        (torch.zeros(2), torch.tensor([0, 3]), "last number of ptr must be the number of rows, 2, got 3"),
        (torch.zeros(2), torch.tensor([0, 2], device="meta"), "ptr is on meta"),
        ([0.0], torch.tensor([0, 1]), "rows must be a tensor, got list"),
    ],
)
def test_bad_input_is_refused(op, rows, ptr, text):
    with pytest.raises(InputError, match=text):
        op(rows, ptr)


def test_repeat_refuses_pointers_of_another_length():
    with pytest.raises(InputError, match=r"ptr must hold 2 \+ 1 numbers, beginning with 0, got 2"):
        segment_repeat(torch.zeros(2), torch.tensor([0, 2]), 2)
