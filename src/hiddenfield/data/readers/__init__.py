"""Readers: one module a file format, each with a `FORMAT` that `hiddenfield.data.formats` finds."""
