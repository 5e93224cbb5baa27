"""What the panels compute and draw."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.decomposition import PCA

import hiddenfield as hf
from hiddenfield.data.convert.sequences import first_other
from hiddenfield.evaluation.assessment.details import error_ranges
from hiddenfield.report.distributions import Distributions
from hiddenfield.report.examples import (
    best_and_worst,
    draw_graph,
    draw_molecule,
    draw_sequence,
    layout,
    share_colours,
)
from hiddenfield.report.panels import confusion, embedding_map, far_rows, principal_components
from tests.data.strategies import structures
from tests.report.test_report import ATTACK, results


@given(st.integers(0, 1000), st.integers(3, 30), st.integers(1, 6))
def test_principal_components_are_those_of_scikit_learn(seed, count, width):
    rows = np.random.default_rng(seed).normal(size=(count, width)) * np.arange(1, width + 1)
    places, shares = principal_components(rows)
    peer = PCA().fit(rows)
    expected = peer.transform(rows)[:, :2]
    assert np.allclose(np.abs(places[:, : expected.shape[1]]), np.abs(expected), atol=1e-6)
    assert np.allclose(shares[: expected.shape[1]], peer.explained_variance_ratio_[:2])
    assert np.array_equal(principal_components(rows)[0], places)


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=1, max_size=60))
def test_bins_hold_every_error(pairs):
    truth, predicted = np.array(pairs).T
    ranges = error_ranges(truth, predicted)
    assert sum(part.count for part in ranges) == len(truth)
    assert all(low.high == high.low for low, high in itertools.pairwise(ranges))
    total = sum(part.count * part.mae for part in ranges if part.mae is not None)
    assert total / len(truth) == pytest.approx(np.abs(truth - predicted).mean())


def test_rows_of_a_confusion_matrix_are_the_true_classes():
    truth, chosen = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 1, 0, 2])
    drawn = confusion("abc", truth.astype(float), np.eye(3)[chosen])
    counts = [text for text in re.findall(r">(\w+)</text>", drawn) if text.isdecimal()]
    assert counts == list("110010101")


@given(st.integers(1, 12))
def test_best_and_worst_do_not_overlap(count):
    shown = results(hf.data.from_sequences(["A"] * count), range(count))
    best, worst = best_and_worst(shown)
    assert not set(best.tolist()) & set(worst.tolist())
    assert len(best) + len(worst) == min(count, len(best) + 4)


def test_colours_are_deepest_for_the_largest_share():
    colours = share_colours(np.array([0.5, -1.0, 0.0, np.nan]))
    assert colours[2].tolist() == colours[3].tolist() == [1.0, 1.0, 1.0]
    assert colours[0, 0] > colours[0, 2]  # red
    assert colours[1, 2] > colours[1, 0]  # blue
    assert colours[1].min() < colours[0].min()


@given(structures(max_structures=1, max_nodes=6), st.booleans())
def test_any_structure_can_be_drawn(pack, coloured):
    for structure in pack:
        colours = share_colours(np.linspace(-1, 1, structure.total_nodes)) if coloured else None
        drawn = draw_graph(structure, colours, "one")
        assert (drawn is None) == (structure.total_nodes == 0)
        assert layout(structure).shape == (structure.total_nodes, 2)
        assert np.array_equal(layout(structure), layout(structure))
        draw_sequence(structure, colours)


def test_sequences_are_told_from_other_structures():
    assert first_other(hf.data.from_sequences(["GATTACA"])[0]) is None
    assert first_other(hf.data.from_sequences(["G"])[0]) is None
    ring = hf.Structures.from_edges([0, 1, 2], [1, 2, 0], node_ptr=[0, 3])
    assert first_other(ring) == 0
    assert draw_sequence(ring, None) is None
    drawn = draw_sequence(hf.data.from_sequences([[ATTACK, "b"]]), share_colours(np.array([1.0, -1.0])))
    assert "<script" not in drawn
    assert drawn.count("<span") == 2
    assert "and 100 more" in draw_sequence(hf.data.from_sequences(["A" * 700]), None)


def test_molecules_are_drawn_where_their_atoms_are_the_nodes():
    pytest.importorskip("rdkit")
    pack = hf.data.from_smiles(["CCO", "c1ccccc1"])
    ethanol = pack[0]
    assert "smiles" in ethanol.columns
    plain, coloured = (
        draw_molecule(ethanol, colours, "one")
        for colours in (None, share_colours(np.array([1.0, 0.0, -1.0])))
    )
    assert plain.startswith("<svg")
    assert coloured.count("<ellipse") == 3
    assert draw_molecule(pack[1].replace(columns={"smiles": np.array(["CCO"])}), None, "one") is None
    assert draw_molecule(ethanol.replace(columns={"smiles": np.array(["OCC"])}), None, "one") is None
    assert draw_molecule(ethanol.replace(columns={"smiles": np.array([ATTACK])}), None, "one") is None
    assert draw_molecule(ethanol.replace(columns={}), None, "one") is None


def test_what_is_too_large_is_not_drawn():
    large = hf.Structures.from_edges(np.zeros(500, dtype=int), np.arange(1, 501), node_ptr=[0, 501])
    assert draw_graph(large, None, "one") is None


def test_two_outliers_do_not_flatten_the_map():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(200, 5)) * [3.0, 2.0, 1.0, 1.0, 1.0]
    rows[:2] = [[0, 0, 0, 0, 1e4], [0, 0, 0, 0, -1e4]]
    far = far_rows(rows)
    assert np.flatnonzero(far).tolist() == [0, 1]
    places, shares = principal_components(rows, of=~far)
    # The directions are those of the others, in which the outliers are nothing special.
    assert np.abs(places[:2]).max() < 0.2 * np.abs(principal_components(rows)[0][:2]).max()
    assert shares[0] < 0.9
    page = embedding_map("y", np.arange(200.0), rows, None)
    assert "2 (circled) lie far outside" in page
    assert "circled" not in embedding_map("y", np.arange(198.0), rows[2:], None)
    # A twentieth is a group, not a few outliers.
    assert not far_rows(np.concatenate([rows[2:], rows[2:40] + 1e4])).any()


def test_counts_of_very_different_size_have_plain_numbers_on_their_axis(tmp_path):
    words = hf.data.from_sequences(["A" * 600 + "B"])
    gathered = Distributions()
    description = hf.data.Description.of(gathered.watch([words]))
    gathered.draw(description, tmp_path / "words.svg", title="words")
    text = (tmp_path / "words.svg").read_text(encoding="utf-8")
    assert ">100<" in text
    assert "mathdefault" not in text
