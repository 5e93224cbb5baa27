"""Tables of molecules and sequences, small ones with everything that can be wrong, and the real ones."""

from __future__ import annotations

import gzip
import lzma
import warnings
from pathlib import Path

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.data import from_sequences, from_smiles, to_sequences
from hiddenfield.data.readers.table import FORMAT, read
from hiddenfield.errors import InputError, ReadError, SkippedInputWarning

pytest.importorskip("rdkit")

SMALL = "name,smiles,logP,toxic,class\na,CCO,-0.18,no,0\nb,c1ccccc1,1.69,yes,1\nc,CCCl,,NA,1\n"


@pytest.fixture
def write(tmp_path: Path):
    def write(contents: str, name: str = "table.csv") -> Path:
        path = tmp_path / name
        path.write_text(contents, encoding="utf-8")
        return path

    return write


def test_molecules_are_those_of_from_smiles(write) -> None:
    pack = read(write(SMALL), target=["logP", "toxic"], id="name", keep="class")
    expected = from_smiles(
        ["CCO", "c1ccccc1", "CCCl"],
        targets={"logP": [-0.18, 1.69, np.nan], "toxic": ["no", "yes", None]},
        ids=["a", "b", "c"],
        columns={"class": [0, 1, 1]},
    )
    assert pack == expected


def test_without_target_there_are_none(write) -> None:
    pack = read(write(SMALL))
    assert pack.targets is None
    assert pack.target_names == ()
    assert list(pack.columns) == ["smiles"]


