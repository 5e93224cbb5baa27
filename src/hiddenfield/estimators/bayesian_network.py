"""BayesianNetwork: conditional tables of a known structure, learned from tables with holes and hidden variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.table import Table
from hiddenfield.errors import InputError
from hiddenfield.estimators.latent import LATENT
from hiddenfield.estimators.tables import OF_TABLES, TableEstimator
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers import write
from hiddenfield.inference.cliques.rows import RowInference
from hiddenfield.inference.posterior import METHODS
from hiddenfield.models.bayesian_network import MOST_MESSAGES, MOST_STATES, CodedRows, LearnedNetwork
from hiddenfield.models.conditional_tables import ConditionalTables, FactorTables, as_structure, network_of
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Int

PRIORS = ("bdeu", "laplace", "none")


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkEstimator(TableEstimator):
    """Base of the estimators of networks of discrete variables, any of which may be missing or hidden.

    A subclass gives `_lay_out`, which keeps the network in ``network_``, `_network`, which makes it of that, and
    `_listed`, the structure as lists.
    """

    structure: Any = None
    hidden: Any = None
    inference: str = "auto"

    _kept: ClassVar[tuple[str, ...]] = (*TableEstimator._kept, "network_", "guarantee_")

    def _wanted_kinds(self) -> Any:
        return "categorical"

    def _read(self, X: Any, *, fitting: bool = False, y: Any = None, sample_weight: Any = None) -> CodedRows:
        table = self._table(X, fitting, sample_weight)
        if fitting:
            self._lay_out(table)
        network = self._network()
        rows = CodedRows.of(network, self._as_variables(table, network))
        if fitting:
            self._choose(network, rows)
        return rows

    def _lay_out(self, table: Table) -> None:
        """Keep the network."""
        raise TypeError(f"{type(self).__name__} has no network; a subclass of NetworkEstimator lays it out")

    def _network(self) -> FactorTables:
        """Return the network."""
        raise TypeError(f"{type(self).__name__} has no network; a subclass of NetworkEstimator makes it")

    def _listed(self) -> Any:
        """Return the structure as names, however it was given."""
        raise TypeError(f"{type(self).__name__} has no structure; a subclass of NetworkEstimator lists it")

    def plain_parameters(self) -> dict[str, Any]:
        """Return a structure that is a graph or a field as names, and a path as text."""
        source = self.structure
        if source is None or isinstance(source, (str, Path)):
            return {"structure": None if source is None else str(source)}
        return {"structure": self._listed()}

    def _keep_columns(self, table: Table, network: FactorTables) -> None:
        """Keep what the columns are, with the symbols of the network's variables; refuse where none is a variable."""
        own = {variable.name: variable for variable in network.variables}
        if not set(own) & set(table.names):
            raise InputError(
                f"no column is a variable of the structure; columns: {', '.join(table.names[:10])}; variables: "
                f"{', '.join(network.names[:10])}"
            )
        self.columns_ = [own.get(column.name, column).as_dict() for column in table.columns]

    @staticmethod
    def _as_variables(table: Table, network: FactorTables) -> Table:
        """Return a column for each variable; those of hidden ones are empty."""
        values = np.full((len(table), len(network.variables)), np.nan)
        for j, variable in enumerate(network.variables):
            if variable.name in table.names:
                k = table.names.index(variable.name)
                words = table.columns[k].vocabulary
                assert words is not None
                assert variable.vocabulary is not None
                codes = np.append(words.recode_to(variable.vocabulary).astype(float), np.nan)
                values[:, j] = codes[np.where(table.missing[:, k], -1, table.values[:, k]).astype(np.int64)]
        return Table(values, network.variables, None, table.weights)

    def _choose(self, network: FactorTables, rows: CodedRows) -> None:
        """Choose exact inference, or an estimate where that would be too much."""
        if self.inference not in ("auto", "exact"):
            choose("inference", METHODS, self.inference)
        exact = self.inference == "exact"
        if self.inference == "auto":
            states, messages = RowInference(network.scopes, network.states).costs(self._inferred(rows))
            exact = states <= MOST_STATES and messages <= MOST_MESSAGES
        self.guarantee_ = "exact" if exact else "estimate"

    def _inferred(self, rows: CodedRows) -> Int[Array, "rows variables"]:
        """Return the rows for which a turn needs inference."""
        return rows.incomplete[0]

    @property
    def _method(self) -> str:
        """The name of the method of inference."""
        if self.guarantee_ == "exact":
            return "exact"
        return "loopy_bp" if self.inference == "auto" else self.inference

    # -- what was learned ----------------------------------------------------------------------------------

    def field(self) -> FactorGraph:
        """Return the network as a field, for `hiddenfield.infer` and `hiddenfield.fields.write`."""
        check_is_fitted(self, "parameters_")
        return self.model_.network.field(self.parameters_["tables"])

    def write(self, path: str | Path) -> None:
        """Write the network to a file whose suffix names the format: ``.bif``, ``.xmlbif``, ``.net``, ``.uai``."""
        write(self.field(), path)

    def marginal(self, X: Any, variable: str) -> Float[Array, "rows states"]:
        """Return the probability of each state of a variable given the rest of each row, its own value left out."""
        model, data, parameters = self._fitted(X)
        names = model.network.names
        choose("variable", dict.fromkeys(names), variable)
        place = names.index(variable)
        codes = data.codes.copy()
        codes[:, place] = -1
        shares = model.infer(replace(data, codes=codes), parameters)
        begin = int(model.network.states[:place].sum())
        return shares[:, begin : begin + int(model.network.states[place])]

    def predict(self, X: Any, variable: str | None = None) -> Any:
        """Return the most likely state of a variable given the rest of each row; without a name, the filled table."""
        if variable is None:
            return self.impute(X)
        network = self._network()
        words = (
            network.variables[network.names.index(variable)].vocabulary if variable in network.names else None
        )
        best = self.marginal(X, variable).argmax(axis=1)
        assert words is not None
        return np.array(words.symbols)[best]

    def posterior(self, X: Any) -> Any:
        """Return by variable the probability of each state (rows, states) given what each row has."""
        model, data, parameters = self._fitted(X)
        shares = model.infer(data, parameters)
        parts = np.split(shares, np.cumsum(model.network.states)[:-1], axis=1)
        return dict(zip(model.network.names, parts, strict=True))

    def icl(self, X: Any, y: Any = None) -> float:
        """Refuse: there are no components."""
        raise InputError("the integrated completed likelihood is of mixtures; use bic or aic")

    def _like(self, X: Any, data: Any, filled: Array) -> Any:
        """Return filled cells in the type of X; columns that are no variables stay as they are."""
        del data
        table, names = self._table(X), self._network().names
        values = table.values.copy()
        for k, name in enumerate(table.names):
            if name in names:
                values[:, k] = filled[:, names.index(name)]
        return table.with_values(values).restore()

    def sample(self, n: int = 1, *, random_state: Any = None) -> Any:
        """Draw complete rows of all variables, hidden ones included, as a dict of columns."""
        check_is_fitted(self, "parameters_")
        values, _ = self.model_.sample(n, self.parameters_, self._generator(random_state))
        return Table(values, self._network().variables).restore()


