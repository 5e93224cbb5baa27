"""Layers upon layers: each learns with the states of those below frozen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.learning.em import Arrays, Run, fit_em
from hiddenfield.learning.em_checkpoint import fingerprint
from hiddenfield.models.cgmm.context import Context, Shape, States, arc_codes, distinct, see
from hiddenfield.models.cgmm.layer import ContextLayer, Seen
from hiddenfield.models.hidden_markov.emissions import Emission, Numbers
from hiddenfield.models.responsibilities import draw_rows
from hiddenfield.shapes import Array, Float, Int

Posteriors = Float[Array, "nodes states"]


@dataclass(frozen=True)
class Growth:
    """How a stack is built.

    Parameters
    ----------
    num_states
        Of every layer.
    depth
        The most layers.
    previous
        Which layers a layer sees: 1 for the one below, 2 for that below it; those that are not there are left out.
    soft
        Whether the probabilities of the states are frozen, rather than the most likely one.
    pool
        Random starts of each layer, of which the best is kept.
    patience
        Layers without a better criterion after which growth ends, and the layers since the best are taken off.
    max_iterations, tolerance
        Of the EM of each layer.
    smoothing
        What is added to every expected count of a transition.
    """

    num_states: int
    depth: int
    previous: tuple[int, ...] = (1,)
    soft: bool = False
    pool: int = 1
    patience: int = 2
    max_iterations: int = 30
    tolerance: float = 1e-4
    smoothing: float = 1e-3

    def below(self, layer: int) -> list[int]:
        """Return which layers a layer sees."""
        return [layer - back for back in self.previous if layer >= back]


@dataclass(frozen=True, eq=False)
class Stack:
    """Layers that have been learned, from the lowest.

    Parameters
    ----------
    growth
        How it was built.
    layers, parameters
        Of each layer.
    traces
        The log-likelihood plus the log prior after each turn of EM, of each layer.
    scores
        The criterion after each layer, those taken off included; empty where there was none.
    """

    growth: Growth
    layers: list[ContextLayer]
    parameters: list[Arrays]
    traces: list[list[float]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def lowest(self, depth: int) -> Stack:
        """Return a stack of so many of the layers."""
        kept = self.layers[:depth], self.parameters[:depth], self.traces[:depth]
        return Stack(self.growth, *kept, self.scores)

    def infer(
        self, structures: Structures, values: Float[Array, "nodes columns"]
    ) -> tuple[list[Posteriors], list[Float[Array, " nodes"]]]:
        """Return of each layer the probabilities of the nodes' states, and the log-likelihoods of the nodes."""
        posteriors: list[Posteriors] = []
        log_likelihoods = []
        ones = np.ones(structures.total_nodes)
        for number, (layer, parameters) in enumerate(zip(self.layers, self.parameters, strict=True)):
            data = Seen(values, self._context(structures, posteriors, number), ones)
            posterior, log_likelihood = layer.infer(data, parameters)
            posteriors.append(posterior)
            log_likelihoods.append(log_likelihood)
        return posteriors, log_likelihoods

    def _context(self, structures: Structures, posteriors: Sequence[Posteriors], layer: int) -> Context:
        return context_of(structures, posteriors, self.growth, layer)

    def sample(
        self,
        structures: Structures,
        values: Float[Array, "nodes columns"],
        generator: np.random.Generator,
    ) -> tuple[Float[Array, "nodes columns"], Int[Array, " nodes"]]:
        """Draw new values of the nodes, and their states in the last layer, given the frozen states below it."""
        posteriors, _ = self.infer(structures, values)
        last, parameters = self.layers[-1], self.parameters[-1]
        nothing = Seen(
            np.full(values.shape, np.nan),
            self._context(structures, posteriors, len(self.layers) - 1),
            np.ones(len(values)),
        )
        states = draw_rows(last.infer(nothing, parameters)[0], generator)
        drawn = np.empty_like(values)
        for emission in last.emissions:
            drawn[:, list(emission.columns)] = emission.sample(states, parameters, generator)
        return drawn, states


Criterion = Callable[[list[Posteriors]], float]
"""How good the posteriors of all layers are, the new one last; more is better."""


