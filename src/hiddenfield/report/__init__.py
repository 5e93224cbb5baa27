"""Results for a person to look at: plots and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.report.assemble import build, collect
    from hiddenfield.report.distributions import Distributions
    from hiddenfield.report.of_run import collect_run
    from hiddenfield.report.results import Results
    from hiddenfield.report.write import write_report

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Distributions": "hiddenfield.report.distributions",
        "Results": "hiddenfield.report.results",
        "build": "hiddenfield.report.assemble",
        "collect": "hiddenfield.report.assemble",
        "collect_run": "hiddenfield.report.of_run",
        "write_report": "hiddenfield.report.write",
    },
)
