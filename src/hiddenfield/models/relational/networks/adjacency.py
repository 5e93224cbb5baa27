"""Adjacency of undirected networks: checked, counted, as bits and as pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.shapes import Array

__all__ = ["check_adjacency", "count_statistics", "pack_bits", "square", "unpack_bits"]


def check_adjacency(value: Any, size: int, name: str) -> Array:
    """Return adjacency as (networks, n, n) of bool; refuse what is none."""
    matrix = np.asarray(value)
    matrix = matrix[None] if matrix.ndim == 2 else matrix
    if matrix.ndim != 3 or matrix.shape[1:] != (size, size):
        raise InputError(f"{name} is an adjacency matrix of {size} vertices, got shape {np.shape(value)}")
    flags = matrix.astype(bool)
    if not np.isin(matrix, (0, 1)).all() or not (flags == flags.transpose(0, 2, 1)).all():
        raise InputError(f"{name} must be a symmetric matrix of 0 and 1")
    if name != "fixed" and flags[:, np.arange(size), np.arange(size)].any():
        where = int(np.argwhere(flags[:, np.arange(size), np.arange(size)])[0, 1])
        raise InputError(f"{name} joins vertex {where} to itself; an undirected network has no self-loops")
    return flags


def count_statistics(network: Array, cycles: bool) -> list[float]:
    """Count edges, triangles, stars and, where asked for, cycles of four."""
    from scipy.sparse import csr_array

    degree = network.sum(1).astype(np.float64)
    sparse = network.mean() < 0.05
    matrix: Any = csr_array(network.astype(np.float64)) if sparse else network.astype(np.float64)
    common = matrix @ matrix
    triangles = float((common * matrix).sum()) / 6
    quadruplets = 0.0
    if cycles:
        each = common.toarray() if sparse else common.copy()
        np.fill_diagonal(each, 0.0)
        quadruplets = float((each * (each - 1)).sum()) / 8
    star2 = float((degree * (degree - 1)).sum()) / 2
    star3 = float((degree * (degree - 1) * (degree - 2)).sum()) / 6
    return [float(degree.sum()) / 2, triangles, star2, star3, quadruplets]


def pack_bits(networks: Array) -> Array:
    """Return adjacency as bits: (chains, n, words)."""
    size = networks.shape[-1]
    words = max(1, -(-size // 64))
    padded = np.zeros((*networks.shape[:-1], 64 * words), dtype=bool)
    padded[..., :size] = networks
    return np.ascontiguousarray(np.packbits(padded, axis=-1, bitorder="little")).view("<u8").astype(np.uint64)


def unpack_bits(rows: Array, size: int) -> Array:
    """Return adjacency from bits."""
    parts = np.ascontiguousarray(rows.astype("<u8")).view(np.uint8)
    return np.unpackbits(parts, axis=-1, bitorder="little")[..., :size].astype(bool)


def square(present: Array, size: int) -> Array:
    """Return adjacency from the pairs."""
    upper = np.triu_indices(size, 1)
    out = np.zeros((*present.shape[:-1], size, size), dtype=bool)
    out[..., upper[0], upper[1]] = present
    return out | out.swapaxes(-1, -2)
