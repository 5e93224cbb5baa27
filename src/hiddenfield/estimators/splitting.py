"""Which structures are kept aside to validate on."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Int

__all__ = ["chosen_aside", "keep_aside"]


def keep_aside(
    structures: Structures, fraction: float, seed: int, chosen: Int[Array, " aside"] | None = None
) -> tuple[Int[Array, " kept"], Int[Array, " aside"]]:
    """Return the positions that are trained on and those that are kept aside, drawn with a seed, each sorted.

    A single target of classes is stratified, where every class has two members and there is a place for each. With
    fewer than two structures, or a fraction of less than one structure, nothing is kept aside. Where positions were
    `chosen`, nothing is drawn: it is these.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["A"] * 10, targets=["yes", "no"] * 5)
    >>> kept, aside = keep_aside(words, 0.2, seed=0)
    >>> len(kept), sorted(words.targets[aside, 0].tolist())
    (8, [0.0, 1.0])
    """
    total = len(structures)
    if chosen is not None:
        return np.setdiff1d(np.arange(total), chosen), chosen
    size = min(int(total * fraction), total - 1)
    if size < 1:
        return np.arange(total), np.zeros(0, dtype=np.int64)
    classes = _strata(structures, size)
    if classes is None:
        order = np.random.default_rng(seed).permutation(total)
        return np.sort(order[size:]), np.sort(order[:size])
    from sklearn.model_selection import train_test_split

    kept, aside = train_test_split(np.arange(total), test_size=size, random_state=seed, stratify=classes)
    return np.sort(kept), np.sort(aside)


def chosen_aside(aside: Any, total: int, answered: Int[Array, " answered"]) -> Int[Array, " aside"]:
    """Check positions that a user keeps aside; return them among the structures that have a target, sorted.

    Examples
    --------
    >>> chosen_aside([3, 0], 4, np.array([0, 1, 3]))
    array([0, 2])
    """
    places = np.unique(np.asarray(aside, dtype=np.int64))
    if len(places) and not 0 <= places[0] <= places[-1] < total:
        raise InputError(
            f"aside must hold positions from 0 to {total - 1}, got {places[0] if places[0] < 0 else places[-1]}"
        )
    found = np.flatnonzero(np.isin(answered, places))
    if not len(found) or len(found) == len(answered):
        raise InputError(
            f"of the {len(answered)} structures with a target, {len(found)} would be kept aside; some must be, "
            f"and some must be left to learn from"
        )
    return found


def _strata(structures: Structures, size: int) -> Int[Array, " structures"] | None:
    """Return the class of every structure if there is one target and it can be stratified, else None."""
    if (
        structures.targets is None
        or len(structures.target_names) != 1
        or structures.target_vocabularies[0] is None
    ):
        return None
    values = structures.targets[:, 0].cpu().numpy()
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    room = min(size, len(values) - size)
    return codes if counts.min() >= 2 and len(counts) <= room else None
