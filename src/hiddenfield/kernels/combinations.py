"""Kernels made of other kernels: weighted sums and products."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.kernels.base import KERNELS, Kernel, _inverse_lengths
from hiddenfield.shapes import Array, Float


@dataclass(kw_only=True, eq=False, repr=False)
class Combination(Kernel):
    """Base of the kernels that are made of others.

    Parameters
    ----------
    kernels
        Names of `KERNELS`, which then have their default parameters, or kernels.
    each
        Whether each is normalised first.
    """

    kernels: Sequence[Any] = ("wl_subtree", "shortest_path")
    each: bool = True

    _parameter_constraints: ClassVar[dict[str, Any]] = Kernel._parameter_constraints | {
        "kernels": ["array-like"],
        "each": ["boolean"],
    }

    def _made(self) -> list[Kernel]:
        """Return the kernels, which compute what is needed to normalise them."""
        if not len(self.kernels):
            raise InputError("kernels must name at least one kernel, such as wl_subtree")
        made: list[Kernel] = []
        for one in self.kernels:
            if not isinstance(one, (str, Kernel)):
                raise InputError(f"kernels must be names or kernels, got {type(one).__name__}")
            made.append(KERNELS.choose(one)() if isinstance(one, str) else clone(one))
        return [one.set_params(normalise=True) for one in made]

    def _fit(self, structures: Structures) -> None:
        self.kernels_ = [one.fit(structures) for one in self._made()]

    def _parts(
        self, first: Structures, second: Structures | None, shape: tuple[int, int], learn: bool
    ) -> list[tuple[Array, Array, Array]]:
        """Return each kernel's matrix and its values of structures with themselves."""
        if learn:
            self.kernels_ = self._made()
        found = []
        for kernel in self.kernels_:
            gram = np.zeros(shape)
            if learn:
                kernel._check()
            own, others = kernel._add_products(first, second, gram, learn)
            if self.each:
                gram *= _inverse_lengths(own)[:, None] * _inverse_lengths(others)
                own, others = (own > 0).astype(float), (others > 0).astype(float)
            found.append((gram, own, others))
        return found

    def _add_products(
        self, first: Structures, second: Structures | None, out: Float[Array, "first second"], learn: bool
    ) -> tuple[Float[Array, " first"], Float[Array, " second"]]:
        grams, own, others = zip(*self._parts(first, second, out.shape, learn), strict=True)
        out += self._combined(grams)
        return self._combined(own), self._combined(others)

    @abstractmethod
    def _combined(self, parts: Sequence[Array]) -> Array:
        """Return what is made of the values of all kernels."""


@KERNELS.register(
    "sum", input="graphs", summary="a weighted sum of kernels", reference="Schölkopf & Smola 2002"
)
@dataclass(kw_only=True, eq=False, repr=False)
class Sum(Combination):
    r"""Add kernels up: :math:`k(x, y) = \sum_b w_b \, k_b(x, y)`.

    The other parameters are those of `Combination`.

    Parameters
    ----------
    weights
        One for each kernel, not negative; None for 1.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.kernels import Spectrum
    >>> words = hf.data.from_sequences(["AB", "BA"])
    >>> Sum(kernels=[Spectrum(k=1), Spectrum(k=2)], weights=[0.75, 0.25]).fit(words).gram(words).round(2)
    array([[1.  , 0.75],
           [0.75, 1.  ]])
    """

    weights: Sequence[float] | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = Combination._parameter_constraints | {
        "weights": ["array-like", None]
    }

    def _combined(self, parts: Sequence[Array]) -> Array:
        weights = [1.0] * len(parts) if self.weights is None else list(self.weights)
        if len(weights) != len(parts) or min(weights) < 0:
            raise InputError(
                f"weights must be {len(parts)} numbers of at least 0, one for each kernel, got {self.weights!r}"
            )
        return np.asarray(sum(weight * part for weight, part in zip(weights, parts, strict=True)))


@KERNELS.register(
    "product", input="graphs", summary="a product of kernels", reference="Schölkopf & Smola 2002"
)
@dataclass(kw_only=True, eq=False, repr=False)
class Product(Combination):
    r"""Multiply kernels: :math:`k(x, y) = \prod_b k_b(x, y)`.

    The parameters are those of `Combination`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB", "BA"])
    >>> Product(kernels=["wl_subtree", "spectrum"]).fit(words).gram(
    ...     words
    ... )  # neither has words of three symbols
    array([[0., 0.],
           [0., 0.]])
    """

    def _combined(self, parts: Sequence[Array]) -> Array:
        return np.asarray(np.prod(np.stack(parts), axis=0))
