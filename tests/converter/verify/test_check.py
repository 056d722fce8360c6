"""The judge of files: it finds planted errors, and accepts differences that rounding explains."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.ndimage import map_coordinates

import converter
from converter.ir.evaluation import COPIES, peak_memory
from converter.model.verdict import LEVELS, Difference, Elements, Errors, Verdict
from converter.verify.samples import MEMORY_BUDGET, draw_basic_samples

RNG = np.random.default_rng(3)
BASE = RNG.standard_normal((3, 5)).astype(np.float32)


def change_element(change, fn=jnp.sin):
    """Return a function whose result differs from that of ``fn`` in one element."""
    return lambda x: (lambda y: y.at[0, 1].set(change(y[0, 1])))(fn(x))


def mixed_magnitudes(x):
    """Return numbers of about 1e4, and a column of 1e-3 that does not depend on them."""
    return jnp.concatenate([x * 1e4, jnp.full((3, 1), 1e-3)], axis=1)


PLANTED = {
    "element": (jnp.sin, change_element(lambda v: v + 1e-4)),
    "sign of a small one": (mixed_magnitudes, lambda x: mixed_magnitudes(x).at[:, -1].multiply(-1)),
    "nan": (jnp.sin, change_element(lambda v: jnp.nan)),
    "not nan": (lambda x: jnp.log(x - 9), lambda x: jnp.nan_to_num(jnp.log(x - 9))),
    "infinity": (jnp.exp, change_element(lambda v: jnp.inf, jnp.exp)),
    "boolean": (lambda x: x * 0 > 5e-4, lambda x: x * 0 > -5e-4),
    "cancelled": (lambda x: (x + 1e3) - 1e3, lambda x: (x + 1e3) - 1e3 + 0.1),
    "masked row": (lambda x: jax.nn.softmax(x * 0 - 3e38), lambda x: jnp.zeros_like(x)),
}
"""By name: a function, and a variant with an error that the judge must find."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted_errors_are_found(name):
    fn, wrong = PLANTED[name]
    export = converter.to_onnx(fn, [BASE])
    assert converter.check(export, fn, [BASE]).passed
    verdict = converter.check(export, wrong, [BASE])
    assert not verdict.passed
    assert {d.level for d in verdict.differences} == {*LEVELS}


def test_small_elements_have_small_tolerances():
    """The tolerance of a small element depends on its operands, not on larger elements."""

    def scaled(params, x):
        return x * params["scale"]

    params = {"scale": np.float32([1e4, 1, 1e4, 1, 1e-3])}
    export = converter.to_onnx(scaled, [BASE], params=params)
    assert converter.check(export, partial(scaled, params), [BASE]).passed
    verdict = converter.check(export, lambda x: scaled(params, x).at[0, 4].multiply(-1), [BASE])
    assert {d.index for d in verdict.differences} == {(0, 4)}


def test_neighbouring_large_integers_differ():
    large = np.array([[2**53, 2**53 + 1]], np.int64)
    with jax.enable_x64(True):
        export = converter.to_onnx(lambda x: x * 1, [large])
        verdict = converter.check(export, lambda x: x.at[0, 0].add(1), [large])
    assert next(iter(verdict.values())).max_abs == 1
    # The cosine of the largest float64 numbers does not overflow.
    assert converter.compare(*[np.array([1e308, -1e308])] * 2).cosine == pytest.approx(1)
    message = f"[0, 0] is {2**53} in ONNX Runtime and {2**53 + 1} in JAX"
    assert message in str(verdict.differences[0])


def test_imaginary_parts_are_not_dropped():
    export = converter.to_onnx(jnp.sin, [BASE])
    with pytest.raises(converter.CheckError, match=r"is float32.* in ONNX Runtime and complex64"):
        converter.check(export, lambda x: jnp.sin(x) + 1j, [BASE])
    assert converter.compare(np.array([1 + 1j]), np.array([1 + 2j])).max_abs == 1


def test_signalling_nan_is_compared_without_a_warning():
    signalling = np.array([0x7FA00000], np.uint32).view(np.float32)
    assert converter.compare(signalling, signalling).max_abs == 0
    fn = lambda x: lax.bitcast_convert_type(x, jnp.float32)  # noqa: E731
    bits = signalling.view(np.uint32)
    assert converter.check(converter.to_onnx(fn, [bits]), fn, [bits]).passed


