"""All that stands in the way is said at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from tests.since import since


def first(x):
    return jax.pure_callback(np.sin, x, x)


def network(x):
    y = first(x) + first(x * 2)
    z = lax.scan(lambda c, _: (jnp.linalg.eig(jnp.outer(c, c))[0].real, None), y, length=2)[0]
    return jnp.tanh(z) + lax.population_count(x.astype(jnp.int32))


def test_everything_is_named_with_its_lines():
    told = converter.explain(network, [(3,)])
    assert not told.is_convertible
    assert told.is_complete
    callback, eig = (o for o in told.obstacles if "complex" not in o.reason)
    assert callback.reason.startswith("primitive 'pure_callback' (float32[3]) cannot be written")
    assert len(callback.lines) == 1  # written once, called twice
    assert "test_explanation.py" in callback.lines[0] and "(first)" in callback.lines[0]
    assert eig.reason.startswith("primitive 'eig'")
    assert str(told).count("primitive 'pure_callback'") == 1
    with pytest.raises(converter.UnsupportedError) as raised:
        converter.to_onnx(network, [(3,)])
    assert raised.value.reason == told.obstacles[0].reason
    assert str(raised.value).endswith(f"[{told.obstacles[0].lines[0]}]")


@since("0.10")
def test_what_no_expansion_can_say_is_among_all_others():
    """Windows of unknown size too."""

    def network(x):
        y = first(x)
        z = lax.linalg.tridiagonal_solve(*[y[0]] * 3, y.T, perturb_singular=True)
        grown = lax.reduce_window(x[:, 0], 0.0, lambda a, b: a * b + a, (3,), (1,), "VALID")
        return z.sum(), jnp.linalg.eigvals(z @ z.T), grown

    told = converter.explain(network, [("B", 3)])
    assert told.is_complete
    for name in ("pure_callback", "tridiagonal_solve", "primitive 'eig'", "'reduce_window'"):
        (found,) = [o for o in told.obstacles if name in o.reason]
        assert all("test_explanation.py" in line for line in found.lines), found
        assert found.lines, found


def test_what_can_be_converted():
    def fn(w, x, *, more):
        return (x @ w + more).astype(jnp.float8_e4m3fn).astype(jnp.float32)

    how = {"params": np.ones((3, 2)), "kwargs": {"more": 2}}
    assert str(converter.explain(fn, [("B", 3)], **how)) == "everything can be converted"
    assert not converter.explain(fn, [("B", 3)], opset=18, **how).is_convertible


def test_what_is_refused_while_tracing_is_said_to_be_the_first_only():
    def fn(x):
        return first(x), jax.grad(lambda i: (i * 1.0).sum(), allow_int=True)(x.astype(int))

    told = converter.explain(fn, [(3,)])
    assert not told.is_complete
    assert str(told).endswith("later operations were not examined")
