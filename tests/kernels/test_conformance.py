"""What holds of every kernel of the registry."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.base import clone

import hiddenfield as hf
from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.kernels import KERNELS
from hiddenfield.kernels.base import FeatureKernel, check_memory
from tests.data.strategies import built, structures
from tests.kernels.test_weisfeiler_lehman import renumbered

FEW = settings(max_examples=8)  # of every law, for every kernel
OPTIONS = {
    "geometric_walk": {"decay": 1e-3},  # which converges for all packs that are drawn
    "fisher": {"num_states": 2},
    "probability_product_hmm": {"num_states": 2},
}
EVERY = pytest.mark.parametrize("name", KERNELS)
OF_SEQUENCES = [name for name in KERNELS if KERNELS.facts(name).get("input") == "sequences"]
OF_TREES = [name for name in KERNELS if KERNELS.facts(name).get("input") == "trees"]
OF_GRAPHS = [name for name in KERNELS if name not in (*OF_SEQUENCES, *OF_TREES)]


@st.composite
def trees(draw, max_nodes=6):
    """Ordered trees, the root first."""
    sizes = draw(st.lists(st.integers(0, max_nodes), max_size=4))
    parents = [[draw(st.integers(0, k - 1)) if k else -1 for k in range(size)] for size in sizes]
    letters = [draw(st.lists(st.sampled_from("ABC"), min_size=size, max_size=size)) for size in sizes]
    return built(hf.data.from_parents, parents, node_labels=letters)


@st.composite
def packs(draw, name, **options):
    """A pack that the kernel is for."""
    if name in OF_GRAPHS:
        return draw(structures(**options))
    if name in OF_TREES:
        return draw(trees())
    words = draw(st.lists(st.text("ABC", max_size=9), max_size=4))
    return built(hf.data.from_sequences, words)


def kernel_of(name, **options):
    return KERNELS[name](**OPTIONS.get(name, {}), **options)


def close(first, second):
    return np.allclose(first, second, rtol=1e-8, atol=1e-8)


@EVERY
@FEW
@given(st.data(), st.booleans())
def test_symmetric_and_positive_semidefinite(name, data, normalise):
    pack = data.draw(packs(name))
    gram = kernel_of(name, normalise=normalise).fit(pack).gram(pack)
    assert gram.shape == (len(pack), len(pack))
    assert close(gram, gram.T)
    assert np.linalg.eigvalsh(gram).min(initial=0.0) >= -1e-9 * max(1.0, np.abs(gram).max(initial=0.0))
    if normalise:
        assert np.all(np.isclose(np.diag(gram), 1) | (np.diag(gram) == 0))


@EVERY
@FEW
@given(st.data())
def test_the_order_of_structures_does_not_matter(name, data):
    pack = data.draw(packs(name))
    order = np.array(data.draw(st.permutations(range(len(pack)))), dtype=np.int64)
    gram, shuffled = (kernel_of(name).fit(each).gram(each) for each in (pack, pack[order]))
    assert close(gram[np.ix_(order, order)], shuffled)


@pytest.mark.parametrize("name", OF_GRAPHS)
@FEW
@given(st.data(), st.randoms(use_true_random=False))
def test_the_numbers_of_nodes_do_not_matter(name, data, order):
    pack = data.draw(packs(name, max_nodes=6))
    kernel = kernel_of(name).fit(pack)
    for one in pack:
        other = renumbered(one, order)
        assert close(kernel.gram(one), kernel.gram(other))
        assert close(kernel.gram(one), kernel.gram(one, other))


@EVERY
@FEW
@given(st.data(), st.booleans())
def test_new_structures_with_what_was_not_seen(name, data, normalise):
    """Products with what was fitted do not depend on what else there is; features give the same products."""
    pack = data.draw(packs(name))
    cut = data.draw(st.integers(0, len(pack)))
    seen, new = pack[:cut], pack[cut:]
    kernel = kernel_of(name, normalise=normalise).fit(seen)
    assert close(kernel.gram(new, seen), kernel.gram(pack)[cut:, :cut])
    assert close(kernel.gram(new), kernel.gram(pack)[cut:, cut:])
    if isinstance(kernel, FeatureKernel):
        features, others = kernel.transform(seen), kernel.transform(new)
        assert features.shape[1] == others.shape[1]
        assert close((others @ features.T).toarray(), kernel.gram(new, seen))
        assert close((others @ others.T).toarray(), kernel.gram(new))
        if not normalise and not KERNELS.facts(name).get("learned"):
            assert close(kernel.gram(new, seen), kernel_of(name).fit(pack).gram(new, seen))


@EVERY
@FEW
@given(st.data(), st.booleans())
def test_fitted_and_counted_at_once(name, data, normalise):
    pack = data.draw(packs(name))
    kernel, other = (kernel_of(name, normalise=normalise) for _ in range(2))
    assert close(kernel.fit_gram(pack), other.fit(pack).gram(pack))
    assert close(kernel.gram(pack), other.gram(pack))
    if isinstance(kernel, FeatureKernel):
        features = kernel_of(name, normalise=normalise).fit_transform(pack)
        assert close(features.toarray(), other.transform(pack).toarray())


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in KERNELS
        if issubclass(KERNELS[name], FeatureKernel)
        and KERNELS[name].occurrence is not FeatureKernel.occurrence
    ],
)
def test_what_is_counted_occurs(name):
    words = hf.data.from_sequences(["GATTACA", "CAT", "A", "TACCAT"], arc_labels="direction")
    kernel = kernel_of(name)
    counts = kernel.fit_transform(words).tocoo()
    for row, column in zip(counts.row.tolist(), counts.col.tolist(), strict=True):
        nodes = kernel.occurrence(words[[row]], column)
        assert nodes is not None
        assert set(nodes.tolist()) <= set(range(int(words.num_nodes[row])))
        assert len(nodes) > 0


@EVERY
def test_nothing_one_node_and_no_arcs(name):
    empty, few = hf.data.from_sequences(["A"])[:0], hf.data.from_sequences(["", "A", "A", "B"])
    assert kernel_of(name).fit(empty).gram(few, empty).shape == (4, 0)
    kernel = kernel_of(name).fit(few)
    gram = kernel.gram(few)
    assert np.isfinite(gram).all()
    assert not gram[0].any()
    assert gram[1, 1] == gram[1, 2] == gram[2, 2]
    if name in OF_GRAPHS:
        points = hf.Structures.from_edges([], [], node_ptr=[0, 3, 4], node_labels=np.zeros((4, 1), dtype=int))
        assert np.isfinite(kernel_of(name, normalise=True).fit(points).gram(points)).all()


@EVERY
def test_cloned_pickled_and_in_single_precision(name):
    words = hf.data.from_sequences(["GATTACA", "CATTA", "TTA"])
    kernel = kernel_of(name, normalise=True).fit(words)
    gram = kernel.gram(words)
    assert np.array_equal(pickle.loads(pickle.dumps(kernel)).gram(words), gram)
    assert np.array_equal(clone(kernel).fit(words).gram(words), gram)
    short = kernel.gram(words, dtype=np.float32)
    assert short.dtype == np.float32
    assert np.allclose(short, gram, atol=1e-6)


@EVERY
@pytest.mark.bad_input
def test_what_is_refused(name):
    with pytest.raises(InputError, match="takes a pack of structures, got list"):
        kernel_of(name).fit(["CAT"])
    with pytest.raises(InputError, match="The 'normalise' parameter of"):
        kernel_of(name, normalise="yes").fit(hf.data.from_sequences(["CAT"]))


def test_more_than_fits_into_memory_is_refused_with_its_size():
    with pytest.raises(TooLargeError, match=r"1,000,000 x 1,000,000 takes 7,450.6 GiB.*Nystroem"):
        check_memory((1_000_000, 1_000_000), np.float64)


def test_an_unknown_kernel_lists_the_choices():
    with pytest.raises(InputError, match=r"unknown kernel 'wl_subtre' \(did you mean 'wl_subtree'\?\)"):
        KERNELS.choose("wl_subtre")
