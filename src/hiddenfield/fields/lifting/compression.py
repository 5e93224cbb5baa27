"""Lifting: join variables and factors that no message can tell apart, and count them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.fields.lifting.colour_refinement import Ports, refine
from hiddenfield.ops.equal_rows import equal_rows
from hiddenfield.shapes import Array, Float, Int, Tensor

MOST_COMPARISONS = 200_000_000
"""Numbers compared beyond which only exchanges of two ports are tried: fewer symmetries, never a false one."""

Symmetry = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""The first port of each port's orbit, and all permutations where ports of an orbit may not be exchanged freely."""


@dataclass(frozen=True, eq=False, repr=False)
class Compressed:
    """A field whose variables and factors are classes of those of another.

    Parameters
    ----------
    field
        One variable for each class of variables and one factor for each class of factors, with counts; its names are
        those of each class's first member.
    variable_class
        The class of every variable of the field that was compressed.
    factor_class
        The class of every factor, group by group: a row of the group of the same number in `field`.
    ratio
        How many times fewer ports there are, and so how many times less an iteration costs; 1 without factors.
    """

    field: FactorGraph
    variable_class: Int[Tensor, " variables"]
    factor_class: tuple[Tensor, ...]
    ratio: float

    def __repr__(self) -> str:
        """Say how small it has become."""
        before, after = len(self.variable_class), self.field.num_variables
        factors = sum(len(group) for group in self.factor_class)
        return (
            f"Compressed({before:,} variables in {after:,} classes, {factors:,} factors in "
            f"{self.field.num_factors:,}; {self.ratio:.3g} times fewer ports)"
        )

    def expand(self, posterior: Any) -> Float[Tensor, "variables most_states"]:
        """Return the marginals of every variable of the field that was compressed, from a posterior of `field`."""
        marginals: Tensor = posterior.marginals
        if marginals.shape[0] != self.field.num_variables:
            raise InputError(
                f"expand takes a posterior of the compressed field, with {self.field.num_variables} variables, "
                f"got one with {marginals.shape[0]}"
            )
        return marginals[self.variable_class]


def compress(
    field: FactorGraph,
    evidence: Mapping[Any, Any] | Tensor | None = None,
    *,
    decimals: int | None = None,
) -> Compressed:
    r"""Join the variables and factors of a field that belief propagation cannot tell apart.

    Colour refinement: variables start with the colour of their number of states, count, graph and log potentials
    (evidence included), factors with that of their table and count. A factor's colour is then refined by its variables'
    colours in order, up to the permutations of ports that leave its table unchanged; a variable's by the multiset of
    its ports, each with its factor's colour and its place in it. The result is the coarsest colouring that this leaves
    alone. With :math:`N_f` factors in a class and :math:`N_v` variables in another, a port between them has
    multiplicity :math:`N_f / N_v`.

    Guarantee: parallel message passing that starts from uniform messages (`loopy_bp`; `tree_reweighted` where the
    weights of a class agree) has the same messages, marginals and log partition on the result as on the field, after
    every iteration; other schedules and mean field have the same symmetric fixed points. A ground field of a relational
    scheme without evidence gives back the template.

    A variable with a single possible state sends the same message whatever it hears, so that all such variables of
    equal log potentials in a graph stay one class; the multiplicities of *their* ports are means. Graphs of a batch
    are never joined: each keeps its log partition.

    Parameters
    ----------
    field
        A field, ground or with counts, or a batch.
    evidence
        See `FactorGraph.given`.
    decimals
        Compare log potentials after rounding to so many decimals; each class then has those of its first member, and
        the guarantee holds up to that. By default equal means equal in every bit (0 and -0 are equal).

    Returns
    -------
    Compressed
        The compressed field, the classes, and by how much it shrank. Gradients flow to the log potentials of each
        class's first member, times the count: all there is where tables are shared.

    Notes
    -----
    O(ports · log ports) time by partition refinement (the largest part of a class that falls apart is not looked at
    again) and O(ports) memory; on the CPU. Random evidence on a tenth of a network's edges leaves next to nothing to
    join: the ratio says what was won.

    References
    ----------
    Kersting, Ahmadi and Natarajan (2009), Counting belief propagation. Singla and Domingos (2008), Lifted first-order
    belief propagation. Paige and Tarjan (1987), Three partition refinement algorithms.

    Examples
    --------
    Five people, one friendship observed: the others touch it or do not.

    >>> from hiddenfield.fields.relational import graph_scheme
    >>> from hiddenfield.inference import infer
    >>> ground = graph_scheme("edge", "triangle").ground(5, [-1.0, 0.5])
    >>> lifted = compress(ground, {"exist[0, 1]": 1})
    >>> lifted
    Compressed(10 variables in 3 classes, 10 factors in 3; 3.33 times fewer ports)
    >>> lifted.field.counts
    tensor([1., 6., 3.], dtype=torch.float64)
    >>> lifted.expand(infer(lifted.field, "loopy_bp"))[:, 1]
    tensor([1.0000, 0.3297, 0.3297, 0.3297, 0.3297, 0.3297, 0.3297, 0.3060, 0.3060,
            0.3060], dtype=torch.float64)
    """
    here = field if evidence is None else field.given(evidence)
    colour, frozen = _variable_colours(here, decimals)
    ports, colour = _ports(here, colour, decimals)
    return _quotient(here, *np.split(refine(ports, colour, frozen), [len(frozen)]))