@LATENT.register(
    "bayesian_network",
    summary="conditional tables of a Bayesian network of known structure",
    reference="Lauritzen 1995",
    data="table",
    symbols=True,
    unstructured="all columns are independent of each other",
)
@dataclass(eq=False, repr=False)
class BayesianNetwork(NetworkEstimator):
    r"""A Bayesian network of known structure, learned from rows with any holes and with hidden variables.

    .. math:: p(x) = \prod_v \theta_{v, x_v \mid x_{\pi(v)}}

    The other parameters are those of `LatentEstimator` and `TableEstimator`; all columns are taken for categorical.

    Parameters
    ----------
    structure
        A dict of the parents of each variable, a networkx DiGraph, a file of a network (BIF, XMLBIF, NET), or a field
        that is one. Where it has tables, learning starts from them. None: all columns are independent. A graph or field
        is saved as a dict of parents.
    hidden
        Variables of the structure that no column has: the number of their states, or the states.
    prior
        Pseudo-counts: "bdeu" spreads `strength` evenly over each table, "laplace" gives it to every entry, "none" is
        maximum likelihood.
    strength
        The equivalent sample size of "bdeu", or the pseudo-count of "laplace".
    inference
        "exact"; a method of `hiddenfield.infer` such as "loopy_bp" or "generalized_bp", with which expected counts and
        likelihoods are estimates; or "auto", which is exact where that takes some seconds for a turn, and loopy belief
        propagation otherwise. `guarantee_` says which it was.

    Attributes
    ----------
    tables_
        The conditional tables by variable: over the states of the parents, and last those of the variable.
    guarantee_
        "exact", or "estimate".

    Notes
    -----
    A turn takes one pass over the distinct rows: for each, twice the joint states of what it lacks in each clique of
    one junction tree. Complete rows are counted once.

    References
    ----------
    Lauritzen (1995), The EM algorithm for graphical association models with missing data; Heckerman, Geiger and
    Chickering (1995), Learning Bayesian networks.

    Examples
    --------
    >>> from hiddenfield.estimators import BayesianNetwork
    >>> rows = {"rain": ["no", "no", "yes", None, "yes"], "wet": ["no", None, "yes", "yes", "yes"]}
    >>> model = BayesianNetwork({"rain": [], "wet": ["rain"]}, strength=0.1).fit(rows)
    >>> model.impute(rows)
    {'rain': ['no', 'no', 'yes', 'yes', 'yes'], 'wet': ['no', 'no', 'yes', 'yes', 'yes']}
    >>> model.tables_["wet"].round(1).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    structure: Any = None
    prior: str = "bdeu"
    strength: float = 1.0

    _parameter_constraints = OF_TABLES | {
        "structure": [object],
        "hidden": [Mapping, None],
        "prior": [StrOptions(set(PRIORS))],
        "strength": [Interval(Real, 0, None, closed="neither")],
        "inference": [str],
    }
    _kept: ClassVar[tuple[str, ...]] = (*NetworkEstimator._kept, "given_")

    def _lay_out(self, table: Table) -> None:
        """Keep the network: variables, parents, and tables to start from."""
        source = self.structure
        found = as_structure(dict.fromkeys(table.names, ()) if source is None else source)
        network = network_of(found, table.columns, self.hidden)
        self.network_ = network.as_dict()
        self._keep_columns(table, network)
        self.given_ = np.zeros(0)
        if found.tables:
            self.given_ = np.concatenate([found.tables[name].ravel() for name in network.names])

    def _listed(self) -> dict[str, list[str]]:
        return {name: list(parents) for name, parents in as_structure(self.structure).parents.items()}

    def _network(self) -> ConditionalTables:
        return ConditionalTables.from_dict(self.network_)

    def _model(self) -> LearnedNetwork:
        network = self._network()
        pseudo = np.zeros(network.num_entries)
        if self.prior == "laplace":
            pseudo += self.strength
        elif self.prior == "bdeu":
            sizes = np.diff(network.bounds)
            pseudo += np.repeat(self.strength / sizes, sizes)
        return LearnedNetwork(network, pseudo, self._method, self.given_ if len(self.given_) else None)

    @property
    def tables_(self) -> dict[str, Array]:
        """The conditional tables by variable."""
        return self.model_.network.split(self.parameters_["tables"])
