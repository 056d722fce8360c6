"""Weight folding of factors and shifts by parameters around linear operations.

Folded programs have no more nodes than the linear operation alone, and agree with JAX. Near misses
keep their factor.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.verify.sessions import run

B, N, D, H, K = 2, 3, 5, 4, 6


@dataclass(frozen=True)
class Linear:
    """An operation that is linear in ``w``.

    ``x`` and ``w`` are the shapes of its operands, and ``features`` are the axes of its result that
    ``w`` has too.
    """

    fn: Callable[[Any, Any], Any]
    x: tuple[int, ...]
    w: tuple[int, ...]
    features: tuple[int, ...]

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a seeded input and seeded weights."""
        rng = np.random.default_rng(7)
        w, x = (rng.standard_normal(shape, np.float32) for shape in (self.w, self.x))
        return x, w

    def factors(self, axes: tuple[int, ...], seed: int) -> np.ndarray:
        """Return numbers that differ along these axes of the result; none is near one or zero."""
        rng, out = np.random.default_rng(seed), jax.eval_shape(self.fn, *self.arrays()).shape
        shape = [d if i in axes else 1 for i, d in enumerate(out)] if axes else []
        return (rng.choice([-1, 1], shape) * rng.uniform(1.5, 4, shape)).astype(np.float32)

    def params(self, axes: tuple[int, ...]) -> dict[str, np.ndarray]:
        """Return weights, a bias, a factor along these axes and a shift, by name."""
        names = {"b": self.features, "t": self.features, "s": axes}
        parts = {name: self.factors(axis, seed) for seed, (name, axis) in enumerate(names.items())}
        return {"w": self.arrays()[1], **parts}


LINEAR = {
    "matrix": Linear(lambda x, w: x @ w, (B, N, D), (D, K), (2,)),
    "turned": Linear(lambda x, w: x @ w.T, (B, N, D), (K, D), (2,)),
    "vector": Linear(lambda x, w: w @ x, (D,), (K, D), (0,)),
    "left": Linear(lambda x, w: w @ x, (D, N), (K, D), (0,)),
    "heads": Linear(partial(jnp.einsum, "bnd,dhk->bhnk"), (B, N, D), (D, H, K), (1, 3)),
    "experts": Linear(partial(jnp.einsum, "bnd,bdk->bnk"), (B, N, D), (B, D, K), (0, 2)),
    "split": Linear(
        lambda x, w: (x @ w).reshape(B, N, H, K).swapaxes(1, 2), (B, N, D), (D, H * K), (1, 3)
    ),
    "part": Linear(lambda x, w: (x @ w)[..., 2:6], (B, N, D), (D, 8), (2,)),
    "joined": Linear(
        lambda x, w: jnp.concatenate([x @ w, jnp.sin(x) @ (w * 2)], 1), (B, N, D), (D, K), (2,)
    ),
    "gated": Linear(lambda x, w: jnp.tanh(x[..., :1]) * (x @ w), (B, N, D), (D, K), (2,)),
    "convolution": Linear(
        lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"), (B, D, 7, 9), (K, D, 3, 2), (1,)
    ),
}
SCALES = {
    "times": lambda y, s: y * s,
    "reversed": lambda y, s: s * y,
    "divided": lambda y, s: y / s,
}


@pytest.mark.each("scale")
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", LINEAR)
def test_factors_and_shifts_are_folded_into_weights(name, scale):
    """Folding works with a bias before the factor and without, for each choice of factor axes."""
    linear, scaled = LINEAR[name], SCALES[scale]
    x, _ = linear.arrays()

    def plain(p: Any, x: Any) -> Any:
        return linear.fn(x, p["w"])

    def biased(p: Any, x: Any) -> Any:
        return plain(p, x) + p["b"]

    for axes in ((), linear.features[-1:], linear.features):
        params = linear.params(axes)
        for linear_part, has_shift in ((plain, False), (biased, True)):

            def fn(
                p: Any, x: Any, linear_part: Any = linear_part, has_shift: bool = has_shift
            ) -> Any:
                y = scaled(linear_part(p, x), p["s"])
                return y - p["t"] if has_shift else y

            export = converter.to_onnx(fn, [x], params=params, verify=[x])
            bare = converter.to_onnx(linear_part, [x], params=params)
            assert export.report.histogram == bare.report.histogram, axes
            assert {"w", "w_1"} & {*export.model.graph.initializers}


HEADS = LINEAR["heads"]
MISSES = {
    "read twice": lambda p, x: (HEADS.fn(x, p["w"]) * p["s"], jnp.sin(HEADS.fn(x, p["w"]))),
    "not linear": lambda p, x: jnp.tanh(HEADS.fn(x, p["w"])) * p["s"],
    "weights read twice": lambda p, x: (
        HEADS.fn(x, p["w"]) * p["s"],
        jnp.cos(HEADS.fn(jnp.sin(x), p["w"])),
    ),
    "another axis": lambda p, x: HEADS.fn(x, p["w"]) * HEADS.factors((2,), 4),
    "data": lambda p, x: HEADS.fn(x, p["w"]) * x[:, :, None, :1].swapaxes(1, 2),
}


