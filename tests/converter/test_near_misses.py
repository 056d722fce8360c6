"""What must not be fused, and what is said about it; and that it still comes out right."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax import lax

import converter
from tests.programs.spellings import neighbours, turned


def converted(fn, *shapes):
    """The export, after checking that it computes what JAX does."""
    rng = np.random.default_rng(5)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    export = converter.to_onnx(fn, inputs)
    for errors in converter.check(export, fn, inputs).values():
        assert errors.max_rel <= 1e-5, f"{errors}\n{export.graph}"
    return export


def scores(q, k):
    return jnp.einsum("hqd,hkd->hqk", q, k)


def attend(weights, v):
    return jnp.einsum("hqk,hkd->hqd", weights, v)


def attention(change):
    """Attention whose scores are changed before the softmax."""

    def fn(q, k, v, *mask):
        return attend(jax.nn.softmax(change(scores(q, k), *mask), axis=-1), v)

    return fn


def returned(place):
    """Attention that gives its weights too, or the scores below them."""

    def fn(q, k, v):
        logits = scores(q, k)
        weights = jax.nn.softmax(logits, axis=-1)
        return attend(weights, v), (weights, logits)[place]

    return fn


def weights_masked(q, k, v, mask):
    return attend(jnp.where(mask > 0, jax.nn.softmax(scores(q, k), axis=-1), 0), v)


@pytest.mark.parametrize("empty", [0, 1, 2, 3])
def test_attention_of_nothing(empty):
    """The runtime's operator takes no empty rows, positions, widths or heads."""
    h, q, d, v = (0 if i == empty else n for i, n in enumerate((3, 5, 8, 6)))
    export = converted(attention(lambda s: 0.5 * s), (h, q, d), (h, 7, d), (h, 7, v))
    assert export.report.fused["Attention"] == 0


def shared_chain(x, v):
    """Forty steps, each of which reads the last one twice, are 2^40 paths."""
    for _ in range(40):
        x = x * 0.5 + x
    return jax.nn.softmax(x, axis=-1) @ v


def unequal_halves(x, table):
    return turned(x, jnp.cos(table), jnp.sin(table))


def centre(x):
    return x - x.mean(-1, keepdims=True)


def simple_norm(x):
    """timm's SimpleNorm, in Equimo's spelling: the sample variance, times x itself."""
    deviation = x - x.mean(1, keepdims=True)
    variance = jnp.sum(jnp.square(deviation), axis=1, keepdims=True) / (x.shape[1] - 1)
    return x * lax.rsqrt(variance + 1e-6) * jnp.arange(1.0, 9.0)[:, None]


def zeroed_by_another(q, k, v, mask):
    masked = jnp.where(mask > 0, scores(q, k), -1e9)
    return attend(jnp.where(mask > 0.5, jax.nn.softmax(masked, axis=-1), 0), v)


def zeroed_below_a_bias(q, k, v, mask, bias):
    masked = jnp.where(mask > 0, scores(q, k) + bias, -1e9)
    return attend(jnp.where(mask > 0, jax.nn.softmax(masked, axis=-1), 0), v)


def products_of_nothing(q, k, v, mask):
    """Rows that show nothing are NaN, and NaN times zero is."""
    shown = mask > -9
    masked = jnp.where(shown, scores(q, k), -jnp.inf)
    return attend(jax.nn.softmax(masked, axis=-1) * shown, v)


QKV = ((3, 5, 8), (3, 7, 8), (3, 7, 6))
MASKED = (*QKV, (5, 7))
MISSES = {
    "Attention": [
        (returned(0), QKV, "weights of the softmax are used elsewhere"),
        (returned(1), QKV, "scores are used elsewhere"),
        (weights_masked, MASKED, "between the softmax and the second product"),
        (zeroed_by_another, MASKED, "weights are hidden that it does not hide"),
        (zeroed_below_a_bias, (*MASKED, (3, 5, 7)), "may be below what hidden ones are"),
        (products_of_nothing, MASKED, "hidden throughout is NaN"),
        (attention(lambda s, m: jnp.where(m > 0, s, -50.0)), MASKED, "not negative enough"),
        (attention(lambda s, m: jnp.tanh((s + m) / 5) * 5), MASKED, "before they are capped"),
        (attention(lambda s: -0.5 * s), QKV, "not positive"),
        (attention(lambda s: s.astype(int).astype(float)), QKV, "not understood"),
        (shared_chain, ((5, 7), (7, 3)), "scores are used elsewhere"),
    ],
    "Softmax": [
        (lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), ((5, 7),), "may overflow"),
        (lambda x: jax.nn.softmax(x, axis=(0, 1)), ((5, 7),), "several axes"),
    ],
    "RotaryEmbedding": [
        (unequal_halves, ((3, 5, 8), (5, 8)), "halves"),
        (lambda x: unequal_halves(x, jnp.arange(40.0).reshape(5, 8)), ((3, 5, 8),), "differ"),
    ],
    "LayerNormalization": [
        (lambda x: centre(x) / (x.std(-1, keepdims=True) + 1e-5), ((3, 8),), "to the deviation"),
        (
            lambda x: centre(x) / jnp.sqrt(x.var(-1, ddof=1, keepdims=True) + 1e-5),
            ((3, 8),),
            "ddof",
        ),
    ],
    "RMSNormalization": [(simple_norm, ((3, 8, 5),), "squared only")],
}


