"""The estimators as scikit-learn's: one conformance suite over all of them; inputs, targets and mistakes."""

from __future__ import annotations

import pickle

import networkx
import numpy as np
import pytest
import sklearn
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

import hiddenfield as hf
from hiddenfield.errors import InputError, UnknownSymbolError
from hiddenfield.estimators.cgmm_predictors import CGMM
from hiddenfield.estimators.parameters import COMMON

TINY = {"dim": 4, "hidden": 4, "rounds": 2, "epochs": 2, "ensemble": 1, "random_state": 0}
PLAIN = {"every_round": False, "standardise": False}
CLASSES = [hf.StructureClassifier, hf.StructureRegressor, hf.StructureEncoder]


@pytest.fixture(scope="module")
def words():
    generator = np.random.default_rng(0)
    return ["".join(generator.choice(list("ACGT"), size=generator.integers(1, 8))) for _ in range(24)]


@pytest.fixture(scope="module")
def pack(words):
    return hf.data.from_sequences(words, arc_labels="direction")


@pytest.fixture(scope="module")
def numbers(words):
    return np.array([float(word.count("A")) + 0.5 for word in words])


@pytest.fixture(scope="module")
def kinds(words):
    return np.array(["many" if word.count("A") > 1 else "few" for word in words])


def target_of(cls, numbers, kinds):
    return kinds if cls is hf.StructureClassifier else numbers


def answer(model, X):
    return model.transform(X) if isinstance(model, hf.StructureEncoder) else model.predict(X)


# -- conformance -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_set_params,
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
        estimator_checks.check_valid_tag_types,
        estimator_checks.check_estimator_tags_renamed,
        estimator_checks.check_mixin_order,
    ],
    ids=lambda check: check.__name__,
)
@pytest.mark.parametrize("cls", [*CLASSES, *CGMM.values()])
def test_scikit_learns_own_checks(cls, check):
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)  # they set parameters to what no annotation allows
    try:
        check(cls.__name__, cls())
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("cls", CLASSES)
def test_init_only_stores(cls):
    given = {name: object() for name in cls().get_params()}
    model = cls.__new__(cls)
    for name, value in given.items():
        setattr(model, name, value)
    assert all(model.get_params()[name] is value for name, value in given.items())
    assert set(vars(cls())) == set(given)
    assert set(cls._parameter_constraints) == set(given)


@pytest.mark.parametrize("cls", CLASSES)
def test_fit_returns_self_changes_no_parameter_and_nothing_of_x(cls, pack, numbers, kinds):
    model = cls(**TINY)
    before, copy = model.get_params(), pack[:]
    assert model.fit(pack, target_of(cls, numbers, kinds)) is model
    assert model.get_params() == before
    assert pack == copy
    fitted = set(vars(model)) - set(before)
    assert all(name.endswith("_") for name in fitted)
    assert {"networks_", "histories_", "task_", "features_", "reading_"} <= fitted
    assert model.network_ is model.networks_[0]
    assert model.history_.rows[-1]["epoch"] == 2


@pytest.mark.parametrize("cls", CLASSES)
def test_not_fitted(cls, pack):
    model = cls()
    with pytest.raises(NotFittedError, match=f"This {cls.__name__} instance is not fitted yet"):
        answer(model, pack)
    with pytest.raises(NotFittedError):
        model.embed(pack)
    assert not hasattr(model, "network_")
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("cls", CLASSES)
def test_repeatable_clonable_picklable(cls, pack, numbers, kinds):
    y = target_of(cls, numbers, kinds)
    model = cls(**TINY).fit(pack, y)
    for other in (clone(model).fit(pack, y), model.__class__(**model.get_params()).fit(pack, y)):
        assert np.array_equal(answer(model, pack), answer(other, pack))
    assert np.array_equal(answer(pickle.loads(pickle.dumps(model)), pack), answer(model, pack))
    different = clone(model).set_params(random_state=1).fit(pack, y)
    assert not np.array_equal(model.embed(pack), different.embed(pack))


