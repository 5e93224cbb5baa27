"""Splits: laws that all of them keep, given files as they are published, and what is refused."""

from __future__ import annotations

import gzip
import json
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.model_selection import KFold

import hiddenfield as hf
from hiddenfield.errors import HiddenfieldError, InputError, MissingDependencyError
from hiddenfield.evaluation import SPLITTERS, Request, Split, make_splits
from hiddenfield.evaluation.splits.base import digest
from hiddenfield.evaluation.splits.drawn import hold_out_positions

SMILES = ["Cc1ccccc1", "Oc1ccccc1", "C1CCCCC1", "CC1CCCCC1", "CCO", "c1ccncc1", "C1CC1", "CCN"]


def request_for(name, tmp_path, **changes):
    file = tmp_path / "splits.json"
    file.write_text(
        json.dumps([{"train": [0, 1, 2, 3], "test": [4, 5]}, {"train": [4, 5, 6], "test": [0, 7]}])
    )
    options = {
        "classes": np.array([0, 1, 0, 1, 0, 1, 0, 1]),
        "groups": np.array(list("abcabcab")),
        "smiles": SMILES,
        "file": file,
        "folds": 3,
        "repeats": 2,
        "test_fraction": 0.25,
    }
    return Request(8, **options | changes)


@pytest.mark.parametrize("name", SPLITTERS)
def test_train_and_test_are_apart_and_repeatable(name, tmp_path):
    request = request_for(name, tmp_path)
    splits = make_splits(name, request)
    for split in splits:
        assert not set(split.train) & set(split.test)
        assert len(split.train)
        assert len(split.test)
        assert split.train.tolist() == sorted(split.train)
    assert digest(splits) == digest(make_splits(name, request))
    if name in ("k_fold", "stratified", "repeated", "hold_out"):
        assert digest(splits) != digest(make_splits(name, request_for(name, tmp_path, seed=1)))


@given(st.integers(2, 6), st.lists(st.integers(0, 3), min_size=12, max_size=60), st.integers(0, 100))
def test_stratified_folds_are_even(folds, classes, seed):
    classes = np.array(classes)
    request = Request(len(classes), classes, folds=folds, seed=seed)
    if np.bincount(classes)[np.unique(classes)].min() < folds:
        with pytest.raises(InputError, match="members of every class"):
            make_splits("stratified", request)
        return
    splits = make_splits("stratified", request)
    assert sorted(np.concatenate([split.test for split in splits])) == list(range(len(classes)))
    counts = np.array([np.bincount(classes[split.test], minlength=4) for split in splits])
    assert np.ptp(counts, axis=0).max() <= 1
    assert np.ptp(counts.sum(axis=1)) <= 1


@given(st.integers(2, 60), st.floats(0.05, 0.95), st.integers(0, 50))
def test_a_hold_out_takes_the_same_share_of_every_class(total, fraction, seed):
    classes = np.random.default_rng(seed).integers(3, size=total)
    kept, held_out = hold_out_positions(total, classes, fraction, np.random.default_rng(seed))
    assert sorted([*kept, *held_out]) == list(range(total))
    assert len(held_out) == min(max(round(total * fraction), 1), total - 1)
    for code in range(3):
        members, taken = (classes == code).sum(), (classes[held_out] == code).sum()
        assert members < 2 or abs(taken - members * len(held_out) / total) <= 2.01
        assert members < 2 or len(held_out) < 3 or taken


def test_repeats_differ():
    splits = make_splits("repeated", Request(30, folds=3, repeats=2))
    assert splits[0].test.tolist() != splits[3].test.tolist()


def test_groups_stay_together():
    splits = make_splits("leave_one_group_out", Request(4, groups=np.array([1, 2, 1, 3])))
    assert [split.test.tolist() for split in splits] == [[0, 2], [1], [3]]


def test_no_scaffold_is_on_both_sides():
    from hiddenfield.evaluation.splits.drawn import scaffolds_of

    found = np.array(scaffolds_of(SMILES), dtype=object)
    for name in ("scaffold", "scaffold_hold_out"):
        for split in make_splits(name, Request(8, smiles=SMILES, folds=3, test_fraction=0.3)):
            assert not set(found[split.train]) & set(found[split.test])


