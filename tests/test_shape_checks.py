"""The tests enforce the annotated shapes: this is tested here, on the package itself."""

from __future__ import annotations

import jaxtyping
import pytest
import torch

from hiddenfield.errors import InputError
from hiddenfield.ops.segments import segment_of_row, segment_sum


def test_a_broken_promise_is_found() -> None:
    with pytest.raises(jaxtyping.TypeCheckError, match="segment_of_row"):
        segment_of_row(torch.tensor([[0, 1]]), 1)


@pytest.mark.bad_input
def test_bad_input_is_left_to_the_function_where_a_test_says_so() -> None:
    with pytest.raises(InputError, match="floating-point"):
        segment_sum(torch.tensor([1, 2]), torch.tensor([0, 2]))
