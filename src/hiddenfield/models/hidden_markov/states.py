"""What the observations say of the states: expected counts, posteriors, the most likely states, and draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hiddenfield.models.hidden_markov import loops
from hiddenfield.models.hidden_markov.forest import Forest, Sequences
from hiddenfield.shapes import Array, Bool, Float, Int

LEAST_LOG = -450.0
"""A log-likelihood further below that of the best state cannot be scaled without risk."""


@dataclass(frozen=True, eq=False)
class Chain:
    """The law of the states, and the log-likelihood of each distinct observation in each of them.

    Probabilities need not be normalised.
    """

    initial: Float[Array, " states"]
    transitions: Float[Array, "states states"]
    log_likelihood: Float[Array, "rows states"]

    @property
    def logs(self) -> tuple[Float[Array, "states states"], Float[Array, " states"]]:
        """Logarithms of transitions and initial law."""
        with np.errstate(divide="ignore"):
            return np.log(self.transitions), np.log(self.initial)


@dataclass(frozen=True, eq=False)
class Counts:
    """Expected counts: first states, moves from parent to child, states by observation; log-likelihood of each tree.

    `occupancy` has a row for each distinct observation, or for each node where that was asked for.
    """

    first: Float[Array, " states"]
    moves: Float[Array, "states states"]
    occupancy: Float[Array, "rows states"]
    log_likelihood: Float[Array, " structures"]


def expected_counts(data: Sequences, chain: Chain, *, per_node: bool = False) -> Counts:
    """Return expected counts, exact up to rounding and the same for any number of threads.

    Costs O(nodes x states²). Trees that are impossible under the model have log-likelihood -inf and count for nothing.
    """
    forest, count = data.forest, len(chain.initial)
    parts, compact = len(forest.chunk_ptr) - 1, data.compact and not per_node
    place = data.place if compact else np.arange(forest.num_nodes)
    width = -(-count // loops.LANES) * loops.LANES
    moves, first = np.zeros((parts, count, width)), np.zeros((parts, width))
    occupancy = np.zeros((parts * len(data.table) if compact else forest.num_nodes, width))
    log_likelihood, (likelihood, log_scale, safe) = np.zeros(len(forest)), _scaled(chain.log_likelihood)
    loops.expected_counts(
        forest.structure_ptr,
        forest.parent,
        forest.chunk_ptr,
        data.row,
        _padded(likelihood, width),
        log_scale,
        safe,
        _padded(chain.transitions, width),
        _padded(chain.transitions.T, width),
        _padded(chain.initial[None], width)[0],
        data.tree_weights,
        place,
        np.empty((parts, (2 * forest.longest + 3) * width)),
        moves,
        occupancy,
        first,
        log_likelihood,
        work=3 * forest.num_nodes * count,
    )
    total, started = moves.sum(0)[:, :count] * chain.transitions, first.sum(0)[:count]
    occupancy = occupancy[:, :count]
    unsure = np.flatnonzero(np.isnan(log_likelihood))
    if len(unsure):
        again, own = _counts_in_log_space(data[unsure], chain)
        total, started, log_likelihood[unsure] = (
            total + again.moves,
            started + again.first,
            again.log_likelihood,
        )
        nodes = forest.take(unsure)[1]
        np.add.at(occupancy, place[nodes], own)
    if compact:
        occupancy = occupancy.reshape(parts, -1, count).sum(0)
    elif not per_node:
        occupancy = data.add_up(occupancy)
    return Counts(started, total, occupancy, log_likelihood)


def _padded(rows: Float[Array, "rows columns"], width: int) -> Float[Array, "rows width"]:
    """Return rows with zeros up to a width."""
    return np.ascontiguousarray(np.pad(rows, ((0, 0), (0, width - rows.shape[1]))))


def _scaled(
    log_likelihood: Float[Array, "rows states"],
) -> tuple[Float[Array, "rows states"], Float[Array, " rows"], Bool[Array, " rows"]]:
    """Return likelihoods divided by the largest of each row, its logarithm, and whether that is safe."""
    top = log_likelihood.max(axis=1, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    relative = log_likelihood - top[:, None]
    lost = (relative < LEAST_LOG) & (relative > -np.inf)
    return np.exp(relative), top, np.asarray(~lost.any(axis=1))


def _counts_in_log_space(data: Sequences, chain: Chain) -> tuple[Counts, Float[Array, "nodes states"]]:
    """Return counts without occupancy, and the weighted posterior of every node."""
    posterior, moves, log_likelihood = posteriors(data, chain)
    weights = data.tree_weights
    posterior *= weights[data.forest.structure_of_node][:, None]
    first = posterior[data.forest.parent < 0].sum(0)
    return Counts(first, np.einsum("n,nst->st", weights, moves), posterior[:0], log_likelihood), posterior


def posteriors(
    data: Sequences, chain: Chain
) -> tuple[
    Float[Array, "nodes states"], Float[Array, "structures states states"], Float[Array, " structures"]
]:
    """Return the posterior of every node, the expected moves and the log-likelihood of every tree, not weighted."""
    forest = data.forest
    log_transitions, log_initial = chain.logs
    below, message, log_likelihood = _log_messages(data, chain, maximum=False)
    count = len(chain.initial)
    posterior, moves = np.zeros((forest.num_nodes, count)), np.zeros((len(forest), count, count))
    given = (forest.structure_ptr, forest.parent, log_transitions, log_initial, below, message)
    loops.log_counts(*given, log_likelihood, posterior, moves, work=forest.num_nodes * count**2)
    return posterior, moves, log_likelihood


def _log_messages(data: Sequences, chain: Chain, *, maximum: bool) -> tuple[Array, Array, Array]:
    forest, count = data.forest, len(chain.initial)
    log_transitions, log_initial = chain.logs
    below = chain.log_likelihood[data.row]
    message, result = np.zeros_like(below), np.zeros(len(forest))
    given = (forest.structure_ptr, forest.parent, log_transitions, log_initial, maximum)
    loops.log_messages(*given, below, message, result, work=forest.num_nodes * count**2)
    return below, message, result


def most_likely_states(data: Sequences, chain: Chain) -> Int[Array, " nodes"]:
    """Return the jointly most likely states of every tree: Viterbi's algorithm. Of equals the first is taken."""
    return _chosen(data, chain, None)