def test_scaffolds_without_rdkit(monkeypatch):
    for name in ("rdkit", "rdkit.Chem"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=r"hiddenfield\[molecules\]"):
        make_splits("scaffold", Request(8, smiles=SMILES, folds=2))


def test_automatic_choice():
    classes = np.array([0, 1] * 10)
    assert len(make_splits("auto", Request(20, classes, folds=4))) == 4
    assert make_splits("auto", Request(20, folds=2, repeats=2))[0].name == "repeat 1, fold 1"


def test_splitters_of_scikit_learn_and_lists():
    splits = make_splits(KFold(3), Request(9))
    assert [split.test.tolist() for split in splits] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert make_splits(splits, Request(9))[2] is splits[2]
    with pytest.raises(InputError, match="a list of Split"):
        make_splits(3, Request(9))


# -- files -------------------------------------------------------------------------------------------------


def archive(path, files):
    with zipfile.ZipFile(path, "w") as sink:
        for name, text in files.items():
            sink.writestr(name, text)
    return path


def test_index_files_in_an_archive_and_a_folder(tmp_path):
    files = {f"X/10fold_idx/{part}_idx-{k}.txt": "" for k in range(1, 12) for part in ("train", "test")}
    for k in range(1, 12):
        files[f"X/10fold_idx/test_idx-{k}.txt"] = f"{k - 1}\n"
        files[f"X/10fold_idx/train_idx-{k}.txt"] = "\n".join(str(n) for n in range(11) if n != k - 1)
    found = make_splits("files", Request(11, file=archive(tmp_path / "folds.zip", files)))
    assert [split.name for split in found][:3] == ["fold 1", "fold 2", "fold 3"]
    assert [split.test.tolist() for split in found] == [[k] for k in range(11)]
    for name, text in files.items():
        (tmp_path / name.split("/")[-1]).write_text(text)
    assert digest(make_splits("files", Request(11, file=tmp_path))) == digest(found)


def test_model_assessment_splits(tmp_path):
    content = [{"test": [0, 1], "model_selection": [{"train": [2, 3], "validation": [4]}]}]
    file = tmp_path / "splits.json.gz"
    file.write_bytes(gzip.compress(json.dumps(content).encode()))
    (split,) = make_splits("auto", Request(5, file=file))
    assert split.train.tolist() == [2, 3, 4]
    assert split.validation.tolist() == [4]


@pytest.mark.parametrize("name", ["NCI1", "ENZYMES", "DD"])
def test_published_splits(data_path, name):
    folder = data_path / "graphs" / name
    total = {"NCI1": 4110, "ENZYMES": 600, "DD": 1178}[name]
    ten = make_splits("files", Request(total, file=folder / f"{name}_10fold_idx.zip"))
    assert len(ten) == 10
    assert {len(split.test) for split in ten} == {total // 10}
    assert {len(split.train) + len(split.test) for split in ten} == {total}
    fair = make_splits("files", Request(total, file=folder / f"{name}_model_assessment_splits.json.gz"))
    assert sorted(np.concatenate([split.test for split in fair])) == list(range(total))
    assert all(split.validation is not None for split in fair)


def test_folds_that_follow_another_order_are_refused(data_path):
    folder = data_path / "graphs" / "MUTAG"
    sizes = hf.read(folder / "MUTAG.zip").num_nodes.numpy()
    with pytest.raises(InputError, match=r"follow the order of the graphs in MUTAG/MUTAG\.txt"):
        make_splits("files", Request(188, sizes=sizes, file=folder / "MUTAG_s2v_10fold.zip"))
    assert len(make_splits("files", Request(188, file=folder / "MUTAG_s2v_10fold.zip"))) == 10


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"train": [0, 1], "test": [5]}], r"test names structure 5, but there are 4, from 0 to 3"),
        ([{"train": [0, -1], "test": [2]}], r"train names structure -1"),
        ([{"train": [0, 1], "test": [1, 2]}], r"structure 1 is in train and in test"),
        ([{"train": [0], "test": [1]}, {"train": [0], "test": [1]}], r"tested on in fold 1 and in fold 2"),
        ([{"train": [0, 0], "test": [1]}], r"names structure 0 more than once"),
        ([{"train": [0], "test": []}], r"test is empty"),
        ([{"train": [0], "validation": [0], "test": [1]}], r"structure 0 is in train and in validation"),
        ([{"train": [0.5], "test": [1]}], r"split 1 must have lists"),
        ([{"train": [0, 2**63], "test": [1]}], r"split 1 must have lists"),
        ([{"train": [0, 2**70], "test": [1]}], r"split 1 must have lists"),
        ([{"train": [0]}], r"split 1 must have lists"),
        ([], r"expected a list of splits"),
        ("text", r"expected a list of splits"),
    ],
)
def test_bad_files(tmp_path, content, message):
    file = tmp_path / "splits.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        make_splits("files", Request(4, file=file))


