"""Array types with named axes: jaxtyping's where it is installed, inert stand-ins where it is not.

The library annotates ``Float[Tensor, "arcs dim"]``; the tests enforce it. Nothing at run time depends on it.

Examples
--------
>>> from hiddenfield.shapes import Float, Tensor
>>> def double(values: Float[Tensor, "nodes dim"]) -> Float[Tensor, "nodes dim"]:
...     return 2 * values
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

__all__ = ["Array", "Bool", "Float", "Int", "Shaped", "Tensor"]

Array = np.ndarray

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Shaped
else:
    try:
        from jaxtyping import Bool, Float, Int, Shaped
    except ImportError:

        class _Unchecked:
            """Stands where jaxtyping is absent: ``Float[Tensor, "..."]`` is then plain ``Tensor``."""

            def __class_getitem__(cls, item: Any) -> Any:
                return item[0]

        Bool = Float = Int = Shaped = _Unchecked
