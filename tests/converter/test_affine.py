"""Factors and shifts by parameters around products, drawn at random, and what only looks like them.

Every draw is compared with JAX, and its file says whether the operations are gone.
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
from tests.converter.fuse.drawing import Pencil

B, N, D, H, K = 2, 3, 5, 4, 6


@dataclass(frozen=True)
class Linear:
    """Something linear in ``w``, and the axes of its result that ``w`` has too."""

    fn: Callable[[Any, Any], Any]
    x: tuple[int, ...]
    w: tuple[int, ...]
    out: tuple[int, ...]
    features: tuple[int, ...]


LINEAR = {
    "matrix": Linear(lambda x, w: x @ w, (B, N, D), (D, K), (B, N, K), (2,)),
    "turned": Linear(lambda x, w: x @ w.T, (B, N, D), (K, D), (B, N, K), (2,)),
    "vector": Linear(lambda x, w: w @ x, (D,), (K, D), (K,), (0,)),
    "left": Linear(lambda x, w: w @ x, (D, N), (K, D), (K, N), (0,)),
    "heads": Linear(
        lambda x, w: jnp.einsum("bnd,dhk->bhnk", x, w), (B, N, D), (D, H, K), (B, H, N, K), (1, 3)
    ),
    "experts": Linear(
        lambda x, w: jnp.einsum("bnd,bdk->bnk", x, w), (B, N, D), (B, D, K), (B, N, K), (0, 2)
    ),
    "split": Linear(
        lambda x, w: (x @ w).reshape(B, N, H, K).transpose(0, 2, 1, 3),
        (B, N, D), (D, H * K), (B, H, N, K), (1, 3),
    ),
    "part": Linear(lambda x, w: (x @ w)[..., 2:6], (B, N, D), (D, 8), (B, N, 4), (2,)),
    "joined": Linear(
        lambda x, w: jnp.concatenate([x @ w, jnp.sin(x) @ (w * 2)], 1),
        (B, N, D), (D, K), (B, 2 * N, K), (2,),
    ),
    "gated": Linear(
        lambda x, w: jnp.tanh(x[..., :1]) * (x @ w), (B, N, D), (D, K), (B, N, K), (2,)
    ),
    "convolution": Linear(
        lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"),
        (B, D, 7, 9), (K, D, 3, 2), (B, K, 7, 9), (1,),
    ),
}  # fmt: skip

MISSES = ("", "", "", "used", "data", "axis", "nonlinear", "shared")


@dataclass
class Draw:
    """A linear step, a bias perhaps, and what scales and shifts them; ``gone`` where it should go.

    ``plain`` is the same without the scale and what follows.
    """

    text: str
    fn: Callable[..., Any]
    plain: Callable[..., Any]
    params: dict[str, Any]
    inputs: list[Any]
    gone: bool


def numbers(pencil: Pencil, linear: Linear, along: tuple[int, ...]) -> np.ndarray:
    """What differs along some axes of the result, none of it near one or zero."""
    shape = [d if i in along else 1 for i, d in enumerate(linear.out)] if along else []
    sign = pencil.rng.choice([-1, 1], shape)
    return (sign * pencil.rng.uniform(1.5, 4, shape)).astype(np.float32)


def drawn(seed: int) -> Draw:
    pencil = Pencil(np.random.default_rng(seed))
    linear = LINEAR[pencil.pick("linear", [*LINEAR])]
    others = [i for i in range(len(linear.out)) if i not in linear.features]
    miss = pencil.pick("miss", [m for m in MISSES if m != "axis" or others])
    along = tuple(others[-1:]) if miss == "axis" else tuple(pencil.some(linear.features, 0.8))
    bias = pencil.chance("bias", 0.6)
    operator = pencil.pick("operator", ["mul", "reversed", "div"])
    last = pencil.pick("last", ["", "add", "sub"] if bias else [""])
    params = {
        "w": pencil.rng.standard_normal(linear.w).astype(np.float32),
        "b": numbers(pencil, linear, linear.features),
        "s": numbers(pencil, linear, along),
        "t": numbers(pencil, linear, linear.features),
    }
    inputs = [pencil.rng.standard_normal(linear.x).astype(np.float32)]
    inputs += [params.pop("s")] if miss == "data" else []

    def plain(p: dict[str, Any], x: Any) -> Any:
        y = linear.fn(x, p["w"])
        return y + p["b"] if bias else y

    def fn(p: dict[str, Any], x: Any, s: Any = None) -> Any:
        before = y = jnp.tanh(plain(p, x)) if miss == "nonlinear" else plain(p, x)
        s = p["s"] if s is None else s
        y = y / s if operator == "div" else s * y if operator == "reversed" else y * s
        y = y + p["t"] if last == "add" else y - p["t"] if last == "sub" else y
        if miss == "shared":
            return y, jnp.cos(linear.fn(x * 2, p["w"]))
        return (y, jnp.sin(before)) if miss == "used" else y

    return Draw(pencil.text(), fn, plain, params, inputs, not miss)


def assert_absorbed(seed: int) -> None:
    draw = drawn(seed)
    export = converter.to_onnx(draw.fn, draw.inputs, params=draw.params)
    found = export.report.histogram
    plain = converter.to_onnx(draw.plain, draw.inputs[:1], params=draw.params).report.histogram
    if draw.gone:
        assert found == plain, draw.text
        assert {"w", "w_1"} & {*export.model.graph.initializers}, draw.text
    else:
        assert found.get("Mul", 0) + found.get("Div", 0) > plain.get("Mul", 0), draw.text
    verdict = converter.check(export, partial(draw.fn, draw.params), draw.inputs)
    assert verdict.passed, (draw.text, verdict.differences)


def block(p: dict[str, Any], x: Any) -> Any:
    """Attention with its scale, and LayerScale before the residual, as vision transformers have."""
    q, k, v = (x @ p["qkv"] + p["qkv_bias"]).reshape(N, 3, 2, D).transpose(1, 2, 0, 3)
    scores = jax.nn.softmax(q @ k.transpose(0, 2, 1) * D**-0.5, -1)
    y = (scores @ v).transpose(1, 0, 2).reshape(N, 2 * D)
    return x + (y @ p["proj"].T + p["bias"]) * p["gamma"]


SHAPES = {"qkv": (K, 6 * D), "qkv_bias": (6 * D,), "proj": (K, 2 * D), "bias": (K,), "gamma": (K,)}


def test_a_block_whose_weights_come_late(tmp_path):
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


@pytest.mark.parametrize("name", ["matrix", "convolution"])
def test_numbers_that_round(name):
    """Adding and subtracting a large number rounds; the two do not become one."""
    linear, rng = LINEAR[name], np.random.default_rng(2)
    w, x = (rng.standard_normal(shape).astype(np.float32) for shape in (linear.w, linear.x))

    def fn(p: Any, x: Any) -> Any:
        return linear.fn(x, p) + np.float32(1.5 * 2**23) - np.float32(1.5 * 2**23)

    (got,) = run(converter.to_onnx(fn, [x], params=w), [x]).values()
    np.testing.assert_array_equal(got, np.round(got))


SCALED = {
    "product": (lambda y, s: y * s, np.inf),
    "quotient": (lambda y, s: y / s, 0.0),
    "root": (lambda y, s: y / jnp.sqrt(s + 0.25), -0.25),
}
"""What scales, and the number that would make infinite weights: a product with them is NaN, where
JAX has an infinity."""


@pytest.mark.parametrize("name", SCALED)
def test_infinite_weights(name, tmp_path):
    """They stay apart where the number is known, and a plain divisor where nothing is.

    Where other numbers are saved, they are looked at again; NaN is NaN, folded or not.
    """
    rng, (scaled, number) = np.random.default_rng(3), SCALED[name]
    ones, path = np.ones(K, np.float32), tmp_path / "model.onnx"
    finite = {"w": rng.standard_normal((D, K), np.float32), "s": ones}
    wrong, nan = ({**finite, "s": np.where(np.arange(K) == 1, n, ones)} for n in (number, np.nan))
    wrong, nan = (jax.tree.map(np.float32, params) for params in (wrong, nan))
    abstract = {k: jax.ShapeDtypeStruct(v.shape, v.dtype) for k, v in finite.items()}
    x = rng.standard_normal((N, D), np.float32)

    def fn(p: Any, x: Any) -> Any:
        return scaled(x @ p["w"], p["s"])

    def exported(params: Any) -> converter.Export:
        return converter.to_onnx(fn, [x], params=params)

    folded, late = exported(finite), exported(abstract)
    assert folded.report.histogram == {"MatMul": 1}
    assert exported({**wrong, "w": abstract["w"]}).report.histogram != {"MatMul": 1}
    assert converter.check(exported(wrong), partial(fn, wrong), [x]).passed
    folded.save(path, values=nan)
    assert converter.check(path, partial(fn, nan), [x]).passed
    path.unlink()
    if name == "quotient":
        late.save(path, values=wrong)
        assert converter.check(path, partial(fn, wrong), [x]).passed
        path.unlink()
    else:
        assert late.report.histogram == {"MatMul": 1}
    for export in (folded,) if name == "quotient" else (folded, late):
        with pytest.raises(converter.SaveError, match="fold=False"):
            export.save(path, values=wrong)
        assert not path.exists()


def test_without_folding_every_operation_stays():
    params = {k: np.ones(shape, np.float32) for k, shape in SHAPES.items()}
    kept = converter.to_onnx(block, [(N, K)], params=params, opset=18, fold=False)
    assert kept.report.histogram["Mul"] == 2
    assert {*SHAPES} < {*kept.model.graph.initializers}


def test_a_number_goes_through_a_reshape_that_splits_no_axis():
    w = np.arange(20, dtype=np.float32).reshape(5, 4)
    export = converter.to_onnx(lambda x: (x @ w).reshape(8, 3) * 0.5, [(6, 5)])
    assert export.report.histogram == {"MatMul": 1, "Reshape": 1}


def test_a_few_draws():
    for seed in range(6):
        assert_absorbed(seed)


@pytest.mark.full
@pytest.mark.parametrize("block", range(20))
def test_draws(block):
    for seed in range(10 * block, 10 * block + 10):
        assert_absorbed(seed)
    jax.clear_caches()
