r"""The EM driver: infer what is hidden, re-estimate the parameters, repeat.

A model is plain functions of data and parameters (`LatentModel`); parameters and expected statistics are arrays by
name, so that statistics of parts of the data add up and parameters can be saved, whatever the model is. What is hidden,
missing values included, is filled in by one of the alternatives of `FILLS`.
"""

from __future__ import annotations

import contextvars
import math
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.errors import CollapseError, ConvergenceWarning, InputError
from hiddenfield.learning.alternation import Alternation, alternate
from hiddenfield.learning.em_checkpoint import Saved, fingerprint
from hiddenfield.learning.maximum_likelihood import maximise
from hiddenfield.learning.protocol import Arrays, Conjugate, Fill, LatentModel
from hiddenfield.learning.shards import Shards
from hiddenfield.learning.starts import SHORT_RUNS, short_runs
from hiddenfield.learning.turns import (
    CLIMBING,
    GibbsTurns,
    StepwiseTurns,
    Turn,
    Turns,
    VariationalTurns,
    add_up,
)
from hiddenfield.registry import choose
from hiddenfield.shapes import Array

__all__ = ["ACCELERATIONS", "FILLS", "Arrays", "Conjugate", "Fill", "LatentModel", "Learned", "Run", "fit_em"]

FILLS: Mapping[str, str] = {
    "expectation": "by its posterior distribution: EM, which climbs the likelihood",
    "mode": "by its most likely value: hard EM, which climbs the likelihood of the filled data",
    "sample": "by a draw from its posterior: stochastic EM",
    "variational": "by its posterior under a distribution of the parameters: variational Bayes",
    "gibbs": "by draws, of it and of the parameters in turns: a posterior sample",
}
"""How what is hidden is filled in, and what that makes of the alternation."""

ACCELERATIONS: Mapping[str, str] = {
    "squarem": "every other step leaps ahead, and is taken back where plain steps would gain more",
    "none": "plain steps",
}
"""How expectation and mode are sped up."""

DIRECT = {
    "quasi_newton": "not by turns: the objective climbs along its own slope (L-BFGS), which Fisher's identity gives"
}
"""What models can do besides whose coordinates are free of bounds and of comparable size."""

MOST_DRAWS = 1000
"""Parameters kept of the second half of each run that draws; of more turns, evenly spaced ones."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run of the alternation, from one start.

    Parameters
    ----------
    parameters
        The last ones; with "variational" and "gibbs" the posterior mean, with "sample" the mean of the second half.
    posterior
        The distribution of the parameters, with "variational"; None otherwise.
    objective
        The log-likelihood plus the log prior, or the evidence lower bound.
    trace
        The objective of every turn.
    converged
        Whether it rose by at most the tolerance per datum at the end; of draws, whether all were taken.
    status
        "converged", "sampled", or what happened instead.
    """

    parameters: Arrays
    posterior: Arrays | None
    objective: float
    trace: list[float] = field(default_factory=list)
    converged: bool = False
    status: str = ""

    @property
    def iterations(self) -> int:
        """How many turns were taken."""
        return len(self.trace)


@dataclass(frozen=True, eq=False)
class Learned:
    """What EM found: the best run, all runs, and with "gibbs" draws of the parameters from their posterior."""

    best: Run
    runs: list[Run]
    status: str
    draws: list[Arrays] = field(default_factory=list)

    @property
    def parameters(self) -> Arrays:
        """Those of the best run."""
        return self.best.parameters


