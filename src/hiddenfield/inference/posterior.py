"""What inference returns, marginals and log partition and what both are worth, and the registry of its algorithms."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch

from hiddenfield.errors import InputError, MissingDependencyError
from hiddenfield.fields.evidence import state_number
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.iteration import Outcome, part_of
from hiddenfield.registry import Registry
from hiddenfield.shapes import Bool, Float, Int, Tensor

CONTRADICTION = "contradiction: hard zeros and evidence leave no assignment possible"
if TYPE_CHECKING:
    import pandas

Guarantee = Literal["exact", "lower bound", "upper bound", "estimate"]

MOST_SHOWN = 6
"""Most variables that the text of an assignment shows."""

METHODS: Registry[Callable[..., Posterior]] = Registry("method", "hiddenfield.inference")
"""Every algorithm by name, with its guarantee, its reference, and `unrolls` if its iterations are differentiable."""

MAP_METHODS: Registry[Callable[..., MapState]] = Registry(
    "method for joint assignments", "hiddenfield.inference"
)
"""Every algorithm that finds a joint assignment, by the name that it has in `METHODS`."""


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """The result of inference on a field, graph by graph where it is a batch.

    Parameters
    ----------
    field
        The field, with its evidence.
    method
        Name of the algorithm.
    log_marginals
        Log probabilities of the states of every variable, packed as in the field.
    factor_log_marginals
        Log probabilities over the scopes, (factors, states ...) per group.
    log_partition
        Log partition (natural logarithm) of each graph, in the sense of `guarantee`.
    guarantee
        What the log partition is: exact, a lower bound, an upper bound or an estimate. Marginals are exact where it is
        exact and estimates otherwise.
    converged
        For each graph whether the iteration met its tolerance.
    iterations, residual
        For each graph how long it took, and the residual at the end, recomputed from the messages themselves.
    status
        How the iteration ended, in words, with a remedy where it did not converge.
    note
        Why this method, and what the answer is worth, where `auto` chose it.
    trace
        The largest residual after each iteration, and further series by name where an algorithm has them.
    seconds
        Wall-clock time.
    extra
        What only some algorithms have: messages for a warm start, edge appearance probabilities, diagnostics of chains.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> from hiddenfield.inference.infer import infer
    >>> posterior = infer(ising_grid(1, 3, 0.5, 0.2), "loopy_bp")
    >>> posterior.marginals.shape, posterior.factor_marginals[0].shape, posterior.guarantee
    (torch.Size([3, 2]), torch.Size([2, 2, 2]), 'exact')
    >>> posterior.most_likely
    tensor([1, 1, 1])

    By name, where the field has names:

    >>> from hiddenfield.fields import from_factors
    >>> names = {"variable_names": ["rain"], "state_names": [["no", "yes"]]}
    >>> rain = infer(from_factors([[0]], [[0.0, 1.0]], **names))
    >>> rain["rain"]
    {'no': 0.2689, 'yes': 0.7310}
    >>> rain["rain"]["yes"], rain.to_dict()
    (0.7310, {'rain': {'no': 0.2689, 'yes': 0.7310}})
    """

    field: FactorGraph
    method: str
    log_marginals: Float[Tensor, " states"]
    factor_log_marginals: tuple[Tensor, ...]
    log_partition: Float[Tensor, " graphs"]
    guarantee: Guarantee
    converged: Bool[Tensor, " graphs"]
    iterations: Int[Tensor, " graphs"]
    residual: Float[Tensor, " graphs"]
    status: str = "converged"
    note: str = ""
    trace: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        outcome: Outcome[Any],
        field: FactorGraph,
        method: str,
        beliefs: tuple[Float[Tensor, " states"], tuple[Tensor, ...]],
        log_partition: Float[Tensor, " graphs"],
        guarantee: Guarantee,
        **others: Any,
    ) -> Posterior:
        """Make a posterior of where an iteration ended and the beliefs, of variables and factors, that it has there."""
        ended = (outcome.converged, outcome.iterations, outcome.residual)
        return cls(field, method, *beliefs, log_partition, guarantee, *ended, **others)

    def rounded(self, field: FactorGraph) -> Posterior:
        """Return the posterior of the same field in another precision."""

        def cast(values: Tensor) -> Tensor:
            return values.to(field.dtype)

        return dataclasses.replace(
            self,
            field=field,
            log_marginals=cast(self.log_marginals),
            factor_log_marginals=tuple(map(cast, self.factor_log_marginals)),
            log_partition=cast(self.log_partition),
            residual=cast(self.residual),
        )

    def without(self, graphs: Bool[Tensor, " graphs"]) -> Posterior:
        """Return the posterior with no probability anywhere in some graphs: those that have no possible assignment."""
        if not bool(graphs.any()):
            return self
        field = self.field
        owner = [graphs[field.variable_graph[group.scopes[:, 0]]] for group in field.groups]
        factors = [
            table.masked_fill(own.reshape(-1, *(1,) * (table.ndim - 1)), -math.inf)
            for own, table in zip(owner, self.factor_log_marginals, strict=True)
        ]
        marginals = self.log_marginals.masked_fill(
            graphs[field.variable_graph][field.state_variable], -math.inf
        )
        return dataclasses.replace(self, log_marginals=marginals, factor_log_marginals=tuple(factors))

    @cached_property
    def marginals(self) -> Float[Tensor, "variables most_states"]:
        """Marginal distributions, one row per variable; 0 beyond a variable's own states."""
        return padded(self.field, self.log_marginals, -math.inf).exp()

    @cached_property
    def factor_marginals(self) -> tuple[Tensor, ...]:
        """Marginal distributions over the scopes, (factors, states ...) per group."""
        return tuple(table.exp() for table in self.factor_log_marginals)

    @cached_property
    def most_likely(self) -> Int[Tensor, " variables"]:
        """The most likely state of each variable by itself; `map_state` has the most likely joint assignment."""
        return padded(self.field, self.log_marginals, -math.inf).argmax(1)

    # -- by name -------------------------------------------------------------------------------------------

    def __getitem__(self, variable: str | int) -> dict[str, float] | Float[Tensor, " own_states"]:
        """Return the marginal distribution of a variable, given by name or number.

        A mapping from the names of its states to their probabilities, or a tensor where states have no names. A name
        that is not there is an `InputError` that lists those that are.
        """
        number = self.field.index_of(variable)
        begin, end = self.field.state_ptr[number : number + 2].tolist()
        row = self.log_marginals[begin:end].exp()
        if not self.field.state_names:
            return row
        return dict(zip(self.field.state_names[number], row.tolist(), strict=True))

    def to_dict(self) -> dict[str | int, dict[str, float] | list[float]]:
        """Return all marginals as plain values: by name, or by number and as lists where there are no names."""
        field, packed, bounds = (
            self.field,
            self.log_marginals.detach().exp().tolist(),
            self.field.state_ptr.tolist(),
        )
        rows: list[Any] = [packed[bounds[v] : bounds[v + 1]] for v in range(field.num_variables)]
        if field.state_names:
            rows = [
                dict(zip(names, row, strict=True)) for names, row in zip(field.state_names, rows, strict=True)
            ]
        return dict(zip(variable_keys(field), rows, strict=True))

    def to_frame(self) -> pandas.DataFrame:
        """Return all marginals as a pandas table with the columns variable, state and probability.

        A batch of fields has a column `graph` before them.

        Raises
        ------
        MissingDependencyError
            Without pandas.
        """
        field = self.field
        owners = field.state_variable.tolist()
        columns: dict[str, list[Any]] = {}
        if field.num_graphs > 1:
            columns["graph"] = field.variable_graph[field.state_variable].tolist()
        names = field.variable_names or range(field.num_variables)
        columns["variable"] = [names[v] for v in owners]
        columns["state"] = [
            state_key(field, v, k) for v in range(field.num_variables) for k in _states(field, v)
        ]
        columns["probability"] = self.log_marginals.detach().exp().tolist()
        return data_frame(columns)

    def joint(self, variables: Sequence[str | int], *, max_memory: float | None = None) -> Joint:
        """Return the exact joint distribution of some variables given this posterior's evidence.

        See `hiddenfield.inference.joint`: it is computed anew and exactly, also where these marginals are estimates,
        and refused with `TooLargeError` where that would take too much memory.
        """
        from hiddenfield.inference.exact import joint

        return joint(self.field, variables, max_memory=max_memory)

    def __repr__(self) -> str:
        """Say what came out and how good it is."""
        total = self.log_partition.detach()
        value = (
            f"{float(total[0]):.6g}"
            if len(total) == 1
            else f"{float(total.sum()):.6g} over {len(total)} graphs"
        )
        most = int(self.iterations.max()) if len(self.iterations) else 0
        return f"Posterior({self.method}: log partition {value} ({self.guarantee}); {self.status}; {most} iterations)"


