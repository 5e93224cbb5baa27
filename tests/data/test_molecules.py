"""Molecules against RDKit itself, and everything that can be wrong with a SMILES."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

import hiddenfield as hf
from hiddenfield.data import from_smiles, molecules as module
from hiddenfield.errors import InputError, MissingDependencyError, SkippedInputWarning, UnknownSymbolError

Chem = pytest.importorskip("rdkit.Chem")

SMILES = [
    "CCO",
    "c1ccc2[nH]ccc2c1",
    "C",
    "[Na+].[Cl-]",
    "[H][H]",
    "C#N",
    "C[C@H](N)C(=O)O",
    "C[C@@H](N)C(=O)O",
    "[13CH4]",
    "[CH3]",
    "*C=C",
    "c1cc2c3cocc3c3c4[SiH2]C(=Cc4ncc3c2[se]1)c1scc2C=CCc12",
    "CC(=O)[O-].[NH4+]",
    "F[P-](F)(F)(F)(F)F",
    "N->[Fe]",
    "[Cl-]->[Pt+2]",
    "C1CC1C/C=C/C(=O)c1ccncc1",
    "O=C=O",
    "OCC3OC(OCC2OC(OC(C#N)c1ccccc1)C(O)C(O)C2O)C(O)C(O)C3O ",
]


def by_rdkit(text: str, explicit_hydrogens: bool = False) -> tuple[list[tuple], set[tuple]]:
    """Return node labels and arcs with labels, one RDKit call at a time."""
    molecule = Chem.MolFromSmiles(text)
    molecule = Chem.AddHs(molecule) if explicit_hydrogens else molecule
    nodes = [
        (
            atom.GetSymbol(),
            atom.GetDegree(),
            atom.GetTotalNumHs(),
            atom.GetValence(Chem.ValenceType.IMPLICIT),
            int(atom.GetIsAromatic()),
        )
        for atom in molecule.GetAtoms()
    ]
    arcs = set()
    for bond in molecule.GetBonds():
        labels = (str(bond.GetBondType()).lower(), int(bond.GetIsConjugated()), int(bond.IsInRing()))
        ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        arcs |= {(*ends, *labels), (*ends[::-1], *labels)}
    return nodes, arcs


def decoded(labels: torch.Tensor, vocabularies: tuple[hf.Vocabulary, ...]) -> list[tuple]:
    columns = [word.decode(labels[:, k].numpy()) for k, word in enumerate(vocabularies)]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("explicit_hydrogens", [False, True])
def test_labels_and_bonds_are_rdkits(explicit_hydrogens: bool) -> None:
    pack = from_smiles(SMILES, explicit_hydrogens=explicit_hydrogens, extra=())
    assert len(pack) == len(SMILES)
    for text, one in zip(SMILES, pack, strict=True):
        nodes, arcs = by_rdkit(text, explicit_hydrogens)
        assert decoded(one.node_labels, one.node_vocabularies) == nodes
        labels = decoded(one.arc_labels, one.arc_vocabularies)
        found = zip(one.source.tolist(), one.target.tolist(), labels, strict=True)
        assert {(source, target, *label) for source, target, label in found} == arcs
        assert one.total_arcs == len(arcs)
        assert one.symmetric


def test_columns_and_closed_vocabularies() -> None:
    pack = from_smiles(["CC"])
    assert [word.name for word in pack.node_vocabularies] == [
        "element",
        "degree",
        "hydrogens",
        "valence",
        "aromatic",
        "charge",
        "chirality",
    ]
    assert [word.name for word in pack.arc_vocabularies] == ["bond", "conjugated", "ring"]
    assert pack.node_vocabularies[0].symbols == ("C",)
    assert pack.node_vocabularies[4].symbols == (0, 1)
    assert pack.arc_vocabularies[0].symbols == ("single", "double", "triple", "aromatic")
    assert pack.columns["smiles"].tolist() == ["CC"]


def test_extra_labels() -> None:
    names = ("charge", "chirality", "hybridization", "isotope", "radicals")
    pack = from_smiles(["C[C@H](N)C(=O)[O-]", "[13CH3]"], extra=names)
    assert [word.name for word in pack.node_vocabularies[5:]] == list(names)
    rows = decoded(pack.node_labels[:, 5:], pack.node_vocabularies[5:])
    centre = Chem.MolFromSmiles("C[C@H](N)C(=O)[O-]").GetAtomWithIdx(1).GetProp("_CIPCode")
    assert rows[1] == (0, centre, "sp3", 0, 0)
    assert rows[5] == (-1, "none", "sp2", 0, 0)
    assert rows[6] == (0, "none", "sp3", 13, 1)


def test_rarer_bonds_keep_rdkits_name() -> None:
    pack = from_smiles(["N->[Fe]", "CC"])
    assert pack.arc_vocabularies[0].symbols == ("single", "double", "triple", "aromatic", "dative")


def test_targets_ids_and_columns_follow_their_molecule() -> None:
    with pytest.warns(SkippedInputWarning) as caught:
        pack = from_smiles(
            ["C", "C1", "CC"],
            targets={"t": [1.0, 2.0, 3.0], "kind": ["a", "b", "b"]},
            ids=["x", "y", "z"],
            columns={"weight": [16.0, 0.0, 30.0]},
            on_error="skip",
        )
    assert pack.ids.tolist() == ["x", "z"]
    assert pack.targets.tolist() == [[1.0, 0.0], [3.0, 1.0]]
    assert pack.columns["weight"].tolist() == [16.0, 30.0]
    assert pack.columns["smiles"].tolist() == ["C", "CC"]
    assert caught[0].message.positions == (1,)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("C(", "syntax error around position 2"),
        ("C1CC", "unclosed ring"),
        ("CC)", "extra close parentheses"),
        ("C(C)(C)(C)(C)C", "Explicit valence for atom # 0 C, 5, is greater than permitted"),
        ("c1cccc1", "kekulize"),
        ("", "the text is empty"),
        ("  ", "the text is empty"),
        ("[Xx]", "syntax error"),
        ("CC\0C", "syntax error"),
        ("\ud800", "surrogate"),
        (None, "expected SMILES text, got None"),
        (float("nan"), "expected SMILES text, got nan"),
        (7, "expected SMILES text, got 7"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_reason(
    text: object, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError) as caught:
        from_smiles(["C", text, "O"])
    assert str(caught.value).startswith(f"row 1: {text!r} cannot be read as a molecule by RDKit")
    assert reason.lower() in str(caught.value).lower()
    assert capfd.readouterr() == ("", "")


def test_skipping_reports_all_and_lists_ten() -> None:
    texts = ["C"] + ["C1"] * 12 + ["O"]
    with pytest.warns(SkippedInputWarning, match="left out 12 of 14 rows") as caught:
        pack = from_smiles(texts, on_error="skip")
    assert len(caught) == 1
    assert len(pack) == 2
    assert caught[0].message.positions == tuple(range(1, 13))
    assert pack.columns["row in file"].tolist() == [0, 13]
    assert "row 10: 'C1' (unclosed ring); and 2 more" in str(caught[0].message)


def test_nothing_skipped_is_nothing_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(from_smiles(["C"], on_error="skip")) == 1


def test_all_skipped_is_an_empty_pack() -> None:
    with pytest.warns(SkippedInputWarning):
        pack = from_smiles(["C1", ""], targets=[1.0, 2.0], on_error="skip")
    assert len(pack) == 0
    assert pack.targets.shape == (0, 1)


def test_nothing_at_all() -> None:
    assert len(from_smiles([])) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_error": "drop"}, "on_error must be 'raise' or 'skip', got 'drop'"),
        ({"extra": ["mass"]}, "no extra node label 'mass'; choose from: charge"),
        ({"num_workers": 0}, "num_workers, if not None for all cores, must be an integer of at least 1"),
        ({"targets": [1.0, 2.0]}, "targets must have one entry for each of 1 structures, got 2"),
        ({"ids": ["a", "b"]}, "ids must hold one text for each of 1 structures"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_smiles(["C"], **options)


def test_one_text_is_no_list() -> None:
    with pytest.raises(InputError, match="expected a list of SMILES, got 'CCO'"):
        from_smiles("CCO")


def test_single_labels_join_the_columns() -> None:
    pack = from_smiles(["CCO"], single_labels=True, extra=())
    assert pack.node_vocabularies[0].name == "element|degree|hydrogens|valence|aromatic"
    assert pack.node_vocabularies[0].decode(pack.node_labels[:, 0].numpy()) == [
        "C|1|3|3|0",
        "C|2|2|2|0",
        "O|1|1|1|0",
    ]
    assert pack.arc_vocabularies[0].symbols == ("single|0|0",)


def test_a_models_vocabularies_apply() -> None:
    known = from_smiles(["CCO", "CN"])
    pack = from_smiles(["NC"]).recode(known.node_vocabularies, known.arc_vocabularies)
    assert pack.node_vocabularies == known.node_vocabularies
    with pytest.raises(UnknownSymbolError, match="structure 1: element 'S' of node 1"):
        from_smiles(["CC", "CS"]).recode(known.node_vocabularies)


def test_generated_molecules_carry_the_same_labels() -> None:
    generated = hf.datasets.huckel(40, seed=1, smiles=True)
    known = hf.datasets.huckel(2000, seed=0)
    parsed = from_smiles(generated.columns["smiles"], extra=())
    assert [word.name for word in parsed.node_vocabularies] == [word.name for word in known.node_vocabularies]
    assert [word.name for word in parsed.arc_vocabularies] == [word.name for word in known.arc_vocabularies]
    recoded = parsed.recode(known.node_vocabularies, known.arc_vocabularies)
    other = generated.recode(known.node_vocabularies, known.arc_vocabularies)
    assert recoded.num_nodes.tolist() == other.num_nodes.tolist()
    for one, two in zip(recoded, other, strict=True):
        assert sorted(one.node_labels.tolist()) == sorted(two.node_labels.tolist())
        assert sorted(one.arc_labels.tolist()) == sorted(two.arc_labels.tolist())


def test_workers_give_what_one_process_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 7)
    monkeypatch.setattr(module, "FEW", 10)
    texts = SMILES * 3
    texts[20:20] = ["C1", ""]
    packs = []
    for workers in (1, 2):
        with pytest.warns(SkippedInputWarning) as caught:
            packs.append(
                from_smiles(texts, on_error="skip", num_workers=workers, targets=np.arange(len(texts)))
            )
        assert caught[0].message.positions == (20, 21)
    assert packs[0] == packs[1]
    with pytest.raises(InputError, match="row 20: 'C1'"):
        from_smiles(texts, num_workers=2)


def test_workers_load_no_torch() -> None:
    code = "import sys, hiddenfield.data.rdkit_atoms; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_without_rdkit_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        MissingDependencyError, match=r"reading SMILES needs the package 'rdkit'.*\[molecules\]"
    ):
        from_smiles(["C"])


def test_no_further_labels_as_a_command_line_says_it() -> None:
    assert from_smiles(["CC"], extra=["none"]) == from_smiles(["CC"], extra=())
