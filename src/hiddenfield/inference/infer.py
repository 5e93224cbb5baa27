"""One entry for every algorithm: `infer`, `log_partition`, `map_state`, `log_likelihood`."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import math
import numbers
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.fields.build import refuse_transforms
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.hard_zeros import IMPOSSIBLE, feasible_assignments, live_states
from hiddenfield.inference.messages.phases import has_poles, with_phases
from hiddenfield.inference.posterior import MAP_METHODS, METHODS, MapState, Posterior, check_field
from hiddenfield.registry import choose
from hiddenfield.shapes import Bool, Float, Int, Tensor

KINDS: dict[str, tuple[Any, str]] = {
    "bool": (bool, "true or false"),
    "int": (numbers.Integral, "a whole number"),
    "float": (numbers.Real, "a number"),
    "str": (str, "a name"),
    "None": (type(None), "None"),
}
SEVERAL = ("Sequence[", "list[", "tuple[", "Mapping[", "dict[")
PLAIN = (bool, numbers.Number, str, list, tuple, dict, type(None))


def infer(
    field: FactorGraph,
    method: str | Callable[..., Posterior] = "auto",
    *,
    evidence: Mapping[Any, Any] | Tensor | None = None,
    unroll: bool = False,
    **options: Any,
) -> Posterior:
    r"""Run an algorithm on a field and return its `Posterior`.

    Gradients: where a potential requires one, `log_partition` carries it,
    :math:`\partial \log Z / \partial \log\Psi_f = N_f b_f`, the marginals themselves. That is exact for exact inference
    and, by the envelope theorem, at a fixed point of Bethe's, the tree-reweighted and the mean-field free energy. Where
    the log partition is exact it has derivatives of any order; elsewhere a second one is refused without
    ``unroll=True``, which differentiates through every iteration instead. The marginals carry gradients only with it.

    Parameters
    ----------
    field
        The field, or a batch of fields.
    method
        A name from `METHODS`, or a function ``(field, **options) -> Posterior``.
    evidence
        See `FactorGraph.given`.
    unroll
        Differentiate through the iterations (the torch back end; memory grows with their number), for the algorithms
        that can (``METHODS.facts(name)["unrolls"]``).
    options
        Of the algorithm: see the function of its name.

    Returns
    -------
    Posterior
        Marginals, the log partition of each graph, and what both are worth: `guarantee`, `status`, `converged`,
        `residual`.

    Warns
    -----
    ConvergenceWarning
        Where an iteration did not settle; the posterior's `status` says what to try.

    Notes
    -----
    Costs what the algorithm does; evidence one vector, the gradient as much as the beliefs.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> posterior = infer(ising_grid(3, 3, 0.5), "exact", evidence={0: 1})
    >>> posterior
    Posterior(exact: log partition 7.19838 (exact); converged; 1 iterations)
    >>> posterior.marginals[4]
    tensor([0.2616, 0.7384], dtype=torch.float64)
    """
    check_field(field, "infer")
    if not (callable(method) or isinstance(method, str)):
        raise InputError(
            f"method is a name or a function, got {type(method).__name__}; evidence goes by name: evidence=..."
        )
    run = method if callable(method) else METHODS.choose(method)
    if not callable(method):
        check_options(method, run, options)
    refuse_transforms([field.log_unary, *(group.log_tables for group in field.groups)])
    here = field if evidence is None else field.given(evidence)
    differentiable = here.requires_grad and torch.is_grad_enabled() and not unroll
    if differentiable:
        options.pop("marginals", None)  # they are the gradient
    start = time.perf_counter()
    if unroll:
        _check_unroll(method, options)
        posterior = run(here, **{**options, "backend": "torch"})
    else:
        with torch.no_grad():
            posterior = run(here.detach(), **options)
            if method == "loopy_bp" and options.get("temperature", 1) == 1 and has_poles(posterior.field):
                posterior = with_phases(posterior)
    seconds = time.perf_counter() - start
    posterior = _confirmed(dataclasses.replace(posterior, field=here, seconds=seconds))
    if differentiable:
        posterior = dataclasses.replace(posterior, log_partition=with_gradient(posterior, here))
    if not bool(posterior.converged.all()):
        warnings.warn(f"{posterior.method}: {posterior.status}", ConvergenceWarning, stacklevel=2)
    return posterior


def log_partition(
    field: FactorGraph, method: str | Callable[..., Posterior] = "auto", **options: Any
) -> Float[Tensor, " graphs"]:
    r"""Return the log partition :math:`\log \sum_x \prod_f \Psi_f(x)` of each graph by an algorithm.

    Its gradient is the marginals; what it is worth is the algorithm's guarantee: see `infer`, which has the options.
    Exact inference without a gradient passes messages to the root alone, at less than half the cost of marginals.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> log_partition(ising_grid(1, 2, 0.5))  # log(2 e^0.5 + 2 e^-0.5)
    tensor([1.5063], dtype=torch.float64)
    """
    return infer(field, method, **{**log_partition_alone(method), **options}).log_partition


def log_partition_alone(method: str | Callable[..., Posterior]) -> dict[str, bool]:
    """Return the options by which a method leaves out what a log partition does not need.

    Examples
    --------
    >>> log_partition_alone("exact"), log_partition_alone("loopy_bp")
    ({'marginals': False}, {})
    """
    known = _options_of(METHODS.choose(method)) if isinstance(method, str) else {}
    return {"marginals": False} if "marginals" in known else {}


def log_likelihood(
    field: FactorGraph,
    assignment: Int[Tensor, "*batch variables"],
    method: str | Callable[..., Posterior] = "auto",
    **options: Any,
) -> Float[Tensor, "*batch graphs"]:
    r"""Return :math:`\log p(x) = \log \text{value}(x) - \log Z`, graph by graph, with its gradient.

    The gradient with respect to a log potential is *observed minus expected*: 1 where the assignment is, minus the
    marginal. The block that conditional random fields are made of. Exact with ``method="exact"``; with another method
    it is as good as that method's log partition. `assignment` holds a state for each variable of all graphs, leading
    axes are further assignments; the log partition is computed once for all of them.

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.fields import ising_grid
    >>> states = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> log_likelihood(ising_grid(1, 2, 0.5), states).exp()[:, 0]
    tensor([0.3655, 0.1345, 0.1345, 0.3655], dtype=torch.float64)
    """
    check_field(field, "log_likelihood")
    return field.log_value(assignment) - log_partition(field, method, **options)


def map_state(
    field: FactorGraph,
    method: str = "auto",
    *,
    evidence: Mapping[Any, Any] | Tensor | None = None,
    **options: Any,
) -> MapState:
    r"""Return the most likely joint assignment :math:`\arg\max_x \prod_f \Psi_f(x)` by an algorithm.

    Parameters
    ----------
    field
        The field, or a batch of fields.
    method
        "auto" ("exact" where that fits its time and memory limits, else the best that a search finds in the time, with
        an upper bound), "exact" (the best one), "loopy_bp" (max-product: exact on a forest, elsewhere a good one) or
        "tree_reweighted" (with an upper bound on the best value, and a certificate where it is met).
    evidence
        See `FactorGraph.given`.
    options
        Of the algorithm: see the function of its name.

    Returns
    -------
    MapState
        A state for each variable, the log value of each graph, and whether it is the best: `guarantee`, or by how much
        it may miss the best value: `gap`.

    Warns
    -----
    ConvergenceWarning
        Where no assignment of positive probability was found although there may be one.

    Notes
    -----
    Costs what the algorithm's marginals do.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> best = map_state(ising_grid(2, 2, 1.0, 0.1))
    >>> best.assignment, best.log_value, best.guarantee
    (tensor([1, 1, 1, 1]), tensor([4.4000], dtype=torch.float64), 'exact')
    """
    check_field(field, "map_state")
    run = MAP_METHODS.choose(method)
    # What passes its options on has those of the method that finds marginals.
    passes_on = "options" in inspect.signature(run).parameters
    check_options(method, METHODS[method] if passes_on else run, options)
    here = field if evidence is None else field.given(evidence)
    with torch.no_grad():
        best = dataclasses.replace(run(here.detach(), **options), field=here)
    if best.guarantee != "exact" and bool((best.log_value == -math.inf).any()):
        warnings.warn(f"{method}: {best.status}", ConvergenceWarning, stacklevel=2)
    return best


def check_options(name: str, run: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse options that an algorithm does not have, and plain values of another type than it states.

    Examples
    --------
    >>> from hiddenfield.inference import loopy_bp
    >>> check_options("loopy_bp", loopy_bp, {"damping": 0.5})
    >>> check_options("loopy_bp", loopy_bp, {"max_iterations": "many"})
    Traceback (most recent call last):
    hiddenfield.errors.InputError: loopy_bp: max_iterations must be a whole number, got 'many'
    """
    known = _options_of(run)
    for option, value in options.items():
        if option not in known:
            _check_owner(name, known, option)
        annotation = choose(f"option of {name}", known, option)
        parts = [part.strip() for part in annotation.split("|")]
        stated = [KINDS[part] for part in parts if part in KINDS]
        # Python takes a bool for a number.
        fits = (
            "bool" in parts if isinstance(value, bool) else any(isinstance(value, kind) for kind, _ in stated)
        )
        # The algorithm looks into lists and the like itself.
        several = isinstance(value, (list, tuple, dict)) and any(part.startswith(SEVERAL) for part in parts)
        if fits or several or not isinstance(value, PLAIN):
            continue
        words = [text for kind, text in stated if kind is not type(None)] or ["given in Python"]
        raise InputError(f"{name}: {option} must be {' or '.join(words)}, got {value!r}")


