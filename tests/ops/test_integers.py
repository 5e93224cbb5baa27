"""counting_sort, match_reverse and SegmentCut, which the packs are built and cut with."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch
from hypothesis import given, strategies as st

from hiddenfield.errors import InputError
from hiddenfield.ops import (
    SegmentCut,
    counting_sort,
    counting_sort_reference,
    match_reverse,
    match_reverse_reference,
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


# -- SegmentCut --------------------------------------------------------------------------------------------

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
    cut = SegmentCut(ptr, index)
    out = cut.take(values)
    pieces = [values[ptr[s] : ptr[s + 1]] for s in index.tolist()]
    assert torch.equal(out, torch.cat([values[:0], *pieces]))
    assert cut.new_ptr.tolist() == torch.tensor([0, *map(len, pieces)]).cumsum(0).tolist()
    assert torch.equal(out, take_segments_reference(values, ptr, index, cut.new_ptr))


def moved_by(ptr, index, dtype):
    """Return a cut, and one by which what numbers its rows is moved."""
    cut, moved = SegmentCut(ptr, index), SegmentCut(ptr, index)
    moved.shift = torch.arange(len(index), dtype=dtype) * 1000 - 1
    return cut, moved


@given(packed(dtypes=[torch.int32, torch.int64]), INDEX)
def test_a_shift_moves_all_but_negative_numbers(case, dtype):
    values, ptr, index = case
    cut, moved = moved_by(ptr, index, dtype)
    out = cut.take(values, moved)
    assert out.dtype == values.dtype
    for place, segment in enumerate(index.tolist()):
        old = values[ptr[segment] : ptr[segment + 1]]
        found = out[cut.new_ptr[place] : cut.new_ptr[place + 1]]
        assert torch.equal(found, torch.where(old < 0, old, old + int(moved.shift[place])))
    assert torch.equal(out, take_segments_reference(values, ptr, index, cut.new_ptr, moved.shift))


def test_threads_take_the_same_rows():
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 50, (2_000,), generator=random)
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    values = torch.randint(-1, 1000, (int(ptr[-1]),), generator=random)
    cut, moved = moved_by(ptr, torch.randint(0, 2_000, (3_000,), generator=random), torch.int64)
    for by in (None, moved):
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(cut.take(values, by))
        assert torch.equal(*results)


@needs_cuda
@given(packed(dtypes=[torch.int32, torch.int64]))
def test_a_batch_is_cut_on_the_device(case):
    values, ptr, index = case
    cut = SegmentCut(ptr, index)
    for by in (None, cut):
        out = cut.take(values.cuda(), by)
        assert out.is_cuda
        assert torch.equal(out.cpu(), cut.take(values, by))
