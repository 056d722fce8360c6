"""Every elementwise primitive on every dtype, at the edges of that dtype, compared with JAX.

All functions of a dtype are outputs of one file. Numbers below the smallest normal number are left
out, because XLA flushes them to zero on CPUs and ONNX Runtime does not. For the same reason a
result of that size may be zero on one side.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.verify.sessions import run

FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
ALL = ("bool", *SIGNED, *UNSIGNED, *FLOATS)

UNARY: Mapping[str, Callable[..., Any]] = {
    **{
        op.__name__: op
        for op in (
            *(lax.abs, lax.acos, lax.acosh, lax.asin, lax.asinh, lax.atan, lax.atanh, lax.cbrt),
            *(lax.ceil, lax.cos, lax.cosh, lax.digamma, lax.erf, lax.erf_inv, lax.erfc, lax.exp),
            *(lax.exp2, lax.expm1, lax.floor, lax.is_finite, lax.lgamma, lax.log, lax.log1p),
            *(lax.logistic, lax.neg, lax.rsqrt, lax.sign, lax.sin, lax.sinh, lax.sqrt),
            *(lax.square, lax.tan, lax.tanh, lax.bitwise_not, lax.clz, lax.population_count),
        )
    },
    "round to even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "round away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "cube": lambda x: lax.integer_pow(x, 3),
    "inverse square": lambda x: lax.integer_pow(x, -2),
    **{f"to {dtype}": lambda x, dtype=dtype: x.astype(dtype) for dtype in ALL},
}
BINARY: Mapping[str, Callable[..., Any]] = {
    op.__name__: op
    for op in (
        *(lax.add, lax.sub, lax.mul, lax.div, lax.rem, lax.max, lax.min, lax.pow, lax.atan2),
        *(lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge),
        *(lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor),
        *(lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic),
    )
}

UNITS = 4
TOLERATED: dict[str, tuple[float, str]] = {
    "cosh": (32, "XLA adds logarithms: 23 units off the truth at 88"),
    "sinh": (32, "as cosh"),
    "exp2": (128, "XLA multiplies by log(2) first: 19 units off at 27, in float64 42 off at 300"),
    "expm1": (32, "ONNX Runtime's Tanh is 28 units off at the smallest normal number"),
    "tanh": (32, "as expm1"),
    "erfc": (16, "1 - erf(x) below 1, as XLA has it, by other polynomials"),
    "digamma": (16, "a difference of large terms near its zeros"),
    "logistic": (2, "ONNX Runtime's Sigmoid is off by 1e-7 of 1; exact if strict"),
    "pow": (64, "XLA's is exp(y log(x)), and its float64 is exact for few"),
    "cos": (8, "ONNX Runtime's float64"),
    "tan": (8, "ONNX Runtime's float64 sine and cosine"),
    "lgamma": (16, "a difference of large terms near its zeros: XLA's is 14 units off at -3.5"),
    "cbrt": (128, "XLA's, without its fusion emitters, is 15 units off, in float64 75; see below"),
}
"""By function: the allowed difference in units in the last place, and its reason.

All other functions may differ by ``UNITS``.
"""

OF_ONE = frozenset({"logistic", "lgamma", "digamma"})
"""Functions whose small results may differ by units in the last place of 1."""

HALVES = ("float16", "bfloat16")
"""Dtypes for which JAX rounds every step of a formula.

