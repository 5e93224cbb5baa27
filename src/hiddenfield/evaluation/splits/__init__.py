"""Which structures a model learns from and which it is measured on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.evaluation.splits.base import Request, Split
    from hiddenfield.evaluation.splits.making import SPLITTERS, make_splits

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Request": "hiddenfield.evaluation.splits.base",
        "SPLITTERS": "hiddenfield.evaluation.splits.making",
        "Split": "hiddenfield.evaluation.splits.base",
        "make_splits": "hiddenfield.evaluation.splits.making",
    },
)