def test_other_bad_files(tmp_path):
    (tmp_path / "broken.json").write_text("[{")
    (tmp_path / "broken.zip").write_text("no archive")
    (tmp_path / "table.csv").write_text("1")
    empty = archive(tmp_path / "empty.zip", {"readme.txt": "nothing"})
    half = archive(tmp_path / "half.zip", {"train_idx-1.txt": "1\n"})
    words = archive(tmp_path / "words.zip", {"train_idx-1.txt": "1\nx\n", "test_idx-1.txt": "0\n"})
    far = archive(tmp_path / "far.zip", {"train_idx-1.txt": f"1\n{2**64}\n", "test_idx-1.txt": "0\n"})
    for file, message in [
        (tmp_path / "broken.json", "is not JSON"),
        (tmp_path / "broken.zip", "cannot be opened as a zip archive"),
        (tmp_path / "table.csv", r"splits are read from \.zip"),
        (empty, "has no files train_idx"),
        (half, r"has no test_idx-1\.txt"),
        (words, r"line 2: expected one position per line, got 'x'"),
        (far, r"train_idx-1\.txt, line 2: expected one position per line, got '18446744073709551616'"),
        (tmp_path / "missing.json", "no such file"),
        (None, "needs a file of indices"),
    ]:
        with pytest.raises(HiddenfieldError, match=message):
            make_splits("files", Request(4, file=file))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("k_fold", {"folds": 9}, "more folds than structures: 9 and 8"),
        ("k_fold", {"folds": 1}, "at least 2 folds"),
        ("stratified", {"folds": 5}, "the rarest has 4; use at most 4 folds"),
        ("stratified", {"classes": np.array([0] * 7 + [1])}, "the rarest has 1; leave it out"),
        ("stratified", {"classes": None}, "needs a target of classes"),
        ("repeated", {"repeats": 0}, "repeats must be at least 1"),
        ("hold_out", {"test_fraction": 1.0}, "between 0 and 1"),
        ("leave_one_group_out", {"groups": None}, "needs groups"),
        ("leave_one_group_out", {"groups": np.array(["a"] * 8)}, "all structures are of one group"),
        (
            "leave_one_group_out",
            {"groups": np.array([*"abcab", None, "b", "c"])},
            r"1 structure is missing \(row 5\)",
        ),
        ("leave_one_group_out", {"groups": np.array([*"abca", " ", "c", "", "b"])}, r"missing \(rows 4, 6\)"),
        (
            "leave_one_group_out",
            {"groups": np.array([1.0, 2.0] * 3 + [np.nan] * 2)},
            r"missing \(rows 6, 7\)",
        ),
        ("scaffold", {"smiles": None}, "needs SMILES"),
        ("scaffold", {"smiles": ["CC"] * 8}, "3 folds need as many scaffolds, but there are 1"),
        ("scaffold", {"smiles": ["C("] * 8}, r"structure 0: 'C\(' is no molecule"),
        ("scaffold_hold_out", {"smiles": ["CC"] * 8}, "all molecules have one scaffold"),
        ("kfold", {}, "did you mean 'k_fold'"),
    ],
)
def test_what_cannot_be_split(tmp_path, name, changes, message):
    with pytest.raises(InputError, match=message):
        make_splits(name, request_for(name, tmp_path, **changes))


def test_a_split_says_itself():
    assert Split("one", np.array([1]), np.array([0])).as_dict() == {"name": "one", "train": [1], "test": [0]}