def fit_em(
    model: LatentModel[Any],
    data: Any,
    *,
    fill: str = "expectation",
    start: str | Arrays = "auto",
    restarts: int = 1,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    acceleration: str = "none",
    batch_size: int | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    advance: Callable[..., None] | None = None,
) -> Learned:
    r"""Learn the parameters of a model with something hidden, by turns: infer it, then re-estimate.

    .. math::

        s \leftarrow E[s(x, z) \mid x, \theta], \qquad
        \theta \leftarrow \arg\max_\theta \log p(s \mid \theta) + \log p(\theta)

    With "expectation" every turn raises :math:`\log p(x \mid \theta) + \log p(\theta)`; a fall beyond rounding is a
    `TrainingError`, since only a mistake in the model can cause it. The same holds for "mode" and its likelihood of the
    filled data, and for "variational" and its lower bound.

    Parameters
    ----------
    model, data
        What is learned, from what: data that the model takes, or `Shards` of such, whose statistics are added up.
    fill
        One of `FILLS`.
    start
        How each run starts (on shards: by what stands for all): as the model says, or "short_runs", the best of many
        random starts after some turns; or parameters that a single run starts from.
    restarts
        Runs from different starts, side by side in threads; the best is kept.
    tolerance
        Of the rise of the objective per datum.
    max_iterations
        Turns of each run. With "sample" and "gibbs" all are taken.
    acceleration
        One of `ACCELERATIONS`; or of `DIRECT`, which a model whose parameters have no bounds may take with
        "expectation", and whose runs are not saved on the way.
    batch_size
        Data in a batch: stepwise EM, for data so many that one pass says much. A turn is then a pass, and the objective
        of the trace an estimate. None for whole passes.
    seed
        Of the starts and of what is sampled.
    checkpoint
        A folder to which each run is saved now and then (within a twentieth of the time). A run that is found there
        goes on where it was, to the same result, bit by bit; one of other data or settings is refused.
    advance
        Called with 1 after each turn, for a progress bar.

    Returns
    -------
    Learned
        A local maximum: the best of those that the starts led to. A run that collapses (a component shrinks onto few
        rows, where the likelihood has no maximum) ends, and says where; if all do, it is a `CollapseError`.
    """
    choose("fill", FILLS, fill)
    choose("acceleration", {**ACCELERATIONS, **DIRECT}, acceleration)
    if acceleration in DIRECT and (fill != "expectation" or batch_size is not None):
        acceleration = "none"
    if restarts < 1 or tolerance <= 0 or max_iterations < 1 or (batch_size is not None and batch_size < 1):
        raise InputError(
            f"restarts, max_iterations and batch_size must be at least 1 and the tolerance positive, got {restarts}, "
            f"{max_iterations}, {batch_size} and {tolerance}"
        )
    if batch_size is not None and fill not in ("expectation", "variational"):
        raise InputError(
            f"batches are for fill='expectation' and 'variational', got {fill!r}; leave batch_size out"
        )
    if fill in ("variational", "gibbs") and not isinstance(model, Conjugate):
        raise InputError(f"{type(model).__name__} has no conjugate prior, which fill={fill!r} needs")
    settings = _Settings(model, data, fill, tolerance, max_iterations, acceleration, batch_size, advance)
    if checkpoint is not None:
        settings.folder, settings.identity = Path(checkpoint), settings.identify(start, seed)
    works = []
    for number, generator in enumerate(np.random.default_rng(seed).spawn(restarts)):
        works.append(_Work(settings, number, generator, start))
    return _choose_best(side_by_side([work.run for work in works]), works, settings)


def side_by_side(works: list[Callable[[], Any]]) -> list[Any]:
    """Call functions in threads, as many at a time as there are cores; compiled code and BLAS run beside each other."""
    if len(works) == 1:
        return [works[0]()]
    with ThreadPoolExecutor(min(len(works), os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda work: contextvars.copy_context().run(work), works))


def _choose_best(runs: list[Run], works: list[_Work], settings: _Settings) -> Learned:
    best = max(runs, key=lambda run: run.objective)
    if best.objective == -math.inf:
        raise CollapseError(
            f"{best.status}{f', as in all {len(runs)} runs' if len(runs) > 1 else ''}. Try more restarts, fewer "
            "components, a simpler covariance, or a prior"
        )
    draws = [each for work in works for each in work.draws] if settings.fill == "gibbs" else []
    status = best.status
    if settings.fill not in CLIMBING:
        status += f"; R-hat of the objective {r_hat([run.trace for run in runs if run.converged]):.3g}"
    if not best.converged:
        warnings.warn(status, ConvergenceWarning, stacklevel=3)
    return Learned(best, runs, status, draws)


