"""Records: files of earlier versions load, are written with the same keys, and damage is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hiddenfield.errors import InputError, ReadError
from hiddenfield.evaluation.records import Assessment, claim_folder, convert, read_record

RESULTS = sorted((Path(__file__).resolve().parents[2] / "docs" / "results").glob("*.json"))
OF_A_STUDY = {"data", "model", "variant", "column", "figures", "parameters", "run", "reference", "in_sight"}


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_committed_results_are_read_and_written_as_they_are(file):
    for row in json.loads(file.read_text(encoding="utf-8"))["rows"]:
        found = convert(row, Assessment, "a row", file)
        own = {name: value for name, value in row.items() if name not in OF_A_STUDY}
        written = {name: value for name, value in found.as_dict().items() if name != "model"}
        assert json.dumps(written) == json.dumps(own)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not an assessment (Input data was truncated); run it again"),
        (
            '{"metric": "luck"}',
            "is not an assessment (Invalid enum value 'luck' - at `$.metric`); run it again",
        ),
        ('{"metric": "mae", "mean": null}', "Expected `float`, got `null` - at `$.mean`"),
        ("{}", "Object missing required field `metric`"),
    ],
)
def test_what_does_not_fit_is_named_with_its_file(tmp_path, text, message):
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(ReadError) as found:
        read_record(file, Assessment, "an assessment; run it again")
    assert str(found.value).startswith(f"{file}: is not an assessment (")
    assert message in str(found.value)


def test_a_folder_belongs_to_one_plan(tmp_path):
    folder = tmp_path / "run"
    assert claim_folder(folder, "plan.json", {"seed": 0}, "a run", resume=False)
    assert not claim_folder(folder, "plan.json", {"seed": 0}, "a run", resume=True)
    with pytest.raises(InputError, match="is not empty"):
        claim_folder(folder, "plan.json", {"seed": 0}, "a run", resume=False)
    with pytest.raises(InputError, match="is of a run with seed 0, not 1; give the same"):
        claim_folder(folder, "plan.json", {"seed": 1}, "a run", resume=True)


def test_a_folder_without_an_assessment_is_said_to_be_one(tmp_path):
    with pytest.raises(
        ReadError, match="does not hold a finished assessment; name what evaluate or fit wrote"
    ):
        Assessment.read(tmp_path)