def test_errors_on_one_sample_are_found():
    """Errors are found that appear on one drawn sample, or at one size, only."""
    wrong = {
        "zeros": lambda x: jnp.where(jnp.all(x == 0), 1.0, x),
        "large": lambda x: jnp.minimum(x, 100.0),
        "repeated": lambda x: jnp.where(x == 2.0, 3.0, x),
        "normal, small": lambda x: x + (x.shape[0] == 1),
        "normal, wide": lambda x: x + (x.shape[0] > 8),
    }
    right = jax.jit(lambda x: jnp.where(jnp.asarray(x.shape[0]) > 1, x, -x))
    for name, fn in wrong.items():
        export = converter.to_onnx(right, [("B", 4)])
        verdict = converter.check(export, lambda x, fn=fn: fn(right(x)))
        assert {re.sub(r" \d+$", "", d.sample) for d in verdict.differences} == {name}


def test_samples_have_the_sizes_and_dtypes_of_inputs():
    specs = [("B", "16*h"), (("h", 2), "int8"), ((3,), "bool"), ((2,), jnp.bfloat16)]
    graph = converter.to_onnx(lambda a, b, c, d: (a + 1, b + 1, ~c, d), specs).graph
    inputs_by_sample = dict(draw_basic_samples(graph))
    assert [x.dtype.name for x in inputs_by_sample["large"]] == [
        "float32",
        "int8",
        "bool",
        "bfloat16",
    ]
    assert [x.shape for x in inputs_by_sample["normal"]] == [(3, 64), (4, 2), (3,), (2,)]
    assert inputs_by_sample["normal, small"][0].shape == (1, 16)
    assert inputs_by_sample["normal, wide"][0].shape == (9, 160)
    assert np.abs(inputs_by_sample["large"][1]).max() > 20


@pytest.mark.each("dtype", "inside")
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
@pytest.mark.parametrize("inside", [False, True])
def test_numbers_of_turns_are_drawn_small(dtype, inside):
    """A number of turns is drawn small: 2**31 turns would take hours."""

    def iterate(n, x):
        return lax.fori_loop(jnp.zeros_like(n), n * 2 + 1, lambda i, y: y * 1.01 + 1, x)

    def fn(n, x, free):
        rows = lax.map(lambda row: iterate(n, row), x) if inside else iterate(n, x)
        return rows, free + 1

    export = converter.to_onnx(fn, [((), dtype), (2, 3), ((3,), dtype)])
    inputs_by_sample = dict(draw_basic_samples(export.graph))["large"]
    assert abs(int(inputs_by_sample[0])) < 100 < np.abs(inputs_by_sample[2].astype(np.int64)).max()
    assert converter.check(export, fn).passed


TABLE = RNG.standard_normal((5, 3)).astype(np.float32)
INDEXED = {
    "rows": lambda i, x: jnp.asarray(TABLE)[i],
    "of a named axis": lambda i, x: x[i],
    "of two axes": lambda i, x: x[i, i[::-1] + 0],
    "in a loop": lambda i, x: lax.fori_loop(0, 3, partial(step_rows, x), (i, x[0])),
    "written": lambda i, x: x.at[i].set(1.0, **UNWRAPPED),
}
UNWRAPPED = {"mode": "promise_in_bounds", "wrap_negative_indices": False}


def step_rows(x, _, carry):
    i, row = carry
    return i[::-1], jnp.sin(row + x.at[i].get(**UNWRAPPED).T @ jnp.arange(4.0))


@pytest.mark.each("name", "dtype")
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
@pytest.mark.parametrize("name", INDEXED)
def test_indices_are_drawn_within_bounds(name, dtype):
    """Indices are drawn within bounds: indexing promises it, and ONNX Runtime needs it."""
    export = converter.to_onnx(INDEXED[name], [((4,), dtype), ("B", 3)], verify=True)
    assert export.verdict.passed
    for sample, (indices, x) in draw_basic_samples(export.graph):
        size = len(TABLE) if name == "rows" else min(x.shape) if "two" in name else len(x)
        assert indices.dtype == dtype and (indices < size).all() and (indices >= 0).all()
        assert (indices > 0).any() or sample in ("zeros", "normal, small")


