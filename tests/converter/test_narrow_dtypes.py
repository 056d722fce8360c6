"""Dtypes of eight and four bits, on which files can move values but not compute.

`tests/programs/edges.py` has the conversions to these dtypes.
"""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import converter
from tests.programs.edges import NARROW


@pytest.mark.parametrize("target", ["float8_e8m0fnu", "int2"])
def test_dtypes_that_onnx_lacks_are_rejected(target):
    with pytest.raises(converter.UnsupportedError, match="ONNX has no values of dtype"):
        converter.to_onnx(lambda x: x.astype(getattr(jnp, target)).astype(jnp.float32), [(3,)])


COMPUTED = {
    "add": lambda x: x + x,
    "compare": lambda x: x > x[0],
    "where": lambda x: jnp.where(x > 0, x, -x),
    "join": lambda x: jnp.concatenate([x, x]),
    "turn": lambda x: x.reshape(3, 2).T,
    "choose": lambda x: lax.cond(x.astype(jnp.float32)[0] > 0, lambda a: a, lambda a: a, x),
}


@pytest.mark.parametrize("target", NARROW)
@pytest.mark.parametrize("name", COMPUTED)
def test_operations_without_kernels_are_rejected(name, target):
    """A file on dtypes without kernels either agrees with JAX or is refused."""

    def fn(x):
        return COMPUTED[name](x.astype(getattr(jnp, target))).astype(jnp.float32)

    try:
        export = converter.to_onnx(fn, [(6,)])
    except converter.UnsupportedError as error:
        assert "nothing is computed in" in str(error)
    else:
        assert name in ("choose", "turn")
        assert converter.check(export, jax.jit(fn)).passed
