"""Formats: each reader module registers its own, and the more particular ones are asked first."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

import hiddenfield as hf
from hiddenfield.data.formats import FORMATS
from hiddenfield.errors import InputError, ReadError

READER = """
from rings_package import FORMATS
from hiddenfield.data.formats import Format
from hiddenfield.data import from_edges

def read(path):
    sizes = [int(line) for line in path.read_text().split()]
    first = [sum(sizes[:k]) + i for k, size in enumerate(sizes) for i in range(size)]
    second = [sum(sizes[:k]) + (i + 1) % size for k, size in enumerate(sizes) for i in range(size)]
    return from_edges(first, second, node_ptr=[sum(sizes[:k]) for k in range(len(sizes) + 1)])

FORMAT = FORMATS.add(Format.of_suffixes("rings", "one ring per line, given by its size", (".rings",), read=read))
"""
PACKAGE = "from hiddenfield.data.formats import Formats\nFORMATS = Formats('format', __name__)\n"


def test_adding_a_format_is_adding_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "rings_package"
    package.mkdir()
    (package / "__init__.py").write_text(PACKAGE)
    (package / "rings.py").write_text(READER)
    monkeypatch.syspath_prepend(tmp_path)
    from rings_package import FORMATS

    path = tmp_path / "some.rings"
    path.write_text("5\n6\n")
    found = FORMATS.recognise(path)
    assert found.read(path).num_nodes.tolist() == [5, 6]
    assert FORMATS.facts("rings")["summary"] == "one ring per line, given by its size"
    assert FORMATS.recognise(tmp_path / "some.csv") is None
    with pytest.raises(InputError, match="unknown format 'ring'"):
        FORMATS.choose("ring")


def test_the_more_particular_formats_are_asked_first() -> None:
    names = list(FORMATS)
    assert names[0] == "arrow"
    assert names[-1] == "edge_list"
    assert names.index("tu") < names.index("neighbours") < names.index("edge_list")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("extra", 7, "no extra node label '7'"),
        ("extra", [["charge"]], "the option extra must be a list of texts"),
        ("num_workers", "x", "the option num_workers must be a whole number or none, got 'x'"),
        ("num_workers", True, "the option num_workers must be a whole number or none, got True"),
        ("header", "maybe", "the option header must be true or false or none, got 'maybe'"),
        ("missing", {"a": 1}, "the option missing must be a list of texts"),
        ("separator", [1], "the option separator must be a text or none"),
    ],
)
def test_values_that_an_option_cannot_mean(tmp_path, option, value, message):
    (tmp_path / "m.csv").write_text("smiles,y\nCCO,1\n")
    with pytest.raises(InputError, match=re.escape(message)):
        hf.read(tmp_path / "m.csv", **{option: value})


def test_values_as_a_command_line_gives_them(tmp_path):
    (tmp_path / "m.csv").write_text("smiles,y,NR-a,NR-b\nCCO,1,1,2\nCC[N+],3,1,2\n")
    pack = hf.read(tmp_path / "m.csv", extra="charge", missing=3, target="y")
    assert pack.node_vocabularies[-1].name == "charge"
    assert pack.targets.isnan().flatten().tolist() == [False, True]
    assert hf.read(tmp_path / "m.csv", target="NR-*,y").target_names == ("NR-a", "NR-b", "y")
    assert hf.read(tmp_path / "m.csv", target="*").target_names == ("y", "NR-a", "NR-b")


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("x.tree", b"", "the file is empty"),
        ("x.txt", b" \n\n", "the file is empty"),
        ("x.txt.gz", gzip.compress(b"2\n1 1\n6 0\n", mtime=0)[:-9], "cannot be decompressed"),
        ("x.txt", b"what is this\n?", "not recognised as any known format"),
    ],
)
def test_a_file_of_no_format_says_why(tmp_path: Path, name: str, contents: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(ReadError, match=message):
        hf.read(tmp_path / name)
