"""The states of all steps from their factors and summands, by doubling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import Value, ops
from converter.ir.evaluation import compute
from converter.ir.origins import source_behind
from converter.ir.ranges import known_range
from converter.loops.scan import Scan

MOST_FACTORS = 1 << 14
"""Factors of known steps that are written into a file."""

GROWN = 1024.0
"""So much may steps enlarge a state: what would grow further may overflow on another way."""

Double = Callable[[jax.Array, jax.Array], jax.Array]
"""From summands, the first state among them or before them all zeros, and factors the states."""

Solution = Callable[[Scan, Value, Value], Double | None]
"""Of factors and the first state; ``None`` where it is not proved."""


def solve_each(scan: Scan, factors: Value, start: Value) -> Double | None:
    """Factors of at most one, which may get small and then stay above nothing: infinity times
    a factor is infinity as many steps as there are.
    """
    number, reverse, known = _one_number(factors), scan.reverse, known_range(factors)
    if number is None and not (known.within(0, 1) and known.low > 0):
        return None
    if number is not None and (not number or not _stays_small(number, scan.length)):
        return None

    def double(lines: jax.Array, factors: jax.Array) -> jax.Array:
        if number == 1:
            return lax.cumsum(lines, 0, reverse)
        factor: Any = number
        if number is None:
            one = jnp.ones_like(lines[0])
            factor = with_first(one, factors, reverse) if len(lines) > len(factors) else factors
        for apart in _distances(len(lines)):
            lines = lines + factor * _shifted(lines, apart, reverse)
            if number is None:
                factor = jnp.maximum(factor * _shifted(factor, apart, reverse), TINY)
            else:
                factor = float(np.copysign(max(factor**2, TINY), factor**2))
        return lines

    return double


def _one_number(factors: Value) -> float | None:
    """The number that all factors are known to be."""
    known = source_behind(factors, (ops.broadcast_in_dim,))
    if known.kind != "const" or not np.size(known.const):
        return None
    first = np.ravel(known.const)[0]
    return float(first) if np.all(known.const == first) else None


TINY = float(np.finfo(np.float32).tiny)


def _stays_small(number: float, length: int) -> bool:
    return length * math.log(abs(number)) <= math.log(GROWN)


def solve_together(scan: Scan, factors: Value, start: Value) -> Double | None:
    """Factors that are known, of which no product enlarges much."""
    if source_behind(factors, (ops.broadcast_in_dim,)).kind != "const":
        return None
    reverse = scan.reverse
    matrices = np.asarray(compute(factors, lambda v: v.const), np.float64)
    rounds = _products(matrices[::-1] if reverse else matrices, not is_zero(start))
    heavy = sum(each.size for each in rounds) > MOST_FACTORS
    if heavy or any(not np.abs(each).max() <= GROWN for each in rounds):
        return None

    def double(states: jax.Array, _: jax.Array) -> jax.Array:
        lines = states.reshape(len(states), -1).T
        for apart, products in zip(_distances(len(states)), rounds, strict=True):
            turned = (products[::-1] if reverse else products).astype(np.float32)
            lines = lines + _products_with(turned, _shifted(lines, apart, reverse, axis=1))
        return lines.T.reshape(states.shape)

    return double


def _products_with(matrices: np.ndarray, lines: jax.Array) -> jax.Array:
    """One matrix for all steps, or one for each, whose products ONNX Runtime takes one by one."""
    if len(matrices) == 1:
        return matrices[0] @ lines
    return (matrices.transpose(1, 2, 0) * lines).sum(1)


def _products(matrices: np.ndarray, begins: bool) -> list[np.ndarray]:
    """For each distance the products of so many matrices up to every step, or the one for all."""
    found = matrices
    if begins:
        found = np.concatenate([np.zeros_like(matrices[:1]), matrices])
    count, rounds = len(found), list[np.ndarray]()
    if (matrices == matrices[0]).all():
        found = matrices[:1]
    for apart in _distances(count):
        rounds.append(found)
        found = found @ np.roll(found, apart if len(found) > 1 else 0, 0)
        if len(found) > 1:
            found[: 2 * apart] = 0
    return rounds


def _distances(count: int) -> Sequence[int]:
    """1, 2, 4 … as far as so many lines reach."""
    return [1 << i for i in range((count - 1).bit_length())]


def with_first(start: jax.Array, lines: jax.Array, reverse: bool) -> jax.Array:
    """The first state before, or behind, the steps' own."""
    parts = [start[None], lines]
    return jnp.concatenate(parts[::-1] if reverse else parts)


def _shifted(lines: jax.Array, apart: int, reverse: bool, axis: int = 0) -> jax.Array:
    """The lines so many steps before; there are none before the first."""
    edges = (-apart, apart, 0) if reverse else (apart, -apart, 0)
    padding = [edges if i == axis else (0, 0, 0) for i in range(lines.ndim)]
    return lax.pad(lines, np.zeros((), lines.dtype), padding)


def is_zero(value: Value) -> bool:
    known = source_behind(value, (ops.broadcast_in_dim,))
    return known.kind == "const" and not np.any(known.const)
