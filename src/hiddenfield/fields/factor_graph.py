"""Factor graphs: discrete variables, factors in groups of one shape, and how many ground ones each stands for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.evidence import log_evidence, variable_number
from hiddenfield.fields.wiring import Wiring, connected_parts, owners, wire
from hiddenfield.ops import segment_sum
from hiddenfield.shapes import Float, Int, Tensor


@dataclass(frozen=True, eq=False)
class FactorGroup:
    r"""Factors of one shape :math:`k_1 \times \dots \times k_r`, with at least two ports.

    Parameters
    ----------
    scopes
        The variables of each factor, port by port.
    log_tables
        Log potentials, axis i over the states of port i; -inf is a hard zero.
    table
        Which table each factor reads; None: each has its own, in order.
    count
        How many ground factors each stands for; ones in a ground model.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> group = ising_grid(2, 2).groups[0]
    >>> group.scopes.tolist(), group.states, group.log_tables.shape
    ([[0, 1], [2, 3], [0, 2], [1, 3]], (2, 2), torch.Size([1, 2, 2]))
    """

    scopes: Int[Tensor, "factors arity"]
    log_tables: Float[Tensor, " tables *states"]
    table: Int[Tensor, " factors"] | None
    count: Float[Tensor, " factors"]

    @property
    def num_factors(self) -> int:
        """Number of factors."""
        return self.scopes.shape[0]

    @property
    def arity(self) -> int:
        """Number of ports."""
        return self.scopes.shape[1]

    @property
    def states(self) -> tuple[int, ...]:
        """Number of states of each port."""
        return tuple(self.log_tables.shape[1:])

    def expanded(self) -> Float[Tensor, " tables *states"]:
        """Return a table for each factor, or a single one (leading axis 1) where all factors share it."""
        if self.table is None or self.log_tables.shape[0] == 1:
            return self.log_tables
        return self.log_tables[self.table]

    def to(self, *arguments: Any) -> FactorGroup:
        """Return the group on a device or with another floating type."""
        table = self.table if self.table is None else self.table.to(_device_of(*arguments))
        scopes = self.scopes.to(_device_of(*arguments))
        return FactorGroup(scopes, self.log_tables.to(*arguments), table, self.count.to(*arguments))


@dataclass(frozen=True, eq=False, repr=False)
class FactorGraph:
    r"""A discrete field :math:`p(x) \propto \prod_v \Phi_v(x_v) \prod_f \Psi_f(x_{C_f})`, or many of them end to end.

    Variables are numbered through the whole batch; graph g owns ``variable_ptr[g]:variable_ptr[g + 1]``. Every
    variable and factor carries a *count* of the ground ones that it stands for. In a ground model all are 1 (a factor
    of count k is then k copies of itself). In a template or a compressed field a scope may name a variable several
    times: distinct ground variables of one class. The *multiplicity* of a port, how many ground factors of that kind
    touch one ground variable through it, is count of factor / count of variable.

    Build one with `from_factors` and the other functions of `hiddenfield.fields`, or read one from a file; the
    constructor itself trusts what it is given.

    Parameters
    ----------
    cardinalities
        Number of states of each variable.
    log_unary
        Log potentials of single variables, one variable after another (`state_ptr` has the bounds): factors of one
        variable, observations and evidence are sums in it.
    groups
        Factors of two and more variables.
    variable_ptr
        Bounds of every graph's variables.
    counts
        Ground variables that each variable stands for.
    log_constant
        One constant per graph, added to its log partition.
    variable_names, state_names
        Names where the source had them.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> field = from_factors([[0, 1], [1, 2]], [np.eye(2), np.ones((2, 3))])
    >>> field
    FactorGraph(1 graph, 3 variables of 2-3 states, 2 factors of up to 2 ports)
    >>> field.given({0: 1}).log_unary
    tensor([-inf, 0., 0., 0., 0., 0., 0.], dtype=torch.float64)
    """

    cardinalities: Int[Tensor, " variables"]
    log_unary: Float[Tensor, " states"]
    groups: tuple[FactorGroup, ...]
    variable_ptr: Int[Tensor, " graph_bounds"]
    counts: Float[Tensor, " variables"]
    log_constant: Float[Tensor, " graphs"]
    variable_names: tuple[str, ...] = ()
    state_names: tuple[tuple[str, ...], ...] = ()

    # -- sizes ---------------------------------------------------------------------------------------------

    @property
    def num_variables(self) -> int:
        """Number of variables of all graphs."""
        return self.cardinalities.shape[0]

    @property
    def num_factors(self) -> int:
        """Number of factors of two and more variables."""
        return sum(group.num_factors for group in self.groups)

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return self.variable_ptr.shape[0] - 1

    @property
    def dtype(self) -> torch.dtype:
        """Floating type of the potentials."""
        return self.log_unary.dtype

    @property
    def device(self) -> torch.device:
        """Where the tensors lie."""
        return self.log_unary.device

    def __repr__(self) -> str:
        """Say how large it is."""
        states = (
            [int(self.cardinalities.min()), int(self.cardinalities.max())] if self.num_variables else [0, 0]
        )
        span = str(states[0]) if states[0] == states[1] else f"{states[0]}-{states[1]}"
        ports = max((group.arity for group in self.groups), default=1)
        graphs = f"{self.num_graphs:,} graph" + "s" * (self.num_graphs != 1)
        ground = "" if self.is_ground else ", with multiplicities"
        return (
            f"FactorGraph({graphs}, {self.num_variables:,} variables of {span} states, "
            f"{self.num_factors:,} factors of up to {ports} ports{ground})"
        )

    # -- derived -------------------------------------------------------------------------------------------

    @cached_property
    def state_ptr(self) -> Int[Tensor, " variable_bounds"]:
        """Bounds of every variable's states in packed arrays."""
        return torch.cat([self.cardinalities.new_zeros(1), self.cardinalities.cumsum(0)])

    @cached_property
    def state_variable(self) -> Int[Tensor, " states"]:
        """The variable of every packed state."""
        return owners(self.cardinalities)

    @cached_property
    def variable_graph(self) -> Int[Tensor, " variables"]:
        """The graph of every variable."""
        return owners(self.variable_ptr.diff())

    @cached_property
    def is_ground(self) -> bool:
        """Whether every variable stands for one, so that the field is a distribution over assignments."""
        return bool((self.counts == 1).all())

    @cached_property
    def wiring(self) -> Wiring:
        """Where messages lie, and who sends to whom: made once for each field, shared by its evidence."""
        return wire(self.cardinalities, [group.scopes for group in self.groups], self.variable_graph)

    @cached_property
    def table_begin(self) -> Int[Tensor, " factors"]:
        """Where the table of every factor begins if the tables of all groups lie end to end."""
        parts, offset = [self.variable_ptr[:0]], 0
        for group in self.groups:
            rows = group.table
            if rows is None:
                rows = torch.arange(group.num_factors, device=self.device)
            parts.append(offset + rows * math.prod(group.states))
            offset += group.log_tables.numel()
        return torch.cat(parts)

    @cached_property
    def region_graphs(self) -> dict[str, Any]:
        """Region graphs by name, as they are made: they depend on the scopes alone and are shared by evidence."""
        return {}

    def split_tables(self, flat: Float[Tensor, " entries"]) -> tuple[Tensor, ...]:
        """Cut the entries of all factors, one factor after another, into one stack of tables per group."""
        parts = flat.split([group.num_factors * math.prod(group.states) for group in self.groups])
        return tuple(
            part.reshape(group.num_factors, *group.states)
            for part, group in zip(parts, self.groups, strict=True)
        )

    def multiplicity(self, group: FactorGroup) -> Float[Tensor, "factors arity"]:
        """How many ground factors of each kind touch one ground variable, port by port."""
        return group.count[:, None] / self.counts[group.scopes]

    @property
    def requires_grad(self) -> bool:
        """Whether a potential wants a gradient."""
        return self.log_unary.requires_grad or any(group.log_tables.requires_grad for group in self.groups)

    # -- new fields from old ones --------------------------------------------------------------------------

    def given(self, evidence: Mapping[Any, Any] | Float[Tensor, " states"]) -> FactorGraph:
        """Return the field with evidence, at the cost of one vector; nothing is rebuilt.

        Parameters
        ----------
        evidence
            For each observed variable (a number or a name) its state (a number or a name: hard evidence), or a vector
            of log weights over its states (soft evidence). Or one packed vector of log weights over all states.
        """
        if isinstance(evidence, Mapping) and not evidence:
            return self
        extra = log_evidence(self, evidence)
        return self._sharing(log_unary=self.log_unary + extra)

    def detach(self) -> FactorGraph:
        """Return the same field without gradients."""
        if not self.requires_grad:
            return self
        groups = tuple(
            dataclasses.replace(group, log_tables=group.log_tables.detach()) for group in self.groups
        )
        return self._sharing(log_unary=self.log_unary.detach(), groups=groups)

    def with_potentials(
        self, log_unary: Float[Tensor, " states"], log_tables: Sequence[Tensor]
    ) -> FactorGraph:
        """Return a field of the same shape with other potentials, group by group; other shapes are an error."""
        if log_unary.shape != self.log_unary.shape:
            raise InputError(
                f"log_unary holds one number for each of the {self.log_unary.shape[0]} states of all variables, "
                f"got shape {tuple(log_unary.shape)}"
            )
        if len(log_tables) != len(self.groups):
            raise InputError(
                f"one stack of log tables for each of the {len(self.groups)} groups, got {len(log_tables)}"
            )
        for number, (group, tables) in enumerate(zip(self.groups, log_tables, strict=True)):
            if tables.shape != group.log_tables.shape:
                raise InputError(
                    f"the log tables of group {number} have shape {tuple(group.log_tables.shape)}, "
                    f"got {tuple(tables.shape)}"
                )
        groups = tuple(
            dataclasses.replace(group, log_tables=tables)
            for group, tables in zip(self.groups, log_tables, strict=True)
        )
        return self._sharing(log_unary=log_unary, groups=groups)

    def to(self, *arguments: Any, device: Any = None, dtype: torch.dtype | None = None) -> FactorGraph:
        """Return the field on a device, or with another floating type."""
        arguments = (*arguments, *(value for value in (device, dtype) if value is not None))
        _check_move(arguments)
        device = _device_of(*arguments)
        return dataclasses.replace(
            self,
            cardinalities=self.cardinalities.to(device),
            log_unary=self.log_unary.to(*arguments),
            groups=tuple(group.to(*arguments) for group in self.groups),
            variable_ptr=self.variable_ptr.to(device),
            counts=self.counts.to(*arguments),
            log_constant=self.log_constant.to(*arguments),
        )

    def _sharing(self, **changes: Any) -> FactorGraph:
        """Replace potentials and keep what was derived from the shape alone."""
        other = dataclasses.replace(self, **changes)
        for name in ("state_ptr", "state_variable", "variable_graph", "is_ground", "wiring", "table_begin"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        other.__dict__["region_graphs"] = self.region_graphs
        return other

    # -- values --------------------------------------------------------------------------------------------

    def log_value(self, assignment: Int[Tensor, "*batch variables"]) -> Float[Tensor, "*batch graphs"]:
        r"""Return :math:`\sum_v N_v \log \Phi_v(x_v) + \sum_f N_f \log \Psi_f(x_{C_f})`, graph by graph.

        `assignment` holds a state for every variable of all graphs; leading axes are further assignments. In a field
        with multiplicities it is the value of the ground assignment in which all variables of a class agree.
        """
        if not isinstance(assignment, Tensor) or assignment.is_floating_point():
            kind = assignment.dtype if isinstance(assignment, Tensor) else type(assignment).__name__
            raise InputError(
                f"an assignment is a tensor of whole numbers, the states of all variables; got {kind}"
            )
        if assignment.shape[-1] != self.num_variables:
            raise InputError(
                f"an assignment holds a state for each of the {self.num_variables} variables, "
                f"got {assignment.shape[-1]} numbers"
            )
        wrong = (assignment < 0) | (assignment >= self.cardinalities)
        if bool(wrong.any()):
            where = int(wrong.nonzero()[0, -1])
            states = int(self.cardinalities[where])
            came = int(assignment[..., where].max())
            raise InputError(f"variable {self.name_of(where)} has the states 0 to {states - 1}, not {came}")
        batch = assignment.shape[:-1]
        flat = assignment.reshape(math.prod(batch), self.num_variables)
        terms = self.counts * self.log_unary[self.state_ptr[:-1] + flat]
        # Sums over a graph are in double precision: a million terms in single precision would lose whole digits.
        value = self.log_constant.double() + segment_sum(terms.double().T.contiguous(), self.variable_ptr).T
        for group in self.groups:
            index = tuple(flat[:, group.scopes[:, port]] for port in range(group.arity))
            rows = torch.arange(group.num_factors, device=self.device) if group.table is None else group.table
            terms = group.count * group.log_tables[(rows.expand_as(index[0]), *index)]
            owner = self.variable_graph[group.scopes[:, 0]]
            value = value.index_add(1, owner, terms.double())
        return value.to(self.dtype).reshape(*batch, self.num_graphs)

    # -- names ---------------------------------------------------------------------------------------------

    def index_of(self, variable: Any) -> int:
        """Return the number of a variable that is given by name (or by number); one that is not there is an error."""
        return variable_number(self, variable)

    def indices_of(self, variables: Iterable[Any]) -> list[int]:
        """Return the numbers of variables that are given by names or numbers."""
        if isinstance(variables, (str, int)):
            raise InputError(
                f"variables are a list of names or numbers, got {variables!r}: write [{variables!r}]"
            )
        return [variable_number(self, variable) for variable in variables]

    def name_of(self, variable: int) -> str:
        """Return what an error message calls a variable."""
        return f"{variable} ({self.variable_names[variable]!r})" if self.variable_names else str(variable)

    @cached_property
    def num_components(self) -> int:
        """Number of connected parts of variables and factors, over all graphs."""
        rows, columns = self.wiring.port_variable.cpu().numpy(), self.wiring.port_factor.cpu().numpy()
        return connected_parts(self.num_variables + self.num_factors, rows, self.num_variables + columns)[0]

    @cached_property
    def is_forest(self) -> bool:
        """Whether no cycle joins variables and factors, so that belief propagation is exact."""
        if not self.is_ground or any(bool((group.count != 1).any()) for group in self.groups):
            return False
        ports = len(self.wiring.port_variable)
        return self.num_variables + self.num_factors - ports == self.num_components


def _check_move(arguments: tuple[Any, ...]) -> None:
    """Refuse a device that is not there, and what is neither a device nor a floating type."""
    for argument in arguments:
        if isinstance(argument, torch.dtype):
            if not argument.is_floating_point:
                raise InputError(f"potentials are floating-point numbers, got {argument}")
            continue
        try:
            torch.empty(0, device=argument)
        except (RuntimeError, AssertionError, TypeError) as error:
            reason = str(error).strip().split("\n")[0]
            known = "cpu" + (", cuda" if torch.cuda.is_available() else "; there is no CUDA device here")
            raise InputError(f"cannot move the field to {argument!r} ({reason}); devices: {known}") from None


def _device_of(*arguments: Any) -> Any:
    """Return the device among the arguments of `Tensor.to`, or a meaningless move."""
    for argument in arguments:
        if isinstance(argument, (str, torch.device)):
            return argument
    return torch.int64
