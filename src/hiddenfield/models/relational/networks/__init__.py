"""Undirected networks: enumerated and sampled."""
