"""What ``"auto"`` stands for."""

from __future__ import annotations

__all__ = ["auto_batch_size", "auto_epochs"]

# A network of this kind needs some thousand steps whatever the data, and gains little from many more passes.
STEPS = 4000
FEWEST_EPOCHS, MOST_EPOCHS = 20, 200


def auto_batch_size(structures: int) -> int:
    """Return a power of two from 8 to 128, such that an epoch has some 30 steps.

    Examples
    --------
    >>> [auto_batch_size(count) for count in (20, 170, 1000, 100_000)]
    [8, 8, 32, 128]
    """
    size = 8
    while size < 128 and structures / size > 45:
        size *= 2
    return size


def auto_epochs(structures: int, batch_size: int) -> int:
    """Return how many epochs make about `STEPS` steps, from 20 to 200.

    Examples
    --------
    >>> [auto_epochs(count, auto_batch_size(count)) for count in (170, 1000, 100_000)]
    [182, 125, 20]
    """
    steps_an_epoch = -(-structures // batch_size)
    return min(MOST_EPOCHS, max(FEWEST_EPOCHS, round(STEPS / steps_an_epoch)))
