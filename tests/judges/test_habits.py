"""Faults of runtimes: minimal files, compared with the tables in `tests/judges/habits`.

Each file still gives the result in the table, and the right one in versions that mended the fault.
Converted functions give the right result on the same inputs in ONNX Runtime.
"""

from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax
from packaging.version import Version

import converter
from converter.targets.versions import parse_versions
from tests.arrays import Tolerance, describe_difference
from tests.judges.habits import DIES, TABLES, VERSIONS, Arrays, Habit, Runtime, kernels
from tests.judges.habits.page import page
from tests.judges.runtimes import Apart
from tests.runtimes.load import PACKAGES, need

HABITS = [
    pytest.param(runtime, habit, id=f"{runtime}-{habit.name}")
    for runtime, tables in TABLES.items()
    for habits in tables.values()
    for habit in habits
]
# Rows whose result ONNX's evaluator can confirm: the standard defines it, and the fault is not one
# of the evaluator.
SETTLED = [row for row in HABITS if row.values[0] != "onnx.reference" and row.values[1].settled]
ROUNDING = Tolerance(units=16, zero_signs=False)
"""Differences between results in float32, which are those of a runtime's polynomials."""
UNSIGNED = Tolerance(zero_signs=False)


@pytest.fixture(scope="module")
def processes() -> Iterator[dict[Runtime, Apart]]:
    """Return a process for each runtime, which ends with the module."""
    by_runtime = {runtime: Apart(runtime) for runtime in TABLES}
    yield by_runtime
    for process in by_runtime.values():
        process.close()


def test_the_page_agrees_with_the_tables():
    assert (Path(__file__).parents[2] / "docs" / "runtimes.md").read_text() == page()


@pytest.mark.full
@pytest.mark.parametrize("runtime", TABLES)
def test_installed_versions_are_in_the_tables(runtime):
    need(runtime)
    assert version(PACKAGES[runtime]) in VERSIONS[runtime], (
        "check the tables with this version, then add it"
    )


@pytest.mark.full
@pytest.mark.parametrize(("runtime", "habit"), HABITS)
def test_faults_are_those_of_the_tables(runtime, habit: Habit, processes):
    need(runtime)
    if habit.opset < 27 and habit.ir_version < 14:
        onnx.checker.check_model(habit.proto, full_check=True)
    actual = processes[runtime](habit.proto.SerializeToString(), habit.inputs)
    if version(PACKAGES[runtime]) not in parse_versions(habit.versions):
        assert not isinstance(actual, BaseException), actual
        assert is_same(actual, habit.right), f"the mended result is {actual} again"
    elif isinstance(habit.seen, str):
        assert isinstance(actual, BaseException), f"the file runs now, and gives {actual}"
        assert isinstance(actual, BrokenProcessPool) == (habit.seen == DIES), actual
        assert habit.seen == DIES or habit.seen in str(actual)
    else:
        assert not isinstance(actual, BaseException), actual
        assert not is_same(habit.seen, habit.right)
        assert is_same(actual, habit.seen), f"the result is {actual} now"


def test_every_quirk_has_a_file():
    names = {habit.name for _, habit in (row.values for row in HABITS)}
    assert {q.name for target in converter.TARGETS.values() for q in target.quirks} <= names


@pytest.mark.full
@pytest.mark.parametrize(("runtime", "habit"), SETTLED)
def test_right_results_agree_with_the_standard(runtime, habit: Habit, processes):
    """ONNX's evaluator gives the result that the table calls right."""
    actual = processes["onnx.reference"](habit.proto.SerializeToString(), habit.inputs)
    assert not isinstance(actual, BaseException), actual
    assert is_same(actual, habit.right), actual


@pytest.mark.full
@pytest.mark.parametrize("types", kernels.MISSING)
def test_missing_kernels_are_those_of_the_table(types):
    missing = {op: set(types.split()) for op in kernels.MISSING[types].split()}
    for since, added in kernels.ADDED.items():
        if Version(version("onnxruntime")) < Version(since):
            for op in missing.keys() & added:
                missing[op] |= set(added[op].split())
    assert {op: set(kernels.missing(op).split()) for op in missing} == missing


def is_same(actual: Arrays, expected: Arrays) -> bool:
    """Return whether arrays are equal, in float32 up to the rounding of a runtime's polynomials."""
    return len(actual) == len(expected) and not any(
        describe_difference(a, b, ROUNDING if a.dtype == np.float32 else UNSIGNED)
        for a, b in zip(actual, expected, strict=True)
    )


# ----------------------------------------------------------------- results of converted functions

INDICES = np.array([1, 1])


def pool(x, size, stride, padding):
    window = (1, 1, size), (1, 1, stride), ((0, 0), (0, 0), padding)
    return lax.reduce_window(x, -jnp.inf, lax.max, *window)


