"""What the text formats of fields share: words, numbers and their logarithms, and fields as lists of tables."""

from __future__ import annotations

import decimal
import functools
import graphlib
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch

from hiddenfield.errors import InputError, ReadError, RowSumWarning
from hiddenfield.fields.build import MOST_PORTS, from_factors
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.shapes import Array, Float

# A few digits can ask for a table that no memory holds; this many numbers are half a gibibyte.
MOST_ENTRIES = 1 << 26

BLANK_SEPARATED = re.compile(r"\S+")

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,12})?", re.ASCII)
LONGEST = 400
SMALLEST = 1e-300  # below, doubles lose digits

# Published networks have rows that were rounded to few digits.
ROUNDING = 0.05


class Words:
    r"""The words of a text, and how far they have been read.

    Lines are counted only when something is wrong, so that reading is as quick as splitting.

    Examples
    --------
    >>> words = Words("MARKOV 2\n2 two", "model.uai")
    >>> words.take("a word"), words.integer("the number of variables"), words.integer("a number of states")
    ('MARKOV', 2, 2)
    >>> words.integer("a number of states")
    Traceback (most recent call last):
    hiddenfield.errors.ReadError: model.uai, line 2: expected a number of states, got 'two'
    """

    def __init__(
        self,
        text: str,
        file: str | Path,
        pattern: re.Pattern[str] = BLANK_SEPARATED,
        comment: re.Pattern[str] | None = None,
    ) -> None:
        # A comment's pattern also finds what is quoted, within which it is none.
        self.text = text if comment is None else comment.sub(_blanked, text)
        self.file = file
        self.pattern = pattern
        self.list: list[str] = pattern.findall(self.text)
        self.at = 0

    @property
    def left(self) -> int:
        """How many words are still to be read."""
        return len(self.list) - self.at

    def fail(self, expected: str, at: int | None = None, *, got: str | None = None) -> NoReturn:
        """Say what was expected in place of the word at a position, by default of the last one taken."""
        at = self.at - 1 if at is None else at
        if got is None:
            word = self.list[at] if at < len(self.list) else None
            shown = repr(word[:40] + ("…" if len(word) > 40 else "")) if word else "the end of the file"
            got = f"got {shown}"
        raise ReadError(f"expected {expected}, {got}", file=self.file, line=self.line(at))

    def line(self, at: int) -> int:
        """Return the line of the word at a position, counted from one."""
        end = len(self.text.rstrip())
        for number, match in enumerate(self.pattern.finditer(self.text)):
            if number == at:
                end = match.start()
                break
        return self.text.count("\n", 0, end) + 1

    def take(self, expected: str) -> str:
        """Return the next word."""
        self.at += 1
        if self.at > len(self.list):
            self.fail(expected)
        return self.list[self.at - 1]

    def symbol(self, symbol: str) -> None:
        """Take the next word, which must be this one."""
        if self.take(repr(symbol)) != symbol:
            self.fail(repr(symbol))

    def integer(self, expected: str, least: int = 0, most: int | None = None) -> int:
        """Return the next word as an integer from `least` to `most`."""
        word = self.take(expected)
        # Beyond 15 digits nothing can be counted, and Python refuses thousands of them.
        if not (word.isascii() and word.isdigit()) or len(word) > 15:
            self.fail(expected)
        value = int(word)
        if value < least or (most is not None and value > most):
            bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
            self.fail(expected if least == most else f"{expected} {bounds}")
        return value

    def integers(self, count: int, expected: str, least: int = 0, most: int | None = None) -> list[int]:
        """Return the next words as that many integers."""
        self.need(count, expected)
        part = self.list[self.at : self.at + count]
        joined = "".join(part)
        if joined.isascii() and joined.isdigit() and len(max(part, key=len)) <= 15:
            values = list(map(int, part))
            if least <= min(values) and (most is None or max(values) <= most):
                self.at += count
                return values
        # Something is wrong, or there is nothing: one by one.
        return [self.integer(expected, least, most) for _ in range(count)]

    def log_numbers(self, count: int, expected: str) -> Float[Array, " numbers"]:
        """Return the logarithms of that many numbers."""
        self.need(count, expected)
        self.at += count
        return self.logs([range(self.at - count, self.at)], expected)

    def logs(self, ranges: Sequence[range], expected: str) -> Float[Array, " numbers"]:
        """Return the logarithms of the numbers at ranges of positions, all in one array."""
        parts = [self.list[part.start : part.stop : part.step] for part in ranges]
        try:
            return log_numbers(parts[0] if len(parts) == 1 else list(chain.from_iterable(parts)))
        except BadNumberError as bad:
            self.fail(expected, next(islice(chain.from_iterable(ranges), bad.place, None)))

    def need(self, count: int, expected: str) -> None:
        """Refuse to go on where fewer words are left, before memory is asked for."""
        if count > self.left:
            self.at = len(self.list) + 1
            self.fail(expected, got=f"got the end of the file; {count} are needed here")

    def end(self) -> None:
        """Refuse words that nobody asked for."""
        if self.left:
            self.fail("the end of the file", self.at)