def frozen(posterior: Posteriors, soft: bool) -> States:
    """Return what the layers above see."""
    return posterior if soft else posterior.argmax(axis=1)


def context_of(
    structures: Structures, posteriors: Sequence[Posteriors], growth: Growth, layer: int
) -> Context:
    """Return what the nodes see in a layer."""
    below = growth.below(layer)
    if not below:
        nodes = structures.total_nodes
        shape = Shape(arc_codes(structures)[1])
        return Context(shape, np.zeros(nodes + 1, np.int64), np.zeros(0, np.int32), np.zeros(0))
    return see(structures, [(frozen(posteriors[one], growth.soft), growth.num_states) for one in below])


def grow(
    structures: Structures,
    values: Float[Array, "nodes columns"],
    emissions: Sequence[Emission],
    growth: Growth,
    *,
    criterion: Criterion | None = None,
    seed: int = 0,
    folder: Path | None = None,
    advance: Callable[..., None] | None = None,
) -> Stack:
    """Learn layer after layer.

    Each layer is started `pool` times, and the start with the best criterion is kept; without a criterion the
    one with the best likelihood.

    Parameters
    ----------
    structures
        The graphs.
    values
        Codes of symbols and numbers, of every node; NaN where missing.
    emissions
        What a state says of these columns.
    growth
        Sizes and settings.
    criterion
        What starts and depths are chosen by.
    seed
        Of the starts.
    folder
        Where runs of EM are kept, and found again.
    advance
        Called with 1 after each layer.

    Returns
    -------
    Stack
        Every layer a local maximum of its own likelihood given the layers below, as far as EM was run.
    """
    if not structures.total_nodes:
        raise InputError("the structures have no nodes; there is nothing to learn from")
    stack = Stack(growth, [], [])
    posteriors: list[Posteriors] = []
    for number in range(growth.depth):
        context = context_of(structures, posteriors, growth, number)
        layer = ContextLayer(growth.num_states, context.shape, emissions, growth.smoothing)
        data = merged(values, context, emissions)
        runs = _runs(layer, data, growth, seed + 1000 * number, folder)
        whole = Seen(values, context, np.ones(len(values)))
        found = [(run, layer.infer(whole, run.parameters)[0]) for run in runs]
        scores = [run.objective if criterion is None else criterion([*posteriors, p]) for run, p in found]
        best = int(np.argmax(scores))
        run, posterior = found[best]
        posteriors.append(posterior)
        stack.layers.append(layer)
        stack.parameters.append(run.parameters)
        stack.traces.append(run.trace)
        if advance is not None:
            advance(1)
        if criterion is None:
            continue
        stack.scores.append(scores[best])
        if len(stack.scores) - 1 - int(np.argmax(stack.scores)) >= growth.patience:
            break
    return stack.lowest(int(np.argmax(stack.scores)) + 1 if stack.scores else len(stack.layers))


def merged(values: Float[Array, "nodes columns"], context: Context, emissions: Sequence[Emission]) -> Seen:
    """Hold equal nodes once; numbers are seldom equal, and are left as they are."""
    if any(isinstance(emission, Numbers) for emission in emissions):
        return Seen(values, context, np.ones(len(values)))
    numbers, first = distinct(context, np.ascontiguousarray(values).view(np.int64))
    return Seen(values[first], context.take(first), np.bincount(numbers).astype(float))


def _runs(layer: ContextLayer, data: Seen, growth: Growth, seed: int, folder: Path | None) -> list[Run]:
    if folder is not None:
        # Whoever learns a layer from the same contexts, above whatever layers, finds what was learned there.
        same = (seed, growth.max_iterations, growth.tolerance)
        folder = folder / "-".join(f"{fingerprint(one):08x}" for one in (layer, data, same))
    with warnings.catch_warnings():
        # A layer need not converge: it is one view of the nodes among several.
        warnings.simplefilter("ignore", ConvergenceWarning)
        learned = fit_em(
            layer,
            data,
            restarts=growth.pool,
            tolerance=growth.tolerance,
            max_iterations=growth.max_iterations,
            seed=seed,
            checkpoint=folder,
        )
    return learned.runs
