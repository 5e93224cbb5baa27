"""Colour refinement: against plain Python, and its laws."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.kernels import bag_of_labels, weisfeiler_lehman
from hiddenfield.ops.equal_rows import Rows, number_rows
from tests.data.strategies import structures

ROUNDS = 3


def colours_in_plain_python(pack, rounds, use_arc_labels):
    """Return for every round the colour of every node, as nested tuples that say all that the colour stands for."""

    def labels(codes, words, row):
        return (
            tuple(word.symbols[int(code)] for code, word in zip(codes[row], words, strict=True))
            if words
            else ()
        )

    colours = [labels(pack.node_labels, pack.node_vocabularies, node) for node in range(pack.total_nodes)]
    result = [colours]
    for _ in range(rounds):
        around = [[] for _ in colours]
        for arc, (source, target) in enumerate(zip(pack.source.tolist(), pack.target.tolist(), strict=True)):
            arc_label = labels(pack.arc_labels, pack.arc_vocabularies, arc) if use_arc_labels else ()
            around[target].append((colours[source], arc_label))
        colours = [
            (own, tuple(sorted(nearby, key=repr))) for own, nearby in zip(colours, around, strict=True)
        ]
        result.append(colours)
    return result


def oracle(pack, rounds, use_arc_labels, known=None):
    """Return the kernel matrix of a pack with itself, or with a pack that the dictionary was fitted on."""
    known = pack if known is None else known
    seen = [set(colours) for colours in colours_in_plain_python(known, rounds, use_arc_labels)]
    every = colours_in_plain_python(pack, rounds, use_arc_labels)
    bounds = pack.node_ptr.tolist()
    counts = [
        Counter((t, c) for t in range(rounds + 1) for c in every[t][start:stop] if c in seen[t])
        for start, stop in pairwise(bounds)
    ]
    gram = [[sum(n * b[c] for c, n in a.items()) for b in counts] for a in counts]
    return np.array(gram).reshape(len(counts), len(counts))


def gram(features):
    return (features @ features.T).toarray()


@given(structures(), st.integers(0, ROUNDS), st.booleans())
def test_agrees_with_plain_python(pack, rounds, use_arc_labels):
    features, colours = weisfeiler_lehman(pack, rounds, use_arc_labels=use_arc_labels)
    assert features.shape == (len(pack), colours.num_features)
    assert np.array_equal(gram(features), oracle(pack, rounds, use_arc_labels))
    distinct = [len(set(c)) for c in colours_in_plain_python(pack, rounds, use_arc_labels)]
    assert [len(rows) for rows in colours.rounds] == distinct


@given(structures(max_structures=6), st.integers(0, 6), st.booleans())
def test_new_structures_are_counted_in_the_fitted_columns(pack, cut, use_arc_labels):
    seen, new = pack[: min(cut, len(pack))], pack[min(cut, len(pack)) :]
    fitted, colours = weisfeiler_lehman(seen, ROUNDS, use_arc_labels=use_arc_labels)
    again, same = weisfeiler_lehman(seen, vocabulary=colours)
    assert same is colours
    assert (fitted != again).nnz == 0
    features, _ = weisfeiler_lehman(new, vocabulary=colours)
    assert features.shape == (len(new), colours.num_features)
    assert np.array_equal(gram(features), oracle(new, ROUNDS, use_arc_labels, known=seen))


@given(structures(max_structures=1, max_nodes=6, max_arcs=9), st.randoms(use_true_random=False))
def test_isomorphic_structures_have_equal_features(pack, order):
    shuffled = renumbered(pack, order)
    features, _ = weisfeiler_lehman(hf.concatenate([pack, shuffled]), ROUNDS)
    assert (features[: len(pack)] != features[len(pack) :]).nnz == 0


def renumbered(pack: hf.Structures, order: random.Random) -> hf.Structures:
    """Return the one structure of a pack with its nodes in another order."""
    place = list(range(pack.total_nodes))
    order.shuffle(place)
    new = np.array(place, dtype=np.int64)
    options = {}
    if pack.node_labels is not None:
        options["node_labels"] = pack.node_labels.numpy()[np.argsort(new)]
        options["node_vocabularies"] = pack.node_vocabularies
    if pack.arc_labels is not None:
        options["arc_labels"], options["arc_vocabularies"] = pack.arc_labels.numpy(), pack.arc_vocabularies
    bare = pack.replace(
        node_attributes=None, node_attribute_names=(), arc_attributes=None, arc_attribute_names=()
    )
    source, target = new[bare.source.numpy()], new[bare.target.numpy()]
    built = hf.Structures.from_arcs(source, target, node_ptr=pack.node_ptr.numpy(), **options)
    return pack.replace(
        **{
            name: getattr(built, name)
            for name in ("in_ptr", "source", "reverse", "node_labels", "arc_labels")
        }
    )


@given(structures(max_nodes=6, max_arcs=9), st.booleans())
def test_refinement_only_refines(pack, use_arc_labels):
    """Nodes of one colour had one colour before; once the number of colours stays, so does the partition."""
    _, colours = weisfeiler_lehman(pack, 4, use_arc_labels=use_arc_labels)
    sizes = [len(rows) for rows in colours.rounds]
    assert sizes == sorted(sizes)
    for rows in colours.rounds[1:]:
        own = rows.values[rows.ptr[:-1]]
        assert set(own.tolist()) == set(range(int(own.max()) + 1 if len(own) else 0))
    for before, after in pairwise(sizes):
        if before == after:
            assert sizes[-1] == before


def test_two_triangles_are_taken_for_a_hexagon():
    ring, triangles = [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]
    next_ring, next_triangles = [1, 2, 3, 4, 5, 0], [1, 2, 0, 4, 5, 3]
    pack = hf.Structures.from_edges(
        ring + triangles, next_ring + next_triangles, node_ptr=[0, 6, 12], edge_ptr=[0, 6, 12]
    )
    features, _ = weisfeiler_lehman(pack, 6)
    assert (features[0] != features[1]).nnz == 0


def test_a_path_is_told_from_a_star_and_arc_labels_count():
    pack = hf.Structures.from_edges(
        [0, 1, 2, 0, 0, 0], [1, 2, 3, 1, 2, 3], node_ptr=[0, 4, 8], edge_ptr=[0, 3, 6]
    )
    features, _ = weisfeiler_lehman(pack, 1)
    assert (features[0] != features[1]).nnz > 0
    labelled = hf.Structures.from_edges(
        [0, 0], [1, 1], node_ptr=[0, 2, 4], edge_ptr=[0, 1, 2], edge_labels=[["single"], ["double"]]
    )
    with_labels, without = (weisfeiler_lehman(labelled, 1, use_arc_labels=use)[0] for use in (True, False))
    assert (with_labels[0] != with_labels[1]).nnz > 0
    assert (without[0] != without[1]).nnz == 0


def test_the_order_of_the_vocabulary_does_not_matter():
    one = hf.data.from_sequences(["GATTACA", "CAT"])
    other = hf.data.from_sequences(["XCAT", "GATTACA"])
    _, colours = weisfeiler_lehman(one, 2)
    here, there = (
        weisfeiler_lehman(one, vocabulary=colours)[0],
        weisfeiler_lehman(other, vocabulary=colours)[0],
    )
    assert (here[0] != there[1]).nnz == 0
    assert there[0, : colours.offsets[1]].sum() == 3  # X is counted nowhere


def test_a_hub_of_many_neighbours():
    leaves = np.arange(1, 200)
    codes = (leaves * 7) % 5
    pack = hf.Structures.from_edges(
        np.zeros_like(leaves), leaves, node_ptr=[0, 200], node_labels=np.concatenate([[0], codes])[:, None]
    )
    assert np.array_equal(gram(weisfeiler_lehman(pack, 2)[0]), oracle(pack, 2, True))


def test_bag_of_labels_is_round_zero():
    words = hf.data.from_sequences(["GATTACA", "CAT", ""])
    bag, labels = bag_of_labels(words)
    features, colours = weisfeiler_lehman(words, 2)
    assert (features[:, : colours.offsets[1]] != bag).nnz == 0
    assert bag_of_labels(words[:1], vocabulary=labels)[0].toarray().tolist() == bag[:1].toarray().tolist()


def test_what_is_refused():
    words = hf.data.from_sequences(["CAT"])
    with pytest.raises(InputError, match="rounds must be an integer of at least 0, got -1"):
        weisfeiler_lehman(words, -1)
    _, colours = weisfeiler_lehman(words)
    with pytest.raises(InputError, match="were fitted on the node label columns"):
        weisfeiler_lehman(hf.Structures.from_edges([0], [1], node_ptr=[0, 2]), vocabulary=colours)


@given(st.lists(st.lists(st.integers(-3, 3), max_size=3), max_size=40))
def test_rows_are_numbered_by_first_appearance(lists):
    ptr = np.cumsum([0] + [len(row) for row in lists])
    rows = Rows(ptr, np.array([value for row in lists for value in row], dtype=np.int64))
    numbers, first = number_rows(rows)
    distinct = list(dict.fromkeys(tuple(row) for row in lists))
    assert numbers.tolist() == [distinct.index(tuple(row)) for row in lists]
    assert [lists.index(list(row)) for row in distinct] == first.tolist()


def test_the_table_grows():
    values = np.random.default_rng(0).integers(0, 9000, size=20_000)
    numbers, first = number_rows(Rows(np.arange(20_001), values))
    assert np.array_equal(values[first][numbers], values)
    assert len(first) == len(np.unique(values))


def test_large_structures_are_counted_too():
    text = "".join(np.random.default_rng(0).choice(list("ABC"), size=500))
    features, _ = weisfeiler_lehman(hf.data.from_sequences([text, "AB"]), rounds=1)
    assert features.has_canonical_format
    assert sorted(features.toarray()[0, :3].tolist()) == sorted(float(text.count(c)) for c in "ABC")
    assert features.sum(axis=1).ravel().tolist() == [[1000.0, 4.0]]
