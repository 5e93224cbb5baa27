"""Brackets as trees: where bracketed text nests, whose child each node is; vectorised, however deep."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from hiddenfield.shapes import Array, Bool, Int

__all__ = ["line_and_column", "parents_of_depths", "runs", "symbols_of"]

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


def parents_of_depths(depth: Int[Array, " nodes"]) -> Int[Array, " nodes"]:
    r"""Return the parent of every node, from the nodes' depths in the order in which they open; roots have -1.

    The parent of node i is the last node before it that is one level higher,

    .. math:: p(i) = \max \{ j < i : d_j = d_i - 1 \}.

    A tree begins wherever the depth is 0. Cost: O(n log n), without recursion, so depth does not matter.

    Examples
    --------
    Two trees, the first ``a(b(c) d)``:

    >>> parents_of_depths(np.array([0, 1, 2, 1, 0]))
    array([-1,  0,  1,  0, -1])
    """
    depth = depth.astype(np.int64)
    nodes = len(depth)
    width = nodes + 1
    order = np.argsort(depth, kind="stable")
    keys = depth[order] * width + order
    asked = (depth - 1) * width + np.arange(nodes)
    found = np.searchsorted(keys, asked) - 1
    return np.where(depth > 0, order[np.maximum(found, 0)] if nodes else order, -1)


def runs(mask: Bool[Array, " characters"]) -> tuple[Int[Array, " runs"], Int[Array, " runs"]]:
    """Return where each run of true entries begins and where it has ended.

    Examples
    --------
    >>> runs(np.array([True, True, False, True]))
    (array([0, 3]), array([2, 4]))
    """
    edges = np.diff(np.concatenate([[0], mask.astype(np.int8), [0]]))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)


def line_and_column(contents: bytes, offset: int) -> tuple[int, int]:
    r"""Return the line and, in characters, the column of a byte; both count from one.

    Examples
    --------
    >>> line_and_column("é\nab".encode(), 4)
    (2, 2)
    """
    before = contents[:offset]
    start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[start:].decode("utf-8", errors="replace")) + 1


def symbols_of(texts: Sequence[str]) -> list[str] | list[int]:
    """Return the texts as integers if every one is the plain decimal form of one, otherwise as they are.

    Examples
    --------
    >>> symbols_of(["3", "-1"]), symbols_of(["3", "03"])
    ([3, -1], ['3', '03'])
    """
    if all(INTEGER.fullmatch(text) for text in set(texts)):
        return [int(text) for text in texts]
    return list(texts)
