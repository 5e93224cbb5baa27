"""XML documents as trees: against the standard library's parser, and what must not be read."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pytest
from hypothesis import given, strategies as st

import hiddenfield as hf
from hiddenfield.data.readers import xml
from hiddenfield.errors import ReadError
from tests.data.readers.fuzzing import survive

LIBRARY = """<?xml version="1.0"?>
<!DOCTYPE library SYSTEM "nowhere.dtd">
<library>
  <!-- two books -->
  <book kind="novel"> <title>A &amp; B</title> <page/> <page/> </book>
  <shelf><book kind="atlas" size="big"/></shelf>
</library>
"""

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=4)
elements = st.recursive(
    st.tuples(st.sampled_from("abé"), texts, st.just([])),
    lambda inner: st.tuples(st.sampled_from("abé"), texts, st.lists(inner, max_size=3)),
)


def written(node: Any) -> str:
    tag, text, children = node
    return f"<{tag} k={quoteattr(text)}>{escape(text)}{''.join(map(written, children))}</{tag}>"


@given(node=elements)
def test_the_same_as_the_standard_library(tmp_path_factory: pytest.TempPathFactory, node: Any) -> None:
    path = tmp_path_factory.mktemp("xml") / "tree.xml"
    path.write_text(written(node), encoding="utf-8")
    pack = xml.read(path, attributes=["k"], text=True, arc_labels="direction")
    root = ElementTree.parse(path).getroot()
    numbers = {element: number for number, element in enumerate(root.iter())}
    parents = [-1] * len(numbers)
    for element in numbers:
        for child in element:
            parents[numbers[child]] = numbers[element]
    assert hf.data.to_parents(pack)[0].tolist() == parents
    tags, values, pieces = (
        vocabulary.decode(pack.node_labels[:, k].tolist())
        for k, vocabulary in enumerate(pack.node_vocabularies)
    )
    assert tags == [element.tag for element in numbers]
    assert values == [element.get("k") for element in numbers]
    assert pieces == [(element.text or "").strip() for element in numbers]


def test_a_document_and_its_records(tmp_path: Path) -> None:
    path = tmp_path / "library.xml"
    path.write_text(LIBRARY)
    whole = hf.read(path)
    assert whole.num_nodes.tolist() == [7]
    assert whole.ids.tolist() == ["library.xml"]
    books = hf.read(path, record="book", attributes=["size"], text=True, target="kind")
    assert books.num_nodes.tolist() == [4, 1]
    assert books.ids.tolist() == ["library.xml#0", "library.xml#1"]
    assert books.target_vocabularies[0].symbols == ("atlas", "novel")
    assert books.node_vocabularies[1].symbols == ("(none)", "big")
    assert "A & B" in books.node_vocabularies[2].symbols
    with pytest.raises(ReadError, match="no element is a 'film'"):
        hf.read(path, record="film")


def test_records_within_records_belong_to_the_outer_one(tmp_path: Path) -> None:
    path = tmp_path / "nested.xml"
    path.write_text("<r><a><b><a/></b></a><c><a/></c></r>")
    assert xml.read(path, record="a").num_nodes.tolist() == [3, 1]


def test_folders_and_zips(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    (folder / "deeper").mkdir(parents=True)
    (folder / "b.xml").write_text("<a><b/></a>")
    (folder / "a.xml.gz").write_bytes(gzip.compress(b"<a/>"))
    (folder / "deeper" / "c.xml").write_text("<c/>")
    (folder / "notes.txt").write_text("nothing")
    archive = tmp_path / "many.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in folder.rglob("*.*"):
            packed.write(file, file.relative_to(folder).as_posix())
    pack = hf.read(folder)
    assert pack.ids.tolist() == ["a.xml.gz", "b.xml", "deeper/c.xml"]
    assert pack.num_nodes.tolist() == [1, 2, 1]
    assert hf.read(archive) == pack
    (folder / "b.xml").write_text("<a>\n<b></a>")
    with pytest.raises(ReadError, match=r"many/b\.xml, line 2: column \d+: mismatched tag"):
        hf.read(folder)
    archive.write_bytes(archive.read_bytes()[:100])
    with pytest.raises(ReadError, match="cannot be opened as a zip archive"):
        xml.read(archive)
    assert not xml.FORMAT.recognises(archive)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReadError, match=r"holds no file whose name ends in \.xml"):
        xml.read(tmp_path / "empty")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('<!DOCTYPE a [\n<!ENTITY x "y">]><a>&x;</a>', "line 2: the document declares the entity 'x'"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "declares the entity 'x'"),
        ('<!DOCTYPE a [<!ENTITY % x "y">]><a/>', "declares the entity 'x'"),
        ("<a>&nbsp;</a>", "undefined entity"),
        ("<a>", "no element found"),
        ("", "no element found"),
        ("<a/><b/>", "junk after document element"),
        ('<?xml version="1.0" encoding="klingon"?><a/>', "line 1"),
        ("<a b='1' b='2'/>", "duplicate attribute"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.xml"
    path.write_text(text)
    with pytest.raises(ReadError) as caught:
        xml.read(path)
    assert words in str(caught.value)


def test_encodings(tmp_path: Path) -> None:
    path = tmp_path / "latin.xml"
    path.write_bytes('<?xml version="1.0" encoding="iso-8859-1"?><é/>'.encode("latin-1"))
    assert xml.read(path).node_vocabularies[0].symbols == ("é",)


def test_damaged_files(tmp_path: Path) -> None:
    tokens = [
        b"<",
        b">",
        b"/",
        b"<a>",
        b"</a>",
        b"&",
        b"<!ENTITY x 'y'>",
        b'"',
        b"\xff",
        b"<!--",
        b"<![CDATA[",
    ]
    assert survive(xml.read, tmp_path / "x.xml", LIBRARY.encode(), tokens) > 100


def test_deep_documents(tmp_path: Path) -> None:
    path = tmp_path / "deep.xml"
    path.write_text("<a>" * 100_000 + "</a>" * 100_000)
    assert np.array_equal(hf.data.to_parents(xml.read(path))[0], np.arange(-1, 99_999))
    path.write_text("<a>" * 100_000)
    with pytest.raises(ReadError, match="no element found"):
        xml.read(path)
