"""Wrong decompositions, which the check of a file and the bisection find.

They are compared with JAX's primitives, which the traced graph contains.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.decompose.expansion import decompose
from converter.decompositions.complex import complex_rules as complex_module
from converter.frontend.trace import source_line, trace
from converter.ir import registry
from converter.ir.complex_pairs import Pair
from converter.ir.evaluation import evaluate
from tests.tiers import default_rows

RNG = np.random.default_rng(5)
POSITIVE = np.concatenate([RNG.uniform(0.1, 3, 40), [1e-9, 1e-5]]).astype(np.float32)
MATRIX = RNG.standard_normal((5, 3)).astype(np.float32)

WRONG = {
    "expm1": (jnp.expm1, lambda x: jnp.exp(x) - 1, POSITIVE),
    "log1p": (jnp.log1p, lambda x: jnp.log(1 + x) * (1 + 1e-5), POSITIVE),
    "tan": (jnp.tan, lambda x: jnp.where(x > 2.5, x, jnp.sin(x) / jnp.cos(x)), POSITIVE),
    "cumsum": (lambda x: jnp.cumsum(x, 0), lambda x, *, axis, reverse: x * 1.0, MATRIX),
}
"""By primitive: a function, a decomposition with an error, and the input.

The errors are cancellation, noise, a wrong branch and another function.
"""


@pytest.mark.parametrize("name", default_rows(WRONG, "cumsum", "expm1"))
def test_wrong_decompositions_are_found(name, tmp_path, monkeypatch):
    fn, replacement, x = WRONG[name]
    path = tmp_path / "model.onnx"
    with registry.expansions.restoring():
        converter.expansion(name, ignores=("accuracy",))(replacement)
        export = converter.to_onnx(fn, [x], path=path)
        assert not converter.check(export, fn, [x]).passed
        assert not converter.check(path, fn, [x]).passed
        divergence = converter.bisect(fn, [x])
        assert divergence is not None and divergence.step == "decompose"
        with pytest.raises(converter.CheckError, match="is not what JAX computes"):
            converter.to_onnx(fn, [x], verify=[x])
        if name != "expm1":  # its samples have no numbers that are so small that it cancels
            monkeypatch.setenv("CONVERTER_CHECK", "1")
            with pytest.raises(converter.CheckError, match="after 'decompose'"):
                converter.to_onnx(fn, [x])


def test_wrong_complex_rules_are_found(monkeypatch):
    def wrong_exp(z: Pair) -> Pair:
        return Pair(jnp.exp(z.re) * jnp.cos(z.im), jnp.exp(z.re) * jnp.sin(z.im) * (1 + 1e-4))

    monkeypatch.setitem(complex_module.COMPLEX_RULES, "exp", complex_module.COMPLEX_RULES["exp"])
    complex_module.complex_rule("exp", ignores=("accuracy",))(wrong_exp)
    z = (RNG.standard_normal(9) + 1j * RNG.standard_normal(9)).astype(np.complex64)
    divergence = converter.bisect(jnp.exp, [z])
    assert divergence is not None and divergence.step == "decompose"


COMPLEX = (MATRIX + 1j * MATRIX[::-1]).astype(np.complex64)
KEY = jax.random.key(3)
SQUARE = MATRIX.T @ MATRIX + np.eye(3, dtype=np.float32)

RIGHT = {
    "eigh": (jnp.linalg.eigvalsh, SQUARE),
    "cholesky": (jnp.linalg.cholesky, SQUARE),
    "igamma": (lambda x: jax.scipy.special.gammainc(x, 2 * x), POSITIVE),
    "complex function": (jnp.tanh, COMPLEX),
    "draws": (lambda k: jax.random.normal(k, (5, 3)), KEY),
}


@pytest.mark.each()
@pytest.mark.parametrize("name", RIGHT)
def test_the_traced_graph_agrees_with_jax(name):
    """The traced graph contains JAX's primitives and agrees with JAX in every bit."""
    fn, x = RIGHT[name]
    graph_input = jax.random.key_data(x) if name == "draws" else x
    packed = np.stack([x.real, x.imag], -1) if name == "complex function" else graph_input
    expected = jax.tree.leaves(fn(*jax.device_put([x])))
    for result, reference in zip(evaluate(trace(fn, [x]), [packed]), expected, strict=True):
        reference = np.asarray(reference)
        if np.iscomplexobj(reference):
            reference = np.stack([reference.real, reference.imag], -1)
        np.testing.assert_array_equal(result, reference)


def test_decomposed_nodes_keep_their_source_line():
    def user_function(x):
        return jax.scipy.special.gammainc(x, 2 * x)

    graph = trace(user_function, [POSITIVE])
    lines = {source_line(node) for node in graph.walk()}
    assert decompose(graph)
    assert {source_line(node) for node in graph.walk()} <= lines


def test_references_of_numpy_are_accepted(tmp_path):
    converter.to_onnx(jnp.sin, [MATRIX], path=tmp_path / "model.onnx")
    expected = np.sin(MATRIX)
    for fn in (lambda x: np.sin(np.asarray(x)), lambda x: expected):
        assert converter.check(tmp_path / "model.onnx", fn, [MATRIX]).passed
