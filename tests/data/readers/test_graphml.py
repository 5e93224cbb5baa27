"""GraphML: what networkx writes comes back, and what it would pass over in silence is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import networkx
import pytest
from hypothesis import given

import hiddenfield as hf
from hiddenfield.data.readers import graphml, xml
from hiddenfield.errors import ReadError
from tests.data.readers.fuzzing import survive
from tests.data.strategies import structures

HEAD = '<?xml version="1.0"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
KEYS = """<key id="d0" for="node" attr.name="element" attr.type="string"><default>C</default></key>
<key id="d1" for="edge" attr.name="length" attr.type="double"/>
<key id="d2" for="graph" attr.name="yield" attr.type="double"/>
"""
GRAPH = """<graph id="G" edgedefault="undirected"><data key="d2">0.5</data>
<node id="n0"/><node id="n1"><data key="d0">O</data></node>
<edge source="n0" target="n1"><data key="d1">1.5</data></edge>
</graph>
"""
WHOLE = HEAD + KEYS + GRAPH + "</graphml>\n"


@given(pack=structures(max_structures=1, features=False, columns=False).filter(lambda pack: len(pack) == 1))
def test_what_networkx_writes_comes_back(
    tmp_path_factory: pytest.TempPathFactory, pack: hf.Structures
) -> None:
    path = tmp_path_factory.mktemp("graphml") / "graph.graphml"
    networkx.write_graphml(hf.data.to_networkx(pack)[0], path)
    assert graphml.read(path).replace(ids=None) == pack


def test_types_defaults_and_targets(tmp_path: Path) -> None:
    path = tmp_path / "one.graphml"
    path.write_text(WHOLE)
    pack = hf.read(path, target="yield", node_name="node")
    assert pack.ids.tolist() == ["one.graphml"]
    assert [v.name for v in pack.node_vocabularies] == ["element", "node"]
    assert pack.node_vocabularies[0].decode(pack.node_labels[:, 0].tolist()) == ["C", "O"]
    assert (pack.arc_attribute_names, pack.arc_attributes.flatten().tolist()) == (("length",), [1.5, 1.5])
    assert pack.targets.tolist() == [[0.5]]
    chosen = hf.read(path, node_label="element")
    assert (chosen.node_attributes, chosen.arc_attributes, chosen.targets) == (None, None, None)


def test_folders_zips_and_recognition(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    (folder / "a.graphml").write_text(WHOLE)
    (folder / "b.graphml").write_text(WHOLE.replace(">O<", ">N<"))
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, file.name)
    pack = hf.read(folder)
    assert (len(pack), pack.ids.tolist()) == (2, ["a.graphml", "b.graphml"])
    assert hf.read(tmp_path / "many.zip") == pack
    plain = tmp_path / "plain.xml"
    plain.write_text(WHOLE)
    assert not xml.FORMAT.recognises(plain)
    assert hf.read(plain) == hf.read(folder / "a.graphml").replace(ids=hf.read(plain).ids)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + KEYS + GRAPH + GRAPH + "</graphml>", "expected one graph per file, got a second one"),
        (HEAD + "</graphml>", "expected a <graph>"),
        (WHOLE.replace('<node id="n0"/>', "<node/>"), "line 7: every node needs an id of its own, got None"),
        (WHOLE.replace('"n0"/>', '"n1"/>'), "line 7: every node needs an id of its own, got 'n1'"),
        (WHOLE.replace('target="n1"', 'target="n7"'), "edge 0 ends at node 'n7', which is not declared"),
        (WHOLE.replace('target="n1"', ""), "line 8: an edge needs a source and a target"),
        (WHOLE.replace("1.5", "long"), "networkx cannot read it: ValueError"),
        (
            WHOLE.replace("</graph>", "<hyperedge/></graph>"),
            "<hyperedge>, nested graphs, hyperedges and ports are not read",
        ),
        (WHOLE.replace('<node id="n0"/>', '<node id="n0"><graph/></node>'), "line 7: <graph>, nested graphs"),
        (WHOLE.replace("<graph ", '<!ENTITY x "y"><graph '), "line 6"),
        (
            WHOLE.replace(
                '<edge source="n0"', '<edge id="e" source="n0" target="n1"/><edge id="e" source="n0"'
            ),
            "2 edges are written",
        ),
        (
            WHOLE.replace('<data key="d1">1.5</data>', "<a>" * 200 + "</a>" * 200),
            "nested more than 100 levels",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.graphml"
    path.write_text(text)
    with pytest.raises(ReadError) as caught:
        graphml.read(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_entities_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.graphml"
    path.write_text(WHOLE.replace("<graphml", '<!DOCTYPE graphml [<!ENTITY a "ha">]>\n<graphml', 1))
    with pytest.raises(ReadError, match="declares the entity 'a'"):
        graphml.read(path)


def test_mixed_directions_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.graphml").write_text(WHOLE)
    (tmp_path / "b.graphml").write_text(WHOLE.replace("undirected", "directed"))
    with pytest.raises(ReadError, match="all graphs directed or all undirected"):
        graphml.read(tmp_path)


def test_damaged_files(tmp_path: Path) -> None:
    tokens = [
        b"<",
        b">",
        b"/",
        b'<node id="n2"/>',
        b"</node>",
        b"<data>",
        b'"',
        b"d0",
        b"int",
        b"\xff",
        b"boolean",
    ]
    assert survive(graphml.read, tmp_path / "x.graphml", WHOLE.encode(), tokens) > 100
