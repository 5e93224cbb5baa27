"""The coarsest stable colouring of a factor graph, by partition refinement: each port is looked at O(log ports) times.

Three partitions are refined together: of the variables, of the factors, and of the ports. A factor's signature is the
tuple of its variables' colours up to the symmetries of its table; a port's is its factor's colour and its place in that
tuple, up to the symmetries that leave the tuple unchanged; a variable's is the multiset of its ports' colours. Whenever
a class falls apart its largest part keeps the colour, and only the other parts are looked at again ("process the
smaller half", Hopcroft 1971; Paige and Tarjan 1987). Signatures are compared in full: nothing depends on a hash.
"""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.fields.lifting.factor_signatures import Symmetries, write_signatures
from hiddenfield.fields.lifting.partitions import (
    Partition,
    PortPartition,
    Ports,
    Scratch,
    group_touched,
    lay_out,
    make_partition,
    make_port_partition,
    make_scratch,
    split_classes,
    split_ports,
    start_ports,
)
from hiddenfield.ops import counting_sort
from hiddenfield.ops.compile import compiled, subroutine
from hiddenfield.shapes import Array, Bool, Int


def refine(
    scopes: Int[Array, " ports"],
    port_ptr: Int[Array, " factor_bounds"],
    variable_colour: Int[Array, " variables"],
    factor_colour: Int[Array, " factors"],
    factor_symmetry: Int[Array, " factors"],
    symmetries: Symmetries,
    frozen: Bool[Array, " variables"],
) -> tuple[Int[Array, " variables"], Int[Array, " factors"]]:
    """Refine colours of variables and factors to the coarsest stable ones.

    Parameters
    ----------
    scopes, port_ptr
        The variables of each factor, one factor after another, and the bounds of every factor's.
    variable_colour, factor_colour
        Colours to start from, numbered without gaps.
    factor_symmetry, symmetries
        Which of the symmetries each factor's table has; factors of one colour have the same.
    frozen
        Variables that keep their first colour whatever they touch: those with a single possible state.

    Returns
    -------
    The refined colours, numbered without gaps.
    """
    num_ports, num_factors, num_variables = len(scopes), len(factor_colour), len(variable_colour)
    if num_factors == 0:
        return variable_colour, factor_colour
    by_variable, variable_ptr = counting_sort(torch.from_numpy(scopes.astype(np.int64)), num_variables)
    ports = Ports(
        scopes.astype(np.int32),
        port_ptr.astype(np.int64),
        np.repeat(np.arange(num_factors, dtype=np.int32), np.diff(port_ptr)),
        by_variable.numpy().astype(np.int32),
        variable_ptr.numpy().astype(np.int64),
        factor_symmetry.astype(np.int32),
        *symmetries,
    )
    variables, factors = make_partition(variable_colour), make_partition(factor_colour)
    arity = symmetries.orbit.shape[1]
    _refine(
        ports,
        variables,
        factors,
        make_port_partition(num_ports, arity),
        make_scratch(max(num_factors, num_variables), arity),
        frozen.copy(),
    )
    return variables.colour, factors.colour


@subroutine(allocates=False)
def _count_splitter(
    ports: Ports,
    variables: Partition,
    factors: Partition,
    parts: PortPartition,
    splitter: int,
    frozen: Array,
    degree: Array,
    touched: Array,
) -> int:
    """Count each variable's ports of one colour; return how many variables have some.

    Those that are alone in their class cannot be told apart any further, and are frozen.
    """
    count = 0
    number = parts.factor_colour[splitter]
    for where in range(factors.begin[number], factors.end[number]):
        factor = factors.members[where]
        for port in range(ports.ptr[factor], ports.ptr[factor + 1]):
            variable = ports.variable[port]
            if parts.colour[port] == splitter and not frozen[variable]:
                if degree[variable] == 0:
                    colour = variables.colour[variable]
                    if variables.end[colour] - variables.begin[colour] == 1:
                        frozen[variable] = True
                        continue
                    touched[count] = variable
                    count += 1
                degree[variable] += 1
    return count


@subroutine(allocates=False)
def _touch_factors(
    ports: Ports, variables: Partition, since: int, classes: int, marked: Array, touched: Array
) -> int:
    """List the factors of all variables with a new colour."""
    count = 0
    for where_class in range(since, classes):
        for where in range(variables.begin[where_class], variables.end[where_class]):
            variable = variables.members[where]
            for j in range(ports.variable_ptr[variable], ports.variable_ptr[variable + 1]):
                factor = ports.factor[ports.by_variable[j]]
                if not marked[factor]:
                    marked[factor] = True
                    touched[count] = factor
                    count += 1
    if 8 * count > marked.size:
        # In their own order, so that whatever follows walks through memory: up to twice as fast at ten million ports.
        count = 0
        for factor in range(marked.size):
            if marked[factor]:
                touched[count] = factor
                count += 1
    for i in range(count):
        marked[touched[i]] = False
    return count


@compiled
def _refine(
    ports: Ports,
    variables: Partition,
    factors: Partition,
    parts: PortPartition,
    scratch: Scratch,
    frozen: Array,
) -> None:
    num_factors = factors.colour.size
    degree = np.zeros(variables.colour.size, np.int32)
    marked = np.zeros(num_factors, np.bool_)
    v_classes, f_classes = lay_out(variables), lay_out(factors)
    p_classes = start_ports(ports, factors, f_classes, parts)
    queued = p_classes
    count = num_factors
    for factor in range(num_factors):
        scratch.touched[factor] = factor
    while count > 0:
        write_signatures(ports, variables, factors, parts.place, scratch, count)
        groups = group_touched(scratch, count, scratch.key.shape[1])
        f_classes, found = split_classes(factors, f_classes, scratch, count, groups)
        p_classes, queued = split_ports(ports, factors, parts, p_classes, queued, scratch, groups, found)
        since = v_classes
        for i in range(queued):
            count = _count_splitter(
                ports, variables, factors, parts, parts.queue[i], frozen, degree, scratch.touched
            )
            if count == 0:
                continue
            for j in range(count):
                variable = scratch.touched[j]
                scratch.key[j, 0], scratch.key[j, 1] = variables.colour[variable], degree[variable]
                degree[variable] = 0
            groups = group_touched(scratch, count, 2)
            v_classes, _ = split_classes(variables, v_classes, scratch, count, groups)
        queued = 0
        count = _touch_factors(ports, variables, since, v_classes, marked, scratch.touched)
