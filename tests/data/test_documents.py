"""Counts of words, from everything that holds them."""

from __future__ import annotations

import lzma

import numpy as np
import pytest
from scipy import sparse

from hiddenfield.data import as_documents
from hiddenfield.errors import InputError, ReadError


def test_all_forms_give_the_same_counts(tmp_path):
    pandas = pytest.importorskip("pandas")
    counts = np.array([[1.0, 0, 2], [0, 0, 0], [0, 3, 1]])
    lines = "2 0:1 2:2\n0\n2 1:3 2:1\n"
    (tmp_path / "some.ldac").write_text(lines)
    (tmp_path / "some.vocab").write_text("a\nb\nc\n")
    (tmp_path / "other.ldac.txt.xz").write_bytes(lzma.compress(lines.encode()))
    (tmp_path / "other.tokens.txt.xz").write_bytes(lzma.compress(b"a\nb\nc\n"))
    (tmp_path / "other.titles.txt").write_text("first\nsecond\nthird\n")
    forms = [
        counts,
        sparse.csr_matrix(counts),
        sparse.coo_array(counts),
        pandas.DataFrame(counts, columns=list("abc")),
        [["a", "c", "c"], [], ["b", "b", "c", "b"]],
        tmp_path / "some.ldac",
        str(tmp_path / "other.ldac.txt.xz"),
    ]
    for form in forms:
        documents = as_documents(form, list("abc") if isinstance(form, np.ndarray) else None)
        np.testing.assert_array_equal(documents.counts.toarray(), counts)
        assert as_documents(form, ["c", "x", "a"] if form is not counts else None).shape[0] == 3
    assert documents.ids.tolist() == ["first", "second", "third"]
    assert documents.words == ("a", "b", "c")
    np.testing.assert_array_equal(as_documents(documents, ["c", "x", "a"]).counts.toarray()[0], [2, 0, 1])
    assert as_documents(counts).words == ("w0", "w1", "w2")
    assert as_documents(["One cat; two CATS!", "x"]).words == ("cat", "cats", "one", "two")


def test_parts_and_tokens():
    documents = as_documents(np.array([[2, 0, 1], [0, 4, 3]]))
    np.testing.assert_array_equal(documents[[1, 0]].counts.toarray(), [[0, 4, 3], [2, 0, 1]])
    ptr, owner = documents.tokens
    assert ptr.tolist() == [0, 2, 6, 10]
    assert owner.tolist() == [0, 0, 1, 1, 1, 1, 0, 1, 1, 1]
    first, second = documents.halves(np.random.default_rng(0))
    np.testing.assert_array_equal((first.counts + second.counts).toarray(), documents.counts.toarray())
    assert first.lengths.tolist() == [1, 3]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([[1.0, -2.0]], r"document 0 is neither a text"),
        (np.array([[1.0, -2.0]]), r"document 0 has -2.0 of the word in column 1"),
        (np.array([[0.0, 1.0], [np.nan, 1.0]]), r"document 1 has nan"),
        (np.array([["a", "b"]]), r"must be a matrix of numbers"),
        (np.zeros(3), r"must be a matrix"),
        (7, r"documents are a .ldac file.*got int"),
    ],
)
def test_what_holds_no_counts_is_refused(source, message):
    with pytest.raises(InputError, match=message):
        as_documents(source)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0:2\n2 0:1\n", "line 2: expected the number of different words"),
        ("1 x:2\n", "line 1: expected the number"),
        ("1 5:2\n", r"line 1: word 5 is not one of the 2 in the vocabulary"),
        ("1 0:2\n1 0:2\n", "has 2 documents, and there are 1 titles"),
    ],
)
def test_bad_lines_are_named(tmp_path, text, message):
    (tmp_path / "c.ldac").write_text(text)
    (tmp_path / "c.vocab").write_text("a\nb\n")
    (tmp_path / "c.titles").write_text("one\n")
    with pytest.raises(ReadError, match=message):
        as_documents(tmp_path / "c.ldac")


def test_columns_must_fit_the_words(tmp_path):
    with pytest.raises(InputError, match=r"X has 2 columns, and there are 3 words \(features\)"):
        as_documents(np.ones((1, 2)), ["a", "b", "c"])
    with pytest.raises(ReadError, match="no such file"):
        as_documents(tmp_path / "none.ldac")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ReadError, match=r"expected a corpus whose name has \.ldac in it"):
        as_documents(tmp_path / "rows.csv")
