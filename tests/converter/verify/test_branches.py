"""Sides of control flow and of index bounds, which verification takes or reports as untaken.

Steering finds inputs that reach a side; JAX decides which sides they take.
"""

import math
import re
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import lax

import converter
from converter.frontend.trace import trace
from converter.verify.branches import MAX_ITERATIONS, Probe
from converter.verify.steering import (
    MAX_SMALL_WORK,
    MAX_TRIES,
    MIN_SAMPLES,
    close_numbers,
    count_numbers,
    draw_steered_samples,
    is_small,
)
from tests.tiers import default_rows

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


def draw_samples(fn, *specs, seed=0):
    """Return the steered samples of a function, and the sides that they take."""
    export = converter.to_onnx(fn, list(specs))
    return draw_steered_samples(export.graph, export.retrace(), {}, seed)


def list_untaken(fn, *specs):
    """Return the sentences about a function's untaken sides, without source lines and counts."""
    sentences = draw_samples(fn, *specs)[1].untaken()
    return [re.sub(r" at \S+ \(.*?\)| in \d+ samples", "", text) for text in sentences]


# ------------------------------------------------------------------------- sides that are observed


def switched(i, x):
    return lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x)


def chosen(i, x):
    return lax.cond(i > 2, jnp.sin, jnp.cos, x)


def looped(n, x):
    return lax.fori_loop(0, n, lambda _, y: y * 1.5, x)


def row(i, x):
    return x[i]


def clamped_row(i, x):
    return x[lax.clamp(1, i, 2)]


def clipped_row(i, x):
    return x[jnp.clip(i, 1, 2)]


def sliced(i, x):
    return lax.dynamic_slice(x, (i, 0), (2, 3))


def inner(i, x):
    """Run a loop in one branch only; its turns are observed there."""
    return lax.cond(i > 2, partial(looped, i), lambda y: y, x)


BRANCHES = [f"branch {i} of 3 of the switch did not run" for i in (1, 2, 3)]
CLAMPED = [f"no index of the clamp was {where} its range" for where in ("below", "within", "above")]
COND = ["the false branch of the cond did not run", "the true branch of the cond did not run"]
TURNS = [
    "the loop was never left before its first turn",
    "the loop never took exactly one turn",
    "the loop never took more than one turn",
]
OUTSIDE = [
    "no index was before the start of its axis",
    "no index was behind the end of its axis",
]
WRAPPED = [f"choice {i} of 2 of the index was not taken" for i in (1, 2)]

# A function of an index and a matrix, the index, and the sides that it takes.
OBSERVED = [
    (switched, 1, {CLAMPED[1], BRANCHES[1]}),
    (switched, -3, {CLAMPED[0], BRANCHES[0]}),
    (switched, 9, {CLAMPED[2], BRANCHES[2]}),
    (chosen, 2, {COND[0]}),
    (chosen, 3, {COND[1]}),
    (looped, -1, {TURNS[0]}),
    (looped, 1, {TURNS[1]}),
    (looped, 5, {TURNS[2]}),
    (row, 2, {WRAPPED[0]}),
    (row, -2, {WRAPPED[1]}),
    (row, -5, {WRAPPED[1], OUTSIDE[0]}),
    (row, 4, {WRAPPED[0], OUTSIDE[1]}),
    (clamped_row, 0, {CLAMPED[0]}),
    (clamped_row, 1, {CLAMPED[1]}),
    (clamped_row, 7, {CLAMPED[2]}),
    (sliced, 3, {WRAPPED[0], OUTSIDE[1]}),
    (inner, 1, {COND[0]}),
    (inner, 3, {COND[1], TURNS[2]}),
]


@pytest.mark.parametrize(("fn", "i", "expected"), OBSERVED)
def test_sides_are_observed(fn, i, expected):
    probe = Probe(trace(fn, [((), "int32"), (4, 3)]))
    observed = probe([np.int32(i), ROWS]).sides
    texts = [re.sub(r" at \{line\}", "", side.untaken) for side in probe.sides]
    assert {text for text, taken in zip(texts, observed, strict=True) if taken} == expected


