"""The best joint assignment that can be had in the time: the most likely one where that fits."""

from __future__ import annotations

import contextlib
import dataclasses
import math

import torch

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.gibbs import gibbs_sample
from hiddenfield.inference.posterior import MAP_METHODS, MapState
from hiddenfield.limits import OutOfTimeError, seconds_left, time_limit as limited

SHARE = 0.6
"""Part of the time that exact maximisation may take."""

DRAWS = 64
"""Assignments that are drawn, and sweeps before the first, where hard zeros exclude everything else that was found."""


@MAP_METHODS.register("auto")
def auto_map(field: FactorGraph, *, time_limit: float = 5.0, memory_limit: float | None = None) -> MapState:
    r"""Return the most likely assignment where exact maximisation fits the limits, else the best of two decodings.

    .. math:: \hat x = \arg\max_x \prod_f \Psi_f(x), \qquad \log\text{value}(\hat x) \le \max_x \le \text{upper bound}

    Where `exact` does not fit, tree-reweighted max-product and max-product each give an assignment; the one of higher
    value is returned, with the upper bound of the former, and is known to be the best where it meets the bound. Where
    hard zeros exclude both, the best of some assignments that Gibbs sampling draws.

    Parameters
    ----------
    field
        The field, or a batch of fields.
    time_limit
        Seconds.
    memory_limit
        Bytes; half of what is available by default.

    Returns
    -------
    MapState
        `guarantee` says whether it is the best; `note` which method was chosen, and why.

    Notes
    -----
    Cost: what exact maximisation costs where it fits; otherwise up to the limits.

    References
    ----------
    Dechter (1999), Bucket elimination: a unifying framework for reasoning.
    Kolmogorov (2006), Convergent tree-reweighted message passing for energy minimization.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> auto_map(ising_grid(2, 2, 1.0, 0.1)).guarantee
    'exact'
    """
    if not time_limit > 0:
        raise InputError(f"time_limit is a number of seconds above 0, got {time_limit}")
    with limited(time_limit):
        try:
            with limited(SHARE * time_limit):
                best = MAP_METHODS["exact"](field, max_memory=memory_limit)
            return dataclasses.replace(best, note="exact: chosen by auto, as it fits the limits")
        except OutOfTimeError:
            why = f"exact maximisation takes longer than {SHARE * time_limit:.2g} s"
        except TooLargeError as error:
            why = str(error).split(";")[0]
        found: list[tuple[str, MapState]] = []
        for name in ("tree_reweighted", "loopy_bp"):
            if not found or seconds_left() > 0:
                with contextlib.suppress(OutOfTimeError):
                    found.append((name, MAP_METHODS[name](field)))
        if all(bool((state.log_value == -math.inf).any()) for _, state in found):
            with contextlib.suppress(OutOfTimeError):
                found.append(("gibbs", _drawn(field)))
    if not found:
        raise OutOfTimeError(f"no assignment was found within the time limit of {time_limit:g} s; raise it")
    name, best = max(found, key=lambda each: float(each[1].log_value.sum()))
    bound = next((state.upper_bound for _, state in found if state.upper_bound is not None), None)
    note = f"{name}: chosen by auto: {why}"
    if bound is not None:
        note += f"; the best log value is at most {float(bound.sum()):.6g}"
    exact = bound is not None and bool(torch.isclose(best.log_value, bound, rtol=1e-9, atol=1e-9).all())
    guarantee = "exact" if exact else best.guarantee
    return dataclasses.replace(best, note=note, upper_bound=bound, guarantee=guarantee)


def _drawn(field: FactorGraph) -> MapState:
    """Return the best of a few drawn assignments, all of positive probability."""
    drawn = gibbs_sample(field, DRAWS, burn_in=DRAWS)
    values = field.log_value(drawn)
    best = values.argmax(0)
    assignment = drawn[best[field.variable_graph], torch.arange(field.num_variables, device=field.device)]
    return MapState(
        assignment, field.log_value(assignment), "lower bound", status="best of drawn assignments"
    )
