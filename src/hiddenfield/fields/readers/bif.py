"""The Bayesian interchange format, as the networks of the bnlearn repository are published in."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import numpy as np

from hiddenfield.data.formats import Format
from hiddenfield.data.paths import read_text, write_text
from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers import FIELD_FORMATS
from hiddenfield.fields.readers.text import (
    Network,
    Words,
    conditional_tables,
    number_texts,
)
from hiddenfield.shapes import Array, Float

# Commas separate like blanks. A word is anything without brackets, separators and quotes.
WORD = re.compile(r'"[^"\n]*"|[{}()\[\];|]|[^\s{}()\[\];,|"]+|"')
PLAIN = re.compile(r'[^\s{}()\[\];,|"]+')
# Not within a word: properties hold addresses such as http://...
COMMENT = re.compile(r'"[^"\n]*"|(?<![^\s{}()\[\];,|"])(?://[^\n]*|/\*.*?\*/)', re.DOTALL)
NUMBER = "a probability of at least 0"


def read(path: str | Path) -> FactorGraph:
    """Read a ``.bif`` file.

    Variables are numbered in the order of their blocks and keep their names and those of their states. Each probability
    block is a factor over its parents and, last, its child. Entries may be a ``table`` (the child runs slowest, the
    last parent fastest), rows ``(states of the parents) probabilities``, and a ``default`` for the rows that are not
    there. Properties and comments are skipped. Rows are taken as they are, not normalised: those that do not sum to 1
    within 1e-5 are a `RowSumWarning`, beyond 0.05 an error.
    """
    text = read_text(path)
    words = Words(text, path, WORD, COMMENT if "//" in text or "/*" in text else None)
    network = Network(path)
    while words.left:
        keyword = words.take("a block")
        if keyword == "network":
            _network_block(words)
        elif keyword == "variable":
            _variable_block(words, network)
        elif keyword == "probability":
            _probability_block(words, network)
        else:
            words.fail("'network', 'variable' or 'probability'")
    return network.finish()


def _name(words: Words, expected: str) -> str:
    word = words.take(expected)
    if word[0] == '"' and len(word) > 2:
        return word[1:-1]
    if not PLAIN.fullmatch(word):
        words.fail(expected)
    return word


def _skip_property(words: Words) -> None:
    while words.take("';' at the end of a property") != ";":
        pass


def _network_block(words: Words) -> None:
    while words.take("'{'") != "{":
        pass
    while (word := words.take("'property' or '}'")) != "}":
        if word != "property":
            words.fail("'property' or '}'")
        _skip_property(words)


def _variable_block(words: Words, network: Network) -> None:
    name, at = _name(words, "the name of a variable"), words.at - 1
    words.symbol("{")
    states: list[str] = []
    while (word := words.take("'type', 'property' or '}'")) != "}":
        if word == "property":
            _skip_property(words)
        elif word == "type" and not states:
            states = _states(words, name)
        else:
            words.fail("'type', 'property' or '}'")
    network.add_variable(name, states, lambda: words.line(at))


def _states(words: Words, name: str) -> list[str]:
    if words.take("'discrete'") != "discrete":
        words.fail("'discrete', the only type that is known")
    words.symbol("[")
    size = words.integer("a number of states", 1)
    words.symbol("]")
    words.symbol("{")
    words.need(size, f"the names of the states of {name!r}")
    states = [_name(words, f"the name of state {k} of {size} of variable {name!r}") for k in range(size)]
    words.symbol("}")
    words.symbol(";")
    return states


def _probability_block(words: Words, network: Network) -> None:
    begin = words.at
    child, *parents = _header(words)
    cards = network.shape(child, parents, lambda: words.line(begin))
    table, positions = _body(words, child, [network.states[parent] for parent in parents], cards)
    network.add_table(child, parents, table, lambda row: words.line(positions.get(row, positions[-1])))


def _header(words: Words) -> list[str]:
    """Read ``( child | parents )``; the bar may be missing."""
    words.symbol("(")
    names = [_name(words, "the name of a variable")]
    while (word := words.take("')'")) != ")":
        if word != "|" or len(names) > 1:
            words.at -= 1
            names.append(_name(words, "the name of a variable"))
    return names


def _body(
    words: Words, child: str, parents: list[dict[str, int]], cards: list[int]
) -> tuple[Float[Array, "*states"], dict[int, int]]:
    """Read the entries of a block into a log table over the parents and the child.

    Also return at which word each row stands; under -1, that of rows without one of their own.
    """
    states = cards[-1]
    table = np.full((math.prod(cards[:-1]), states), np.nan)
    words.symbol("{")
    positions = {-1: words.at}
    rows: list[int] = []
    places: list[range] = []
    default: Float[Array, " states"] | None = None
    while (word := words.take("a row, 'table', 'default', 'property' or '}'")) != "}":
        if word == "(":
            rows.append(_row(words, parents, cards))
            places.append(_numbers(words, states))
            positions[rows[-1]] = places[-1].start
        elif word == "table":
            positions[-1] = words.at
            full = words.logs([_numbers(words, table.size)], NUMBER)
            table[:] = full.reshape(states, -1).T
        elif word == "default":
            positions[-1] = words.at
            default = words.logs([_numbers(words, states)], NUMBER)
        elif word == "property":
            _skip_property(words)
        else:
            words.fail("a row, 'table', 'default', 'property' or '}'")
    if rows:
        table[rows] = words.logs(places, NUMBER).reshape(len(rows), states)
    missing = np.isnan(table[:, 0])
    if default is not None:
        table[missing] = default
    elif missing.any():
        place = np.unravel_index(int(np.argmax(missing)), cards[:-1]) if parents else ()
        named = ", ".join(list(names)[k] for names, k in zip(parents, place, strict=True))
        words.fail(f"a row ({named}) of {child!r}, or a default")
    return table.reshape(cards), positions


def _row(words: Words, parents: list[dict[str, int]], cards: list[int]) -> int:
    """Read the states of the parents up to the closing bracket; return the number of the row."""
    row = 0
    for names, card in zip(parents, cards, strict=False):
        word = words.take("a state of a parent")
        state = names.get(word)
        if state is None:
            state = names.get(word[1:-1]) if word[0] == '"' else None
        if state is None:
            words.fail(f"a state of a parent, one of {', '.join(itertools.islice(names, 8))}")
        row = row * card + state
    words.symbol(")")
    return row


def _numbers(words: Words, count: int) -> range:
    """Return where so many numbers stand; the semicolon after them is read too."""
    words.need(count + 1, NUMBER)
    begin = words.at
    end = words.at = begin + count
    if words.take("';'") != ";":
        # Say what is wrong where it is: too few numbers, or one too many.
        early = next((at for at in range(begin, end) if words.list[at] == ";"), None)
        words.fail(f"{count} probabilities and ';'", words.at - 1 if early is None else early)
    return range(begin, end)


def write(field: FactorGraph, path: str | Path) -> None:
    """Write a field that is a Bayesian network, with every child last in its scope, to a ``.bif`` file.

    Reading it gives the field again, up to rounding of the logarithms. Names that the field does not have are made up:
    x0, x1, ... with states s0, s1, ...
    """
    tables = conditional_tables(field)
    cards = field.cardinalities.tolist()
    names = [_quoted(name) for name in field.variable_names or [f"x{v}" for v in range(len(cards))]]
    listed = field.state_names or [[f"s{k}" for k in range(card)] for card in cards]
    states = [[_quoted(state) for state in row] for row in listed]
    lines = ["network unknown {", "}"]
    for name, own in zip(names, states, strict=True):
        lines += [f"variable {name} {{", f"  type discrete [ {len(own)} ] {{ {', '.join(own)} }};", "}"]
    for child, (parents, table) in enumerate(tables):
        given = f" | {', '.join(names[parent] for parent in parents)}" if parents else ""
        lines.append(f"probability ( {names[child]}{given} ) {{")
        texts = number_texts(table)
        combinations = itertools.product(*(states[parent] for parent in parents))
        for row, combination in enumerate(combinations):
            numbers = ", ".join(texts[row * cards[child] : (row + 1) * cards[child]])
            lines.append(f"  ({', '.join(combination)}) {numbers};" if parents else f"  table {numbers};")
        lines.append("}")
    write_text(path, "\n".join([*lines, ""]))


def _quoted(name: str) -> str:
    if PLAIN.fullmatch(name) and not name.startswith(("//", "/*")):
        return name
    if not name or '"' in name or "\n" in name:
        raise InputError(f"the format has no way to write the name {name!r}; rename it")
    return f'"{name}"'


FIELD_FORMATS.add(
    Format.of_suffixes("bif", "Bayesian interchange format", (".bif",), read=read, write=write, priority=0)
)