@pytest.mark.parametrize("cls", CLASSES)
def test_predictions_do_not_depend_on_what_else_is_predicted(cls, pack, numbers, kinds):
    model = cls(**TINY).fit(pack, target_of(cls, numbers, kinds))
    whole = model.embed(pack)
    order = np.random.default_rng(1).permutation(len(pack))
    np.testing.assert_allclose(model.embed(pack[order]), whole[order], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.embed(pack[3:5]), whole[3:5], rtol=1e-5, atol=1e-6)
    assert answer(model, pack[:0]).shape[0] == 0


def test_tags():
    assert is_classifier(hf.StructureClassifier())
    assert is_regressor(hf.StructureRegressor())
    tags = sklearn.utils.get_tags(hf.StructureRegressor(random_state=0))
    assert (tags.input_tags.two_d_array, tags.target_tags.multi_output, tags.non_deterministic) == (
        False,
        True,
        False,
    )


WRONG = {
    "model": "loopy",
    "dim": 0,
    "rounds": 10**6,
    "activation": "step",
    "bias": "no",
    "pooling": "median",
    "every_round": 3,
    "standardise": 3,
    "node_width": 0.5,
    "hidden": None,
    "dropout": 1.0,
    "model_options": "longest_cycle=3",
    "representation": "smile",
    "representation_options": 3,
    "epochs": -1,
    "batch_size": "all",
    "learning_rate": 0.0,
    "optimizer": "lbfgs",
    "weight_decay": -1.0,
    "schedule": "step",
    "clip": -1,
    "patience": 0,
    "validation_fraction": 1.0,
    "monitor": "f1",
    "resample": 0,
    "precision": 8,
    "device": 0,
    "devices": 0,
    "ensemble": 0,
    "random_state": "lucky",
    "checkpoint": 3,
    "resume": "yes",
    "verbose": "loud",
    "loss": "cubic",
    "class_weight": "even",
    "task": "ranking",
    "counts": "some",
}


@pytest.mark.parametrize("cls", CLASSES)
def test_every_parameter_is_checked_in_scikit_learns_words(cls, pack, numbers, kinds):
    assert set(COMMON) <= set(WRONG)
    for name in cls().get_params():
        model = cls(**TINY).set_params(**{name: WRONG[name]})
        with pytest.raises(
            InputError, match=rf"^The '{name}' parameter of {cls.__name__} must be .*\. Got .* instead\.$"
        ):
            model.fit(pack, target_of(cls, numbers, kinds))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"patience": 3, "validation_fraction": 0.0},
            "The 'patience' parameter of StructureRegressor must be None where",
        ),
        (
            {"checkpoint": "run", "random_state": None},
            "The 'random_state' parameter of StructureRegressor must be an int",
        ),
        ({"model_options": {"dim": 3}}, "Got 'dim', which is a parameter of its own"),
        ({"model_options": {"colour": 3}}, "model 'loopy_bp' has no option 'colour'; its options are"),
        (
            {"monitor": "accuracy"},
            "unknown monitor 'accuracy' for these targets; choose from: loss, mae, rmse",
        ),
        ({"device": "cuda:99"}, "use 'auto' or 'cpu'"),
        ({"representation": "smiles", "representation_options": {"colour": 1}}, "expected structures"),
        ({"representation_options": {"colour": 1}}, "a pack is not converted"),
    ],
)
def test_parameters_that_do_not_fit_each_other(pack, numbers, parameters, message):
    X = 5 if "representation" in parameters else pack
    with pytest.raises(InputError, match=message):
        hf.StructureRegressor(**TINY | parameters).fit(X, numbers)


# -- in scikit-learn's company ------------------------------------------------------------------------------


def test_cross_validation_cuts_packs_as_a_whole(pack, numbers, kinds, monkeypatch):
    cut = []
    whole = hf.Structures.__getitem__
    monkeypatch.setattr(
        hf.Structures, "__getitem__", lambda self, index: cut.append(index) or whole(self, index)
    )
    first, second = train_test_split(pack, test_size=0.25, random_state=0)
    assert (len(first), len(second), len(cut)) == (18, 6, 2)
    monkeypatch.undo()
    scores = cross_val_score(hf.StructureRegressor(**TINY), pack, numbers, cv=3, error_score="raise")
    assert scores.shape == (3,)
    scores = cross_val_score(
        hf.StructureClassifier(**TINY), pack, kinds, cv=3, scoring="roc_auc", error_score="raise"
    )
    assert np.isfinite(scores).all()
    assert cross_val_predict(hf.StructureClassifier(**TINY), pack, kinds, cv=3).shape == (24,)
    own = pack.replace(
        targets=torch.from_numpy(numbers)[:, None], target_names=("t",), target_vocabularies=(None,)
    )
    assert np.isfinite(cross_val_score(hf.StructureRegressor(**TINY), own, cv=3, error_score="raise")).all()


