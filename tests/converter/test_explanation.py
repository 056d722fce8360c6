"""`converter.explain` lists all obstacles of a function, with their source lines, at once."""

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


def test_all_obstacles_are_listed_with_their_lines():
    explanation = converter.explain(network, [(3,)])
    assert not explanation.is_convertible
    assert explanation.is_complete
    callback, eig = (o for o in explanation.obstacles if "complex" not in o.reason)
    assert callback.reason.startswith("primitive 'pure_callback' (float32[3]) cannot be written")
    assert len(callback.lines) == 1  # the source has one line, which is called twice
    assert "test_explanation.py" in callback.lines[0] and "(first)" in callback.lines[0]
    assert eig.reason.startswith("primitive 'eig'")
    assert str(explanation).count("primitive 'pure_callback'") == 1
    with pytest.raises(converter.UnsupportedError) as raised:
        converter.to_onnx(network, [(3,)])
    assert raised.value.reason == explanation.obstacles[0].reason
    assert str(raised.value).endswith(f"[{explanation.obstacles[0].lines[0]}]")


@since("0.10")
def test_primitives_without_expansion_are_listed():
    """Obstacles with windows of unknown size are listed too."""

    def network(x):
        y = first(x)
        z = lax.linalg.tridiagonal_solve(*[y[0]] * 3, y.T, perturb_singular=True)
        window_sums = lax.reduce_window(x[:, 0], 0.0, lambda a, b: a * b + a, (3,), (1,), "VALID")
        return z.sum(), jnp.linalg.eigvals(z @ z.T), window_sums

    explanation = converter.explain(network, [("B", 3)])
    assert explanation.is_complete
    for name in ("pure_callback", "tridiagonal_solve", "primitive 'eig'", "'reduce_window'"):
        (obstacle,) = [o for o in explanation.obstacles if name in o.reason]
        assert all("test_explanation.py" in line for line in obstacle.lines), obstacle
        assert obstacle.lines, obstacle


def test_convertible_functions_have_no_obstacles():
    def fn(w, x, *, more):
        return (x @ w + more).astype(jnp.float8_e4m3fn).astype(jnp.float32)

    options = {"params": np.ones((3, 2)), "kwargs": {"more": 2}}
    assert str(converter.explain(fn, [("B", 3)], **options)) == "everything can be converted"
    assert not converter.explain(fn, [("B", 3)], opset=18, **options).is_convertible


def test_obstacles_while_tracing_are_reported_as_incomplete():
    def fn(x):
        return first(x), jax.grad(lambda i: (i * 1.0).sum(), allow_int=True)(x.astype(int))

    explanation = converter.explain(fn, [(3,)])
    assert not explanation.is_complete
    assert str(explanation).endswith("later operations were not examined")
