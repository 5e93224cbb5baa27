"""The formats of the UAI competitions: networks (MARKOV and BAYES), evidence, and results (MAR, PR, MPE)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from hiddenfield.data.formats import Format
from hiddenfield.data.paths import read_text, write_text
from hiddenfield.errors import InputError, ReadError
from hiddenfield.fields.build import MOST_PORTS
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers import FIELD_FORMATS
from hiddenfield.fields.readers.text import (
    MOST_ENTRIES,
    Words,
    conditional_tables,
    cut,
    ground_tables,
    number_texts,
    read_factors,
)
from hiddenfield.shapes import Array

LOG_10 = math.log(10)


def read(path: str | Path) -> FactorGraph:
    """Read a ``.uai`` file.

    After the word MARKOV or BAYES: the number of variables, their numbers of states, the number of functions, the scope
    of each, and for each a table in which the *last* variable runs fastest. In a BAYES network the last variable of a
    scope is the child; both kinds are read as factors. Variables have no names.
    """
    words = Words(read_text(path), path)
    if words.take("MARKOV or BAYES").upper() not in ("MARKOV", "BAYES"):
        words.fail("MARKOV or BAYES")
    variables = words.integer("the number of variables")
    cards = words.integers(variables, "a number of states", 1, MOST_ENTRIES)
    if sum(cards) > MOST_ENTRIES:
        words.fail(f"at most {MOST_ENTRIES:,} states in all", got=f"got {sum(cards):,}")
    functions = words.integer("the number of functions")
    words.need(functions, "the size of a scope")
    scopes = [_scope(words, variables) for _ in range(functions)]
    shapes = [[cards[v] for v in scope] for scope in scopes]
    places = [_table(words, shape) for shape in shapes]
    words.end()
    tables = cut(words.logs(places, "a number of at least 0"), shapes)
    return read_factors(path, scopes, tables, cards)


def _scope(words: Words, variables: int) -> list[int]:
    size = words.integer("the size of a scope", 0, MOST_PORTS)
    scope = words.integers(size, "a variable of a scope", 0, variables - 1)
    if len(set(scope)) < size:
        words.fail("every variable once in a scope", got=f"got {' '.join(map(str, scope))}")
    return scope


def _table(words: Words, shape: list[int]) -> range:
    """Return where the numbers of a table stand."""
    wanted = math.prod(shape)
    words.integer(f"{wanted}, the size of a table over {shape or 'no'} states", wanted, wanted)
    words.need(wanted, "a number of at least 0")
    words.at += wanted
    return range(words.at - wanted, words.at)


def write(field: FactorGraph, path: str | Path, *, kind: str = "MARKOV") -> None:
    """Write a ``.uai`` file; reading it gives the field again, up to rounding of the logarithms.

    Potentials of single variables are written as functions of one variable, the constant as a function of none. Names
    and counts have no place in the format: a factor of count k is written as its power.

    Parameters
    ----------
    field
        One graph, whose variables stand for themselves alone.
    path
        Where to; compressed if it ends in .gz or .xz.
    kind
        "MARKOV", or "BAYES" for a field that is a Bayesian network, with every child last in its scope.
    """
    if kind not in ("MARKOV", "BAYES"):
        raise InputError(f"kind must be 'MARKOV' or 'BAYES', got {kind!r}")
    if kind == "BAYES":
        factors = [
            ([*parents, child], table) for child, (parents, table) in enumerate(conditional_tables(field))
        ]
    else:
        factors = ground_tables(field)
    cards = field.cardinalities.tolist()
    lines = [kind, str(len(cards)), " ".join(map(str, cards)), str(len(factors))]
    lines += [" ".join(map(str, (len(scope), *scope))) for scope, _ in factors]
    texts = number_texts(np.concatenate([np.zeros(0), *(table.ravel() for _, table in factors)]))
    begin = 0
    for _, table in factors:
        end, width = begin + table.size, table.shape[-1] if table.ndim else 1
        lines += ["", str(table.size)]
        lines += [" ".join(texts[at : at + width]) for at in range(begin, end, width)]
        begin = end
    write_text(path, "\n".join([*lines, ""]))


FIELD_FORMATS.add(
    Format.of_suffixes(
        "uai", "UAI competitions: MARKOV and BAYES networks", (".uai",), read=read, write=write, priority=2
    )
)


# -- evidence ----------------------------------------------------------------------------------------------


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
    count = words.integer("the number of evidence sets") if _has_count_of_sets(text) else 1
    sets = [_pairs(words) for _ in range(count)]
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


# -- results -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class UaiResult:
    """What a result file says; two of the three are None.

    Parameters
    ----------
    kind
        "MAR", "PR" or "MPE".
    marginals
        One distribution per variable.
    log_partition
        Natural logarithm, though the file has that to base 10.
    assignment
        One state per variable.
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