def test_grid_search_in_two_processes_agrees_with_one(pack, kinds):
    found = []
    for jobs in (1, 2):
        search = GridSearchCV(
            hf.StructureClassifier(**TINY), {"dim": [2, 4]}, cv=2, n_jobs=jobs, error_score="raise"
        )
        found.append(search.fit(pack, kinds).cv_results_["mean_test_score"])
    assert np.array_equal(*found)
    assert list(search.classes_) == ["few", "many"]
    assert search.predict_proba(pack[:2]).shape == (2, 2)


def test_encoder_in_a_pipeline(words, kinds):
    pipeline = make_pipeline(hf.StructureEncoder(**TINY, representation="sequence"), LogisticRegression())
    assert pipeline.fit(words, kinds).score(words, kinds) > 0.5
    names = pipeline[:-1].get_feature_names_out()
    assert list(names) == [f"structureencoder{k}" for k in range(4)]
    frame = pipeline[0].set_output(transform="pandas").transform(words)
    assert frame.shape == (24, 4)
    search = GridSearchCV(pipeline, {"structureencoder__dim": [2, 3]}, cv=2, error_score="raise").fit(
        words, kinds
    )
    assert search.best_params_["structureencoder__dim"] in (2, 3)


def test_encoder_learns_for_its_target(pack, numbers, kinds):
    assert hf.StructureEncoder(**TINY).fit(pack, kinds).task_.columns[0].vocabulary is not None
    assert hf.StructureEncoder(**TINY).fit(pack, numbers).task_.is_regression
    assert (
        hf.StructureEncoder(**TINY).fit(pack, (numbers - 0.5).astype(int)).task_.columns[0].vocabulary
        is not None
    )
    assert (
        hf.StructureEncoder(**TINY, task="regression")
        .fit(pack, (numbers - 0.5).astype(int))
        .task_.is_regression
    )
    assert hf.StructureEncoder(**TINY | {"ensemble": 3}).fit(pack, numbers).transform(pack).shape == (24, 12)


# -- X -----------------------------------------------------------------------------------------------------

SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "C1CCCCC1", "CC=O", "CCCl", "C#N"]


def test_smiles_and_the_pack_of_them_are_the_same():
    y = np.arange(8.0)
    one = hf.StructureRegressor(**TINY).fit(SMILES, y)
    other = hf.StructureRegressor(**TINY).fit(hf.data.from_smiles(SMILES), y)
    assert one.reading_.representation == "smiles"
    assert np.array_equal(one.predict(SMILES), other.predict(hf.data.from_smiles(SMILES)))
    assert np.array_equal(one.predict(np.array(SMILES)), one.predict(tuple(SMILES)))
    assert np.array_equal(one.predict(hf.data.from_smiles(SMILES)), one.predict(SMILES))
    hydrogens = hf.StructureRegressor(**TINY, representation_options={"explicit_hydrogens": True}).fit(
        SMILES, y
    )
    assert hydrogens.reading_.convert(["C"]).num_nodes.tolist() == [5]


@pytest.mark.parametrize(
    ("X", "representation"),
    [
        (["GATTACA", "CAT"], "sequence"),
        (["CCO", "GAT"], "sequence"),
        (["CCO", "c1ccccc1"], "smiles"),
        (["C=C"], "smiles"),
        ([["the", "cat"], ["sat"]], "sequence"),
        ([np.array([1, 2]), np.array([2])], "sequence"),
        ([networkx.path_graph(3)], "networkx"),
        ([networkx.DiGraph([(0, 1)])], "networkx"),
    ],
)
def test_auto_recognises(X, representation):
    from hiddenfield.estimators.inputs import Reading

    assert Reading.of(X).representation == representation


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (["CCO", "CCN"], 'can be read as SMILES and as a sequence; say which with representation="smiles"'),
        (["CCO", "((..))"], r"'\(\(\.\.\)\)' \(structure 1\) is no molecule; say which with representation"),
        ([], "X is empty"),
        ([1, 2], "cannot tell what X holds: entry 0 is of type int"),
        ([networkx.path_graph(2), "CC"], "entry 0 is of type Graph, entry 1 of type str"),
        ("GATTACA", "got str"),
        (np.zeros((3, 2)), r"got ndarray of shape \(3, 2\)"),
        (None, "got NoneType"),
        ({"a": 1}, "got dict"),
    ],
)
def test_auto_does_not_guess(X, message):
    with pytest.raises(InputError, match=message):
        hf.StructureRegressor(**TINY).fit(X, [1.0, 2.0])


