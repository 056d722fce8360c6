"""A program as a row of a table, and the assertions that every row of `tests/programs/` passes: the
exported file gives in ONNX Runtime what JAX gives."""

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
from converter.model.verdict import Level
from converter.verify.sessions import NO_SPINNING, run, session
from tests.arrays import Tolerance, describe_difference

UNITS = {"float64": 96, "float32": 64, "float16": 8, "bfloat16": 8}
"""The largest error of a few roundings by dtype, in units in the last place of the largest element
of an output."""
HALVES = ("float16", "bfloat16")
# Sizes of the named dimensions when a case runs.
SIZES = {"B": 3, "N": 5, "C": 2, "H": 9, "W": 11}
NEWEST = converter.find_target(f"onnxruntime=={ort.__version__.partition('+')[0]}").opsets[-1]
"""The newest opset that the installed ONNX Runtime loads."""

RUNS, SAMPLES, JUDGES = "runs", "samples", "judges"
"""Tags that say which default tests a program is in: `assert_runs`, numbers of all magnitudes, or
comparisons with further evaluators."""

DEFAULT = frozenset({RUNS})
STRUCTURE = "structure"
"""The tag of programs whose operators stay the same under `vmap`, `jit` and `scan`."""
EVERY_LEVEL = "every level"
"""The tag of programs whose files also run without ONNX Runtime's optimizer."""
SIGNS = "signs"
"""The tag of programs whose zeros have the signs of JAX's."""
FLOAT32 = "float32"
"""The tag of programs whose results may also be those of JAX in float32, rounded to their dtype. In
float16 and bfloat16 JAX rounds after every step of a formula."""


def within_units(limit: float, magnitude: float = 0.0) -> Tolerance:
    """Return the tolerance of a case whose elements may differ by some units in the last place.

    A unit is that of the element in JAX, or of ``magnitude`` if that is larger. XLA flushes
    subnormal numbers to zero. The tag `SIGNS` compares the signs of zeros.
    """
    return Tolerance(limit, magnitude=magnitude, zero_signs=False, subnormals=False)


Spec = Any  # a shape of float32, (shape, dtype), or an array, whose values are the input


def drawn(make: Callable[[jax.Array], Any]) -> Any:
    """Return the result of `make` for a random key, with its arrays replaced by numbers that numpy
    draws. JAX would compile each initializer, which would add half a minute to every run of the
    tests."""
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

    ``ops`` are operators and the number of each that the file must hold. ``tolerance`` multiplies
    the dtype's tolerance; ``units`` replaces it. ``said`` is a part of the reason that the report
    gives for a near miss. ``tags`` say which default tests convert the case. ``since``
    is the lowest version of JAX that can run it, if it is not the lowest supported one.
    """

    name: str
    fn: Callable[..., Any]
    specs: Sequence[Spec] = ((3, 4),)
    opsets: tuple[int, ...] = (23,)
    ops: Mapping[str, int] = field(default_factory=dict)
    tolerance: float = 1.0
    units: Tolerance | None = None
    said: str = ""
    params: Any = None
    strict: bool = False
    x64: bool = False
    tags: Set[str] = frozenset()
    since: str = ""

    def export(self, opset: int | None = None, **options: Any) -> converter.Export:
        """Convert the case at ``opset``, by default the newest of its opsets. ``options`` are
        further arguments of `to_onnx`."""
        options = {"opset": opset or self.opsets[-1], "strict": self.strict, **options}
        return converter.to_onnx(self.fn, list(self.specs), params=self.params, **options)

    def call(self, *inputs: Any) -> Any:
        """Return JAX's outputs for these inputs, from the compiled function."""
        return self.compiled(self.params, *inputs)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """A jitted function of the parameters and the inputs."""
        plain = self.params is None
        return jax.jit(lambda params, *xs: self.fn(*xs) if plain else self.fn(params, *xs))


def unused(model: ir.Model) -> list[str]:
    """Return the names of initializers that no node uses. ONNX Runtime warns of each of them."""
    values = (v for graph in model.graphs() for v in graph.initializers.values())
    return [v.name or "" for v in values if not v.uses() and not v.is_graph_output()]


