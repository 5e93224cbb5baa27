"""Train many small networks at once, those that are alike side by side on one device."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from hiddenfield.embedding.stack import stack_kind
from hiddenfield.errors import TrainingError
from hiddenfield.learning.checkpoint import History
from hiddenfield.learning.processes import Team
from hiddenfield.learning.trainer import Fit, train_fit, train_side_by_side

# Entries of one vector on every arc and node of the batches of all networks together: enough to keep a GPU busy, and
# not too many for its memory.
MOST_ENTRIES = 256_000_000


def train_together(fits: Sequence[Fit]) -> list[History | TrainingError]:
    """Train networks in place, those that are alike side by side, the others one after the other.

    Each has its own structures, initial weights, order and dropout, and ends as it would alone, up to rounding and the
    random numbers of dropout. Alike are networks of the same kind (widths may differ where the nonlinearity keeps 0),
    with the same settings but the seed, the same vocabularies and the same number of steps in an epoch, in single
    precision. For small networks on a GPU, which leave most of it idle, this is many times faster.

    Parameters
    ----------
    fits
        What to train.

    Returns
    -------
    list
        For each what happened, or the error if its loss did not stay finite; the others are not disturbed by that.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.embedding import FeatureSizes, Predictor
    >>> from hiddenfield.learning import Task, TrainSettings
    >>> words = hf.data.from_sequences(["GA", "GATTACA", "TTT", "A"], targets=[2.0, 7.0, 3.0, 1.0])
    >>> task, fits = Task.of(words), []
    >>> for seed in range(3):
    ...     network = Predictor(FeatureSizes.of(words), task.outputs, dim=8)
    ...     settings = TrainSettings(epochs=2, device="cpu", seed=seed)
    ...     fits.append(Fit(network, task, words, None, settings))
    >>> [len(history.rows) for history in train_together(fits)]
    [2, 2, 2]
    """
    results: list[History | TrainingError] = [History() for _ in fits]
    for position, result in train_in_parts(fits):
        results[position] = result
    return results


def train_in_parts(
    fits: Sequence[Fit], *, folder: Path | None = None, resume: bool = False, show_progress: bool = False
) -> Iterator[tuple[int, History | TrainingError]]:
    """Do as `train_together`, and yield positions and results as soon as those that were trained at once are done.

    With a `folder` the state of those that are trained at once is saved to a file after every epoch, as in `train`.
    """
    for fit in fits:
        fit.check()
    for group in _alike(fits):
        own = [fits[position] for position in group]
        file = None if folder is None else folder / f"member-{group[0]}.safetensors"
        if len(own) == 1:
            found = [train_fit(own[0], checkpoint=file, resume=resume, show_progress=show_progress)]
        else:
            found = train_side_by_side(Team(), own, file, resume, show_progress)
        yield from zip(group, found, strict=True)


def _alike(fits: Sequence[Fit]) -> Iterator[list[int]]:
    """Yield the positions of fits that can be done side by side, as many at once as there is room for."""
    groups: dict[str, list[int]] = defaultdict(list)
    for position, fit in enumerate(fits):
        alone = fit.settings.precision not in ("32", "tf32") or fit.settings.devices > 1
        kind = None if alone else stack_kind(fit.network)
        groups[f"alone {position}" if kind is None else f"{kind} {_circumstances(fit)}"].append(position)
    for group in groups.values():
        room = max(1, int(MOST_ENTRIES / max(fits[position].batch_entries for position in group)))
        parts = math.ceil(len(group) / room)
        yield from (part.tolist() for part in np.array_split(np.array(group), parts))


def _circumstances(fit: Fit) -> str:
    """Return, as text, what must be the same in addition to the kind of network."""
    pack = fit.structures
    words = [(v.name, v.symbols) for v in (*pack.node_vocabularies, *pack.arc_vocabularies)]
    names = (pack.target_names, pack.node_attribute_names, pack.arc_attribute_names)
    settings = {name: value for name, value in fit.settings.as_dict().items() if name != "seed"}
    return repr((words, names, fit.task.kind, settings, fit.validation is None, fit.steps))