def r_hat(traces: list[list[float]]) -> float:
    """Return the potential scale reduction of the second halves of traces, each split in two; near 1 where mixed.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(2, 400))
    >>> round(r_hat(noise.tolist()), 2), round(r_hat((noise + [[0], [9]]).tolist()), 1)
    (1.0, 5.2)
    """
    length = len(traces[0]) // 4
    if length < 2:
        return math.nan
    parts = np.array([trace[-length * 2 :] for trace in traces]).reshape(-1, length)
    inside, between = parts.var(1, ddof=1).mean(), parts.mean(1).var(ddof=1)
    return math.sqrt((length - 1) / length + between / inside) if inside > 0 else 1.0


@dataclass(eq=False)
class _Settings:
    """What all runs share."""

    model: Any
    data: Any
    fill: str
    tolerance: float
    max_iterations: int
    acceleration: str
    batch_size: int | None
    advance: Callable[..., None] | None
    folder: Path | None = None
    identity: dict[str, Any] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    def identify(self, start: str | Arrays, seed: int) -> dict[str, Any]:
        """Return what a run that goes on must have in common with the one that was saved."""
        return {
            "model": fingerprint(self.model),
            "data": fingerprint(self.data),
            "start": start if isinstance(start, str) else fingerprint(start),
            "seed": seed,
            "fill": self.fill,
            "acceleration": self.acceleration,
            "batch_size": self.batch_size,
            "max_iterations": None if self.fill in CLIMBING else self.max_iterations,
        }

    def count(self) -> None:
        """Show that a turn has been taken."""
        if self.advance is not None:
            with self.lock:
                self.advance(1)