def attention(q, k, v, mask):
    """Apply attention like `jax.nn.dot_product_attention`, in ONNX's order of axes."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1], dtype=np.float32)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores + mask), v)


def attention_with_shared_keys(q, k, mask):
    keys = jnp.repeat(k, q.shape[1], axis=1)
    return attention(q, keys, keys, mask)


def mean_with_zeros(x):
    window = (1, 1, 2, 1), (1, 1, 1, 1), ((0, 0), (0, 0), (0, 1), (0, 0))
    return lax.reduce_window(x, 0.0, lax.add, *window) / 2


def scaled_convolution(x):
    weights = np.full((1, 1, 1), 1e30, np.float32)
    return lax.conv_general_dilated(x, weights, (1,), "VALID") * weights


FUNCTIONS = {
    "A transposed matrix times a vector": lambda a, v: a.T @ v,
    "A padding in front of a pool of maxima": lambda x: pool(
        jnp.pad(x, ((0, 0), (0, 0), (1, 0))), 2, 2, (0, 0)
    ),
    "A negative padding that leaves no elements": lambda x: lax.pad(
        x, np.float32(2), ((-1, 1, 0),)
    ),
    "Padding that a mean counts": mean_with_zeros,
    "The error function of NaN": lax.erf,
    "A mask for each head if heads share keys": attention_with_shared_keys,
    "PRelu of infinity": lambda x, slope: jnp.where(x >= 0, x, slope * x),
    "A window that is longer than its axis": lambda x: (
        lax.reduce_window(x, 0.0, lax.add, (1, 1, 3), (1, 1, 2), "VALID") / 3
    ),
    "A float64 product that is scaled": lambda a, b: a @ b * 0.1,
    "Largest of many 64-bit integers": jnp.max,
    "Attention of a row that a finite mask hides": attention,
    "GELU of a single number, as its formula": lambda x: -jax.nn.gelu(x),
    "NaN in a LogSoftmax of float64": jax.nn.log_softmax,
    "Sigmoid of negative numbers": jax.nn.sigmoid,
    "Sign of 64-bit integers": jnp.sign,
    "Sum of integers beyond their range": lambda x: jnp.sum(x, dtype=x.dtype),
    "Product of integers beyond their range": lambda x: jnp.prod(x, dtype=x.dtype),
    "Remainder of 64-bit integers": lax.rem,
    "Power of integers": lambda x, p: lax.integer_pow(x, 21),
    "Pool of maxima of the lowest number": lambda x: pool(x, 2, 1, (0, 0)),
    "NaN in a maximum": jnp.max,
    "NaN in a pool of maxima": lambda x: pool(x, 2, 1, (0, 0)),
    "NaN among the largest": lambda x: lax.top_k(x, 2),
    "Floats that overflow in eight bits": lambda x: x.astype(jnp.float8_e5m2).astype(np.float32),
    "Floats beyond the range of integers": lambda x: x.astype(np.uint8),
    "Weights of a convolution that overflow with the factor after it": scaled_convolution,
    "The lowest integer divided by -1": lax.div,
    "The remainder of the lowest integer by -1": lax.rem,
    "A product of a transposed and converted matrix": lambda x, w: (
        jnp.transpose(x, (1, 0, 2)).astype(np.float32) @ w
    ),
    "A resizing between transpositions": lambda x: jax.image.resize(
        jnp.concatenate([x.transpose(0, 3, 1, 2)] * 2, 1).transpose(0, 3, 1, 2),
        (1, 1, 8, 4),
        "linear",
    ).transpose(0, 2, 3, 1),
    "A product of two transposed matrices, one of them an output": lambda x, w, b: (
        x.T,
        x.T @ w.T + b,
    ),
    "Integers divided by zero": lax.div,
    "A pool padded by as much as its window": lambda x: pool(x, 1, 1, (1, 1)),
    "Newer files": jnp.negative,
    "Newer operators": jnp.negative,
    "Max and Min of 16-bit integers": lambda x: jnp.maximum(x, -x),
    "Where of 16-bit integers": lambda c, x: jnp.where(c, x, x),
    "CumSum of unsigned integers": lambda x: jnp.cumsum(x, dtype=x.dtype),
    "ReduceSum of unsigned integers": jnp.sum,
    "TopK of unsigned integers": lambda x: lax.top_k(x, 1),
    "Pow by 8-bit integers": lambda x, p: x**p,
    "Scatter that adds float16": lambda x, u: x.at[INDICES].add(u),
    "Scatter of the largest boolean": lambda x, u: x.at[INDICES].max(u),
    "Almost all operators of bfloat16": lambda x: (-x.astype(jnp.bfloat16)).astype(x.dtype),
}
"""By fault: a function that would become the operator of the file, if nothing avoided it."""

UNCHANGED = {
    *("A chosen zero with its sign bit set", "A norm over one number"),
    *("A float64 product with a transposed matrix", "Sine of float64 near a multiple of pi"),
    "A number of float16 compared with its rounding",
}
"""Faults that the converter does not avoid."""

BY_NAME = {habit.name: habit for habits in TABLES["onnxruntime"].values() for habit in habits}


def test_every_fault_has_a_function():
    assert BY_NAME.keys() == FUNCTIONS.keys() | UNCHANGED


@pytest.mark.full
@pytest.mark.parametrize("name", FUNCTIONS)
def test_converted_functions_give_right_results(name):
    """Strict files give the right results; `docs/exactness.md` lists deviations of other files."""
    habit, fn = BY_NAME[name], FUNCTIONS[name]
    inputs = list(habit.inputs)
    with jax.enable_x64(True):
        export = converter.to_onnx(fn, inputs, strict=True)
        for level in ("all", "disabled"):
            session = converter.session(export, level=level)
            results = converter.run(session, inputs).values()
            for actual, expected in zip(results, habit.right, strict=True):
                assert actual.shape == expected.shape
                rounding = 1e-14 if expected.dtype == np.float64 else 2e-6
                np.testing.assert_allclose(actual, expected, rtol=rounding, atol=0)
