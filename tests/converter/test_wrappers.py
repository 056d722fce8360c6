"""Calls that are left out with a warning or refused with a reason, such as callbacks.

A conversion never runs code of users.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.extend.core import Primitive
from jax.sharding import AbstractMesh, AxisType

import converter
from tests.programs import calls
from tests.programs.calls import X, sharded

TYPE = jax.ShapeDtypeStruct((3, 4), np.float32)


@pytest.mark.parametrize("name", calls.DROPPED | calls.UNCOMPILED)
def test_calls_without_effect_are_left_out_with_a_warning(name):
    """Calls without effect on the result are left out, with one warning for all of them."""
    fn = (calls.DROPPED | calls.UNCOMPILED)[name]
    with pytest.warns(UserWarning, match=rf"left out: jax\..*{name}: ") as caught:
        export = converter.to_onnx(fn, [X])
    assert len(caught) == 1
    assert set(export.report.histogram) <= {"Add"}
    (actual,) = converter.run(export, [X]).values()
    np.testing.assert_allclose(actual, fn(jnp.asarray(X)), rtol=1e-6)


REFUSED = {
    "eig": (jnp.linalg.eig, "use jnp.linalg.eigh"),
    "schur": (jsl.schur, "use jnp.linalg.eigh"),
    "hessenberg": (jsl.hessenberg, "compute it before the export"),
    "tridiagonal": (lax.linalg.tridiagonal, "use jnp.linalg.eigh"),
    "new_ref": (lambda x: jax.new_ref(x)[...], "return the new array instead"),
    "rng_uniform": (lambda x: x + lax.rng_uniform(0.0, 1.0, (4, 4)), "use jax.random"),
    "io_callback": (lambda x: (io_callback(print, None, x), x)[1], "a file cannot call Python"),
    "pure_callback": (lambda x: jax.pure_callback(np.sin, x, x), "a file cannot call Python"),
    "scatter-max of complex numbers": (lambda x: (x + 1j).at[0].max(x[0] + 1j), ""),
    "shard_map": (
        sharded(lambda x: 2 * x, mesh=AbstractMesh((2,), ("d",), axis_types=(AxisType.Auto,))),
        "a file is for one device",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_calls_are_refused_with_a_reason(name):
    fn, reason = REFUSED[name]
    with pytest.raises(
        converter.UnsupportedError, match=f"primitive '{name}'.*{reason}.*test_wrappers"
    ):
        converter.to_onnx(lambda x: fn(x), [(4, 4)])


def test_checks_of_equinox_are_left_out_with_a_warning():
    with pytest.warns(UserWarning, match=r"left out: equinox\.error_if: ") as caught:
        converter.to_onnx(calls.CHECKS["grad"], [X])
    assert len(caught) == 1


# ------------------------------------------------------------------------------- code of users


def _raises(*_):
    raise AssertionError("the conversion ran code of the user")


def _call_user_primitive(x):
    """Bind a primitive that has a rule, and whose implementation raises an error."""
    primitive = Primitive("of_a_user")
    primitive.def_abstract_eval(lambda x: x)
    primitive.def_impl(_raises)
    converter.rule(primitive)(lambda b, x: b.op("Identity", x))
    return primitive.bind(x)


CONSTANT = np.ones((3, 4), np.float32)
CONTEXTS = {
    "of a constant": lambda call: lambda x: call(CONSTANT) + x,
    "of a computed constant": lambda call: lambda x: call(jnp.sin(jnp.ones((3, 4)))) + x,
    "of a parameter": lambda call: eqx.Partial(lambda w, x: call(w * 2) + x, jnp.ones((3, 4))),
    "in a branch that is known": lambda call: (
        lambda x: lax.cond(jnp.ones(()) > 2, lambda: call(CONSTANT), lambda: x)
    ),
    "chosen by a constant": lambda call: lambda x: jnp.where(jnp.ones(()) > 2, call(CONSTANT), x),
}
CALLS = {
    "pure_callback": lambda x: jax.pure_callback(_raises, TYPE, x),
    "io_callback": lambda x: io_callback(_raises, TYPE, x),
    "debug.callback": lambda x: (jax.debug.callback(_raises, x), x)[1],
    "a primitive": _call_user_primitive,
}


@pytest.mark.each("call", "context")
@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("call", CALLS)
def test_code_of_users_is_not_executed(call, context):
    """A call of user code is refused, left out or lowered by its rule, but not executed."""
    fn = CONTEXTS[context](CALLS[call])
    with converter.extensions():
        explanation = converter.explain(fn, [X])
        try:
            converter.to_onnx(fn, [X])
        except converter.UnsupportedError as error:
            assert "a file cannot call Python" in str(error)
            assert not explanation.is_convertible
        else:
            assert explanation.is_convertible
