"""ConditionalRandomField as its users meet it: forms of input, missing labels, cycles, saving, bad input."""

import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone

import hiddenfield as hf
from hiddenfield import ConditionalRandomField
from hiddenfield.errors import ConvergenceWarning, InputError

WORDS = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"], []]
TAGS = [["D", "N", "V"]] * 3 + [[]]
FLAT = [tag for tags in TAGS for tag in tags]
TOKENS = [[{"word": word, "length": len(word)} for word in words] for words in WORDS]


def test_sequences_tokens_and_packs_are_labelled() -> None:
    named = [[[f"word={word}"] for word in words] for words in WORDS]
    pack = hf.data.from_sequences(WORDS, arc_labels="direction", node_targets=FLAT)
    for X, y in ((WORDS, TAGS), (TOKENS, TAGS), (named, TAGS), (pack, None), (pack, FLAT)):
        model = ConditionalRandomField().fit(X, y)
        assert [found.tolist() for found in model.predict(X)] == TAGS
        assert (model.score(X, y), model.guarantee_, model.converged_) == (1.0, "exact", True)
        assert model.log_likelihood(X, y).sum() == pytest.approx(model.log_likelihood_)
        assert all(np.allclose(rows.sum(1), 1) for rows in model.predict_proba(X))


def test_symbols_that_were_not_seen_are_predicted_from_the_rest() -> None:
    found = ConditionalRandomField(window=1).fit(WORDS, TAGS).predict([["the", "wombat", "barks"], ["what"]])
    assert [found[0].tolist(), len(found[1])] == [["D", "N", "V"], 1]


def test_labels_that_are_missing_are_summed_out() -> None:
    some = [["D", None, "V"], ["D", "N", None], [None, "N", np.nan], []]
    for states in (1, 2):
        model = ConditionalRandomField(hidden_states=states, l2=0.1).fit(WORDS, some)
        assert [found.tolist() for found in model.predict(WORDS)] == TAGS
    single = ConditionalRandomField(decode="each").fit(WORDS, some)
    assert single.score(WORDS, some) == 1.0


def test_hidden_states_fit_better_where_a_label_is_two_things() -> None:
    # After x a label repeats, after y it changes; neither is seen in the sequences' symbols.
    texts = ["abab", "baba"] * 5 + ["aabb", "bbaa"] * 5
    labels = [list("0101"), list("1010")] * 5 + [list("0011"), list("1100")] * 5
    flat = [[[] for _ in text] for text in texts]
    plain = ConditionalRandomField(l2=1e-3).fit(flat, labels)
    deep = max(
        (
            ConditionalRandomField(l2=1e-3, hidden_states=2, random_state=seed).fit(flat, labels)
            for seed in range(3)
        ),
        key=lambda model: model.log_likelihood_,
    )
    assert deep.log_likelihood_ > plain.log_likelihood_ + 5


def test_the_direction_of_edges_without_labels_does_not_matter() -> None:
    texts, labels = ["CAT", "GATTACA"], [list("121"), list("1212121")]
    pack = hf.data.from_sequences(texts, node_targets=list("".join("".join(one) for one in labels)))
    mirrored = hf.data.from_sequences(
        [t[::-1] for t in texts], node_targets=list("".join("".join(one[::-1]) for one in labels))
    )
    model = ConditionalRandomField(window=1).fit(pack)
    assert np.allclose(model.log_likelihood(pack), model.log_likelihood(mirrored))
    (table,) = model.tables_.values()
    assert np.allclose(table, table.T)


@pytest.mark.parametrize("method", ["auto", "exact", "loopy_bp", "mean_field", "tree_reweighted"])
def test_two_known_members_of_a_club_divide_it(method: str) -> None:
    club = nx.karate_club_graph()
    sides = [club.nodes[node]["club"] for node in club]
    graph = nx.Graph(club.edges)
    known = [[side if node in (0, 33) else None for node, side in enumerate(sides)]]
    model = ConditionalRandomField(window=2, l2=0.1, method=method, max_iterations=30).fit([graph], known)
    assert model.predict([graph])[0].shape == (34,)
    assert model.guarantee_ == ("exact" if method in ("auto", "exact") else "estimate")


def test_attributes_trees_and_molecules() -> None:
    trees = hf.data.from_parents(
        [[-1, 0, 0, 1], [-1, 0]],
        arc_labels="direction",
        node_attributes=[[[0.1], [2.0], [2.1], [0.0]], [[2.2], [0.3]]],
        node_targets=[["s", "l", "l", "s"], ["l", "s"]],
    )
    assert ConditionalRandomField(l2=0.1).fit(trees).score(trees) == 1.0
    pytest.importorskip("rdkit")
    atoms = [["a", "b", "c"], list("xyxyxyc")]
    model = ConditionalRandomField(window=1, l2=0.1).fit(["CCO", "c1ccccc1O"], atoms)
    assert model.predict(["CCO"])[0].tolist() == ["a", "b", "c"]
    assert model.guarantee_ == "exact"


def test_a_saved_model_predicts_the_same_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    for number, (X, options) in enumerate(
        [(WORDS, {}), (TOKENS, {"hidden_states": 2}), (WORDS, {"l1": 0.1})]
    ):
        model = ConditionalRandomField(**options).fit(X, TAGS)
        model.save(tmp_path / str(number))
        again = hf.load(tmp_path / str(number))
        assert all(
            (a == b).all() for a, b in zip(again.predict_proba(X), model.predict_proba(X), strict=True)
        )
        assert (again.get_params(), again.log_likelihood_) == (model.get_params(), model.log_likelihood_)
        content = model.as_saved()
        content[1]["classes"] = ["D"]
        with pytest.raises(InputError, match="do not belong together"):
            clone(model).from_saved(content[1], content[0])


