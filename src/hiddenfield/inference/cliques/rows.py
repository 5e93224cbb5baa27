"""Exact inference for many rows of evidence over one junction tree: likelihoods, expected counts, completions."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from hiddenfield.fields.graphs.elimination_order import elimination_order, interactions_of
from hiddenfield.fields.graphs.junction_tree import JunctionTree, junction_tree_of
from hiddenfield.inference.cliques.row_loops import RowPlan, infer_rows
from hiddenfield.shapes import Array, Float, Int

BLOCKS = 16
"""Stretches of rows that threads take; fixed, so that sums do not depend on the number of threads."""

LEAST = 64
"""Rows of a block."""

ROWS = 4096
"""Rows whose costs are held at once."""


ROOMY = 1 << 20
"""Numbers of messages for which there is always room; beyond, what the rows need is counted."""


@dataclass(frozen=True, eq=False)
class RowInference:
    r"""One elimination order for all rows of a table: cost follows what each row lacks.

    For factors :math:`\psi_f` over the variables of a row, of which some are observed,

    .. math:: p(x_o) = \sum_{x_h} \prod_f \psi_f(x_{C_f}), \qquad
        n_f(x_{C_f}) = \sum_n w_n \, p(x_{C_f} \mid x_{o_n})

    Exact up to rounding. Time: the joint states of the variables that a row lacks in each clique, twice.

    Parameters
    ----------
    scopes
        The variables of each factor, in the order of its table's axes.
    states
        Number of states of each variable.

    References
    ----------
    Lauritzen (1995), The EM algorithm for graphical association models with missing data.

    Examples
    --------
    >>> import numpy as np
    >>> rows = RowInference([[0], [0, 1]], np.array([2, 2]))
    >>> tables = np.array([0.5, 0.5, 0.9, 0.1, 0.2, 0.8])
    >>> log_likelihood, counts = rows.expected_counts(tables, np.array([[-1, 1]]), np.ones(1))
    >>> np.exp(log_likelihood).round(2), counts.round(2)
    (array([0.45]), array([0.11, 0.89, 0.  , 0.11, 0.  , 0.89]))
    """

    scopes: list[list[int]]
    states: Int[Array, " variables"]

    @cached_property
    def tree(self) -> JunctionTree:
        """The junction tree, without evidence."""
        ptr = np.cumsum([0, *map(len, self.scopes)]).astype(np.int64)
        scope = np.array([variable for own in self.scopes for variable in own], np.int64)
        graph = interactions_of(ptr, scope, np.asarray(self.states, np.int64))
        return junction_tree_of(graph, elimination_order(graph).order)

    @cached_property
    def plan(self) -> RowPlan:
        """The tree with its factors and messages as flat arrays."""
        tree, states = self.tree, np.asarray(self.states, np.int64)
        terms: list[list[tuple[int, int, list[int]]]] = [[] for _ in range(tree.num_cliques)]
        begin = 0
        for scope in self.scopes:
            sizes = states[scope]
            strides = dict(zip(scope, (np.cumprod([1, *sizes[:0:-1]])[::-1]).tolist(), strict=True))
            home = int(tree.home[scope[int(np.argmin(tree.position[scope]))]])
            terms[home].append((begin, -1, [strides.get(variable, 0) for variable in tree.cliques[home]]))
            begin += int(np.prod(sizes))
        for child, parent in enumerate(tree.parent.tolist()):
            if parent >= 0:
                place = {variable: k for k, variable in enumerate(tree.separators[child])}
                terms[parent].append(
                    (0, child, [place.get(variable, -1) for variable in tree.cliques[parent]])
                )
        flat = [term for own in terms for term in own]
        return RowPlan(
            tree.clique_ptr.astype(np.int64),
            tree.clique_variables.astype(np.int64),
            tree.separator_size.astype(np.int64),
            states,
            np.concatenate([[0], np.cumsum(states)]),
            np.cumsum([0, *map(len, terms)]),
            np.array([term[0] for term in flat], np.int64),
            np.array([term[1] for term in flat], np.int64),
            np.cumsum([0, *(len(term[2]) for term in flat)]),
            np.array([step for term in flat for step in term[2]], np.int64),
            begin,
        )

    # -- costs ---------------------------------------------------------------------------------------------

    def costs(self, codes: Int[Array, "rows variables"]) -> tuple[float, int]:
        """Return the joint states that are gone through for all rows, and the most that messages of one row take."""
        from scipy.sparse import csr_matrix

        tree, width = self.tree, len(self.states)
        own = csr_matrix(
            (np.ones(len(tree.clique_variables)), tree.clique_variables, tree.clique_ptr),
            shape=(tree.num_cliques, width),
        )
        inner = list(itertools.chain.from_iterable(tree.separators))
        bounds = np.concatenate([[0], np.cumsum(tree.separator_size)])
        shared = csr_matrix((np.ones(len(inner)), np.asarray(inner, np.int64), bounds), shape=own.shape)
        total, most = 0.0, 0.0
        for begin in range(0, len(codes), ROWS):
            logs = ((codes[begin : begin + ROWS] < 0) * np.log(self.states)).T
            total += float(np.exp(own @ logs).sum())
            most = max(most, float(np.exp(shared @ logs).sum(axis=0).max(initial=0)))
        return total, int(min(most * (1 + 1e-9) + 1, 2**62))

    def _capacity(self, codes: Array) -> int:
        """Return room for the messages of any of the rows."""
        most = float(np.exp(self.tree.log_separator_states).sum())
        return int(most * (1 + 1e-9)) + 1 if most < ROOMY else self.costs(codes)[1]

    # -- inference -----------------------------------------------------------------------------------------

    def log_likelihood(
        self, tables: Float[Array, " entries"], codes: Int[Array, "rows variables"]
    ) -> Float[Array, " rows"]:
        """Return the log-likelihood of what each row has; -1 stands for what it lacks."""
        return self._run(tables, codes)[0]

    def expected_counts(
        self,
        tables: Float[Array, " entries"],
        codes: Int[Array, "rows variables"],
        weights: Float[Array, " rows"],
    ) -> tuple[Float[Array, " rows"], Float[Array, " entries"]]:
        """Return the log-likelihoods and the expected counts of the entries of all tables, summed over the rows."""
        return self._run(tables, codes, weights)

    def marginals(
        self, tables: Float[Array, " entries"], codes: Int[Array, "rows variables"]
    ) -> Float[Array, "rows states"]:
        """Return the posterior probabilities of the states of all variables; 1 for those observed."""
        found, ptr = np.zeros((len(codes), int(self.plan.state_ptr[-1]))), self.plan.state_ptr
        rows, variables = np.nonzero(codes >= 0)
        found[rows, ptr[variables] + codes[rows, variables]] = 1
        self._run(tables, codes, np.ones(len(codes)), marginals=found)
        return found

    def completed(
        self,
        tables: Float[Array, " entries"],
        codes: Int[Array, "rows variables"],
        generator: np.random.Generator | None = None,
    ) -> tuple[Float[Array, " rows"], Int[Array, "rows variables"]]:
        """Return the rows with what they lack drawn from its posterior, or without a generator its best joint state.

        Also returned are the log-likelihoods of the rows, or log probabilities of the best completions. A row of
        probability 0 is left as it is.
        """
        filled = np.array(codes, np.int32)
        draws = (
            np.zeros((1, 1)) if generator is None else generator.random((len(codes), self.tree.num_cliques))
        )
        values, _ = self._run(tables, filled, draws=draws, maximise=generator is None)
        return values, filled

    def _run(
        self,
        tables: Array,
        codes: Array,
        weights: Array | None = None,
        *,
        draws: Array | None = None,
        maximise: bool = False,
        marginals: Array | None = None,
    ) -> tuple[Array, Array]:
        """Take blocks of rows in threads, and add up their counts in the order of the rows."""
        codes, tables = np.ascontiguousarray(codes, np.int32), np.asarray(tables, np.float64)
        values, capacity = np.zeros(len(codes)), self._capacity(codes)
        length = max(-(-len(codes) // BLOCKS), LEAST)
        entries = 0 if weights is None else self.plan.entries
        none, given = (
            np.zeros((1, 0)),
            np.zeros(len(codes)) if weights is None else np.asarray(weights, np.float64),
        )

        def work(begin: int) -> Array:
            part = slice(begin, begin + length)
            counts = np.zeros(entries)
            own = [
                none if each is None else each[part] if len(each) == len(codes) else each
                for each in (draws, marginals)
            ]
            infer_rows(
                self.plan,
                capacity,
                tables,
                codes[part],
                given[part],
                own[0],
                maximise,
                values[part],
                counts,
                own[1],
            )
            return counts

        begins = range(0, len(codes), length)
        threads = min(torch.get_num_threads(), len(begins))
        if threads <= 1:
            found = [work(begin) for begin in begins]
        else:
            with ThreadPoolExecutor(threads) as pool:
                found = list(pool.map(work, begins))
        return values, np.sum(found, axis=0) if found else np.zeros(entries)