def draw_states(data: Sequences, chain: Chain, generator: np.random.Generator) -> Int[Array, " nodes"]:
    """Draw the states of every tree from their posterior: filter in one direction, sample in the other."""
    return _chosen(data, chain, generator)


def _chosen(data: Sequences, chain: Chain, generator: np.random.Generator | None) -> Int[Array, " nodes"]:
    below, _, _ = _log_messages(data, chain, maximum=generator is None)
    return _choose_down(data.forest, chain, below, generator)


def _choose_down(
    forest: Forest, chain: Chain, below: Float[Array, "nodes states"], generator: np.random.Generator | None
) -> Int[Array, " nodes"]:
    nodes, none = forest.num_nodes, np.zeros(0, np.int64)
    uniform = np.full(nodes, -1.0) if generator is None else generator.random(nodes)
    states, children = np.zeros(nodes, np.int64), (np.zeros(nodes + 1, np.int64), none)
    given = (forest.structure_ptr, forest.parent, *children, *chain.logs, below, uniform)
    loops.choose_states(*given, states, work=below.size)
    return states


def redraw_states(
    data: Sequences, chain: Chain, states: Int[Array, " nodes"], generator: np.random.Generator
) -> Int[Array, " nodes"]:
    """Redraw one state after the other given all others, each once: a step of Gibbs sampling."""
    forest, new, below = data.forest, states.copy(), chain.log_likelihood[data.row]
    uniform = generator.random(forest.num_nodes)
    given = (forest.structure_ptr, forest.parent, *forest.children, *chain.logs, below, uniform)
    loops.choose_states(*given, new, work=below.size)
    return new


def sample_states(
    forest: Forest,
    initial: Float[Array, " states"],
    transitions: Float[Array, "states states"],
    generator: np.random.Generator,
) -> Int[Array, " nodes"]:
    """Draw states of trees of which nothing was observed."""
    nothing = np.zeros((forest.num_nodes, len(initial)))
    return _choose_down(forest, Chain(initial, transitions, nothing[:0]), nothing, generator)


def log_joint(data: Sequences, chain: Chain, states: Int[Array, " nodes"]) -> Float[Array, " structures"]:
    """Return the log probability of states and observations together, of every tree."""
    forest = data.forest
    log_transitions, log_initial = chain.logs
    moves = np.where(forest.parent < 0, log_initial[states], log_transitions[states[forest.parent], states])
    each = moves + chain.log_likelihood[data.row, states]
    return np.bincount(forest.structure_of_node, weights=each, minlength=len(forest)).astype(float)


def counts_of(
    data: Sequences, states: Int[Array, " nodes"], count: int
) -> tuple[Float[Array, " states"], Float[Array, "states states"]]:
    """Return weighted counts of given states: of first ones, and of moves from parent to child."""
    forest = data.forest
    weights = data.tree_weights[forest.structure_of_node]
    root = forest.parent < 0
    first = np.bincount(states[root], weights[root], count).astype(float)
    pairs = states[forest.parent[~root]] * count + states[~root]
    return first, np.bincount(pairs, weights[~root], count**2).astype(float).reshape(count, count)
