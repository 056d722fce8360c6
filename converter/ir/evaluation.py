"""What every node means, in JAX: a primitive is itself, a composite is its formula in jnp."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.errors import CheckError
from converter.ir import Graph, Node, Value, dims, ops
from converter.ir import named_sizes as named
from converter.ir.op import Op
from converter.ir.origins import all_ancestors_pass, ancestors, evaluate_value
from converter.jax_versions import enable_x64

Sizes = Mapping[str, int]
Apply = Callable[[Node, Sequence[Any], Sizes], list[Any]]

Counted = tuple[list[Any], Any]
"""Results, and how often the loop turned that turned most on the way to them."""

Bodies = Callable[[Graph, Sequence[Any]], Counted]
"""Evaluate a body for its inputs, within the graphs around it."""

Control: TypeAlias = "Mapping[Op, Callable[[Node, list[Any], Bodies, EvaluationRules], Counted]]"
"""By operation, the evaluation of a node with bodies for its inputs."""


def run_node(node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
    """One node without bodies, on arrays."""
    # Operations on numpy's are compiled twice. Together they cannot be batched and derived.
    args = [jax.device_put(array) for array in args]
    params = dims.substitute_sizes(node.params, sizes)
    if node.op.broadcasts and node.op.formula is not None:
        shape = dims.substitute_sizes(node.out.shape, sizes)
        return [node.op.formula(*(jnp.broadcast_to(a, shape) for a in args))]
    if node.op is ops.dim_as_value:
        return [jnp.asarray(params["dim"], node.out.dtype)]
    if node.op.formula is not None:
        out = node.op.formula(*args, **params)
        return list(out) if isinstance(out, tuple) else [out]
    assert node.meaning is not None, f"what does {node.op} mean?"
    return node.meaning(args, params)


def run_uncompiled(node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
    """Run a node, in numpy if that has the operation: nothing is compiled for it."""
    twin, kinds = node.op.numpy, set("f" if node.op.divides else "biuf")
    if twin is None or not {v.dtype.kind for v in (*node.inputs, *node.outputs)} <= kinds:
        with use_precision_of([node]):
            return [np.asarray(r) for r in run_node(node, args, sizes)]
    params = dims.substitute_sizes(node.params, sizes)
    with np.errstate(all="ignore"):
        result = np.asarray(twin(*map(np.asarray, args), **params))
    return [result.astype(node.out.dtype, copy=False)]


def evaluate(
    graph: Graph,
    args: Sequence[Any],
    params: Mapping[str, Any] | None = None,
    apply: Apply = run_node,
) -> list[Any]:
    """Run ``graph`` on ``args``; parameters by name, bound ones may be left out.

    ``apply`` says what nodes without bodies give.
    """
    outputs, _ = evaluate_bounded(graph, args, params, apply, ENDLESS)
    return outputs


def evaluate_bounded(
    graph: Graph,
    args: Sequence[Any],
    params: Mapping[str, Any] | None,
    apply: Apply,
    most: Any,
    control: "Control | None" = None,
) -> tuple[list[Any], Any]:
    """Run ``graph``, but leave every loop after ``most`` turns.

    ``control`` evaluates nodes with bodies, by operation; by default as JAX does, which can be
    compiled.

    Returns the outputs, and how often the loop turned that turned most.
    """
    if len(args) != len(graph.inputs):
        raise CheckError(f"the graph takes {len(graph.inputs)} inputs, received {len(args)}")
    sizes = named.read_sizes([v.shape for v in graph.inputs], [np.shape(a) for a in args])
    env: dict[int, Any] = {}
    with use_precision_of(all_nodes(graph)):
        for value in graph.params:
            env[id(value)] = _parameter(value.program or value, params or {}, env, apply)
        arrays = [_array(v, a) for v, a in zip(graph.inputs, args, strict=True)]
        rules = EvaluationRules(apply, sizes, most, control or CONTROL_EVALUATIONS)
        return _evaluation_run(graph, arrays, env, rules)


def _array(value: Value, array: Any) -> Any:
    """What is given for a value, in JAX."""
    # An input that no node uses may have more bits than JAX is set to.
    return jnp.asarray(array, jax.dtypes.canonicalize_dtype(value.dtype))


def use_precision_of(nodes: Iterable[Node]) -> AbstractContextManager[None]:
    """JAX with 64 bits where values have them: the arrangement's may, whatever JAX is set to."""
    dtypes = (v.dtype for node in nodes for v in (*node.inputs, *node.outputs))
    is_wide = any(dtype.itemsize >= (16 if dtype.kind == "c" else 8) for dtype in dtypes)
    return enable_x64(bool(jax.config.read("jax_enable_x64")) or is_wide)


