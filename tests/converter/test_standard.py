"""`target="standard"` writes all that ONNX defines, and no runtime's ways round it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax import lax

import converter
from tests.judges.evaluator import evaluate

RNG = np.random.default_rng(3)
LONG = np.array([[2**31, -(2**62) - 1, 7], [-(2**63), 3, -1]])
CELL = eqx.nn.GRUCell(3, 4, key=jax.random.key(0), dtype=jnp.float32)
NORM = eqx.nn.GroupNorm(3, 12)
NORM = eqx.tree_at(lambda n: (n.weight, n.bias), NORM, (jnp.arange(12.0), jnp.arange(12.0) / 3))


def draw(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


def attend(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def swish(x):
    return x * jax.nn.sigmoid(x)


def recur(xs):
    return lax.scan(lambda h, x: (CELL(x, h),) * 2, jnp.zeros(4, jnp.float32), xs)[1]


DOUBLE = np.float64
QKV = [draw(2, 3, n, 8, dtype=DOUBLE) for n in (5, 7, 7)]
ONE = {
    "float64 gelu": (gelu, [draw(3, 5, dtype=DOUBLE)], (20, 26), {"Gelu": 1}),
    "float64 attention": (attend, QKV, (23, 26), {"Attention": 1}),
    "float64 erf": (lax.erf, [draw(3, 5, dtype=DOUBLE)], (17, 26), {"Erf": 1}),
    "groups": (jax.vmap(NORM), [draw(2, 12, 5, 7)], (21, 26), {"GroupNormalization": 1}),
    "swish": (swish, [draw(3, 5)], (24, 25, 26), {"Swish": 1}),
    "int64 sum": (lambda x: x.sum(0), [LONG], (17, 26), {"ReduceSum": 1}),
    "int64 product": (lambda x: x.prod(1), [LONG], (17, 26), {"ReduceProd": 1}),
    "int64 max": (lambda x: x.max(0), [LONG], (17, 26), {"ReduceMax": 1}),
    "int64 sign": (jnp.sign, [LONG], (17, 26), {"Sign": 1}),
    "int64 remainder": (lambda x: lax.rem(x, jnp.int64(-1)), [LONG], (17, 26), {"Mod": 1}),
    "power of uint8": (
        lambda x, y: x**y,
        [draw(3), np.array([5, 3, 200], "u1")],
        (17, 26),
        {"Pow": 1},
    ),
}
"""What is called in what way, and all the operators that it becomes."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "opset"), [(name, opset) for name, row in ONE.items() for opset in row[2]]
)
def test_one_operator(name, opset):
    fn, inputs, _, operators = ONE[name]
    with jax.enable_x64(True):
        export = converter.to_onnx(fn, inputs, target="standard", opset=opset)
        assert export.report.histogram == operators
        model = ir.to_proto(export.model)
        onnx.checker.check_model(model, full_check=True)
        (got,), wanted = evaluate(model, inputs), np.asarray(fn(*map(jnp.asarray, inputs)))
    assert got.dtype == wanted.dtype
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(
            got, wanted, rtol=1e-12 if got.dtype == DOUBLE else 2e-5, atol=1e-6
        )
    else:
        np.testing.assert_array_equal(got, wanted)


def test_a_scale_for_each_group_is_not_written():
    """The GroupNormalization of opset 18 is deprecated: it scales groups, not channels."""
    export = converter.to_onnx(jax.vmap(NORM), [(2, 12, 5, 7)], target="standard", opset=18)
    assert "GroupNormalization" not in export.report.histogram
