"""The format of the UAI competitions: MARKOV and BAYES networks."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from hiddenfield.data.formats import Format
from hiddenfield.data.paths import read_text, write_text
from hiddenfield.errors import InputError, ReadError
from hiddenfield.fields.build import from_factors
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.formats import FIELD_FORMATS
from hiddenfield.fields.readers.bayesian import conditional_tables
from hiddenfield.fields.readers.numbers import number_texts
from hiddenfield.fields.readers.tables import cut, ground_tables
from hiddenfield.fields.readers.words import MOST_ENTRIES, Words
from hiddenfield.fields.table_stack import MOST_PORTS

__all__ = ["FORMAT", "read", "write"]


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
    try:
        return from_factors(scopes, tables, cards)
    except ReadError:
        raise
    except InputError as error:
        raise ReadError(str(error), file=path) from None


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


FORMAT = FIELD_FORMATS.add(
    Format.of_suffixes(
        "uai", "UAI competitions: MARKOV and BAYES networks", (".uai",), read=read, write=write, priority=2
    )
)
