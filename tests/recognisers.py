"""One assertion for every recogniser: what is fused means the same in JAX and in ONNX Runtime."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir

import converter
from converter.ir.evaluation import evaluate
from tests import conformance
from tests.conformance import TOLERANCE

WRAPS = ("plain", *conformance.WRAPS)


@dataclass(frozen=True)
class Form:
    """One spelling of a structure, per sample: ``fn(*arrays)`` with these shapes."""

    name: str
    fn: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    ops: Mapping[str, int]
    # JAX itself refuses this spelling in float16 on a CPU; float32 is then the reference
    half_on_cpu: bool = True


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
        return lambda *xs: jax.lax.map(lambda ys: fn(*ys), xs), [(n, *s) for s in shapes]
    axis = int(how.removeprefix("vmap"))
    places = [axis % (len(s) + 1) for s in shapes]
    grown = [(*s[:p], n, *s[p:]) for s, p in zip(shapes, places, strict=True)]
    return jax.vmap(fn, in_axes=axis), grown


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
    wide = fn(*(x if runs else x.astype(jnp.float32) for x in inputs))
    results = [y if runs else y.astype(dtype) for y in jax.tree.leaves(wide)]
    tolerance = TOLERANCE[jnp.dtype(dtype).name]
    if runs:
        for got, want in zip(evaluate(export.graph, inputs), results, strict=True):
            a, b = (np.asarray(y, np.float64) for y in (got, want))
            assert a.shape == b.shape
            assert np.abs(a - b).max() <= tolerance * np.abs(b).max()
    onnx.checker.check_model(ir.to_proto(export.model), full_check=True)
    # What JAX cannot run here has no graph to ask how far rounding goes.
    judged = export if runs else export.model
    compared = converter.check(judged, lambda *_: results, inputs)
    for name, errors in compared.items():
        assert errors.max_rel <= tolerance, f"{name}: {errors}\n{export.graph}"