def test_the_largest_weights_are_named() -> None:
    model = ConditionalRandomField(window=1).fit(WORDS, TAGS)
    names = [name for name, _ in model.feature_weights(2)["N"]]
    assert "symbol=cat" in names
    assert set(model.tables_) == {("next", "previous")}


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        (WORDS, TAGS[:2], {}, "one label for each of 9 nodes; got 2"),
        (WORDS, [["D"], *TAGS[1:]], {}, "structure 0 has 3 nodes, but 1 labels"),
        (WORDS, [[None] * 3] * 3 + [[]], {}, "no node has a label"),
        (WORDS, None, {}, "y is missing"),
        (WORDS, TAGS, {"l2": -1}, "'l2' parameter"),
        (WORDS, TAGS, {"method": "guess"}, "'method' parameter"),
        ([], [], {}, "X is empty"),
        ([[{"a": 1}, "b"]], [["x", "y"]], {}, "sequence 0: expected tokens"),
    ],
)
def test_bad_input_is_named(X: list, y: list | None, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ConditionalRandomField(**options).fit(X, y)


def test_other_forms_and_targets_than_in_fit_are_named() -> None:
    model = ConditionalRandomField().fit(TOKENS, TAGS)
    with pytest.raises(InputError, match="list of lists of tokens"):
        model.predict(["abc"])
    pack = hf.data.from_sequences(WORDS, node_targets=FLAT)
    with pytest.raises(InputError, match="no node target 'other'"):
        ConditionalRandomField(target="other").fit(pack)
    with pytest.warns(ConvergenceWarning, match="ConditionalRandomField: "):
        ConditionalRandomField(max_iterations=1, l2=0.001, l1=0.001).fit(WORDS, TAGS)


# -- with an embedding -------------------------------------------------------------------------------------

QUICK = {"dim": 8, "rounds": 3, "hidden": 8, "epochs": 40, "device": "cpu"}


def far_words(number: int, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """Return words in which the label of each letter is the first letter of the word or of the last capital."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(list("ABab"), size=rng.integers(3, 9))) for _ in range(number)]
    labels = []
    for word in words:
        last, own = "-", []
        for letter in word:
            last = letter if letter.isupper() else last
            own.append(last)
        labels.append(own)
    return words, labels


def test_an_embedding_and_tables_are_learned_together(tmp_path: Path) -> None:
    X, y = far_words(120)
    model = ConditionalRandomField(l2=0.01, embedding="loopy_bp", embedding_options=QUICK).fit(X[:90], y[:90])
    assert model.score(X[90:], y[90:]) > 0.95
    assert model.converged_
    assert model.guarantee_ == "exact"
    assert len(model.history_.rows) == 40
    assert model.log_likelihood(X[:90], y[:90]).sum() == pytest.approx(model.log_likelihood_)
    assert all(np.allclose(rows.sum(1), 1) for rows in model.predict_proba(X))
    ((kind, table),) = model.tables_.items()
    assert table.shape == (len(model.classes_),) * 2
    assert kind == ("next", "previous")
    model.save(tmp_path / "crf")
    again = hf.load(tmp_path / "crf")
    for mine, theirs in zip(model.predict_proba(X), again.predict_proba(X), strict=True):
        assert (mine == theirs).all()
    once_more = clone(model).fit(X[:90], y[:90])
    assert (once_more.network_.tables == model.network_.tables).all()
    with pytest.raises(InputError, match="no weights of features"):
        model.feature_weights()
    tensors, content = model.as_saved()
    with pytest.raises(InputError, match="do not belong together"):
        clone(model).from_saved(content | {"classes": ["A"]}, tensors)


def test_an_embedding_on_one_graph_with_few_labels_and_hidden_states() -> None:
    club = nx.karate_club_graph()
    truth = [club.nodes[node]["club"] for node in club]
    bare = nx.Graph(club.edges())
    some = [[label if node in (0, 33, 5, 30) else None for node, label in enumerate(truth)]]
    options = {"hidden_states": 2, "method": "loopy_bp", "l2": 0.1}
    model = ConditionalRandomField(**options, embedding="mean_field", embedding_options=QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = model.fit([bare], some).predict([bare])[0]
    assert len(found) == 34
    assert model.guarantee_ == "estimate"


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        (TOKENS, TAGS, {}, "tokens with features of their own; leave out"),
        (WORDS, TAGS, {"l1": 1.0}, "cannot be learned with l1"),
        (WORDS, TAGS, {"embedding_options": {"dimm": 3}}, "dimm"),
        (WORDS, TAGS, {"embedding_options": {"epochs": 0}}, "epochs"),
        (WORDS, TAGS, {"embedding_options": {"seed": 3}}, "cannot have 'seed'"),
        (WORDS, TAGS, {"embedding_options": {"validation_fraction": 2}}, "validation_fraction must lie"),
    ],
)
def test_what_an_embedding_cannot_do_is_named(X: list, y: list, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ConditionalRandomField(embedding="loopy_bp", **options).fit(X, y)
