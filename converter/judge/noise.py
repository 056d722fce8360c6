"""How far rounding alone can move a result: the graph evaluated with every step a little off.

A runtime may round differently from JAX at every step, and what that does to an element depends on
the element: a sum that cancels moves much, a large product next to it hardly. So the graph is
evaluated several times, each result of each step moved up or down by two units in its last place,
and an element may be as wrong as these evaluations scatter (stochastic arithmetic; Vignes, 2004,
doi:10.1023/B:NUMA.0000049483.75679.ce). Steps that only move or choose numbers are left exact, and
so are whole numbers, which a float holds exactly.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from converter.graph import Graph, Node
from converter.graph.evaluate import evaluate

RUNS = 4

UNITS = 2
"""By how many units in the last place a step is moved."""

EXACT = frozenset(
    {
        *(
            "abs",
            "argmax",
            "argmin",
            "broadcast_in_dim",
            "ceil",
            "clamp",
            "concatenate",
            "copysign",
        ),
        *("cummax", "cummin", "dynamic_slice", "dynamic_update_slice", "floor", "gather", "iota"),
        *("max", "max_pool", "min", "neg", "pad", "reduce_max", "reduce_min", "relu", "reshape"),
        *("rev", "round", "scatter", "scatter-max", "scatter-min", "select_index", "select_n"),
        *("sign", "slice", "sort", "split", "take", "tile", "top_k", "transpose"),
        *("reduce_window_max", "reduce_window_min", "squeeze", "expand_dims", "stack", "unstack"),
    }
)
"""Operations that give only numbers that they were given, or round to whole ones."""


@dataclass(frozen=True)
class Noise:
    """By element: how far the evaluations scatter, and whether they agree on what is no number.

    ``stable`` is false where an integer or a boolean differs between them, or where one has an
    infinity or NaN and another has not.
    """

    spread: np.ndarray
    stable: np.ndarray


def noise(graph: Graph, args: Sequence[Any], params: Mapping[str, Any]) -> list[Noise]:
    """The noise of every output of a graph."""
    plain = [np.asarray(y) for y in evaluate(graph, args, params)]
    moved = [_moved(graph, args, params, run) for run in range(RUNS)]
    return [_scatter(y, [run[i] for run in moved]) for i, y in enumerate(plain)]


def _moved(graph: Graph, args: Sequence[Any], params: Mapping[str, Any], run: int) -> list[Any]:
    def change(node: Node, results: list[Any]) -> list[Any]:
        return results if node.op in EXACT else [_off(y, node.op, run) for y in results]

    return [np.asarray(y) for y in evaluate(graph, args, params, change)]


def _off(value: Any, op: str, run: int) -> Any:
    """Every element up or down by some units in its last place, the same way on every call."""
    if not jnp.issubdtype(value.dtype, jnp.floating):
        return value
    rng = np.random.default_rng(zlib.crc32(f"{op}{run}".encode()))
    step = UNITS * float(jnp.finfo(value.dtype).eps) * rng.choice([-1.0, 1.0], value.shape)
    moved = value * jnp.asarray(1 + step, value.dtype)
    return jnp.where(jnp.round(value) == value, value, moved)


def _scatter(plain: np.ndarray, moved: Sequence[np.ndarray]) -> Noise:
    if plain.dtype.kind in "biu":
        same = np.all([plain == other for other in moved], axis=0)
        return Noise(np.zeros(plain.shape), np.asarray(same))
    base = plain.astype(np.float64)
    others = [other.astype(np.float64) for other in moved]
    stable = np.all([np.isfinite(o) == np.isfinite(base) for o in others], axis=0)
    with np.errstate(invalid="ignore"):
        gaps = [np.nan_to_num(np.abs(o - base), nan=0.0, posinf=0.0) for o in others]
    return Noise(np.max(gaps, axis=0), np.asarray(stable))