def _blanked(match: re.Match[str]) -> str:
    """Replace a comment by a blank and its line ends."""
    return match[0] if match[0][0] == '"' else " " + "\n" * match[0].count("\n")


class BadNumberError(Exception):
    """The word at a place is no number that a potential can be."""

    def __init__(self, place: int) -> None:
        self.place = place
        super().__init__(place)


def log_numbers(words: Sequence[str]) -> Float[Array, " numbers"]:
    """Return natural logarithms of decimal numbers of at least 0; that of 0 is -inf, of 1e-400 is -921.03.

    Raises
    ------
    BadNumberError
        With the place of the first word that is none.

    Examples
    --------
    >>> log_numbers(["1", "0", "0.5", "1e-400"]).tolist()
    [0.0, -inf, -0.6931, -921.0340]
    """
    try:
        values = np.array(list(map(float, words)), dtype=np.float64)
    except ValueError:
        raise BadNumberError(next(k for k, word in enumerate(words) if not NUMBER.fullmatch(word))) from None
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(values)
    for place in np.flatnonzero(~(values >= SMALLEST) | np.isinf(values)).tolist():
        logs[place] = _careful_log(words[place], place)
    if any("_" in word for word in words):  # Python's float takes 1_000
        raise BadNumberError(next(k for k, word in enumerate(words) if "_" in word))
    return logs


def number_texts(logs: Float[Array, "*axes"]) -> list[str]:
    """Return exponentials as decimal text, in C order, such that `log_numbers` gives the logarithms back.

    Examples
    --------
    >>> number_texts(np.array([np.log(0.1), -np.inf, 0.0, -921.034037]))
    ['0.1', '0', '1', '1.0000001976...e-400']
    """
    flat = np.ravel(logs).astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        values = np.exp(flat)
    short = [f"{value:.15g}" for value in values.tolist()]
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs(np.log(np.array(list(map(float, short)), dtype=np.float64)) - flat)
    exact = ~(error > 2e-16 * np.maximum(1, np.abs(flat)))
    texts = [
        text if good else repr(value) for text, good, value in zip(short, exact, values.tolist(), strict=True)
    ]
    odd = np.isfinite(flat) & ((values < SMALLEST) | np.isinf(values))
    for place in np.flatnonzero(odd).tolist():
        texts[place] = _power_of_ten(flat[place])
    return texts


def _careful_log(word: str, place: int) -> float:
    """Return the logarithm of what is zero, tiny or huge as a double; refuse what is negative or no number."""
    if len(word) > LONGEST or not NUMBER.fullmatch(word):
        raise BadNumberError(place)
    value = decimal.Decimal(word)
    if value == 0:
        return -math.inf
    if value < 0:
        raise BadNumberError(place)
    return float(value.ln())


def _power_of_ten(log: float) -> str:
    """Write exp(log), which no double holds, as mantissa and exponent."""
    with decimal.localcontext() as context:
        context.prec = 25
        return f"{decimal.Decimal(float(log)).exp():.20e}"


