"""Compare two arrays that should hold the same numbers, such as the results of a graph before and
after a rule, or of two runtimes. A file is compared with JAX by `converter.check`."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """The differences that two arrays may have. Without arguments, all numbers have to be equal.

    Arguments:
        units: largest difference of two floats, in units in the last place of the expected number.
        magnitude: the units are at least those of this number.
        of_largest: whether the units are at least those of the largest finite number of the array.
        absolute: difference of two floats that is accepted besides the units.
        zero_signs: whether 0.0 and -0.0 differ, and numbers of different signs within ``units``.
        subnormals: whether numbers below the smallest normal one are distinguished from zero. XLA
            flushes them to zero.
    """

    units: float = 0.0
    magnitude: float = 0.0
    of_largest: bool = False
    absolute: float = 0.0
    zero_signs: bool = True
    subnormals: bool = True


EXACT = Tolerance()
FLUSHED = Tolerance(subnormals=False)


def describe_difference(
    actual: np.ndarray,
    expected: np.ndarray,
    tolerance: Tolerance = EXACT,
    alternative: np.ndarray | None = None,
) -> str:
    """Return a sentence about the elements that differ, or an empty text if none does.

    The arrays need the same shape and dtype. Integers and Booleans have to be equal, and NaN and
    infinities have to be at the same positions.

    Arguments:
        actual: the array to judge.
        expected: the reference.
        tolerance: the differences that are accepted.
        alternative: another reference for the numbers. An element may be near either. The signs
            have to be those of ``expected``.
    """
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        types = (f"{a.dtype}{list(a.shape)}" for a in (actual, expected))
        return ", not ".join(types)
    is_other = _exceeds(actual, expected, tolerance)
    if alternative is not None:
        is_other &= _exceeds(actual, alternative.astype(actual.dtype), tolerance)
    if tolerance.zero_signs and jnp.issubdtype(expected.dtype, jnp.floating):
        is_other |= (np.signbit(actual) != np.signbit(expected)) & ~np.isnan(expected)
    if not is_other.any():
        return ""
    position = list(map(int, np.argwhere(is_other)[0]))
    return (
        f"{int(is_other.sum())} of {is_other.size} elements differ, first at {position}: "
        f"{actual[is_other][:4]}, not {expected[is_other][:4]}; {actual}, not {expected}"
    )


def count_units(
    actual: np.ndarray, expected: np.ndarray, tolerance: Tolerance = EXACT
) -> np.ndarray:
    """Return the difference of each element in the units that ``tolerance`` defines, without the
    absolute difference that it accepts.

    The difference is infinite where only one of the two is a number, or where integers differ. The
    sign of zero does not count.
    """
    if not jnp.issubdtype(expected.dtype, jnp.floating):
        return np.where(actual == expected, 0.0, np.inf)
    limits = jnp.finfo(expected.dtype)
    tiny = float(limits.smallest_normal)
    with np.errstate(invalid="ignore"):  # signalling NaN
        a, b = (x.astype(np.float64) for x in (actual, expected))
    if not tolerance.subnormals:
        a, b = (np.where(np.abs(x) < 1.01 * tiny, 0.0, x) for x in (a, b))
    magnitudes = np.where(np.isfinite(b), np.abs(b), 0.0)
    largest = float(magnitudes.max(initial=0.0)) if tolerance.of_largest else 0.0
    size = np.maximum(magnitudes, max(tolerance.magnitude, largest, tiny))
    unit = np.ldexp(float(limits.eps), np.frexp(size)[1] - 1)
    with np.errstate(all="ignore"):
        distances = np.maximum(np.abs(a - b) - tolerance.absolute, 0.0) / unit
        is_same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(is_same, 0.0, np.where(np.isnan(distances), np.inf, distances))


def _exceeds(actual: np.ndarray, expected: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    """Return a mask of the elements whose numbers differ by more than ``tolerance.units``."""
    return np.asarray(count_units(actual, expected, tolerance) > tolerance.units)
