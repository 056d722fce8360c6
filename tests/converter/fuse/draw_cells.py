"""Random spellings of recurrent cells in loops, and of what is nearly one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.converter.fuse.drawing import Draw, Pencil

T, B, D, H = 7, 3, 4, 5
GATES = {"lstm": "iofg", "gru": "zrn", "rnn": "h"}
MISSES = {
    "lstm": ("peephole", "coupled", "normed", "cells", "other", "twice", "squashed"),
    "gru": ("state", "normed", "own", "before", "twice", "kept"),
    "rnn": ("residual", "normed", "before", "kept"),
}
"""What is no cell of ONNX's, by name of what is odd."""

Packed = Callable[[Any], Sequence[Any]]


def hard(x: Any) -> Any:
    return jnp.minimum(jnp.maximum(x + 3, 0), 6) / 6


class Weights:
    """Products with weights, of all gates in one or of each, in a layout of its own."""

    def __init__(self, pencil: Pencil, gates: int) -> None:
        self.pencil, self.gates = pencil, gates
        self.kind = pencil.pick("weights", ("packed", "turned", "stacked", "each", "row"))
        self.joint = pencil.chance("joint", 0.25)
        self.order = pencil.order(range(gates))
        self.places = [self.order.index(g) for g in range(gates)]
        self.front = pencil.chance("state first", 0.5)

    def product(self, size: int) -> Packed:
        """[..., size] times weights: one [..., H] for each gate."""
        kind, gates = self.kind, self.gates
        scale = 0.6
        if kind == "each":
            each = [self.pencil.array((size, H)) * scale for _ in range(gates)]
            return lambda x: [x @ w for w in each]
        if kind == "turned":
            w = self.pencil.array((gates * H, size)) * scale
            return lambda x: self._parts(lax.dot_general(x, w, (((x.ndim - 1,), (1,)), ((), ()))))
        if kind == "stacked":
            w = self.pencil.array((gates, H, size)) * scale
            return lambda x: [jnp.einsum("...i,ghi->...gh", x, w)[..., g, :] for g in self.places]
        w = self.pencil.array((size, gates * H)) * scale
        if kind == "row":
            return lambda x: self._rows(x @ w)
        return lambda x: self._parts(x @ w)

    def _parts(self, y: Any) -> list[Any]:
        parts = jnp.split(y, self.gates, axis=-1)
        return [parts[g] for g in self.places]

    def _rows(self, y: Any) -> list[Any]:
        rows = y.reshape(*y.shape[:-1], self.gates, H)
        return [rows[..., g, :] for g in self.places]


def recurrent(pencil: Pencil) -> Draw:
    """A loop over a cell of a random kind."""
    op = pencil.pick("op", tuple(GATES))
    gates = len(GATES[op])
    miss = pencil.pick("miss", MISSES[op]) if pencil.chance("near", 0.3) else ""
    weights = Weights(pencil, gates)
    step = _step(pencil, op, miss, weights)
    fn, inputs = _loop(pencil, op, miss, step)
    return Draw(pencil, fn, inputs, op, 0 if miss else 1)


