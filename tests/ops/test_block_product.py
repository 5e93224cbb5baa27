"""Products block by block: against loops, their gradients, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hiddenfield.errors import InputError
from hiddenfield.ops import RowBlocks, block_outer, block_product

sizes = st.lists(st.integers(0, 7), min_size=1, max_size=5)


def drawn(counts, inputs, outputs, seed=0):
    torch.manual_seed(seed)
    ptr = torch.from_numpy(np.cumsum([0, *counts]))
    rows = torch.randn(sum(counts), inputs, dtype=torch.float64)
    weight = torch.randn(len(counts), outputs, inputs, dtype=torch.float64)
    return RowBlocks(ptr, sum(counts)), rows, weight


@given(sizes, st.integers(1, 5), st.integers(1, 5))
def test_every_row_meets_the_matrix_of_its_block(counts, inputs, outputs):
    blocks, rows, weight = drawn(counts, inputs, outputs)
    expected = torch.einsum("roi,ri->ro", weight[blocks.owner], rows)
    assert torch.allclose(block_product(rows, weight, blocks), expected)
    left = torch.randn(len(rows), outputs, dtype=torch.float64)
    summed = torch.zeros_like(weight).index_add(0, blocks.owner, torch.einsum("ro,ri->roi", left, rows))
    assert torch.allclose(block_outer(left, rows, blocks), summed)


@settings(max_examples=10)
@given(sizes)
def test_gradients_of_first_and_second_order(counts):
    blocks, rows, weight = drawn(counts, 2, 3)
    arguments = (rows.requires_grad_(), weight.requires_grad_())
    if len(rows):
        assert torch.autograd.gradcheck(lambda r, w: block_product(r, w, blocks), arguments)
        assert torch.autograd.gradgradcheck(lambda r, w: block_product(r, w, blocks), arguments)


@given(sizes)
def test_tiles_cover_every_row_once(counts):
    counts = [count * 40 for count in counts]
    ptr = torch.from_numpy(np.cumsum([0, *counts]))
    owner, first = RowBlocks(ptr, sum(counts)).tiles
    covered = []
    for tile, block in enumerate(owner.tolist()):
        if block < len(counts):
            begin = int(ptr[block]) + (tile - int(first[block])) * 64
            covered += range(begin, min(begin + 64, int(ptr[block + 1])))
    assert covered == list(range(sum(counts)))


def test_wrong_shapes_are_named():
    blocks, rows, weight = drawn([1, 2], 2, 3)
    with pytest.raises(InputError, match=r"rows must have shape \(3, dim\).*got \(2, 2\)"):
        block_product(rows[:2], weight, blocks)
    with pytest.raises(InputError, match=r"weight must have shape \(2, outputs, 2\).*got \(1, 3, 2\)"):
        block_product(rows, weight[:1], blocks)
    with pytest.raises(InputError, match=r"ptr must rise from 0 to the number of rows, 3, got \[0, 1\] to 1"):
        block_product(rows, weight[:1], RowBlocks(torch.tensor([0, 1]), 3))
    with pytest.raises(InputError, match="weight must be of the rows' type"):
        block_product(rows, weight.float(), blocks)
