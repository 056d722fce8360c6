"""Steps that are linear in their state: the proof, and the factors and summands of all steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from converter.canonicalize import canonicalize
from converter.decompose.expansion import Decomposer
from converter.frontend.array_forms import Constants
from converter.ir import Graph, Node, Value, const, ops
from converter.ir.evaluation import Apply, Sizes, evaluate, run_node
from converter.ir.names import Names
from converter.ir.op import Linear
from converter.loops.scan import Carry, Scan


def adds(node: Node, moving: set[int]) -> bool:
    """Something to the state, or takes it off."""
    one, other = (id(v) in moving for v in node.inputs) if len(node.inputs) == 2 else (True, True)
    return (node.op is ops.add and one != other) or (node.op is ops.sub and one and not other)


def scales(node: Node, moving: set[int], state: Value) -> bool:
    """Linear, and element by element."""
    alike = [v for v in (*node.inputs, node.out) if id(v) in moving]
    like_state = all(v.shape == state.shape and v.dtype == state.dtype for v in alike)
    return node.op.elementwise and like_state and mixes(node, moving)


def mixes(node: Node, moving: set[int]) -> bool:
    """Linear in the operands that depend on the state, which are no condition and no index."""
    places = [i for i, v in enumerate(node.inputs) if id(v) in moving]
    if node.op is ops.div:
        return places == [0]
    if node.op in (ops.dynamic_slice, *ops.SCATTERS, ops.dynamic_update_slice):
        return False
    if node.op is ops.einsum or node.op.linear is Linear.EACH:
        return len(places) == 1
    if node.op is ops.select_n:
        return 0 not in places
    several = node.op.broadcasts or node.op is ops.concatenate
    return node.op.linear is Linear.TOGETHER and (several or places == [0])


# ------------------------------------------------------------------------------------ coefficients

Step = Callable[[jax.Array, Apply], jax.Array]
Coefficients = Callable[[Step, jax.Array], tuple[jax.Array, jax.Array]]
"""Of a step and a state of zeros the factors and the summands."""


def ones_of_sums(step: Step, zero: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Of sums, whole numbers among them."""
    return jnp.ones_like(zero), step(zero, run_node)


def slopes_of_step(step: Step, zero: jax.Array) -> tuple[jax.Array, jax.Array]:
    shift, slope = jax.jvp(lambda x: step(x, run_node), (zero,), (jnp.ones_like(zero),))
    return slope, shift


def matrices_of_step(step: Step, zero: jax.Array) -> tuple[jax.Array, jax.Array]:
    """In twice the digits, as products of many steps are made of them."""

    def flat(line: jax.Array) -> jax.Array:
        return step(line.reshape(zero.shape), _run_wide).reshape(-1).astype(np.float64)

    def column(unit: jax.Array) -> jax.Array:
        return jax.jvp(flat, (zero.reshape(-1),), (unit,))[1]

    units = jnp.eye(zero.size, dtype=zero.dtype)
    return jax.vmap(column, out_axes=-1)(units), step(zero, run_node)


def _run_wide(node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
    wide = [jnp.asarray(a, np.float64) if a.dtype == np.float32 else a for a in args]
    params = {**node.params, "dtype": np.float64} if node.op is ops.einsum else node.params
    return run_node(replace(node, params=params), wide, sizes)


def traced_coefficients(
    scan: Scan, carry: Carry, chosen: list[Node], coefficients: Coefficients
) -> Graph:
    """The factors and summands of all steps, as far as they are known."""
    whole = {id(part): array for array, part in scan.taken}
    made = {id(carry.inside), *(id(v) for n in chosen for v in n.outputs)}
    read = {id(v): v for n in chosen for v in n.operands() if v.kind != "const"}
    given = [v for i, v in read.items() if i not in made]
    graph = Graph([carry.inside, *given], [carry.after], chosen)

    def of_step(_: Any, *xs: jax.Array) -> tuple[jax.Array, jax.Array]:
        zero = jnp.zeros(carry.inside.shape, carry.inside.dtype)
        return coefficients(lambda x, apply: evaluate(graph, [x, *xs], apply=apply)[0], zero)

    numbers = const(np.arange(scan.length, dtype=np.int32))
    operands = [numbers, *(whole.get(id(v), v) for v in given)]
    axes = [0, *(0 if id(v) in whole else None for v in given)]
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(jax.vmap(of_step, axes))(*map(struct_of, operands))
    nodes = list[Node]()
    writer = Decomposer(Constants([], Names()), chosen[0].source)
    found = Graph([], writer.inline(closed, operands, nodes), nodes)
    canonicalize(found)
    return found


def struct_of(value: Value) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(value.shape, value.dtype)
