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
from hiddenfield.models.cgmm.context import Context, States, see
from hiddenfield.models.cgmm.layer import ContextLayer, Seen
from hiddenfield.models.hidden_markov.emissions import Emission, Numbers
from hiddenfield.models.responsibilities import draw_rows
from hiddenfield.shapes import Array, Float, Int


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

    def context(self, structures: Structures, below: Sequence[States]) -> Context:
        """Return what the nodes see of the layers below, as far as the next layer looks."""
        return see(
            structures, [(below[-back], self.num_states) for back in self.previous if back <= len(below)]
        )


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
    ) -> tuple[list[States], list[Float[Array, " nodes"]]]:
        """Return the frozen states of every layer, and in each the log-likelihoods of the nodes."""
        states, log_likelihoods = list[States](), []
        for number in range(len(self.layers)):
            own, log_likelihood = self._infer(structures, values, states, number, self.growth.soft)
            states.append(own)
            log_likelihoods.append(log_likelihood)
        return states, log_likelihoods

    def posterior(
        self,
        structures: Structures,
        values: Float[Array, "nodes columns"],
        layer: int,
        *,
        blind: bool = False,
    ) -> Float[Array, "nodes states"]:
        """Return the probabilities of the nodes' states in a layer; `blind`, those before their values are seen."""
        below, _ = self.lowest(layer).infer(structures, values)
        shown = np.full(values.shape, np.nan) if blind else values
        return self._infer(structures, shown, below, layer, True)[0]

    def _infer(
        self, structures: Structures, values: Array, below: Sequence[States], number: int, soft: bool
    ) -> tuple[States, Array]:
        data = Seen(values, self.growth.context(structures, below), np.ones(len(values)))
        return self.layers[number].infer(data, self.parameters[number], soft=soft)

    def sample(
        self,
        structures: Structures,
        values: Float[Array, "nodes columns"],
        generator: np.random.Generator,
    ) -> tuple[Float[Array, "nodes columns"], Int[Array, " nodes"]]:
        """Draw new values of the nodes, and their states in the last layer, given the frozen states below it."""
        last, parameters = self.layers[-1], self.parameters[-1]
        states = draw_rows(self.posterior(structures, values, len(self.layers) - 1, blind=True), generator)
        drawn = np.empty_like(values)
        for emission in last.emissions:
            drawn[:, list(emission.columns)] = emission.sample(states, parameters, generator)
        return drawn, states


Criterion = Callable[[list[States]], float]
"""How good the states of all layers are, the new one last; more is better."""


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
    stack, states = Stack(growth, [], []), list[States]()
    for number in range(growth.depth):
        whole = Seen(values, growth.context(structures, states), np.ones(len(values)))
        layer = ContextLayer(growth.num_states, whole.context.shape, emissions, growth.smoothing)
        # Numbers are seldom equal.
        numbers = any(isinstance(emission, Numbers) for emission in emissions)
        runs = _runs(layer, whole if numbers else whole.merged(), growth, seed + 1000 * number, folder)
        best: tuple[float, Run, States] | None = None
        for run in runs:
            own, _ = layer.infer(whole, run.parameters, soft=growth.soft)
            score = run.objective if criterion is None else criterion([*states, own])
            if best is None or score > best[0]:
                best = score, run, own
        assert best is not None
        score, run, own = best
        states.append(own)
        stack.layers.append(layer)
        stack.parameters.append(run.parameters)
        stack.traces.append(run.trace)
        if advance is not None:
            advance(1)
        if criterion is None:
            continue
        stack.scores.append(score)
        if len(stack.scores) - 1 - int(np.argmax(stack.scores)) >= growth.patience:
            break
    return stack.lowest(int(np.argmax(stack.scores)) + 1 if stack.scores else len(stack.layers))


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
