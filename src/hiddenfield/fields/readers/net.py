"""Hugin's NET format of Bayesian networks."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from hiddenfield.data.formats import Format
from hiddenfield.data.paths import read_text
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers import FIELD_FORMATS
from hiddenfield.fields.readers.text import Network, Words

WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[{}()=;|]|[^\s{}()=;|"]+|"', re.DOTALL)
COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|%[^\n]*', re.DOTALL)
NAME = re.compile(r"[^\s{}()=;|\"]+")
NUMBER = "a probability of at least 0"
UNKNOWN = ("continuous", "decision", "utility", "function", "class")


def read(path: str | Path) -> FactorGraph:
    """Read a ``.net`` file of discrete nodes.

    Each potential is a factor over its parents and, last, its child; in ``data`` the child runs fastest, then the last
    parent, and brackets only group. A potential without data is uniform. Other attributes and comments (``%``) are
    skipped. Continuous, decision and utility nodes, classes, and tables given as expressions are refused.
    """
    text = read_text(path)
    words = Words(text, path, WORD, COMMENT if "%" in text else None)
    network = Network(path)
    while words.left:
        keyword = words.take("a block")
        if keyword == "discrete":
            keyword = words.take("'node'")
        if keyword == "net":
            _block(words)
        elif keyword == "node":
            _node(words, network)
        elif keyword == "potential":
            _potential(words, network)
        elif keyword in UNKNOWN:
            words.fail("discrete nodes and their potentials only")
        else:
            words.fail("'net', 'node' or 'potential'")
    return network.finish()


def _block(words: Words) -> dict[str, range]:
    """Read ``{ name = value; ... }``; return where the words of each value stand."""
    found: dict[str, range] = {}
    words.symbol("{")
    while (name := words.take("an attribute or '}'")) != "}":
        if not NAME.fullmatch(name):
            words.fail("the name of an attribute, or '}'")
        words.symbol("=")
        begin = words.at
        while (word := words.take("';' at the end of an attribute")) != ";":
            if word in ("{", "}", '"'):
                words.fail("';' at the end of an attribute")
        found[name] = range(begin, words.at - 1)
    return found


def _name(words: Words) -> str:
    name = words.take("the name of a node")
    if not NAME.fullmatch(name):
        words.fail("the name of a node")
    return name


def _node(words: Words, network: Network) -> None:
    name, at = _name(words), words.at - 1
    values = _block(words)
    if "states" not in values:
        words.fail(f"the states of node {name!r}", at, got="got none")
    listed = [words.list[place] for place in values["states"]]
    if len(listed) < 2 or (listed[0], listed[-1]) != ("(", ")"):
        words.fail("the states of a node in brackets", values["states"].start)
    states = [word[1:-1] if word[0] == '"' else word for word in listed[1:-1]]
    for place, state in zip(values["states"][1:-1], states, strict=True):
        if not state or words.list[place] in ("(", ")", "="):
            words.fail(f"the name of a state of node {name!r}", place)
    network.add_variable(name, states, lambda: words.line(at))


def _potential(words: Words, network: Network) -> None:
    begin = words.at
    words.symbol("(")
    child, parents, bar = _name(words), list[str](), False
    while (word := words.take("')'")) != ")":
        if word == "|" and not bar:
            bar = True
            continue
        if not bar:
            words.fail("'|' and parents, or ')'")
        words.at -= 1
        parents.append(_name(words))
    cards = network.shape(child, parents, lambda: words.line(begin))
    values = _block(words)
    for name in ("model_data", "model_nodes"):
        if name in values:
            words.fail(f"a table of numbers of {child!r}, not an expression", values[name].start)
    if "data" not in values:
        table = np.full(cards, -math.log(cards[-1]))
        network.add_table(child, parents, table, lambda row: words.line(begin))
        return
    places = [at for at in values["data"] if words.list[at] not in "()"]
    if len(places) != math.prod(cards):
        words.fail(
            f"{math.prod(cards)} numbers in the table of {child!r}",
            values["data"].start,
            got=f"got {len(places)}",
        )
    logs = words.logs([range(at, at + 1) for at in places], NUMBER)
    network.add_table(child, parents, logs.reshape(cards), lambda row: words.line(places[row * cards[-1]]))


FIELD_FORMATS.add(
    Format.of_suffixes("net", "Hugin's Bayesian networks (read only)", (".net",), read=read, priority=0)
)