def assert_runs(case: Case, opset: int | None = None) -> converter.Export:
    """Assert that the file is valid, holds the expected operators, and gives JAX's numbers in ONNX
    Runtime. Return the export."""
    if (opset or case.opsets[-1]) > NEWEST:
        pytest.skip(f"ONNX Runtime {ort.__version__} runs opsets up to {NEWEST}")
    with jax.enable_x64(case.x64):
        arrays, export = inputs(case.specs), case.export(opset)
        onnx.checker.check_model(ir.to_proto(export.model), full_check=True)
        assert unused(export.model) == []
        names = [node.name for node in export.model.graph.all_nodes()]
        assert len(names) == len({*names}), "ONNX Runtime 1.18 rejects two nodes of one name"
        references = all_results(case, arrays)
    levels: tuple[Level, ...] = ("all", "disabled") if EVERY_LEVEL in case.tags else ("all",)
    for level in levels:
        outputs = run(session(export, settings=NO_SPINNING, level=level), arrays)
        for (name, actual), accepted in zip(outputs.items(), references, strict=True):
            assert_agrees(case, actual, accepted, f"{name} of the file at level {level}")
    assert_operators(case, export)
    return export


def assert_operators(case: Case, export: converter.Export) -> None:
    """Assert that the file has the case's number of each operator, and that the report gives the
    expected reason for a near miss."""
    counts = {op: export.report.histogram.get(op, 0) for op in case.ops}
    assert counts == dict(case.ops), export.report.histogram
    reasons = [miss.reason for miss in export.report.near_misses]
    assert not case.said or any(case.said in reason for reason in reasons), reasons


def assert_exports(case: Case, opset: int | None = None) -> converter.Export:
    """Assert what `assert_runs` does, that evaluating the graph gives JAX's numbers, and that a
    second conversion writes the same file. Return the export."""
    export = assert_runs(case, opset)
    with jax.enable_x64(case.x64):
        arrays, again = inputs(case.specs), case.export(opset)
        files = [
            ir.to_proto(conversion.model).SerializeToString(deterministic=True)
            for conversion in (export, again)
        ]
        assert files[0] == files[1], "two conversions differ"
        evaluated = evaluate(export.graph, list(map(_pairs, arrays)))
        pairs = zip(evaluated, all_results(case, arrays), strict=True)
        for i, (graph, accepted) in enumerate(pairs):
            assert_agrees(case, graph, accepted, f"output {i} of the graph")
    return export


def results(case: Case, arrays: Sequence[np.ndarray]) -> list[Any]:
    """Return JAX's outputs, with complex numbers in the form that a file has."""
    return list(map(_pairs, jax.tree.leaves(case.call(*arrays))))


def all_results(case: Case, arrays: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """Return the accepted results of each output. With the tag `FLOAT32` there are two of each."""
    accepted = [[np.asarray(y)] for y in results(case, arrays)]
    if FLOAT32 in case.tags:
        wider = [a.astype(np.float32) if a.dtype.name in HALVES else a for a in arrays]
        with np.errstate(over="ignore"):
            for output, y in zip(accepted, results(case, wider), strict=True):
                output.append(np.asarray(y).astype(output[0].dtype))
    return accepted


def _pairs(array: Any) -> Any:
    """Return a complex array as a real one whose last axis is the real and the imaginary part, as
    in a file. Return other arrays unchanged."""
    return jnp.stack([array.real, array.imag], -1) if jnp.iscomplexobj(array) else array


def assert_agrees(case: Case, actual: Any, accepted: Sequence[np.ndarray], name: str) -> None:
    """Assert that an output agrees with one of its accepted results, as the case requires."""
    actual, expected = np.asarray(actual), accepted[0]
    if SIGNS in case.tags:
        signs = (np.signbit(np.nan_to_num(y, nan=1.0)) for y in (actual, expected))
        np.testing.assert_array_equal(*signs, err_msg=name)
    if case.units is None:
        assert_close(actual, expected, case.tolerance, name)
        return
    alternative = accepted[1] if len(accepted) > 1 else None
    complaint = describe_difference(actual, expected, case.units, alternative)
    assert not complaint, f"{name}: {complaint}"


def assert_close(actual: Any, expected: Any, tolerance: float = 1.0, name: str = "") -> None:
    """Assert that integers and Booleans are equal, and that floats agree within ``tolerance`` times
    the units of their dtype. NaN and infinities must be at the same positions. ``name`` names the
    array in the message."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    units = UNITS.get(expected.dtype.name, 0.0) * tolerance
    limits = Tolerance(units, magnitude=1.0, of_largest=True, zero_signs=False)
    complaint = describe_difference(actual, expected, limits)
    assert not complaint, f"{name}: {complaint}"


def inputs(specs: Sequence[Spec]) -> list[np.ndarray]:
    """Draw the inputs of these specs from a fixed seed: normal floats, integers of both signs, both
    booleans. An array as a spec is its own value."""
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
    """Return the shape and dtype of a spec, or the array that it is. A spec without dtype is of
    float32."""
    is_complete = isinstance(spec, np.ndarray) or (len(spec) == 2 and isinstance(spec[0], tuple))
    return spec if is_complete else (spec, np.float32)
