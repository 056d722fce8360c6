"""Complex parameters, inputs and outputs of files."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest

import converter
from tests.programs.complex_numbers import normal


def test_complex_parameters_have_their_names(tmp_path):
    """Complex parameters come with the module or when the file is saved, as numbers or as parts."""
    layer = eqx.nn.Linear(3, 4, dtype=np.complex64, key=jax.random.key(0))
    x = normal(2, 3).real
    export = converter.to_onnx(jax.vmap(layer), [("B", 3)])
    assert converter.check(export, jax.vmap(layer), [x]).passed
    assert {v.name.split("_")[0] for v in export.graph.params} == {"weight", "bias"}
    shapes = eqx.filter_eval_shape(lambda: layer)
    unbound = converter.to_onnx(lambda p, x: jax.vmap(p)(x), [("B", 3)], params=shapes)
    parts = np.stack([layer.bias.real, layer.bias.imag], -1)
    for bias in (layer.bias, parts):
        unbound.save(tmp_path / "late.onnx", {"weight": layer.weight, "bias": bias})
        assert converter.check(tmp_path / "late.onnx", jax.vmap(layer), [x]).passed
    message = r"parameter weight is float32\[4,3,2\], received complex64\[4\]"
    with pytest.raises(converter.SpecError, match=message):
        unbound.save(tmp_path / "late.onnx", {"weight": layer.bias, "bias": layer.bias})


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
    outputs = converter.run(tmp_path / "m.onnx", [z, z[0]])
    assert np.array_equal(outputs["sum"][..., 1], (z + z[0]).imag)


def test_complex128_has_double_precision():
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