@pytest.mark.parametrize(
    "fn",
    [
        lambda i, x: jnp.take(x, i, 0, mode="clip"),
        lambda i, x: jnp.take(x, i, 0, mode="fill"),
        lambda i, x: x[i % x.shape[0]],
        lambda i, x: jnp.asarray(TABLE)[i & 3],
        lambda i, x: jnp.asarray(TABLE)[jnp.clip(i, 0, 4)],
    ],
)
def test_indices_that_the_file_clips_are_drawn_freely(fn):
    export = converter.to_onnx(fn, [((9,), "int32"), ("B", 3)], verify=True)
    inputs_by_sample = dict(draw_basic_samples(export.graph))
    assert inputs_by_sample["large"][0].max() > 9 and inputs_by_sample["normal"][0].min() < 0


def test_failures_of_the_runtime_are_reported(capfd):
    message = (
        r"cannot run the model on normal inputs of \[3\], \[5, 3\]: .* out of data bounds.*"
        "pass inputs$"
    )
    with pytest.raises(converter.CheckError, match=message):
        converter.to_onnx(lambda i, x: x[i * 100], [((3,), "int32"), (5, 3)], verify=True)
    assert capfd.readouterr() == ("", "")


# --------------------------------------------------- differences that rounding explains


RIGHT = {
    "sums that cancel": lambda x: jnp.sum(x * 1e4, axis=1) - jnp.sum(x[:, ::-1] * 1e4, axis=1),
    "steps": lambda x: jnp.floor(x * 3 / 0.1),
    "choice": lambda x: jnp.argmax(jax.nn.softmax(x * 0.1), axis=1),
    "poles": lambda x: 1 / (jnp.sin(x) - jnp.sin(x + 2e-7)),
    "loop": lambda x: lax.scan(lambda c, row: (jnp.sin(c * 3 + row), jnp.sum(c)), x[0], x),
}


@pytest.mark.each()
@pytest.mark.parametrize("name", RIGHT)
def test_rounding_errors_are_accepted(name):
    fn = jax.jit(RIGHT[name])
    verdict = converter.check(converter.to_onnx(fn, [("B", 5)]), fn)
    assert verdict.passed, verdict.differences


FLUSHED = {
    "function": lambda x: jnp.exp(x * 0 - 88) * 1e10,
    "product": lambda x: (x * 2.0**-70) * 2.0**-70 * 2.0**60,
    "sum": lambda x: jnp.exp(x * 0 - 88) * 1e10 + 1e-30,
    "mish": lambda x: jax.nn.mish(x - 87.8),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.exp(y * 0 - 88) * 1e10, x),
}
"""Functions with subnormal intermediate values, which XLA flushes to zero and ONNX Runtime not."""


@pytest.mark.parametrize("name", FLUSHED)
def test_results_flushed_to_zero_are_accepted(name):
    fn, x = jax.jit(FLUSHED[name]), np.array([1, 0.5, -0.25], np.float32)
    export = converter.to_onnx(fn, [x])
    verdict = converter.check(export, fn, [x])
    assert verdict.passed, verdict.differences
    assert not converter.check(export, lambda x: fn(x) - 1e-20, [x]).passed


def test_other_numbers_than_flushed_ones_are_errors():
    """A result that XLA flushes to zero in every evaluation must agree with float64."""

    def fn(factor):
        return jax.jit(lambda x: lax.map(lambda y: jnp.exp(y * 0 - 88) * factor, x))

    x = np.array([1, 0.5, -0.25], np.float32)
    assert not fn(1e20)(x).any()
    assert not converter.check(converter.to_onnx(fn(2e20), [x]), fn(1e20), [x]).passed


def test_infinities_of_flushed_zeros_are_judged_by_float64():
    """Where a flushed zero gives infinity in JAX, the file may have the number of float64."""
    x = [np.float32([463.74625, 5.0]), np.float32([996.89984, 3.0])]

    def fn(k, x, factor=1.0):
        return jax.jit(jax.scipy.stats.chi2.logsf)(x, k) * factor

    assert np.isneginf(fn(*x)[0])
    assert converter.check(converter.to_onnx(fn, x), fn, x).passed
    wrong = converter.to_onnx(lambda *xs: fn(*xs, jnp.array([1.001, 1])), x)
    assert not converter.check(wrong, fn, x).passed


