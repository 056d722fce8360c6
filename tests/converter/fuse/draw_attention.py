"""Random attention: any order of axes, any chain of scales, masks and biases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.converter.fuse.drawing import Draw, Pencil

SIZES = {"a": 2, "h": 3, "g": 2, "i": 5, "l": 3, "j": 7, "d": 4, "e": 2, "v": 6, "w": 2}
MISSES = (
    *("axis", "summed", "kept", "returned", "sine", "negative", "truncated", "scores"),
    *("weights", "odd value"),
)
LOWEST = float(jnp.finfo(jnp.float32).min)


def attention(pencil: Pencil) -> Draw:
    batch, groups = pencil.some("ah", 0.6), pencil.some("g", 0.3)
    rows, width = pencil.some("il", 0.7) or ["i"], pencil.some("de", 0.6) or ["d"]
    wide = pencil.some("vw", 0.6)
    q = pencil.order([*pencil.some(batch, 0.9), *groups, *rows, *width])
    k = pencil.order([*batch, "j", *width])
    v = pencil.order([*pencil.some(batch, 0.9), "j", *wide])
    s = pencil.order([*batch, *groups, *rows, "j"])
    o = pencil.order([*batch, *groups, *rows, *wide])
    ones = pencil.some("ahgilvw", 0.15)
    sizes = {c: 1 if c in ones else n for c, n in SIZES.items()}
    miss = _possible(pencil.pick("miss", MISSES), batch, rows, sizes) if _near(pencil) else ""
    masks = [_mask(pencil, s, sizes) for _ in range(int(pencil.rng.integers(0, 3)))]
    dtype = pencil.pick("dtype", ("float32", "float32", "float16", "bfloat16"))
    strong = [m for m in masks if len(masks) == 1 or m.is_strong(dtype)]
    place = pencil.pick("scale", ("queries", "scores", "divided", "none"))
    left, capped = (
        pencil.chance(n, p) for n, p in (("weights on the right", 0.5), ("capped", 0.2))
    )
    eq = _equations(q, k, v, s, o, miss, batch, left)
    pencil.notes.append(f"{eq} {ones} {strong} {miss}")

    def fn(q, k, v, *given):
        scale = 0.4
        q = q * scale if place == "queries" else q
        scores = jnp.einsum(eq[0], q, k)
        scores = {"scores": scores * scale, "divided": scores / 2.5}.get(place, scores)
        logits = _changed(scores, miss)
        logits = jnp.tanh(logits / 2) * 2 if capped else logits
        for mask, values in zip(strong, given, strict=True):
            logits = mask.apply(logits, values)
        axis = s.index("j") if miss != "axis" else s.index(rows[0])
        weights = jax.nn.softmax(logits, axis=axis)
        if miss == "truncated":
            weights = (4 * weights).astype(jnp.int32).astype(weights.dtype)
        out = jnp.einsum(eq[1], *((v, weights) if left else (weights, v)))
        extra = {"scores": scores, "weights": weights, "returned": weights}.get(miss)
        return out if extra is None else (out, extra)

    shapes = [[sizes[c] for c in x] for x in (q, k, v)]
    inputs = [pencil.array(shape, dtype) for shape in shapes]
    if miss == "odd value":
        inputs[2] = inputs[2].astype(jnp.float32 if dtype != "float32" else jnp.float16)
    given = [m.values.astype(dtype) if m.values.dtype != bool else m.values for m in strong]
    found = 0 if miss and miss != "odd value" else None if miss else 1
    return Draw(pencil, fn, [*inputs, *given], "attention", found)


def _near(pencil):
    return pencil.chance("near", 0.4)


def _possible(miss, batch, rows, sizes):
    """A near miss that is one for these axes."""
    if miss == "axis" and sizes[rows[0]] == 1:
        return ""
    if miss in ("summed", "kept") and not [c for c in batch if sizes[c] > 1]:
        return "kept" if miss == "kept" else ""
    return miss


def _equations(q, k, v, s, o, miss, batch, left):
    out = list(o)
    if miss == "kept":
        out.append("j")
    if miss == "summed":
        out = [c for c in o if c not in batch]
    first, second = f"{_text(q)},{_text(k)}->{_text(s)}", (_text(v), _text(s))
    second = second if left else second[::-1]
    return first, f"{second[0]},{second[1]}->{_text(out)}"


def _text(letters):
    return "".join(letters)


def _changed(scores, miss):
    if miss == "sine":
        return jnp.sin(scores / 5) * 5
    return -scores if miss == "negative" else scores


@dataclass(frozen=True)
class Mask:
    """A term of the scores along some of their axes."""

    kind: str
    number: float
    shape: list[int]
    values: Any

    def is_strong(self, dtype):
        """Whether it may stand beside others: what it hides is as good as gone."""
        weak = self.number > -1e30 or (dtype == "float16" and self.number > -math.inf)
        return self.kind != "filled" or not weak

    def apply(self, scores, values):
        values = values.reshape(self.shape)
        if self.kind == "bias":
            return scores + values
        number = max(self.number, float(jnp.finfo(scores.dtype).min))
        number = jnp.asarray(number if math.isfinite(self.number) else self.number, scores.dtype)
        if self.kind == "added":
            return scores + jnp.where(values, jnp.asarray(0, scores.dtype), number)
        return jnp.where(values, scores, number)


def _mask(pencil, s, sizes):
    shape = [sizes[c] if c == "j" or pencil.rng.random() < 0.7 else 1 for c in s]
    kind = pencil.pick("mask", ("bias", "added", "filled", "filled"))
    if kind == "bias":
        return Mask(kind, 0.0, shape, pencil.array(shape))
    number = pencil.pick("number", (LOWEST, -math.inf, -1e30, -1e9))
    last = s.index("j")
    rows = np.moveaxis(pencil.rng.random(shape) > 0.4, last, -1)
    flat = rows.reshape(-1, shape[last])
    flat[0], flat[1:2] = False, True
    return Mask(kind, number, shape, jnp.asarray(np.moveaxis(flat.reshape(rows.shape), -1, last)))
