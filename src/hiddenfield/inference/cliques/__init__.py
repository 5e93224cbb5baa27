"""Exact inference on the cliques of a junction tree."""