def _ports(field: FactorGraph, colour: Array, decimals: int | None) -> tuple[Ports, Int[Array, " items"]]:
    """Return the ports of all factors, and the first colours of variables and factors."""
    none = np.zeros(0, dtype=np.int16)
    colours, variables, labels, symmetry = [colour], [none], [none], [none]
    groups: list[tuple[tuple[int, ...], ...]] = []
    for group in field.groups:
        own, which, found = _factor_colours(group, decimals)
        colours.append(own + max(int(part.max(initial=-1)) for part in colours) + 1)
        variables.append(group.scopes.reshape(-1).numpy(force=True))
        orbits = np.array([orbit for orbit, _ in found], dtype=np.int16).reshape(-1, group.arity)
        labels.append(orbits[which].reshape(-1))
        number = [len(groups) + i if orders else -1 for i, (_, orders) in enumerate(found)]
        symmetry.append(np.array(number, dtype=np.int32)[which])
        groups += [orders for _, orders in found]
    orders = [order for group in groups for order in group]
    permutations = np.zeros((len(orders), max(map(len, orders), default=0)), dtype=np.int16)
    for row, order in zip(permutations, orders, strict=True):
        row[: len(order)] = order
    ports = Ports(
        np.concatenate(variables).astype(np.int32),
        np.repeat(
            np.arange(field.num_factors, dtype=np.int32),
            np.concatenate([none, *(np.full(group.num_factors, group.arity) for group in field.groups)]),
        ),
        np.concatenate(labels),
        np.concatenate(symmetry).astype(np.int32),
        np.cumsum([0, *map(len, groups)]),
        permutations,
    )
    return ports, np.concatenate(colours)


def _rounded(values: Tensor, decimals: int | None) -> Array:
    """Return 64-bit floats in the form in which they are compared; adding 0 makes of -0 a 0."""
    numbers = values.detach().double().numpy(force=True)
    return (numbers if decimals is None else np.round(numbers, decimals)) + 0.0


def _variable_colours(field: FactorGraph, decimals: int | None) -> tuple[Array, Array]:
    """Return variables numbered by states, count, graph and log potentials, and which have one possible state."""
    cards = field.cardinalities.numpy(force=True)
    start = field.state_ptr.numpy(force=True)
    unary = _rounded(field.log_unary, decimals)
    plain = np.stack(
        [field.counts.double().numpy(force=True), field.variable_graph.double().numpy(force=True)], 1
    )
    colour, frozen, offset = np.zeros(len(cards), dtype=np.int32), np.zeros(len(cards), dtype=bool), 0
    for states in np.unique(cards):
        members = np.flatnonzero(cards == states)
        potentials = unary[start[members][:, None] + np.arange(states)]
        number, first = equal_rows(np.concatenate([plain[members], potentials], 1))
        colour[members] = number + offset
        frozen[members] = (potentials > -np.inf).sum(1) == 1
        offset += len(first)
    return colour, frozen


def _factor_colours(group: FactorGroup, decimals: int | None) -> tuple[Array, Array, list[Symmetry]]:
    """Return a number for factors by table and count, which symmetries each has, and these."""
    tables = _rounded(group.log_tables, decimals)
    number, first = equal_rows(tables.reshape(len(tables), -1))
    found, which = table_symmetries(tables[first])
    own = number if group.table is None else number[group.table.numpy(force=True)]
    weight = group.count.double().numpy(force=True)
    colour, _ = equal_rows(np.stack([own.astype(np.float64), weight], 1))
    return colour, which[own], found


