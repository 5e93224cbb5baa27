r"""Hidden Markov models of sequences and trees, as EM, variational Bayes and Gibbs sampling learn them.

.. math::

    p(x, z) = \prod_{\text{root } r} \pi(z_r) \prod_{\text{other } i} A(z_{p(i)}, z_i) \prod_i p(x_i \mid z_i)

with p(i) the parent of node i: in a sequence the step before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hiddenfield.data.rows import Rows
from hiddenfield.errors import InputError, TrainingError
from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.learning.starts import STARTS
from hiddenfield.models import dirichlet
from hiddenfield.models.dirichlet import Probabilities
from hiddenfield.models.hidden_markov import states
from hiddenfield.models.hidden_markov.emissions import (
    Emission,
    Events,
    Numbers,
    Symbols,
    fill_cells,
    group_cells,
    sample_cells,
)
from hiddenfield.models.hidden_markov.forest import Forest, Sequences
from hiddenfield.models.hidden_markov.states import Chain
from hiddenfield.models.hidden_markov.stationary import stationary_law, tied_slope, tied_transitions
from hiddenfield.models.parts import Composed, Part
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Bool, Float, Int

STEP = 1e-5
"""Of differences of the logarithms of parameters."""
SEGMENTS = "segments"
"""The start at which every tree is cut into as many pieces as there are states, by depth."""


@dataclass(frozen=True, eq=False)
class HiddenMarkov(Composed):
    r"""States with emissions: the model that `fit_em` learns from `Sequences`.

    Parameters are ``initial`` (K,), ``transitions`` (K, K), and those of the emissions.

    Parameters
    ----------
    emissions
        What a state emits, a block of columns each.
    allowed
        Which transitions there are; the others are 0 for good.
    allowed_initial
        Which states may be first.
    initial
        The initial law, where it is fixed; "free", or "stationary" where it is tied to the transitions.
    concentration
        Of the Dirichlet prior of transitions and initial law; 1 for none.
    one_at_a_time
        Whether draws of the states change one after the other, given all others, instead of all at once. Parameters
        and statistics then carry the ``states`` from turn to turn.

    References
    ----------
    Baum, Petrie, Soules and Weiss (1970); Rabiner (1989), A tutorial on hidden Markov models; Crouse, Nowak and
    Baraniuk (1998) on trees; Scott (2002) on sampling; MacKay (1997) on variational Bayes.
    """

    emissions: Sequence[Emission]
    allowed: Bool[Array, "states states"]
    allowed_initial: Bool[Array, " states"]
    initial: str | Float[Array, " states"] = "free"
    concentration: float = 1.0
    one_at_a_time: bool = False
    many_maxima: ClassVar[bool] = True
    """One start is rarely enough: "auto" is the best of many after some turns."""

    @property
    def num_states(self) -> int:
        """K."""
        return len(self.allowed)

    @property
    def _free_initial(self) -> bool:
        return isinstance(self.initial, str) and self.initial == "free"

    @property
    def _tied(self) -> bool:
        return isinstance(self.initial, str) and self.initial == "stationary"

    @property
    def parts(self) -> tuple[Part, ...]:
        """The law of the states, where it is learned, and the emissions."""
        laws = [Probabilities("transitions", self.concentration, self.allowed)]
        if self._free_initial:
            laws.append(Probabilities("initial", self.concentration, self.allowed_initial))
        return *laws, *self.emissions

    # -- starting ------------------------------------------------------------------------------------------

    def start(self, data: Sequences, how: str, generator: np.random.Generator) -> Arrays:
        """Return the parameters of grouped observations.

        "k_means", "k_means++" and "random" group them by nearness, "segments" by depth in their tree; "auto" is
        "segments" where transitions are restricted and "k_means" elsewhere. Where there are no numbers to tell
        observations apart, groups are drawn. With "random" a state stays with a probability drawn from 0.5 to 1 and
        goes on with random ones, and its rates of counts are those of a random row of its group: such starts lie
        further apart, and lead to better maxima where many are tried.
        """
        choose("start", {**STARTS, SEGMENTS: "by depth"}, how)
        weights = data.tree_weights[data.forest.structure_of_node]
        if how == SEGMENTS or (how == "auto" and not self.allowed.all()):
            group = self._segments(data.forest)
        else:
            each = np.bincount(data.row, weights, len(data.table))
            columns = data.table.columns
            group = group_cells(data.rows, columns, each, self.num_states, how, generator)[data.row]
        owners = np.zeros((len(data.table), self.num_states))
        np.add.at(owners, (data.row, group), weights)
        if all(isinstance(emission, Symbols) for emission in self.emissions):
            owners = owners.sum(1, keepdims=True) * generator.dirichlet(np.ones(self.num_states), len(owners))
        first, moves = states.counts_of(data, group, self.num_states)
        moves, single = moves + 0.5 * moves.sum(1, keepdims=True) / self.num_states + 1, owners
        if how == "random":
            stay = generator.uniform(0.5, 1, (self.num_states, 1))
            moves = stay * np.eye(self.num_states) + (1 - stay) * generator.dirichlet(
                np.ones(len(first)), len(first)
            )
            drawn = owners * generator.random(owners.shape)
            single = np.where(drawn == drawn.max(0), owners, 0.0)
        found: Arrays = {}
        for emission in self.emissions:
            own = single if isinstance(emission, Events) else owners
            found |= emission.start(data.rows.block(emission.columns), own, generator)
        found["transitions"] = dirichlet.mean(moves * self.allowed)
        found["initial"] = dirichlet.mean(((first + 1) * self.allowed_initial)[None])[0]
        return self.with_initial(found)

    def _segments(self, forest: Forest) -> Int[Array, " nodes"]:
        depth = forest.depth
        deepest = np.zeros(len(forest), np.int64)
        np.maximum.at(deepest, forest.structure_of_node, depth)
        return depth * self.num_states // (deepest[forest.structure_of_node] + 1)

    def with_initial(self, parameters: Arrays) -> Arrays:
        """Set an initial law that is not free."""
        if self._tied:
            return parameters | {"initial": stationary_law(parameters["transitions"])}
        return parameters if self._free_initial else parameters | {"initial": np.asarray(self.initial, float)}

    # -- the E step ----------------------------------------------------------------------------------------

    def chain(self, data: Sequences, parameters: Arrays, *, mode: bool = False) -> Chain:
        """Return the law of the states and the log-likelihood of each distinct observation."""
        total = np.zeros((len(data.table), self.num_states))
        for emission in self.emissions:
            total += emission.log_density(data.rows.block(emission.columns), parameters, mode=mode)
        return Chain(parameters["initial"], parameters["transitions"], total)

    def expected_statistics(self, data: Sequences, parameters: Arrays, fill: Fill) -> Arrays:
        """Return expected counts of first states and of moves, and the statistics of the emissions.

        With "mode" the states and the missing symbols are the jointly most likely ones, with "sample" states are drawn.
        Given the states, missing numbers and the components of mixtures are filled in by expectation, with "sample" by
        draws; missing counts, and but for "mode" missing symbols, have no part in the statistics.
        """
        chain = self.chain(data, parameters, mode=fill.kind == "mode")
        if fill.kind != "expectation":
            return self._filled(data, chain, parameters, fill)
        counts = states.expected_counts(data, chain)
        self._refuse_impossible(counts.log_likelihood, data)
        found = self._total(data, counts.log_likelihood)
        found |= {"initial": counts.first, "transitions": counts.moves}
        for emission in self.emissions:
            found |= emission.statistics(
                data.rows.block(emission.columns), counts.occupancy, parameters, fill
            )
        return found

    def _filled(self, data: Sequences, chain: Chain, parameters: Arrays, fill: Fill) -> Arrays:
        """Return the statistics of the states as they are filled in."""
        chosen = self._chosen(data, chain, parameters, fill)
        log_joint = states.log_joint(data, chain, chosen)
        self._refuse_impossible(log_joint, data)
        found = self._total(data, log_joint)
        found["initial"], found["transitions"] = states.counts_of(data, chosen, self.num_states)
        weights = data.tree_weights[data.forest.structure_of_node]
        owners = np.zeros((data.forest.num_nodes, self.num_states))
        owners[np.arange(len(owners)), chosen] = weights
        if fill.kind == "mode":
            owners = data.add_up(owners)
        for emission in self.emissions:
            rows = data.rows.block(emission.columns)
            rows = Rows(rows.values[data.row]) if fill.kind == "sample" else rows
            found |= emission.statistics(rows, owners, parameters, fill)
        return found | ({"states": chosen} if self.one_at_a_time and fill.kind == "sample" else {})

    def _chosen(self, data: Sequences, chain: Chain, parameters: Arrays, fill: Fill) -> Int[Array, " nodes"]:
        if fill.kind == "mode":
            return states.most_likely_states(data, chain)
        assert fill.generator is not None
        if not self.one_at_a_time:
            return states.draw_states(data, chain, fill.generator)
        before = parameters.get("states")
        if before is None:
            law = (chain.initial / chain.initial.sum(), dirichlet.mean(chain.transitions))
            before = states.sample_states(data.forest, *law, fill.generator)
        return states.redraw_states(data, chain, before.astype(np.int64), fill.generator)

    def _total(self, data: Sequences, values: Float[Array, " structures"]) -> Arrays:
        weights = data.tree_weights
        return {"objective": np.asarray(weights @ values), "count": np.asarray(weights.sum())}

    def _refuse_impossible(self, values: Float[Array, " structures"], data: Sequences) -> None:
        """Raise where a tree that counts has probability 0: by zeros of the model that the data contradict."""
        bad = np.flatnonzero(~np.isfinite(values) & (data.tree_weights > 0))
        if len(bad):
            raise TrainingError(
                f"sequence {bad[0]} is impossible under the model: its zeros (of transitions, initial law or symbols) "
                "contradict what was observed; allow more, start from other parameters, or set concentration above 1"
            )

    # -- the M step ----------------------------------------------------------------------------------------

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return shares of counts, and the best emissions; a tied initial law needs a climb, see `tied_transitions`."""
        found = super().maximize(statistics, parameters)
        if self._tied:
            counts, before = statistics["transitions"], parameters["transitions"]
            smoothed = np.where(self.allowed, np.maximum(counts + self.concentration - 1, 0), 0.0)
            found["transitions"] = tied_transitions(statistics["initial"], smoothed, before, self.allowed)
        return self._completed(found, statistics)

    def _completed(self, found: Arrays, source: Arrays) -> Arrays:
        """Set an initial law that is not free, and carry the states along, where they go from turn to turn."""
        found = self.with_initial(found)
        return found | {"states": source["states"]} if "states" in source else found

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters at these coordinates."""
        return self.with_initial(dict(parameters) | super().from_vector(vector, parameters))

    def gradient(self, statistics: Arrays, parameters: Arrays) -> Float[Array, " free"]:
        """Return the slope of what the parts have, and of a tied initial law in the transitions, which come first."""
        found = super().gradient(statistics, parameters)
        if self._tied:
            slope = tied_slope(parameters["transitions"], statistics["initial"], self.allowed)
            found[: len(slope)] += slope
        return found

    # -- Bayes ---------------------------------------------------------------------------------------------

    def posterior(self, statistics: Arrays) -> Arrays:
        """Return Dirichlet distributions of transitions and initial law, and the distributions of the emissions."""
        if self._tied:
            raise InputError(
                "transitions have no conjugate prior where the initial law is tied to them; use initial='free'"
            )
        carried = {"states": statistics["states"]} if "states" in statistics else {}
        return super().posterior(statistics) | carried

    def plug_in(self, posterior: Arrays) -> Arrays:
        """Return parameters at which the E step computes the expected log joint."""
        return self._completed(super().plug_in(posterior), posterior)

    def mean(self, posterior: Arrays) -> Arrays:
        """Return the mean of the parameters."""
        return self._completed(super().mean(posterior), posterior)

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        """Draw parameters."""
        return self._completed(super().draw(posterior, generator), posterior)

    # -- sequences -----------------------------------------------------------------------------------------

    def log_likelihood(self, data: Sequences, parameters: Arrays) -> Float[Array, " structures"]:
        """Return the log-likelihood of each sequence; -inf for an impossible one."""
        return states.expected_counts(data, self.chain(data, parameters)).log_likelihood

    def scores(self, data: Sequences, parameters: Arrays) -> Float[Array, "structures free"]:
        r"""Return the gradient of each log-likelihood in the free coordinates, by one pass of messages.

        .. math:: \nabla \log p(x) = E[\nabla \log p(x, z) \mid x]

        (Fisher's identity): expected counts of each sequence, times the derivatives of the logarithms that they count.
        """
        at, forest = self.as_vector(parameters), data.forest
        posterior, moves, _ = states.posteriors(data, self.chain(data, parameters))
        owner, root = forest.structure_of_node, forest.parent < 0
        first = np.zeros((len(data), self.num_states))
        np.add.at(first, owner[root], posterior[root])
        found = np.zeros((len(data), len(at)))
        for j, ahead in enumerate(STEP * np.eye(len(at))):
            above, below = (self.chain(data, self.from_vector(at + s * ahead, parameters)) for s in (1, -1))
            sides = ((*each.logs, each.log_likelihood) for each in (above, below))
            with np.errstate(invalid="ignore"):  # what is impossible stays so
                change = [
                    np.nan_to_num(one - other, nan=0.0) / (2 * STEP)
                    for one, other in zip(*sides, strict=True)
                ]
            found[:, j] = first @ change[1] + np.einsum("nst,st->n", moves, change[0])
            if (some := change[2].any(axis=0)).any():
                terms = (posterior[:, some] * change[2][:, some][data.row]).sum(axis=1)
                found[:, j] += np.bincount(owner, terms, minlength=len(data))
        return found

    def infer(self, data: Sequences, parameters: Arrays) -> Float[Array, "nodes states"]:
        """Return the posterior probability of each state at each node, as the nodes were given."""
        unweighted = Sequences(data.forest, data.table, data.row)
        counts = states.expected_counts(unweighted, self.chain(data, parameters), per_node=True)
        out = np.empty_like(counts.occupancy)
        out[data.forest.order] = counts.occupancy
        return out

    def decode(self, data: Sequences, parameters: Arrays) -> Int[Array, " nodes"]:
        """Return the jointly most likely states, as the nodes were given."""
        chosen = states.most_likely_states(data, self.chain(data, parameters))
        out = np.empty_like(chosen)
        out[data.forest.order] = chosen
        return out

    def impute(self, data: Sequences, parameters: Arrays) -> Float[Array, "nodes columns"]:
        """Return all observations, holes filled by conditional means, those of symbols by the likeliest."""
        return self._fill_in(data, self.infer(data, parameters)[data.forest.order], parameters, None)

    def sample_missing(
        self, data: Sequences, parameters: Arrays, generator: np.random.Generator
    ) -> Float[Array, "nodes columns"]:
        """Return all observations, holes filled by a joint draw of what is hidden and missing."""
        chosen = states.draw_states(data, self.chain(data, parameters), generator)
        return self._fill_in(data, np.eye(self.num_states)[chosen], parameters, generator)

    def _fill_in(
        self, data: Sequences, owners: Array, parameters: Arrays, generator: np.random.Generator | None
    ) -> Float[Array, "nodes columns"]:
        out = fill_cells(self.emissions, data.table.values[data.row], owners, parameters, generator)
        back = np.empty_like(out)
        back[data.forest.order] = out
        return back

    def sample(
        self, forest: Forest, parameters: Arrays, generator: np.random.Generator
    ) -> tuple[Float[Array, "nodes columns"], Int[Array, " nodes"]]:
        """Draw observations and states of trees of this shape, in the order in which their nodes were given."""
        chosen = states.sample_states(forest, parameters["initial"], parameters["transitions"], generator)
        values = sample_cells(self.emissions, chosen, parameters, generator)
        back = np.argsort(forest.order)
        return values[back], chosen[back]

    def members(self, data: Sequences, parameters: Arrays, component: int) -> Int[Array, " members"]:
        """Return the nodes that are more likely in a state than not."""
        owners = self.infer(data, parameters)
        per_state = next((e.num_components for e in self.emissions if isinstance(e, Numbers)), 1)
        return np.flatnonzero(owners[:, component // per_state] > 0.5)
