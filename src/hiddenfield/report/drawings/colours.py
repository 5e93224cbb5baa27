"""Colours of shares: blue lowers, red raises, white does neither."""

from __future__ import annotations

import numpy as np

from hiddenfield.shapes import Array, Float

__all__ = ["as_hex", "share_colours"]

# Where the colour is deepest, a dark text on it must still be readable.
RED, BLUE = np.array([0.93, 0.36, 0.30]), np.array([0.30, 0.56, 0.90])


def share_colours(shares: Float[Array, " nodes"]) -> Float[Array, "nodes channels"]:
    """Return red, green and blue between 0 and 1 for every share; the largest of the structure is deepest.

    Examples
    --------
    >>> share_colours(np.array([0.0, 2.0, -1.0])).round(2).tolist()
    [[1.0, 1.0, 1.0], [0.93, 0.36, 0.3], [0.65, 0.78, 0.95]]
    """
    finite = np.nan_to_num(shares)
    top = np.abs(finite).max(initial=0.0)
    depth = (np.abs(finite) / top if top > 0 else np.zeros_like(finite))[:, None]
    return 1.0 - depth * (1.0 - np.where(finite[:, None] >= 0, RED, BLUE))


def as_hex(colour: Float[Array, " channels"]) -> str:
    """Return ``#rrggbb``.

    Examples
    --------
    >>> as_hex(np.array([1.0, 0.5, 0.0]))
    '#ff8000'
    """
    return "#" + "".join(f"{round(float(channel) * 255):02x}" for channel in colour)