@pytest.mark.parametrize(
    ("pattern", "fn", "shapes", "reason"),
    [(pattern, *row) for pattern, rows in MISSES.items() for row in rows],
)
def test_what_stays_decomposed(pattern, fn, shapes, reason):
    report = converted(fn, *shapes).report
    assert report.fused == {}
    assert report.histogram.get("Softmax", 0) == (pattern == "Attention")
    found = [m.pattern == pattern and reason in m.reason for m in report.near_misses]
    assert found == [True] if reason else not found


def as_leaves(turn):
    """Tables that are parameters themselves."""
    return lambda p, x: turn(x, p["cos"], p["sin"])


def from_leaves(turn):
    """Tables that are made from parameters, in a way that shows nothing of their halves."""

    def table(p, name):
        return jnp.cos(p[name][:, ORDER[turn]] + p["scale"])

    return lambda p, x: turn(x, table(p, "cos"), table(p, "sin"))


ORDER = {turned: np.array([0, 1, 2, 3, 0, 1, 2, 3]), neighbours: np.array([0, 0, 1, 1, 2, 2, 3, 3])}


def rotary_params(turn, seed):
    rng = np.random.default_rng(seed)
    cos, sin = rng.standard_normal((2, 5, 4)).astype(np.float32)[..., ORDER[turn]]
    return {"cos": cos, "sin": sin, "scale": np.full((5, 1), 2, np.float32)}


@pytest.mark.parametrize("turn", [turned, neighbours])
@pytest.mark.parametrize("how", [as_leaves, from_leaves])
def test_tables_that_are_parameters(how, turn, tmp_path):
    """Their numbers are the proof, and others have to be so too when they are bound."""
    fn, x = how(turn), np.random.default_rng(5).standard_normal((3, 5, 8)).astype(np.float32)
    own, alike = (rotary_params(turn, seed) for seed in (1, 2))
    broken = {**alike, "cos": alike["cos"] + np.arange(8, dtype=np.float32)}
    path = tmp_path / "model.onnx"

    def assert_writes(export, given):
        export.save(path, given)
        (got,) = converter.run(ir.load(path), [x]).values()
        np.testing.assert_allclose(got, fn({**own, **given}, x), rtol=1e-5, atol=1e-5)
        path.unlink()

    export = converter.to_onnx(fn, [x], params=own, verify=[x])
    assert export.report.fused == {"RotaryEmbedding": 1}
    assert export.report.near_misses == []
    for given in ({}, {"sin": own["sin"]}, alike):
        assert_writes(export, given)
    if how is as_leaves:  # the others take columns in the order that makes them equal
        with pytest.raises(converter.SaveError, match="are equal in cos, and in the given values"):
            export.save(path, broken)
        assert not path.exists()
    export = converter.to_onnx(fn, [x], params=jax.eval_shape(lambda: own))
    assert export.report.fused == {}
    (miss,) = export.report.near_misses
    assert miss.reason.endswith("that has no value yet")
    assert_writes(export, broken)


def test_a_scale_that_makes_halves_differ(tmp_path):
    """What a table is made from may be the parameter that is bound to other numbers."""

    def fn(p, x):
        return turned(x, jnp.cos(p["cos"] + p["scale"]), p["sin"])

    own = rotary_params(turned, 1) | {"scale": np.full(8, 2, np.float32)}
    export = converter.to_onnx(fn, [(3, 5, 8)], params=own)
    assert export.report.fused == {"RotaryEmbedding": 1}
    export.save(tmp_path / "alike.onnx", {"scale": np.full(8, 3, np.float32)})
    with pytest.raises(converter.SaveError, match="in scale, and in the given values"):
        export.save(tmp_path / "broken.onnx", {"scale": np.arange(8, dtype=np.float32)})


class Leaves(eqx.Module):
    """What is masked and the epsilon are arrays of the model, as in penzai."""

    low: jax.Array
    epsilon: jax.Array

    def __call__(self, q, k, v):
        shown = jnp.arange(5)[:, None] >= jnp.arange(7)
        x = attend(jax.nn.softmax(jnp.where(shown, scores(q, k), self.low)), v)
        return x * lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + self.epsilon)


