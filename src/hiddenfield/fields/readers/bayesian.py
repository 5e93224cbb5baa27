"""A field that is a Bayesian network: for every variable its parents and its conditional table."""

from __future__ import annotations

import graphlib

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers.tables import ground_tables
from hiddenfield.shapes import Array

__all__ = ["conditional_tables"]

# Published networks have rows that were rounded to few digits.
ROUNDING = 0.05


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
