"""Damaged tables and FASTA files give either an error of ours or a valid pack, never anything else."""

from __future__ import annotations

import gzip
import lzma
import random
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from hiddenfield import Structures
from hiddenfield.data import to_sequences
from hiddenfield.data.readers import fasta, table
from hiddenfield.errors import InputError, SkippedInputWarning

pytest.importorskip("rdkit")

SMILES = (
    b"name,smiles,y,kind\r\n"
    b'"ethanol, pure",CCO,1.5,a\r\nbenzene,c1ccccc1,-2e-3,b\r\nsalt,[Na+].[Cl-],NA,a\r\n'
    b'"a ""quoted""\r\nname",C[C@H](N)C(=O)O,4,\r\nwater,O,5,b\r\n'
)
SEQUENCES = b"id\tsequence\ty\nx1\tGATTACA\t1\nx2\tCAT\t0\nx3\tT\tNA\n"
FASTA = b">sp|P1 first\nMKVLA\nGG*\n\n>sp|P2\nmka-\n>P3 third one\nACDEF\n"


def damage(contents: bytes, seed: int) -> bytes:
    """Cut, flip, insert, or shuffle lines: one to three things, all from the seed."""
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(contents) + 1)
        lines = contents.split(b"\n")
        line = chance.randrange(len(lines))
        match chance.randrange(7):
            case 0:
                contents = contents[:place]
            case 1 if place < len(contents):
                flipped = contents[place] ^ (1 << chance.randrange(8))
                contents = contents[:place] + bytes([flipped]) + contents[place + 1 :]
            case 2:
                sign = chance.choice(
                    [b'"', b",", b"\t", b"\0", b"\xff", b"\n", b"\r", b">", b"(", b"1", b"\xef\xbb\xbf"]
                )
                contents = contents[:place] + sign + contents[place:]
            case 3:
                contents = b"\n".join(lines[:line] + lines[line + 1 :])
            case 4:
                contents = b"\n".join(lines[: line + 1] + lines[line:])
            case 5:
                chance.shuffle(lines)
                contents = b"\n".join(lines)
            case _:
                end = chance.randrange(len(contents) + 1)
                contents = contents[: min(place, end)] + contents[max(place, end) :]
    return contents


def check(pack: Structures) -> None:
    """Look at everything that a pack promises."""
    count, nodes, arcs = len(pack), pack.total_nodes, pack.total_arcs
    assert pack.node_ptr[0] == 0
    assert pack.node_ptr[-1] == nodes
    assert (pack.num_nodes > 0).all()
    assert pack.in_ptr[-1] == arcs
    assert ((pack.source >= 0) & (pack.source < nodes)).all()
    assert pack.symmetric
    for column, words in enumerate(pack.node_vocabularies):
        assert (pack.node_labels[:, column] < len(words)).all()
    assert pack.ids is None or len(pack.ids) == count
    assert pack.targets is None or len(pack.targets) == count
    assert pack[list(range(count))] == pack


def survives(read: Callable[[], Structures]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkippedInputWarning)
        try:
            pack = read()
        except InputError:
            return False
    check(pack)
    return True


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_tables_of_molecules(tmp_path: Path, first: int) -> None:
    path = tmp_path / "set.csv"
    read = 0
    for seed in range(first, first + 50):
        path.write_bytes(damage(SMILES, seed))
        options = {"target": ["y", "kind"], "id": 0} if seed % 2 else {}
        read += survives(lambda o=options: table.read(path, on_error="skip", **o))
    assert 0 < read < 50  # neither everything nor nothing is refused


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_tables_of_sequences(tmp_path: Path, first: int) -> None:
    path = tmp_path / "set.tsv"
    read = 0
    for seed in range(first, first + 50):
        path.write_bytes(damage(SEQUENCES, seed))
        read += survives(lambda: table.read(path, target="y", id="id"))
    assert 0 < read < 50


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_fasta(tmp_path: Path, first: int) -> None:
    path = tmp_path / "set.fasta"
    read = 0
    for seed in range(first, first + 50):
        path.write_bytes(damage(FASTA, seed))
        options = {"labels": "header"} if seed % 3 == 0 else {"alphabet": None} if seed % 3 == 1 else {}
        read += survives(lambda o=options: fasta.read(path, **o))
    assert 0 < read < 50


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files(tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"set.fasta{suffix}"
    whole = compress(FASTA)
    expected = None
    for seed in range(100):
        path.write_bytes(damage(whole, seed) if seed else whole)
        if survives(lambda: fasta.read(path)):
            expected = expected or to_sequences(fasta.read(path))
    assert expected == ["MKVLAGG*", "mka-", "ACDEF"]
