"""Nothing of a user's runs while a function is converted, and checks are left out."""

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify, io_callback
from jax.extend.core import Primitive

import converter
from tests.conformance import Case, assert_exports

X = np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)
TYPE = jax.ShapeDtypeStruct((3, 4), np.float32)


# ------------------------------------------------------------------------------------------ checks


def _checked(x, index=0):
    """None of these is ever raised for ``X``."""
    return eqxi.branched_error_if({"x": x, "n": 3}, jnp.any(x > 99), index, ["one", "two"])["x"] * 2


CHECKS = {
    "plain": _checked,
    "in a branch": lambda x: lax.cond(x[0, 0] > 99, lambda y: _checked(y + 99), jnp.sin, x),
    "of what is known": lambda x: lax.cond(
        x[0, 0] > 99, lambda y: eqx.error_if(y, jnp.arange(3) > 1, "known"), jnp.sin, x
    ),
    "nan": lambda x: eqx.error_if(x, x[0, 0] > -99, "yes", on_error="nan") + 1,
    "while": lambda x: lax.while_loop(lambda c: c.sum() < 50, lambda c: _checked(c) + 9, x),
    "grad": jax.grad(lambda x: (_checked(x) ** 2).sum()),
    "backward_nan": jax.grad(lambda x: jnp.sin(eqx.debug.backward_nan(x)).sum()),
    "checkify": lambda x: checkify.checkify(
        lambda y: (checkify.check(y[0, 0] < 99, "no"), y * 2)[1]
    )(x)[1],
    "a bounded loop": lambda x: eqxi.while_loop(
        lambda c: c.sum() < 50, lambda c: c + 9, x, max_steps=16, kind="bounded"
    ),
}


@pytest.mark.sampled(6)
@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("name", CHECKS)
def test_checks_are_left_out(name):
    assert_exports(Case(name, CHECKS[name]))


def test_it_is_said():
    with pytest.warns(UserWarning, match=r"left out: equinox\.error_if: ") as caught:
        converter.to_onnx(CHECKS["grad"], [X])
    assert len(caught) == 1


# --------------------------------------------------------------------------- what calls a program


def _raises(*_):
    raise AssertionError("something of the user's was executed")


def _primitive(x):
    """It is written by its rule, and cannot be computed here."""
    primitive = Primitive("of_a_user")
    primitive.def_abstract_eval(lambda x: x)
    primitive.def_impl(_raises)
    converter.rule(primitive)(lambda b, x: b.op("Identity", x))
    return primitive.bind(x)


KNOWN = np.ones((3, 4), np.float32)
PLACES = {
    "of a constant": lambda call: lambda x: call(KNOWN) + x,
    "of a computed constant": lambda call: lambda x: call(jnp.sin(jnp.ones((3, 4)))) + x,
    "of a parameter": lambda call: eqx.Partial(lambda w, x: call(w * 2) + x, jnp.ones((3, 4))),
    "in a branch that is known": lambda call: (
        lambda x: lax.cond(jnp.ones(()) > 2, lambda: call(KNOWN), lambda: x)
    ),
    "chosen by a constant": lambda call: lambda x: jnp.where(jnp.ones(()) > 2, call(KNOWN), x),
}
CALLS = {
    "pure_callback": lambda x: jax.pure_callback(_raises, TYPE, x),
    "io_callback": lambda x: io_callback(_raises, TYPE, x),
    "debug.callback": lambda x: (jax.debug.callback(_raises, x), x)[1],
    "a primitive": _primitive,
}


@pytest.mark.sampled(10)
@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_executed(call, place):
    """It is refused, left out or written; what it computes is never asked for."""
    fn = PLACES[place](CALLS[call])
    with converter.extensions():
        explained = converter.explain(fn, [X])
        try:
            converter.to_onnx(fn, [X])
        except converter.Unsupported as error:
            assert "a file cannot call Python" in str(error)
            assert not explained.is_convertible
        else:
            assert explained.is_convertible
