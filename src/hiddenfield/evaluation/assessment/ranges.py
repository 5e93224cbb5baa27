"""Where the errors are: by ranges of the target."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiddenfield.shapes import Array, Float

__all__ = ["error_ranges"]

PARTS = 10


def error_ranges(
    truth: Float[Array, " predictions"], predicted: Float[Array, " predictions"], parts: int = PARTS
) -> list[dict[str, Any]]:
    """Return the mean absolute error and the bias in ranges of the target that are equally wide.

    All ranges are there; in one without an entry nothing is known.

    Examples
    --------
    >>> error_ranges(np.array([0.0, 1.0, 10.0]), np.array([0.5, 1.0, 8.0]), parts=2)[1]
    {'low': 5.0, 'high': 10.0, 'count': 1, 'mae': 2.0, 'bias': -2.0}
    """
    bounds = np.linspace(truth.min(), truth.max(), parts + 1)
    place = np.clip(np.searchsorted(bounds, truth, side="right") - 1, 0, parts - 1)
    rows = []
    for part in range(parts):
        errors = (predicted - truth)[place == part]
        rows.append(
            {
                "low": float(bounds[part]),
                "high": float(bounds[part + 1]),
                "count": len(errors),
                "mae": float(np.abs(errors).mean()) if len(errors) else None,
                "bias": float(errors.mean()) if len(errors) else None,
            }
        )
    return rows
