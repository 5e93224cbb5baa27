"""assess_targets: the assessment of one target after another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hiddenfield.data.structures import Structures
from hiddenfield.errors import HiddenfieldError, InputError
from hiddenfield.estimators.targets import select_targets
from hiddenfield.evaluation.assessment.assessing import assess
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.records import Assessment, Assessments, write_json


def assess_targets(
    estimator: Any,
    structures: Structures,
    settings: AssessmentSettings | None = None,
    *,
    parameters: Mapping[str, Any] | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    show_progress: bool = False,
) -> Assessments:
    """Assess an estimator on every target of the structures, each with a model of its own.

    Parameters
    ----------
    estimator, settings, parameters, resume, show_progress
        As `assess` takes them.
    structures
        With several targets.
    folder
        Where every finished piece is kept, in a folder for each target, and ``assessment.json``; None for nowhere.

    Returns
    -------
    Assessments
        A target whose assessment is refused, such as one with a single class, is told and does not keep the others
        from being assessed; if all are, the first reason is raised.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(
    ...     ["AB" * k for k in range(1, 13)],
    ...     targets={"kind": ["short", "long"] * 6, "none": ["same"] * 12},
    ... )
    >>> quick = {"dim": 4, "epochs": 1, "hidden": 4}
    >>> found = assess_targets("mean_field", words, AssessmentSettings(folds=2), parameters=quick)
    >>> list(found.targets), found.failed
    (['kind'], {'none': "all 12 structures are of one class of 'none', 'same'; at least two are needed"})
    """
    found: dict[str, Assessment] = {}
    failed: dict[str, HiddenfieldError] = {}
    for number, name in enumerate(structures.target_names):
        try:
            found[name] = assess(
                estimator,
                select_targets(structures, [name]),
                settings=settings,
                parameters=parameters,
                folder=None if folder is None else Path(folder) / _folder_name(number, name),
                resume=resume,
                show_progress=show_progress,
            )
        except InputError as error:
            failed[name] = error
    if not found:
        raise next(iter(failed.values()))
    several = Assessments.of(found, {name: str(error) for name, error in failed.items()})
    if folder is not None:
        write_json(Path(folder) / "assessment.json", several.as_dict())
    return several


def _folder_name(number: int, target: str) -> str:
    """Return a name that any file system takes, and no two targets share."""
    return f"{number:03d}-" + re.sub(r"[^A-Za-z0-9._-]+", "-", target)[:60].strip("-.")
