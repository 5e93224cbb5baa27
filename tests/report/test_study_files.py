"""Pages of experiments with their pictures: the committed ones are what their results give."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from hiddenfield.report.study import read_result, result_files, write_page
from tests.evaluation.made_up import RESULTS, molecules, strings

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "results"


def differences(file: Path) -> list[str]:
    """Return the names of files beside a result that are not what it gives."""
    expected = result_files(read_result(file, file.stem), file.stem)
    if not pinned_matplotlib():
        # Another version draws the same in other numbers.
        expected = {name: text for name, text in expected.items() if name.endswith(".md")}
    return [
        name
        for name, text in expected.items()
        if not (file.parent / name).exists() or (file.parent / name).read_text(encoding="utf-8") != text
    ]


def pinned_matplotlib() -> bool:
    constraints = ROOT / "constraints.txt"
    found = (
        re.search(r"^matplotlib==(\S+)", constraints.read_text(), flags=re.M)
        if constraints.exists()
        else None
    )
    return found is not None and found[1] == metadata.version("matplotlib")


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.json")), ids=lambda file: file.stem)
def test_committed_pages_are_what_their_results_give(file):
    assert differences(file) == []


def test_nothing_else_is_committed():
    expected = {"index.md", "defaults.md"}  # the latter by a benchmark
    for file in FOLDER.glob("*.json"):
        expected |= {file.name, *result_files(read_result(file, file.stem), file.stem)}
    assert {file.name for file in FOLDER.glob("*") if file.is_file()} <= expected


def test_a_changed_page_or_result_is_found(tmp_path):
    content = molecules()
    file = tmp_path / "s2v-cep.json"
    file.write_text(json.dumps(content.as_dict()))
    assert "s2v-cep.md" in differences(file)
    write_page(tmp_path / "s2v-cep.md", content)
    assert differences(file) == []
    rows = [msgspec.structs.replace(content.rows[0], mean=1.6), *content.rows[1:]]
    file.write_text(json.dumps(msgspec.structs.replace(content, rows=rows).as_dict()))
    assert differences(file) == ["s2v-cep.md"]


def test_pictures_that_are_no_longer_there_are_removed(tmp_path):
    for name in ("a-training-Old.svg", "a-roc.svg", "a-more-roc.svg", "b-roc.svg", "a-map.svg"):
        (tmp_path / name).write_text("")
    write_page(tmp_path / "a.md", molecules())
    assert {file.name for file in tmp_path.iterdir()} == {
        "a.md", "a-training-CEP.svg", "a-ranges-CEP.svg", "a-more-roc.svg", "b-roc.svg", "a-map.svg",
    }  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_pictures_are_documents_and_all_are_shown(name):
    files = result_files(RESULTS[name]())
    page = files[f"{name}.md"]
    drawn = {file: text for file, text in files.items() if file.endswith(".svg")}
    assert set(re.findall(r"\]\(([^)]*\.svg)\)", page)) == set(drawn)
    for text in drawn.values():
        root = ElementTree.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert int(root.get("width")) > 400
        assert root.find("{http://www.w3.org/2000/svg}title").text
    assert drawn == {file: text for file, text in result_files(RESULTS[name]()).items() if file in drawn}


def test_what_pictures_say():
    drawn = result_files(strings())["s2v-strings-roc.svg"]
    for part in ("SCOP 3.50, given split", "FC_RES, leave one gene out", "WL-3 + logistic (0.7500)"):
        assert part in drawn
    files = result_files(molecules())
    for part in (
        "training steps",
        "root mean square error, validation",
        "mean_field (T = 1)",
        "loopy_bp (T = 4)",
    ):
        assert part in files["s2v-cep-training-CEP.svg"]
    assert "mean_field (T = 1)" not in files["s2v-cep-ranges-CEP.svg"]


def test_curves_end_where_most_networks_have_stopped():
    content = molecules()
    rows = []
    for entry in content.rows:
        values = [None, *entry.training_curve.valid_rmse[1:]]
        curve = msgspec.structs.replace(entry.training_curve, runs=[5] * 30 + [1] * 30, valid_rmse=values)
        rows.append(msgspec.structs.replace(entry, training_curve=curve))
    content = msgspec.structs.replace(content, rows=rows)
    text = result_files(content)["s2v-cep-training-CEP.svg"]
    assert "10,000" in text
    assert "20,000" not in text