@pytest.mark.each()
@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_errors_of_jax_are_no_errors_of_the_file(name):
    """XLA's formulas cancel near the zeros; a file that is nearer to the exact values passes."""
    fn = jax.jit(getattr(lax, name))
    x = np.concatenate([RNG.uniform(-6, 6, 3000), RNG.uniform(1, 3, 3000)]).astype(np.float32)
    export = converter.to_onnx(fn, [x])
    verdict = converter.check(export, fn, [x])
    assert verdict.passed, verdict.differences
    assert not converter.check(export, lambda x: fn(x) + 2e-5, [x]).passed


@pytest.mark.full
def test_rounding_errors_of_a_large_matrix_are_accepted():
    x = RNG.standard_normal((64, 128)).astype(np.float32).view(np.complex64)
    fn = jax.jit(lambda x: jnp.abs(jnp.linalg.eigh(x + x.conj().T)[1]))
    export = converter.to_onnx(fn, [x])
    assert converter.check(export, fn, [x]).passed
    assert not converter.check(export, lambda x: fn(x) + 1e-3, [x]).passed


EQUALS = np.full((20_000, 2), 0.1, np.float32)
"""Numbers whose sequential sum is off by 2e-4, because each addition loses the same amount."""

SUMMED = {
    "a sum": lambda x: x.sum(0),
    "partial sums": lambda x: jnp.cumsum(x, 0),
    "from the end": lambda x: lax.cumsum(x, 0, reverse=True),
    "a softmax": lambda x: jax.nn.softmax(jnp.concatenate([x, x[:1] + 1.7]), 0),
    "a product of vectors": lambda x: x[:, 0] @ x[:, 1],
    "a product of matrices": lambda x: jnp.einsum("kn,km->mn", x, x + 0.1),
    "products in a batch": lambda x: jnp.einsum("kn,kbn->nb", x, jnp.stack([x, x + 1], 1)),
    "in a loop": lambda x: lax.map(lambda column: column.sum(), x.T),
}


@pytest.mark.parametrize("name", sorted(SUMMED))
def test_long_sums_may_be_added_in_any_order(name):
    fn = SUMMED[name]
    export = converter.to_onnx(fn, [EQUALS])
    assert converter.check(export, fn, [EQUALS]).passed
    assert not converter.check(export, lambda x: fn(x) * 1.001, [EQUALS]).passed


@pytest.mark.full
def test_rounded_sampling_positions_are_accepted():
    """At integer positions JAX is exact; a runtime's positions, from -1 to 1, are rounded."""

    def warp(image, flow, shift=0.0):
        rows, columns = jnp.mgrid[:7.0, :51.0]
        coordinates = [rows + flow[0], columns + flow[1] + shift]
        return map_coordinates(image, coordinates, order=1, mode="nearest")

    image = RNG.standard_normal((7, 51)).astype(np.float32)
    export = converter.to_onnx(warp, [image, (2, 7, 51)])
    assert export.report.fused["GridSample"]
    for shift in (0, -3):
        inputs = [image, np.full((2, 7, 51), shift, np.float32)]
        assert converter.check(export, warp, inputs).passed
        assert not converter.check(export, lambda *x: warp(*x, shift=1e-3), inputs).passed


@pytest.mark.parametrize(("method", "x64"), [("linear", False), ("cubic", True)])
def test_rounded_resize_weights_are_accepted(method, x64):
    """Weights of a resize are exact in JAX, or in float64. A runtime computes them from positions
    in float32."""

    def resize(x):
        return jax.image.resize(x, (2, 3, 97, 7), method).transpose(0, 2, 3, 1)

    x = RNG.standard_normal((2, 3, 40, 4)).astype(np.float32)
    with jax.enable_x64(x64):
        export = converter.to_onnx(resize, [x])
        assert export.report.fused["Resize"]
        assert converter.check(export, resize, [x]).passed
        assert not converter.check(export, lambda x: resize(x) * 1.001, [x]).passed


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_wide_integers_beside_rounded_positions_are_judged(dtype):
    """With x64, positions of floats are in float32 and integers keep their 64 bits."""

    def resize(x, i):
        return jax.image.resize(x, (7,), "linear"), jax.image.resize(i, (7,), "nearest") << 33

    x, i = RNG.standard_normal(4).astype(np.float32), np.arange(4).astype(dtype)
    with jax.enable_x64(True):
        export = converter.to_onnx(resize, [x, i])
        assert export.report.fused["Resize"]
        assert converter.check(export, resize, [x, i]).passed


