r"""Bayesian networks with known structure whose conditional tables are learned from rows with holes.

.. math:: p(x) = \prod_v \theta_{v, x_v \mid x_{\pi(v)}}

A row has some of the variables; a variable that no row has is hidden.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from hiddenfield.data.table import Table
from hiddenfield.errors import ConvergenceWarning
from hiddenfield.fields.build import concatenate_fields
from hiddenfield.inference.cliques.rows import RowInference
from hiddenfield.inference.infer import infer
from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.models.conditional_tables import ConditionalTables, FactorTables
from hiddenfield.models.dirichlet import Probabilities
from hiddenfield.models.parts import Composed, Part
from hiddenfield.models.responsibilities import draw_rows
from hiddenfield.shapes import Array, Bool, Float, Int

MOST_STATES = 2e9
"""Joint states of all cliques and rows, gone through in some ten seconds, beyond which an estimate is taken."""

MOST_MESSAGES = 1 << 27
"""Numbers that the messages of one row may take."""

COPIES = 256
"""Copies of the network for which an estimate is made at once."""

ENOUGH: Mapping[str, Mapping[str, Any]] = {"loopy_bp": {"damping": 0.3, "max_iterations": 100}}
"""Options of estimates: a row on which an algorithm does not settle enters as it is after that."""


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Distinct rows of codes, -1 where a variable is missing, and how much each counts.

    Parameters
    ----------
    codes, weights
        The distinct rows, and the sum of the weights of those alike.
    number
        The distinct row of each row.
    network
        Whose variables they are.
    """

    codes: Int[Array, "distinct variables"]
    weights: Float[Array, " distinct"]
    number: Int[Array, " rows"]
    network: FactorTables

    @classmethod
    def of(cls, network: FactorTables, table: Table) -> CodedRows:
        """Return the rows of a table with a column for each variable."""
        distinct, number = table.distinct()
        assert distinct.weights is not None
        return cls(distinct.codes(), distinct.weights, number, network)

    @cached_property
    def counts(self) -> Float[Array, " entries"]:
        """How often the complete rows read each entry of all tables."""
        return self.network.counts(self.codes[~self.holes], self.weights[~self.holes])

    def __getitem__(self, rows: Any) -> CodedRows:
        """Return some of the rows; of those alike each has the same part of the weight."""
        own = self.number[rows]
        kept, number = np.unique(own, return_inverse=True)
        weights = np.bincount(number, weights=self.row_weights[own], minlength=len(kept))
        return CodedRows(self.codes[kept], weights, number, self.network)

    @cached_property
    def row_weights(self) -> Float[Array, " distinct"]:
        """The weight of one of the rows that each distinct row stands for."""
        return self.weights / np.bincount(self.number, minlength=len(self.weights))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.number)

    @cached_property
    def holes(self) -> Bool[Array, " distinct"]:
        """Which distinct rows miss something."""
        return np.asarray((self.codes < 0).any(axis=1))

    @cached_property
    def incomplete(self) -> tuple[Int[Array, "rows variables"], Float[Array, " rows"]]:
        """The distinct rows that miss something, and their weights."""
        return self.codes[self.holes], self.weights[self.holes]


