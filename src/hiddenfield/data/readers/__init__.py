"""Readers: one module per file format, which registers its `FORMAT` in `hiddenfield.data.formats`."""
