"""The tests enforce the annotated shapes: this is tested here, on the package itself."""

from __future__ import annotations

import jaxtyping
import pytest
import torch

from hiddenfield.errors import InputError
from hiddenfield.ops.segment_sum import segment_of_row, segment_sum


def test_a_broken_promise_is_found() -> None:
    with pytest.raises(jaxtyping.TypeCheckError, match="segment_of_row"):
        segment_of_row(torch.tensor([[0, 1]]), 1)


def test_a_function_that_refuses_bad_input_has_the_first_word() -> None:
    with pytest.raises(InputError, match="floating-point"):
        segment_sum(torch.tensor([1, 2]), torch.tensor([0, 2]))


def test_bounds_may_come_before_what_they_bound() -> None:
    assert segment_of_row(torch.tensor([0, 1, 3]), 3).tolist() == [0, 1, 1]
