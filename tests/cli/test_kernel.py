"""``hiddenfield kernel``."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import hiddenfield as hf
from hiddenfield.kernels import GappedKmers, WLSubtree
from tests.cli.calling import call, done


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.parquet"
    hf.write(hf.data.from_sequences(["GATTACA", "CAT", "TAC", ""]), path)
    return path


def test_a_gram_matrix_and_features(words, tmp_path, capsys):
    pack = hf.read(words)
    result = done(capsys, "kernel", words, "-p", "rounds=1", "--out", tmp_path / "gram.npy")
    assert result["shape"] == [4, 4]
    assert np.array_equal(np.load(tmp_path / "gram.npy"), WLSubtree(rounds=1).fit(pack).gram(pack))
    done(capsys, "kernel", words, "-k", "gapped_kmers", "-p", "g=3", "-p", "m=1", "--out", tmp_path / "x.npz")
    features = sparse.load_npz(tmp_path / "x.npz")
    assert (features != GappedKmers(g=3, m=1).fit(pack).transform(pack)).nnz == 0


def test_against_other_structures_in_single_precision(words, tmp_path, capsys):
    other = tmp_path / "other.parquet"
    hf.write(hf.data.from_sequences(["TACC", "XX"]), other)
    out = tmp_path / "gram.npy"
    done(
        capsys,
        "kernel",
        words,
        "--against",
        other,
        "--dtype",
        "float32",
        "-p",
        "normalise=true",
        "--out",
        out,
    )
    gram = np.load(out)
    assert gram.dtype == np.float32
    assert np.allclose(
        gram, WLSubtree(normalise=True).fit(hf.read(other)).gram(hf.read(words), hf.read(other))
    )


def test_what_is_refused(words, tmp_path, capsys):
    out = tmp_path / "features.npz"
    assert "choose from: blended_spectrum" in call(capsys, "kernel", words, "-k", "unknown", "--out", out)[2]
    assert "has no parameter 'k'" in call(capsys, "kernel", words, "-p", "k=3", "--out", out)[2]
    code, _, message = call(capsys, "kernel", words, "-k", "mismatch", "--out", out)
    assert code == 1
    assert "mismatch has no explicit features; write its Gram matrix: --out gram.npy" in message