def test_numbers_as_classes(write) -> None:
    path = write(SMALL)
    assert read(path, target="class").target_vocabularies == (None,)
    for classes in (True, "class", ["class"], [4]):
        assert read(path, target=["logP", "class"][-1:], classes=classes).target_vocabularies[0].symbols == (
            0,
            1,
        )
    mixed = read(path, target=["logP", "class"], classes=["class"])
    assert [word is None for word in mixed.target_vocabularies] == [True, False]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_compression(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table.csv{suffix}"
    pack = {"": lambda x: x, ".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    path.write_bytes(pack(SMALL.encode()))
    assert FORMAT.recognises(path)
    assert len(read(path)) == 3
    path.write_bytes(path.read_bytes()[: -len(SMALL) // 9])
    if suffix:
        with pytest.raises(ReadError, match="cannot be decompressed"):
            read(path)


def test_no_header(write) -> None:
    path = write("1.5,CCO\n2.5,CN\n")
    pack = read(path, structure=1, target=0, header=None)
    assert pack.target_names == ("0",)
    assert pack.targets[:, 0].tolist() == [1.5, 2.5]
    with pytest.raises(
        InputError, match=r"is called smiles or sequence; it has the columns '1.5', 'CCO'.*header=None"
    ):
        read(path)


@pytest.mark.parametrize(
    "name", ["smiles", "SMILES", "canonical_smiles", "Mol_Smiles", "SMILES (canonical)", "isosmiles"]
)
def test_names_of_smiles_columns(write, name: str) -> None:
    assert "smiles" in read(write(f"x,{name}\n1,CC\n")).columns


@pytest.mark.parametrize(
    "name", ["sequence", "Sequence", "seq", "30mer", "protein_sequence", "Spacer Sequence"]
)
def test_names_of_sequence_columns(write, name: str) -> None:
    assert to_sequences(read(write(f"x,{name}\n1,CC\n"))) == ["CC"]


def test_an_exact_name_wins_and_several_near_ones_are_refused(write) -> None:
    assert read(write("smiles,scaffold_smiles\nCC,C\n")).num_nodes.tolist() == [2]
    with pytest.raises(InputError, match="several columns of structures: 'a_smiles', 'b_smiles'; choose one"):
        read(write("a_smiles,b_smiles\nCC,C\n"))


def test_the_kind_from_a_look_at_the_entries(write) -> None:
    assert "smiles" in read(write("x\nCC\nC=O\n"), structure="x").columns
    assert to_sequences(read(write("x\nCC\nCO\n"), structure="x")) == ["CC", "CO"]
    assert "smiles" in read(write("x\nCC\nCO\n"), structure="x", kind="smiles").columns
    assert to_sequences(read(write("smiles\nCC\n"), kind="sequence")) == ["CC"]


def test_sequences(write) -> None:
    path = write("seq,y\nACGT,1\nGG,0\n")
    pack = read(path, target="y", arc_labels="direction")
    assert pack == from_sequences(
        ["ACGT", "GG"], targets=[1.0, 0.0], target_names=["y"], arc_labels="direction"
    )


def test_several_columns_are_one_sequence(write) -> None:
    path = write("y,p1,p2,p3\n+,a,bb,a\n-,bb,,\n")
    pack = read(path, structure=["p1", "p2", "p3"], target="y")
    assert to_sequences(pack) == [["a", "bb", "a"], ["bb"]]
    assert pack.target_vocabularies[0].symbols == ("+", "-")
    gap = write("y,p1,p2,p3\n+,a,b,a\n-,b,,a\n")
    with pytest.raises(ReadError, match="line 3: a symbol within the sequence is missing"):
        read(gap, structure=range(1, 4))


def test_a_missing_sequence_is_refused_or_skipped(write) -> None:
    path = write("seq,y\nAC,1\n,2\nG,3\nNA,4\n")
    with pytest.raises(ReadError, match="line 3: the sequence is missing"):
        read(path)
    with pytest.warns(SkippedInputWarning, match="left out 2 of 4 rows.*line 3: '' .*line 5: 'NA'") as caught:
        pack = read(path, target="y", on_error="skip")
    assert caught[0].message.positions == (1, 3)
    assert pack.targets[:, 0].tolist() == [1.0, 3.0]
    assert pack.columns["row in file"].tolist() == [0, 2]
    assert "row in file" not in read(write("seq,y\nAC,1\n"), target="y", on_error="skip").columns


def test_a_molecule_that_cannot_be_read_is_refused_or_skipped(write) -> None:
    path = write('id,smiles,y\n1,CC,1\n2,"C1\nCC",2\n3,O,3\n4,,4\n')
    with pytest.raises(
        ReadError, match=r"table.csv, line 3: 'C1\\nCC' cannot be read as a molecule"
    ) as caught:
        read(path)
    assert caught.value.line == 3
    with pytest.warns(SkippedInputWarning, match="left out 2 of 4 rows.*line 3:.*line 6: '' ") as record:
        pack = read(path, target="y", id="id", on_error="skip")
    assert len(record) == 1
    assert record[0].message.positions == (1, 3)
    assert pack.ids.tolist() == ["1", "3"]
    assert pack.columns["smiles"].tolist() == ["CC", "O"]
    assert pack.columns["row in file"].tolist() == [0, 2]


def test_a_wrong_target_is_found_before_the_molecules_are_read(write) -> None:
    rows = "".join(f"C1,{k}\n" for k in range(15))
    with pytest.raises(
        ReadError, match=r"line 17: column 'y' holds numbers in 15 of 16 rows, but 'abc' here"
    ):
        read(write(f"smiles,y\n{rows}CC,abc\n"), target="y")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "logp"}, r"target='logp': no such column.*did you mean 'logP'"),
        ({"target": ["logP", "logP"]}, "target names a column twice"),
        ({"structure": "molecule"}, "structure='molecule': no such column"),
        ({"structure": 9}, "structure=9: .* has the columns 0 to 4"),
        ({"structure": []}, "structure must name one column"),
        ({"id": "key"}, "id='key': no such column"),
        ({"keep": ["key"]}, "keep='key': no such column"),
        ({"target": "logP", "classes": ["toxic"]}, "classes names the column 'toxic', which is no target"),
        ({"kind": "graph"}, "kind must be 'smiles' or 'sequence', got 'graph'"),
        ({"kind": "smiles", "structure": [1, 2]}, "SMILES stand in one column"),
        ({"on_error": "ignore"}, "on_error must be 'raise' or 'skip'"),
        ({"arc_labels": "direction"}, "arc_labels is an option of sequences"),
        ({"structure": "name", "explicit_hydrogens": True}, "options of SMILES"),
        ({"missing": "NA"}, "missing must be a list of texts"),
    ],
)
def test_wrong_options_are_refused(write, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(write(SMALL), **options)


def test_recognising_never_raises(tmp_path: Path) -> None:
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert not FORMAT.recognises(folder)
    assert not FORMAT.recognises(tmp_path / "other.bin")


# -- real files ----------------------------------------------------------------------------------------------


def head(path: Path, rows: int, target: Path) -> Path:
    """Copy the first rows of a compressed table."""
    with lzma.open(path, "rt", encoding="utf-8") as source:
        target.write_text(
            "".join(line for _, line in zip(range(rows + 1), source, strict=False)), encoding="utf-8"
        )
    return target


def test_cep(data_path: Path, tmp_path: Path) -> None:
    whole = data_path / "graphs" / "CEP" / "cep-processed.csv.xz"
    pack = read(head(whole, 1500, tmp_path / "cep.csv"), target="PCE")
    assert len(pack) == 1500
    assert pack.node_vocabularies[0].symbols == ("C", "N", "O", "S", "Se", "Si")
    lines = lzma.decompress(whole.read_bytes()).decode().splitlines()[1:]
    numbers = np.array([float(line.split(",")[1]) for line in lines])
    assert len(lines) == 29978
    assert pack.targets[:, 0].tolist() == numbers[:1500].tolist()
    assert numbers.mean() == pytest.approx(3.901, abs=5e-4)
    assert numbers.std() == pytest.approx(2.537, abs=5e-4)
    assert pack.num_nodes.double().mean().item() == pytest.approx(27.66, abs=0.3)
    assert pack.num_edges.double().mean().item() == pytest.approx(33.39, abs=0.4)


def test_esol(data_path: Path) -> None:
    path = data_path / "graphs" / "MOLECULENET" / "esol.csv.xz"
    name = "measured log solubility in mols per litre"
    pack = read(path, target=name, id="Compound ID", keep=["Number of Rings"])
    assert len(pack) == 1128
    assert pack.ids[0] == "Amigdalin"
    assert pack.targets[0, 0].item() == -0.77
    assert pack.columns["Number of Rings"].dtype.kind == "i"


def test_bbbp_has_eleven_that_rdkit_cannot_read(data_path: Path) -> None:
    path = data_path / "graphs" / "MOLECULENET" / "bbbp.csv.xz"
    with pytest.raises(ReadError, match=r"bbbp.csv.xz, line 61: 'O=N\(\[O-\]\)C1=C"):
        read(path, target="BBBP")
    with pytest.warns(SkippedInputWarning, match="left out 11 of 2050 rows") as caught:
        pack = read(path, target="BBBP", classes=True, on_error="skip")
    assert len(pack) == 2039
    assert len(caught[0].message.positions) == 11
    assert caught[0].message.positions[0] == 59
    assert pack.target_vocabularies[0].symbols == (0, 1)


def test_tox21_has_missing_entries(data_path: Path, tmp_path: Path) -> None:
    whole = data_path / "graphs" / "MOLECULENET" / "tox21.csv.xz"
    path = head(whole, 1000, tmp_path / "tox21.csv")
    pack = read(path, target=range(12), id="mol_id")
    assert pack.targets.shape == (1000, 12)
    entries = [line.split(",")[:12] for line in path.read_text().splitlines()[1:]]
    expected = np.array([[float(entry) if entry else np.nan for entry in row] for row in entries])
    np.testing.assert_array_equal(pack.targets.numpy(), expected)
    assert 0 < np.isnan(expected).sum() < expected.size


def test_malaria_has_no_header(data_path: Path, tmp_path: Path) -> None:
    path = head(data_path / "graphs" / "MOLECULENET" / "malaria.csv.xz", 499, tmp_path / "malaria.csv")
    pack = read(path, structure=1, target=0, header=None)
    assert len(pack) == 500
    assert pack.targets[0, 0].item() == 2.708050201


def test_crispr(data_path: Path) -> None:
    pack = read(
        data_path / "sequences" / "crispr_fc_res.csv.gz", target="score_drug_gene_rank", keep=["Target gene"]
    )
    assert len(pack) == 5310
    assert set(pack.num_nodes.tolist()) == {30}
    assert pack.node_vocabularies[0].symbols == ("A", "C", "G", "T")
    assert len(set(pack.columns["Target gene"].tolist())) == 17
    assert not pack.targets.isnan().any()


def test_promoters(data_path: Path) -> None:
    path = data_path / "sequences" / "promoters.csv.xz"
    pack = read(path, structure=[f"V{k}" for k in range(2, 59)], target="Class")
    assert pack.num_nodes.tolist() == [57] * 106
    assert pack.targets[:, 0].sum().item() == 53
    assert to_sequences(pack)[0].startswith("gccttctcc")


def test_hf_read_finds_the_format(write) -> None:
    path = write(SMALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hf.read(path, target="logP") == read(path, target="logP")
    with pytest.raises(InputError, match="format 'table' has no option 'column'"):
        hf.read(path, column="smiles")


def test_part_by_part_is_the_whole(write, monkeypatch) -> None:
    from hiddenfield.data.description import Description, describe
    from hiddenfield.data.formats import scan
    from hiddenfield.data.readers import table

    lines = [f"{'C' * (k % 5 + 1)}{'O' * (k % 3)},{k}.5,{'x' if k < 4 else 'y'}" for k in range(11)]
    path = write("smiles,size,kind\n" + "\n".join([*lines[:7], "C(,1,x", *lines[7:], "C1,1,y"]) + "\n")
    options = {"target": ["size", "kind"], "on_error": "skip"}
    with pytest.warns(SkippedInputWarning) as whole:
        pack = hf.read(path, **options)
    monkeypatch.setattr(table, "ROWS_AT_ONCE", 3)
    with pytest.warns(SkippedInputWarning) as parted:
        packs = list(scan(path, **options))
    assert len(packs) == 5
    assert [str(w.message) for w in parted] == [str(w.message) for w in whole]
    assert parted[0].message.positions == whole[0].message.positions == (7, 12)
    assert sum(map(len, packs)) == len(pack) == 11
    assert str(Description.of(packs)) == str(describe(pack))
    assert [str(s) for part in packs for s in part.columns["smiles"]] == pack.columns["smiles"].tolist()
    joined = [value for part in packs for value in part.targets[:, 0].tolist()]
    assert joined == pack.targets[:, 0].tolist()
    with pytest.raises(ReadError, match="line 9: 'C\\('"):
        list(scan(path))
