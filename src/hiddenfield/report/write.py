"""Write results as one page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hiddenfield.data.files import write_text
from hiddenfield.errors import InputError
from hiddenfield.report.classes import confusion, roc
from hiddenfield.report.embedding_map import embedding_map
from hiddenfield.report.examples import examples
from hiddenfield.report.learning_curves import learning_curves
from hiddenfield.report.numbers import error_by_range, parity
from hiddenfield.report.page import Section, facts, page
from hiddenfield.report.results import Results
from hiddenfield.report.scores import scores_table

__all__ = ["write_report"]

COMPARISON = (
    "<p>On test structures that no model has seen. Whatever had to be chosen, the strength of a penalty or the epoch "
    "whose weights are kept, was chosen on a part of the training structures. The best of each column is bold.</p>"
)


def write_report(path: str | Path, results: Results) -> Path:
    """Write results as a page of HTML: one file, that fetches nothing and opens in any browser.

    The file is there whole or not at all. Text that comes from data (ids, labels, SMILES, names) is escaped.

    Parameters
    ----------
    path
        Where to; folders are made.
    results
        What to show.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile, hiddenfield as hf
    >>> from hiddenfield.evaluation.measuring import Score, measure
    >>> words = hf.data.from_sequences(["GATTACA", "CAT", "TAG"], ids=["a", "b", "c"])
    >>> truth, predicted = np.array([7.0, 3.0, 3.0]), np.array([6.0, 3.5, 3.0])
    >>> own = Score("a guess", measure(truth, predicted))
    >>> file = write_report(
    ...     Path(tempfile.mkdtemp()) / "report.html",
    ...     Results("Words", "length", words, truth, predicted, [own]),
    ... )
    >>> "GATTACA" in file.read_text() or "G</span>" in file.read_text()
    True
    """
    if not len(results.truth) or not len(results.scores):
        raise InputError("there is nothing to report: no test structures with a target, or no scores")
    path = Path(path)
    text = page(
        results.title,
        _lead(results),
        _sections(results),
        "Made by hiddenfield. This file holds all it needs.",
    )
    write_text(path, text)
    return path


def _lead(results: Results) -> str:
    own, count = results.scores[-1], f"{len(results.truth):,} test structures"
    if results.classes is None:
        return f"{own.name}: mean absolute error {own.metrics['mae']:.4g} in {results.target}, on {count}."
    return f"{own.name}: {own.metrics['accuracy']:.1%} of {count} in the right class of {results.target}."


def _sections(results: Results) -> list[Section]:
    """Return the panels that the results have something for."""
    sections: list[Section] = [("Comparison", COMPARISON + scores_table(results.scores))]
    if results.facts:
        sections.append(("Summary", facts(results.facts)))
    if curves := learning_curves(results.histories):
        sections.append(("Learning curves", curves))
    if results.classes is None:
        panels = [parity(results.target, results.truth, results.predicted)]
        panels.append(error_by_range(results.target, results.truth, results.predicted))
    else:
        panels = [panel(results.classes, results.truth, results.predicted) for panel in (roc, confusion)]
    sections.append(("Predictions", f'<div class="figures">{"".join(panels)}</div>'))
    if results.embeddings is not None and np.ptp(results.embeddings) > 0:
        sections.append(
            ("Map", embedding_map(results.target, results.truth, results.embeddings, results.classes))
        )
    sections.append(("Best and worst", examples(results)))
    return sections