@dataclass(frozen=True, eq=False, repr=False)
class MapState:
    """A joint assignment, its log value in each graph, and whether it is the most likely one.

    Parameters
    ----------
    assignment
        A state for every variable; -1 where `marginal_map` summed over it.
    log_value
        Unnormalised log value of the assignment, graph by graph.
    guarantee
        "exact": no assignment has a higher value. "lower bound": it is a local optimum or a decoding of approximate
        messages; the best value is at least this.
    upper_bound
        A bound on the best value where the algorithm has one (tree-reweighted max-product), otherwise None.
    status
        How the algorithm ended; a value of -inf is never called converged.
    note
        Why this method, and what the answer is worth, where `auto` chose it.
    field
        The field, with its evidence, that names are looked up in.

    Examples
    --------
    >>> from hiddenfield.fields import from_factors
    >>> from hiddenfield.inference import map_state
    >>> names = {"variable_names": ["rain", "grass"], "state_names": [["no", "yes"], ["dry", "wet"]]}
    >>> best = map_state(from_factors([[0, 1]], [[[0.0, 1.0], [2.0, 3.0]]], **names))
    >>> best
    MapState(log value 3 (exact); converged; rain=yes, grass=wet)
    >>> best["rain"], best.to_dict(), best.assignment
    ('yes', {'rain': 'yes', 'grass': 'wet'}, tensor([1, 1]))
    """

    assignment: Int[Tensor, " variables"]
    log_value: Float[Tensor, " graphs"]
    guarantee: Guarantee
    upper_bound: Float[Tensor, " graphs"] | None = None
    status: str = "converged"
    note: str = ""
    field: FactorGraph | None = None

    @property
    def gap(self) -> Float[Tensor, " graphs"] | None:
        """How far the value is below the upper bound, graph by graph; None where there is no bound.

        The assignment is at most exp(gap) times less likely than the best one.
        """
        if self.upper_bound is None:
            return None
        return torch.where(self.log_value == self.upper_bound, 0.0, self.upper_bound - self.log_value)

    def __getitem__(self, variable: str | int) -> str | int:
        """Return the state of a variable, given by name or number: its name, or its number where it has none."""
        field = self._named()
        number = field.index_of(variable)
        state = int(self.assignment[number])
        if state < 0:
            raise InputError(f"variable {field.name_of(number)} was summed over and has no state here")
        return state_key(field, number, state)

    def to_dict(self) -> dict[str | int, str | int]:
        """Return the states of all variables that were not summed over, by name where there are names."""
        field, states = self._named(), self.assignment.tolist()
        keys = variable_keys(field)
        return {keys[v]: state_key(field, v, state) for v, state in enumerate(states) if state >= 0}

    def _named(self) -> FactorGraph:
        if self.field is None:
            raise InputError(
                "this assignment came without its field: use map_state or marginal_map, or `assignment`"
            )
        return self.field

    def __repr__(self) -> str:
        """Say how good it is, and the first states."""
        total = self.log_value.detach()
        value = f"{float(total.sum()):.6g}" + (f" over {len(total)} graphs" if len(total) != 1 else "")
        states = self.to_dict() if self.field is not None else dict(enumerate(self.assignment.tolist()))
        shown = ", ".join(f"{name}={state}" for name, state in list(states.items())[:MOST_SHOWN])
        more = f", ... ({len(states)} variables)" if len(states) > MOST_SHOWN else ""
        return f"MapState(log value {value} ({self.guarantee}); {self.status}; {shown}{more})"


