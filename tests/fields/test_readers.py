"""Files of fields: what is written is read again, what is published is read as published, what is broken is refused."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import hiddenfield as hf
from hiddenfield.errors import HiddenfieldError, InputError, ReadError
from hiddenfield.fields import (
    FactorGraph,
    from_factors,
    ising_grid,
    read_evidence,
    read_result,
    write_evidence,
    write_result,
)
from tests.fields.strategies import fields

UAI = """MARKOV
3
2 2 3
3
1 0
2 0 1
2 1 2
2
 0.436 0.564
4
 0.128 0.872
 0.920 0.080
6
 0.210 0.333 0.457
 0.811 0.000 0.189
"""
FG = """# a comment
2

2
0 4
2 3
5
0 1.5
1 0.25
# another
2 1e-3
3 7   # the entry 4 is zero
5 1

1
4
3
3
0 1
1 2
2 3
"""
BIF = """// a network
network "two words" { property "made; by hand" ; }
variable rain { type discrete [ 2 ] { yes, no }; property position = (73, 165) ; }
variable "the grass" {
  property see http://example.com/a;
  type discrete[3] { "dry grass" <5mm >=5 };  /* two
  lines */
}
probability ( rain ) { table 0.2, 8e-1; }
probability ( "the grass" | rain ) {
  default 0.5, 0.25, .25;
  (yes) 0.1, 0.2, 0.7;
}
"""
SAMPLES = {".uai": UAI, ".fg": FG, ".bif": BIF}


def placed(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def same(first: FactorGraph, second: FactorGraph) -> None:
    """Require two fields to be the same, up to rounding."""
    assert first.cardinalities.tolist() == second.cardinalities.tolist()
    assert first.variable_names == second.variable_names
    assert first.state_names == second.state_names
    tolerance = {"atol": 4e-16, "rtol": 4e-16}
    torch.testing.assert_close(first.log_unary, second.log_unary, **tolerance)
    torch.testing.assert_close(first.log_constant, second.log_constant, **tolerance)
    assert len(first.groups) == len(second.groups)
    for one, other in zip(first.groups, second.groups, strict=True):
        assert one.scopes.tolist() == other.scopes.tolist()
        torch.testing.assert_close(one.expanded(), other.expanded(), **tolerance)


# -- what is written is read again -------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".uai", ".fg", ".fg.gz", ".uai.xz"])
@given(field=fields(scale=3.0))
@settings(max_examples=40)
def test_written_and_read_again(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, field: FactorGraph
) -> None:
    path = tmp_path_factory.mktemp("fields") / f"field{suffix}"
    hf.fields.write(field, path)
    same(hf.fields.read(path), field)


def test_potentials_beyond_the_range_of_doubles(tmp_path: Path) -> None:
    field = from_factors([[0, 1], []], [[[-900.0, 900.0], [-np.inf, 1e-9]], np.array(-5000.0)])
    for suffix in (".uai", ".fg"):
        hf.fields.write(field, tmp_path / f"extreme{suffix}")
        same(hf.fields.read(tmp_path / f"extreme{suffix}"), field)


def test_a_count_is_a_power_and_a_template_is_refused(tmp_path: Path) -> None:
    table = np.log([[1.0, 2.0], [3.0, 4.0]])
    hf.fields.write(from_factors([[0, 1]], [table], factor_counts=[3.0]), tmp_path / "power.uai")
    same(hf.fields.read(tmp_path / "power.uai"), from_factors([[0, 1]], [3 * table]))
    with pytest.raises(InputError, match="stand for several"):
        hf.fields.write(from_factors([[0, 1]], [table], counts=[2, 2]), tmp_path / "template.uai")
    grid = ising_grid(2, 2)
    with pytest.raises(InputError, match="one graph"):
        hf.fields.write(hf.fields.concatenate_fields([grid, grid]), tmp_path / "batch.fg")
    assert [path.name for path in tmp_path.iterdir()] == ["power.uai"]


def test_networks_are_written_as_networks(tmp_path: Path) -> None:
    network = hf.fields.read(placed(tmp_path, "rain.bif", BIF))
    assert network.variable_names == ("rain", "the grass")
    assert network.state_names == (("yes", "no"), ("dry grass", "<5mm", ">=5"))
    np.testing.assert_allclose(network.log_unary.exp(), [0.2, 0.8, 1, 1, 1])
    np.testing.assert_allclose(network.groups[0].log_tables[0].exp(), [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])
    hf.fields.write(network, tmp_path / "again.bif")
    same(hf.fields.read(tmp_path / "again.bif"), network)
    hf.fields.write(network, tmp_path / "bayes.uai", kind="BAYES")
    assert (tmp_path / "bayes.uai").read_text().startswith("BAYES\n2\n2 3\n2\n1 0\n2 0 1\n")
    named = hf.fields.read(tmp_path / "bayes.uai")
    hf.fields.write(named, tmp_path / "named.bif")
    assert hf.fields.read(tmp_path / "named.bif").state_names[1] == ("s0", "s1", "s2")
    for bad, text in [
        (network.given({"rain": "yes"}), "is there evidence"),
        (ising_grid(2, 2), "sum to"),
        (from_factors([[0], []], [np.log([0.5, 0.5]), np.array(1.0)]), "constant"),
        (from_factors([[0, 1]], [np.log([[0.5, 0.5], [0.5, 0.5]])]), "variable 0 has no table"),
        (from_factors([[0, 1], [1, 0]], [np.log(np.full((2, 2), 0.5))] * 2), "cycle"),
        (from_factors([[0, 1], [1]], [np.log(np.full((2, 2), 0.5)), np.log([0.5, 0.5])]), "two factors"),
    ]:
        with pytest.raises(InputError) as error:
            hf.fields.write(bad, tmp_path / "bad.bif")
        assert text in str(error.value)


def test_a_table_with_parents_has_its_child_slowest(tmp_path: Path) -> None:
    rows = "table 0.1 0.5, 0.9 0.5;"
    header = "variable a { type discrete [2] { x y }; } variable b { type discrete [2] { x y }; }"
    text = f"{header} probability (a) {{ table 1 0; }} probability (b | a) {{ {rows} }}"
    field = hf.fields.read(placed(tmp_path, "n.bif", text))
    np.testing.assert_allclose(field.groups[0].log_tables[0].exp(), [[0.1, 0.9], [0.5, 0.5]])


def test_first_variable_runs_fastest_in_a_factor_graph(tmp_path: Path) -> None:
    field = hf.fields.read(placed(tmp_path, "two.fg", FG))
    assert field.variable_names == ("0", "4")
    expected = [[1.5, 0.001, 0], [0.25, 7, 1]]
    np.testing.assert_allclose(field.groups[0].log_tables[0].exp(), expected, atol=1e-12)
    np.testing.assert_allclose(field.log_unary[2:].exp(), [1, 2, 3])


# -- evidence and results ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", {}),
        ("0\n", {}),
        ("2 5 1 7 0", {5: 1, 7: 0}),
        ("2\n5 1\n7 0\n", {5: 1, 7: 0}),
        ("1\n2 5 1 7 0\n", {5: 1, 7: 0}),
        ("1\n0\n", {}),
        ("1 3 2", {3: 2}),
    ],
)
def test_evidence_in_both_layouts(tmp_path: Path, text: str, expected: dict[int, int]) -> None:
    path = placed(tmp_path, "m.evid", text)
    assert read_evidence(path) == expected
    write_evidence(expected, path)
    assert read_evidence(path) == expected


def test_several_evidence_sets(tmp_path: Path) -> None:
    path = placed(tmp_path, "m.evid", "2\n1 3 0\n2 3 1 4 1\n")
    assert [read_evidence(path, sample) for sample in (0, 1)] == [{3: 0}, {3: 1, 4: 1}]
    with pytest.raises(ReadError, match="holds 2 evidence sets"):
        read_evidence(path)
    with pytest.raises(InputError, match="no sample 2"):
        read_evidence(path, 2)
    ambiguous = placed(tmp_path, "a.evid", "2\n1 3 0\n0\n")
    assert read_evidence(ambiguous, 0) == {3: 0}


def test_results_written_and_read(tmp_path: Path) -> None:
    rows = [np.array([0.25, 0.75]), np.array([1.0]), np.array([0.0, 1.0, 0.0])]
    write_result(tmp_path / "m.MAR", marginals=rows)
    assert (tmp_path / "m.MAR").read_text() == "MAR\n3 2 0.25 0.75 1 1 3 0 1 0\n"
    found = read_result(tmp_path / "m.MAR").marginals
    assert found is not None
    assert [row.tolist() for row in found] == [row.tolist() for row in rows]
    write_result(tmp_path / "m.PR", log_partition=np.log(1000.0))
    assert float((tmp_path / "m.PR").read_text().split()[1]) == pytest.approx(3)
    assert read_result(tmp_path / "m.PR").log_partition == pytest.approx(np.log(1000.0))
    write_result(tmp_path / "m.MPE", assignment=[0, 2, 1])
    assert read_result(tmp_path / "m.MPE").assignment == (0, 2, 1)
    assert read_result(placed(tmp_path, "n.MPE", "MPE\n1\n3 0 2 1\n")).assignment == (0, 2, 1)
    assert read_result(placed(tmp_path, "o.MPE", "MPE\n1 2\n")).assignment == (2,)
    assert read_result(placed(tmp_path, "n.PR", "PR\n1\n-inf\n")).log_partition == -np.inf
    one = read_result(placed(tmp_path, "o.MAR", "MAR\n1 2 0.5 0.5")).marginals
    again = read_result(placed(tmp_path, "p.MAR", "MAR\n1\n1 2 0.5 0.5")).marginals
    assert one is not None
    assert again is not None
    np.testing.assert_array_equal(one, again)
    with pytest.raises(InputError, match="got 0 of them"):
        write_result(tmp_path / "x.MAR")


# -- broken files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "old", "new", "line", "text"),
    [
        ("a.uai", "MARKOV", "MARKOW", 1, "expected MARKOV or BAYES, got 'MARKOW'"),
        ("a.uai", "2 2 3", "2 0 3", 3, "a number of states from 1"),
        ("a.uai", "2 0 1", "2 0 3", 6, "a variable of a scope from 0 to 2, got '3'"),
        ("a.uai", "2 0 1", "2 0 0", 6, "every variable once in a scope, got 0 0"),
        ("a.uai", "4\n 0.128", "5\n 0.128", 10, "expected 4, the size of a table"),
        ("a.uai", "0.872", "0,872", 11, "a number of at least 0, got '0,872'"),
        ("a.uai", "0.872", "-0.872", 11, "a number of at least 0, got '-0.872'"),
        ("a.uai", "0.872", "nan", 11, "got 'nan'"),
        ("a.uai", "0.872", "1_0", 11, "got '1_0'"),
        ("a.uai", " 0.189", "", 15, "got the end of the file; 6 are needed"),
        ("a.uai", "0.189", "0.189 7", 15, "expected the end of the file, got '7'"),
        ("a.uai", UAI, "", 1, "expected MARKOV or BAYES, got the end of the file"),
        ("a.fg", "2 3\n5", "2 3\n7", 7, "the number of entries from 0 to 6"),
        ("a.fg", "1 0.25", "0 0.25", 9, "every index once in a table, got '0'"),
        ("a.fg", "1 0.25", "9 0.25", 9, "the index of an entry from 0 to 5, got '9'"),
        ("a.fg", "4\n3\n3", "4\n2\n2", 17, "3 states of variable 4, as before, got 2"),
        ("a.fg", "2 3\n5", "9999999 9999999\n5", 6, "at most 67,108,864"),
        (
            "a.bif",
            "variable rain",
            "varable rain",
            3,
            "'network', 'variable' or 'probability', got 'varable'",
        ),
        ("a.bif", "yes, no", "yes", 3, "name of state 1 of 2 of variable 'rain', got '}'"),
        ("a.bif", "yes, no", "yes, yes", 3, "different names"),
        ("a.bif", "discrete [", "continuous [", 3, "'discrete', the only type"),
        ("a.bif", "(yes) 0.1", "(maybe) 0.1", 12, "one of yes, no, got 'maybe'"),
        ("a.bif", "0.2, 0.7", "0.2", 12, "3 probabilities and ';', got ';'"),
        ("a.bif", "0.2, 0.7", "0.2, x", 12, "a probability of at least 0, got 'x'"),
        ("a.bif", "default 0.5, 0.25, .25;", "", 13, "a row (no) of 'the grass', or a default"),
        ("a.bif", "| rain )", "| snow )", 10, "a variable that is declared, got 'snow'"),
        ("a.bif", "| rain )", '| "the grass" )', 10, "every variable once"),
        ("a.bif", "table 0.2, 8e-1; }", "table 0.2, 8e-1;", 10, "'property' or '}', got 'probability'"),
    ],
)
def test_broken_files_name_line_and_word(tmp_path: Path, name, old, new, line, text) -> None:
    sample = SAMPLES[Path(name).suffix]
    assert old in sample
    path = placed(tmp_path, name, sample.replace(old, new, 1))
    with pytest.raises(ReadError) as error:
        hf.fields.read(path)
    assert text in str(error.value)
    assert (error.value.file, error.value.line) == (str(path), line)


def test_incomplete_networks(tmp_path: Path) -> None:
    head, _ = BIF.split('probability ( "the grass"')
    for text, wanted in [
        (head, "variable 'the grass' has no table"),
        ("network x { }", "expected the variables of a network, got none"),
        (BIF + "probability ( rain ) { table 0.5 0.5; }", "got a second one of 'rain'"),
        (
            BIF.replace("( rain ) { table 0.2, 8e-1; }", '( rain | "the grass" ) { default 0.2, 8e-1; }'),
            "without cycles",
        ),
    ]:
        with pytest.raises(ReadError) as error:
            hf.fields.read(placed(tmp_path, "n.bif", text))
        assert wanted in str(error.value)


def test_suffix_decides(tmp_path: Path) -> None:
    path = placed(tmp_path, "model.txt", UAI)
    with pytest.raises(ReadError, match="not recognised by its suffix"):
        hf.fields.read(path)
    assert hf.fields.read(path, format="uai").num_variables == 3
    with pytest.raises(InputError, match="unknown format 'xml'"):
        hf.fields.read(path, format="xml")
    with pytest.raises(ReadError, match="no such file"):
        hf.fields.read(tmp_path / "absent.uai")
    with pytest.raises(InputError, match="names no format to write"):
        hf.fields.write(ising_grid(2, 2), tmp_path / "model.txt")


MUTATED = [
    *((name, text, hf.fields.read) for name, text in SAMPLES.items()),
    (".evid", "2 5 1 7 0\n", read_evidence),
    (".evid", "2\n1 3 0\n2 3 1 4 1\n", partial(read_evidence, sample=0)),
    (".MAR", "MAR\n2 2 0.25 0.75 1 1\n", read_result),
    (".PR", "PR\n-12.5\n", read_result),
    (".MPE", "MPE\n1\n3 0 2 1\n", read_result),
]


@pytest.mark.parametrize(
    ("suffix", "text", "read"), MUTATED, ids=[f"{name}{k}" for k, (name, _, _) in enumerate(MUTATED)]
)
@given(data=st.data())
@settings(max_examples=120)
def test_mutated_files_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory,
    suffix: str,
    text: str,
    read: Callable[[Path], object],
    data: st.DataObject,
) -> None:
    pieces = re.split(r"(\s+)", text)
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["drop", "double", "swap", "replace", "cut", "character"]))
        at = data.draw(st.integers(0, len(pieces) - 1))
        other = data.draw(st.integers(0, len(pieces) - 1))
        if kind == "drop":
            pieces[at] = ""
        elif kind == "double":
            pieces[at] *= 2
        elif kind == "swap":
            pieces[at], pieces[other] = pieces[other], pieces[at]
        elif kind == "replace":
            pieces[at] = data.draw(
                st.sampled_from(
                    ["0", "-1", "1e999", "99999999", "9" * 30, "{", "}", "(", ")", ";", "|", '"', "#", "nan"]
                )
            )
        elif kind == "cut":
            pieces = pieces[: at + 1]
        else:
            place = data.draw(st.integers(0, len(pieces[at])))
            pieces[at] = pieces[at][:place] + data.draw(st.characters(codec="utf-8")) + pieces[at][place:]
    path = placed(tmp_path_factory.mktemp("mutated"), f"m{suffix}", "".join(pieces))
    with contextlib.suppress(HiddenfieldError):
        read(path)


@given(st.sampled_from([".uai", ".fg", ".bif"]), st.binary(max_size=60))
@settings(max_examples=60)
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, contents: bytes
) -> None:
    path = tmp_path_factory.mktemp("bytes") / f"m{suffix}"
    path.write_bytes(contents)
    with pytest.raises(ReadError):
        hf.fields.read(path)
