"""Damaged files: whatever is done to a valid one, it reads as a valid pack or is refused with a clear error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from hiddenfield.data import Structures
from hiddenfield.errors import InputError


def damaged(contents: bytes, seed: int, count: int, tokens: list[bytes]) -> Iterator[bytes]:
    """Yield copies that are cut short, have bytes changed, or have pieces deleted, doubled or put in."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        copy = bytearray(contents)
        for _ in range(generator.integers(1, 4)):
            at = int(generator.integers(0, len(copy) + 1))
            length = int(generator.integers(1, 9))
            match generator.integers(0, 6):
                case 0:
                    del copy[at:]
                case 1:
                    del copy[at : at + length]
                case 2:
                    copy[at:at] = copy[at : at + length]
                case 3:
                    copy[at : at + 1] = bytes([generator.integers(0, 256)])
                case _:
                    copy[at:at] = tokens[int(generator.integers(0, len(tokens)))]
        yield bytes(copy)


def check(pack: Structures) -> None:
    """Assert what makes a pack valid, from the arrays alone."""
    source, target, reverse = (values.long() for values in (pack.source, pack.target, pack.reverse))
    owner = pack.structure_of_node
    assert bool((owner[source] == owner[target]).all())
    assert bool((source[reverse[reverse >= 0]] == target[reverse >= 0]).all())
    for labels, words in (
        (pack.node_labels, pack.node_vocabularies),
        (pack.arc_labels, pack.arc_vocabularies),
    ):
        for column, word in enumerate(words):
            assert labels is not None
            assert bool(((labels[:, column] >= 0) & (labels[:, column] < len(word))).all())


def survive(
    read: Callable[[Path], Structures], path: Path, contents: bytes, tokens: list[bytes], count: int = 300
) -> int:
    """Read `count` damaged copies; return how many were refused with an error that names the file."""
    refused = 0
    for copy in damaged(contents, seed=len(contents), count=count, tokens=tokens):
        path.write_bytes(copy)
        try:
            check(read(path))
        except InputError as error:
            refused += path.name in str(error)
    return refused