class LearnedTables(Composed):
    r"""A model of rows that is a product of tables, :math:`p(x) = \prod_f \psi_f(x_{C_f})`, learned by `fit_em`.

    The E step is exact inference on one junction tree for all distinct rows, at a cost that depends on what each of
    them lacks; complete rows are counted. Where it would be too much, another algorithm estimates the expected counts,
    and the likelihood is an estimate, too. A subclass names the `parts`, says where to `start`, and what `tables` the
    parameters make.

    Parameters
    ----------
    network
        Variables, and where tables lie.
    inference
        "exact", or the name of another method of `hiddenfield.infer`.
    """

    network: FactorTables
    inference: str

    @property
    def monotone(self) -> bool:
        """Whether turns cannot lower the objective: not with an estimate."""
        return self.inference == "exact"

    @cached_property
    def rows(self) -> RowInference:
        """Exact inference for rows."""
        return RowInference(self.network.scopes, self.network.states)

    def tables(self, parameters: Arrays) -> Float[Array, " entries"]:
        """Return the entries of all tables, end to end, whose product is the probability of a row."""
        return parameters["tables"]

    # -- the E step ----------------------------------------------------------------------------------------

    def expected_statistics(self, data: CodedRows, parameters: Arrays, fill: Fill) -> Arrays:
        """Return the expected counts of the entries of all tables; with "mode" and "sample", those of filled rows."""
        tables = self.tables(parameters)
        entries, objective = data.counts, log_product(data.counts, tables)
        codes, weights = data.incomplete
        if len(codes) and fill.kind == "expectation":
            values, counts = self._expected(tables, codes, weights)
            objective += float((values * weights)[weights > 0].sum())
        elif len(codes):
            # Every row is drawn for itself, also where several are alike.
            drawn = fill.kind == "sample"
            if drawn:
                own = data.number[data.holes[data.number]]
                codes, weights = data.codes[own], data.row_weights[own]
            _, filled = self.rows.completed(tables, codes, fill.generator if drawn else None)
            counts = self.network.counts(filled, weights)
            objective += log_product(counts, tables)
        else:
            counts = np.zeros_like(entries)
        return {
            "objective": np.array(objective),
            "count": np.array(data.weights.sum()),
            "entries": entries + counts,
        }

    def _expected(self, tables: Array, codes: Array, weights: Array) -> tuple[Array, Array]:
        if self.inference == "exact":
            return self.rows.expected_counts(tables, codes, weights)
        counts, values = np.zeros(self.network.num_entries), np.zeros(len(codes))
        for begin in range(0, len(codes), COPIES):
            part = slice(begin, min(begin + COPIES, len(codes)))
            posterior = self._estimated(tables, codes[part])
            values[part] = posterior.log_partition.numpy()
            counts += self._entries(posterior, weights[part])
        return values, counts

    def _estimated(self, tables: Array, codes: Array) -> Any:
        """Infer a copy of the network for each row, all sharing the tables."""
        field = self.network.field(tables)
        # Of a variable that is observed, all states but the one are impossible.
        variable = field.state_variable.numpy()
        seen, state = codes[:, variable], np.arange(len(variable)) - field.state_ptr.numpy()[variable]
        logs = np.where((seen >= 0) & (seen != state), -np.inf, 0.0)
        batch = concatenate_fields([field] * len(codes)).given(torch.from_numpy(logs.reshape(-1)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return infer(batch, self.inference, **ENOUGH.get(self.inference, {}))

    def _entries(self, posterior: Any, weights: Array) -> Float[Array, " entries"]:
        """Return the expected counts of a batch of copies."""
        network, counts = self.network, np.zeros(self.network.num_entries)
        share = torch.from_numpy(weights)
        single = (share @ posterior.log_marginals.exp().reshape(len(weights), -1)).numpy()
        ptr = np.concatenate([[0], np.cumsum(network.states)])
        found = {
            group.states: iter(
                torch.einsum("n,nce->ce", share, own.exp().reshape(len(weights), -1, math.prod(group.states)))
            )
            for group, own in zip(posterior.field.groups, posterior.factor_log_marginals, strict=True)
        }
        for factor, (scope, shape) in enumerate(zip(network.scopes, network.shapes, strict=True)):
            one = len(scope) == 1
            table = single[ptr[scope[0]] : ptr[scope[0] + 1]] if one else next(found[shape]).numpy()
            counts[network.bounds[factor] : network.bounds[factor + 1]] = table
        return counts

    # -- rows ----------------------------------------------------------------------------------------------

    def log_likelihood(self, data: CodedRows, parameters: Arrays) -> Float[Array, " rows"]:
        """Return the log-likelihood of each row; an estimate where inference is not exact."""
        if self.inference == "exact":
            values = self.rows.log_likelihood(self.tables(parameters), data.codes)
        else:
            values = self._expected(self.tables(parameters), data.codes, np.zeros(len(data.codes)))[0]
        return values[data.number]

    def infer(self, data: CodedRows, parameters: Arrays) -> Float[Array, "rows states"]:
        """Return the posterior probabilities of the states of all variables, end to end; 1 for those observed."""
        if self.inference == "exact":
            found = self.rows.marginals(self.tables(parameters), data.codes)
        else:
            parts = [data.codes[begin : begin + COPIES] for begin in range(0, len(data.codes), COPIES)]
            estimated = [self._estimated(self.tables(parameters), part).log_marginals for part in parts]
            rows = [
                each.exp().reshape(len(part), -1).numpy() for each, part in zip(estimated, parts, strict=True)
            ]
            found = np.concatenate(rows)
        return found[data.number]

    def impute(self, data: CodedRows, parameters: Arrays) -> Float[Array, "rows variables"]:
        """Return the codes, what is missing filled by its most likely state given the rest of the row."""
        shares, ptr = self.infer(data, parameters), np.concatenate([[0], np.cumsum(self.network.states)])
        best = [shares[:, begin:end].argmax(axis=1) for begin, end in pairwise(ptr)]
        codes = data.codes[data.number]
        return np.where(codes < 0, np.stack(best, axis=1), codes).astype(np.float64)

    def sample_missing(
        self, data: CodedRows, parameters: Arrays, generator: np.random.Generator
    ) -> Float[Array, "rows variables"]:
        """Return the codes, what is missing filled by a joint draw given the rest of the row."""
        return self.rows.completed(self.tables(parameters), data.codes[data.number], generator)[1].astype(
            np.float64
        )

    def sample(
        self, count: int, parameters: Arrays, generator: np.random.Generator
    ) -> tuple[Float[Array, "rows variables"], None]:
        """Draw complete rows."""
        nothing = np.full((count, len(self.network.states)), -1)
        return self.rows.completed(self.tables(parameters), nothing, generator)[1].astype(np.float64), None


@dataclass(frozen=True, eq=False)
class LearnedNetwork(LearnedTables):
    r"""Conditional tables, learned from rows; see `LearnedTables`.

    Parameters
    ----------
    network
        Variables, parents, and where tables lie.
    prior
        Pseudo-counts :math:`\alpha` of all entries: Dirichlet distributions with these exponents. Parameters are the
        most likely ones in coordinates of log ratios, :math:`\theta \propto n + \alpha`.
    inference
        "exact", or the name of another method of `hiddenfield.infer`.
    given
        Tables to start from, where there are some.

    References
    ----------
    Lauritzen (1995), The EM algorithm for graphical association models with missing data; Heckerman, Geiger and
    Chickering (1995), Learning Bayesian networks, on BDeu; MacKay (1998), Choice of basis for Laplace approximation.
    """

    network: ConditionalTables
    prior: Float[Array, " entries"]
    inference: str = "exact"
    given: Float[Array, " entries"] | None = None

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The tables, whose rows have Dirichlet priors."""
        every = np.ones(self.network.num_entries, bool)
        owners = self.network.row_of_entry
        return (Probabilities("tables", self.prior, every, "entries", owners, of_ratios=True),)

    def start(self, data: CodedRows, how: str, generator: np.random.Generator) -> Arrays:
        """Return given tables or ("auto") counts of available cases, those of hidden variables drawn; or all drawn."""
        if how == "auto" and self.given is not None:
            found = self.given + 1e-3 * (self.prior > 0)  # what is impossible would stay so
        else:
            drawn = generator.standard_gamma(2.0, self.network.num_entries) + 0.1
            found = drawn
            if how == "auto":
                seen = np.asarray((data.codes >= 0).any(axis=0))
                counts = self.network.counts(data.codes, data.weights)
                known = np.repeat(
                    [bool(seen[own].all()) for own in self.network.scopes], np.diff(self.network.bounds)
                )
                found = np.where(known, counts + np.maximum(self.prior, 0.5), drawn)
        return {"tables": found / self.network.per_row(found)}

    def sample(
        self, count: int, parameters: Arrays, generator: np.random.Generator
    ) -> tuple[Float[Array, "rows variables"], None]:
        """Draw complete rows, parents before children."""
        codes = np.zeros((count, len(self.network.states)), np.int64)
        for variable in self.network.order:
            states = int(self.network.states[variable])
            first = self.network.places(variable, codes)  # as if the variable had state 0
            shares = parameters["tables"][first[:, None] + np.arange(states)]
            codes[:, variable] = draw_rows(shares, generator)
        return codes.astype(np.float64), None


def log_product(counts: Float[Array, " entries"], tables: Float[Array, " entries"]) -> float:
    """Return the sum of counts times logarithms; what has no count has no part in it."""
    some = counts > 0
    with np.errstate(divide="ignore"):
        return float(counts[some] @ np.log(tables[some]))
