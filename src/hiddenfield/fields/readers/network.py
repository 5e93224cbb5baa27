"""A Bayesian network while a file of it is read: variables, parents and tables, and whether they are complete."""

from __future__ import annotations

import functools
import graphlib
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np

from hiddenfield.errors import ReadError, RowSumWarning
from hiddenfield.fields.build import MOST_PORTS
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers.text import MOST_ENTRIES, ROUNDING, read_factors
from hiddenfield.shapes import Array, Float

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
