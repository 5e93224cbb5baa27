"""The file formats of fields: each module of `readers/` registers its own."""

from __future__ import annotations

from hiddenfield.data.formats import Formats
from hiddenfield.fields.factor_graph import FactorGraph

__all__ = ["FIELD_FORMATS"]

FIELD_FORMATS: Formats[FactorGraph] = Formats("format", "hiddenfield.fields.readers")
"""Every known format of fields by name."""
