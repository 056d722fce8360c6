"""One conversion of a network of some depth, timed by itself.

    python benchmarks/depth_networks.py ours|jax2onnx NETWORK DEPTH

Prints seconds, the equations of JAX's trace and the nodes of the file as JSON. Needs Equinox and
the converter that is asked for, so that a peer can be run in an environment of its own.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

UNIT = 3
"""Blocks of a network of depth 1."""

WIDTH = 64

Network = tuple[Callable[[jax.Array], jax.Array], tuple[int, ...]]
"""A function of a batch, and the shape of one input."""


class TransformerBlock(eqx.Module):
    """Attention and a feed-forward network behind norms, as Equinox has them."""

    norms: list[eqx.nn.LayerNorm]
    attention: eqx.nn.MultiheadAttention
    mlp: eqx.nn.MLP

    def __init__(self, key: jax.Array) -> None:
        first, second = jax.random.split(key)
        self.norms = [eqx.nn.LayerNorm(WIDTH), eqx.nn.LayerNorm(WIDTH)]
        self.attention = eqx.nn.MultiheadAttention(4, WIDTH, key=first)
        self.mlp = eqx.nn.MLP(WIDTH, WIDTH, 2 * WIDTH, 1, jax.nn.gelu, key=second)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[positions, width] to the same."""
        y = jax.vmap(self.norms[0])(x)
        x = x + self.attention(y, y, y)
        return x + jax.vmap(self.mlp)(jax.vmap(self.norms[1])(x))


class ConvolutionBlock(eqx.Module):
    """A residual convolution behind a group norm."""

    norm: eqx.nn.GroupNorm
    conv: eqx.nn.Conv2d

    def __init__(self, key: jax.Array) -> None:
        self.norm = eqx.nn.GroupNorm(4, WIDTH)
        self.conv = eqx.nn.Conv2d(WIDTH, WIDTH, 3, padding=1, key=key)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[channels, height, width] to the same."""
        return x + self.conv(jax.nn.silu(self.norm(x)))


class RecurrentBlock(eqx.Module):
    """A linear recurrence over positions: a loop in every block."""

    inner: eqx.nn.Linear
    outer: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        first, second = jax.random.split(key)
        self.inner = eqx.nn.Linear(WIDTH, WIDTH, key=first)
        self.outer = eqx.nn.Linear(WIDTH, WIDTH, key=second)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[positions, width] to the same."""

        def step(state: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
            state = 0.9 * state + self.inner(row)
            return state, jax.nn.sigmoid(state)

        _, ys = jax.lax.scan(step, jax.numpy.zeros(WIDTH), x)
        return x + jax.vmap(self.outer)(ys)


NETWORKS: dict[str, tuple[Callable[[jax.Array], Any], tuple[int, ...]]] = {
    "transformer": (TransformerBlock, (17, WIDTH)),
    "convolutions": (ConvolutionBlock, (WIDTH, 12, 10)),
    "loops": (RecurrentBlock, (17, WIDTH)),
}


def build(network: str, depth: int) -> Network:
    """A network as a function of a batch, and the shape of one input."""
    make, shape = NETWORKS[network]
    blocks = [make(key) for key in jax.random.split(jax.random.key(0), UNIT * depth)]
    return jax.vmap(eqx.nn.Sequential([eqx.nn.Lambda(block) for block in blocks])), shape


def count(jaxpr: Any) -> int:
    """Equations, those of inner functions and loops too."""
    inner = [v for eqn in jaxpr.eqns for v in eqn.params.values()]
    return len(jaxpr.eqns) + sum(count(v.jaxpr) for v in inner if hasattr(v, "jaxpr"))


def convert(maker: str, fn: Callable[..., Any], shape: tuple[int, ...]) -> int:
    """The nodes of the file."""
    if maker == "ours":
        import converter

        return converter.to_onnx(fn, [("B", *shape)]).report.nodes
    from jax2onnx import to_onnx

    return len(to_onnx(fn, inputs=[("B", *shape)]).graph.node)


def main() -> None:
    maker, network, depth = sys.argv[1:]
    fn, shape = build(network, int(depth))
    equations = count(jax.make_jaxpr(fn)(jax.ShapeDtypeStruct((2, *shape), "float32")).jaxpr)
    jax.clear_caches()
    convert(maker, lambda x: x + 1, (3,))  # what is imported late is no part of the growth
    began = time.perf_counter()
    nodes = convert(maker, fn, shape)
    seconds = time.perf_counter() - began
    print(json.dumps({"equations": equations, "nodes": nodes, "seconds": round(seconds, 3)}))


if __name__ == "__main__":
    main()
