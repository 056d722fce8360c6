"""A decomposition is judged by JAX's own primitive, not by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.decompose.expansion import decompose
from converter.decompositions.complex import complex_rules as of_complex
from converter.frontend.trace import source_line, trace
from converter.ir import registry
from converter.ir.complex_pairs import Pair
from converter.ir.evaluation import evaluate
from tests.tiers import default_rows

RNG = np.random.default_rng(5)
ORDINARY = np.concatenate([RNG.uniform(0.1, 3, 40), [1e-9, 1e-5]]).astype(np.float32)
MATRIX = RNG.standard_normal((5, 3)).astype(np.float32)

WRONG = {
    "expm1": (jnp.expm1, lambda x: jnp.exp(x) - 1, ORDINARY),
    "log1p": (jnp.log1p, lambda x: jnp.log(1 + x) * (1 + 1e-5), ORDINARY),
    "tan": (jnp.tan, lambda x: jnp.where(x > 2.5, x, jnp.sin(x) / jnp.cos(x)), ORDINARY),
    "cumsum": (lambda x: jnp.cumsum(x, 0), lambda x, *, axis, reverse: x * 1.0, MATRIX),
}
"""Decompositions that cancel, are noisy, wrong in a branch or something else."""


@pytest.mark.parametrize("name", default_rows(WRONG, "cumsum", "expm1"))
def test_a_wrong_decomposition_is_refused(name, tmp_path, monkeypatch):
    fn, instead, x = WRONG[name]
    path = tmp_path / "model.onnx"
    with registry.expansions.restoring():
        converter.expansion(name, ignores=("accuracy",))(instead)
        export = converter.to_onnx(fn, [x], path=path)
        assert not converter.check(export, fn, [x]).passed
        assert not converter.check(path, fn, [x]).passed
        found = converter.bisect(fn, [x])
        assert found is not None and found.step == "decompose"
        with pytest.raises(converter.CheckError, match="is not what JAX computes"):
            converter.to_onnx(fn, [x], verify=[x])
        if name != "expm1":  # No number as small as those at which it cancels is drawn.
            monkeypatch.setenv("CONVERTER_CHECK", "1")
            with pytest.raises(converter.CheckError, match="after 'decompose'"):
                converter.to_onnx(fn, [x])


def test_complex_numbers_are_decomposed_by_the_pass(monkeypatch):
    def wrong(z: Pair) -> Pair:
        return Pair(jnp.exp(z.re) * jnp.cos(z.im), jnp.exp(z.re) * jnp.sin(z.im) * (1 + 1e-4))

    monkeypatch.setitem(of_complex.COMPLEX_RULES, "exp", of_complex.COMPLEX_RULES["exp"])
    of_complex.complex_rule("exp", ignores=("accuracy",))(wrong)
    z = (RNG.standard_normal(9) + 1j * RNG.standard_normal(9)).astype(np.complex64)
    found = converter.bisect(jnp.exp, [z])
    assert found is not None and found.step == "decompose"


COMPLEX = (MATRIX + 1j * MATRIX[::-1]).astype(np.complex64)
KEY = jax.random.key(3)
SQUARE = MATRIX.T @ MATRIX + np.eye(3, dtype=np.float32)

RIGHT = {
    "eigh": (jnp.linalg.eigvalsh, SQUARE),
    "cholesky": (jnp.linalg.cholesky, SQUARE),
    "igamma": (lambda x: jax.scipy.special.gammainc(x, 2 * x), ORDINARY),
    "complex function": (jnp.tanh, COMPLEX),
    "draws": (lambda k: jax.random.normal(k, (5, 3)), KEY),
}


@pytest.mark.each()
@pytest.mark.parametrize("name", RIGHT)
def test_the_traced_graph_is_jax(name):
    """Bit by bit: it holds JAX's own primitives, and each is one."""
    fn, x = RIGHT[name]
    given = jax.random.key_data(x) if name == "draws" else x
    packed = np.stack([x.real, x.imag], -1) if name == "complex function" else given
    wanted = jax.tree.leaves(fn(*jax.device_put([x])))
    for result, want in zip(evaluate(trace(fn, [x]), [packed]), wanted, strict=True):
        want = np.asarray(want)
        if np.iscomplexobj(want):
            want = np.stack([want.real, want.imag], -1)
        np.testing.assert_array_equal(result, want)


def test_what_is_decomposed_comes_from_the_line_that_it_stands_for():
    def mine(x):
        return jax.scipy.special.gammainc(x, 2 * x)

    graph = trace(mine, [ORDINARY])
    lines = {source_line(node) for node in graph.walk()}
    assert decompose(graph)
    assert {source_line(node) for node in graph.walk()} <= lines


def test_a_function_that_is_not_jax_is_judged_by_its_largest_element(tmp_path):
    converter.to_onnx(jnp.sin, [MATRIX], path=tmp_path / "model.onnx")
    wanted = np.sin(MATRIX)
    for fn in (lambda x: np.sin(np.asarray(x)), lambda x: wanted):
        assert converter.check(tmp_path / "model.onnx", fn, [MATRIX]).passed