def _check_owner(name: str, known: Mapping[str, str], option: str) -> None:
    """Say which methods have an option that this one does not have, or one that is spelt much like it."""
    if difflib.get_close_matches(option, known, n=1):
        return  # a misspelt option of this method
    owners = {other: _options_of(METHODS[other]) for other in METHODS}
    close = difflib.get_close_matches(
        option, {each for own in owners.values() for each in own}, n=1, cutoff=0.75
    )
    if not close:
        return
    having = [other for other, own in owners.items() if close[0] in own and other != name]
    having.sort(key=lambda other: other != "loopy_bp")  # the plainest first
    if having:
        hint = "" if close[0] == option else f" (did you mean {close[0]!r}?)"
        raise InputError(
            f"unknown option of {name} {option!r}{hint}: {close[0]} is an option of {', '.join(having)}; "
            f"name the method, as in method={having[0]!r}"
        )


@functools.lru_cache(maxsize=64)
def _options_of(run: Callable[..., Any]) -> dict[str, str]:
    """Return the names of an algorithm's options and how they are annotated."""
    return {
        key: str(parameter.annotation)
        for key, parameter in inspect.signature(run).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def _check_unroll(method: str | Callable[..., Posterior], options: Mapping[str, Any]) -> None:
    if not callable(method) and not METHODS.facts(method).get("unrolls"):
        known = ", ".join(name for name in METHODS if METHODS.facts(name).get("unrolls"))
        raise InputError(
            f"unroll=True differentiates through {known}, not {method}; without it the log partition has its gradient "
            "all the same"
        )
    if options.get("backend", "auto") == "numba":
        raise InputError("unroll=True runs in torch: leave out backend='numba'")


def _confirmed(posterior: Posterior) -> Posterior:
    """Let only a proof say that nothing is possible: an estimate of -inf is confirmed, or is none.

    Exact inference proves it, an upper bound does, and a lower bound of -inf claims nothing. What an approximation says
    is checked by propagation of hard zeros and search; unless they prove it too, its log partition becomes NaN.
    """
    field, status = posterior.field, posterior.status
    none = posterior.log_partition.detach() == -math.inf
    if not bool(none.any()) or posterior.guarantee == "lower bound":
        return posterior
    doubtful = torch.zeros_like(none)
    if posterior.guarantee == "estimate":
        doubtful = none & ~_proved_impossible(field).to(none.device)
    if bool(doubtful.any()):
        value = torch.where(doubtful, math.nan, posterior.log_partition)
        if status.startswith(("converged", "contradiction")):
            status = (
                f"broke down{_place(field, doubtful)}: the approximation leaves no assignment possible, of which there "
                "is no proof, so that its log partition and marginals say nothing; try method 'auto' or 'gibbs'"
            )
        converged = posterior.converged & ~doubtful
        return dataclasses.replace(posterior, log_partition=value, converged=converged, status=status)
    if status == "converged":
        status = (
            f"converged: no assignment{_place(field, none, ' of')} has positive probability; look at the evidence and "
            "the hard zeros"
        )
    return dataclasses.replace(posterior, status=status).without(none)


def _proved_impossible(field: FactorGraph) -> Bool[Tensor, " graphs"]:
    """Tell for each graph whether propagation of hard zeros, or search, proves that no assignment is possible."""
    here = field.detach().to("cpu", torch.float64)
    alive = torch.zeros(here.num_variables, dtype=torch.bool)
    alive[here.state_variable[torch.from_numpy(live_states(here))]] = True
    proved = torch.zeros(here.num_graphs, dtype=torch.bool)
    proved[here.variable_graph[~alive]] = True
    return proved | (feasible_assignments(here)[1] == IMPOSSIBLE)


def _place(field: FactorGraph, which: Bool[Tensor, " graphs"], word: str = " in") -> str:
    return "" if field.num_graphs == 1 else f"{word} graph {int(which.nonzero()[0])}"


def with_gradient(posterior: Posterior, field: FactorGraph) -> Float[Tensor, " graphs"]:
    """Return the posterior's log partition as a function of the field's potentials: its gradient is the marginals."""
    tables = [group.log_tables for group in field.groups]
    result: Tensor = _Envelope.apply(posterior, field.log_unary, *tables)
    return result


class _Envelope(torch.autograd.Function):
    """The log partition with the marginals for its gradient.

    Where they are exact, the gradient is differentiable in its turn, through exact inference in torch. Elsewhere the
    envelope theorem ends there, and a second derivative is refused.
    """

    @staticmethod
    def forward(ctx: Any, posterior: Posterior, *potentials: Tensor) -> Tensor:
        ctx.posterior = posterior
        ctx.save_for_backward(*potentials)
        return posterior.log_partition.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        posterior: Posterior = ctx.posterior
        again, potentials = torch.is_grad_enabled(), ctx.saved_tensors
        if again and posterior.guarantee == "exact" and posterior.field.is_ground:
            return None, *_exact_gradient(posterior.field, potentials, gradient)
        field = posterior.field
        by_variable = field.counts * gradient[field.variable_graph]
        parts: list[Tensor] = [posterior.log_marginals.exp() * by_variable[field.state_variable]]
        for group, belief in zip(field.groups, posterior.factor_marginals, strict=True):
            weight = group.count * gradient[field.variable_graph[group.scopes[:, 0]]]
            each = belief * weight.reshape(-1, *(1,) * group.arity)
            if group.table is not None:
                each = torch.zeros_like(group.log_tables).index_add(0, group.table, each)
            parts.append(each)
        if again:
            return None, *_Once.apply(posterior.method, len(parts), *parts, *potentials)
        return None, *parts


def _exact_gradient(
    field: FactorGraph, potentials: tuple[Tensor, ...], gradient: Float[Tensor, " graphs"]
) -> tuple[Tensor, ...]:
    """Return the gradient by exact inference in torch, itself differentiable in potentials and incoming gradient."""
    with torch.enable_grad():
        inner = [each if each.requires_grad else each.detach().requires_grad_() for each in potentials]
        own = field.with_potentials(inner[0], inner[1:])
        value = METHODS["exact"](own, backend="torch", marginals=False).log_partition
        found = torch.autograd.grad(value, inner, gradient, create_graph=True, allow_unused=True)
    return tuple(
        torch.zeros_like(each) if part is None else part for each, part in zip(inner, found, strict=True)
    )


class _Once(torch.autograd.Function):
    """Gradients that cannot be differentiated again."""

    @staticmethod
    def forward(ctx: Any, method: str, number: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.method = method
        return tuple(each.clone() for each in tensors[:number])

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        unrolls = ctx.method in METHODS and METHODS.facts(ctx.method).get("unrolls")
        remedy = "unroll=True, which differentiates through the iterations, or " if unrolls else ""
        raise InputError(
            f"second derivatives of the log partition by {ctx.method} are not those of its marginals: give "
            f"{remedy}method 'exact', which has derivatives of any order"
        )