@pytest.mark.parametrize("name", MISSES)
def test_near_misses_keep_their_factor(name):
    (x, _), params = HEADS.arrays(), HEADS.params(HEADS.features)
    export = converter.to_onnx(MISSES[name], [x], params=params, verify=[x])
    assert export.report.histogram["Mul"] == 1


def block(p: dict[str, Any], x: Any) -> Any:
    """Apply attention with its scale, and LayerScale before the residual.

    Vision transformers have such blocks.
    """
    q, k, v = (x @ p["qkv"] + p["qkv_bias"]).reshape(N, 3, 2, D).transpose(1, 2, 0, 3)
    scores = jax.nn.softmax(q @ k.transpose(0, 2, 1) * D**-0.5, -1)
    y = (scores @ v).transpose(1, 0, 2).reshape(N, 2 * D)
    return x + (y @ p["proj"].T + p["bias"]) * p["gamma"]


SHAPES = {"qkv": (K, 6 * D), "qkv_bias": (6 * D,), "proj": (K, 2 * D), "bias": (K,), "gamma": (K,)}


def test_weights_bound_at_saving_are_folded(tmp_path):
    rng = np.random.default_rng(5)
    params = {k: rng.uniform(-2, 2, shape).astype(np.float32) for k, shape in SHAPES.items()}
    abstract = {k: jax.ShapeDtypeStruct(v.shape, v.dtype) for k, v in params.items()}
    x = rng.standard_normal((N, K)).astype(np.float32)
    export = converter.to_onnx(block, [x], params=abstract, opset=18)
    assert not {"Mul", "Div"} & {*export.report.histogram}
    assert {"qkv", "qkv_bias", "proj", "bias"} < {*export.model.graph.initializers}
    assert "gamma" not in export.model.graph.initializers
    export.save(tmp_path / "block.onnx", values=params)
    verdict = converter.check(tmp_path / "block.onnx", partial(block, params), [x])
    assert verdict.passed, verdict.differences
    unfolded = converter.to_onnx(block, [x], params=params, opset=18, fold=False)
    assert unfolded.report.histogram["Mul"] == 2
    assert {*SHAPES} < {*unfolded.model.graph.initializers}


@pytest.mark.parametrize("name", ["matrix", "convolution"])
def test_large_shifts_are_not_merged(name):
    """Adding and then subtracting a large number rounds, so the two shifts are not merged."""
    (x, w), large = LINEAR[name].arrays(), np.float32(1.5 * 2**23)
    export = converter.to_onnx(lambda p, x: LINEAR[name].fn(x, p) + large - large, [x], params=w)
    (actual,) = run(export, [x]).values()
    np.testing.assert_array_equal(actual, np.round(actual))


SCALED = {
    "product": (lambda y, s: y * s, np.inf),
    "quotient": (lambda y, s: y / s, 0.0),
    "root": (lambda y, s: y / jnp.sqrt(s + 0.25), -0.25),
}
"""By name: a way of scaling, and the scale that would make the folded weights infinite.

A product with infinite weights is NaN where JAX computes an infinity.
"""


@pytest.mark.parametrize("name", SCALED)
def test_scales_that_give_infinite_weights_are_not_folded(name, tmp_path):
    """Scales that would make infinite weights are not folded.

    If the scale has no value at conversion, a plain divisor is not folded either. The scale is
    checked again when other values are saved. NaN gives NaN, folded or not.
    """
    rng, (scaled, value) = np.random.default_rng(3), SCALED[name]
    ones, path = np.ones(K, np.float32), tmp_path / "model.onnx"
    finite = {"w": rng.standard_normal((D, K), np.float32), "s": ones}
    wrong, nan = ({**finite, "s": np.where(np.arange(K) == 1, n, ones)} for n in (value, np.nan))
    wrong, nan = (jax.tree.map(np.float32, params) for params in (wrong, nan))
    abstract = {k: jax.ShapeDtypeStruct(v.shape, v.dtype) for k, v in finite.items()}
    x = rng.standard_normal((N, D), np.float32)

    def fn(p: Any, x: Any) -> Any:
        return scaled(x @ p["w"], p["s"])

    def exported(params: Any) -> converter.Export:
        return converter.to_onnx(fn, [x], params=params)

    folded, unbound = exported(finite), exported(abstract)
    assert folded.report.histogram == {"MatMul": 1}
    assert exported({**wrong, "w": abstract["w"]}).report.histogram != {"MatMul": 1}
    assert converter.check(exported(wrong), partial(fn, wrong), [x]).passed
    folded.save(path, values=nan)
    assert converter.check(path, partial(fn, nan), [x]).passed
    path.unlink()
    if name == "quotient":
        unbound.save(path, values=wrong)
        assert converter.check(path, partial(fn, wrong), [x]).passed
        path.unlink()
    else:
        assert unbound.report.histogram == {"MatMul": 1}
    for export in (folded,) if name == "quotient" else (folded, unbound):
        with pytest.raises(converter.SaveError, match="fold=False"):
            export.save(path, values=wrong)
        assert not path.exists()


def test_a_scalar_is_folded_through_a_reshape_that_splits_no_axis():
    w = np.arange(20, dtype=np.float32).reshape(5, 4)
    export = converter.to_onnx(lambda x: (x @ w).reshape(8, 3) * 0.5, [(6, 5)])
    assert export.report.histogram == {"MatMul": 1, "Reshape": 1}