def test_ambiguous_strings_are_read_as_said():
    for representation, nodes in (("smiles", 3), ("sequence", 3)):
        model = hf.StructureRegressor(**TINY, representation=representation).fit(["CCO", "CCN"], [1.0, 2.0])
        assert model.reading_.convert(["CCO"]).num_nodes.tolist() == [nodes]
        assert model.reading_.representation == representation
    with pytest.raises(UnknownSymbolError):
        model.predict(["C=O"])


def test_networkx_brings_its_attributes():
    def graph(length):
        made = networkx.path_graph(length)
        networkx.set_node_attributes(made, {k: "AB"[k % 2] for k in made}, "letter")
        networkx.set_node_attributes(made, {k: k / 7 for k in made}, "height")
        networkx.set_edge_attributes(made, 2, "order")
        return made

    graphs = [graph(k) for k in range(1, 7)]
    model = hf.StructureRegressor(**TINY).fit(graphs, np.arange(6.0))
    assert model.reading_.options == {
        "node_label": ["letter"],
        "node_attribute": ["height"],
        "edge_label": ["order"],
    }
    assert model.predict(graphs[:2]).shape == (2,)
    named = hf.StructureRegressor(**TINY, representation_options={"node_label": "letter"}).fit(
        graphs, np.arange(6.0)
    )
    assert named.features_.node_attributes == ()
    with pytest.raises(InputError, match="has no attribute 'letter'"):
        model.predict([networkx.path_graph(2)])


def test_pyg():
    pyg = pytest.importorskip("torch_geometric.data")
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    data = [
        pyg.Data(edge_index=edges, x=torch.eye(3)[[k % 3, 0, 1]], y=torch.tensor([float(k)]))
        for k in range(6)
    ]
    model = hf.StructureRegressor(**TINY).fit(data)
    assert model.reading_.representation == "pyg"
    assert np.array_equal(model.predict(data), model.predict(pyg.Batch.from_data_list(data)))
    hot = hf.StructureRegressor(**TINY, representation_options={"x": "one_hot"}).fit(data)
    assert len(hot.features_.node_vocabularies[0]) == 3


def test_attributes_are_standardised_and_empty_structures_embedded_as_zeros():
    def nodes(scale):
        return hf.data.from_edges(
            [0],
            [1],
            node_ptr=[0, 2, 2, 3],
            node_attributes=np.array([[1.0], [2.0], [4.0]]) * scale,
            targets=[1.0, 2.0, 3.0],
        )

    small, large = (hf.StructureRegressor(**TINY).fit(nodes(scale)) for scale in (1.0, 1e6))
    np.testing.assert_allclose(small.predict(nodes(1.0)), large.predict(nodes(1e6)), rtol=1e-4)
    assert small.embed(nodes(1.0))[1].tolist() == [0.0] * 4
    assert np.isfinite(small.predict(nodes(1.0))).all()