def test_numbers_that_are_leaves_are_relied_on(tmp_path):
    inputs = [np.random.default_rng(5).standard_normal(s).astype(np.float32) for s in QKV]
    model = Leaves(jnp.float32(-2e38), jnp.float32(1e-3))
    export = converter.to_onnx(model, inputs, verify=inputs)
    assert export.report.fused == {"Attention": 1, "RMSNormalization": 1}
    path = tmp_path / "model.onnx"
    export.save(path, {"low": np.float32(-2e38)})
    with pytest.raises(converter.SaveError, match=r"all numbers are 0\.001 in epsilon"):
        export.save(path, {"epsilon": np.float32(1e-2)})
    unknown = converter.to_onnx(jax.eval_shape(lambda: model), inputs).report
    assert unknown.fused["RMSNormalization"] == unknown.fused["Attention"] == 0
    reasons = {m.pattern: m.reason for m in unknown.near_misses}
    assert "no number that is known" in reasons["RMSNormalization"] and reasons["Attention"]


def test_a_reason_is_said_once_with_its_number():
    own = rotary_params(turned, 1)
    own["cos"][:, -1] += 1

    def fn(p, x):
        return turned(turned(x, p["cos"], p["sin"]) ** 2, p["cos"], p["sin"])

    report = converter.to_onnx(fn, [(3, 5, 8)], params=own).report
    (miss,) = report.near_misses
    assert miss.reason == "the two halves of a table differ, which is no rotation"
    assert miss.count == 2
    assert str(report).count("not fused") == 1
    assert "no rotation (2 times, first in " in str(report) and "spellings.py" in miss.line


@pytest.mark.parametrize(
    ("head", "rest"), [(np.s_[:, :4], np.s_[:, 1:8:2]), (np.s_[:, :2], np.s_[:, 2:8:1])]
)
def test_a_prefix_is_what_precedes_the_rest(head, rest):
    def fn(x):
        rows = x[rest]
        table = jnp.tile(jnp.arange(4.0 * rows.shape[1]).reshape(-1, 4) / 7, 2)
        return jnp.concatenate([x[head], unequal_halves(rows, table)], 1)

    export = converted(fn, (3, 8, 8))
    assert export.report.fused["RotaryEmbedding"] == 1
    assert (export.report.nodes <= 3) == (head == np.s_[:, :2])


def test_indices_that_are_parameters_may_get_other_numbers(tmp_path):
    rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)

    def fn(places, x):
        return lax.gather(x, places, rows, (1, 3), mode="promise_in_bounds") * 2

    export = converter.to_onnx(fn, [x], params=np.array([[0], [1], [2]], np.int32))
    other = np.array([[3], [0], [3]], np.int32)
    export.save(tmp_path / "other.onnx", values={export.graph.params[0].name: other})
    (got,) = converter.run(ir.load(tmp_path / "other.onnx"), [x]).values()
    np.testing.assert_array_equal(got, x[[3, 0, 3]] * 2)


def centred_and_scaled(x, epsilon=1e-5):
    return (x - x.mean(1, keepdims=True)) * lax.rsqrt(x.var(1, keepdims=True) + epsilon)


@pytest.mark.parametrize(("count", "fused"), [(384.0, 1), (383.0, 0)])
def test_the_sample_variance_of_halves_is_told_by_the_dtype_of_its_divisor(count, fused):
    """1/383 is 1/384 up to bfloat16's rounding; the mean is taken in float32."""

    def fn(x):
        centred = x - x.mean(1, keepdims=True)
        wide = jnp.square(centred.astype(jnp.float32)).sum(1, keepdims=True) / count
        return centred * lax.rsqrt(wide.astype(x.dtype) + jnp.asarray(1e-3, x.dtype))

    report = converter.to_onnx(fn, [((5, 384), jnp.bfloat16)]).report
    assert report.fused["LayerNormalization"] == fused


def test_scales_that_overflow_float16_together_stay_apart():
    def fn(x, w, g):
        return centred_and_scaled(x, 1e-3) * w * g

    x = 8 * jnp.eye(3, 64, dtype=jnp.float16)  # 7.9 in one place of each row, -0.13 elsewhere
    w, g = (jnp.full((64,), 300, jnp.float16) for _ in range(2))
    export = converter.to_onnx(fn, [x, w, g])
    (got,) = converter.run(converter.session(export), [x, w, g]).values()
    assert np.isfinite(got).sum() == 3 * 63
    np.testing.assert_allclose(got, np.asarray(fn(x, w, g)), rtol=1e-2)


def test_per_position_scale_stays_outside_the_norm():
    export = converted(lambda x, scale: centred_and_scaled(x) * scale, (5, 8), (5, 1))
    assert export.report.fused["LayerNormalization"] == 1
    assert export.report.histogram["Mul"] == 1
