"""exp and log as polynomials without branches or calls, so that loops over them run on whole vectors.

Numba's own call the C library, one number at a time: in loops of message passing these are four to eight times as fast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hiddenfield.ops.compile import Subroutine, subroutine


@subroutine(allocates=False, fast=True)
def exp_single(x: Any) -> Any:
    """Exponential in single precision, to two units in the last place; 0 below -87.3, where it would be subnormal."""
    y = min(max(x, np.float32(-87.3)), np.float32(88.3))
    # Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
    shifted = y * np.float32(1.44269504088896341) + np.float32(12582912.0)
    n = shifted - np.float32(12582912.0)
    z = y - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * z + np.float32(1.3981999507e-3)
    p = p * z + np.float32(8.3334519073e-3)
    p = p * z + np.float32(4.1665795894e-2)
    p = p * z + np.float32(1.6666665459e-1)
    p = p * z + np.float32(5.0000001201e-1)
    value = p * z * z + z + np.float32(1)
    power = np.int32((np.float32(shifted).view(np.int32) + np.int32(127)) << np.int32(23)).view(np.float32)
    return value * power if x >= np.float32(-87.3) else np.float32(0)


@subroutine(allocates=False, fast=True)
def exp_double(x: Any) -> Any:
    """Exponential in double precision, to two units in the last place; 0 below -708, where it would be subnormal."""
    y = min(max(x, -708.0), 709.0)
    shifted = y * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    z = (y - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
    p = 1.6059043836821613e-10
    p = p * z + 2.08767569878681e-09
    p = p * z + 2.505210838544172e-08
    p = p * z + 2.755731922398589e-07
    p = p * z + 2.7557319223985893e-06
    p = p * z + 2.48015873015873e-05
    p = p * z + 1.984126984126984e-04
    p = p * z + 1.388888888888889e-03
    p = p * z + 8.333333333333333e-03
    p = p * z + 4.1666666666666664e-02
    p = p * z + 1.6666666666666666e-01
    p = p * z + 0.5
    value = p * z * z + z + 1.0
    power = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)
    return value * power if x >= -708.0 else 0.0


@subroutine(allocates=False, fast=True)
def log_single(x: Any) -> Any:
    """Logarithm of normal positive numbers in single precision, to two units in the last place; -inf at 0."""
    bits = np.float32(x).view(np.int32)
    # Powers of two are split off so that what is left lies around 1, from sqrt(1/2) to sqrt(2).
    k = np.int32((bits - np.int32(0x3F3504F3)) >> np.int32(23))
    f = np.int32(bits - (k << np.int32(23))).view(np.float32) - np.float32(1)
    n = np.float32(k)
    p = np.float32(7.0376836292e-2)
    p = p * f + np.float32(-1.1514610310e-1)
    p = p * f + np.float32(1.1676998740e-1)
    p = p * f + np.float32(-1.2420140846e-1)
    p = p * f + np.float32(1.4249322787e-1)
    p = p * f + np.float32(-1.6668057665e-1)
    p = p * f + np.float32(2.0000714765e-1)
    p = p * f + np.float32(-2.4999993993e-1)
    p = p * f + np.float32(3.3333331174e-1)
    square = f * f
    value = p * f * square + n * np.float32(-2.12194440e-4) - np.float32(0.5) * square + f
    value = value + n * np.float32(0.693359375)
    return value if x > np.float32(0) else np.float32(-np.inf)


@subroutine(allocates=False, fast=True)
def log_double(x: Any) -> Any:
    """Logarithm of normal positive numbers in double precision, to two units in the last place; -inf at 0."""
    bits = np.float64(x).view(np.int64)
    k = (bits - 0x3FE6A09E667F3BCD) >> 52
    f = np.int64(bits - (k << 52)).view(np.float64) - 1.0
    n = np.float64(k)
    s = f / (2.0 + f)
    z = s * s
    p = 1.479819860511658591e-01
    p = p * z + 1.531383769920937332e-01
    p = p * z + 1.818357216161805012e-01
    p = p * z + 2.222219843214978396e-01
    p = p * z + 2.857142874366239149e-01
    p = p * z + 3.999999999940941908e-01
    p = p * z + 6.666666666666735130e-01
    half = 0.5 * f * f
    value = n * 6.93147180369123816490e-01 - (
        (half - (s * (half + p * z) + n * 1.90821492927058770002e-10)) - f
    )
    return value if x > 0.0 else -np.inf


class ByPrecision(Subroutine):
    """A subroutine that is another one in single than in double precision."""

    def __init__(self, single: Subroutine, double: Subroutine) -> None:
        super().__init__(double.function)
        self.single, self.double = self.parts = single, double

    def __call__(self, x: Any) -> Any:
        """Run as plain Python."""
        return (self.single if isinstance(x, np.float32) else self.double)(x)

    @functools.cached_property
    def compiled(self) -> Callable[..., Any]:
        """A name that Numba resolves by the type of the argument."""
        from numba import types
        from numba.extending import overload

        single, double = self.single.compiled, self.double.compiled

        def by_precision(x):  # type: ignore[no-untyped-def]
            raise NotImplementedError

        # Numba compares signatures, annotations included.
        @overload(by_precision)
        def choose(x):  # type: ignore[no-untyped-def]
            return (lambda x: single(x)) if x == types.float32 else (lambda x: double(x))

        return by_precision


class StackNumbers(Subroutine):
    """``stack_numbers(like, count)`` is room on the stack for a constant count of numbers of an array's type.

    The compiler knows that it overlaps with no array, which is what loops over a few lanes need to run on vectors.
    """

    def __init__(self) -> None:
        super().__init__(lambda like, count: np.empty(count, like.dtype))

    @functools.cached_property
    def compiled(self) -> Callable[..., Any]:
        """An intrinsic: a pointer that can be indexed."""
        from numba import types
        from numba.core import cgutils
        from numba.extending import intrinsic

        @intrinsic(prefer_literal=True)
        def reserve(typing_context, like, count):  # type: ignore[no-untyped-def]
            size = count.literal_value

            def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
                number = context.get_value_type(like.dtype)
                return cgutils.alloca_once(builder, number, size=context.get_constant(types.int64, size))

            return types.CPointer(like.dtype)(like, count), generate

        return reserve


class Unchecked(Subroutine):
    """``unchecked(array)`` is a contiguous array for indices that are not negative.

    Python counts negative indices from the end; where the compiler cannot see that there are none, it asks at each
    access, and the loop does not run on vectors.
    """

    def __init__(self) -> None:
        super().__init__(lambda array: array)

    @functools.cached_property
    def compiled(self) -> Callable[..., Any]:
        """An intrinsic: the array's pointer."""
        from numba import types
        from numba.extending import intrinsic

        @intrinsic
        def pointer(typing_context, array):  # type: ignore[no-untyped-def]
            def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
                return context.make_array(array)(context, builder, value=arguments[0]).data

            return types.CPointer(array.dtype)(array), generate

        return pointer


fast_exp = ByPrecision(exp_single, exp_double)
fast_log = ByPrecision(log_single, log_double)
stack_numbers = StackNumbers()
unchecked = Unchecked()
