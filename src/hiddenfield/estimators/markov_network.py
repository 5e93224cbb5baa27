"""MarkovNetwork: weights of log-linear features, learned from tables with holes and hidden variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.table import Table, TableColumn
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.estimators.bayesian_network import NetworkEstimator
from hiddenfield.estimators.latent import LATENT
from hiddenfield.estimators.tables import OF_TABLES
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers import read
from hiddenfield.models.bayesian_network import CodedRows
from hiddenfield.models.markov_network import LearnedMarkovNetwork, LogLinear, Term
from hiddenfield.shapes import Array, Int

GRADIENTS = 50
"""How often a turn needs log Z, about."""


@LATENT.register(
    "markov_network",
    summary="weights of features of discrete variables, some of them hidden, by gradient ascent within EM",
    reference="Koller & Friedman 2009",
    data="table",
    symbols=True,
    unstructured="every pair of columns interacts",
)
@dataclass(eq=False, repr=False)
class MarkovNetwork(NetworkEstimator):
    r"""A Markov network with log-linear features, learned from rows with any holes and with hidden variables.

    .. math:: p(x) = \frac{1}{Z(\theta)} \exp\Bigl(\sum_k \theta_k f_k(x)\Bigr)

    The other parameters are those of `LatentEstimator` and `TableEstimator`; all columns are taken for categorical.

    Parameters
    ----------
    structure
        Sets of variables that interact: a list of tuples of names, a networkx Graph (its edges), a field, or the file
        of one. Each joint state of some of them, other than the first state of each, has a weight of its own, and so
        has each state of a single variable. None: all pairs of variables, unless there are `features`. A graph or field
        is saved as a list.
    features
        Features with names, whose weights are shared by their terms: a list of terms for each name. A term is a
        variable or a tuple of variables, whose feature is the product of the numbers of their states (for two states:
        whether all are in the second); or a pair of that and a number, or a table over their states, that it is
        multiplied by.
    hidden
        Variables that no column has: the number of their states, or the states.
    l2
        The penalty :math:`\tfrac{\lambda}{2} \lVert\theta\rVert^2`; 0 for maximum likelihood, whose weights need not be
        finite.
    inference
        "exact"; a method of `hiddenfield.infer` such as "loopy_bp", with which expectations and log Z are estimates; or
        "auto", which is exact where that takes some seconds for a turn. `guarantee_` says which it was.

    Attributes
    ----------
    feature_weights_
        The weights by name.
    guarantee_
        "exact", or "estimate".

    References
    ----------
    Koller and Friedman (2009), Probabilistic graphical models, chapters 19 and 20.

    Examples
    --------
    >>> from hiddenfield.estimators import MarkovNetwork
    >>> rows = {"rain": ["no", "no", "yes", None, "yes"], "wet": ["no", None, "yes", "yes", "yes"]}
    >>> model = MarkovNetwork([("rain", "wet")]).fit(rows)
    >>> list(model.feature_weights_)
    ['rain=yes', 'wet=yes', 'rain=yes, wet=yes']
    >>> model.impute(rows)["rain"]
    ['no', 'no', 'yes', 'yes', 'yes']
    """

    structure: Any = None
    features: Any = None
    l2: float = 0.01

    _parameter_constraints = OF_TABLES | {
        "structure": [object],
        "features": [Mapping, None],
        "hidden": [Mapping, None],
        "l2": [Interval(Real, 0, None, closed="left")],
        "inference": [str],
    }

    def _lay_out(self, table: Table) -> None:
        hidden = dict(self.hidden or {})
        named = _scopes_of(self.structure)
        terms = [
            (name, *_term_of(term)) for name, own in (self.features or {}).items() for term in _several(own)
        ]
        if self.structure is None and self.features is None:
            named = list(combinations((*table.names, *hidden), 2)) or [(table.names[0],)]
        used = dict.fromkeys(name for scope in (*named, *(scope for _, scope, _ in terms)) for name in scope)
        variables = tuple(_variable(name, table, hidden) for name in used)
        number = {name: place for place, name in enumerate(used)}
        found = _interactions(variables, [tuple(number[name] for name in scope) for scope in named])
        for weight, scope, factor in terms:
            sizes = tuple(variables[number[name]].num_states for name in scope)
            values = reduce(np.multiply.outer, (np.arange(size, dtype=np.float64) for size in sizes))
            values = values * factor if np.ndim(factor) == 0 else np.asarray(factor, np.float64)
            if values.shape != sizes or not np.isfinite(values).all():
                raise InputError(
                    f"the table of feature {weight!r} over {', '.join(scope)} must have finite numbers in the shape "
                    f"{sizes}, got the shape {values.shape}"
                )
            found.append(Term(weight, tuple(number[name] for name in scope), values))
        if not found:
            raise InputError(
                "there are no features: every variable has a single state; leave such columns out, or give others"
            )
        network = LogLinear(variables, tuple(found))
        self.network_: dict[str, Any] = {
            "variables": [variable.as_dict() for variable in variables],
            "terms": [[term.weight, list(term.scope), term.table.tolist()] for term in found],
        }
        self._keep_columns(table, network)

    def _listed(self) -> list[tuple[str, ...]]:
        return _scopes_of(self.structure)

    def _network(self) -> LogLinear:
        variables = tuple(TableColumn.from_dict(own) for own in self.network_["variables"])
        terms = (Term(name, tuple(scope), np.array(table)) for name, scope, table in self.network_["terms"])
        return LogLinear(variables, tuple(terms))

    def _inferred(self, rows: CodedRows) -> Int[Array, "rows variables"]:
        nothing = np.full((GRADIENTS, rows.codes.shape[1]), -1, rows.codes.dtype)
        return np.concatenate([rows.incomplete[0], nothing])

    def _model(self) -> LearnedMarkovNetwork:
        return LearnedMarkovNetwork(self._network(), self.l2, self._method)

    @property
    def feature_weights_(self) -> dict[str, float]:
        """The weights by name."""
        check_is_fitted(self, "parameters_")
        return dict(zip(self._network().weights, self.parameters_["weights"].tolist(), strict=True))


def _variable(name: str, table: Table, hidden: Mapping[str, Any]) -> TableColumn:
    """Return a variable: a column, or a hidden one."""
    if name in table.names:
        return table.columns[table.names.index(name)]
    if name not in hidden:
        raise InputError(
            f"no column is named {name!r}; if that variable is hidden, say how many states it has "
            f"(hidden={{{name!r}: 2}}); the columns are {', '.join(table.names)}"
        )
    given = hidden[name]
    symbols = tuple(range(given)) if isinstance(given, int) else tuple(given)
    return TableColumn(name, "binary" if len(symbols) <= 2 else "categorical", Vocabulary(name, symbols))


def _interactions(variables: Sequence[TableColumn], scopes: Iterable[tuple[int, ...]]) -> list[Term]:
    """Return a term for each joint state of every set of variables within a scope, first states left out."""
    sets = {
        own
        for scope in scopes
        for size in range(1, len(scope) + 1)
        for own in combinations(sorted(scope), size)
    }
    symbols = [() if one.vocabulary is None else one.vocabulary.symbols for one in variables]
    found = []
    for own in sorted(sets, key=lambda each: (len(each), each)):
        sizes = [variables[v].num_states for v in own]
        for states in product(*(range(1, size) for size in sizes)):
            table = np.zeros(sizes)
            table[states] = 1.0
            words = [f"{variables[v].name}={symbols[v][s]}" for v, s in zip(own, states, strict=True)]
            found.append(Term(", ".join(words), own, table))
    return found


def _several(terms: Any) -> list[Any]:
    return [terms] if isinstance(terms, str) else list(terms)


def _term_of(term: Any) -> tuple[tuple[str, ...], Any]:
    """Return the variables of a term, and what the product of their states is multiplied by, or their table."""
    factor: Any = 1.0
    if isinstance(term, (tuple, list)) and len(term) == 2 and not isinstance(term[1], str):
        term, factor = term
    scope = (term,) if isinstance(term, str) else tuple(term)
    if not scope or not all(isinstance(name, str) for name in scope) or len(set(scope)) < len(scope):
        raise InputError(
            f"a term is a variable or a tuple of different variables, perhaps with a number or table; got {term!r:.100}"
        )
    return scope, factor


def _scopes_of(source: Any) -> list[tuple[str, ...]]:
    """Return the sets of variables that interact."""
    if source is None:
        return []
    if isinstance(source, (str, Path)):
        source = read(source)
    if isinstance(source, FactorGraph):
        names = source.variable_names or tuple(f"x{v}" for v in range(source.num_variables))
        scopes = [scope for group in source.groups for scope in group.scopes.tolist()]
        return [*((name,) for name in names), *(tuple(names[v] for v in scope) for scope in scopes)]
    if hasattr(source, "edges") and hasattr(source, "nodes"):
        return [*((str(node),) for node in source.nodes), *((str(a), str(b)) for a, b in source.edges)]
    if isinstance(source, Iterable) and all(
        isinstance(scope, (tuple, list)) and len(scope) for scope in source
    ):
        return [tuple(map(str, scope)) for scope in source]
    raise InputError(
        "a structure is a list of tuples of variables that interact, a networkx Graph, a field or the file of one, got "
        f"{source!r:.100}"
    )
