"""Run an algorithm on a large batch piece by piece, so that each stays in the processor's cache."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest

import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.pieces import cut_batch
from hiddenfield.inference.posterior import Posterior
from hiddenfield.shapes import Tensor

__all__ = ["PIECE", "in_pieces"]

PIECE = 1 << 18
"""Numbers in the messages of a piece: with totals and tables about the second cache (benchmarks/propagation.py)."""


def in_pieces(field: FactorGraph, run: Callable[[FactorGraph], Posterior]) -> Posterior | None:
    """Return the posterior of a batch on the CPU, put together from those of its pieces; None where it is one piece.

    Every piece stops when its own graphs have settled. The status is that of the first piece that did not settle.
    """
    if field.num_graphs < 2 or field.device.type != "cpu" or field.wiring.message_state.shape[0] <= 2 * PIECE:
        return None
    if field.requires_grad and torch.is_grad_enabled():
        return None
    pieces = cut_batch(field, PIECE)
    if len(pieces) == 1:
        return None
    return _joined(field, pieces, [run(piece) for piece in pieces])


def _joined(field: FactorGraph, pieces: list[FactorGraph], parts: list[Posterior]) -> Posterior:
    def cat(name: str) -> Tensor:
        return torch.cat([getattr(part, name) for part in parts])

    extra = {"messages": _messages(field, pieces, [part.extra["messages"] for part in parts])}
    if "assignment" in parts[0].extra:
        extra["assignment"] = torch.cat([part.extra["assignment"] for part in parts])
    exact = all(part.guarantee == "exact" for part in parts)
    traces = [part.trace["residual"] for part in parts]
    return Posterior(
        field=field,
        method=parts[0].method,
        log_marginals=cat("log_marginals"),
        factor_log_marginals=tuple(
            torch.cat(each) for each in zip(*(part.factor_log_marginals for part in parts), strict=True)
        ),
        log_partition=cat("log_partition"),
        guarantee="exact" if exact else "estimate",
        converged=cat("converged"),
        iterations=cat("iterations"),
        residual=cat("residual"),
        status=next((part.status for part in parts if part.status != "converged"), "converged"),
        trace={"residual": [max(step) for step in zip_longest(*traces, fillvalue=0.0)]},
        extra=extra,
    )


def _messages(field: FactorGraph, pieces: list[FactorGraph], messages: list[Tensor]) -> Tensor:
    """Put the messages of pieces into the order of the whole: group by group, position by position."""
    parts = [
        given[slice(*piece.wiring.blocks[number][position])]
        for number, group in enumerate(field.groups)
        for position in range(group.arity)
        for piece, given in zip(pieces, messages, strict=True)
    ]
    return torch.cat(parts)