def read_factors(path: str | Path, *arguments: Any, **names: Any) -> FactorGraph:
    """Call `from_factors` on what a file says; what it refuses is the file's mistake."""
    try:
        return from_factors(*arguments, **names)
    except ReadError:
        raise
    except InputError as error:
        raise ReadError(str(error), file=path) from None


def cut(numbers: Float[Array, " numbers"], shapes: Sequence[Sequence[int]]) -> list[Array]:
    """Cut numbers into tables of the given shapes, in C order."""
    ends = np.cumsum([0, *(math.prod(shape) for shape in shapes)]).tolist()
    return [numbers[ends[k] : ends[k + 1]].reshape(shape) for k, shape in enumerate(shapes)]


def ground_tables(field: FactorGraph) -> list[tuple[list[int], Array]]:
    """Return scopes and log tables whose product is the field: groups in order, single variables, the constant.

    Only what is not zero everywhere is listed of single variables and the constant. A factor of count k is its table
    times k.
    """
    if field.num_graphs != 1:
        raise InputError(f"a file holds one graph, the field has {field.num_graphs}; write them one by one")
    if not field.is_ground:
        raise InputError("a file holds ground variables, but some variables of the field stand for several")
    field = field.detach().to("cpu", torch.float64)
    factors: list[tuple[list[int], Array]] = []
    for group in field.groups:
        tables = group.expanded().numpy()
        rows = range(group.num_factors) if len(tables) == group.num_factors else [0] * group.num_factors
        counts, scopes = group.count.tolist(), group.scopes.tolist()
        for scope, row, count in zip(scopes, rows, counts, strict=True):
            factors.append((scope, tables[row] if count == 1 else count * tables[row]))
    bounds, unary = field.state_ptr.tolist(), field.log_unary.numpy()
    for variable in range(field.num_variables):
        table = unary[bounds[variable] : bounds[variable + 1]]
        if table.any():
            factors.append(([variable], table))
    constant = np.array(field.log_constant[0].item())
    if constant != 0:
        factors.append(([], constant))
    return factors


def conditional_tables(field: FactorGraph) -> list[tuple[list[int], Array]]:
    """Return for every variable its parents and its log table, the last axis of which is the variable itself.

    Raises
    ------
    InputError
        Where the field is no Bayesian network with every child last in its scope: a variable without a table of its own
        or with two, rows that do not sum to 1, or a cycle. So it is with evidence.
    """
    found: dict[int, tuple[list[int], Array]] = {}
    for scope, table in ground_tables(field):
        if not scope:
            raise InputError("not a Bayesian network: the field has a constant factor")
        child = scope[-1]
        if child in found:
            raise InputError(
                f"not a Bayesian network: variable {field.name_of(child)} is last in the scopes of two factors"
            )
        sums = np.exp(table).sum(axis=-1)
        if not np.allclose(sums, 1, atol=ROUNDING):
            raise InputError(
                f"not a Bayesian network: rows of the table of variable {field.name_of(child)} sum to "
                f"{sums.flat[np.argmax(np.abs(sums - 1))]:.4g}; is there evidence in the field?"
            )
        found[child] = (scope[:-1], table)
    cards = field.cardinalities.tolist()
    for variable, states in enumerate(cards):
        if variable not in found:
            if states > 1:
                raise InputError(f"not a Bayesian network: variable {field.name_of(variable)} has no table")
            found[variable] = ([], np.zeros(1))
    try:
        graphlib.TopologicalSorter({child: parents for child, (parents, _) in found.items()}).prepare()
    except graphlib.CycleError as error:
        raise InputError(f"not a Bayesian network: a cycle leads through {error.args[1]}") from None
    return [found[variable] for variable in range(len(cards))]


# Seven digits, as most published networks have, leave row sums within this.
PRECISE = 1e-5


