"""Converters between packs and the objects of other libraries, both ways; one module per kind."""