def all_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph, and of the programs of its parameters."""
    yield from graph.walk()
    for value in graph.params:
        if value.program is not None:
            yield from (v.node for v in ancestors(value.program) if v.node is not None)


def _parameter(value: Value, params: Mapping[str, Any], env: dict[int, Any], apply: Apply) -> Any:
    """A parameter by name, or what a weight program makes of others."""

    def read(value: Value) -> Any:
        is_param = value.kind == "param"
        return _array(value, params.get(value.name, value.bound) if is_param else value.const)

    return evaluate_value(value, read, lambda node, args: apply(node, args, {}), env)


ENDLESS = np.iinfo(np.int32).max
"""More turns than any loop has."""


class EvaluationRules(NamedTuple):
    """Settings of an evaluation: ``most`` is the largest number of turns of a loop."""

    apply: Apply
    sizes: Sizes
    most: Any
    control: Control


def _evaluation_run(
    graph: Graph, args: Sequence[Any], outer: Mapping[int, Any], rules: EvaluationRules
) -> Counted:
    env = {**outer, **{id(v): a for v, a in zip(graph.inputs, args, strict=True)}}

    def read(value: Value) -> Any:
        return _array(value, value.const) if value.kind == "const" else env[id(value)]

    def run(body: Graph, args: Sequence[Any]) -> Counted:
        return _evaluation_run(body, args, env, rules)

    turns: Any = 0
    for node, done in zip(graph.nodes, _read_last(graph), strict=True):
        inputs = [read(v) for v in node.inputs]
        control = rules.control.get(node.op)
        if control:
            results, here = control(node, inputs, run, rules)
            turns = jnp.maximum(turns, here)
        else:
            results = rules.apply(node, inputs, rules.sizes)
        env.update((id(v), r) for v, r in zip(node.outputs, results, strict=True))
        for value in done:
            del env[id(value)]
    return [read(v) for v in graph.outputs], turns


def _read_last(graph: Graph) -> list[list[Value]]:
    """For each node the values of this graph that nobody reads after it."""
    kept, last_reads = {id(v) for v in graph.outputs}, list[list[Value]]()
    own = {id(v) for node in graph.nodes for v in node.outputs}
    for node in reversed(graph.nodes):
        touched = {id(v): v for v in (*node.operands(), *node.outputs) if id(v) in own}
        last_reads.append([v for key, v in touched.items() if key not in kept])
        kept |= touched.keys()
    return last_reads[::-1]


def peak_memory(graph: Graph, sizes: Sizes) -> int:
    """Bytes that an evaluation takes at most, for sizes of named dimensions, without parameters.

    There are the values that are still to be read, and so many copies (``COPIES``) of what a step
    takes and gives while its rounding is moved (``converter.verify.noise``).
    """

    def held(values: Iterable[Value]) -> int:
        shapes = ((dims.substitute_sizes(v.shape, sizes), v) for v in values if v.kind != "param")
        return sum(math.prod(shape) * v.dtype.itemsize for shape, v in shapes)

    live = peak = held(graph.inputs)
    for node, done in zip(graph.nodes, _read_last(graph), strict=True):
        bodies = max((peak_memory(body, sizes) for body in node.bodies.values()), default=0)
        peak = max(peak, live + COPIES * held((*node.inputs, *node.outputs)) + bodies)
        live += held(node.outputs) - held(done)
    return peak


COPIES = 6
"""Measured on attention over 4,000 positions: a peak of 0.7 GiB where this gives 0.8."""


def _evaluation_scan(node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules) -> Counted:
    n, body = node.params["num_carry"], node.bodies["body"]

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        carried, turns = carry
        results, here = run(body, [*carried, *x])
        return (results[:n], jnp.maximum(turns, here)), results[n:]

    length, reverse = dims.evaluate_dim(node.params["length"], rules.sizes), node.params["reverse"]
    start = inputs[:n], jnp.int32(0)
    (carry, turns), ys = lax.scan(step, start, inputs[n:], length=length, reverse=reverse)
    return [*carry, *ys], turns


def _while(node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules) -> Counted:
    cond, body = (partial(run, node.bodies[name]) for name in ("cond", "body"))

    def is_on(state: Any) -> Any:
        carried, own, _ = state
        return cond(carried)[0][0] & (own < rules.most)

    def turn(state: Any) -> Any:
        carried, own, inner = state
        results, here = body(carried)
        return results, own + 1, jnp.maximum(inner, here)

    start = inputs, jnp.int32(0), jnp.int32(0)
    results, own, inner = lax.while_loop(is_on, turn, start)
    return results, jnp.maximum(own, inner)


def _cond(node: Node, inputs: list[Any], run: Bodies, _: EvaluationRules) -> Counted:
    def branch(body: Graph) -> Callable[[], Counted]:
        def taken() -> Counted:
            results, turns = run(body, [])
            return results, jnp.int32(turns)

        return taken

    return lax.switch(inputs[0].astype(jnp.int32), [*map(branch, node.bodies.values())])


def _named_call(node: Node, inputs: list[Any], run: Bodies, _: EvaluationRules) -> Counted:
    return run(node.bodies["call"], inputs)


CONTROL_EVALUATIONS: Control = {
    ops.named_call: _named_call,
    ops.scan: _evaluation_scan,
    ops.while_: _while,
    ops.cond: _cond,
}


def size_in_bytes(value: Value) -> float:
    """Bytes of a value; infinite where a dimension is symbolic."""
    if not dims.all_static(value.shape):
        return math.inf
    return math.prod(value.shape) * value.dtype.itemsize


# --------------------------------------------------------------- constants and weight programs

# Constants are folded while converting; what depends on parameters is a *weight program*, evaluated
# when the file is saved, tensor by tensor. Layout and plain arithmetic run in numpy, which needs no
# compilation; anything else runs as the JAX operation it is.

# Results above this size stay in the graph unless they are no larger than what they come from.
CEILING = 1 << 20

Read = Callable[[Value], Any]


def compute(value: Value, read: Read, memo: dict[int, Any] | None = None) -> Any:
    """The array behind ``value``; ``read`` gives parameters and constants."""
    return evaluate_value(
        value, read, partial(run_uncompiled, sizes={}), {} if memo is None else memo
    )


def bound(value: Value, memo: dict[Any, Any] | None = None) -> np.ndarray | None:
    """The array behind a value that is made from constants, and parameters that have values now:
    what is concluded from it holds of those alone.
    """
    if not all_ancestors_pass(value, lambda leaf: known_numbers(leaf) is not None, is_computable):
        return None
    return np.asarray(compute(value, known_numbers, memo))


def known_numbers(leaf: Value) -> Any:
    """Numbers of a constant, or of a parameter that has a value now."""
    return leaf.bound if leaf.const is None else leaf.const


def is_computable(node: Node) -> bool:
    """Pure, without bodies, and of known shapes; not itself the value of a named dimension."""
    plain = not node.bodies and node.op is not ops.dim_as_value and not node.op.calls
    return plain and all(dims.all_static(v.shape) for v in (*node.inputs, *node.outputs))