def test_unknown_symbols_and_other_features(words, pack, numbers):
    model = hf.StructureRegressor(**TINY).fit(words, numbers)
    with pytest.raises(
        UnknownSymbolError, match="structure 1: symbol 'U' of node 2 is not among the 4 known symbols"
    ):
        model.predict(["GAT", "GAU"])
    new = hf.data.from_sequences(["GAT", "GAU", "A", "XU"], arc_labels="direction")
    assert model.features_.unknown(new) == {
        1: "symbol 'U' of node 2 is not among the 4 known symbols",
        3: "symbol 'X' of node 0 is not among the 4 known symbols",
    }
    assert model.features_.unknown(new[:1]) == model.features_.unknown(new[:0]) == {}
    with pytest.raises(
        InputError, match=r"expected the arc label columns \['direction'\], but the structures have \[\]"
    ):
        model.predict(hf.data.from_sequences(words))
    with pytest.raises(InputError, match=r"expected the node label columns \['symbol'\]"):
        model.predict(hf.data.from_sequences(words, name="letter", arc_labels="direction"))
    with_attributes = pack.replace(
        node_attributes=torch.ones(pack.total_nodes, 1), node_attribute_names=("height",)
    )
    with pytest.raises(
        InputError, match=r"expected the node attributes \[\], but the structures have \['height'\]"
    ):
        model.predict(with_attributes)
    on_packs = hf.StructureRegressor(**TINY).fit(pack, numbers)
    with pytest.raises(
        InputError, match="expected a pack of structures, got list of str; the model was fitted on packs"
    ):
        on_packs.predict(words)


def test_a_structure_of_a_million_nodes():
    big = hf.data.from_sequences([np.zeros(10**6, dtype=np.int64), np.zeros(3, dtype=np.int64)])
    model = hf.StructureRegressor(**TINY | {"epochs": 1, "dim": 2}, model="mean_field").fit(big, [1.0, 2.0])
    assert np.isfinite(model.predict(big)).all()


# -- y -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (["no", "yes"], "U"),
        ([0, 1], "i"),
        ([-1, 7], "i"),
        ([False, True], "b"),
        ([0.0, 1.0], "f"),
        ([1, "b"], "O"),
    ],
)
def test_classes_come_back_as_they_were_given(words, y, kind):
    model = hf.StructureClassifier(**TINY).fit(words, y * 12)
    assert model.classes_.tolist() == y
    assert model.classes_.dtype.kind == kind
    predicted = model.predict(words)
    assert predicted.dtype == model.classes_.dtype
    assert set(predicted.tolist()) <= set(y)
    np.testing.assert_allclose(model.predict_proba(words).sum(axis=1), 1)
    array = np.array(y * 12, dtype=object if kind == "O" else None)
    assert model.score(words, array) == pytest.approx(np.mean(predicted == array))


def test_several_targets_some_missing(words, pack, numbers, kinds):
    y = np.stack([numbers, numbers * 1000 - 5e5], axis=1)
    y[3, 0] = y[5, 1] = np.nan
    y[7] = np.nan
    model = hf.StructureRegressor(**TINY | {"epochs": 30}).fit(words, y)
    predicted = model.predict(words)
    assert predicted.shape == (24, 2)
    assert abs(predicted[:, 1].mean() - np.nanmean(y[:, 1])) < 1000
    assert np.isfinite(model.score(words, y))
    assert 7 not in model.validation_indices_
    both = [[kind, flag] for kind, flag in zip(kinds, [True, None, False] * 8, strict=True)]
    classifier = hf.StructureClassifier(**TINY).fit(words, both)
    assert [classes.tolist() for classes in classifier.classes_] == [["few", "many"], [False, True]]
    assert classifier.predict(words).shape == (24, 2)
    assert [p.shape for p in classifier.predict_proba(words)] == [(24, 2), (24, 2)]
    assert 0 <= classifier.score(words, both) <= 1


def test_the_packs_own_targets(words, numbers, kinds):
    own = hf.data.from_sequences(words, arc_labels="direction", targets={"n": numbers})
    assert np.array_equal(
        hf.StructureRegressor(**TINY).fit(own).predict(own),
        hf.StructureRegressor(**TINY).fit(own, numbers).predict(own),
    )
    named = hf.data.from_sequences(words, targets={"kind": kinds.tolist()})
    model = hf.StructureClassifier(**TINY).fit(named)
    assert model.classes_.tolist() == ["few", "many"]
    assert model.task_.columns[0].name == "kind"
    assert model.score(named) == model.score(named, kinds)
    whole = hf.data.from_sequences(words, targets=[float(k % 3) for k in range(24)])
    assert hf.StructureClassifier(**TINY).fit(whole).classes_.tolist() == [0.0, 1.0, 2.0]


