"""Files are written whole or not at all; a look inside is cheap, and never an error but our own."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hiddenfield.data.formats import FORMATS
from hiddenfield.data.paths import first_bytes, holds, members, write_text
from hiddenfield.errors import InputError, ReadError


def test_a_folder_is_not_written_over(tmp_path):
    place = tmp_path / "results"
    place.mkdir()
    with pytest.raises(InputError, match="results is a folder; name a file"):
        write_text(place, "text")
    assert [entry.name for entry in tmp_path.iterdir()] == ["results"]


def test_nothing_is_left_of_what_could_not_be_written(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr("hiddenfield.data.paths.os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_text(tmp_path / "a.txt", "text")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_names_the_file_that_was_asked_for(tmp_path, monkeypatch):
    def fail(path, contents):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("pathlib.Path.write_bytes", fail)
    with pytest.raises(OSError, match=r"No space left on device: '.*/page\.md'$"):
        write_text(tmp_path / "page.md", "text")


# -- folders, archives, and a look inside --------------------------------------------------------------------


def test_only_the_first_bytes_are_read(tmp_path: Path) -> None:
    """What follows is damaged, and it does not matter."""
    contents = np.random.default_rng(0).bytes(100_000)
    for suffix, compress in ((".xz", lzma.compress), (".gz", gzip.compress)):
        path = tmp_path / f"x.txt{suffix}"
        path.write_bytes(compress(contents)[:50_000])
        assert first_bytes(path) == contents[:4096]


def test_nothing_is_recognised_by_raising(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    suffixes = [
        "",
        ".txt",
        ".xml",
        ".graphml",
        ".tree",
        ".edges",
        ".zip",
        ".mrg",
        ".txt.xz",
        ".xml.gz",
        ".csv",
        ".fa",
    ]
    starts = [
        b"",
        b"\0",
        b"(",
        b"(2 ",
        b"1:",
        b"<",
        b"<graphml",
        b"a b\n",
        b"\xff\xfe",
        b"PK\x03\x04",
        b"#\n" * 3000,
    ]
    for suffix in suffixes:
        for number, start in enumerate(starts):
            path = tmp_path / f"file{number}{suffix}"
            path.write_bytes(start + generator.bytes(10))
            for entry in FORMATS.values():
                assert entry.recognises(path) in (True, False)
    folder = tmp_path / "folder.xml"
    folder.mkdir()
    for entry in FORMATS.values():
        assert entry.recognises(folder) in (True, False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    assert first_bytes(pipe) == b""


def test_damaged_zips(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.xml", "<a>" + "<b/>" * 20 + "</a>")
        archive.writestr("é/b.xml", "<a/>")
    whole, path = buffer.getvalue(), tmp_path / "x.zip"
    generator = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        copy = bytearray(whole)
        for at in generator.integers(0, len(copy), size=2):
            copy[at] = generator.integers(0, 256)
        path.write_bytes(copy[: generator.integers(len(copy) // 2, 2 * len(copy))])
        holds(path, ".xml")
        try:
            list(members(path, ".xml"))
        except ReadError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_what_unpacks_to_more_than_memory_is_refused_before_it_does(tmp_path, monkeypatch, suffix):
    import gzip
    import lzma
    import zipfile

    from hiddenfield.data import paths

    pack = gzip.compress if suffix == ".gz" else lzma.compress
    file = tmp_path / f"bomb.csv{suffix}"
    file.write_bytes(pack(b"0" * 50_000_000))
    assert len(paths.read_bytes(file)) == 50_000_000
    file.write_bytes(pack(b"one\n") + pack(b"two\n"))  # members end to end
    assert paths.read_bytes(file) == b"one\ntwo\n"
    file.write_bytes(pack(b"0" * 50_000_000))
    monkeypatch.setattr(paths, "available_memory", lambda: 60e6)
    with pytest.raises(ReadError, match=r"bytes unpack to more than \d+,.* unpack it and cut it"):
        paths.read_bytes(file)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X_A.txt", b"0" * 50_000_000)
        archive.write(file, f"inner.txt{suffix}")
    members = paths.zip_members(tmp_path / "bomb.zip", ".txt")
    for name in ("X_A.txt", f"inner.txt{suffix}"):
        with pytest.raises(ReadError, match="unpack it and cut it"):
            members[name].read()
    monkeypatch.undo()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ReadError, match="cannot be decompressed"):
        paths.read_bytes(file)