@dataclass(frozen=True, eq=False, repr=False)
class Joint:
    """The joint distribution of a few variables.

    Parameters
    ----------
    variables
        Their numbers, in the order in which they were asked for.
    probabilities
        One axis per variable, in that order.
    field
        The field, with its evidence, that names are looked up in.

    Examples
    --------
    >>> from hiddenfield.fields import from_factors
    >>> from hiddenfield.inference import joint
    >>> names = {"variable_names": ["rain", "grass"], "state_names": [["no", "yes"], ["dry", "wet"]]}
    >>> both = joint(from_factors([[0, 1]], [[[0.0, 1.0], [2.0, 3.0]]], **names), ["grass", "rain"])
    >>> both
    Joint(grass, rain: 2 x 2 states)
    >>> both["wet", "yes"], both.probabilities.shape
    (0.6439, torch.Size([2, 2]))
    """

    variables: tuple[int, ...]
    probabilities: Float[Tensor, "*states"]
    field: FactorGraph
    guarantee: ClassVar[Guarantee] = "exact"
    status: ClassVar[str] = "converged"
    note: ClassVar[str] = ""

    def __getitem__(self, states: str | int | tuple[str | int, ...]) -> float:
        """Return the probability of a combination of states, by name or number, in the order of the variables."""
        given = states if isinstance(states, tuple) else (states,)
        if len(given) != len(self.variables):
            raise InputError(f"one state for each of the {len(self.variables)} variables, got {len(given)}")
        pairs = zip(self.variables, given, strict=True)
        return float(self.probabilities[tuple(state_number(self.field, v, state) for v, state in pairs)])

    def to_dict(self) -> dict[tuple[str | int, ...], float]:
        """Return the probability of every combination of states."""
        return dict(zip(self._combinations(), self.probabilities.flatten().tolist(), strict=True))

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas table with one column per variable, and the probability; `MissingDependencyError` without."""
        return data_frame(self.columns())

    def columns(self) -> dict[Any, list[Any]]:
        """Return the states of each variable in all combinations of states, and their probabilities."""
        keys = variable_keys(self.field)
        states = zip(*self._combinations(), strict=True)
        columns = {keys[v]: list(column) for v, column in zip(self.variables, states, strict=True)}
        return {**columns, "probability": self.probabilities.flatten().tolist()}

    def _combinations(self) -> list[tuple[str | int, ...]]:
        each = [[state_key(self.field, v, k) for k in _states(self.field, v)] for v in self.variables]
        return list(itertools.product(*each))

    def __repr__(self) -> str:
        """Name the variables."""
        keys = variable_keys(self.field)
        shape = " x ".join(map(str, self.probabilities.shape))
        return f"Joint({', '.join(str(keys[v]) for v in self.variables)}: {shape} states)"


def variable_keys(field: FactorGraph) -> Sequence[str | int]:
    """Return the names of all variables, or their numbers where names are missing or not unique."""
    names = field.variable_names
    return names if names and len(set(names)) == len(names) else range(field.num_variables)


def state_key(field: FactorGraph, variable: int, state: int) -> str | int:
    """Return the name of a state, or its number where it has none."""
    return field.state_names[variable][state] if field.state_names else state


def _states(field: FactorGraph, variable: int) -> range:
    return range(int(field.cardinalities[variable]))


def data_frame(columns: Mapping[Any, Sequence[Any]]) -> pandas.DataFrame:
    """Return a pandas table of columns, or `MissingDependencyError`."""
    try:
        import pandas
    except ImportError:
        raise MissingDependencyError.for_extra("pandas", "pandas", "a data frame") from None
    return pandas.DataFrame(columns)


def padded(
    field: FactorGraph, packed: Float[Tensor, " states"], fill: float
) -> Float[Tensor, "variables most_states"]:
    """Lay packed states out as a matrix, one row per variable, with `fill` beyond a variable's own states."""
    # One column at least, so that a row without any has an argmax: there is none where there are no variables.
    most = int(field.cardinalities.max()) if field.num_variables else 1
    out = torch.full((field.num_variables, most), fill, dtype=packed.dtype, device=packed.device)
    column = torch.arange(packed.shape[0], device=packed.device) - field.state_ptr[field.state_variable]
    return out.index_put((field.state_variable, column), packed)


def impossible_status(impossible: Bool[Tensor, " graphs"]) -> str:
    """Return the status of an answer that is exact: converged, or that some graphs have no possible assignment."""
    return CONTRADICTION + part_of(impossible) if bool(impossible.any()) else "converged"


def check_field(field: Any, name: str) -> None:
    """Refuse what is no field, such as the path of one.

    Examples
    --------
    >>> check_field("model.bif", "infer")
    Traceback (most recent call last):
    hiddenfield.errors.InputError: infer takes a field, got the path 'model.bif': read it with hf.fields.read(path)
    """
    if isinstance(field, FactorGraph):
        return
    if isinstance(field, (str, os.PathLike)):
        raise InputError(
            f"{name} takes a field, got the path {str(field)!r}: read it with hf.fields.read(path)"
        )
    if isinstance(field, (list, tuple)) and field and all(isinstance(each, FactorGraph) for each in field):
        raise InputError(
            f"{name} takes one field, got {len(field)}: join them with hf.fields.concatenate_fields(fields)"
        )
    raise InputError(
        f"{name} takes a field, got {type(field).__name__}: read one with hf.fields.read(path), or build one with "
        "hf.fields.from_factors(scopes, log_tables)"
    )
