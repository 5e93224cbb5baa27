from .blocks import RowBlocks as RowBlocks, block_outer as block_outer, block_product as block_product
from .cutting import (
    SegmentCut as SegmentCut,
    take_segments_reference as take_segments_reference,
)
from .rounds import (
    Plan as Plan,
    Round as Round,
    message_rounds as message_rounds,
    message_rounds_reference as message_rounds_reference,
)
from .segments import (
    segment_argmax as segment_argmax,
    segment_argmax_reference as segment_argmax_reference,
    segment_logsumexp as segment_logsumexp,
    segment_logsumexp_reference as segment_logsumexp_reference,
    segment_max as segment_max,
    segment_max_reference as segment_max_reference,
    segment_repeat as segment_repeat,
    segment_repeat_reference as segment_repeat_reference,
    segment_softmax as segment_softmax,
    segment_sum as segment_sum,
    segment_sum_reference as segment_sum_reference,
)
from .sums import (
    arc_sum as arc_sum,
    cavity_sum as cavity_sum,
    cavity_sum_reference as cavity_sum_reference,
    gather_sum as gather_sum,
    gather_sum_reference as gather_sum_reference,
    reverse_messages as reverse_messages,
    send as send,
)
from .topology import (
    Topology as Topology,
    counting_sort as counting_sort,
    counting_sort_reference as counting_sort_reference,
    match_reverse as match_reverse,
    match_reverse_reference as match_reverse_reference,
)
