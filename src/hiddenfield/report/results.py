"""Results: everything that a page shows, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hiddenfield.data.structures import Structures
from hiddenfield.evaluation.measuring import Score
from hiddenfield.learning import History
from hiddenfield.shapes import Array, Float, Int

__all__ = ["Facts", "Results", "Shares"]

Facts = Sequence[tuple[str, Sequence[tuple[str, object]]]]
"""Groups of names and values, each under a heading."""

Shares = Callable[[Int[Array, " chosen"]], list[Float[Array, " nodes"]]]
"""For some of the structures, what each of their nodes contributes."""


@dataclass(frozen=True, eq=False)
class Results:
    """What a model reached on test structures.

    Parameters
    ----------
    title
        Of the page.
    target
        The name of what is predicted.
    structures
        The N test structures.
    truth
        (N,) numbers, or class codes; none missing.
    predicted
        (N,) numbers, or (N, C) probabilities of the classes.
    scores
        The comparison; the model itself comes last.
    classes
        The classes' names; None for a target that is a number.
    embeddings
        (N, width), or None for no map.
    histories
        How training went, one for each network.
    shares
        What the nodes of chosen structures contribute, or None.
    base
        What the shares of a structure's nodes add up to, in words.
    facts
        The summary.
    """

    title: str
    target: str
    structures: Structures
    truth: Float[Array, " structures"]
    predicted: Float[Array, "structures ..."]
    scores: Sequence[Score]
    classes: tuple[str, ...] | None = None
    embeddings: Float[Array, "structures width"] | None = None
    histories: Sequence[History] = ()
    shares: Shares | None = None
    base: str = ""
    facts: Facts = ()
