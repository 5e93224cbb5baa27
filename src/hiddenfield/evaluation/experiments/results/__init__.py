"""The page of an experiment, from its result alone: tables, shortfalls, pictures, protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.evaluation.experiments.results.page import results_page
    from hiddenfield.evaluation.experiments.results.pictures import Picture, pictures_of

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Picture": "hiddenfield.evaluation.experiments.results.pictures",
        "pictures_of": "hiddenfield.evaluation.experiments.results.pictures",
        "results_page": "hiddenfield.evaluation.experiments.results.page",
    },
)