def test_data_frames(words, numbers, kinds):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"word": words, "n": numbers, "kind": kinds})
    model = hf.StructureRegressor(**TINY).fit(frame["word"], frame["n"])
    assert model.task_.columns[0].name == "n"
    assert np.array_equal(
        model.predict(frame["word"]), hf.StructureRegressor(**TINY).fit(words, numbers).predict(words)
    )
    two = hf.StructureRegressor(**TINY).fit(words, frame[["n"]].assign(m=1.0))
    assert [column.name for column in two.task_.columns] == ["n", "m"]
    assert hf.StructureClassifier(**TINY).fit(words, frame["kind"]).classes_.tolist() == ["few", "many"]


def test_a_constant_target_is_predicted(words):
    model = hf.StructureRegressor(**TINY).fit(words, [1234.5] * 24)
    np.testing.assert_allclose(model.predict(words), 1234.5, rtol=1e-6)


def test_messages_of_the_trainer_count_as_the_user_does(words, monkeypatch):
    """Whatever is left out or held out before, a structure is named by its place in X."""
    from hiddenfield.estimators import base

    def spy(fits, **options):
        for fit in fits:
            for position, name in enumerate(fit.structures.ids.tolist()):
                assert fit.name_of(position) == f"structure {name} ({name!r})"
            seen.append(len(fit.structures))
        return train(fits, **options)

    train, seen = base.train_in_parts, []
    monkeypatch.setattr(base, "train_in_parts", spy)
    pack = hf.data.from_sequences(words, ids=[str(k) for k in range(24)])
    targets = [np.nan if k % 4 == 0 else float(k) for k in range(24)]
    hf.StructureRegressor(**TINY | {"validation_fraction": 0.5, "ensemble": 2}).fit(pack, targets)
    assert seen == [9, 9]


@pytest.mark.parametrize(
    ("cls", "y", "message"),
    [
        (hf.StructureRegressor, [1.0] * 23, "X has 24 structures and y has 23 entries"),
        (hf.StructureRegressor, None, "y is None and the structures have no targets of their own"),
        (hf.StructureRegressor, [np.nan] * 24, "'target' is missing for every structure"),
        (
            hf.StructureRegressor,
            [1.0] * 23 + ["high"],
            "structure 23: target 'target' is the text 'high', but a regressor",
        ),
        (
            hf.StructureRegressor,
            ["a", "b"] * 12,
            "is the text 'a', but a regressor predicts numbers; use StructureClass",
        ),
        (
            hf.StructureRegressor,
            [1.0] * 23 + [np.inf],
            "structure 23: target 'target' is inf; it must be finite",
        ),
        (hf.StructureRegressor, [1.0] * 23 + [1j], "expected a number, a text or a truth value"),
        (hf.StructureRegressor, np.zeros(24, complex), "got an array of complex128"),
        (hf.StructureRegressor, np.zeros((24, 2, 2)), r"one or two axes, got shape \(24, 2, 2\)"),
        (hf.StructureRegressor, np.zeros((24, 0)), "y has no columns"),
        (hf.StructureRegressor, [[1.0, 2.0]] * 23 + [[1.0]], "rows of y must be equally long"),
        (hf.StructureRegressor, "target", "y must be an array or a list"),
        (
            hf.StructureClassifier,
            ["a"] * 24,
            "the one class 'a' in all 24 structures; at least two are needed",
        ),
        (
            hf.StructureClassifier,
            [0, 1] * 11 + [0, 0.5],
            "structure 23: target 'target' is 0.5, but classes are text",
        ),
        (hf.StructureClassifier, ["a", 0.5] * 12, "holds text and fractions"),
        (hf.StructureClassifier, [None] * 24, "missing for every structure"),
    ],
)
def test_bad_targets(words, cls, y, message):
    with pytest.raises(InputError, match=message):
        cls(**TINY).fit(words, y)


def test_scoring_other_targets_is_refused(words, numbers, kinds):
    model = hf.StructureRegressor(**TINY).fit(words, numbers)
    with pytest.raises(InputError, match="predicts 1 targets, but y has 2 columns"):
        model.score(words, np.stack([numbers] * 2, axis=1))
    classifier = hf.StructureClassifier(**TINY).fit(words, kinds)
    with pytest.raises(InputError, match="nothing to compare with"):
        classifier.score(words, [None] * 24)


