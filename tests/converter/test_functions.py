"""Blocks that repeat are functions of ONNX; put back, they are the graph that there was."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir
import pytest
from onnx_ir.passes.common import InlinePass

import converter


def expressions(model: ir.Model) -> list[Any]:
    """Each output as what it is computed from, nodes told by operator, attributes and operands."""
    known: dict[ir.Value, int] = {}
    numbers: dict[Any, int] = {}

    def number(value: ir.Value | None) -> int:
        return -1 if value is None else known[value]

    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        known[value] = numbers.setdefault(value.name, len(numbers))
    for node in model.graph:
        plain = {k: v for k, v in node.attributes.items() if v.type != ir.AttributeType.GRAPH}
        attributes = tuple(sorted((k, str(v.value)) for k, v in plain.items()))
        whole = (node.domain, node.op_type, attributes, tuple(map(number, node.inputs)))
        for i, value in enumerate(node.outputs):
            known[value] = numbers.setdefault((whole, i), len(numbers))
    return [(v.name, known[v], str(v.shape), str(v.dtype)) for v in model.graph.outputs]


def assert_outlined(
    fn: Callable[..., Any], specs: list[Any], wanted: list[tuple[int, int]], **how: Any
) -> converter.Export:
    """There are so many calls of so many nodes, and nothing else has changed."""
    plain = converter.to_onnx(fn, specs, **how)
    export = converter.to_onnx(fn, specs, functions=True, **how)
    assert [(f.calls, f.nodes) for f in export.report.functions] == wanted
    assert export.report.histogram == plain.report.histogram
    saved = sum((calls - 1) * nodes - calls for calls, nodes in wanted)
    held = len(list(export.model.graph.all_nodes())) + sum(f.nodes for f in export.report.functions)
    assert held == plain.report.nodes - saved
    proto = ir.to_proto(export.model)
    onnx.checker.check_model(proto, full_check=True)
    others = onnx.inliner.inline_local_functions(proto)
    assert expressions(ir.from_proto(others)) == expressions(plain.model)
    inlined = ir.from_proto(proto)
    InlinePass()(inlined)
    assert expressions(inlined) == expressions(plain.model)
    return export


class Block(eqx.Module):
    norm: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    mlp: eqx.nn.MLP

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.norm = eqx.nn.LayerNorm(8)
        self.attention = eqx.nn.MultiheadAttention(2, 8, key=one)
        self.mlp = eqx.nn.MLP(8, 8, 12, 1, jax.nn.gelu, key=two)

    def __call__(self, x):
        y = jax.vmap(self.norm)(x)
        x = x + self.attention(y, y, y)
        return x + jax.vmap(self.mlp)(x)


class Network(eqx.Module):
    blocks: list[Block]
    head: eqx.nn.Linear

    def __call__(self, x):
        for block in self.blocks:
            x = block(x)
        return x, self.head(x.mean(0))


def test_blocks_of_a_transformer(tmp_path):
    *keys, last = jax.random.split(jax.random.key(0), 4)
    model = Network([Block(key) for key in keys], eqx.nn.Linear(8, 3, key=last))
    fn = jax.vmap(model)
    alone = converter.to_onnx(jax.vmap(model.blocks[0]), [("B", 5, 8)]).report.nodes
    export = assert_outlined(fn, [("B", 5, 8)], [(3, alone)])
    (function,) = export.model.functions.values()
    assert function.name == "blocks"
    names = {v.name for v in function.inputs}
    assert {"norm.weight", "attention.query_proj.weight", "mlp.layers.0.bias"} <= names
    path = tmp_path / "model.onnx"
    export.save(path, external_data=True)
    x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
    assert converter.check(path, fn, [x]).passed
    assert f"function blocks: {alone} nodes, 3 calls" in str(export.report)
    assert converter.report(ir.load(path)).histogram == export.report.histogram


def chain(x, weights, between=lambda x, i: x):
    for i, w in enumerate(weights):
        y = jnp.tanh(x @ w)
        y = jnp.exp(-jnp.abs(y @ w.T + 1)) * jnp.cos(y)
        x = between(x + y, i)
    return x


WEIGHTS = [np.random.default_rng(i).standard_normal((4, 4)).astype(np.float32) for i in range(6)]
NODES = 10


def all_of(x):
    taken = []
    chain(x, WEIGHTS, lambda x, i: taken.append(x) or x)
    return taken


def with_a_mask(x, mask):
    for w in WEIGHTS:
        bias = jnp.where(mask, 0.0, -1e9)
        x = x + jnp.tanh(jnp.exp(jnp.sin(x @ w) + bias) * jnp.cos(x @ w.T))
    return x


def interrupted(x, i):
    return jax.lax.fori_loop(0, 3, lambda _, c: c + x, x) if i == 2 else x


SPEC, SIX = [("B", 4)], [(6, NODES)]
CUTS = {
    "nothing around": (lambda x: chain(x, WEIGHTS), SPEC, SIX),
    "every result is the network's too": (all_of, SPEC, SIX),
    "a loop between": (lambda x: chain(x, WEIGHTS, interrupted), [(3, 4)], SIX),
    "what a first block computes for all": (with_a_mask, [*SPEC, (("B", 4), "bool")], [(6, 9)]),
    "nothing repeats": (lambda x: chain(x, WEIGHTS[:1]), SPEC, []),
}


@pytest.mark.full
@pytest.mark.parametrize("name", CUTS)
def test_where_blocks_are_cut(name):
    fn, specs, wanted = CUTS[name]
    assert_outlined(fn, specs, wanted, verify=True)


def test_functions_are_not_joined_nor_made_smaller():
    export = converter.to_onnx(lambda x: chain(x, WEIGHTS), [(3, 4)], functions=True)
    with pytest.raises(converter.SpecError, match="without functions=True"):
        converter.lower_precision(export.model, "float16")
    with pytest.raises(converter.SpecError, match="without functions=True"):
        converter.join(export.model, converter.to_onnx(jnp.sin, [(3, 4)]).model)
