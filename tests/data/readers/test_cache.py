"""The cache of a table: used when nothing changed, never trusted when anything did."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import hiddenfield as hf
from hiddenfield.data.readers import table
from hiddenfield.data.readers.table import read
from hiddenfield.errors import InputError, ReadError, SkippedInputWarning

pytest.importorskip("rdkit")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text("smiles,y,z\nCCO,1,a\nc1ccccc1,2,b\n")
    return path


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often a table is really read."""
    calls: list[int] = []
    read_table = table.read_table

    def counted(*arguments, **options):
        calls.append(1)
        return read_table(*arguments, **options)

    monkeypatch.setattr(table, "read_table", counted)
    return calls


def test_the_second_time_it_comes_from_the_cache(source: Path, tmp_path: Path, builds: list[int]) -> None:
    cache = tmp_path / "new" / "table.arrow"
    packs = [read(source, target=["y", "z"], id="y", cache=cache) for _ in range(3)]
    assert len(builds) == 1
    assert packs[0] == packs[1] == packs[2] == read(source, target=["y", "z"], id="y")
    assert sorted(path.name for path in cache.parent.iterdir()) == ["table.arrow", "table.arrow.json"]


@pytest.mark.parametrize(
    "other",
    [
        {"target": "z"},
        {"target": None},
        {"single_labels": True},
        {"explicit_hydrogens": True},
        {"extra": ("charge",)},
        {"id": "z"},
        {"keep": ["z"]},
        {"classes": True},
        {"missing": ["2"]},
        {"on_error": "skip"},
    ],
)
def test_other_options_build_anew(source: Path, tmp_path: Path, builds: list[int], other: dict) -> None:
    cache = tmp_path / "table.arrow"
    read(source, target="y", cache=cache)
    options = {"target": "y"} | other
    assert read(source, **options, cache=cache) == read(source, **options)
    assert len(builds) == 3


def test_options_that_change_nothing_use_the_cache(source: Path, tmp_path: Path, builds: list[int]) -> None:
    cache = tmp_path / "table.arrow"
    read(source, cache=cache)
    read(source, cache=str(cache), num_workers=1, progress=False)
    assert len(builds) == 1


def test_a_changed_source_builds_anew_even_with_the_same_time_and_size(
    source: Path, tmp_path: Path, builds: list[int]
) -> None:
    cache = tmp_path / "table.arrow"
    read(source, cache=cache)
    before = source.stat()
    source.write_text(source.read_text().replace("CCO", "CCN"))
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    pack = read(source, cache=cache)
    assert pack.columns["smiles"][0] == "CCN"
    assert len(builds) == 2


def foreign(cache: Path) -> None:
    hf.write(hf.data.from_sequences(["AC"]), cache)


def truncated(cache: Path) -> None:
    cache.write_bytes(cache.read_bytes()[:-50])


def damaged_with_its_time_kept(cache: Path) -> None:
    before = cache.stat()
    contents = bytearray(cache.read_bytes())
    contents[-20:] = bytes(20)
    cache.write_bytes(contents)
    os.utime(cache, ns=(before.st_atime_ns, before.st_mtime_ns))


def record_of_something_else(cache: Path) -> None:
    cache.with_name("table.arrow.json").write_text(json.dumps([1, 2]))


def no_record(cache: Path) -> None:
    cache.with_name("table.arrow.json").unlink()


def record_that_is_no_json(cache: Path) -> None:
    cache.with_name("table.arrow.json").write_bytes(b"\xff{")


def no_cache(cache: Path) -> None:
    cache.unlink()


@pytest.mark.parametrize(
    "spoil",
    [
        foreign,
        truncated,
        damaged_with_its_time_kept,
        record_of_something_else,
        no_record,
        record_that_is_no_json,
        no_cache,
    ],
)
def test_a_spoilt_cache_is_built_anew(source: Path, tmp_path: Path, builds: list[int], spoil) -> None:
    cache = tmp_path / "table.arrow"
    expected = read(source, cache=cache)
    spoil(cache)
    assert read(source, cache=cache) == expected
    assert read(source, cache=cache) == expected
    assert len(builds) == 2


def test_another_version_of_rdkit_builds_anew(
    source: Path, tmp_path: Path, builds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "table.arrow"
    read(source, cache=cache)
    monkeypatch.setattr(table.importlib.metadata, "version", lambda name: "0.0")
    read(source, cache=cache)
    assert len(builds) == 2


def test_what_was_left_out_is_reported_from_the_cache_too(tmp_path: Path, builds: list[int]) -> None:
    path = tmp_path / "table.csv"
    path.write_text("smiles\nCC\nC1\nC\n")
    messages = []
    for _ in range(2):
        with pytest.warns(SkippedInputWarning) as caught:
            read(path, on_error="skip", cache=tmp_path / "c.arrow")
        messages.append(caught[0].message)
    assert len(builds) == 1
    assert str(messages[0]) == str(messages[1])
    assert messages[0].positions == messages[1].positions == (1,)


def test_a_failed_reading_leaves_no_cache(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("smiles\nC1\n")
    with pytest.raises(ReadError, match="line 2"):
        read(path, cache=tmp_path / "c.arrow")
    assert [entry.name for entry in tmp_path.iterdir()] == ["table.csv"]


def test_a_cache_ends_in_arrow(source: Path) -> None:
    with pytest.raises(InputError, match=r"a cache must end in \.arrow"):
        read(source, cache=source)
    with pytest.raises(ReadError, match="no such file"):
        read(source.with_name("tabel.csv"), cache=source.with_suffix(".arrow"))