def test_only_nodes_that_decide_are_evaluated():
    """The probe evaluates neither products that no branch depends on nor nodes after a branch."""

    def fn(i, x, w):
        return jnp.sum(switched(i, x @ w) @ w.T)

    probe = Probe(trace(fn, [((), "int32"), (4, 3), (3, 5)]))
    assert {node.op.name for node in probe.graph.walk()} == {"clamp", "cond"}
    assert probe([np.int32(1), ROWS, np.ones((3, 5), np.float32)]).steps < 4


def test_the_first_position_is_a_possible_index():
    """The index is followed through the sort. Its number 0 decides which choice is taken."""

    def fn(x):
        index = jnp.argsort(x)
        return x.at[jnp.where(index < 1, index + 5, index)].get(mode="clip")

    probe = Probe(trace(fn, [((3,), "float32")]))
    texts = [re.sub(r" at \{line\}", "", side.untaken) for side in probe.sides]
    assert texts == [*WRAPPED, *WRAPPED, *OUTSIDE]


def test_impossible_sides_are_not_reported():
    """Sides outside the range of a Boolean, a count, a constant or a sorted index are no sides."""

    def fn(x):
        a = lax.switch((x[0] > 0).astype(jnp.int32), [jnp.sin, jnp.cos, jnp.tanh], x)
        b = lax.switch(jnp.sum(x > 0), [jnp.sin, jnp.cos, jnp.tanh, jnp.exp, jnp.abs], x)
        c = lax.fori_loop(0, 3, lambda k, y: y + x[k], x)
        d = jnp.take_along_axis(x, jnp.argsort(x), 0), x[lax.top_k(x, 2)[1]]
        return a, b, c, d, x[jnp.argmax(x)]

    assert list_untaken(fn, (3,)) == []
    # Positions along an axis of symbolic size are not known to be within bounds.
    assert list_untaken(lambda x: jnp.take_along_axis(x, jnp.argsort(x), 0), ("n",)) == [OUTSIDE[1]]


def test_endless_loops_and_broken_promises_are_invalid():
    probe = Probe(trace(looped, [((), "int32"), (4, 3)]))
    assert probe([np.int32(MAX_ITERATIONS), ROWS]).is_valid
    assert not probe([np.int32(MAX_ITERATIONS + 1), ROWS]).is_valid
    probe = Probe(trace(row, [((1,), "int32"), (4, 3)]))
    valid = [i for i in (-5, -4, 3, 4) if probe([np.int32([i]), ROWS]).is_valid]
    assert valid == [-4, 3]


# ---------------------------------------------------------------------------- sides that are taken

REDUCTIONS = {
    "first": lambda x: x[0],
    "sum": jnp.sum,
    "mean": jnp.mean,
    "largest": jnp.max,
    "norm": jnp.linalg.norm,
    "count": lambda x: jnp.sum(x > 0),
    "all": lambda x: jnp.min(x),
}

