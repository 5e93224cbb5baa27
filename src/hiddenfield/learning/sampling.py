"""In which order structures are seen."""

from __future__ import annotations

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Float, Int

__all__ = ["epoch_order", "resampling_weights"]

MOST_BINS = 100_000


def resampling_weights(structures: Structures, width: float) -> Float[Array, " structures"]:
    """Return probabilities with which rare targets are drawn as often as frequent ones.

    The range of the first target is cut into bins of `width`; a bin is drawn uniformly, then a structure in it. For a
    target of classes the classes are the bins. Structures whose target is missing form a bin of their own.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["A", "B", "C"], targets=[0.01, 0.02, 0.9])
    >>> resampling_weights(words, 0.1).tolist()
    [0.25, 0.25, 0.5]
    """
    if structures.targets is None or not structures.target_names:
        raise InputError("resampling needs targets, and the structures have none")
    values = structures.targets[:, 0].cpu().numpy()
    present = ~np.isnan(values)
    if structures.target_vocabularies[0] is None:
        low = values[present].min() if present.any() else 0.0
        if present.any() and (values[present].max() - low) / width > MOST_BINS:
            raise InputError(
                f"bins of width {width} are too narrow for targets from {low} to {values[present].max()}"
            )
        bins = np.where(present, np.floor((values - low) / width), -1)
    else:
        bins = np.where(present, values, -1)
    _, number, counts = np.unique(bins, return_inverse=True, return_counts=True)
    return 1.0 / (len(counts) * counts[number])


def epoch_order(count: int, seed: int, epoch: int, weights: Array | None = None) -> Int[Array, " structures"]:
    """Return the order of one epoch: a permutation, or a draw with the given probabilities.

    It depends on the seed and the epoch alone, so that a resumed run sees what an uninterrupted one would have seen.
    """
    generator = np.random.default_rng([seed, epoch])
    if weights is None:
        return generator.permutation(count)
    return generator.choice(count, size=count, p=weights)
