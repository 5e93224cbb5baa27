"""Graphical models as data: what the algorithms need to know of a graph, built once and not inferred with."""
