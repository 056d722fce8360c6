"""Is a file as accurate as JAX? Both against the same thing in float64."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import converter
from converter.verify.sessions import run

FACTOR = 10
"""A file may be so many times as far from the truth as JAX is."""

Arrays = list[np.ndarray]


def both(fn: Callable[..., Any], args: Sequence[np.ndarray], opset: int) -> tuple[Arrays, Arrays]:
    """The outputs of the file, and JAX's, of the same types."""
    with jax.enable_x64(args[0].dtype == np.float64):
        export = converter.to_onnx(fn, list(args), opset=opset)
        theirs = [np.asarray(y) for y in jax.tree.leaves(jax.jit(fn)(*args))]
    ours = list(run(export, list(args)).values())
    assert [(y.shape, y.dtype) for y in ours] == [(y.shape, y.dtype) for y in theirs]
    return ours, theirs


def distance(actual: np.ndarray, truth: np.ndarray) -> float:
    """The largest error, relative to the largest element."""
    actual, truth = np.asarray(actual, np.float64), np.asarray(truth, np.float64)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(truth))
    scale = np.abs(truth).max(initial=0, where=np.isfinite(truth)) or 1.0
    return float(np.abs(np.where(actual == truth, 0, actual - truth) / scale).max(initial=0))


def assert_as_accurate(
    fn: Callable[..., Any],
    truth: Callable[..., Any],
    args: Sequence[np.ndarray],
    opset: int = 23,
    measure: Callable[..., Sequence[np.ndarray]] = lambda args, *ys: ys,
) -> None:
    """What ``measure`` makes of the outputs, in float64, is as near the truth as JAX's.

    Integers are equal. ``measure`` takes the arguments and the outputs, ``truth`` the arguments.
    """
    ours, theirs = both(fn, args, opset)
    exact = [np.asarray(x, np.float64) if x.dtype.kind == "f" else x for x in args]
    wanted = truth(*exact)
    wanted = wanted if isinstance(wanted, (tuple, list)) else [wanted]
    found, known = ([*measure(exact, *map(_wide, ys))] for ys in (ours, theirs))
    eps = float(np.finfo(args[0].dtype).eps)
    for actual, other, right in zip(found, known, wanted, strict=True):
        if np.asarray(other).dtype.kind in "biu":
            np.testing.assert_array_equal(actual, right)
            continue
        assert distance(actual, right) <= FACTOR * max(distance(other, right), eps)


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype.kind == "f" else x
