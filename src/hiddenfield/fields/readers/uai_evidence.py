"""Evidence files of the UAI competitions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hiddenfield.data.paths import read_text, write_text
from hiddenfield.errors import InputError, ReadError
from hiddenfield.fields.readers.words import Words

__all__ = ["read_evidence", "write_evidence"]


def read_evidence(path: str | Path, sample: int | None = None) -> dict[int, int]:
    r"""Read an ``.evid`` file: for each observed variable its state, both as numbers.

    Two layouts are in use: the number of observed variables and then pairs of variable and state; or, before that, a
    line with the number of evidence sets.

    Parameters
    ----------
    path
        The file, possibly .gz or .xz.
    sample
        Which evidence set, counted from 0; needed where there are several.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.uai.evid"
    >>> _ = path.write_text("2 0 1 7 0\n")
    >>> read_evidence(path)
    {0: 1, 7: 0}
    >>> _ = path.write_text("1\n2 0 1 7 0\n")
    >>> read_evidence(path)
    {0: 1, 7: 0}
    """
    text = read_text(path)
    words = Words(text, path)
    sets = _several(words) if _has_count_of_sets(text) else [_pairs(words)]
    words.end()
    if sample is None:
        if len(sets) > 1:
            raise ReadError(f"holds {len(sets)} evidence sets; say which one with sample=", file=path)
        return sets[0] if sets else {}
    if not 0 <= sample < len(sets):
        raise InputError(f"{path} holds {len(sets)} evidence sets, there is no sample {sample}")
    return sets[sample]


def write_evidence(evidence: Mapping[int, int], path: str | Path) -> None:
    """Write the states of observed variables as an ``.evid`` file of one line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.uai.evid"
    >>> write_evidence({0: 1, 7: 0}, path)
    >>> path.read_text().strip(), read_evidence(path)
    ('2 0 1 7 0', {0: 1, 7: 0})
    """
    pairs = [str(int(number)) for pair in evidence.items() for number in pair]
    write_text(path, " ".join([str(len(evidence)), *pairs]) + "\n")


def _has_count_of_sets(text: str) -> bool:
    """Return whether all words are used up as sets, and not also as one set without a first line of its own."""
    numbers = [
        int(word) if word.isascii() and word.isdigit() and len(word) < 16 else -1 for word in text.split()
    ]
    if not numbers:
        return False
    at = 1
    for _ in range(min(numbers[0], len(numbers))):
        if at >= len(numbers) or numbers[at] < 0:
            return False
        at += 1 + 2 * numbers[at]
    several = at == len(numbers) and numbers[0] > 0
    one = len(numbers) == 1 + 2 * numbers[0]
    return several and (not one or len(text.strip().split("\n")[0].split()) == 1)


def _several(words: Words) -> list[dict[int, int]]:
    return [_pairs(words) for _ in range(words.integer("the number of evidence sets"))]


def _pairs(words: Words) -> dict[int, int]:
    count = words.integer("the number of observed variables")
    words.need(2 * count, "a variable and its state")
    found: dict[int, int] = {}
    for _ in range(count):
        variable = words.integer("an observed variable")
        if variable in found:
            words.fail("every observed variable once")
        found[variable] = words.integer("the state of an observed variable")
    return found
