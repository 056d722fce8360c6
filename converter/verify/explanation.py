"""Decide which differences between numbers of a file and of JAX rounding explains."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from converter.ir.complex_pairs import is_complex, pack_complex, real_dtype
from converter.ir.dtypes import to_float64

ROUNDING_UNITS = 16
"""Units in the last place that an element may differ by in any graph. Among operations that ONNX
Runtime 1.31.1 and XLA compute in one step, XLA's `sinh` and `cosh` have the largest error: 13."""

SPREAD_FACTOR = 4
"""Multiple of the spread of the perturbed evaluations that an element may differ by. Among the
right elements of 250 random programs, the largest difference was one spread of four evaluations."""

FLUSH_THRESHOLD = float(np.finfo(np.float32).smallest_normal)
"""Magnitude below which XLA flushes numbers to zero."""


def row_rounding_error(expected: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the rounding error of each element of a matrix factorization, estimated from JAX's.

    The error of a row is the largest difference between JAX and float64 in it, at least half a unit
    in the last place of its largest number: a factorization has errors relative to its largest
    numbers, also in its small elements. JAX may sum in blocks or with fused products. The file may
    lose as much in each of its ``n`` sums, where ``n`` is the larger size of the matrix, and so its
    error is up to ``SPREAD_FACTOR * sqrt(n)`` times that of JAX. In a vector, the error is
    ``SPREAD_FACTOR`` times the difference of each element alone. Infinite differences are treated
    as zero. Both parts of a complex number get the error of the larger one.
    """
    numbers = to_float64(pack_complex(expected))
    difference = absolute_difference(numbers, truth)
    difference = np.where(np.isfinite(difference), difference, 0.0)
    factor, row_axes = float(SPREAD_FACTOR), int(is_complex(expected.dtype))
    if expected.ndim > 1:
        half_unit = float(jnp.finfo(expected.dtype).eps) / 2
        sizes = np.where(np.isfinite(numbers), abs(numbers), 0.0)
        difference = np.maximum(difference, half_unit * sizes)
        factor, row_axes = factor * math.sqrt(max(expected.shape[-2:])), row_axes + 1
    largest = difference.max(tuple(range(-row_axes, 0)), keepdims=True)
    return np.broadcast_to(factor * largest, difference.shape)


def is_perturbed_integer(integers: np.ndarray, evaluations: np.ndarray) -> np.ndarray:
    """Return a mask of the ``integers`` [elements] that rounding errors can lead to.

    ``evaluations`` are the evaluations of the graph [runs, elements]. An integer is possible if it
    is the result of one of them. Where they have more than two different results, all integers
    between the smallest and the largest are possible too.
    """
    low, high = evaluations.min(0), evaluations.max(0)
    are_two = ((evaluations == low) | (evaluations == high)).all(0)
    return np.asarray(
        (evaluations == integers).any(0) | (~are_two & (low <= integers) & (integers <= high))
    )


def classify_unexplained(
    actual: np.ndarray,
    expected: np.ndarray,
    evaluations: np.ndarray,
    truth: np.ndarray | None,
    tolerance: np.ndarray,
    leaves_range: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three masks of elements outside of the tolerance: wrong, open, and right although the
    file or JAX is not finite there.

    An element is wrong if all evaluations are finite there, or if all of them are the same infinity
    or NaN. There are two exceptions. The element is right if JAX has zero or an infinity, because
    an intermediate number is flushed to zero or overflows, and the file has the result in float64.
    It is open if an intermediate number leaves the range of its dtype and JAX is not close to the
    result in float64.

    For all other elements, these rules are applied in this order:

    - The element is right if the file is as close to the result in float64 as JAX.
    - It is wrong if rounding errors cannot lead to the number of the file, or not to that of JAX
      (``_is_reachable``, ``_is_plausible_near_pole``).
    - It is right if JAX's number is not finite or not accurate.
    - It is open.

    Without results in float64, no number counts as close to them or as not accurate.

    Arguments:
        actual: the numbers of the file, outside of the tolerance.
        expected: the numbers of JAX.
        evaluations: the evaluations of the graph [runs, elements], all but the first one perturbed.
        truth: the results of the function in float64; None if they are not known.
        tolerance: largest difference of each element that rounding explains.
        leaves_range: whether the output depends on a node whose result is infinite, NaN or
            subnormal although none of its operands is.
    """
    type_, (actual, expected, evaluations) = (
        expected.dtype,
        map(to_float64, (actual, expected, evaluations)),
    )
    changes_class = ~_have_same_class(evaluations, evaluations[0]).all(0)
    is_right, is_jax_inaccurate, is_only_file_accurate = np.zeros((3, *actual.shape), bool)
    if truth is not None:
        is_right, is_jax_inaccurate, is_only_file_accurate = _compare_with_float64(
            actual, expected, to_float64(truth), tolerance, jnp.finfo(type_)
        )
        is_only_file_accurate &= (expected == 0) | np.isinf(expected)
    is_possible = _is_reachable(actual, evaluations, tolerance) & _is_reachable(
        expected, evaluations, tolerance
    )
    is_possible &= ~np.isinf(expected) | _is_plausible_near_pole(actual, evaluations)
    is_excused = is_right | (is_possible & (is_jax_inaccurate | ~np.isfinite(expected)))
    is_open = changes_class & is_possible & ~is_excused
    wrong = ~is_only_file_accurate & (~changes_class | ~(is_excused | is_open))
    is_out_of_range = wrong & leaves_range & is_jax_inaccurate
    wrong, is_open = wrong & ~is_out_of_range, is_open | is_out_of_range
    are_finite = np.isfinite(actual) & np.isfinite(expected)
    return wrong, is_open, ~wrong & ~is_open & ~are_finite


def _compare_with_float64(
    actual: np.ndarray, expected: np.ndarray, truth: np.ndarray, tolerance: np.ndarray, info: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three masks that compare the file and JAX with the result in float64, ``truth``.

    Arguments:
        actual: the numbers of the file.
        expected: the numbers of JAX.
        truth: the results of the function in float64.
        tolerance: largest difference of each element that rounding explains.
        info: the ``finfo`` of the output's dtype.

    Returns:
        Three masks. The first is true if the file is as close to the truth as JAX: it may differ by
        the tolerance plus ``SPREAD_FACTOR`` times JAX's difference, or be the infinity to which a
        number close to the largest finite one is rounded. The second is true if JAX is inaccurate.
        The third is true if JAX is inaccurate and the file has the true result.
    """
    magnitude = np.where(np.isfinite(truth), abs(truth), 0.0)
    truth_rounding = ROUNDING_UNITS * float(info.eps) * magnitude
    jax_error = absolute_difference(expected, truth)
    rounding = np.maximum(tolerance, truth_rounding)
    allowed = rounding + SPREAD_FACTOR * np.where(np.isfinite(jax_error), jax_error, 0.0)
    # A number close to the largest finite one may be rounded to infinity.
    is_overflow = (
        np.isinf(actual)
        & (np.sign(actual) == np.sign(truth))
        & (magnitude + truth_rounding >= float(info.max))
    )
    is_right = (absolute_difference(actual, truth) <= allowed) | is_overflow
    is_jax_inaccurate = jax_error > np.maximum(truth_rounding, FLUSH_THRESHOLD)
    return (
        is_right,
        is_jax_inaccurate,
        is_jax_inaccurate & (absolute_difference(actual, truth) <= rounding),
    )


def _is_reachable(
    results: np.ndarray, evaluations: np.ndarray, tolerance: np.ndarray
) -> np.ndarray:
    """Return a mask of the results that rounding errors can lead to.

    An infinity or NaN is reachable if it is the result of one of the ``evaluations`` [runs,
    elements]. A finite number is reachable if it is between the smallest and the largest finite
    evaluation, or outside by at most the tolerance plus ``SPREAD_FACTOR`` times their range.
    """
    is_number = np.isfinite(evaluations)
    low = np.where(is_number, evaluations, np.inf).min(0)
    high = np.where(is_number, evaluations, -np.inf).max(0)
    with np.errstate(invalid="ignore", over="ignore"):
        margin = SPREAD_FACTOR * np.where(is_number.any(0), high - low, 0.0) + tolerance
        is_in_range = (low - margin <= results) & (results <= high + margin)
    return np.where(
        np.isfinite(results),
        is_in_range,
        (_have_same_class(evaluations, results) & ~is_number).any(0),
    )


def _is_plausible_near_pole(actual: np.ndarray, evaluations: np.ndarray) -> np.ndarray:
    """Return a mask of the elements at which the result of the file is plausible where JAX has
    infinity.

    A result is plausible if it is not finite, or if ``1 + SPREAD_FACTOR`` times its magnitude is at
    least the smallest magnitude of a finite evaluation. Near a pole, rounding errors change the
    reciprocals of the numbers, so that they do not explain a small finite number.
    """
    least = np.where(np.isfinite(evaluations), abs(evaluations), np.inf).min(0)
    return np.asarray(~np.isfinite(actual) | (abs(actual) * (1 + SPREAD_FACTOR) >= least))


def _have_same_class(first_array: np.ndarray, second_array: np.ndarray) -> np.ndarray:
    """Return a mask of the elements of the same class in both arrays.

    The classes are finite numbers, each infinity, and NaN.
    """
    are_finite = np.isfinite(first_array) & np.isfinite(second_array)
    return np.asarray(
        are_finite
        | (first_array == second_array)
        | (np.isnan(first_array) & np.isnan(second_array))
    )


def absolute_difference(first_array: np.ndarray, second_array: np.ndarray) -> np.ndarray:
    """Return the absolute difference of each element in float64.

    It is zero where both numbers are NaN or the same infinity. It is infinite everywhere else where
    a number is not finite. If ``second_array`` has integers or Booleans, the difference is zero
    where the arrays are equal and infinite elsewhere.
    """
    if second_array.dtype.kind in "biu":
        return np.where(first_array == second_array, 0.0, np.inf)
    a, b = to_float64(first_array), to_float64(second_array)
    are_equal = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        differences = np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), np.inf)
    return np.where(are_equal, 0.0, differences)


def rounding_error(expected: np.ndarray) -> np.ndarray:
    """Return ``ROUNDING_UNITS`` units in the last place of each element, plus a constant.

    The constant is ``ROUNDING_UNITS`` times the largest number that XLA may flush to zero. It is
    the result where an element is not finite. The result is zero for integers and Booleans. For a
    complex array it has a last axis of size two. Both parts of a complex number get the units of
    the larger of the part and the absolute value.
    """
    if expected.dtype.kind in "biu":
        return np.zeros(expected.shape)
    if is_complex(expected.dtype):
        with np.errstate(over="ignore"):
            size = np.abs(expected).astype(real_dtype(expected.dtype))
        return np.maximum(rounding_error(pack_complex(expected)), rounding_error(size)[..., None])
    info, size = jnp.finfo(expected.dtype), np.abs(to_float64(expected))
    size = np.where(np.isfinite(size), size, 0.0)
    return ROUNDING_UNITS * (
        float(info.eps) * size + max(float(info.smallest_subnormal), FLUSH_THRESHOLD)
    )