A result may also agree with the rounded result of JAX in float32.
"""


def edges(dtype: str) -> np.ndarray:
    """Return values of a dtype at which implementations may differ: [count]."""
    scalar_type = jnp.dtype(dtype)
    if scalar_type == np.bool_:
        return np.array([False, True])
    if jnp.issubdtype(scalar_type, jnp.integer):
        info = np.iinfo(scalar_type)
        small_values = [n for n in (-7, -2, -1, 0, 1, 2, 3, 7, 31, 100) if n >= info.min]
        extremes = [info.min, info.min + 1, info.max // 3, info.max // 2, info.max - 1, info.max]
        return np.array([*small_values, *extremes], scalar_type)
    limits = jnp.finfo(scalar_type)
    magnitudes = [
        0.0,
        1e-3,
        0.1,
        0.3,
        0.5,
        0.7,
        0.9,
        1,
        1.5,
        2.5,
        3,
        4.5,
        6,
        10,
        12,
        27,
        88,
        90,
        127.5,
    ]
    magnitudes += [
        128,
        255.9,
        300,
        1e4,
        32767.5,
        2.0**31,
        2.0**32,
        2.0**53,
        2.0**63,
        2.0**64,
        np.inf,
    ]
    magnitudes += [
        float(x) for x in (limits.max, limits.smallest_normal, limits.eps, 1 - limits.eps)
    ]
    with np.errstate(over="ignore"):
        return np.array([*magnitudes, *(-x for x in magnitudes), np.nan]).astype(scalar_type)


def supported_functions(
    table: Mapping[str, Callable[..., Any]], *args: np.ndarray
) -> dict[str, Any]:
    """Return the functions of a table that JAX accepts for these operands."""
    supported = {}
    for name, fn in table.items():
        try:
            jax.eval_shape(fn, *args)
        except (TypeError, ValueError):
            continue
        supported[name] = fn
    return supported


def units(actual: np.ndarray, expected: np.ndarray, smallest_unit: float = 0.0) -> np.ndarray:
    """Return the difference of each element in units in the last place.

    The difference is infinite where only one of the two is a number. The units are those of
    ``expected``, or of ``smallest_unit`` where that is larger. A number below the smallest normal
    number counts as zero, and the sign of zero does not count.
    """
    if not jnp.issubdtype(expected.dtype, jnp.floating):
        return np.where(actual == expected, 0.0, np.inf)
    limits = jnp.finfo(expected.dtype)
    tiny = float(limits.smallest_normal)
    a, b = (x.astype(np.float64) for x in (actual, expected))
    a, b = (np.where(np.abs(x) < 1.01 * tiny, 0.0, x) for x in (a, b))
    size = np.maximum(np.where(np.isfinite(b), np.abs(b), 0.0), max(smallest_unit, tiny))
    unit = np.ldexp(float(limits.eps), np.frexp(size)[1] - 1)
    with np.errstate(invalid="ignore"):
        distances = np.abs(a - b) / unit
        is_same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(is_same, 0.0, np.where(np.isnan(distances), np.inf, distances))


def assert_same(table: Mapping[str, Callable[..., Any]], dtype: str, *args: np.ndarray) -> None:
    """Assert that one file of all functions that accept the operands agrees with JAX.

    ``dtype`` is the dtype of the operands.
    """
    with jax.enable_x64(True):
        functions = supported_functions(table, *args)
        if not functions:
            pytest.skip(f"JAX has none of these functions for {dtype}")

        def fn(*xs: Any) -> list[Any]:
            return [function(*xs) for function in functions.values()]

        export = converter.to_onnx(fn, [(a.shape, a.dtype) for a in args])
        results = list(run(export, args).values())
        jax_results = [np.asarray(x) for x in jax.jit(fn)(*args)]
    wrong = []
    for name, actual, expected in zip(functions, results, jax_results, strict=True):
        assert actual.dtype == expected.dtype, name
        limit = max(TOLERATED.get(name, (0, ""))[0], UNITS)
        smallest_unit = 1.0 if name in OF_ONE else 0.0
        distances = units(actual, expected, smallest_unit)
        if dtype in HALVES and expected.dtype == args[0].dtype:
            in_float32 = np.asarray(functions[name](*(a.astype(np.float32) for a in args)))
            with np.errstate(over="ignore"):
                distances = np.minimum(
                    distances, units(actual, in_float32.astype(expected.dtype), smallest_unit)
                )
        for i in np.flatnonzero(distances > limit)[:3]:
            operands = ", ".join(str(a[i]) for a in args)
            wrong.append(
                f"{name}({operands}) is {actual[i]}, not {expected[i]}: {distances[i]:.3g}"
            )
    assert not wrong, "\n".join(wrong)


DEFAULT = ("float32", "float64", "int32")
"""Dtypes of the default tier.

float64 is one because ONNX Runtime has no kernels for most of its functions: files have formulas.
"""
DTYPES = pytest.mark.parametrize(
    "dtype", [pytest.param(d, marks=() if d in DEFAULT else pytest.mark.full) for d in ALL]
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cube_roots_agree_with_numpy(dtype):
    """XLA's cube roots are less exact than numpy's for some numbers, but those of files are not."""
    x = edges(dtype)
    with jax.enable_x64(dtype == "float64"):
        (actual,) = run(converter.to_onnx(lax.cbrt, [x]), [x]).values()
    expected = np.cbrt(x.astype(np.float64)).astype(dtype)
    assert actual.dtype == dtype and units(actual, expected).max() <= UNITS


@DTYPES
def test_unary_functions_agree_with_jax(dtype):
    assert_same(UNARY, dtype, edges(dtype))


@DTYPES
def test_binary_functions_agree_with_jax(dtype):
    values = edges(dtype)
    x, y = np.meshgrid(values, values, indexing="ij")
    assert_same(BINARY, dtype, x.ravel(), y.ravel())
