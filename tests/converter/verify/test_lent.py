"""In-memory sessions, which run a model without serializing its tensors, compared with JAX."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

import converter
from converter.errors import SaveError
from converter.model.streaming import MAX_INLINE_BYTES
from converter.verify.sessions import iter_sessions, session

TYPES = (np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint16, bool)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_parameters_of_every_dtype_agree_with_jax(dtype):
    """One parameter is used in a product, and one is returned unchanged."""
    rng = np.random.default_rng(0)
    params = {name: (3 * rng.standard_normal((40, 40))).astype(dtype) for name in ("used", "given")}
    assert params["used"].nbytes > MAX_INLINE_BYTES

    def fn(params, x):
        return x @ params["used"].astype(np.float32), params["given"]

    export = converter.to_onnx(fn, [("n", 40)], params=params, opset=23)
    x = rng.standard_normal((3, 40)).astype(np.float32)
    assert converter.check(export, lambda x: fn(params, x)).passed
    assert converter.check(export.model, lambda x: fn(params, x), [x]).passed


def test_a_session_outlives_its_model():
    """The session keeps the arrays that it refers to."""
    weight = np.full((64, 64), 0.5, np.float32)

    def fn(p, x):
        return x @ p

    exports = (converter.to_onnx(fn, [(1, 64)], params=weight.copy()) for _ in range(20))
    sessions = [session(export) for export in exports]
    ones = np.ones((1, 64), np.float32)
    for loaded_session in sessions:
        (actual,) = loaded_session.run(None, {loaded_session.get_inputs()[0].name: ones})
        np.testing.assert_array_equal(actual, np.full((1, 64), 32, np.float32))


def test_errors_of_weight_programs_are_raised():
    params = {"w": np.ones((40, 40), np.float32), "scale": np.ones(40, np.float32)}
    export = converter.to_onnx(lambda p, x: (x @ p["w"]) * p["scale"], [(2, 40)], params=params)
    params["scale"][:] = np.inf
    with pytest.raises(SaveError, match="fold=False"):
        session(export)


def test_dtypes_that_numpy_lacks_agree():
    """Tensors with a dtype that numpy lacks are serialized with the model."""
    values = (np.arange(4096).reshape(64, 64) % 16).astype(np.uint8)
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 21]> g () => (float[64, 64] y) {y = Cast<to=1>(w)}',
        initializers=[ir.tensor(values, dtype=ir.DataType.UINT4, name="w")],
    )
    (actual,) = session(model).run(None, {})
    np.testing.assert_array_equal(actual, values)


def test_threads_of_compared_sessions_do_not_spin():
    """Spinning threads would take several times the processor time of the tests' small models."""
    export = converter.to_onnx(jnp.square, [(3,)])
    for _, live_session in iter_sessions(export):
        options = live_session.get_session_options()
        assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
