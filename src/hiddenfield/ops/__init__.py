"""The primitives of message passing over packed graphs; nothing here knows what a model is.

Each op has a plain PyTorch reference (which runs on every device), a compiled loop for the CPU, and a
gradient that can itself be differentiated. Numba is loaded when the first compiled loop runs, not when this is
imported.
"""

from __future__ import annotations

from hiddenfield.ops.arcs import arc_sum, reverse_messages, send
from hiddenfield.ops.block_product import RowBlocks, block_outer, block_product
from hiddenfield.ops.cavity_sum import cavity_sum, cavity_sum_reference
from hiddenfield.ops.counting_sort import counting_sort, counting_sort_reference
from hiddenfield.ops.gather_sum import gather_sum, gather_sum_reference
from hiddenfield.ops.match_reverse import match_reverse, match_reverse_reference
from hiddenfield.ops.segment_max import (
    segment_argmax,
    segment_argmax_reference,
    segment_max,
    segment_max_reference,
)
from hiddenfield.ops.segment_softmax import (
    segment_logsumexp,
    segment_logsumexp_reference,
    segment_softmax,
    segment_softmax_reference,
)
from hiddenfield.ops.segment_sum import (
    segment_repeat,
    segment_repeat_reference,
    segment_sum,
    segment_sum_reference,
)
from hiddenfield.ops.take_segments import SegmentCut, take_pointers, take_segments, take_segments_reference
from hiddenfield.ops.topology import Topology

__all__ = [
    "RowBlocks",
    "SegmentCut",
    "Topology",
    "arc_sum",
    "block_outer",
    "block_product",
    "cavity_sum",
    "cavity_sum_reference",
    "counting_sort",
    "counting_sort_reference",
    "gather_sum",
    "gather_sum_reference",
    "match_reverse",
    "match_reverse_reference",
    "reverse_messages",
    "segment_argmax",
    "segment_argmax_reference",
    "segment_logsumexp",
    "segment_logsumexp_reference",
    "segment_max",
    "segment_max_reference",
    "segment_repeat",
    "segment_repeat_reference",
    "segment_softmax",
    "segment_softmax_reference",
    "segment_sum",
    "segment_sum_reference",
    "send",
    "take_pointers",
    "take_segments",
    "take_segments_reference",
]
