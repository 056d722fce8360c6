"""One assertion for every recogniser: fused before = after in JAX, and ONNX Runtime = JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
from jax import lax

import converter
from converter.frontend.trace import trace
from converter.ir import Graph
from converter.ir.evaluation import evaluate
from converter.pipeline import passes

# Largest error, relative to the largest value, of a handful of roundings in each type.
TOLERANCE = {"float32": 4e-6, "float16": 4e-3, "bfloat16": 3e-2}


@dataclass(frozen=True)
class Form:
    """One spelling of a structure, per sample: ``fn(*arrays)`` with these shapes."""

    name: str
    fn: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    ops: Mapping[str, int]
    # JAX itself refuses this spelling in float16 on a CPU; float32 is then the reference
    half_on_cpu: bool = True
    wraps: tuple[str, ...] = field(
        default=("plain", "vmap0", "vmap1", "vmap-1", "nested", "jit", "scan")
    )


def wrapped(form: Form, how: str) -> tuple[Callable[..., Any], list[tuple[int, ...]]]:
    """The form under a JAX transformation, and the shapes it then takes."""
    fn, shapes, n = form.fn, form.shapes, 3
    if how == "plain":
        return fn, list(shapes)
    if how == "jit":
        return jax.jit(lambda *xs: jax.jit(lambda *ys: fn(*ys))(*xs)), list(shapes)
    if how == "nested":
        return jax.vmap(jax.vmap(fn)), [(2, n, *s) for s in shapes]
    if how == "scan":
        return _scanned(fn), [(n, *s) for s in shapes]
    axis = int(how.removeprefix("vmap"))
    places = [axis % (len(s) + 1) for s in shapes]
    grown = [(*s[:p], n, *s[p:]) for s, p in zip(shapes, places, strict=True)]
    return jax.vmap(fn, in_axes=axis), grown


def _scanned(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(*xs: Any) -> Any:
        return lax.scan(lambda carry, x: (carry + 1, fn(*x)), 0, xs)[1]

    return run


def assert_recognised(
    form: Form,
    how: str,
    dtype: Any = jnp.float32,
    opset: int = 23,
    layout: converter.AttentionLayout = "4d",
) -> None:
    """The structure is found, means the same in JAX, and ONNX Runtime agrees."""
    fn, shapes = wrapped(form, how)
    rng = np.random.default_rng(7)
    inputs = [jnp.asarray(rng.standard_normal(s), dtype) for s in shapes]
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
    export = converter.to_onnx(fn, specs, opset=opset, attention_layout=layout)
    assert export.report.fused == dict(form.ops), f"{export.report}\n{export.graph}"
    runs = form.half_on_cpu or dtype != jnp.float16
    if runs:
        results = jax.tree.leaves(fn(*inputs))
    else:
        wide = fn(*(x.astype(jnp.float32) for x in inputs))
        results = [y.astype(dtype) for y in jax.tree.leaves(wide)]
    wanted = [np.asarray(y, np.float64) for y in results]
    tolerance = TOLERANCE[jnp.dtype(dtype).name]
    simple, fused = stages(fn, specs, opset)
    for graph in (simple, fused, export.graph) if runs else (fused,):
        for got, want in zip(evaluated(graph, inputs), wanted, strict=True):
            _close(got, want, tolerance)
    onnx.checker.check_model(ir.to_proto(export.model), full_check=True)
    # What JAX cannot run here has no graph to ask how far rounding goes.
    judged = export if runs else export.model
    compared = converter.check(judged, lambda *_: results, inputs)
    for name, errors in compared.items():
        assert errors.max_rel <= tolerance, f"{name}: {errors}\n{export.graph}"


def stages(fn: Any, specs: list[Any], opset: int) -> tuple[Graph, Graph]:
    """The graph simplified, and with all structures recognised."""
    graph, found = trace(fn, specs), dict[str, Graph]()

    def watch(name: str, graph: Graph) -> None:
        if name in ("canonicalize", "complete", "attend"):
            found[name] = graph.clone()

    passes.run_passes(graph, passes.Settings(opset), watch)
    return found["canonicalize"], found.get("attend", found["complete"])


def evaluated(graph: Graph, inputs: list[Any]) -> list[np.ndarray]:
    params = {v.name: v.bound for v in graph.params if v.program is None}
    return [np.asarray(y, np.float64) for y in evaluate(graph, inputs, params)]


def _close(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    scale = np.abs(want).max()
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= tolerance * scale
