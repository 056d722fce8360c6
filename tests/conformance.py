"""One table row for every form of an operation, and the one assertion that all of them pass."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest

import converter
from converter.ir.evaluation import evaluate
from converter.verify.sessions import run

# Largest error of a handful of roundings, relative to the largest value of an output.
TOLERANCE = {"float32": 4e-6, "float16": 4e-3, "bfloat16": 3e-2}
# what named dimensions are when a case runs
SIZES = {"B": 3, "N": 5, "C": 2, "H": 9, "W": 11}
MULTIPLES = {f"{n}*{name}": n * size for n in (2, 3, 4, 6) for name, size in SIZES.items()}
LANES = 3

Spec = Any  # a shape of float32, (shape, dtype), or an array: then these very values


@dataclass(frozen=True)
class Case:
    """``fn`` on inputs of these specs, at these opsets.

    ``ops`` are operators and how many of each the file must hold; ``tolerance`` multiplies the
    dtype's own.
    """

    name: str
    fn: Callable[..., Any]
    specs: Sequence[Spec] = ((3, 4),)
    opsets: tuple[int, ...] = (23,)
    ops: Mapping[str, int] = field(default_factory=dict)
    tolerance: float = 1.0


def cases(table: Iterable[Case], tiers: bool = True) -> pytest.MarkDecorator:
    """Run a test for every case at each of its opsets, by default for a quarter of these."""
    marks = pytest.mark.sampled(4, full=2) if tiers else ()
    rows = [
        pytest.param(case, opset, id=f"{case.name}-{opset}", marks=marks)
        for case in table
        for opset in case.opsets
    ]
    return pytest.mark.parametrize(("case", "opset"), rows)


def assert_exports(case: Case, opset: int = 23) -> converter.Export:
    """The file is valid, gives JAX's numbers in ONNX Runtime, and is the same every time."""
    arrays = inputs(case.specs)
    specs = [spec_of(s) for s in case.specs]
    export = converter.to_onnx(case.fn, specs, opset=opset)
    proto = ir.to_proto(export.model)
    onnx.checker.check_model(proto, full_check=True)
    again = ir.to_proto(converter.to_onnx(case.fn, specs, opset=opset).model)
    assert proto.SerializeToString(deterministic=True) == again.SerializeToString(
        deterministic=True
    ), "two conversions differ"
    expected = jax.tree.leaves(jax.jit(lambda *xs: case.fn(*xs))(*arrays))
    evaluated = evaluate(export.graph, arrays)
    got = run(export, arrays)
    for (name, actual), graph, wanted in zip(got.items(), evaluated, expected, strict=True):
        assert_close(graph, wanted, case.tolerance, f"{name} of the graph")
        assert_close(actual, wanted, case.tolerance, f"{name} of the file")
    counts = {op: export.report.histogram.get(op, 0) for op in case.ops}
    assert counts == dict(case.ops), export.report.histogram
    return export


def assert_close(actual: Any, wanted: Any, tolerance: float = 1.0, what: str = "") -> None:
    """Exact for integers and booleans; NaN and infinities in the same places."""
    actual, wanted = np.asarray(actual), np.asarray(wanted)
    assert actual.dtype == wanted.dtype, f"{what}: {actual.dtype}, not {wanted.dtype}"
    assert actual.shape == wanted.shape, f"{what}: {actual.shape}, not {wanted.shape}"
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, wanted, err_msg=what)
        return
    unit = TOLERANCE[wanted.dtype.name] * tolerance
    actual, wanted = (a.astype(np.float64) for a in (actual, wanted))
    finite = wanted[np.isfinite(wanted)]
    scale = max(1.0, float(np.abs(finite).max(initial=0)))
    np.testing.assert_allclose(actual, wanted, rtol=unit, atol=unit * scale, err_msg=what)


def inputs(specs: Sequence[Spec]) -> list[np.ndarray]:
    """Seeded values: normal, integers of both signs, both truth values."""
    rng = np.random.default_rng(7)
    return [s if isinstance(s, np.ndarray) else _draw(rng, *spec_of(s)) for s in specs]


def _draw(rng: np.random.Generator, shape: Sequence[int | str], dtype: Any) -> np.ndarray:
    sizes = [{**SIZES, **MULTIPLES}[d] if isinstance(d, str) else d for d in shape]
    kind = jnp.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, sizes).astype(bool)
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -9, 10, sizes).astype(dtype)
    return np.asarray(rng.standard_normal(sizes) * 1.5).astype(dtype)


def spec_of(spec: Spec) -> Spec:
    """An array, or a shape and a dtype."""
    is_whole = isinstance(spec, np.ndarray) or (len(spec) == 2 and isinstance(spec[0], tuple))
    return spec if is_whole else (spec, np.float32)


# -------------------------------------------------------------------------------- transformations

WRAPS = ("vmap0", "vmap1", "vmap-1", "nested", "jit", "scan")


def wrapped(case: Case, how: str) -> Case:
    """The case under a JAX transformation: inputs grow a lane axis, operators are not counted."""
    grow = {"vmap0": (0,), "vmap1": (1,), "vmap-1": (-1,), "nested": (-1, 0), "scan": (0,)}
    specs: Sequence[Spec] = case.specs
    for axis in grow.get(how, ()):
        specs = [_grown(spec, axis) for spec in specs]
    functions: dict[str, Callable[..., Any]] = {
        "vmap0": jax.vmap(case.fn),
        "vmap1": jax.vmap(case.fn, in_axes=1),
        "vmap-1": jax.vmap(case.fn, in_axes=-1, out_axes=-1),
        "nested": jax.vmap(jax.vmap(case.fn, in_axes=-1)),
        "jit": jax.jit(lambda *xs: jax.jit(lambda *ys: case.fn(*ys))(*xs)),
        "scan": lambda *xs: jax.lax.map(lambda ys: case.fn(*ys), xs),
    }
    return replace(case, name=f"{case.name}-{how}", fn=functions[how], specs=specs, ops={})


def _grown(spec: Spec, axis: int) -> Spec:
    if isinstance(spec, np.ndarray):
        lanes = [np.roll(spec, i) for i in range(LANES)]
        return np.stack(lanes, min(axis, spec.ndim) if axis >= 0 else axis)
    shape, dtype = spec_of(spec)
    place = axis % (len(shape) + 1)
    return (*shape[:place], LANES, *shape[place:]), dtype


def wrapped_cases(table: Iterable[Case]) -> pytest.MarkDecorator:
    """Run a test for every case under every transformation."""
    rows = [
        pytest.param(wrapped(case, how), id=f"{case.name}-{how}") for case in table for how in WRAPS
    ]
    return pytest.mark.parametrize("case", rows)
