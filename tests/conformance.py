"""A program as a row of a table, and the one assertion that all rows of `tests/programs/` pass."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

import converter
from converter.ir.evaluation import evaluate
from converter.verify.sessions import run

# Largest error of a handful of roundings, relative to the largest value of an output.
TOLERANCE = {"float64": 1e-14, "float32": 4e-6, "float16": 4e-3, "bfloat16": 3e-2}
# what named dimensions are when a case runs
SIZES = {"B": 3, "N": 5, "C": 2, "H": 9, "W": 11}
NEWEST = converter.find_target(f"onnxruntime=={ort.__version__.partition('+')[0]}").opsets[-1]
"""The newest opset that the installed ONNX Runtime loads."""

RUNS, SAMPLES, JUDGES = "runs", "samples", "judges"
"""Tags of what the default tests try: by `assert_runs`, on numbers of all sizes, by more judges."""

DEFAULT = frozenset({RUNS})
STRUCTURE = "structure"
"""The tag of programs whose operators stay the same under `vmap`, `jit` and `scan`."""

Spec = Any  # a shape of float32, (shape, dtype), or an array: then these very values


def drawn(make: Callable[[jax.Array], Any]) -> Any:
    """What is made of a key, with numbers of numpy's: JAX compiles initializers one by one, which
    would be half a minute of every run of the tests."""
    rng = np.random.default_rng(4)
    return jax.tree.map(
        lambda leaf: (
            jnp.asarray(rng.normal(0, 0.4, leaf.shape), leaf.dtype)
            if isinstance(leaf, jax.ShapeDtypeStruct)
            else leaf
        ),
        eqx.filter_eval_shape(make, jax.random.key(0)),
    )


@dataclass(frozen=True)
class Case:
    """``fn`` on inputs of these specs, or on ``params`` and inputs, at these opsets.

    ``ops`` are operators and how many of each the file must hold; ``tolerance`` multiplies the
    dtype's own. ``said`` is part of the reason that the report gives for what is not fused.
    ``tags`` are the judges and the ways of JAX's in which the default tests try it. It may need
    what JAX has ``since`` a version.
    """

    name: str
    fn: Callable[..., Any]
    specs: Sequence[Spec] = ((3, 4),)
    opsets: tuple[int, ...] = (23,)
    ops: Mapping[str, int] = field(default_factory=dict)
    tolerance: float = 1.0
    said: str = ""
    params: Any = None
    strict: bool = False
    x64: bool = False
    tags: Set[str] = frozenset()
    since: str = ""

    def export(self, opset: int | None = None, **how: Any) -> converter.Export:
        """The file, at the newest of its opsets if no other is given."""
        how = {"opset": opset or self.opsets[-1], "strict": self.strict, **how}
        return converter.to_onnx(self.fn, list(self.specs), params=self.params, **how)

    def call(self, *inputs: Any) -> Any:
        """What JAX gives, compiled."""
        return self.compiled(self.params, *inputs)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """A function of parameters and inputs."""
        plain = self.params is None
        return jax.jit(lambda params, *xs: self.fn(*xs) if plain else self.fn(params, *xs))


def unused(model: ir.Model) -> list[str]:
    """Names of numbers that no node uses: ONNX Runtime warns of each."""
    values = (v for graph in model.graphs() for v in graph.initializers.values())
    return [v.name or "" for v in values if not v.uses() and not v.is_graph_output()]


def assert_runs(case: Case, opset: int | None = None) -> converter.Export:
    """The file is valid, gives JAX's numbers in ONNX Runtime, and holds the operators."""
    if (opset or case.opsets[-1]) > NEWEST:
        pytest.skip(f"ONNX Runtime {ort.__version__} runs opsets up to {NEWEST}")
    with jax.enable_x64(case.x64):
        arrays, export = inputs(case.specs), case.export(opset)
        onnx.checker.check_model(ir.to_proto(export.model), full_check=True)
        assert unused(export.model) == []
        names = [node.name for node in export.model.graph.all_nodes()]
        assert len(names) == len({*names}), "ONNX Runtime 1.18 wants a name of its own of each"
        expected = results(case, arrays)
    for (name, actual), wanted in zip(run(export, arrays).items(), expected, strict=True):
        assert_close(actual, wanted, case.tolerance, f"{name} of the file")
    assert_operators(case, export)
    return export


def assert_operators(case: Case, export: converter.Export) -> None:
    """It holds so many of the operators, and says why something was not fused."""
    counts = {op: export.report.histogram.get(op, 0) for op in case.ops}
    assert counts == dict(case.ops), export.report.histogram
    reasons = [miss.reason for miss in export.report.near_misses]
    assert not case.said or any(case.said in reason for reason in reasons), reasons


def assert_exports(case: Case, opset: int | None = None) -> converter.Export:
    """So it is with the graph that the file is written from; and the file is the same each time."""
    export = assert_runs(case, opset)
    with jax.enable_x64(case.x64):
        arrays, again = inputs(case.specs), case.export(opset)
        files = [
            ir.to_proto(each.model).SerializeToString(deterministic=True)
            for each in (export, again)
        ]
        assert files[0] == files[1], "two conversions differ"
        evaluated = evaluate(export.graph, list(map(_pairs, arrays)))
        for i, (graph, wanted) in enumerate(zip(evaluated, results(case, arrays), strict=True)):
            assert_close(graph, wanted, case.tolerance, f"output {i} of the graph")
    return export


def results(case: Case, arrays: Sequence[np.ndarray]) -> list[Any]:
    """What JAX gives, complex numbers as a file has them."""
    return list(map(_pairs, jax.tree.leaves(case.call(*arrays))))


def _pairs(array: Any) -> Any:
    """Complex numbers as a file has them, both parts on a last axis."""
    return jnp.stack([array.real, array.imag], -1) if jnp.iscomplexobj(array) else array


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
    sizes = [eval(d, None, SIZES) if isinstance(d, str) else d for d in shape]
    kind = jnp.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, sizes).astype(bool)
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -9, 10, sizes).astype(dtype)
    if kind == "c":
        return (rng.standard_normal(sizes) + 1j * rng.standard_normal(sizes)).astype(dtype)
    return np.asarray(rng.standard_normal(sizes) * 1.5).astype(dtype)


def spec_of(spec: Spec) -> Spec:
    """An array, or a shape and a dtype."""
    is_whole = isinstance(spec, np.ndarray) or (len(spec) == 2 and isinstance(spec[0], tuple))
    return spec if is_whole else (spec, np.float32)
