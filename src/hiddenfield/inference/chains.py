"""Markov chains over the states of a field: where they stand, how they move, and what they have seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.colouring import colour_variables
from hiddenfield.inference.feasible import feasible_assignments, has_hard_zeros
from hiddenfield.inference.flat_field import FlatField, flatten
from hiddenfield.inference.gibbs_kernels import site_sweeps, tree_sweeps
from hiddenfield.inference.tree_blocks import TreeBlocks, tree_blocks
from hiddenfield.ops import segment_sum
from hiddenfield.shapes import Array

__all__ = ["Chains", "Seen", "free_variables"]

WIDTH, MOST_PARTS = 8, 16
"""Chains that are drawn side by side at least, and parts for different threads at most: fixed, so that sums do not
depend on how many threads there are."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What chains have seen: conditional probabilities, visits batch by batch, and joint states of factors."""

    mean: Array
    visits: Array
    joint_start: Array
    joint: Array
    batch_length: int

    @classmethod
    def nothing(cls, flat: FlatField, parts: int, chains: int, batches: int, batch_length: int) -> Seen:
        """Make room."""
        states = int(flat.state_ptr[-1])
        joint_start = np.concatenate([[0], np.cumsum(flat.table_size)]).astype(np.int64)
        return cls(
            np.zeros((parts, states)),
            np.zeros((batches, states, chains), np.uint32),
            joint_start[:-1],
            np.zeros((parts, int(joint_start[-1])), np.int64),
            batch_length,
        )


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

    def run(
        self,
        sweeps: int,
        seen: Seen | None = None,
        *,
        beta: float = 1.0,
        unary: Array | None = None,
        tables: Array | None = None,
    ) -> None:
        """Sweep over all variables so many times, maybe with other potentials; collect what is seen where asked."""
        flat, batches = self.flat, (0 if seen is None else len(seen.visits))
        collect = seen is not None
        if seen is None:
            seen = Seen(
                np.zeros((1, 1)),
                np.zeros((1, 1, 1), np.uint32),
                np.zeros(0, np.int64),
                np.zeros((1, 1), np.int64),
                1,
            )
        batch_of = np.minimum(np.arange(sweeps) // seen.batch_length, max(batches - 1, 0))
        values = flat.tables if tables is None else tables
        work = 1 << 30 if len(self.order) * self.number * sweeps > 1 << 15 else 0
        tail: tuple[Any, ...] = (self.chain_ptr, self.state, self.random, collect, batch_of)
        tail += (seen.mean, seen.visits, seen.joint_start, seen.joint)
        shape = (
            flat.state_ptr,
            flat.log_unary if unary is None else unary,
            flat.scope_ptr,
            flat.scope,
            flat.stride,
            flat.table_start,
            values,
        )
        if self.blocks is not None and beta == 1.0:
            ports = (flat.factor_count, flat.port_ptr, flat.port_place, flat.place_factor)
            tree_sweeps(sweeps, *self.blocks, *shape, *ports, *tail, work=work)
        else:
            ports = (flat.port_ptr, flat.port_place, flat.port_weight, flat.place_factor)
            hard = self.hard and tables is None
            site_sweeps(sweeps, beta, hard, self.order, *shape, *ports, *tail, work=work)


def free_variables(field: FactorGraph) -> Array:
    """Return which variables have more than one possible state."""
    possible = segment_sum((field.log_unary > -torch.inf).to(field.dtype), field.state_ptr)
    return (possible > 1).cpu().numpy()
