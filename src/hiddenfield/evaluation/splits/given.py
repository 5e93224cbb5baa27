"""Splits that are given: archives or folders of index files, and JSON."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.paths import decode, existing, folder_members, inner_suffix, read_text, zip_members
from hiddenfield.errors import InputError, ReadError
from hiddenfield.evaluation.splits.base import SPLITTERS, Request, Split, check_splits
from hiddenfield.shapes import Array, Int

# No file has more structures than eighteen digits can count, and so many fit 64 bits.
POSITION = re.compile(r"-?0*\d{1,18}", re.ASCII)
LARGEST = np.iinfo(np.int64).max
INDEX_FILE = re.compile(r"(?:^|/)(train|test)_idx-(\d+)\.txt$")


@SPLITTERS.register("files", summary="positions given in files")
def given(request: Request) -> list[Split]:
    """Read splits from a file, and check them.

    Three layouts are known. An archive (.zip) or folder of ``train_idx-K.txt`` and ``test_idx-K.txt``, one position
    per line, from 0. JSON of the fair-comparison study: a list of objects with ``test`` and ``model_selection``, whose
    first entry has ``train`` and ``validation``. JSON of this project: an object, or a list of objects, with ``train``,
    ``test`` and perhaps ``validation``. JSON may be compressed. What no fold tests on is not an error; what two folds
    test on is.
    """
    if request.file is None:
        raise InputError("the split 'files' needs a file of indices")
    path = existing(request.file)
    if path.is_dir() or path.suffix.lower() == ".zip":
        splits = _of_index_files(path, request)
    elif inner_suffix(path) == ".json":
        splits = _of_json(path)
    else:
        raise ReadError("splits are read from .zip, .json, .json.gz, or a folder of index files", file=path)
    check_splits(splits, request.total, str(path))
    seen: dict[int, str] = {}
    for split in splits:
        for position in split.test.tolist():
            if position in seen:
                raise InputError(
                    f"{path}: structure {position} is tested on in {seen[position]} and in {split.name}; folds "
                    f"must not overlap"
                )
            seen[position] = split.name
    return splits


# -- index files -------------------------------------------------------------------------------------------


def _of_index_files(path: Path, request: Request) -> list[Split]:
    members = folder_members(path, ".txt") if path.is_dir() else zip_members(path, ".txt")
    texts = {name: decode(member.read(), member.label) for name, member in sorted(members.items())}
    parts: dict[int, dict[str, Int[Array, " part"]]] = {}
    for name, text in texts.items():
        if found := INDEX_FILE.search(name):
            parts.setdefault(int(found[2]), {})[found[1]] = _positions(text, f"{path}/{name}")
    if not parts:
        raise ReadError("has no files train_idx-K.txt and test_idx-K.txt", file=path)
    for name, text in texts.items():
        if not INDEX_FILE.search(name):
            _check_order(text, name, path, request)
    splits = []
    for number in sorted(parts):
        for name in ("train", "test"):
            if name not in parts[number]:
                raise ReadError(f"has no {name}_idx-{number}.txt, but the other file of that fold", file=path)
        splits.append(Split(f"fold {number}", parts[number]["train"], parts[number]["test"]))
    return splits


def _positions(text: str, file: str) -> Int[Array, " part"]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not POSITION.fullmatch(line.strip()):
            raise ReadError(
                f"expected one position per line, got {line.strip()!r:.60}", file=file, line=number
            )
    return np.sort(np.array(text.split(), dtype=np.int64))


def _check_order(text: str, name: str, path: Path, request: Request) -> None:
    """Refuse folds that come with graphs of their own in another order than the structures."""
    if request.sizes is None:
        return
    try:
        stream = io.StringIO(text)
        sizes = []
        for _ in range(int(stream.readline())):
            sizes.append(int(stream.readline().split()[0]))
            for _ in range(sizes[-1]):
                stream.readline()
    except (ValueError, IndexError):
        return  # some other text, a note perhaps
    if sizes != request.sizes.tolist():
        raise InputError(
            f"{path}: the folds follow the order of the graphs in {name} of the same archive, and the structures are "
            f"in another order (or are others); evaluate the graphs of that file"
        )


# -- JSON --------------------------------------------------------------------------------------------------


def _of_json(path: Path) -> list[Split]:
    try:
        content = json.loads(read_text(path))
    except ValueError as error:
        raise ReadError(f"is not JSON: {error}", file=path) from None
    entries = [content] if isinstance(content, Mapping) else content
    if not isinstance(entries, list) or not entries:
        raise ReadError("expected a list of splits", file=path)
    return [_of_entry(entry, number, path, len(entries)) for number, entry in enumerate(entries, start=1)]


def _of_entry(entry: Any, number: int, path: Path, total: int) -> Split:
    name = "hold-out" if total == 1 else f"fold {number}"
    try:
        inner = entry["model_selection"][0] if "model_selection" in entry else entry
        train, test = _array(inner["train"]), _array(entry["test"])
        validation = _array(inner["validation"]) if inner.get("validation") else None
    except (KeyError, IndexError, TypeError, ValueError):
        raise ReadError(
            f"split {number} must have lists 'train' and 'test', or 'test' and 'model_selection'", file=path
        ) from None
    if validation is not None:
        both = np.intersect1d(train, validation)
        if len(both):
            raise InputError(f"{path}, {name}: structure {both[0]} is in train and in validation")
        train = np.sort(np.concatenate([train, validation]))
    return Split(str(entry.get("name", name)), train, test, validation)


def _array(values: Any) -> Int[Array, " part"]:
    array = np.asarray(values)
    if array.ndim != 1 or (len(array) and (array.dtype.kind not in "iu" or array.max() > LARGEST)):
        raise ValueError("not a list of positions")
    return np.sort(array.astype(np.int64))
