"""Files as fit and evaluate read them: once, with directions for sequences alone."""

from __future__ import annotations

import pytest

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.evaluation import reading


@pytest.mark.parametrize(
    ("name", "text", "vocabularies"),
    [
        ("molecules.csv", "smiles,y\nCCO,1\nC=C,2\n", ["bond", "conjugated", "ring"]),
        ("words.csv", "sequence,y\nGATTACA,1\nCAT,2\nA,3\n", ["direction"]),
        ("trees.sexpr", "(a (b c))\n", []),
    ],
)
def test_a_file_is_read_once(tmp_path, monkeypatch, name, text, vocabularies):
    read, calls = reading.read, []

    def counted(*arguments, **options):
        calls.append(options)
        return read(*arguments, **options)

    monkeypatch.setattr(reading, "read", counted)
    (tmp_path / name).write_text(text)
    options = {"format": "sexpr"} if name.endswith("sexpr") else {"target": "y"}
    structures, reader = reading.read_for_learning(tmp_path / name, options)
    assert [words.name for words in structures.arc_vocabularies] == vocabularies
    assert calls == [options]
    # What it returns reads the same structures again.
    again = hf.read(tmp_path / name, **reader)
    assert [words.name for words in again.arc_vocabularies] == vocabularies
    if vocabularies:
        assert structures.arc_labels.dtype == again.arc_labels.dtype
        assert structures.arc_labels.equal(again.arc_labels)


def test_a_column_is_kept_where_the_format_has_columns(tmp_path):
    (tmp_path / "words.csv").write_text("sequence,group,y\nGAT,a,1\nCAT,b,2\n")
    structures, _ = reading.read_for_learning(tmp_path / "words.csv", {"target": "y"}, keep="group")
    assert structures.columns["group"].tolist() == ["a", "b"]
    (tmp_path / "words.fasta").write_text(">one\nGAT\n")
    assert "group" not in reading.read_for_learning(tmp_path / "words.fasta", {}, keep="group")[0].columns


def test_a_table_without_a_target_is_told_its_columns(tmp_path):
    (tmp_path / "words.csv").write_text("sequence,length,kind\nGAT,3,a\n")
    with pytest.raises(
        InputError, match=r"name a target with target=; .* has the columns 'sequence', 'length', 'kind'"
    ):
        reading.read_for_learning(tmp_path / "words.csv", {})
