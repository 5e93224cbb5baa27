"""Markov chains over the states of a field: where they stand, how they move, and what they have seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.hard_zeros import feasible_assignments, has_hard_zeros
from hiddenfield.fields.layout import FlatField, flatten
from hiddenfield.inference.sampling.blocks import colour_variables, tree_blocks
from hiddenfield.inference.sampling.loops import Record, TreeBlocks, Walk, site_sweeps, tree_sweeps
from hiddenfield.ops import segment_sum
from hiddenfield.shapes import Array

__all__ = ["Chains", "free_variables"]

WIDTH, MOST_PARTS = 8, 16
"""Chains that are drawn side by side at least, and parts for different threads at most: fixed, so that sums do not
depend on how many threads there are."""

LARGEST_RANGE = 500.0
"""Sum of the ranges of all log potentials of a variable up to which their product is safe from underflow."""


@dataclass(frozen=True, eq=False)
class Chains:
    """Chains of a ground field. They move in place: `state` and `random` change with every sweep.

    Parameters
    ----------
    flat
        The field.
    order
        The variables that are sampled, colour after colour.
    blocks
        Forests that are sampled together; None samples one variable at a time.
    potentials
        What `scaled_potentials` made of the field, for the forests.
    hard
        Whether hard zeros are possible.
    state
        (variables, chains) states.
    random
        The random number generator of each chain.
    found
        For each graph whether the start is possible: 2 yes, 1 none was found, 0 there is none.
    """

    flat: FlatField
    order: Array
    blocks: TreeBlocks | None
    potentials: tuple[Array, Array, Array] | None
    hard: bool
    state: Array
    random: Array
    found: Array

    @classmethod
    def start(cls, field: FactorGraph, number: int, seed: int, blocks: str) -> Chains:
        """Place chains at assignments that no hard zero forbids, drawn from the variables' own potentials."""
        flat = flatten(field)
        hard = has_hard_zeros(field)
        free = free_variables(field)
        assignments, found = feasible_assignments(field, number, seed=seed)
        trees = blocks == "trees" or (blocks == "auto" and (hard or field.is_forest))
        colour = colour_variables(field).numpy()
        order = np.argsort(colour, kind="stable")
        random = np.random.SeedSequence(seed).generate_state(number, np.uint64) | np.uint64(1)
        return cls(
            flat,
            order[free[order]],
            tree_blocks(flat, free) if trees else None,
            scaled_potentials(flat) if trees else None,
            hard,
            np.ascontiguousarray(assignments.numpy().T.astype(np.int16)),
            random,
            found.numpy(),
        )

    @property
    def number(self) -> int:
        """How many chains."""
        return self.state.shape[1]

    @property
    def chain_ptr(self) -> Array:
        """Bounds of the parts that run side by side."""
        parts = max(1, min(MOST_PARTS, self.number // WIDTH))
        return np.linspace(0, self.number, parts + 1).astype(np.int64)

    def record(self, batches: int = 0, batch_length: int = 1) -> Record:
        """Make room for what is seen in so many batches of sweeps; none by default."""
        flat, parts = self.flat, len(self.chain_ptr) - 1
        ends = np.cumsum(flat.table_size, dtype=np.int64)
        states, joint = (int(flat.state_ptr[-1]), int(flat.table_size.sum())) if batches else (0, 0)
        return Record(
            batch_length,
            np.zeros((parts, states)),
            np.zeros((batches, states, self.number), np.uint32),
            ends - flat.table_size,
            np.zeros((parts, joint), np.int64),
        )

    def run(
        self,
        sweeps: int,
        record: Record | None = None,
        *,
        beta: float = 1.0,
        unary: Array | None = None,
        tables: Array | None = None,
    ) -> None:
        """Sweep over all variables so many times, maybe with other potentials; collect what is seen where asked."""
        flat, collect = self.flat, record is not None
        record = self.record() if record is None else record
        walk = Walk(self.chain_ptr, self.state, self.random)
        work = 1 << 30 if len(self.order) * self.number * sweeps > 1 << 15 else 0
        if unary is not None:
            flat = flat._replace(log_unary=unary)
        if tables is not None:
            flat = flat._replace(tables=tables)
        if self.blocks is not None and beta == 1.0:
            logs = self.potentials is None
            if self.potentials is not None:
                scaled, start, powers = self.potentials
                flat = flat._replace(log_unary=scaled, table_start=start, tables=powers)
            tree_sweeps(sweeps, logs, self.blocks, flat, walk, collect, record, work=work)
        else:
            hard = self.hard and tables is None
            site_sweeps(sweeps, beta, hard, self.order, flat, walk, collect, record, work=work)


def scaled_potentials(flat: FlatField) -> tuple[Array, Array, Array] | None:
    """Return exponentials of log potentials, scaled to a maximum of 1; None where their products could underflow.

    Returns
    -------
    tuple
        Of the packed states, where each factor's table begins, and all tables, to the power of the factors' counts.
    """
    alike = bool((flat.factor_count == 1).all())
    start = flat.table_start
    if not alike:  # a table for each factor, as counts differ
        start = np.concatenate([[0], np.cumsum(flat.table_size)]).astype(np.int64)[:-1]
        within = np.arange(int(flat.table_size.sum())) - np.repeat(start, flat.table_size)
        values = flat.tables[np.repeat(flat.table_start, flat.table_size) + within]
        values = values * np.repeat(flat.factor_count, flat.table_size)
    else:
        values = flat.tables
    unary, unary_range = _scaled(flat.log_unary, flat.state_ptr)
    bounds, inverse = np.unique(start, return_inverse=True)
    tables, ranges = _scaled(values, np.append(bounds, len(values)))
    each = ranges[inverse] if len(start) else np.zeros(0)
    total = unary_range + np.bincount(flat.scope, each[flat.place_factor], len(flat.state_ptr) - 1)
    return (unary, start, tables) if total.max(initial=0.0) < LARGEST_RANGE else None


def _scaled(values: Array, ptr: Array) -> tuple[Array, Array]:
    """Return exponentials with each segment's maximum 1, and the range of its finite logarithms."""
    if not len(values):
        return values, np.zeros(len(ptr) - 1)
    finite = np.isfinite(values)
    top = np.maximum.reduceat(np.where(finite, values, -np.inf), ptr[:-1])
    low = np.minimum.reduceat(np.where(finite, values, np.inf), ptr[:-1])
    top = np.where(np.isfinite(top), top, 0.0)
    low = np.where(np.isfinite(low), low, 0.0)
    return np.exp(values - np.repeat(top, np.diff(ptr))), top - low


def free_variables(field: FactorGraph) -> Array:
    """Return which variables have more than one possible state."""
    possible = segment_sum((field.log_unary > -torch.inf).to(field.dtype), field.state_ptr)
    return (possible > 1).cpu().numpy()
