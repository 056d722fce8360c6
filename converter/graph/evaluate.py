"""What every node means, in JAX: a primitive is itself, a composite is its formula in jnp."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.errors import CheckError
from converter.graph import Graph, Node, Value, dims
from converter.graph.operations import ELEMENTWISE, OPERATIONS

Sizes = Mapping[str, int]
Change = Callable[[Node, list[Any]], list[Any]]


def evaluate(
    graph: Graph,
    args: Sequence[Any],
    params: Mapping[str, Any] | None = None,
    change: Change | None = None,
) -> list[Any]:
    """Run ``graph`` on ``args``; parameters by name, bound ones may be left out.

    ``change(node, results)`` may put others in the place of what a node without bodies gives.
    """
    if len(args) != len(graph.inputs):
        raise CheckError(f"the graph takes {len(graph.inputs)} inputs, received {len(args)}")
    arrays = [jnp.asarray(a) for a in args]
    sizes: dict[str, int] = {}
    for value, array in zip(graph.inputs, arrays, strict=True):
        for dim, size in zip(value.shape, array.shape, strict=True):
            name, factor = dims.multiple(dim)
            if name:
                sizes[name] = size // factor
    params, env = params or {}, dict[int, Any]()
    with jax.enable_x64(bool(jax.config.read("jax_enable_x64")) or _is_wide(graph)):
        for value in graph.params:
            env[id(value)] = _parameter(value.program or value, params, env)
        return _run(graph, arrays, env, _Context(sizes, change))


def _is_wide(graph: Graph) -> bool:
    """Some node converts to 64 bits: the arrangement does, whatever JAX is set to."""
    return any(n.op == "convert_element_type" and n.out.dtype.itemsize == 8 for n in graph.walk())


def _parameter(value: Value, params: Mapping[str, Any], env: dict[int, Any]) -> Any:
    """A parameter by name, or what a weight program makes of others."""
    if id(value) not in env:
        if value.node is None:
            env[id(value)] = jnp.asarray(params.get(value.name, value.const))
        else:
            args = [_parameter(v, params, env) for v in value.node.inputs]
            results = run_node(value.node, args, {})
            env.update((id(v), r) for v, r in zip(value.node.outputs, results, strict=True))
    return env[id(value)]


def run_node(node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
    """One node without bodies, on arrays."""
    params = dims.concrete(node.params, sizes)
    if node.op in ELEMENTWISE:
        shape = dims.concrete(node.out.shape, sizes)
        return [ELEMENTWISE[node.op](*(jnp.broadcast_to(a, shape) for a in args))]
    if node.op in OPERATIONS:
        out = OPERATIONS[node.op](*args, **params)
        return list(out) if isinstance(out, tuple) else [out]
    assert node.meaning is not None, f"what does {node.op} mean?"
    return node.meaning(args, params)


@dataclass(frozen=True)
class _Context:
    """What holds for all graphs of one evaluation."""

    sizes: Sizes
    change: Change | None

    def run(self, node: Node, args: Sequence[Any]) -> list[Any]:
        results = run_node(node, args, self.sizes)
        return results if self.change is None else self.change(node, results)


def _run(
    graph: Graph, args: Sequence[Any], outer: Mapping[int, Any], context: _Context
) -> list[Any]:
    env = {**outer, **{id(v): a for v, a in zip(graph.inputs, args, strict=True)}}

    def read(value: Value) -> Any:
        if value.kind != "const":
            return env[id(value)]
        const: Any = value.const
        return jnp.asarray(const) if isinstance(value.dtype, np.dtype) else const

    for node in graph.nodes:
        inputs = [read(v) for v in node.inputs]
        control = CONTROL.get(node.op)
        results = control(node, inputs, env, context) if control else context.run(node, inputs)
        env.update((id(v), r) for v, r in zip(node.outputs, results, strict=True))
    return [read(v) for v in graph.outputs]


def _scan(node: Node, inputs: list[Any], env: Mapping[int, Any], context: _Context) -> list[Any]:
    n, body = node.params["num_carry"], node.bodies["body"]

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        results = _run(body, [*carry, *x], env, context)
        return results[:n], results[n:]

    length = dims.evaluate(node.params["length"], context.sizes)
    carry, ys = lax.scan(
        step, inputs[:n], inputs[n:], length=length, reverse=node.params["reverse"]
    )
    return [*carry, *ys]


def _while(node: Node, inputs: list[Any], env: Mapping[int, Any], context: _Context) -> list[Any]:
    return lax.while_loop(
        lambda state: _run(node.bodies["cond"], state, env, context)[0],
        lambda state: _run(node.bodies["body"], state, env, context),
        inputs,
    )


def _cond(node: Node, inputs: list[Any], env: Mapping[int, Any], context: _Context) -> list[Any]:
    branches = [lambda b=b: _run(b, [], env, context) for b in node.bodies.values()]
    return lax.switch(inputs[0].astype(jnp.int32), branches)


CONTROL: dict[str, Callable[..., list[Any]]] = {"scan": _scan, "while": _while, "cond": _cond}


def size_in_bytes(value: Value) -> float:
    """Bytes of a value; infinite where a dimension is symbolic."""
    if not dims.all_static(value.shape):
        return math.inf
    return math.prod(value.shape) * value.dtype.itemsize