def test_sums_over_no_elements_are_judged():
    """Sums over no rows are judged together with numbers that are rounded."""

    def fn(x, y):
        return jnp.exp(jnp.sin(y) @ y.T) + x.sum(1).sum() + (x[:, 0] @ x).sum()

    x, y = np.zeros((0, 3), np.float32), RNG.standard_normal((5, 64)).astype(np.float32)
    assert converter.check(converter.to_onnx(fn, [x, y]), fn, [x, y]).passed


def test_empty_cumulative_sums_with_a_branch_are_judged():
    """A graph with branches is evaluated with jax.numpy, whose scan has no first row here."""

    def fn(x):
        sums = jnp.cumsum(jnp.sin(x)[:, :0], 1)
        return sums, lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x)

    export = converter.to_onnx(fn, [(5, 3)])
    assert converter.check(export, fn).passed
    assert not converter.check(export, lambda x: [y * 1.001 for y in fn(x)]).passed


@pytest.mark.each()
@pytest.mark.parametrize("seed", range(4))
def test_integers_are_rounded_before_a_product_of_floats(seed):
    """Integers are rounded to float32 before a product; the sum of 60 products cancels."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 7, (60, 15)).astype(np.int32)
    x = rng.integers(-(2**31), 2**31, 60).astype(np.int32)

    def fn(x):
        return lax.dot_general(x, weights, (((0,), (0,)), ((), ())), preferred_element_type="f4")

    def sum_in_other_order(x):
        order = np.random.default_rng(seed).permutation(60)
        rounded = x[order].astype(jnp.float32)
        sums = jnp.zeros(15, jnp.float32)
        for row, factor in zip(weights[order], rounded, strict=True):
            sums = sums + factor * row.astype(np.float32)
        return sums

    export = converter.to_onnx(fn, [x])
    assert converter.check(export, sum_in_other_order, [x]).passed
    assert not converter.check(export, lambda x: sum_in_other_order(x) * 1.001, [x]).passed


def test_indices_of_a_scatter_are_not_rounded():
    """Integer indices of a scatter are not rounded like integer factors of a product."""

    def fn(x, indices):
        return jnp.zeros((4, 3)).at[indices].add(jnp.sin(x))

    x, indices = RNG.standard_normal((5, 3)).astype(np.float32), np.int32([0, 3, 3, 1, 0])
    export = converter.to_onnx(fn, [x, indices])
    assert not converter.check(export, lambda *x: fn(*x) * 1.001, [x, indices]).passed


def test_rounding_errors_of_parameters_are_accepted():
    table = {"a": RNG.standard_normal((5, 5)).astype(np.float32)}

    def fn(params, x):
        return x @ jnp.exp(params["a"]) @ params["a"].T

    export = converter.to_onnx(fn, [(3, 5)], params=table)
    assert converter.check(export, lambda x: fn(table, x)).passed
    assert not converter.check(export, lambda x: fn(table, x) + 1e-3).passed


def test_files_without_a_traced_graph_are_judged(tmp_path):
    def attention(q, k, v):
        return jax.nn.softmax(q @ k.T / 2, axis=-1) @ v

    path = tmp_path / "model.onnx"
    inputs = [RNG.standard_normal(s).astype(np.float32) for s in ((3, 4), (6, 4), (6, 2))]
    converter.to_onnx(attention, inputs, path=path)
    assert converter.check(path, attention, inputs).passed
    assert not converter.check(path, lambda *xs: attention(*xs) * 1.0001, inputs).passed
    with pytest.raises(converter.CheckError, match="pass inputs"):
        converter.check(path, attention)


def test_files_that_the_runtime_is_too_old_for_are_rejected():
    export = converter.to_onnx(jnp.sin, [BASE])
    export.model.graph.opset_imports[""] = 99
    with pytest.raises(converter.CheckError, match=r"loads files of opsets up to \d+: write"):
        converter.check(export, jnp.sin, [BASE])


def over_pixels(x):
    """Apply attention between all pairs of pixels, in a form that no recogniser fuses."""
    rows = x.reshape(x.shape[0], -1, 1)
    return jnp.tanh(rows @ rows.swapaxes(1, 2)).sum(-1)


@pytest.mark.parametrize("constraints", [(), ("h >= 2",)])
def test_samples_fit_into_memory(constraints):
    """Sizes of samples fit into memory: 9 images of 160 x 176 pixels would take 400 GiB."""
    shape = ("B", "16*h", "16*w")
    export = converter.to_onnx(over_pixels, [shape], constraints=constraints)
    shapes = [xs[0].shape for _, xs in draw_basic_samples(export.graph, 0, export.retrace())]
    for images, height, width in shapes:
        sizes = {"B": images, "h": height // 16, "w": width // 16}
        assert peak_memory(export.retrace(), sizes) <= MEMORY_BUDGET
    assert len({*shapes}) == 3
    wide = converter.to_onnx(over_pixels, [("B", "4096*h", 1024)])
    with pytest.raises(converter.CheckError, match=r"takes .* GiB even at the sizes .*'h': 1"):
        converter.check(wide, over_pixels)


def test_peak_memory_counts_live_values():
    """Values are freed after their last use, so the peak does not depend on a chain's length."""
    short, long = (
        converter.to_onnx(lambda x, n=n: [x := jnp.sin(x) for _ in range(n)][-1], [("B", 8)])
        for n in (3, 30)
    )
    peaks = [peak_memory(export.retrace(), {"B": 4}) for export in (short, long)]
    assert peaks[0] == peaks[1] == (2 + 2 * COPIES) * 4 * 8 * 4


