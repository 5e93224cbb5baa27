"""Files of Bayesian networks: rows that do not sum to one, XMLBIF and NET."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.errors import ReadError, RowSumWarning

BIF = """network rain {{ }}
variable rain {{ type discrete [ 2 ] {{ no, yes }}; }}
variable grass {{ type discrete [ 2 ] {{ dry, wet }}; }}
probability ( rain ) {{ table 0.8, {rain}; }}
probability ( grass | rain ) {{
  (no) 0.9, 0.1;
  (yes) 0.2, {grass};
}}
"""

XML = """<?xml version="1.0" encoding="US-ASCII"?>
<!DOCTYPE BIF [ <!ELEMENT BIF ( NETWORK )*> <!ATTLIST BIF VERSION CDATA #REQUIRED> ]>
<BIF VERSION="0.3">
<NETWORK><NAME>rain</NAME>
<!-- Definitions may come first. -->
<DEFINITION><FOR>grass</FOR><GIVEN>rain</GIVEN><GIVEN>season</GIVEN>
<TABLE>0.9 0.1 <!-- no, dry season -->
0.8 0.2 0.7 0.3
0.2 0.8 0.1 0.9 0.0 1.0</TABLE></DEFINITION>
<VARIABLE TYPE="nature"><NAME>rain</NAME><OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME><PROPERTY/></VARIABLE>
<VARIABLE><NAME>season</NAME><OUTCOME>a &amp; b</OUTCOME><OUTCOME>c</OUTCOME><OUTCOME>d</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature"><NAME>grass</NAME><OUTCOME>dry</OUTCOME><OUTCOME>wet</OUTCOME></VARIABLE>
<DEFINITION><FOR>rain</FOR><TABLE>0.75 0.25</TABLE></DEFINITION>
<DEFINITION><FOR>season</FOR><TABLE>0.5 0.25 0.25</TABLE></DEFINITION>
</NETWORK></BIF>
"""

NET = """% a comment; node x {
net { node_size = (80 40); name = "a { b }"; }
node rain { states = ("no" "yes"); label = "50% of it"; position = (1 2); }
discrete node season { states = ("a & b" "c" "d"); }
node grass
{
  states = (dry wet);
}
potential (rain) { data = (0.75 0.25); }
potential (season | ) { data = ( 0.5 0.25
  0.25 ); }
potential (grass | rain season) {
  data = (((0.9 0.1) % dry season
    (0.8 0.2) (0.7 0.3))
    ((0.2 0.8) (0.1 0.9) (0.0 1.0)));
}
"""


def test_rows_that_do_not_sum_to_one(tmp_path: Path) -> None:
    path = tmp_path / "rain.bif"
    path.write_text(BIF.format(rain="0.2", grass="0.8000001"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hf.fields.read(path)
    path.write_text(BIF.format(rain="0.2", grass="0.81"))
    with pytest.warns(
        RowSumWarning, match=r"rain.bif, line 7: the probabilities of 'grass' given rain=yes sum to 1.01,"
    ):
        hf.fields.read(path)
    path.write_text(BIF.format(rain="0.21", grass="0.81"))
    with pytest.warns(
        RowSumWarning, match=r"line 4: the probabilities of 'rain' sum to 1.01, .*and 1 more rows"
    ):
        hf.fields.read(path)
    path.write_text(BIF.format(rain="0.2", grass="0.08"))
    with pytest.raises(
        ReadError, match=r"line 7: the probabilities of 'grass' given rain=yes sum to 0.28, not 1"
    ):
        hf.fields.read(path)


@pytest.mark.parametrize(("name", "text"), [("x.xmlbif", XML), ("x.xml", XML), ("x.net", NET)])
def test_other_formats_of_networks(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    field = hf.fields.read(tmp_path / name)
    assert set(field.variable_names) == {"rain", "season", "grass"}
    assert field.state_names[field.index_of("season")] == ("a & b", "c", "d")
    both = hf.inference.joint(field, ["rain", "season", "grass"])
    assert both["no", "c", "wet"] == pytest.approx(0.75 * 0.25 * 0.2)
    assert both["yes", "a & b", "dry"] == pytest.approx(0.25 * 0.5 * 0.2)
    assert both["yes", "d", "dry"] == 0
    hf.fields.write(field, tmp_path / "again.bif")
    np.testing.assert_allclose(
        hf.infer(hf.fields.read(tmp_path / "again.bif")).marginals, hf.infer(field).marginals
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "text"),
    [
        ("x.xml", "0.8 0.2 0.7", "0.8 0.2 x", "line 8: expected a probability of at least 0, got 'x'"),
        ("x.xml", "0.8 0.2 0.7", "0.8 0.2", "line 7: expected 12 numbers in the table of 'grass', got 11"),
        ("x.xml", "<FOR>rain", "<FOR>snow", "line 13: expected a variable that is declared, got 'snow'"),
        ("x.xml", "</NETWORK>", "", "line 15: column 3: mismatched tag"),
        ("x.xml", "<VARIABLE>", '<VARIABLE TYPE="utility">', "line 11: expected variables of type 'nature'"),
        (
            "x.xml",
            "<!ELEMENT BIF ( NETWORK )*>",
            '<!ENTITY a "b">',
            "line 2: the document declares the entity 'a'",
        ),
        ("x.xml", "0.75 0.25", "0.75 0.5", "line 13: the probabilities of 'rain' sum to 1.25, not 1"),
        ("x.xml", "<FOR>season", "<FOR>rain", "line 14: expected one table per variable"),
        ("x.xml", "<FOR>season</FOR>", "", "line 14: expected one FOR and one TABLE in a definition"),
        ("x.xml", "<NAME>season", "<NAME>rain", "line 11: expected another name of a variable"),
        ("x.xml", "<OUTCOME>wet", "<OUTCOME>dry", "line 12: expected different names of the states"),
        ("x.net", "node rain", "nude rain", "line 3: expected 'net', 'node' or 'potential', got 'nude'"),
        (
            "x.net",
            "discrete node",
            "utility node",
            "line 4: expected discrete nodes and their potentials only",
        ),
        ("x.net", "(0.8 0.2)", "(0.8 y)", "line 14: expected a probability of at least 0, got 'y'"),
        ("x.net", "(0.8 0.2)", "(0.8)", "line 13: expected 12 numbers in the table of 'grass', got 11"),
        (
            "x.net",
            "(0.8 0.2)",
            "(0.8 0.3)",
            "line 14: the probabilities of 'grass' given rain=no, season=c sum to 1.1",
        ),
        (
            "x.net",
            "potential (rain)",
            "potential (snow)",
            "line 9: expected a variable that is declared, got 'snow'",
        ),
        ("x.net", "potential (season | )", "potential (rain)", "line 10: expected one table per variable"),
        ("x.net", "(dry wet)", "dry", "line 7: expected the states of a node in brackets"),
        ("x.net", "  states = (dry wet);\n", "", "line 5: expected the states of node 'grass', got none"),
        ("x.net", "data = (0.75 0.25)", "model_data = (x)", "line 9: expected a table of numbers of 'rain'"),
        ("x.net", "0.25 ); }", "0.25 )", "expected "),
        (
            "x.net",
            "potential (grass",
            "node grass { states = (a b); } potential (grass",
            "line 12: expected another name",
        ),
    ],
)
def test_malformed_files_are_one_error(name: str, old: str, new: str, text: str, tmp_path: Path) -> None:
    whole = XML if name == "x.xml" else NET
    assert old in whole
    (tmp_path / name).write_text(whole.replace(old, new, 1))
    with pytest.raises(ReadError) as failure:
        hf.fields.read(tmp_path / name)
    assert text in str(failure.value)
    assert str(failure.value).startswith(f"{tmp_path / name}, line ")


@pytest.mark.parametrize("text", [XML, NET])
def test_files_cut_off_anywhere_are_read_errors(text: str, tmp_path: Path) -> None:
    path = tmp_path / ("x.xml" if text is XML else "x.net")
    for end in range(0, len(text.rstrip()) - 1, 7):
        path.write_text(text[:end])
        with pytest.raises(ReadError):
            hf.fields.read(path)


def test_a_potential_without_data_is_uniform(tmp_path: Path) -> None:
    path = tmp_path / "x.net"
    path.write_text("net {} node a { states = (x y z); } potential (a) { }")
    assert hf.infer(hf.fields.read(path))["a"] == pytest.approx({"x": 1 / 3, "y": 1 / 3, "z": 1 / 3})


def test_writing_names_the_formats_that_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(
        hf.errors.InputError, match=r"names no format to write; choose from: [^n]*bif \(\.bif\)"
    ):
        hf.fields.write(hf.fields.ising_grid(2, 2), tmp_path / "x.net")
