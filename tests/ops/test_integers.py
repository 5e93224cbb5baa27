"""counting_sort, match_reverse and take_segments, which the packs are built and cut with."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch
from hypothesis import given, strategies as st

from hiddenfield.errors import InputError
from hiddenfield.ops import (
    counting_sort,
    counting_sort_reference,
    match_reverse,
    match_reverse_reference,
    take_pointers,
    take_segments,
    take_segments_reference,
)

INDEX = st.sampled_from([torch.int32, torch.int64])
needs_cuda = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA device: nothing to compare with"
)


# -- counting_sort -----------------------------------------------------------------------------------------


@given(st.data(), INDEX, st.integers(0, 6), st.sampled_from([1, 2]))
def test_counting_sort_is_a_stable_sort(data, dtype, num_keys, stride):
    values = data.draw(st.lists(st.integers(0, num_keys - 1), max_size=20)) if num_keys else []
    keys = torch.tensor(values, dtype=dtype).repeat_interleave(stride)[::stride]
    order, ptr = counting_sort(keys, num_keys)
    assert order.dtype == ptr.dtype == dtype
    assert order.tolist() == sorted(range(len(values)), key=values.__getitem__)
    assert ptr.tolist() == [sum(value < key for value in values) for key in range(num_keys + 1)]
    again = counting_sort_reference(keys, num_keys)
    assert torch.equal(order, again[0])
    assert torch.equal(ptr, again[1])


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("keys", "num_keys", "text"),
    [
        (torch.tensor([0, 5]), 5, "row 1 has key 5, but keys go from 0 to 4"),
        (torch.tensor([-1]), 5, "row 0 has key -1"),
        (torch.tensor([0]), -1, "must not be negative"),
        (torch.tensor([0.5]), 1, "int32 or int64"),
    ],
)
def test_counting_sort_refuses(keys, num_keys, text):
    with pytest.raises(InputError, match=text):
        counting_sort(keys, num_keys)


# -- match_reverse -----------------------------------------------------------------------------------------


@st.composite
def sorted_arcs(draw):
    nodes = draw(st.integers(0, 5))
    node = st.integers(0, max(nodes - 1, 0))
    arcs = sorted(draw(st.lists(st.tuples(node, node), max_size=25 if nodes else 0)))  # (target, source)
    dtype = draw(INDEX)
    target = torch.tensor([arc[0] for arc in arcs], dtype=torch.int64)
    source = torch.tensor([arc[1] for arc in arcs], dtype=dtype)
    return arcs, source, torch.searchsorted(target, torch.arange(nodes + 1)).to(dtype)


@given(sorted_arcs())
def test_the_kth_arc_is_paired_with_the_kth_the_other_way(case):
    arcs, source, in_ptr = case
    places = defaultdict(list)
    for place, arc in enumerate(arcs):
        places[arc].append(place)
    expected = []
    for place, (target, start) in enumerate(arcs):
        rank, others = places[target, start].index(place), places[start, target]
        expected.append(others[rank] if rank < len(others) else -1)
    reverse = match_reverse(source, in_ptr)
    assert reverse.tolist() == expected
    assert torch.equal(reverse, match_reverse_reference(source, in_ptr))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("source", "in_ptr", "text"),
    [
        (torch.tensor([1, 0]), torch.tensor([0, 2, 2]), "arc 1 comes from node 0.*sort the arcs"),
        (torch.tensor([2]), torch.tensor([0, 1, 1]), "arc 0 comes from node 2: expected nodes from 0 to 1"),
        (torch.tensor([-1]), torch.tensor([0, 1]), "arc 0 comes from node -1"),
        (
            torch.tensor([0]),
            torch.tensor([0, 2]),
            "in_ptr must go from 0 to the number of arcs, 1, got 0 to 2",
        ),
        (torch.tensor([0]), torch.tensor([], dtype=torch.int64), r"nodes \+ 1 numbers"),
        (torch.tensor([0.0]), torch.tensor([0, 1]), "source must be a vector of int32 or int64"),
    ],
)
def test_match_reverse_refuses(source, in_ptr, text):
    with pytest.raises(InputError, match=text):
        match_reverse(source, in_ptr)


# -- take_segments -----------------------------------------------------------------------------------------

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
]


@st.composite
def packed(draw, dtypes=DTYPES):
    """Draw rows of any dtype, aligned or not, contiguous or not; pointers; and segments in any order."""
    lengths = draw(st.lists(st.integers(0, 5), max_size=5))
    index_dtype = draw(INDEX)
    ptr = torch.tensor([0, *lengths]).cumsum(0).to(index_dtype)
    shape = (sum(lengths), *draw(st.sampled_from([(), (0,), (1,), (3,), (4,)])))
    offset, stride = draw(st.integers(0, 1)), draw(st.sampled_from([1, 2]))
    rows = torch.arange(offset + stride * shape[0] * (shape[1] if len(shape) > 1 else 1)) % 100 - 3
    values = rows[offset:].to(draw(st.sampled_from(dtypes))).reshape(stride * shape[0], *shape[1:])[::stride]
    last = len(lengths) - 1
    index = draw(st.lists(st.integers(0, last), max_size=8)) if lengths else []
    return values, ptr, torch.tensor(index, dtype=index_dtype)


@given(packed())
def test_taken_segments_stand_one_after_another(case):
    values, ptr, index = case
    new_ptr = take_pointers(ptr, index)
    out = take_segments(values, ptr, index, new_ptr)
    pieces = [values[ptr[s] : ptr[s + 1]] for s in index.tolist()]
    assert torch.equal(out, torch.cat([values[:0], *pieces]))
    assert new_ptr.tolist() == torch.tensor([0, *map(len, pieces)]).cumsum(0).tolist()
    assert torch.equal(out, take_segments_reference(values, ptr, index, new_ptr))


@given(packed(dtypes=[torch.int32, torch.int64]), INDEX)
def test_a_shift_moves_all_but_negative_numbers(case, dtype):
    values, ptr, index = case
    new_ptr = take_pointers(ptr, index)
    shift = torch.arange(len(index), dtype=dtype) * 1000 - 1
    out = take_segments(values, ptr, index, new_ptr, shift)
    assert out.dtype == values.dtype
    for place, segment in enumerate(index.tolist()):
        old = values[ptr[segment] : ptr[segment + 1]]
        moved = out[new_ptr[place] : new_ptr[place + 1]]
        assert torch.equal(moved, torch.where(old < 0, old, old + int(shift[place])))
    assert torch.equal(out, take_segments_reference(values, ptr, index, new_ptr, shift))


def test_threads_take_the_same_rows():
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 50, (2_000,), generator=random)
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    values = torch.randint(-1, 1000, (int(ptr[-1]), 3), generator=random)
    index = torch.randint(0, 2_000, (3_000,), generator=random)
    new_ptr = take_pointers(ptr, index)
    for shift in (None, torch.arange(3_000)):
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(take_segments(values, ptr, index, new_ptr, shift))
        assert torch.equal(*results)


@needs_cuda
@given(packed(dtypes=[torch.int32, torch.int64]), st.booleans())
def test_a_batch_is_cut_on_the_device(case, on_device):
    values, ptr, index = case
    new_ptr = take_pointers(ptr, index)
    shift = torch.arange(len(index), dtype=torch.int64)
    places = [tensor.cuda() if on_device else tensor for tensor in (ptr, index, new_ptr, shift)]
    out = take_segments(values.cuda(), *places)
    assert out.is_cuda
    assert torch.equal(out.cpu(), take_segments(values, ptr, index, new_ptr, shift))


GOOD = {
    "values": torch.arange(5),
    "ptr": torch.tensor([0, 2, 5]),
    "index": torch.tensor([1]),
    "new_ptr": torch.tensor([0, 3]),
}


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"index": torch.tensor([2])}, r"index\[0\] is 2, but there are 2 segments"),
        ({"index": torch.tensor([-1])}, r"index\[0\] is -1"),
        ({"new_ptr": torch.tensor([0, 2])}, "does not fit the rows or new_ptr"),
        ({"values": torch.arange(4)}, r"segment 1 \(index\[0\]\) goes from row 2 to 5, which does not fit"),
        ({"new_ptr": torch.tensor([0])}, r"new_ptr must hold 1 \+ 1 numbers, got 1"),
        ({"values": torch.zeros(5, 1, 1)}, r"shape \(rows,\) or \(rows, width\)"),
        ({"ptr": torch.tensor([], dtype=torch.int64)}, r"segments \+ 1 numbers"),
        ({"index": torch.tensor([1], device="meta")}, "on meta|on cpu"),
        ({"values": torch.zeros(5), "shift": torch.tensor([1])}, "a shift needs values of int32 or int64"),
        ({"values": [1]}, "values must be a tensor, got list"),
        ({"index": [1]}, "index must be a tensor, got list"),
        ({"shift": torch.tensor([1, 2])}, "shift must hold one number for each of 1 segments, got 2"),
    ],
)
def test_take_segments_refuses(arguments, text):
    with pytest.raises(InputError, match=text):
        take_segments(**{**GOOD, **arguments})
