"""Exact joint distributions of variables that need not share a factor."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.build import MOST_PORTS
from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.inference.exact import exact
from hiddenfield.inference.posterior import CONTRADICTION, Joint, check_field
from hiddenfield.shapes import Tensor

MOST_STATES = 1 << 24
"""Largest table that is returned where no other limit is given: 128 MiB."""


def joint(
    field: FactorGraph,
    variables: Sequence[str | int],
    *,
    evidence: Mapping[Any, Any] | Tensor | None = None,
    max_memory: float | None = None,
) -> Joint:
    r"""Return the joint distribution of some variables, summed over all others.

    .. math:: p(x_A \mid e) = \frac{1}{Z} \sum_{x_{V \setminus A}} \prod_f \Psi_f(x_{C_f})

    Exact. A factor of ones over the variables is added, so that a clique of the junction tree holds them all; they need
    not share a factor of the field. The treewidth grows by at most their number.

    Parameters
    ----------
    field
        The field, or a batch of fields; the variables belong to one graph.
    variables
        Their names or numbers; the axes of the result are in this order.
    evidence
        See `FactorGraph.given`.
    max_memory
        Most bytes that it may take; half of what is available by default.

    Returns
    -------
    Joint
        Probabilities, one axis per variable; exact.

    Raises
    ------
    TooLargeError
        Where the table or the junction tree would take more memory than it may, before anything is computed.

    Notes
    -----
    Cost as of `exact` on the field with the added factor.

    References
    ----------
    Jensen, Lauritzen and Olesen (1990), Bayesian updating in causal probabilistic networks by local computations.

    Examples
    --------
    The ends of a chain of three share no factor.

    >>> from hiddenfield.fields import ising_grid
    >>> joint(ising_grid(1, 3, 0.5), [0, 2]).probabilities
    tensor([[0.3034, 0.1966],
            [0.1966, 0.3034]], dtype=torch.float64)
    """
    check_field(field, "joint")
    numbers = field.indices_of(variables)
    _check(field, numbers, max_memory)
    here = (field if evidence is None else field.given(evidence)).detach()
    with torch.no_grad():
        if len(numbers) == 1:
            posterior = exact(here, max_memory=max_memory)
            begin, end = here.state_ptr[numbers[0] : numbers[0] + 2].tolist()
            probabilities = posterior.log_marginals[begin:end].exp()
        else:
            states = here.cardinalities[numbers].tolist()
            ones = FactorGroup(
                torch.tensor([numbers], device=here.device),
                here.log_unary.new_zeros(1, *states),
                None,
                here.counts.new_ones(1),
            )
            posterior = exact(dataclasses.replace(here, groups=(*here.groups, ones)), max_memory=max_memory)
            probabilities = posterior.factor_log_marginals[-1][0].exp()
    if float(posterior.log_partition[int(here.variable_graph[numbers[0]])]) == -math.inf:
        raise InputError(f"no joint distribution: {CONTRADICTION}")
    return Joint(tuple(numbers), probabilities, here)


def _check(field: FactorGraph, numbers: list[int], max_memory: float | None) -> None:
    """Refuse no variables, repeated ones, those of several graphs, and tables that are too large."""
    if not numbers:
        raise InputError("a joint distribution is of at least one variable, got none")
    repeated = next((v for place, v in enumerate(numbers) if v in numbers[:place]), None)
    if repeated is not None:
        raise InputError(f"variable {field.name_of(repeated)} is named twice")
    if len(set(field.variable_graph[numbers].tolist())) > 1:
        raise InputError("the variables are of several graphs, which are independent; ask for each by itself")
    size = math.prod(field.cardinalities[numbers].tolist())
    most = MOST_STATES if max_memory is None else max_memory / 8
    if size > most or len(numbers) > MOST_PORTS:
        raise TooLargeError(
            f"the joint distribution of {len(numbers)} variables has {size:,} states; at most {int(most):,} fit; "
            "ask for fewer variables, or draw samples with hiddenfield.inference.sample"
        )
