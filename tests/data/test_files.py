"""Writing files: whole or not at all."""

from __future__ import annotations

import pytest

from hiddenfield.data.files import write_text
from hiddenfield.errors import InputError


def test_a_folder_is_not_written_over(tmp_path):
    place = tmp_path / "results"
    place.mkdir()
    with pytest.raises(InputError, match="results is a folder; name a file"):
        write_text(place, "text")
    assert [entry.name for entry in tmp_path.iterdir()] == ["results"]


def test_nothing_is_left_of_what_could_not_be_written(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr("hiddenfield.data.files.os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_text(tmp_path / "a.txt", "text")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_names_the_file_that_was_asked_for(tmp_path, monkeypatch):
    def fail(path, contents):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("pathlib.Path.write_bytes", fail)
    with pytest.raises(OSError, match=r"No space left on device: '.*/page\.md'$"):
        write_text(tmp_path / "page.md", "text")
