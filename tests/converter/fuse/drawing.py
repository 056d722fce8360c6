"""Random spellings of what the recognisers know, and of what only looks like it.

A ``Draw`` is a function with its inputs, and what has to be found in it: one node of an operation,
none (it means something else), or either (it means the same, and nobody promises to see it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from converter.frontend.trace import trace
from converter.ir import Graph, ops
from converter.ir.evaluation import evaluate
from converter.pipeline import passes
from converter.verify.elements import Judge
from converter.verify.noise import Noise

T = TypeVar("T")

# Difference of two spellings, relative to the largest number, that is not asked about; JAX rounds
# every step of narrow floats where a fused operation rounds once. What differs by more, as where a
# variance of moments cancels, has to be explained by the rounding of the very element.
TOLERANCE = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}


COMPOSITES = (
    *("layer_norm", "rms_norm", "group_norm", "gelu", "softmax", "log_softmax", "rotary"),
    *("attention", "lstm", "gru", "rnn"),
)


@dataclass
class Pencil:
    """A source of choices, all of which it notes."""

    rng: np.random.Generator
    notes: list[str] = field(default_factory=list)

    def pick(self, name: str, choices: Sequence[T]) -> T:
        choice = choices[int(self.rng.integers(len(choices)))]
        self.notes.append(f"{name}={choice}")
        return choice

    def chance(self, name: str, probability: float) -> bool:
        hit = bool(self.rng.random() < probability)
        if hit:
            self.notes.append(name)
        return hit

    def order(self, items: Sequence[T]) -> list[T]:
        return [items[i] for i in self.rng.permutation(len(items))]

    def some(self, items: Sequence[T], probability: float = 0.5) -> list[T]:
        return [item for item in items if self.rng.random() < probability]

    def array(self, shape: Sequence[int], dtype: Any = "float32") -> jax.Array:
        return jnp.asarray(self.rng.standard_normal(tuple(shape)), dtype)

    def shape(self, rank: int) -> tuple[int, ...]:
        """Sizes of which no two but ones are equal, so that no axis can stand for another."""
        sizes = self.order((2, 3, 4, 5))[:rank]
        return tuple(1 if self.rng.random() < 0.15 else d for d in sizes)

    def text(self) -> str:
        """What was chosen."""
        return " ".join(self.notes)


@dataclass(frozen=True)
class Draw:
    """``count`` nodes named ``op`` are in ``fn``, or any number if it is ``None``.

    ``fn`` may go on drawing, so it is traced once.
    """

    pencil: Pencil
    fn: Callable[..., Any]
    inputs: Sequence[Any]
    op: str
    count: int | None


def moved(pencil: Pencil, fn: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The function behind a random layout or transformation of its first input and its result."""
    kind = pencil.pick("layout", ("plain", "turned", "vmap", "jit"))
    first, *others = inputs
    if kind == "turned":
        order = [int(i) for i in pencil.rng.permutation(first.ndim)]
        back = [order.index(i) for i in range(first.ndim)]
        return lambda x, *ys: fn(x.transpose(back), *ys), [first.transpose(order), *others]
    if kind == "vmap":
        place, out = (int(pencil.rng.integers(2)) * first.ndim for _ in range(2))
        stacked = jnp.stack([first, first * 0.5, first - 0.25], place)
        axes = (place, *(None for _ in others))
        return jax.vmap(fn, in_axes=axes, out_axes=out if out < 2 else -1), [stacked, *others]
    return (jax.jit(fn) if kind == "jit" else fn), list(inputs)


def stages(fn: Any, inputs: Sequence[Any], opset: int = 23) -> tuple[Graph, Graph]:
    """The graph simplified, and after all recognisers."""
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
    graph, found = trace(fn, specs), dict[str, Graph]()

    def watch(name: str, graph: Graph) -> None:
        if name in ("canonicalize", "attend"):
            found[name] = graph.clone()

    passes.run_passes(graph, passes.Settings(opset), watch)
    return found["canonicalize"], found["attend"]


def assert_drawn(draw: Draw) -> None:
    """What has to be found is, and the two graphs compute the same."""
    before, after = stages(draw.fn, draw.inputs)
    if draw.count is not None:
        assert after.count(ops.named(draw.op)) == draw.count, f"{draw.pencil.text()}\n{after}"
    if not any(after.count(ops.named(op)) for op in (draw.op, *COMPOSITES)):
        return  # nothing was written
    wanted, got = (evaluate(graph, draw.inputs) for graph in (before, after))
    judge = Judge(Noise(before.clone), [np.asarray(x) for x in draw.inputs])
    for i, (a, b) in enumerate(zip(wanted, got, strict=True)):
        assert a.dtype == b.dtype
        x, y = (np.asarray(v) for v in (a, b))
        far = _far(x, y, max(TOLERANCE.get(v.dtype.name, 0.0) for v in (a, *draw.inputs)))
        if far.any():
            wrong = far & judge.wrong(i, y, x)
            text = f"{draw.pencil.text()}\n{before}\n{after}"
            assert not wrong.any(), f"{y[wrong]} for {x[wrong]}: {text}"


def _far(x: np.ndarray, y: np.ndarray, tolerance: float) -> np.ndarray:
    x, y = (v.astype(np.float64) for v in (x, y))
    size = max(1.0, float(np.abs(x[np.isfinite(x)]).max(initial=0.0)))
    return np.asarray(~np.isclose(y, x, rtol=0, atol=size * tolerance, equal_nan=True))