@dataclass
class Network:
    """What was read so far; problems are `ReadError`s that name file and line.

    Parameters
    ----------
    file
        Where it is read from.
    """

    file: str | Path
    states: dict[str, dict[str, int]] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)
    tables: dict[str, Float[Array, "*states"]] = field(default_factory=dict)
    entries: int = 0
    odd_rows: list[str] = field(default_factory=list)

    def fail(self, message: str, line: Callable[[], int]) -> NoReturn:
        """Raise the error; lines are counted only then."""
        raise ReadError(message, file=self.file, line=line())

    def add_variable(self, name: str, states: Sequence[str], line: Callable[[], int]) -> None:
        """Declare a variable and the names of its states."""
        if name in self.states:
            self.fail(f"expected another name of a variable, got a second {name!r}", line)
        if not states:
            self.fail(f"expected the states of variable {name!r}, got none", line)
        if len(set(states)) < len(states):
            self.fail(f"expected different names of the states of variable {name!r}", line)
        self.states[name] = {state: number for number, state in enumerate(states)}

    def shape(self, child: str, parents: Sequence[str], line: Callable[[], int]) -> list[int]:
        """Check the header of a table, and return its shape: the parents in order, then the child."""
        for name in (child, *parents):
            if name not in self.states:
                self.fail(f"expected a variable that is declared, got {name!r}", line)
        if len({child, *parents}) <= len(parents):
            self.fail(f"expected every variable once in the table of {child!r}", line)
        if child in self.tables:
            self.fail(f"expected one table per variable, got a second one of {child!r}", line)
        if len(parents) >= MOST_PORTS:
            self.fail(f"expected at most {MOST_PORTS - 1} parents, got {len(parents)}", line)
        cards = [len(self.states[name]) for name in (*parents, child)]
        self.entries += math.prod(cards)
        if self.entries > MOST_ENTRIES:
            self.fail(f"expected at most {MOST_ENTRIES:,} entries in all tables, got more", line)
        return cards

    def add_table(
        self, child: str, parents: list[str], table: Float[Array, "*states"], line: Callable[[int], int]
    ) -> None:
        """Add the log table of a child, its last axis; `line` says where a row stands.

        A row that does not sum to 1 is an error beyond `ROUNDING`, and otherwise noted for the warning of `finish`.
        """
        rows = table.reshape(-1, table.shape[-1])
        sums = np.exp(rows).sum(axis=1)
        off = np.abs(sums - 1)
        for row in np.flatnonzero(off > PRECISE).tolist():
            place = np.unravel_index(row, table.shape[:-1]) if parents else ()
            pairs = zip(parents, place, strict=True)
            named = ", ".join(f"{name}={list(self.states[name])[k]}" for name, k in pairs)
            text = f"the probabilities of {child!r}" + f" given {named}" * bool(named)
            text += f" sum to {sums[row]:.6g}, not 1"
            if off[row] > ROUNDING:
                self.fail(f"{text}; rounding explains at most {ROUNDING}", functools.partial(line, row))
            if len(self.odd_rows) < 1:
                text = f"{self.file}, line {line(row)}: {text}"
            self.odd_rows.append(text)
        self.parents[child] = parents
        self.tables[child] = table

    def finish(self) -> FactorGraph:
        """Check that everything is there, warn of rows that do not sum to 1, and return the field."""
        if not self.states:
            raise ReadError(
                "expected the variables of a network, got none; is the file complete?", file=self.file
            )
        for name in self.states:
            if name not in self.tables:
                raise ReadError(f"variable {name!r} has no table; is the file complete?", file=self.file)
        try:
            graphlib.TopologicalSorter(self.parents).prepare()
        except graphlib.CycleError as error:
            cycle = " - ".join(error.args[1])
            raise ReadError(f"expected a network without cycles, got {cycle}", file=self.file) from None
        if self.odd_rows:
            more = f" (and {len(self.odd_rows) - 1:,} more rows)" if len(self.odd_rows) > 1 else ""
            warnings.warn(
                f"{self.odd_rows[0]}{more}; rows are taken as they are, which changes answers about as much: "
                "correct the file, or normalise them",
                RowSumWarning,
                stacklevel=2,
            )
        number = {name: variable for variable, name in enumerate(self.states)}
        scopes = [
            [*(number[parent] for parent in self.parents[child]), number[child]] for child in self.tables
        ]
        return read_factors(
            self.file,
            scopes,
            list(self.tables.values()),
            [len(states) for states in self.states.values()],
            variable_names=list(self.states),
            state_names=[list(states) for states in self.states.values()],
        )