class _Work:
    """One run: its turns, the parameters that it draws, and where it is saved."""

    def __init__(
        self, settings: _Settings, number: int, generator: np.random.Generator, start: str | Arrays
    ) -> None:
        self.settings, self.generator, self.draws = settings, generator, list[Arrays]()
        self.saved = (
            None
            if settings.folder is None
            else Saved(settings.folder / f"run_{number}.safetensors", settings.identity)
        )
        found = None if self.saved is None else self.saved.load(generator)
        self.now: Alternation[Turn, Any]
        if found is not None:
            self.now, self.draws = found
        elif isinstance(start, str):
            # K-means changes how warnings are treated, which threads share: all runs start before the first goes on.
            first = settings.data.look() if isinstance(settings.data, Shards) else settings.data
            self.now = Alternation(Turn(self._start(first, start)))
        else:
            self.now = Alternation(Turn(start))

    def _start(self, data: Any, how: str) -> Arrays:
        """Return parameters to start from; draws start apart from each other."""
        model, climbs = self.settings.model, self.settings.fill in CLIMBING
        if how == SHORT_RUNS or (how == "auto" and climbs and getattr(model, "many_maxima", False)):
            return short_runs(model, data, self.generator)
        return model.start(data, how, self.generator)

    def run(self) -> Run:
        """Take turns until it ends."""
        settings = self.settings
        tolerance, most = settings.tolerance, settings.max_iterations
        try:
            if settings.acceleration in DIRECT:
                return self._climb()
            turns = self._turns()
            end = alternate(
                turns, settings.data, self.now, tolerance=tolerance, max_iterations=most, after=self._after
            )
            self.now = end
            if self.saved is not None:
                self.saved.save(end, self.draws, self.generator)
            return self._end(turns, end)
        except CollapseError as error:
            known = self.now.parameters.known or self.now.parameters.parameters
            return Run(known, None, -math.inf, self.now.scores, False, self._describe(error, known))

    def _climb(self) -> Run:
        """Climb the objective by its own slope; the trace has the best values so far."""
        settings, begin = self.settings, self.now.parameters.parameters
        model, trace = settings.model, self.now.scores

        class Observed:
            def batch(self, rows: Array) -> tuple[Array, Array]:
                values, slopes = [], []
                for row in rows:
                    given = model.from_vector(row, begin)
                    found = add_up(model, settings.data, given, Fill())
                    values.append(float(found["objective"]) + model.log_prior(given))
                    slopes.append(model.gradient(found, given))
                    if not trace or values[-1] > trace[-1]:
                        trace.append(values[-1])
                        settings.count()
                return np.array(values), np.array(slopes)

        limits: dict[str, Any] = {"tolerance": settings.tolerance, "max_iterations": settings.max_iterations}
        limits["bound"] = math.inf  # weights of near certainty are large
        end = maximise(Observed(), model.as_vector(begin), **limits)
        status = "converged" if end.converged else f"{end.status}; raise max_iterations or the penalty"
        return Run(model.from_vector(end.parameters, begin), None, end.value, trace, end.converged, status)

    def _turns(self) -> Turns:
        settings = self.settings
        model, fill = settings.model, settings.fill
        if settings.batch_size is not None:
            return StepwiseTurns(model, Fill(fill, self.generator), batch_size=settings.batch_size)
        if fill == "variational":
            if not self.now.scores:
                first = add_up(model, settings.data, self.now.parameters.parameters, Fill())
                self.now = Alternation(Turn(model.posterior(first)))
            return VariationalTurns(model, Fill("variational"))
        if fill == "gibbs":
            return GibbsTurns(model, Fill("sample", self.generator))
        return Turns(
            model, Fill(fill, self.generator), settings.acceleration == "squarem" and fill in CLIMBING
        )

    def _after(self, now: Alternation[Turn, Any]) -> None:
        """Keep what was drawn, save, and show that a turn has been taken."""
        self.now, settings, done = now, self.settings, len(now.scores)
        if settings.fill in ("sample", "gibbs"):
            half = settings.max_iterations // 2
            most = getattr(settings.model, "most_draws", MOST_DRAWS)
            stride = max(1, -(-(settings.max_iterations - half) // most))
            if done > half and (done - half) % stride == 0:
                self.draws.append(self._kept(now.parameters.parameters))
        if self.saved is not None:
            self.saved.save_sometimes(now, self.draws, self.generator)
        settings.count()

    def _kept(self, arrays: Arrays) -> Arrays:
        """Leave out what a model carries from turn to turn."""
        return {n: v for n, v in arrays.items() if n not in getattr(self.settings.model, "carried", ())}

    def _end(self, turns: Turns, end: Alternation[Turn, Any]) -> Run:
        """Return the run with what its fill makes of the last turns."""
        model, data, state = self.settings.model, self.settings.data, end.parameters
        assert state.known is not None
        known, scores = self._kept(state.known), end.scores
        if self.settings.fill in ("sample", "gibbs"):
            mean = {name: np.mean([each[name] for each in self.draws], axis=0) for name in known}
            objective = float(add_up(model, data, mean, Fill())["objective"]) + model.log_prior(mean)
            return Run(mean, None, objective, scores, True, "sampled")
        status = "converged"
        if not end.converged:
            status = f"not converged after {len(scores):,} turns; raise max_iterations or the tolerance"
        objective = state.objective
        if self.settings.fill == "variational":
            if isinstance(turns, StepwiseTurns):
                objective = VariationalTurns(model, Fill("variational")).statistics(data, known)[1]
            return Run(model.mean(known), known, objective, scores, end.converged, status)
        if isinstance(turns, StepwiseTurns):
            objective = float(add_up(model, data, known, Fill())["objective"]) + model.log_prior(known)
        return Run(known, None, objective, scores, end.converged, status)

    def _describe(self, error: CollapseError, known: Arrays) -> str:
        """Say onto which rows a component has collapsed."""
        model, data, fill = self.settings.model, self.settings.data, self.settings.fill
        component = error.component
        if (
            component is None
            or isinstance(data, Shards)
            or fill == "variational"
            or not hasattr(model, "members")
        ):
            return str(error)
        rows = model.members(data, known, component).tolist()
        if not rows:
            return str(error)
        first = ", ".join(str(row) for row in rows[:5])
        more = f" and {len(rows) - 5:,} more" if len(rows) > 5 else ""
        return f"{error}, on {'row' if len(rows) == 1 else 'rows'} {first}{more}"
