"""Weight programs: values that depend on parameters alone are computed when the file is saved.

Other nodes and programs may read them too. Files are compared with JAX.
"""

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
    """Apply a formula like the batch norm of Keras, but with twice the mean, so that it is none."""
    inv = lax.rsqrt(p["variance"] + 1e-3) * p["gamma"]
    return x * inv + (p["beta"] - 2 * p["mean"] * inv)


def gates(p, x):
    """Apply gates as in Haiku's GRU, in which several slices read a sum of biases."""
    both = p["b"] + p["c"]
    z, r = jnp.split(x @ p["w"] + both, 2, axis=-1)
    return jax.nn.sigmoid(z + both[:4]) * jnp.tanh(r + both[4:] * both[:4])


def a_large_one_in_the_middle(p, x):
    """Use an outer product that is too large for the file, its factors and its sum."""
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


def assert_near(actual, expected):
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=4e-6, atol=4e-6 * np.abs(b).max())


@pytest.mark.parametrize(
    ("fn", "params", "shape", "names"), CASES, ids=[c[0].__name__ for c in CASES]
)
def test_programs_may_be_read_by_others(fn, params, shape, names, tmp_path):
    x = RNG.standard_normal(shape).astype(np.float32)
    expected = jax.tree.leaves(fn(params, x))
    bound = converter.to_onnx(fn, [shape], params=params)
    assert_near(run(bound, [x]).values(), expected)
    assert_near(evaluate(bound.graph, [x]), expected)
    assert_near(evaluate(bound.graph, [x], params), expected)
    assert sorted(v.name for v in bound.graph.params) == names  # the names of their parameters
    abstract = jax.eval_shape(lambda: params)
    unbound = converter.to_onnx(fn, [shape], params=abstract)
    unbound.save(tmp_path / "late.onnx", values=params)
    assert_near(run(ir.load(tmp_path / "late.onnx"), [x]).values(), expected)
    with pytest.raises(converter.SpecError, match="parameters have no value") as error:
        unbound.save(tmp_path / "none.onnx")
    assert all(name in str(error.value) for name in params)


def test_programs_of_many_parameters_have_short_names():
    params = {f"w{i}": np.ones(3, np.float32) for i in range(9)}
    export = converter.to_onnx(lambda p, x: x * sum(p.values()), [(3,)], params=params)
    assert [v.name for v in export.graph.params] == ["w0+8_more"]


def test_unused_parameters_need_no_values(tmp_path):
    norm = nn.RMSNorm()
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    params = norm.init(jax.random.key(0), x)

    def overwritten(params, x):
        return norm.apply(params, x).at[:].set(x * 2)

    (result,) = run(converter.to_onnx(overwritten, [x], params=params), [x]).values()
    np.testing.assert_array_equal(result, x * 2)
    abstract = jax.eval_shape(lambda: params)
    converter.to_onnx(overwritten, [x], params=abstract, path=tmp_path / "needs_no_values.onnx")


def long_and_known(p, x):
    return x + jnp.sum(jnp.sin(jnp.arange(3e7)))


def long_by_a_parameter(p, x):
    return x + jnp.sum(jnp.sin(p[:, None] * jnp.arange(3e4)))


@pytest.mark.parametrize("fn", [long_and_known, long_by_a_parameter])
def test_programs_with_large_intermediate_values_stay_in_the_graph(fn):
    """A small result that needs 120 MB of intermediate values is computed in the graph."""
    tracemalloc.start()
    export = converter.to_onnx(fn, [(3,)], params=np.ones(1000, np.float32))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40e6
    assert export.report.histogram["Sin"] == export.report.histogram["ReduceSum"] == 1
