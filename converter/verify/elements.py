"""Which elements of a result are wrong."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from converter.frontend.array_forms import graph_numbers
from converter.ir.complex_pairs import is_complex, packed, real_dtype
from converter.verify.noise import Noise

ROUNDING = 16
"""Units in the last place that an element may be off whatever the graph. Of what ONNX Runtime
1.31.1 and XLA compute in one step, XLA's `sinh` and `cosh` were furthest from the truth: 13."""

SCATTER = 4
"""How many times the scatter of perturbed evaluations an element may be off. Of the right ones
among 250 random programs, the furthest was off once the scatter of four evaluations."""

RUNS = 32
"""So many perturbed evaluations have to leave a difference unexplained; few are needed where a
result is right, for what is explained is not asked again."""

FLUSHED = float(np.finfo(np.float32).smallest_normal)
"""What XLA takes for zero if it is below."""

COARSE = 256
"""Units in the last place of the largest element, where there is no graph to evaluate."""


class Judge:
    """Judges results on one set of inputs; evaluates the graph as often as it takes to say so."""

    def __init__(self, noise: Noise | None, inputs: Sequence[Any], name: str = "") -> None:
        self.name = name
        self.inputs = [np.asarray(graph_numbers(x)) for x in inputs]
        self._noise = noise
        self._known: list[list[np.ndarray]] = []

    def wrong(self, output: int, got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Where an output is wrong: integers that are not equal, floats by more than rounding.

        Both parts of a complex number, which are an axis of ``got``, may be off as the larger may.
        """
        off, own, is_pair = _gap(got, packed(wanted)), _rounding(wanted), is_complex(wanted.dtype)
        if self._noise is None:  # a rounding of the largest element, for all
            return np.asarray(off > COARSE / ROUNDING * own.max(initial=0.0))
        bad, spread = np.asarray(off > own), np.zeros(own.shape)
        for run in range(1, RUNS + 1):
            if not bad.any():
                break
            spread = np.maximum(spread, _gap(self.run(run)[output], self.run(0)[output]))
            spread = spread.max(-1, keepdims=True) + 0 * own if is_pair else spread
            bad = (spread < np.inf) & (off > own + SCATTER * spread)
        return bad

    def first_wrong(
        self, output: int, got: np.ndarray, wanted: np.ndarray
    ) -> list[tuple[int, ...]]:
        """The place of the first element that is wrong, if there is any."""
        places = np.argwhere(self.wrong(output, got, wanted))[:1]
        return [tuple(map(int, place)) for place in places]

    def run(self, run: int) -> list[np.ndarray]:
        """The outputs with nothing moved, and then with one error after the other."""
        assert self._noise is not None
        while len(self._known) <= run:
            self._known.append(self._noise.outputs(self.inputs, len(self._known)))
        return self._known[run]


def _gap(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How far apart by element; infinitely where they do not agree on what is no finite number.

    Integers and booleans are the same or infinitely far apart.
    """
    if other.dtype.kind in "biu":
        return np.where(one == other, 0.0, np.inf)
    a, b = _wide(one), _wide(other)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        finite = np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), np.inf)
    return np.where(same, 0.0, finite)


def _rounding(wanted: np.ndarray) -> np.ndarray:
    """A few units in the last place of each element."""
    if wanted.dtype.kind in "biu":
        return np.zeros(wanted.shape)
    if is_complex(wanted.dtype):
        with np.errstate(over="ignore"):
            size = np.abs(wanted).astype(real_dtype(wanted.dtype))
        return np.maximum(_rounding(packed(wanted)), _rounding(size)[..., None])
    info, size = jnp.finfo(wanted.dtype), np.abs(_wide(wanted))
    size = np.where(np.isfinite(size), size, 0.0)
    return ROUNDING * (float(info.eps) * size + max(float(info.smallest_subnormal), FLUSHED))


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)