# -- fitting -----------------------------------------------------------------------------------------------


def test_an_ensemble_is_the_average_of_its_networks(pack, numbers, kinds):
    model = hf.StructureRegressor(**TINY | {"ensemble": 3}, counts=False).fit(pack, numbers)
    mean, spread = model.predict(pack, return_std=True)
    members = np.stack(
        [model.task_.predictions(hf.learning.predict(n, pack, device="cpu"))[0] for n in model.networks_]
    )
    np.testing.assert_allclose(mean, members.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(spread, members.std(axis=0, ddof=1), rtol=1e-5)
    assert model.embed(pack).shape == (24, 12)
    with pytest.raises(InputError, match="fit with ensemble=2 or more"):
        hf.StructureRegressor(**TINY).fit(pack, numbers).predict(pack, return_std=True)
    classifier = hf.StructureClassifier(**TINY | {"ensemble": 2}).fit(pack, kinds)
    np.testing.assert_allclose(classifier.predict_proba(pack).sum(axis=1), 1)


def test_validation_is_stratified_seeded_and_not_trained_on(pack, kinds, numbers):
    model = hf.StructureClassifier(**TINY, validation_fraction=0.25).fit(pack, kinds)
    held_out = model.validation_indices_
    assert len(held_out) == 6
    assert abs((kinds[held_out] == "many").mean() - (kinds == "many").mean()) < 0.17
    again = hf.StructureClassifier(**TINY, validation_fraction=0.25).fit(pack, kinds)
    assert np.array_equal(again.validation_indices_, held_out)
    assert "valid_accuracy" in model.history_.rows[0]
    none = hf.StructureRegressor(**TINY, validation_fraction=0.0).fit(pack, numbers)
    assert len(none.validation_indices_) == 0
    assert "valid_loss" not in none.history_.rows[0]
    single = hf.StructureRegressor(**TINY).fit(pack[:1], numbers[:1])
    assert np.isfinite(single.predict(pack[:1])).all()


def test_checkpoints_resume_and_do_not_mix(pack, numbers, tmp_path):
    options = {**TINY, "ensemble": 2, "checkpoint": tmp_path / "run"}
    plain = hf.StructureRegressor(**TINY | {"ensemble": 2}).fit(pack, numbers)
    first = hf.StructureRegressor(**options).fit(pack, numbers)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["member-0.safetensors"]
    again = hf.StructureRegressor(**options).fit(pack, numbers)
    for model in (first, again):
        assert np.array_equal(model.predict(pack), plain.predict(pack))
    with pytest.raises(InputError, match="of a run with other settings"):
        hf.StructureRegressor(**options | {"learning_rate": 0.5}).fit(pack, numbers)
    with pytest.raises(InputError, match="holds an earlier run"):
        hf.StructureRegressor(**options, resume=False).fit(pack, numbers)


def test_it_learns(words, kinds):
    model = hf.StructureClassifier(
        random_state=0, dim=8, epochs=40, learning_rate=0.02, validation_fraction=0
    )
    assert model.fit(words, kinds).score(words, kinds) > 0.9
    weighted = hf.StructureClassifier(**TINY, class_weight={"few": 1e-9, "many": 1.0}).set_params(
        epochs=20, learning_rate=0.05
    )
    assert (weighted.fit(words, kinds).predict(words) == "many").all()


def test_shape_of_a_pack(pack):
    assert pack.shape == (24,)
    assert pack[np.array([1, 2]), ...] == pack[[1, 2]]
    with pytest.raises(InputError, match="one axis"):
        pack[1, 2]


def test_sums_are_divided_by_the_mean_number_of_nodes(pack, numbers):
    model = hf.StructureRegressor(**TINY, device="cpu").fit(pack, numbers)
    mean = pack.total_nodes / len(pack)
    assert model.network_.scale == model.features_.mean_nodes == mean
    states = model.network_.embedding(pack)
    expected = torch.stack([part.sum(dim=0) for part in states.split(pack.num_nodes.tolist())]) / mean
    np.testing.assert_allclose(model.embed(pack), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert hf.StructureRegressor(**TINY, pooling="mean").fit(pack, numbers).network_.scale == 1.0
