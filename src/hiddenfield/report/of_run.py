"""From the folder of a run to its results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.errors import ReadError
from hiddenfield.evaluation.assessment.problem import with_row_ids
from hiddenfield.report.assemble import collect

if TYPE_CHECKING:
    from hiddenfield.report.results import Results

__all__ = ["collect_run"]


def collect_run(
    folder: str | Path,
    structures: Structures,
    *,
    target: str | None = None,
    rounds: Sequence[int] | None = (3,),
    title: str | None = None,
) -> Results:
    """Return the results of a run of ``hiddenfield fit``: its model, on the structures that it kept aside.

    Parameters
    ----------
    folder
        Of the run; it holds the model and which structures were trained on.
    structures
        The data of the run, as they were read.
    target, rounds, title
        As in `build`.

    Returns
    -------
    Results
        For `write_report`.
    """
    from hiddenfield.estimators.saving import load

    folder = Path(folder)
    structures = with_row_ids(structures)
    split = _split(folder / "split.json", len(structures))
    train = structures[np.sort(np.concatenate([split["train"], split["validation"]]))]
    test = structures[split["test"]]
    return collect(load(folder), train, test, target=target, rounds=rounds, title=title)


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