def test_failures_of_jax_are_reported():
    def fails(x):
        return jax.pure_callback(lambda x: 1 / 0, x, x)

    export = converter.to_onnx(jnp.sin, [BASE])
    with pytest.raises(
        converter.CheckError, match=r"JAX cannot evaluate the function on given .*\[3, 5\]:"
    ):
        converter.check(export, fails, [BASE])


@pytest.mark.parametrize(("fn", "value"), [(jnp.log1p, -0.41403), (jnp.arctanh, 0.414025)])
def test_functions_that_xla_rounds_coarsely_in_float64(fn, value):
    """Files pass where XLA's results are up to 120 units in the last place from the exact ones."""
    value = np.linspace(value - 1e-4, value + 1e-4, 200)
    with jax.enable_x64(True):
        export = converter.to_onnx(fn, [value])
        assert converter.check(export, fn, [value]).passed
        assert not converter.check(export, lambda x: fn(x) * (1 + 1e-12), [value]).passed


@pytest.mark.each()
@pytest.mark.parametrize("has_branches", [False, True])
def test_attention_in_float16_is_judged(has_branches):
    """Attention in float16 is judged, although XLA on CPUs rejects its algorithm of products."""

    def fn(x):
        y = jax.nn.dot_product_attention(x, x, x)
        return lax.cond(y[0, 0, 0] < 0, lambda y: y * 3, lambda y: y, y) if has_branches else y

    export = converter.to_onnx(fn, [((5, 2, 4), "float16")], opset=23)
    assert converter.check(export, fn).passed
    assert not converter.check(export, lambda x: fn(x) * np.float16(1.2)).passed


def test_inputs_may_be_python_numbers():
    export = converter.to_onnx(lambda x, y: x * y, [(), ()])
    assert converter.check(export, lambda x, y: x * y, [2.0, 3.5]).passed


def test_the_repr_shows_the_difference():
    verdict = Verdict()
    verdict.differences.append(Difference("given", "all", "y", (0, 1), "2.0", "1.0", False))
    verdict["y"], verdict.elements["y"] = Errors(1.0, 1.0, 1.0), Elements(6, 0, 0)
    assert "not passed, 1 differences: y[0, 1] is 2.0 in ONNX Runtime" in repr(verdict)


def test_a_function_that_jax_cannot_evaluate_is_an_error():
    """JAX has no `cumlogsumexp` of integers. The file does not contain it, because these only
    depend on parameters."""

    def fn(params, x):
        sums = lax.cumlogsumexp(jnp.argmin(params, axis=1, keepdims=True), axis=0)
        return x + jnp.not_equal(sums, sums)

    params = np.ones((2, 3), np.float32)
    with pytest.raises(OverflowError, match="infinity"):
        jax.jit(fn)(params, jnp.ones((2, 3)))
    with pytest.raises(converter.ConverterError, match="cannot convert float infinity to integer"):
        export = converter.to_onnx(fn, [(2, 3)], params=params)
        converter.check(export, partial(fn, params))
