"""Embedded inference against the papers' equations, written as plain loops over nodes and neighbours."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import hiddenfield as hf
from hiddenfield.data import from_edges
from hiddenfield.embedding import (
    EMBEDDINGS,
    FeatureSizes,
    GeneralizedBP,
    LoopyBP,
    Predictor,
    TreeReweighted,
    inputs,
)
from hiddenfield.embedding.inputs import ArcKinds
from hiddenfield.embedding.predictor import Standardise
from hiddenfield.errors import InputError

NAMES = sorted(EMBEDDINGS)


def random_pack(seed, graphs=3, probability=0.4, attributes=True):
    """Return small random graphs with labels and attributes on nodes and edges; some are empty or without edges."""
    random = np.random.default_rng(seed)
    sizes = random.integers(0, 7, graphs)
    ends, offset = [], 0
    for size in sizes:
        graph = nx.gnp_random_graph(int(size), probability, seed=int(random.integers(1 << 30)))
        ends += [(a + offset, b + offset) for a, b in graph.edges]
        offset += size
    return from_edges(
        [a for a, _ in ends],
        [b for _, b in ends],
        node_ptr=np.concatenate([[0], np.cumsum(sizes)]),
        node_labels={"kind": random.integers(0, 3, offset), "size": random.integers(0, 2, offset)},
        node_attributes=random.normal(size=(offset, 2)) if attributes else None,
        edge_labels=random.integers(0, 2, len(ends)) if ends else np.zeros(0, dtype=np.int64),
        edge_attributes=random.normal(size=(len(ends), 1)) if attributes else None,
    )


def build(name, pack, **options):
    torch.manual_seed(0)
    return EMBEDDINGS[name](FeatureSizes.of(pack), dim=5, rounds=options.pop("rounds", 3), **options).double()


def project(projection, labels, attributes, sizes):
    """Apply a projection to one row, through the one-hot vector that it stands for."""
    result = torch.zeros(5, dtype=torch.float64) if projection.bias is None else projection.bias.clone()
    for column, label in enumerate([] if labels is None else labels.tolist()):
        result = result + projection.table[sum(sizes[:column]) + label]
    if projection.weight is not None:
        result = result + projection.weight @ attributes.double()
    return result


class Plain:
    """A pack as dictionaries: features of nodes, of directed edges, and neighbours."""

    def __init__(self, pack, model):
        self.pack, self.model, self.sizes = pack, model, model.sizes
        ends = list(zip(pack.source.tolist(), pack.target.tolist(), strict=True))
        self.arc = {pair: number for number, pair in enumerate(ends)}
        self.into = {i: [s for s, t in ends if t == i] for i in range(pack.total_nodes)}

    def x(self, projection, i):
        attributes = self.pack.node_attributes
        attributes = None if attributes is None else attributes[i]
        return project(projection, self.pack.node_labels[i], attributes, self.sizes.node_labels)

    def e(self, pair):
        a = self.arc[pair]
        attributes = self.pack.arc_attributes
        attributes = None if attributes is None else attributes[a]
        return project(self.model.arcs, self.pack.arc_labels[a], attributes, self.sizes.arc_labels)

    def sum(self, terms):
        return sum(terms, torch.zeros(5, dtype=torch.float64))


def plain_mean_field(p, m):
    state = {i: torch.zeros(5, dtype=torch.float64) for i in p.into}
    for _ in range(m.rounds):
        state = {
            i: torch.relu(
                p.x(m.own, i)
                + m.messages @ p.sum(state[j] for j in p.into[i])
                + p.sum(p.x(m.neighbours, j) for j in p.into[i])
                + p.sum(p.e((j, i)) for j in p.into[i])
            )
            for i in p.into
        }
    return state


def zero_messages(p):
    return {pair: torch.zeros(5, dtype=torch.float64) for pair in p.arc}


def plain_loopy_bp(p, m):
    nu = zero_messages(p)
    for _ in range(m.rounds):
        nu = {
            (i, j): torch.relu(
                p.x(m.sender, i) + p.e((i, j)) + m.messages @ p.sum(nu[k, i] for k in p.into[i] if k != j)
            )
            for i, j in nu
        }
    return {i: torch.relu(p.x(m.own, i) + m.received @ p.sum(nu[k, i] for k in p.into[i])) for i in p.into}


def plain_carried(p, m, message):
    nu, mu = zero_messages(p), {i: torch.zeros(5, dtype=torch.float64) for i in p.into}
    for _ in range(m.rounds):
        nu = {
            (i, j): torch.relu(p.x(m.sender, i) + p.e((i, j)) + message(nu, i, j) + m.sender_marginal @ mu[i])
            for i, j in nu
        }
        mu = {
            i: torch.relu(
                p.x(m.own, i) + m.received @ p.sum(nu[k, i] for k in p.into[i]) + m.own_marginal @ mu[i]
            )
            for i in p.into
        }
    return mu


def plain_double_loop(p, m):
    return plain_carried(
        p,
        m,
        lambda nu, i, j: m.messages @ p.sum(nu[k, i] for k in p.into[i] if k != j) + m.reverse @ nu[j, i],
    )


def plain_damped(p, m):
    return plain_carried(p, m, lambda nu, i, j: m.messages @ p.sum(nu[k, i] for k in p.into[i]))


def plain_tree_reweighted(p, m):
    v = m.prepare(p.pack)[0].arc_attributes.double().flatten()
    nu = zero_messages(p)
    for _ in range(m.rounds):
        nu = {
            (i, j): torch.relu(
                p.x(m.sender, i)
                + p.e((i, j))
                + m.messages @ p.sum(v[p.arc[k, i]] * nu[k, i] for k in p.into[i] if k != j)
                + m.reverse @ ((1 - v[p.arc[i, j]]) * nu[j, i])
            )
            for i, j in nu
        }
    total = {i: p.sum(v[p.arc[k, i]] * nu[k, i] for k in p.into[i]) for i in p.into}
    return {i: torch.relu(p.x(m.own, i) + m.received @ total[i]) for i in p.into}


def plain_generalized_bp(p, m):
    """Run equations 21 and 22 with the sets M(r) and M(r, s) by their definition."""
    graph = nx.Graph(list(p.arc))
    nodes = {frozenset([i]) for i in p.into}
    edges = {frozenset(pair) for pair in p.arc}
    cycles = {frozenset(c): c for c in nx.chordless_cycles(graph, m.longest_cycle) if len(c) > 2}
    cycle_edges = {
        key: {frozenset(q) for q in zip(c, c[1:] + c[:1], strict=True)} for key, c in cycles.items()
    }
    below = {r: {r} for r in nodes}
    below |= {("edge", e): {("edge", e)} | {frozenset([i]) for i in e} for e in edges}
    below |= {
        ("cycle", c): {("cycle", c)} | set().union(*(below["edge", e] for e in cycle_edges[c]))
        for c in cycles
    }
    pairs = [(("edge", e), frozenset([i])) for e in edges for i in e]
    cycle_pairs = [(("cycle", c), ("edge", e)) for c in cycles for e in cycle_edges[c]]
    everything = pairs + cycle_pairs

    def coming_in(r):
        return {q for q in everything if q[1] in below[r] and q[0] not in below[r]}

    nu = {pair: torch.zeros(5, dtype=torch.float64) for pair in everything}
    for _ in range(m.rounds):
        for group in (pairs, cycle_pairs):
            new = {}
            for r, s in group:
                members = r[1] - (s if isinstance(s, frozenset) else s[1])
                plus = coming_in(r) - coming_in(s)
                minus = {q for q in everything if q[0] in below[r] - below[s] and q[1] in below[s]} - {(r, s)}
                total = p.sum(p.x(m.sender, i) for i in members)
                if r[0] == "edge":
                    (j,), (i,) = members, s
                    total = total + p.e((j, i))
                total = (
                    total
                    + m.messages @ p.sum(nu[q] for q in plus)
                    - m.overcounted @ p.sum(nu[q] for q in minus)
                )
                new[r, s] = torch.relu(total)
            nu |= new
    return {
        i: torch.relu(p.x(m.own, i) + m.received @ p.sum(nu[q] for q in coming_in(frozenset([i]))))
        for i in p.into
    }


PLAIN = {name: globals()[f"plain_{name}"] for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=12)
@given(seed=st.integers(0, 10_000))
def test_the_module_computes_the_papers_equations(name, seed):
    pack = random_pack(seed, probability=0.5)
    model = build(name, pack)
    expected = PLAIN[name](Plain(pack, model), model)
    result = model(pack, *model.prepare(pack))
    assert result.shape == (pack.total_nodes, 5)
    for i, row in enumerate(result):
        assert torch.allclose(row, expected[i], atol=1e-6, rtol=1e-5), (name, i)


@pytest.mark.parametrize("name", ["loopy_bp", "mean_field"])
def test_labels_alone_give_the_papers_equations_too(name):
    pack = random_pack(1, graphs=120, attributes=False)
    model = build(name, pack)
    assert ArcKinds.of(pack, model.sizes, torch.float64) is not None
    expected = PLAIN[name](Plain(pack, model), model)
    for i, row in enumerate(model(pack)):
        assert torch.allclose(row, expected[i], atol=1e-6, rtol=1e-5), i


@pytest.mark.parametrize("activation", ["relu", "silu"])
@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_kinds_of_arcs_change_nothing_but_the_cost(rounds, activation, monkeypatch):
    pack = random_pack(2, graphs=60, attributes=False)
    model = build("loopy_bp", pack, rounds=rounds, activation=activation)
    results = []
    for arcs in (1, 1_000_000):
        monkeypatch.setattr(inputs, "ARCS_OF_A_KIND", arcs)
        assert (ArcKinds.of(pack, model.sizes, torch.float64) is None) == (arcs > 1)
        out = model(pack, every_round=True)
        used = [parameter for key, parameter in model.named_parameters() if rounds > 1 or key != "messages"]
        results.append((out, *torch.autograd.grad((out**2).sum(), used)))
    for ours, theirs in zip(*results, strict=True):
        assert torch.allclose(ours, theirs)


def test_kinds_of_arcs_are_the_pairs_that_occur(monkeypatch):
    pack = random_pack(3, graphs=120, attributes=False)
    sizes = FeatureSizes.of(pack)
    kinds = ArcKinds.of(pack, sizes, torch.float32)
    features = torch.cat([pack.node_labels[pack.source.long()], pack.arc_labels], dim=1)
    distinct, expected = features.unique(dim=0, return_inverse=True)
    assert torch.equal(kinds.kind, expected)
    assert kinds.senders.rows == kinds.arcs.rows == len(distinct)
    assert torch.equal(kinds.arcs.symbols.source, distinct[:, 2])
    monkeypatch.setattr(inputs, "MOST_PAIRS", 3)
    assert ArcKinds.of(pack, sizes, torch.float32) is None
    assert ArcKinds.of(pack[:0], sizes, torch.float32) is None


@pytest.mark.parametrize("name", NAMES)
def test_structures_do_not_see_each_other(name):
    pack = random_pack(3, graphs=6)
    model = build(name, pack)
    prepared = model.prepare(pack)
    whole = model(pack, *prepared)
    order = [4, 0, 5, 5, 2]
    batch = pack[order]
    cut = model(batch, *(part[order] for part in prepared))
    apart = torch.cat([model(pack[k], *model.prepare(pack[k])) for k in order])
    rows = torch.cat([torch.arange(int(pack.node_ptr[k]), int(pack.node_ptr[k + 1])) for k in order])
    assert torch.allclose(cut, whole[rows])
    assert torch.allclose(cut, apart)


@pytest.mark.parametrize("attributes", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_mixed_precision_agrees_roughly(name, attributes):
    pack = random_pack(4, graphs=60, attributes=attributes)
    model = build(name, pack).float()
    prepared = model.prepare(pack)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = model(pack, *prepared)
    mixed.float().sum().backward()
    assert all(
        parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None
    )
    full = model(pack, *prepared)
    assert (mixed - full).abs().max() < 0.05 * full.abs().max()


@pytest.mark.parametrize("name", NAMES)
def test_numbering_of_nodes_does_not_matter(name):
    pack = random_pack(11, graphs=1)
    order = np.random.default_rng(0).permutation(pack.total_nodes)
    place = np.argsort(order)
    again = hf.Structures.from_arcs(
        place[pack.source.numpy()],
        place[pack.target.numpy()],
        node_ptr=pack.node_ptr,
        node_labels=pack.node_labels[order],
        node_vocabularies=pack.node_vocabularies,
        node_attributes=pack.node_attributes[order],
        arc_labels=pack.arc_labels,
        arc_vocabularies=pack.arc_vocabularies,
        arc_attributes=pack.arc_attributes,
    )
    model = build(name, pack)
    assert torch.allclose(model(again, *model.prepare(again)), model(pack, *model.prepare(pack))[order])


@pytest.mark.parametrize("name", NAMES)
def test_every_round_ends_with_the_last(name):
    pack = random_pack(5)
    model = build(name, pack)
    prepared = model.prepare(pack)
    every = model(pack, *prepared, every_round=True)
    assert every.shape == (pack.total_nodes, 15)
    assert torch.equal(every[:, 10:], model(pack, *prepared))
    shorter = build(name, pack, rounds=2)
    assert torch.allclose(every[:, 5:10], shorter(pack, *prepared))


@pytest.mark.parametrize("name", NAMES)
def test_gradients_agree_with_finite_differences(name):
    """The chain rule of appendix C is autograd's; tanh keeps the differences away from relu's kink."""
    pack = random_pack(8, graphs=2)
    model = build(name, pack, activation="tanh")
    prepared = model.prepare(pack)
    parameters = list(model.parameters())
    names = [key for key, _ in model.named_parameters()]

    def loss(*values):
        result = torch.func.functional_call(model, dict(zip(names, values, strict=True)), (pack, *prepared))
        return (result**2).sum()

    assert torch.autograd.gradcheck(loss, tuple(parameters), atol=1e-6)


def test_on_a_tree_weights_are_one_and_reweighting_does_nothing():
    graph = nx.random_labeled_tree(9, seed=2)
    pack = from_edges(
        *zip(*graph.edges, strict=True), node_ptr=[0, 9], node_labels=[0, 1, 0, 1, 0, 1, 0, 1, 0]
    )
    reweighted, loopy = build("tree_reweighted", pack), build("loopy_bp", pack)
    loopy.load_state_dict(reweighted.state_dict(), strict=False)
    assert torch.allclose(reweighted(pack), loopy(pack), atol=1e-6)
    edges = reweighted.edge_embeddings(pack)
    assert torch.allclose(edges, edges[pack.reverse.long()])


def test_learned_weights_start_at_the_uniform_ones_and_stay_within_bounds():
    pack = random_pack(4, probability=0.7)
    model = TreeReweighted(FeatureSizes.of(pack), dim=5, weights="learned").double()
    uniform = model.prepare(pack)[0].arc_attributes.double()
    assert torch.allclose(model.arc_weights(pack, (), None), uniform)
    with torch.no_grad():
        model.weight_shift.copy_(torch.tensor([-3.0, 2.0]))
    weights = model.arc_weights(pack, (), None)
    assert ((weights > 0) & (weights <= 1)).all()
    assert (weights[uniform == 1] == 1).all()


def test_without_cycles_generalized_propagation_is_loopy_propagation():
    graph = nx.random_labeled_tree(8, seed=1)
    tree = from_edges(*zip(*graph.edges, strict=True), node_ptr=[0, 8])
    general = GeneralizedBP(FeatureSizes.of(tree), dim=5).double()
    loopy = LoopyBP(FeatureSizes.of(tree), dim=5).double()
    loopy.load_state_dict(general.state_dict(), strict=False)
    assert torch.allclose(general(tree), loopy(tree))


@pytest.mark.parametrize("name", NAMES)
def test_two_triangles_and_a_hexagon(name):
    """Colour refinement takes them for the same; only regions that contain cycles tell them apart."""
    pair = from_edges(
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [1, 2, 0, 4, 5, 3, 7, 8, 9, 10, 11, 6], node_ptr=[0, 6, 12]
    )
    torch.manual_seed(0)
    network = Predictor(FeatureSizes.of(pair), 1, model=name, dim=8).double()
    triangles, hexagon = network.embed(pair, *network.prepare(pair))
    alike = torch.allclose(triangles, hexagon)
    # Spanning trees see cycles as well: an edge of a triangle is in 2 of 3 trees, one of a hexagon in 5 of 6.
    assert alike == (name not in ("generalized_bp", "tree_reweighted"))


@pytest.mark.parametrize("pooling", ["sum", "mean", "max"])
@pytest.mark.parametrize("every_round", [False, True])
@pytest.mark.parametrize("node_width", [None, 7])
@pytest.mark.parametrize("standardise", [False, True])
def test_networks_of_every_shape(pooling, every_round, node_width, standardise):
    pack = random_pack(2, graphs=4)
    options = {
        "pooling": pooling, "every_round": every_round, "node_width": node_width, "standardise": standardise
    }  # fmt: skip
    network = Predictor(FeatureSizes.of(pack), 3, model="loopy_bp", dim=5, rounds=2, dropout=0.1, **options)
    result = network(pack)
    assert result.shape == (4, 3)
    assert result.isfinite().all()
    again = Predictor(network.embedding.sizes, **network.settings())
    again.load_state_dict(network.state_dict())
    assert torch.equal(again.eval()(pack), network.eval()(pack))
    assert network.embed(pack).shape == (4, network.width)


def test_standardised_embeddings_are_those_of_batch_normalisation():
    rows = torch.randn(3, 20, 4) * torch.tensor([1.0, 10.0, 0.1, 3.0]) + 5.0
    own, peer = Standardise(4), torch.nn.BatchNorm1d(4)
    for batch in rows:
        assert torch.allclose(own(batch), peer(batch))
    kept = own.mean.clone()
    assert own(rows[0, :1]).isfinite().all()  # a batch of one has no variance: it is scaled by the averages
    assert torch.equal(own.mean, kept)
    assert torch.allclose(own.eval()(rows[1]), peer.eval()(rows[1]))


def test_structures_without_features_get_a_constant():
    pack = from_edges([0], [1], node_ptr=[0, 2, 3, 3])
    for name in NAMES:
        result = Predictor(FeatureSizes.of(pack), 1, model=name, dim=4)(pack)
        assert result.isfinite().all()
        assert result.shape == (3, 1)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "loopy"}, "unknown model 'loopy'"),
        ({"pooling": "median"}, "unknown pooling"),
        ({"activation": "step"}, "unknown activation"),
        ({"dim": 0}, "dim must be an integer of at least 1"),
        ({"rounds": 1.5}, "rounds must be an integer"),
        ({"dropout": 1.0}, "dropout must lie"),
        ({"longest_cycle": 5}, "model 'loopy_bp' has no option 'longest_cycle'"),
        ({"model": "tree_reweighted", "weights": "none"}, "'uniform' or 'learned'"),
    ],
)
def test_bad_settings_are_refused_with_the_choices(options, message):
    with pytest.raises(InputError, match=message):
        Predictor(FeatureSizes(node_labels=(3,)), 1, **options)


def test_labels_that_the_model_was_not_built_for():
    words = hf.data.from_sequences(["GAT"])
    bare = words.replace(node_labels=None, node_vocabularies=())
    with pytest.raises(InputError, match="built for 1 label columns, the structures have 0"):
        Predictor(FeatureSizes.of(words), 1)(bare)


def test_a_kind_of_nodes_that_send_nothing(monkeypatch):
    """A lone node has a label that no arc's sender has: its row of the table stands for nothing, and is no index."""
    monkeypatch.setattr(inputs, "ARCS_OF_A_KIND", 1)
    pack = from_edges([0, 1], [1, 2], node_ptr=[0, 4], node_labels=[0, 0, 0, 1])
    sizes = FeatureSizes.of(pack)
    real = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *shape, **kind: real(*shape, **kind).fill_(99))
    kinds = ArcKinds.of(pack, sizes, torch.float32)
    assert kinds is not None
    assert kinds.kind.tolist() == [0, 0, 0, 0]
    assert kinds.senders.rows == 2
