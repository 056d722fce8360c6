"""Runtimes still have the faults of `docs/runtimes.md`, up to the versions that fixed them.

What ONNX Runtime gets wrong a converted function gets right: on the very inputs of the page.
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
from converter.targets.versions import versions
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
# Where the text is open, or where the evaluator itself is at fault, there is nobody to ask.
SETTLED = [row for row in HABITS if row.values[0] != "onnx.reference" and row.values[1].settled]
ROUNDING = 2e-6


@pytest.fixture(scope="module")
def processes() -> Iterator[dict[Runtime, Apart]]:
    found = {runtime: Apart(runtime) for runtime in TABLES}
    yield found
    for process in found.values():
        process.close()


def test_the_page_is_what_the_tables_say():
    assert (Path(__file__).parents[2] / "docs" / "runtimes.md").read_text() == page()


@pytest.mark.full
@pytest.mark.parametrize("runtime", TABLES)
def test_versions(runtime):
    need(runtime)
    assert version(PACKAGES[runtime]) in VERSIONS[runtime], "look at the tables, then change this"


@pytest.mark.full
@pytest.mark.parametrize(("runtime", "habit"), HABITS)
def test_still_so(runtime, habit: Habit, processes):
    need(runtime)
    if habit.opset < 27 and habit.ir_version < 14:
        onnx.checker.check_model(habit.proto, full_check=True)
    got = processes[runtime](habit.proto.SerializeToString(), habit.inputs)
    if version(PACKAGES[runtime]) not in versions(habit.versions):
        assert not isinstance(got, BaseException), got
        assert same(got, habit.right), f"it gives {got} again"
    elif isinstance(habit.seen, str):
        assert isinstance(got, BaseException), f"it runs now, and gives {got}"
        assert isinstance(got, BrokenProcessPool) == (habit.seen == DIES), got
        assert habit.seen == DIES or habit.seen in str(got)
    else:
        assert not isinstance(got, BaseException), got
        assert not same(habit.seen, habit.right)
        assert same(got, habit.seen), f"it gives {got} now"


def test_every_quirk_is_looked_at():
    shown = {habit.name for _, habit in (row.values for row in HABITS)}
    assert {q.name for target in converter.TARGETS.values() for q in target.quirks} <= shown


@pytest.mark.full
@pytest.mark.parametrize(("runtime", "habit"), SETTLED)
def test_what_is_right(runtime, habit: Habit, processes):
    """The standard's evaluator agrees with what the table calls right."""
    got = processes["onnx.reference"](habit.proto.SerializeToString(), habit.inputs)
    assert not isinstance(got, BaseException), got
    assert same(got, habit.right), got


@pytest.mark.full
@pytest.mark.parametrize("types", kernels.MISSING)
def test_kernels(types):
    lacking = {op: set(types.split()) for op in kernels.MISSING[types].split()}
    for since, added in kernels.ADDED.items():
        if Version(version("onnxruntime")) < Version(since):
            for op in lacking.keys() & added:
                lacking[op] |= set(added[op].split())
    assert {op: set(kernels.missing(op).split()) for op in lacking} == lacking


def same(got: Arrays, wanted: Arrays) -> bool:
    """Equal, of float32 up to the rounding of a runtime's own polynomials."""
    return len(got) == len(wanted) and all(
        a.dtype == b.dtype
        and a.shape == b.shape
        and np.allclose(a, b, ROUNDING if a.dtype == np.float32 else 0, 0, equal_nan=True)
        for a, b in zip(got, wanted, strict=True)
    )


# ------------------------------------------------------------------------------------ what we do

PLACES = np.array([1, 1])


def pool(x, size, stride, padding):
    window = (1, 1, size), (1, 1, stride), ((0, 0), (0, 0), padding)
    return lax.reduce_window(x, -jnp.inf, lax.max, *window)


def attention(q, k, v, mask):
    """As `jax.nn.dot_product_attention` has it, in ONNX's order of axes."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1], dtype=np.float32)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores + mask), v)


def sharing(q, k, mask):
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
    "A mask for each head if heads share keys": sharing,
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
    "Floats that are rounded to infinity in eight bits": lambda x: x.astype(jnp.float8_e5m2).astype(
        np.float32
    ),
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
    "Scatter that adds float16": lambda x, u: x.at[PLACES].add(u),
    "Scatter of the largest boolean": lambda x, u: x.at[PLACES].max(u),
    "Almost all operators of bfloat16": lambda x: (-x.astype(jnp.bfloat16)).astype(x.dtype),
}
"""What comes to the operator of the page's file, if nothing is done about it."""

LEFT = {
    *("A chosen zero with its sign bit set", "A norm over one number"),
    "A float64 product with a transposed matrix",
}
"""What is left as it is."""

OURS = {habit.name: habit for habits in TABLES["onnxruntime"].values() for habit in habits}


def test_every_habit_has_a_function():
    assert OURS.keys() == FUNCTIONS.keys() | LEFT


@pytest.mark.full
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_the_converter_does(name):
    """Strict: what differs by default has its page too."""
    habit, fn = OURS[name], FUNCTIONS[name]
    inputs = list(habit.inputs)
    with jax.enable_x64(True):
        export = converter.to_onnx(fn, inputs, strict=True)
        for level in ("all", "disabled"):
            session = converter.session(export, level=level)
            got = converter.run(session, inputs).values()
            for actual, wanted in zip(got, habit.right, strict=True):
                assert actual.shape == wanted.shape
                rounding = 1e-14 if wanted.dtype == np.float64 else 2e-6
                np.testing.assert_allclose(actual, wanted, rtol=rounding, atol=0)
