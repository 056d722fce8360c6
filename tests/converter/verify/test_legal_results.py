"""Elements for which JAX itself has another result in another legal evaluation.

The file passes with either result. Every other number fails.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.model.verdict import LEVELS
from converter.verify.step_by_step import LegalEvaluator
from tests.conformance import all_results, assert_agrees, inputs
from tests.programs.table import PROGRAMS

X = np.float32([0.5, 1, 2])


def divide_by_repeated(x):
    """Return 2, or 1 if the reciprocal of the divisor is subnormal and flushed to zero."""
    return (x * 0 + 1e38) / jnp.sum(x[:1] * 0 + 1e38) + 1


def multiply_subnormals(x):
    """Return 6e-29, or 1e-30 if the exponential is flushed to zero."""
    return lax.map(lambda y: jnp.exp(y * 0 - 88) * 1e10 + 1e-30, x)


def divide_equal_exponentials(x):
    """Return NaN, or 1 if the quotient of equal operands is replaced by 1."""
    large = jnp.exp(x * 100 + 100)
    return large / large


def hide_missing_elements(x):
    """Return NaN, or 0 if a product with a converted Boolean is replaced by a selection. XLA does
    not replace it if the Boolean is a constant."""
    indices = jnp.asarray([0, 3, 1])
    return jax.jit(lambda i: jnp.take(x, i) * (i < 3))(indices)


TWO_RESULTS = {
    fn.__name__: fn
    for fn in (
        divide_by_repeated,
        multiply_subnormals,
        divide_equal_exponentials,
        hide_missing_elements,
    )
}
"""Functions that have one result node by node and another one compiled as a whole."""


@pytest.mark.parametrize("name", TWO_RESULTS)
def test_either_result_passes_and_others_fail(name):
    fn = jax.jit(TWO_RESULTS[name])
    first, *_, last = LegalEvaluator(fn).evaluate([X]).evaluations
    assert not np.allclose(first, last, rtol=1e-3, atol=0, equal_nan=True)
    export = converter.to_onnx(fn, [X])
    assert converter.check(export, fn, [X]).passed

    def replace_nan(x):
        return jnp.nan_to_num(fn(x), nan=1)

    for wrong in (lambda x: replace_nan(x) * 3, lambda x: replace_nan(x) + 0.5):
        verdict = converter.check(converter.to_onnx(wrong, [X]).model, fn, [X])
        assert {d.level for d in verdict.differences} == {*LEVELS}


def test_results_of_another_function_do_not_count():
    """The results are those of the function, not those of the graph of the export."""
    export = converter.to_onnx(divide_by_repeated, [X])
    assert not converter.check(export, lambda x: x * 0 + 1, [X]).passed


def sort_tiny_weights(x):
    """Return [0, 1, 2]. The first exponential is subnormal, and bfloat16 rounds it to zero."""
    return jnp.argsort(jnp.exp(x - 98).astype(jnp.bfloat16) * 352)


def test_a_number_that_underflows_in_bfloat16_may_stay_unrounded():
    """XLA flushes such numbers, and a file may multiply them in float32."""
    x = np.float32([0, -9, 1])
    unrounded = converter.to_onnx(
        lambda x: jnp.argsort((jnp.exp(x - 98) * 352).astype(jnp.bfloat16)), [x]
    )
    (result,) = converter.run(unrounded, [x]).values()
    assert result.tolist() == [1, 0, 2]
    assert converter.check(unrounded, sort_tiny_weights, [x]).passed
    wrong = converter.to_onnx(lambda x: jnp.argsort(-x), [x])
    assert not converter.check(wrong, sort_tiny_weights, [x]).passed


def scale_product(x):
    """Return 1 plus a reciprocal. The matrix product overflows before it is scaled."""
    return 1 + 1e10 / ((x @ jnp.full((3, 2), 1e30)) * jnp.float32(1e-30))


def test_elements_are_open_where_jax_overflows_and_the_file_does_not():
    """The function may also react to the overflow, so that the true result is no evidence."""
    large = np.float32([[1e10, 2e10, 3e10]])
    assert (np.asarray(scale_product(large)) == 1).all()
    scaled = converter.to_onnx(lambda x: 1 + 1e10 / (x @ jnp.ones((3, 2))), [large]).model
    verdict = converter.check(scaled, scale_product, [large])
    assert verdict.differences and all(d.open for d in verdict.differences)
    small = np.float32([[1, 2, 3]])
    wrong = converter.to_onnx(lambda x: scale_product(x) * 1.001, [small]).model
    verdict = converter.check(wrong, scale_product, [small])
    assert verdict.differences and not any(d.open for d in verdict.differences)


def exponential_ratio(x):
    return jnp.exp(x * 20) / jnp.sum(jnp.exp(x * 20))


def select_by_overflow(x):
    return jnp.where(jnp.isinf(x * 6e4), 1, x)


@pytest.mark.parametrize("fn", [exponential_ratio, select_by_overflow])
@pytest.mark.parametrize(("dtype", "is_open"), [(np.float16, True), (np.float32, False)])
def test_overflow_in_half_precision_is_open(fn, dtype, is_open):
    """A wrong file fails in any case. The elements are open if JAX overflows in float16."""
    x = X.astype(dtype)
    wrong = converter.to_onnx(lambda x: fn(x) * 0.5 + 0.25, [x]).model
    verdict = converter.check(wrong, fn, [x])
    assert verdict.differences and {d.open for d in verdict.differences} == {is_open}


BITS = {
    "bits": lambda x: lax.bitcast_convert_type((x * 0) / (x * 0), "int32"),
    "sign": lambda x: jnp.signbit((x * 0) / (x * 0)).astype(int) * 4,
    "positions": lambda x: lax.top_k(jnp.where(x > 1, (x * 0) / (x * 0), x), 2)[1],
}
"""Functions that read the sign of a NaN, which IEEE 754 does not define."""


@pytest.mark.parametrize("name", BITS)
def test_the_sign_of_nan_may_differ(name):
    fn = BITS[name]
    assert converter.check(converter.to_onnx(fn, [X]), fn, [X]).passed
    wrong = converter.to_onnx(lambda x: fn(x) + 1, [X]).model
    assert not converter.check(wrong, fn, [X]).passed


def test_the_sign_of_a_given_nan_may_not_differ():
    """A file of opset 23 does not distinguish the signs of NaN. It is wrong if the NaN is an input,
    which no operation rounds."""
    nan = np.float32([np.nan, -np.nan])
    export = converter.to_onnx(jnp.signbit, [nan], opset=23)
    assert not converter.check(export, jnp.signbit, [nan]).passed


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_may_have_any_order(dtype):
    """The product of a zero and infinitely large factors is zero or NaN, and no other number."""
    x = np.resize([0, 3e38, 3e38, 3e38], 32).astype(dtype)
    nan, one = (converter.to_onnx(lambda x, y=y: x[0] * 0 + y, [x]).model for y in (np.nan, 1))
    assert converter.check(nan, jnp.prod, [x]).passed
    verdict = converter.check(one, jnp.prod, [x])
    assert verdict.differences and all(d.open for d in verdict.differences)
    tame = np.resize([0, 2, 3], 32).astype(dtype)
    verdict = converter.check(nan, jnp.prod, [tame])
    assert verdict.differences and not any(d.open for d in verdict.differences)


def test_cumulative_products_may_be_products_of_neighbours():
    """The file multiplies 1e-30 * 1e-30 and 1e30 * 1e30 first, and then zero and infinity."""
    x = np.float32([1e-30, 1e-30, 1e30, 1e30, 2])
    export = converter.to_onnx(jnp.cumprod, [x])
    assert not jnp.isnan(jnp.cumprod(x)).any()
    assert converter.check(export, jnp.cumprod, [x]).passed
    verdict = converter.check(export, lambda x: jnp.cumprod(x) * 2, [x])
    assert verdict.differences and not verdict.differences[0].open


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("wrong", [np.inf, 0.0])
def test_cumulative_products_of_neighbours_are_judged(dtype, wrong):
    """No product of neighbours is infinite or zero here. Products of the largest numbers are."""
    x = np.array([1e4, 1e-4] * 8, np.float64).astype(dtype)
    fn = lambda x: jnp.where(jnp.arange(16) < 9, jnp.cumprod(x), jnp.asarray(wrong, dtype))  # noqa: E731
    verdict = converter.check(converter.to_onnx(fn, [x]), jnp.cumprod, [x])
    assert verdict.differences and not any(d.open for d in verdict.differences)


def hide_every_score(x):
    """Return weights of scores that are all hidden. They are equal in float16, since the scores are
    absorbed, and the softmax of the scores with more precise sums."""
    return jax.nn.softmax(x + jnp.finfo(x.dtype).min)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_results_may_be_kept_in_float32(dtype):
    """ONNX Runtime computes nodes of float16 in float32 and does not round between them."""
    x = X.astype(dtype)
    first, *_ = LegalEvaluator(hide_every_score).evaluate([x]).evaluations
    assert len({*map(float, first[0])}) == 1
    scores = jax.nn.softmax(x.astype("float32")).astype(dtype)
    equal, precise, wrong = (
        converter.to_onnx(lambda x, y=y: x * 0 + jnp.asarray(y, dtype), [x])
        for y in (1 / 3, scores, 0.5)
    )
    retrace = converter.to_onnx(hide_every_score, [x]).retrace
    results = [
        converter.check(replace(export, retrace=retrace), hide_every_score, [x]).passed
        for export in (equal, precise, wrong)
    ]
    assert results == [True, dtype == "float16", False]


IN_NARROW_DTYPES = {
    "reduction": (
        lambda x: lax.reduce(x, np.float16(0), lambda a, b: a * np.float16(0.5) + b, (0,)),
        "float16"),
    "saturated loop": (
        lambda x: lax.while_loop(lambda c: c + 1 > c, lambda c: c + 1, x[0] * 0 + 250),
        "bfloat16"),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * np.float16(300), x), "float16"),
}  # fmt: skip
"""Functions that JAX does not evaluate in float32, that do not end in it, or that overflow."""


@pytest.mark.parametrize("name", IN_NARROW_DTYPES)
def test_functions_in_narrow_dtypes_keep_their_other_results(name):
    fn, dtype = IN_NARROW_DTYPES[name]
    x = HALF.astype(dtype)

    def with_sign(x):
        return fn(x), jnp.signbit((x * 0) / (x * 0))

    export = converter.to_onnx(with_sign, [x])
    assert converter.check(export, with_sign, [x]).passed


def test_evaluations_give_no_warnings():
    """Numbers overflow silently, also where results in float32 are converted to float16."""
    legal = LegalEvaluator(lambda x: x * np.float16(1000)).evaluate([HALF])
    assert np.isinf(legal.in_float32[0][0]).any()


def test_outputs_of_float16_may_be_those_of_float32():
    """All outputs are those of float32, or none is."""
    export = converter.to_onnx(guard_overflow, [HALF])
    assert converter.check(export, guard_overflow, [HALF]).passed


def widen_sigmoid(x):
    return jax.nn.sigmoid(x).astype("float32")


def test_results_may_be_widened_without_rounding():
    """ONNX Runtime removes the conversion to float16 before one to float32."""
    export = converter.to_onnx(widen_sigmoid, [((6,), "float16")])
    assert converter.check(export, widen_sigmoid).passed
    wrong = converter.to_onnx(lambda x: widen_sigmoid(x) + 2**-9, [((6,), "float16")])
    wrong = replace(wrong, retrace=export.retrace)
    assert not converter.check(wrong, widen_sigmoid).passed


def test_bfloat16_is_rounded_before_it_is_widened():
    """ONNX Runtime rounds bfloat16 before a conversion to float32."""

    def compare(x):
        square = lax.sort(x * x).astype("float32")
        return square == lax.sort(x.astype("float32") * x.astype("float32"))

    x = np.float32([1.01, 1.03, 1.05]).astype("bfloat16")
    export = converter.to_onnx(compare, [x])
    assert converter.check(export, compare, [x]).passed and not compare(x).any()
    wrong = converter.to_onnx(lambda x: x == x, [x])
    wrong = replace(wrong, retrace=export.retrace)
    assert not converter.check(wrong, compare, [x]).passed


def count_until_equal(x):
    """Return 2048 from a loop that ends because float16 is rounded before it is widened.

    ONNX Runtime joins arrays in float16, so that it rounds them.
    """

    def grows(count):
        after, before = jnp.stack([count + 1, count]).astype("float32")
        return after > before

    return lax.while_loop(grows, lambda count: count + 1, x * 0 + 2000)


def test_one_evaluation_in_float32_is_enough():
    """Only the evaluation that rounds before a conversion ends."""

    def fn(x):
        return *guard_overflow(x), count_until_equal(x[0])

    export = converter.to_onnx(fn, [HALF])
    assert converter.check(export, fn, [HALF]).passed


def test_conversions_round_in_every_evaluation():
    """A conversion to float16 that the function asks for always rounds."""

    def absorb(x):
        return (x * 1024 + 0.25).astype("float16").astype("float32") - x * 1024

    wrong = converter.to_onnx(lambda x: x * 0 + 0.25, [X])
    retrace = converter.to_onnx(absorb, [X]).retrace
    verdict = converter.check(replace(wrong, retrace=retrace), absorb, [X])
    assert verdict.differences and not any(d.open for d in verdict.differences)


def count_in_loop(x):
    """Return 2048 in float16, and 3000 if the state of the loop is kept in float32."""
    return lax.fori_loop(0, 3000, lambda i, c: c + np.float16(1), x * 0)


def guard_overflow(x):
    """Return whether the elements are finite, with the elements or -1 in their place."""
    large = x * np.float16(1000)
    is_finite = jnp.isfinite(large)
    return is_finite, jnp.where(is_finite, large * np.float16(0.001), np.float16(-1))


def draw_gamma(x):
    return jax.random.gamma(jax.random.key(0), x)


HALF = np.float16([1, 2, 1000])
SCORES = np.float16([0.5, 1, 2])
LARGE = [100, 2, 3]
FACTORS = np.float32([1e-25, 1e-25, 1e25, 1e25])
WRONG = {
    "selection by an overflow": (
        lambda x: jnp.where(jnp.isinf(x * 1e37), 0.25, 1.0) * x, lambda x: x * 1.0, LARGE),
    "branch of an overflow": (
        lambda x: lax.cond(jnp.isfinite(x * 1e37).all(), lambda y: y, lambda y: y * 0.5, x),
        lambda x: x * 1.0, LARGE),
    "infinite exponential": (
        lambda x: jnp.where(jnp.isinf(jnp.exp(x)), 7.0, jnp.exp(x) / jnp.exp(x)),
        lambda x: x * 0 + 1, LARGE),
    "underflow in another output": (
        lambda x: (jnp.where(x + 1e-9 == x, 2.0, 3.0), jnp.exp(-x)),
        lambda x: (x * 0 + 3.0, jnp.exp(-x)), LARGE),
    "product of no order": (jnp.prod, lambda x: x[0] * 0 + 2, FACTORS),
    "sum with a product": (
        lambda x: x + jnp.prod(FACTORS * x[1] / 2), lambda x: x + 4, LARGE),
    "multiple of a sign": (
        lambda x: jnp.copysign(1.0, (x * 0) / (x * 0)) * x, lambda x: x * 5.0, LARGE),
    "zero for a sign": (
        lambda x: jnp.copysign(1.0, (x * 0) / (x * 0)) * x, lambda x: x * 0.0, LARGE),
    "turns of a loop in float32": (count_in_loop, lambda x: x * 0 + 3000, HALF),
    "true without its value": (
        guard_overflow, lambda x: (x > 0, jnp.where(x < 50, x, np.float16(-1))), HALF),
    "false with its value": (guard_overflow, lambda x: (x < 50, x * np.float16(1)), HALF),
    "a weight of other precision": (
        hide_every_score, lambda x: x * 0 + np.float16([1 / 3, 1 / 3, 0.6285]), SCORES),
    "numbers drawn in float64": (
        draw_gamma, lambda x: x * 0 + np.float32([0.9069467, 1.1243595, 5.130558]), [1.5, 2, 3]),
    "root for a power": (
        lambda x: jnp.power(x, jnp.full_like(x, 0.5)), jnp.sqrt, [4, -np.inf, 9]),
}  # fmt: skip
"""Functions, wrong functions in their place, and inputs at which JAX overflows, underflows or
returns NaN."""


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files_do_not_pass(name):
    fn, wrong, numbers = WRONG[name]
    x = numbers if isinstance(numbers, np.ndarray) else np.float32(numbers)
    assert not converter.check(converter.to_onnx(wrong, [x]).model, fn, [x]).passed


def test_windows_of_equals_are_open():
    """The derivative of a maximum of equals in windows of two axes depends on the order."""
    pads = ((0, 1), (0, 0), (0, 0))

    def slope(x, y):
        window = (2, 2, 1), (1, 1, 1), pads
        return jax.jvp(lambda z: lax.reduce_window(z, -jnp.inf, lax.max, *window), (x,), (y,))[1]

    export = converter.to_onnx(slope, [(2, 2, 6)] * 2)
    verdict = converter.check(export, jax.jit(slope))
    assert all(d.open for d in verdict.differences)
    wrong = converter.to_onnx(lambda x, y: slope(x, y) * 1.001, [(2, 2, 6)] * 2)
    verdict = converter.check(replace(wrong, retrace=export.retrace), jax.jit(slope))
    assert any(not d.open for d in verdict.differences)


@pytest.mark.parametrize("name", [*PROGRAMS][::80])
def test_evaluations_of_ordinary_numbers_agree_with_jax(name):
    case = PROGRAMS[name]
    with jax.enable_x64(case.x64):
        operands = inputs(case.specs)
        references = all_results(case, operands)
        legal = LegalEvaluator(case.call).evaluate(operands)
    for outputs in legal.evaluations:
        for actual, accepted in zip(outputs, references, strict=True):
            assert_agrees(case, actual, accepted, name)


def test_subnormal_numbers_may_be_zero():
    """XLA flushes the subnormal weight to zero, and so the largest is the first of equals."""

    def find_largest(x):
        return jnp.argmax(jax.nn.softmax(x, 1) @ jnp.eye(3), axis=0)

    x = np.float32([[0, -200, 0], [0, -94, 0], [0, -200, 0]])
    assert np.asarray(find_largest(x)).tolist() == [0, 0, 0]
    export = converter.to_onnx(find_largest, [x])
    assert converter.check(export, find_largest, [x]).passed
    # Rounding can make any row the largest, so that only a number that is no row is wrong.
    wrong = converter.to_onnx(lambda x: find_largest(x) - 1, [x]).model
    assert not converter.check(wrong, find_largest, [x]).passed


def test_a_function_is_traced_once_for_inputs_of_the_same_shape():
    calls = []

    def double(x):
        calls.append(x.shape)
        return x * 2

    evaluator = LegalEvaluator(double)
    for x in (X, X + 1, X[:2], X[1:]):
        np.testing.assert_array_equal(evaluator.evaluate([x]).evaluations[0][0], x * 2)
    assert calls == [(3,), (2,)]
