"""Graphical models as data: build, read, ground and compress them; no inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.fields.build import concatenate_fields, from_factors
    from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "FactorGraph": "hiddenfield.fields.factor_graph",
        "FactorGroup": "hiddenfield.fields.factor_graph",
        "concatenate_fields": "hiddenfield.fields.build",
        "from_factors": "hiddenfield.fields.build",
    },
)
