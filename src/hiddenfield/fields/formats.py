"""The file formats of fields: each module of `readers/` registers its own."""

from __future__ import annotations

from hiddenfield.data.formats import Format, Formats
from hiddenfield.fields.factor_graph import FactorGraph

__all__ = ["FIELD_FORMATS", "field_formats"]

FIELD_FORMATS: Formats[FactorGraph] = Formats("format", "hiddenfield.fields.readers")


def field_formats() -> dict[str, Format[FactorGraph]]:
    """Return every known format of fields by name."""
    return FIELD_FORMATS.ordered()
