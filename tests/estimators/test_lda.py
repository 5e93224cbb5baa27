"""Topics of documents as an estimator: real corpora, saved models, and what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import hiddenfield as hf
from hiddenfield.data import as_documents
from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.estimators import LatentDirichletAllocation, choose_size
from hiddenfield.learning import Shards

TEXTS = ["milk bread butter", "bread milk", "wheel brake road", "road wheel", "milk butter"] * 6


@pytest.fixture(autouse=True)
def _not_to_the_end():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.fixture(scope="module")
def reuters(data_path):
    return as_documents(data_path / "incomplete" / "lda_reuters.ldac.txt.xz")


@pytest.mark.parametrize("fill", ["variational", "expectation", "gibbs"])
def test_two_topics_are_found_and_saved(fill, tmp_path):
    model = LatentDirichletAllocation(2, fill=fill, max_iterations=60, restarts=3).fit(TEXTS)
    found = sorted(sorted(words) for words in model.top_words(3))
    assert found == [["brake", "road", "wheel"], ["bread", "butter", "milk"]]
    groups = model.predict(TEXTS)
    assert len(set(groups[[0, 1, 4]])) == 1
    assert groups[0] != groups[2]
    model.save(tmp_path / "model")
    loaded = hf.load(tmp_path / "model")
    new = ["butter and road", "nothing known", ""]
    np.testing.assert_array_equal(loaded.transform(new), model.transform(new))
    np.testing.assert_allclose(model.transform(new)[1], model.concentration_ / model.concentration_.sum())
    assert model.log_likelihood(new)[2] == pytest.approx(0, abs=1e-9)
    assert loaded.num_free_ == 2 * 5 + 2
    again = clone(model).fit(TEXTS)
    np.testing.assert_array_equal(again.topics_, model.topics_)


def test_held_out_words_are_predicted_as_well_as_by_scikit_learn(reuters):
    from sklearn.decomposition import LatentDirichletAllocation as Peer

    order = np.random.default_rng(0).permutation(len(reuters))
    train, test = reuters[order[:300]], reuters[order[300:]]
    model = LatentDirichletAllocation(10, max_iterations=30).fit(train)
    gibbs = LatentDirichletAllocation(10, fill="gibbs", max_iterations=60).fit(train)
    peer = Peer(10, max_iter=10, random_state=0).fit(train.counts)
    first, second = test.halves(np.random.default_rng(0))
    law = peer.transform(first.counts) @ (peer.components_ / peer.components_.sum(axis=1, keepdims=True))
    counts = second.counts.toarray()
    theirs = np.exp(-(counts * np.log(law)).sum() / counts.sum())
    ours = np.exp(-(counts * np.log(model.transform(first) @ model.topics_)).sum() / counts.sum())
    assert model.perplexity(test, random_state=0) == pytest.approx(ours)
    assert ours < theirs
    assert gibbs.perplexity(test, random_state=0) < theirs
    assert gibbs.coherence(train).mean() > 0.05


def test_coherence_is_that_of_pairs():
    counts = np.array([[1, 1, 0], [2, 1, 0], [1, 0, 1], [0, 0, 1]], float)
    model = LatentDirichletAllocation(2, max_iterations=5).fit(counts)

    def between(v, w):
        both = ((counts[:, v] > 0) & (counts[:, w] > 0)).mean()
        if both == 0:
            return -1.0
        return np.log(both / (counts[:, v] > 0).mean() / (counts[:, w] > 0).mean()) / -np.log(both)

    expected = np.mean([between(0, 1), between(0, 2), between(1, 2)])
    np.testing.assert_allclose(model.coherence(counts, 3), expected)


def test_parts_batches_sizes_and_samples():
    counts = as_documents(TEXTS).counts
    words = as_documents(TEXTS).words
    options = {"max_iterations": 20, "words": words, "restarts": 3}
    for model, data in (
        (LatentDirichletAllocation(2, batch_size=8, **options), counts),
        (LatentDirichletAllocation(2, **options), Shards([counts[:15], counts[15:]])),
    ):
        model.fit(data)
        assert {"milk", "bread", "butter"} in [set(own) for own in model.top_words(3)]
    found = choose_size(
        LatentDirichletAllocation(**options), as_documents(TEXTS), [1, 2], criterion="cross_validation"
    )
    assert found.best == 2
    assert np.isnan(found.icl).all()
    drawn, shares = found.best_estimator.sample(500, random_state=0)
    assert drawn.shape == (500, len(words))
    assert drawn.sum(axis=1).mean() == pytest.approx(counts.sum(axis=1).mean(), rel=0.1)
    np.testing.assert_allclose(shares.sum(axis=1), 1)


@pytest.mark.bad_input
def test_what_cannot_be_is_refused():
    model = LatentDirichletAllocation(2, max_iterations=5)
    for wrong, message in (
        (["", ""], "there are no words in the 2 sample"),
        ([], "there are no words in the 0 sample"),
        (np.full((2, 2), np.nan), "document 0 has nan"),
    ):
        with pytest.raises(InputError, match=message):
            clone(model).fit(wrong)
    with pytest.raises(InputError, match="'fill' parameter"):
        clone(model).set_params(fill="mode").fit(TEXTS)
    with pytest.raises(InputError, match="documents have no weights"):
        clone(model).fit(TEXTS, sample_weight=np.ones(30))
    with pytest.raises(InputError, match="needs all documents at once"):
        clone(model).set_params(fill="gibbs").fit(Shards([TEXTS]))
    with pytest.raises(InputError, match="batches are for fill='expectation' and 'variational'"):
        clone(model).set_params(fill="gibbs", batch_size=3).fit(TEXTS)
    model.fit(TEXTS)
    for refused in (model.impute, model.sample_missing, model.icl):
        with pytest.raises(InputError):
            refused(TEXTS)
    with pytest.raises(InputError, match="X has 2 columns, and there are 6 words"):
        model.transform(np.ones((1, 2)))
    with pytest.raises(InputError, match="no document has a word"):
        model.perplexity(["unknown"])
