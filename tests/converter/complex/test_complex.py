"""Every primitive of complex numbers, against JAX; parameters, inputs and outputs of files."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax import lax

import converter
from tests.converter.complex.test_complex_functions import normal

X, Y, M = normal(4, 5), normal(4, 5), normal(5, 3)
ROWS = np.array([2, 0, 2], np.int32)


def arithmetic(x, y):
    return (
        *(x + y, x - y, x * y, x / y, -x, x**y, x**3, x**-2, jnp.conj(x), x.real, x.imag),
        *(jnp.angle(x), jnp.abs(x), x == y, x != x, 2 * x, 1j * x, x / 2, 1 / x, jnp.sign(x)),
        *(jnp.isfinite(x), jnp.maximum(x, y), jnp.minimum(x, y), jnp.where(x.real > 0, x, y)),
        *(x.real.astype(np.complex64), jnp.sinc(x), jnp.logaddexp(x, y)),
        *(jnp.exp(1j * x.real), jnp.unwrap(jnp.angle(x)), jnp.square(x), jnp.nan_to_num(x)),
        *(jnp.polyval(x[0], y), jnp.linspace(x[0, 0], x[1, 1], 5), lax.iota(np.complex64, 5) * x),
        *(lax.bitcast_convert_type(x, np.complex64), jax.device_put(x), lax.stop_gradient(x)),
    )


def moves(x, i):
    return (
        *(x.T, x.reshape(2, 10), x[1:3, ::2], x[i], x[:, i], x.at[i + 3].get(mode="fill")),
        *(x.at[i + 3].get(mode="clip"), x.at[i + 3].get(mode="fill", fill_value=1 + 2j)),
        *(jnp.flip(x, 1), jnp.pad(x, 1), jnp.concatenate([x, x[:1]]), jnp.tile(x, (2, 1))),
        *(jnp.repeat(x, 2, 0), jnp.stack([x, 2 * x]), lax.dynamic_slice(x, (i[0], i[1]), (2, 2))),
        *(lax.dynamic_update_slice(x, x[:2, :2], (i[1], i[0])), x.at[i].set(x[:3])),
        *(x.at[i].add(x[:3]), x.at[i].multiply(x[:3]), x.at[i].subtract(x[:3]), x[None]),
        *(jnp.roll(x, 1, 1), jnp.squeeze(x[:1]), jnp.broadcast_to(x, (2, 4, 5)), jnp.tril(x)),
        *(jnp.diag(x[:, 0]), jnp.split(x, 2), jnp.unstack(x), jnp.copy(x)),
    )


STARTS = np.array([0, 1, -np.inf, np.inf], np.complex64)
WINDOWS = tuple(zip((lax.add, lax.mul, lax.max, lax.min), STARTS, strict=True))


def reductions(x):
    ties = jnp.round(x[:, 0].real) + 0j
    return (
        *(x.sum(), x.sum(0), x.mean(1), x.prod(0), x.prod(), jnp.cumsum(x, 1), jnp.std(x, 0)),
        *(jnp.cumprod(x, 0), lax.cumsum(x, 0, reverse=True), lax.cummax(x, 0), lax.cummin(x, 1)),
        *(jnp.max(x, 0), jnp.min(x), jnp.sort(x, 0), jnp.argsort(x, 1), jnp.linalg.norm(x)),
        *(lax.sort((ties, x[:, 1]), num_keys=2), jnp.var(x), jnp.nansum(x), jnp.trace(x @ x.T)),
        *(lax.reduce_window(x, z, op, (2, 2), (1, 1), "SAME") for op, z in WINDOWS),
        lax.reduce(x, np.complex64(1j), lambda a, b: a * b + 0 * a, (0,)),
        *(jnp.count_nonzero(x), jnp.any(x), jnp.prod(x[:0], 0)),
    )


def products(x, m, y):
    kernel = y[None, :3].transpose(1, 0, 2)
    return (
        *(x @ m, jnp.einsum("ij,jk->ki", x, m), jnp.vdot(x, y), jnp.inner(x, y), x @ m.real),
        *(jnp.outer(x[0], y[1]), jnp.tensordot(x, y, 2), jnp.kron(x[:2, :2], y[:2, :2])),
        *(jnp.linalg.matrix_power(x[:, :4], 3), jnp.convolve(x[0], y[1]), x.real @ (m.real + 0j)),
        lax.conv_general_dilated(x[None], kernel.repeat(4, 1), (1,), "SAME"),
    )


def control(x):
    def until_large(z):
        return lax.while_loop(lambda a: jnp.abs(a) < 10, lambda a: a * (2 + 1j), z)

    return (
        lax.scan(lambda a, b: (a * b + 1j, a), x[0], x),
        lax.fori_loop(0, 3, lambda k, a: a * 1j + k, x),
        lax.cond(x[0, 0].real > 0, lambda a: a * 2, lambda a: a + 1j, x),
        lax.switch(jnp.argmax(x[0].real) % 2, [lambda a: a, jnp.conj], x),
        jax.vmap(until_large)(x[:, 0]),
        lax.map(lambda row: row * row[0], x),
    )


def derivatives(x):
    return (
        jax.grad(lambda z: jnp.abs(jnp.fft.fft(z)).sum())(x),
        jax.vmap(jax.grad(lambda z: jnp.exp(z).imag))(x[:, 0]),
        jax.vmap(lambda z: z * x, in_axes=1, out_axes=2)(x[None]),
        jax.grad(lambda z: (jnp.sin(z) ** 2).sum(), holomorphic=True)(x),
        jax.jvp(jnp.fft.irfft, (x,), (x * 1j,))[1],
    )


FAMILIES = {
    "arithmetic": (arithmetic, (X, Y)),
    "moves": (moves, (X, ROWS)),
    "reductions": (reductions, (X,)),
    "products": (products, (X, M, Y)),
    "control": (control, (X,)),
    "derivatives": (derivatives, (X[:2, :3],)),
}
"""What `test_transformations.py` tries in every way."""


@pytest.mark.full
def test_complex_parameters_have_their_names(tmp_path):
    """Given with the module or when the file is saved, complex or as the file has them."""
    layer = eqx.nn.Linear(3, 4, dtype=np.complex64, key=jax.random.key(0))
    x = normal(2, 3).real
    export = converter.to_onnx(jax.vmap(layer), [("B", 3)])
    assert converter.check(export, jax.vmap(layer), [x]).passed
    assert {v.name.split("_")[0] for v in export.graph.params} == {"weight", "bias"}
    shapes = eqx.filter_eval_shape(lambda: layer)
    late = converter.to_onnx(lambda p, x: jax.vmap(p)(x), [("B", 3)], params=shapes)
    parts = np.stack([layer.bias.real, layer.bias.imag], -1)
    for bias in (layer.bias, parts):
        late.save(tmp_path / "late.onnx", {"weight": layer.weight, "bias": bias})
        assert converter.check(tmp_path / "late.onnx", jax.vmap(layer), [x]).passed
    message = r"parameter weight is float32\[4,3,2\], received complex64\[4\]"
    with pytest.raises(converter.SpecError, match=message):
        late.save(tmp_path / "late.onnx", {"weight": layer.bias, "bias": layer.bias})


def test_inputs_and_outputs_are_real_in_the_file(tmp_path):
    def fn(z, tree):
        return {"sum": z + tree["a"], "size": jnp.abs(z)}

    z = normal(2, 3)
    specs = [(("B", 3), "complex64"), {"a": ((3,), np.complex64)}]
    converter.to_onnx(fn, specs, path=tmp_path / "m.onnx")
    graph = ir.load(tmp_path / "m.onnx").graph
    types = {v.name: (v.dtype, [str(d) for d in v.shape]) for v in (*graph.inputs, *graph.outputs)}
    assert types["z"] == types["sum"] == (ir.DataType.FLOAT, ["B", "3", "2"])
    assert types["tree.a"] == (ir.DataType.FLOAT, ["3", "2"])
    assert types["size"] == (ir.DataType.FLOAT, ["B", "3"])
    found = converter.run(tmp_path / "m.onnx", [z, z[0]])
    assert np.array_equal(found["sum"][..., 1], (z + z[0]).imag)


def test_known_reals_are_real():
    """Scales, means and real operands cost two products or one, not four; a turn is recognised."""

    def counted(fn, *shape):
        return converter.to_onnx(fn, [(shape, np.complex64)]).report.histogram

    assert counted(lambda z: z / 2, 3, 4)["Div"] == 2
    assert "Mul" not in counted(lambda z: z / 2, 3, 4)
    assert counted(lambda z: z * z.real, 3, 4)["Mul"] == 2
    assert counted(lambda z: z @ (z.real.T + 0j), 3, 4)["MatMul"] == 2
    assert counted(lambda z: jnp.fft.fft(z.real), 3, 4)["MatMul"] == 1
    assert counted(jnp.fft.fft, 3, 4) == {"MatMul": 1, "Reshape": 2}


@pytest.mark.full
def test_rotary_embeddings_written_with_complex_numbers():
    """As Llama's: pairs as complex numbers, turned by known ones."""
    turns = jnp.exp(1j * jnp.outer(jnp.arange(6.0), 100.0 ** (-jnp.arange(4) / 4)))

    def turned(x):
        pairs = lax.complex(x[..., ::2], x[..., 1::2]) * turns
        return jnp.stack([pairs.real, pairs.imag], -1).reshape(x.shape)

    export = converter.to_onnx(turned, [(2, 3, 6, 8)])
    assert export.report.fused["RotaryEmbedding"] == 1
    assert converter.check(export, turned, [normal(2, 3, 6, 8).real]).passed


@pytest.mark.full
def test_in_double_precision():
    with jax.enable_x64(True):
        z = (normal(3, 8) + 1e-9 * normal(3, 8)).astype(np.complex128)

        def fn(z):
            return jnp.fft.fft(z), jnp.log(z), z**z, z / z[::-1], jnp.tanh(z), z @ z.T

        export = converter.to_onnx(fn, [((3, 8), np.complex128)], opset=17)
        assert converter.check(export, fn, [z]).passed
        assert export.model.graph.inputs[0].dtype == ir.DataType.DOUBLE
    narrow = converter.to_onnx(jnp.exp, [((3, 8), np.complex128)])
    assert narrow.model.graph.inputs[0].dtype == ir.DataType.DOUBLE
    assert narrow.model.graph.outputs[0].dtype == ir.DataType.FLOAT