def _step(pencil: Pencil, op: str, miss: str, weights: Weights) -> Callable[..., Any]:
    """``step(states, parts of inputs)``, and what makes these."""
    gates = len(GATES[op])
    squash = pencil.pick("gate", (jax.nn.sigmoid, jax.nn.sigmoid, hard))
    new = pencil.pick("new", (jnp.tanh, jnp.tanh, jax.nn.relu, hard))
    of_x, of_h = weights.product(D), weights.product(H)
    joint = weights.joint and op != "gru" and weights.kind in ("packed", "row")
    both = weights.product(D + H)
    biases = [
        [pencil.array((H,)) if pencil.chance("bias", 0.6) else None for _ in range(gates)]
        for _ in range(2)
    ]
    odd, last = pencil.array((H,)), pencil.chance("reset last", 0.5)
    blend = pencil.pick("blend", ("usual", "turned", "short", "short turned"))
    early = pencil.chance("before the loop", 0.3) and not joint
    flags = [pencil.chance("swapped", 0.5) for _ in range(4)]

    def plus(a: Any, b: Any, flag: int = 0) -> Any:
        return b + a if flags[flag] else a + b

    def times(a: Any, b: Any, flag: int = 2) -> Any:
        return b * a if flags[flag] else a * b

    def biased(parts: Sequence[Any], side: int) -> list[Any]:
        return [p if b is None else plus(p, b) for p, b in zip(parts, biases[side], strict=True)]

    def prepared(x: Any) -> Any:
        return biased(of_x(x), 0) if early else x

    def inputs_of(x: Any, h: Any) -> list[Any]:
        if joint:
            pair = (h, x) if weights.front else (x, h)
            return biased(both(jnp.concatenate(pair, -1)), 0)
        mine, own = x if early else biased(of_x(x), 0), biased(of_h(h), 1)
        return [plus(a, b, 1) for a, b in zip(mine, own, strict=True)]

    def normed(z: Any) -> Any:
        return (z - z.mean(-1, keepdims=True)) if miss == "normed" else z

    def lstm(states: Any, x: Any) -> Any:
        h, c = states
        i, o, f, g = inputs_of(x, h)
        i = i + c * odd if miss == "peephole" else i
        f = f + 1.0
        keep = 1 - squash(i) if miss == "coupled" else squash(f)
        keep = jnp.tanh(f) if miss == "other" else keep
        fresh = times(squash(i), new(normed(g)))
        memory = plus(times(keep, c), fresh)
        memory = jnp.clip(memory, -1, 1) if miss == "squashed" else memory
        out = times(squash(o), jnp.tanh(memory * 2 if miss == "twice" else memory))
        return out, memory

    def gru(states: Any, x: Any) -> Any:
        (h,) = states
        mine, own = x if early else biased(of_x(x), 0), of_h(h)
        z, r = (squash(plus(a, b, 1)) for a, b in zip(mine[:2], biased(own, 1)[:2], strict=True))
        reset = r[..., ::-1] if miss == "own" else r
        if miss == "before":
            reset = jnp.tanh(mine[1])
        if last:
            inner = times(reset, biased(own, 1)[2])
        else:
            inner = of_h(times(reset, h))[2]
            inner = inner if biases[1][2] is None else inner + biases[1][2]
        inner = inner + (h if miss == "state" else 0.0)
        n = new(normed(plus(mine[2], inner, 1)))
        z = z * 0.5 if miss == "twice" else z
        old = 0.9 * h if miss == "kept" else h
        if blend == "usual":
            return (plus(times(1 - z, n), times(z, old)),)
        if blend == "turned":
            return (plus(times(1 - z, old), times(z, n)),)
        if blend == "short":
            return (plus(n, times(z, old - n)),)
        return (plus(old, times(z, n - old)),)

    def rnn(states: Any, x: Any) -> Any:
        (h,) = states
        if miss == "before":
            return (new(inputs_of(x, new(h))[0]),)
        y = new(normed(inputs_of(x, h)[0]))
        y = y + h if miss == "residual" else y
        return (0.5 * y + 0.5 * h if miss == "kept" else y,)

    return {"lstm": lstm, "gru": gru, "rnn": rnn}[op], prepared


def _loop(pencil: Pencil, op: str, miss: str, step: Any) -> tuple[Callable[..., Any], list[Any]]:
    cell, prepared = step
    count = 2 if op == "lstm" else 1
    turn, flip = pencil.chance("reverse", 0.4), pencil.chance("flipped", 0.3)
    order = pencil.order(range(count))
    batch = pencil.pick("batch", ("none", "axis", "vmap", "vmap1", "nested"))
    given, wanted = pencil.chance("given", 0.5), pencil.some(("every", "last", "memory"), 0.7)
    lead = (B,) if batch == "axis" else ()
    wanted = wanted or ["every"]

    def run(x: Any, *first: Any) -> Any:
        states = first or tuple(jnp.zeros((*lead, H)) for _ in range(count))

        def body(carry: Any, x: Any) -> Any:
            found = cell([carry[order.index(i)] for i in range(count)], x)
            out = (found[0], found[1]) if miss == "cells" else found[0]
            return tuple(found[i] for i in order), out

        x = prepared(jnp.flip(x, 0) if flip else x)
        carry, every = lax.scan(body, tuple(states[i] for i in order), x, reverse=turn)
        results = {
            "every": every,
            "last": carry[order.index(0)],
            "memory": carry[order.index(count - 1)],
        }
        if miss == "cells":
            return every
        return [results[name] for name in wanted]

    arrays = [pencil.array((T, *lead, D))]
    arrays += [pencil.array((*lead, H)) for _ in range(count)] if given else []
    if batch in ("vmap", "vmap1", "nested"):
        place = 1 if batch == "vmap1" else 0
        arrays = [jnp.stack([a, a * 0.5, a - 0.25], place) for a in arrays]
        run = jax.vmap(run, in_axes=place)
    if batch == "nested":
        arrays = [jnp.stack([a, a * 0.75]) for a in arrays]
        run = jax.vmap(run)
    return run, arrays