def _quotient(field: FactorGraph, variables: Array, factors: Array) -> Compressed:
    """Build the field of classes from the class of each variable and factor."""
    device = field.device
    members, first = equal_rows(variables[:, None])
    variable_class = torch.from_numpy(members).to(device)
    chosen = torch.from_numpy(first).to(device)
    cards = field.cardinalities[chosen]
    ends = cards.cumsum(0)
    within = torch.arange(int(cards.sum()), device=device) - (ends - cards).repeat_interleave(cards)
    states = field.state_ptr[chosen].repeat_interleave(cards) + within
    groups, classes, begin = [], [], 0
    for group in field.groups:
        members, first = equal_rows(factors[begin : begin + group.num_factors, None])
        begin += group.num_factors
        groups.append(_class_group(group, variable_class, members, first))
        classes.append(torch.from_numpy(members).to(device))
    owner = field.variable_graph[chosen]
    bounds = torch.cat([owner.new_zeros(1), torch.bincount(owner, minlength=field.num_graphs).cumsum(0)])
    picked = _names(field.variable_names, chosen), _names(field.state_names, chosen)
    small = FactorGraph(
        cards,
        field.log_unary[states],
        tuple(groups),
        bounds,
        field.counts.new_zeros(len(chosen)).index_add(0, variable_class, field.counts),
        field.log_constant,
        *picked,
    )
    before = sum(group.num_factors * group.arity for group in field.groups)
    after = sum(group.num_factors * group.arity for group in groups)
    return Compressed(small, variable_class, tuple(classes), before / after if after else 1.0)


def _names(names: tuple[Any, ...], chosen: Tensor) -> tuple[Any, ...]:
    """Return the names of the first members, where there are names."""
    return tuple(names[i] for i in chosen.tolist()) if names else ()


def _class_group(group: FactorGroup, variable_class: Tensor, members: Array, first: Array) -> FactorGroup:
    """Return a factor for each class: its first member's, between classes of variables."""
    device = group.scopes.device
    number, chosen = torch.from_numpy(members).to(device), torch.from_numpy(first).to(device)
    tables = group.log_tables[chosen] if group.table is None else group.log_tables
    return dataclasses.replace(
        group,
        scopes=variable_class[group.scopes[chosen]],
        log_tables=tables,
        table=None if group.table is None else group.table[chosen],
        count=group.count.new_zeros(len(first)).index_add(0, number, group.count),
    )


# -- symmetries of tables ----------------------------------------------------------------------------------


def table_symmetries(tables: Array) -> tuple[list[Symmetry], Int[Array, " tables"]]:
    r"""Return the different symmetry groups of tables of one shape, and which one each table has.

    A permutation g of the axes is a symmetry when :math:`T(x_0, x_1, \dots) = T(x_{g(0)}, x_{g(1)}, \dots)` for all x.
    All permutations are tried; of tables with many ports, only exchanges of two (`MOST_COMPARISONS`).

    Examples
    --------
    >>> import numpy as np
    >>> table_symmetries(np.array([[[1, 2], [2, 3]], [[1, 2], [0, 3]]]))
    ([((0, 0), ()), ((0, 1), ())], array([0, 1]))
    """
    arity, shape = tables.ndim - 1, tables.shape[1:]
    identity = tuple(range(arity))
    tries = math.factorial(arity) if arity <= 8 else MOST_COMPARISONS
    if tries * max(tables.size, 1) <= MOST_COMPARISONS:
        candidates = [g for g in permutations(identity) if all(shape[i] == shape[g[i]] for i in identity)]
    else:
        candidates = [identity]
        for i, j in combinations(identity, 2):
            if shape[i] == shape[j]:
                swap = {i: j, j: i}
                candidates.append(tuple(swap.get(k, k) for k in identity))
    holds = np.ones((len(tables), len(candidates)), dtype=bool)
    axes = tuple(range(1, arity + 1))
    for column, g in enumerate(candidates):
        if g != identity:
            moved = np.transpose(tables, (0, *(axis + 1 for axis in g)))
            holds[:, column] = (moved == tables).all(axis=axes)
    which, first = equal_rows(holds.astype(np.int32))
    found = [_symmetry([g for g, kept in zip(candidates, row, strict=True) if kept]) for row in holds[first]]
    return found, which


def _symmetry(group: Sequence[tuple[int, ...]]) -> Symmetry:
    """Find the orbits; keep the permutations only where they are not all those within the orbits."""
    orbit = _orbits(group)
    exchanges = [g for g in group if sum(i != j for i, j in enumerate(g)) <= 2]
    # Exchanges of two that connect an orbit generate all its permutations.
    return orbit, (() if _orbits(exchanges) == orbit else tuple(group))


def _orbits(group: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the first port that each can be taken to by the permutations; the identity is among them."""
    orbit = list(range(len(group[0])))
    for _ in orbit:
        for g in group:
            for i, j in enumerate(g):
                orbit[i] = orbit[j] = min(orbit[i], orbit[j])
    return tuple(orbit)
