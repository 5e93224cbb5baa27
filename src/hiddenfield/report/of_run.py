"""From the folder of a run to its page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.errors import ReadError
from hiddenfield.report.assemble import build

if TYPE_CHECKING:
    from hiddenfield.report.results import Results

__all__ = ["report_run"]


def report_run(
    folder: str | Path,
    structures: Structures,
    *,
    path: str | Path | None = None,
    target: str | None = None,
    rounds: Sequence[int] | None = (3,),
    title: str | None = None,
) -> Results:
    """Write the page of a run of ``hiddenfield fit``: the model that it saved, on the structures that it kept aside.

    Parameters
    ----------
    folder
        Of the run; it holds the model and which structures were trained on.
    structures
        The data of the run, as they were read.
    path
        Of the page; ``report.html`` in the folder by default.
    target, rounds, title
        As in `build`.

    Returns
    -------
    Results
        What the page shows.
    """
    from hiddenfield.estimators.saving import load

    folder = Path(folder)
    split = _split(folder / "split.json", len(structures))
    train = structures[np.sort(np.concatenate([split["train"], split["validation"]]))]
    file = folder / "report.html" if path is None else path
    return build(
        load(folder), train, structures[split["test"]], file, target=target, rounds=rounds, title=title
    )


def _split(file: Path, count: int) -> dict[str, Any]:
    """Read which structures were trained on, validated on and kept aside."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        split = {name: np.array(content[name], dtype=np.int64) for name in ("train", "validation", "test")}
    except (OSError, ValueError, KeyError, TypeError):
        raise ReadError("does not say which structures were kept aside; fit again", file=file) from None
    highest = max((int(part.max(initial=-1)) for part in split.values()), default=-1)
    if highest >= count:
        raise ReadError(
            f"names structure {highest}, and there are {count}; give the data of the run", file=file
        )
    return split