SETTINGS = settings(
    max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def _steered_predicate(reduction, bound, dtype, shape, below):
    """Draw samples of a conditional. Return the branches taken in JAX, and the coverage."""

    def predicate(x):
        value = REDUCTIONS[reduction](x.astype(jnp.float32))
        return value < bound if below else value >= bound

    def fn(x):
        return lax.cond(predicate(x), lambda y: y * 2, lambda y: y + 1, x)

    samples, coverage = draw_samples(fn, (shape, dtype))
    return {bool(predicate(jnp.asarray(arrays[0]))) for _, arrays in samples}, coverage


@SETTINGS
@given(
    st.sampled_from(sorted(REDUCTIONS)),
    st.floats(-3, 6).map(lambda e: round(10**e, 4)),
    st.booleans(),
    st.sampled_from(["float32", "int32", "int16"]),
    st.sampled_from([(2,), (7,), (40,)]),
    st.booleans(),
)
def test_both_branches_are_taken(reduction, size, negative, dtype, shape, below):
    """Samples take both branches of a predicate whose bound the dtype can reach on either side."""
    if reduction == "count":
        size = 1 + size % (math.prod(shape) - 1)
    is_reachable = size < 2e4 if dtype == "int16" else True
    negative = negative and reduction not in ("norm", "count")
    taken, coverage = _steered_predicate(
        reduction, np.float32(-size if negative else size), dtype, shape, below
    )
    # The coverage agrees with the branches taken, also if a bound is not reached.
    assert (taken == {True, False}) == bool(coverage.reached.all())
    assert not is_reachable or taken == {True, False}, coverage.untaken()


@pytest.mark.each()
@pytest.mark.parametrize("bound", [1.0, 6.0, 2500.0])
def test_an_error_in_one_branch_is_found(bound):
    def fn(x):
        return lax.cond(x[0] + x[1] > bound, jnp.sin, jnp.cos, x)

    def wrong(x):
        return lax.cond(x[0] + x[1] > bound, lambda y: jnp.sin(y) + 1, jnp.cos, x)

    export = converter.to_onnx(fn, [(2,)], verify=True)
    assert export.report.untaken == [] and export.verdict.samples >= MIN_SAMPLES
    assert not converter.check(export, wrong).passed


WRONG = {
    "beyond the last branch": (switched, lambda i, x: switched(i, x) + (i > 2)),
    "before the first": (switched, lambda i, x: switched(i, x) + (i < 0)),
    "no turn": (looped, lambda n, x: looped(n, x) + (n < 1)),
    "one turn": (looped, lambda n, x: looped(n, x) + (n == 1)),
    "an index from the end": (row, lambda i, x: row(i, x) + (i < 0)),
    "a clamped index": (clipped_row, lambda i, x: clipped_row(i, x) + (i < 1)),
    "a start behind the end": (sliced, lambda i, x: sliced(i, x) + (i > 2)),
}


@pytest.mark.parametrize(
    "name",
    default_rows(
        WRONG, "before the first", "one turn", "an index from the end", "a start behind the end"
    ),
)
def test_errors_at_one_side_are_found(name):
    fn, wrong = WRONG[name]
    export = converter.to_onnx(fn, [((), "int32"), (4, 3)], verify=True)
    assert export.verdict.untaken == []
    assert not converter.check(export, wrong).passed


# ------------------------------------------------------------------------- reports of untaken sides


def hash_branch(x):
    """Take one branch only if a hash of the input has one value, which no search finds."""
    bits = lax.bitcast_convert_type(x, jnp.uint32)
    digest = jnp.sum(bits * jnp.uint32(2654435761))
    return lax.cond(digest == 12345, jnp.sin, jnp.cos, x)


def count_rounds(x):
    """Return whether a loop that ends when the square of its rounds is the sum of x has many."""
    return lax.while_loop(lambda i: i**2 < x.sum(), lambda i: i + 1, 0) > 4


def grow_from_sum(x):
    """Return whether the result of a loop is large, whose initial value depends on x."""
    _, size = lax.while_loop(
        lambda state: state[0] < 3, lambda state: (state[0] + 1, state[1] * 2), (0, x.sum())
    )
    return size > 200


def choose_constant(x):
    """Return whether a conditional chose the large one of two constants."""
    return lax.cond(x.sum() > 25, lambda: 30.0, lambda: 0.0) > 20


@pytest.mark.parametrize("is_large", [count_rounds, grow_from_sum, choose_constant])
def test_conditions_on_results_of_loops_and_conditionals_are_steered(is_large):
    """The sine needs a sum of about 25, which no ordinary sample has."""

    def fn(x):
        return lax.cond(is_large(x), jnp.sin, jnp.cos, x)

    export = converter.to_onnx(fn, [(5,)], verify=True)
    assert export.verdict.untaken == []
    assert not converter.check(export, lambda x: fn(x) * jnp.where(is_large(x), 1.5, 1)).passed


def test_an_untaken_branch_is_named_with_its_line():
    export = converter.to_onnx(hash_branch, [(3,)], verify=True)
    line = hash_branch.__code__.co_firstlineno + 4
    (sentence,) = export.report.untaken
    location = re.escape(f"{__file__}:{line} (hash_branch)")
    match = re.fullmatch(
        rf"the true branch of the cond at {location} did not run in (\d+) samples", sentence
    )
    assert match and MIN_SAMPLES <= int(match[1]) <= MIN_SAMPLES + MAX_TRIES
    assert export.verdict.passed and export.verdict.untaken == [sentence]
    assert f"not verified: {sentence}" in str(export.report)
    assert f"not verified: {sentence}" in str(export.verdict)


def test_given_inputs_are_the_only_samples(tmp_path):
    """Given inputs are the only samples; the verdict names the sides that they do not take."""
    export = converter.to_onnx(switched, [((), "int32"), (4, 3)], path=tmp_path / "f.onnx")
    for model in (export, tmp_path / "f.onnx"):
        verdict = converter.check(model, switched, [np.int32(1), ROWS])
        assert verdict.passed and verdict.samples == 1
        texts = [re.sub(r" at \S+ \(.*?\) did", " did", text) for text in verdict.untaken]
        assert f"{BRANCHES[0]} in 1 samples" in texts and len(texts) == 4


def test_numbers_close_to_given_ones():
    expected = [-3, 1.5, 2, 2.997, 3, 3.003, 4, 6]
    np.testing.assert_allclose(close_numbers(np.float64([3])), expected, rtol=1e-15)


@pytest.mark.full
def test_samples_are_deterministic():
    first, second = (draw_samples(inner, ((), "int32"), (4, 3))[0] for _ in range(2))
    assert [name for name, _ in first] == [name for name, _ in second]
    assert all(
        np.array_equal(x, y)
        for (_, a), (_, b) in zip(first, second, strict=True)
        for x, y in zip(a, b, strict=True)
    )


def test_large_functions_get_no_additional_samples():
    """A steered sample replaces one that takes no additional side."""

    def large(i, x):
        return row(i, jnp.tanh(x @ x.T))

    specs = [((5,), "int32"), (400, 30)]
    samples, coverage = draw_samples(large, *specs)
    graph = trace(large, specs)
    assert count_numbers(graph, {}) > MAX_SMALL_WORK and not is_small(graph, {})
    assert len(samples) == 4 and coverage.untaken() == []
    assert [name for name, _ in samples if name.startswith("steered")]


def test_untraceable_references_are_called():
    """The reference may use numpy and Python's loops."""

    def by_numpy(n, x):
        for _ in range(int(n)):
            x = np.asarray(x) * np.float32(1.5)
        return x

    verdict = converter.check(converter.to_onnx(looped, [((), "int32"), (4, 3)]), by_numpy)
    assert verdict.passed and verdict.samples >= MIN_SAMPLES


def test_differences_of_compilation_are_no_errors():
    """The file gives NaN for `x / x` of an infinite x, for which the compiled function gives 1."""

    def fn(n, x):
        y = looped(n, x) * 1e38
        return y * 10 / (y * 10)

    assert converter.to_onnx(fn, [((), "int32"), (4, 3)], verify=True).verdict.passed


def test_given_complex_inputs_take_branches():
    """The imaginary part of the input decides which branch is reported as untaken."""

    def fn(z):
        return lax.cond(z.imag[0] > 0, lambda z: z * 2, lambda z: z * 1j, z)

    export = converter.to_onnx(fn, [np.complex64([1 + 2j])])
    verdicts = [converter.check(export, fn, [np.complex64([1 + y * 1j])]) for y in (2, -2)]
    assert all(verdict.passed for verdict in verdicts)
    first, second = (sentence for verdict in verdicts for sentence in verdict.untaken)
    assert "the false branch" in first and "the true branch" in second
