"""Values made of parameters alone: computed when the file is saved, whatever else reads them."""

import tracemalloc

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax import lax

import converter
from converter.ir.evaluation import evaluate
from converter.verify.sessions import run

RNG = np.random.default_rng(3)


def weights(**shapes):
    return {
        name: np.abs(RNG.standard_normal(shape)).astype(np.float32) + 0.5
        for name, shape in shapes.items()
    }


def shifted(p, x):
    """As Keras writes a batch norm, the scale in the offset, but with twice the mean: it is none"""
    inv = lax.rsqrt(p["variance"] + 1e-3) * p["gamma"]
    return x * inv + (p["beta"] - 2 * p["mean"] * inv)


def gates(p, x):
    """As Haiku's GRU: sums of biases that several slices read."""
    both = p["b"] + p["c"]
    z, r = jnp.split(x @ p["w"] + both, 2, axis=-1)
    return jax.nn.sigmoid(z + both[:4]) * jnp.tanh(r + both[4:] * both[:4])


def a_large_one_in_the_middle(p, x):
    """The outer product is too large for the file; what it is made of and its sum are not."""
    scale = p["u"] * 2
    large = scale[:, None] * p["v"]
    return x * large, large.sum(1), scale + x[:, 0]


def several_from_one(p, x):
    return x @ p["w"].T + p["w"].sum(1), p["w"][0] * 3, x * p["w"][1]


CASES = [
    (
        shifted,
        weights(variance=4, gamma=4, beta=4, mean=4),
        (3, 4),
        ["beta+mean+variance+gamma", "variance+gamma"],
    ),
    (gates, weights(w=(5, 8), b=8, c=8), (3, 5), ["b+c_1", "b+c_2", "b+c_3", "w"]),
    (a_large_one_in_the_middle, weights(u=700, v=700), (700, 700), ["u+v", "u_1", "u_2", "v"]),
    (several_from_one, weights(w=(3, 3)), (5, 3), ["w_1", "w_2", "w_3", "w_4"]),
]


def assert_near(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=4e-6, atol=4e-6 * np.abs(b).max())


@pytest.mark.parametrize(
    ("fn", "params", "shape", "names"), CASES, ids=[c[0].__name__ for c in CASES]
)
def test_a_program_that_another_one_reads(fn, params, shape, names, tmp_path):
    x = RNG.standard_normal(shape).astype(np.float32)
    wanted = jax.tree.leaves(fn(params, x))
    bound = converter.to_onnx(fn, [shape], params=params)
    assert_near(run(bound, [x]).values(), wanted)
    assert_near(evaluate(bound.graph, [x]), wanted)
    assert_near(evaluate(bound.graph, [x], params), wanted)
    assert sorted(v.name for v in bound.graph.params) == names  # after what they are made from
    abstract = jax.eval_shape(lambda: params)
    late = converter.to_onnx(fn, [shape], params=abstract)
    late.save(tmp_path / "late.onnx", values=params)
    assert_near(run(ir.load(tmp_path / "late.onnx"), [x]).values(), wanted)
    with pytest.raises(converter.SpecError, match="parameters have no value") as error:
        late.save(tmp_path / "none.onnx")
    assert all(name in str(error.value) for name in params)


def test_a_program_of_many_parameters_has_a_short_name():
    params = {f"w{i}": np.ones(3, np.float32) for i in range(9)}
    export = converter.to_onnx(lambda p, x: x * sum(p.values()), [(3,)], params=params)
    assert [v.name for v in export.graph.params] == ["w0+8_more"]


def test_a_parameter_whose_last_use_disappears(tmp_path):
    norm = nn.RMSNorm()
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    params = norm.init(jax.random.key(0), x)

    def overwritten(params, x):
        return norm.apply(params, x).at[:].set(x * 2)

    (got,) = run(converter.to_onnx(overwritten, [x], params=params), [x]).values()
    np.testing.assert_array_equal(got, x * 2)
    abstract = jax.eval_shape(lambda: params)
    converter.to_onnx(overwritten, [x], params=abstract, path=tmp_path / "needs_no_values.onnx")


def long_and_known(p, x):
    return x + jnp.sum(jnp.sin(jnp.arange(3e7)))


def long_by_a_parameter(p, x):
    return x + jnp.sum(jnp.sin(p[:, None] * jnp.arange(3e4)))


@pytest.mark.parametrize("fn", [long_and_known, long_by_a_parameter])
def test_nothing_large_is_computed_on_the_way(fn):
    """A small result of 120 MB of intermediate ones stays in the graph."""
    tracemalloc.start()
    export = converter.to_onnx(fn, [(3,)], params=np.ones(1000, np.float32))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40e6
    assert export.report.histogram["Sin"] == export.report.histogram["ReduceSum"] == 1
