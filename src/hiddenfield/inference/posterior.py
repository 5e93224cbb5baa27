"""What inference returns, marginals and log partition and what both are worth, and the registry of its algorithms."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.iteration import Outcome
from hiddenfield.registry import Registry
from hiddenfield.shapes import Bool, Float, Int, Tensor

CONTRADICTION = "contradiction: hard zeros and evidence leave no assignment possible"

Guarantee = Literal["exact", "lower bound", "upper bound", "estimate"]

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


@dataclass(frozen=True, eq=False)
class MapState:
    """A joint assignment, its log value in each graph, and whether it is the most likely one.

    Parameters
    ----------
    assignment
        A state for every variable.
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

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> from hiddenfield.inference import map_state
    >>> map_state(ising_grid(1, 3, 0.5, 0.2)).assignment
    tensor([1, 1, 1])
    """

    assignment: Int[Tensor, " variables"]
    log_value: Float[Tensor, " graphs"]
    guarantee: Guarantee
    upper_bound: Float[Tensor, " graphs"] | None = None
    status: str = "converged"
    note: str = ""

    @property
    def gap(self) -> Float[Tensor, " graphs"] | None:
        """How far the value is below the upper bound, graph by graph; None where there is no bound.

        The assignment is at most exp(gap) times less likely than the best one.
        """
        if self.upper_bound is None:
            return None
        return torch.where(self.log_value == self.upper_bound, 0.0, self.upper_bound - self.log_value)


def padded(
    field: FactorGraph, packed: Float[Tensor, " states"], fill: float
) -> Float[Tensor, "variables most_states"]:
    """Lay packed states out as a matrix, one row per variable, with `fill` beyond a variable's own states."""
    # One column at least, so that a row without any has an argmax: there is none where there are no variables.
    most = int(field.cardinalities.max()) if field.num_variables else 1
    out = torch.full((field.num_variables, most), fill, dtype=packed.dtype, device=packed.device)
    column = torch.arange(packed.shape[0], device=packed.device) - field.state_ptr[field.state_variable]
    return out.index_put((field.state_variable, column), packed)
