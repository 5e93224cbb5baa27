"""Models of other libraries: fields from networkx graphs, and from and to objects of pgmpy and pyAgrum."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.errors import InputError, MissingDependencyError
from hiddenfield.fields.build import from_factors
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers.text import conditional_tables, ground_tables
from hiddenfield.shapes import Array

if TYPE_CHECKING:
    import networkx

Scopes = list[tuple[list[int], Array]]


def from_pgmpy(model: Any) -> FactorGraph:
    """Return the field of a discrete Bayesian or Markov network, or factor graph, of pgmpy.

    Variables are numbered in the order of the model's nodes; names of variables and states are kept as text. Of a
    Bayesian network every child is last in its scope.

    Raises
    ------
    MissingDependencyError
        Without pgmpy.

    Examples
    --------
    >>> from hiddenfield.fields import read
    >>> field = from_pgmpy(to_pgmpy(read("docs/examples/sprinkler.bif")))
    >>> field.variable_names, field.state_names[0]
    (('cloudy', 'sprinkler', 'rain', 'grass'), ('no', 'yes'))
    """
    _imported("pgmpy", "a model of pgmpy")
    if hasattr(model, "get_cpds"):
        factors = [cpd.to_factor() for cpd in model.get_cpds()]
        children = [cpd.variable for cpd in model.get_cpds()]
        names = list(model.nodes())
        missing = next((name for name in names if name not in set(children)), None)
        if missing is not None:
            raise InputError(f"node {missing!r} of the network has no conditional distribution; add its CPD")
    elif hasattr(model, "get_factors"):
        factors, children = list(model.get_factors()), None
        named = model.get_variable_nodes() if hasattr(model, "get_variable_nodes") else model.nodes()
        names = list(named)
    else:
        raise InputError(
            f"from_pgmpy takes a discrete Bayesian or Markov network of pgmpy, got {type(model).__name__}"
        )
    states: dict[Any, list[str]] = {}
    for factor in factors:
        for name, card in zip(factor.variables, factor.cardinality.tolist(), strict=True):
            states.setdefault(name, [str(state) for state in factor.state_names.get(name, range(card))])
    numbers = _numbered(names, states)
    scopes, tables = [], []
    for place, factor in enumerate(factors):
        scope, table = list(factor.variables), np.asarray(factor.values, dtype=float)
        order = [
            [str(s) for s in factor.state_names[name]] if factor.state_names else states[name]
            for name in scope
        ]
        for axis, (name, own) in enumerate(zip(scope, order, strict=True)):
            table = table.take([own.index(state) for state in states[name]], axis)
        if children is not None:
            table = np.moveaxis(table, scope.index(children[place]), -1)
            scope.append(scope.pop(scope.index(children[place])))
        scopes.append([numbers[name] for name in scope])
        tables.append(table)
    return _field(scopes, tables, [str(name) for name in names], [states[name] for name in names])


def to_pgmpy(field: FactorGraph) -> Any:
    """Return a field as a ``DiscreteBayesianNetwork`` of pgmpy where it is one, else as a ``DiscreteMarkovNetwork``.

    Names that the field does not have are made up: x0, x1, ... with states s0, s1, ... The log partition of a Markov
    network is that of the field.

    Raises
    ------
    MissingDependencyError
        Without pgmpy.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid, read
    >>> (
    ...     type(to_pgmpy(read("docs/examples/sprinkler.bif"))).__name__,
    ...     type(to_pgmpy(ising_grid(2, 2))).__name__,
    ... )
    ('DiscreteBayesianNetwork', 'DiscreteMarkovNetwork')
    """
    models = _imported("pgmpy.models", "a model of pgmpy")
    parts = _imported("pgmpy.factors.discrete", "a model of pgmpy")
    names, states = _names(field)
    network = _conditional(field)
    if network is None:
        markov = models.DiscreteMarkovNetwork()
        markov.add_nodes_from(names)
        for scope, table in _merged(field):
            variables = [names[v] for v in scope]
            markov.add_edges_from(itertools.combinations(variables, 2))
            own = {names[v]: states[v] for v in scope}
            markov.add_factors(parts.DiscreteFactor(variables, table.shape, np.exp(table), state_names=own))
        return markov
    model = models.DiscreteBayesianNetwork()
    model.add_nodes_from(names)
    for child, (parents, table) in enumerate(network):
        model.add_edges_from((names[parent], names[child]) for parent in parents)
        values = _normalised(table).reshape(-1, table.shape[-1]).T
        given = [names[parent] for parent in parents]
        own = {names[v]: states[v] for v in (child, *parents)}
        model.add_cpds(
            parts.TabularCPD(
                names[child],
                table.shape[-1],
                values,
                given or None,
                list(table.shape[:-1]) or None,
                state_names=own,
            )
        )
    return model


def from_pyagrum(model: Any) -> FactorGraph:
    """Return the field of a ``BayesNet`` or ``MarkovRandomField`` of pyAgrum.

    Variables are numbered in the order of the model's node ids; names of variables and states (labels) are kept. Of a
    Bayesian network every child is last in its scope.

    Raises
    ------
    MissingDependencyError
        Without pyAgrum.

    Examples
    --------
    >>> from hiddenfield.fields import read  # doctest: +SKIP
    >>> from_pyagrum(to_pyagrum(read("docs/examples/sprinkler.bif"))).variable_names  # doctest: +SKIP
    ('cloudy', 'sprinkler', 'rain', 'grass')
    """
    _imported("pyagrum", "a model of pyAgrum")
    if hasattr(model, "cpt"):
        tensors = [model.cpt(node) for node in model.nodes()]
    elif hasattr(model, "factors"):
        tensors = [model.factor(scope) for scope in model.factors()]
    else:
        raise InputError(f"from_pyagrum takes a BayesNet or MarkovRandomField, got {type(model).__name__}")
    nodes = [model.variable(node) for node in sorted(model.nodes())]
    names = [node.name() for node in nodes]
    numbers = {name: number for number, name in enumerate(names)}
    scopes, tables = [], []
    for tensor in tensors:
        # Arrays of pyAgrum have the axes of a tensor in reverse; the first variable of a CPT is the child.
        scopes.append([numbers[name] for name in reversed(tensor.names)])
        tables.append(np.array(tensor.toarray(), dtype=float))
    return _field(scopes, tables, names, [list(node.labels()) for node in nodes])


def to_pyagrum(field: FactorGraph) -> Any:
    """Return a field as a ``BayesNet`` of pyAgrum where it is one, else as a ``MarkovRandomField``.

    Names that the field does not have are made up: x0, x1, ... with states s0, s1, ... Factors of one scope are merged.

    Raises
    ------
    MissingDependencyError
        Without pyAgrum.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid, read  # doctest: +SKIP
    >>> (  # doctest: +SKIP
    ...     type(to_pyagrum(read("docs/examples/sprinkler.bif"))).__name__,
    ...     type(to_pyagrum(ising_grid(2, 2))).__name__,
    ... )
    ('BayesNet', 'MarkovRandomField')
    """
    gum = _imported("pyagrum", "a model of pyAgrum")
    names, states = _names(field)
    network = _conditional(field)
    model = gum.MarkovRandomField() if network is None else gum.BayesNet()
    for name, own in zip(names, states, strict=True):
        model.add(gum.LabelizedVariable(name, name, own))
    if network is None:
        for scope, table in _merged(field):
            model.addFactor([names[v] for v in scope])
            _fill(model.factor({names[v] for v in scope}), [names[v] for v in scope], np.exp(table))
        return model
    for child, (parents, table) in enumerate(network):
        for parent in parents:
            model.addArc(names[parent], names[child])
        _fill(model.cpt(names[child]), [names[v] for v in (*parents, child)], _normalised(table))
    return model


def _fill(tensor: Any, scope: Sequence[str], table: Array) -> None:
    """Fill a tensor of pyAgrum, whose arrays have its axes in reverse."""
    tensor[:] = np.ascontiguousarray(table.transpose([scope.index(name) for name in reversed(tensor.names)]))


def _imported(module: str, purpose: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingDependencyError.for_extra(module.split(".")[0], "peers", purpose) from None


def _numbered(names: Sequence[Any], states: Iterable[Any]) -> dict[Any, int]:
    known = set(states)
    lonely = next((name for name in names if name not in known), None)
    if lonely is not None:
        raise InputError(f"variable {lonely!r} of the model is in no factor; add one")
    return {name: number for number, name in enumerate(names)}


def _field(
    scopes: list[list[int]], tables: list[Array], names: list[str], states: list[list[str]]
) -> FactorGraph:
    for scope, table in zip(scopes, tables, strict=True):
        if not (table >= 0).all():
            raise InputError(f"the factor over {[names[v] for v in scope]} holds negative numbers or NaN")
    with np.errstate(divide="ignore"):
        logs = [np.log(table) for table in tables]
    cards = [len(own) for own in states]
    return from_factors(scopes, logs, cards, variable_names=names, state_names=states)


def _names(field: FactorGraph) -> tuple[list[str], list[list[str]]]:
    names = list(field.variable_names) or [f"x{v}" for v in range(field.num_variables)]
    states = [list(own) for own in field.state_names]
    return names, states or [[f"s{k}" for k in range(card)] for card in field.cardinalities.tolist()]


def _conditional(field: FactorGraph) -> Scopes | None:
    """Return parents and log tables of a field that is a Bayesian network, or None."""
    try:
        return conditional_tables(field)
    except InputError:
        ground_tables(field)  # what has no ground factors is refused, whatever it is
        return None


def _merged(field: FactorGraph) -> Scopes:
    """Return factors of which no two have one scope and every variable has some; the constant is part of the first."""
    found: dict[frozenset[int], tuple[list[int], Array]] = {}
    constant = 0.0
    lonely = [([v], np.zeros(card)) for v, card in enumerate(field.cardinalities.tolist())]
    listed = ground_tables(field)
    covered = {v for scope, _ in listed for v in scope}
    for scope, table in listed + [each for each in lonely if each[0][0] not in covered]:
        if not scope:
            constant += float(table)
            continue
        kept, sofar = found.get(frozenset(scope), (scope, np.zeros(table.shape)))
        found[frozenset(scope)] = kept, sofar + table.transpose([scope.index(v) for v in kept])
    factors = list(found.values())
    if factors:
        factors[0] = factors[0][0], factors[0][1] + constant
    return factors


def _normalised(table: Array) -> Array:
    """Return probabilities of log tables whose rows sum to 1 up to rounding, without that."""
    values = np.exp(table)
    return np.asarray(values / values.sum(axis=-1, keepdims=True))


def from_networkx(
    graph: networkx.Graph,
    *,
    node_log_potential: str = "log_potential",
    edge_log_potential: str = "log_potential",
    state_names: str = "states",
    dtype: torch.dtype = torch.float64,
) -> FactorGraph:
    """Build a pairwise field from a networkx graph: one variable per node, one factor per edge.

    Variables are numbered in the order of the nodes and named after them. A self-loop becomes a potential of its node;
    a multigraph has a factor for each of its edges.

    Parameters
    ----------
    graph
        Graph, DiGraph, MultiGraph or MultiDiGraph.
    node_log_potential
        Name of the node attribute with K log potentials. A node without it has zeros, as many as its edges say.
    edge_log_potential
        Name of the edge attribute with the log table. Its axes are (source, target) of a directed edge, and of an
        undirected one the nodes in the order in which the graph has them.
    state_names
        Name of the node attribute with the names of its states, where every node has it.
    dtype
        Of the potentials.

    Returns
    -------
    FactorGraph
        One graph, a variable of K states for each node; linear in nodes, edges and the entries of their tables.

    Examples
    --------
    >>> import networkx, numpy as np
    >>> graph = networkx.Graph()
    >>> graph.add_node("rain", log_potential=np.log([0.8, 0.2]), states=["no", "yes"])
    >>> graph.add_node("wet", states=["no", "yes"])
    >>> graph.add_edge("rain", "wet", log_potential=np.log([[0.9, 0.1], [0.2, 0.8]]))
    >>> field = from_networkx(graph)
    >>> field.variable_names, field.log_unary[:2].exp()
    (('rain', 'wet'), tensor([0.8000, 0.2000], dtype=torch.float64))
    """
    number = {node: position for position, node in enumerate(graph)}
    names = tuple(str(node) for node in graph)
    if len(set(names)) < len(names):
        raise InputError(
            "two nodes have the same name as text; rename one of them, since variables are found by their names"
        )
    scopes: list[list[int]] = []
    tables: list[Any] = []
    sizes: dict[int, int] = {}
    for node, attributes in graph.nodes(data=True):
        if node_log_potential in attributes:
            table = _array(attributes[node_log_potential], 1, f"{node_log_potential!r} of node {node!r}")
            scopes.append([number[node]])
            tables.append(table)
            sizes[number[node]] = table.shape[0]
        elif state_names in attributes:
            sizes[number[node]] = len(attributes[state_names])
    for first, second, attributes in graph.edges(data=True):
        where = f"edge ({first!r}, {second!r})"
        if edge_log_potential not in attributes:
            raise InputError(f"{where} has no attribute {edge_log_potential!r}; it holds the log table")
        table = _array(attributes[edge_log_potential], 2, f"{edge_log_potential!r} of {where}")
        scope = [number[first], number[second]]
        if not graph.is_directed():
            scope.sort()
        for variable, size in zip(scope, table.shape, strict=True):
            known = sizes.setdefault(variable, size)
            if known != size:
                raise InputError(
                    f"the table of {where} has {size} states for node {names[variable]!r}, which has {known}"
                )
        if scope[0] == scope[1]:
            scope, table = scope[:1], table.diagonal()
        scopes.append(scope)
        tables.append(table)
    for node, variable in number.items():
        if variable not in sizes:
            raise InputError(
                f"node {node!r} has neither {node_log_potential!r} nor an edge; how many states has it?"
            )
    stated = [attributes.get(state_names) for _, attributes in graph.nodes(data=True)]
    named = [[str(state) for state in states] for states in stated] if None not in stated else []  # type: ignore[union-attr]
    cardinalities = [sizes[variable] for variable in range(len(sizes))]
    return from_factors(scopes, tables, cardinalities, dtype=dtype, variable_names=names, state_names=named)


def _array(value: Any, axes: int, what: str) -> Any:
    """Return an array or tensor with that many axes."""
    array = value if isinstance(value, torch.Tensor) else np.asarray(value)
    if array.ndim != axes:
        raise InputError(f"{what} must have {axes} axes, got shape {tuple(array.shape)}")
    return array
