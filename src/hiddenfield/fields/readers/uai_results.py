"""Result files of the UAI competitions: marginals (MAR), partition function (PR), most likely assignment (MPE)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from hiddenfield.data.paths import read_text, write_text
from hiddenfield.errors import InputError
from hiddenfield.fields.readers.words import Words
from hiddenfield.shapes import Array

__all__ = ["UaiResult", "read_result", "write_result"]

LOG_10 = math.log(10)


@dataclass(frozen=True, eq=False)
class UaiResult:
    """What a result file says; two of the three are None.

    Parameters
    ----------
    kind
        "MAR", "PR" or "MPE".
    marginals
        A distribution a variable.
    log_partition
        Natural logarithm, though the file has that to base 10.
    assignment
        A state a variable.
    """

    kind: Literal["MAR", "PR", "MPE"]
    marginals: tuple[Array, ...] | None = None
    log_partition: float | None = None
    assignment: tuple[int, ...] | None = None


def read_result(path: str | Path) -> UaiResult:
    r"""Read a result file of one answer; a line with the number of evidence sets, 1, may follow its first word.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.uai.PR"
    >>> _ = path.write_text("PR\n-2.0\n")
    >>> read_result(path).log_partition
    -4.6051
    """
    words = Words(read_text(path), path)
    kind = words.take("MAR, PR or MPE").upper()
    if kind == "PR":
        if words.left == 2:
            words.integer("1, the number of evidence sets", 1, 1)
        value = _logarithm(words)
        words.end()
        return UaiResult("PR", log_partition=value * LOG_10)
    if kind not in ("MAR", "MPE"):
        words.fail("MAR, PR or MPE")
    _skip_count_of_sets(words, kind)
    variables = words.integer("the number of variables")
    if kind == "MPE":
        states = words.integers(variables, "the state of a variable")
        words.end()
        return UaiResult("MPE", assignment=tuple(states))
    words.need(variables, "the number of states of a variable")
    marginals = []
    for _ in range(variables):
        size = words.integer("the number of states of a variable", 1)
        marginals.append(np.exp(words.log_numbers(size, "a probability of at least 0")))
    words.end()
    return UaiResult("MAR", marginals=tuple(marginals))


def write_result(
    path: str | Path,
    *,
    marginals: Sequence[Array] | None = None,
    log_partition: float | None = None,
    assignment: Sequence[int] | None = None,
) -> None:
    """Write one of the three as a result file; the natural logarithm `log_partition` is written to base 10.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.uai.MAR"
    >>> write_result(path, marginals=[np.array([0.25, 0.75]), np.array([1.0])])
    >>> path.read_text().split()
    ['MAR', '2', '2', '0.25', '0.75', '1', '1']
    """
    given = [value for value in (marginals, log_partition, assignment) if value is not None]
    if len(given) != 1:
        raise InputError(
            f"a result file holds marginals, log_partition or assignment, got {len(given)} of them"
        )
    if marginals is not None:
        each = [" ".join(map(str, (len(row), *map(_text, row)))) for row in marginals]
        lines = ["MAR", " ".join([str(len(marginals)), *each])]
    elif log_partition is not None:
        lines = ["PR", repr(float(log_partition) / LOG_10)]
    else:
        states = [str(int(state)) for state in assignment or ()]
        lines = ["MPE", " ".join([str(len(states)), *states])]
    write_text(path, "\n".join([*lines, ""]))


def _text(probability: float) -> str:
    return repr(float(probability)).removesuffix(".0")


def _logarithm(words: Words) -> float:
    word = words.take("log10 of the partition function")
    try:
        value = float(word)
    except ValueError:
        words.fail("log10 of the partition function")
    if math.isnan(value) or value == math.inf or "_" in word:
        words.fail("log10 of the partition function")
    return value


def _skip_count_of_sets(words: Words, kind: str) -> None:
    """Skip a 1 that stands before the number of variables, where the words that follow ask for it."""
    numbers = words.list[words.at :]
    if len(numbers) < 2 or numbers[0] != "1":
        return
    if kind == "MPE":
        skip = len(numbers) != 2
    else:
        # As one variable: its number of states and as many probabilities.
        skip = not (numbers[1].isdigit() and len(numbers[1]) < 16 and len(numbers) == 2 + int(numbers[1]))
    words.at += skip
