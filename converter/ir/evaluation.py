"""Evaluate graphs in JAX: a primitive runs as itself, a composite as its formula."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

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


class SteppedApply(ABC):
    """A function that evaluates one node, and differs between the steps of a scan."""

    @abstractmethod
    def __call__(self, node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        """Return the results of a node without bodies for the arrays ``args`` of its operands."""

    @abstractmethod
    def in_step(self, step: Any) -> "SteppedApply":
        """Return the function for a step of a scan, by its index, a traced integer."""


Counted = tuple[list[Any], Any]
"""Results, and the largest number of turns of any loop that computed them."""


class Bodies(Protocol):
    """A function that evaluates a body on its inputs and may read values of the graphs around
    it."""

    def __call__(self, body: Graph, args: Sequence[Any], step: Any = None, /) -> Counted:
        """Evaluate ``body`` on ``args``. ``step`` is the index of a step of a scan."""


Control: TypeAlias = "Mapping[Op, Callable[[Node, list[Any], Bodies, EvaluationRules], Counted]]"
"""For each operation with bodies, the function that evaluates its nodes."""


def run_node(node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
    """Evaluate a node without bodies in JAX and return the list of its results.

    ``args`` are numpy or JAX arrays. ``sizes`` has the size of each named dimension.
    """
    # All arrays are converted to JAX arrays. JAX compiles an operation again for numpy arrays, and
    # it cannot batch or differentiate a mixture of numpy and JAX arrays.
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
    assert node.meaning is not None, f"{node.op} has no formula, and its node no meaning"
    return node.meaning(args, params)


def run_eagerly(node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
    """Evaluate a node without bodies in numpy, so that nothing is compiled. Return its results as
    numpy arrays.

    JAX evaluates it if the operation has no numpy function, or none for these dtypes.
    """
    numpy_function = node.op.numpy
    if numpy_function is None or not runs_in_numpy(node):
        with use_precision_of([node]):
            return [np.asarray(r) for r in run_node(node, args, sizes)]
    params = dims.substitute_sizes(node.params, sizes)
    with np.errstate(all="ignore"):
        result = np.asarray(numpy_function(*map(np.asarray, args), **params))
    return [result.astype(node.out.dtype, copy=False)]


def runs_in_numpy(node: Node) -> bool:
    """Return True if the operation of a node has a numpy function for the dtypes of the node."""
    kinds = set("f" if node.op.divides else "biuf")
    types = {v.dtype.kind for v in (*node.inputs, *node.outputs)}
    return node.op.numpy is not None and types <= kinds


def evaluate(
    graph: Graph,
    args: Sequence[Any],
    params: Mapping[str, Any] | None = None,
    apply: Apply = run_node,
) -> list[Any]:
    """Evaluate a graph on arrays and return the list of its outputs.

    ``params`` maps parameter names to arrays. The bound array of a parameter is used if its name is
    missing. ``apply`` evaluates nodes without bodies.

    **Raises** `CheckError` if the number of arrays is not the number of inputs.
    """
    outputs, _ = evaluate_bounded(graph, args, params, apply, ENDLESS)
    return outputs


def evaluate_bounded(
    graph: Graph,
    args: Sequence[Any],
    params: Mapping[str, Any] | None,
    apply: Apply,
    max_iterations: Any,
    control: "Control | None" = None,
) -> tuple[list[Any], Any]:
    """Evaluate a graph, but end every ``while`` loop after ``max_iterations`` turns.

    ``params`` and ``apply`` are as in `evaluate`. ``control`` contains the function that evaluates
    a node, for each operation with bodies. By default it is JAX's own control flow, which can be
    compiled.

    **Returns** the outputs, and the largest number of turns of any ``while`` loop, 0 without such a
    loop. The steps of a scan are not counted.

    **Raises** `CheckError` if the number of arrays is not the number of inputs.
    """
    if len(args) != len(graph.inputs):
        raise CheckError(f"the graph takes {len(graph.inputs)} inputs, received {len(args)}")
    sizes = named.read_sizes([v.shape for v in graph.inputs], [np.shape(a) for a in args])
    env: dict[int, Any] = {}
    with use_precision_of(all_nodes(graph)):
        for value in graph.params:
            env[id(value)] = _parameter_array(value.program or value, params or {}, env, apply)
        arrays = [_to_jax_array(v, a) for v, a in zip(graph.inputs, args, strict=True)]
        rules = EvaluationRules(apply, sizes, max_iterations, control or CONTROL_EVALUATIONS)
        return _evaluate_graph(graph, arrays, env, rules)


def _to_jax_array(value: Value, array: Any) -> Any:
    """Return an array as a JAX array of the dtype of ``value``.

    A dtype of 64 bits becomes one of 32 bits if JAX is so configured.
    """
    # An input that no node uses may have a dtype of 64 bits even if JAX is configured for 32 bits.
    return jnp.asarray(array, jax.dtypes.canonicalize_dtype(value.dtype))


def use_precision_of(nodes: Iterable[Node]) -> AbstractContextManager[None]:
    """Return a context in which JAX has 64-bit numbers if one of these nodes has them.

    JAX's configuration is kept if none has them. Passes may add 64-bit nodes, whatever JAX is
    configured to.
    """
    dtypes = (v.dtype for node in nodes for v in (*node.inputs, *node.outputs))
    is_wide = any(dtype.itemsize >= (16 if dtype.kind == "c" else 8) for dtype in dtypes)
    return enable_x64(bool(jax.config.read("jax_enable_x64")) or is_wide)


def all_nodes(graph: Graph) -> Iterator[Node]:
    """Yield the nodes of a graph, its bodies, and the weight programs of its parameters."""
    yield from graph.walk()
    for value in graph.params:
        if value.program is not None:
            yield from (v.node for v in ancestors(value.program) if v.node is not None)


def _parameter_array(
    value: Value, params: Mapping[str, Any], env: dict[int, Any], apply: Apply
) -> Any:
    """Return the array of a parameter, or of the value that a weight program computes.

    ``params`` contains arrays by parameter name. The bound array of a parameter is used if its name
    is missing. ``env`` has computed arrays by value id, and the arrays of the program are added to
    it.
    """

    def read(value: Value) -> Any:
        is_param = value.kind == "param"
        return _to_jax_array(
            value, params.get(value.name, value.bound) if is_param else value.const
        )

    return evaluate_value(value, read, lambda node, args: apply(node, args, {}), env)


ENDLESS = np.iinfo(np.int32).max
"""A number of turns that no loop reaches."""


class EvaluationRules(NamedTuple):
    """Settings of an evaluation.

    ``apply`` evaluates nodes without bodies. ``control`` contains the functions that evaluate nodes
    with bodies. ``sizes`` has the size of each named dimension. ``max_iterations`` is the largest
    number of turns of a ``while`` loop.
    """

    apply: Apply
    sizes: Sizes
    max_iterations: Any
    control: Control

    def in_step(self, step: Any) -> "EvaluationRules":
        """Return the settings for a step of a scan, by its index."""
        if isinstance(self.apply, SteppedApply):
            return self._replace(apply=self.apply.in_step(step))
        return self


def _evaluate_graph(
    graph: Graph, args: Sequence[Any], outer: Mapping[int, Any], rules: EvaluationRules
) -> Counted:
    """Evaluate a graph or a body on arrays. Return its outputs and the largest number of turns of a
    ``while`` loop in it.

    ``outer`` contains the arrays of parameters and of the graphs around it, by value id.
    """
    env = {**outer, **{id(v): a for v, a in zip(graph.inputs, args, strict=True)}}

    def read(value: Value) -> Any:
        return _to_jax_array(value, value.const) if value.kind == "const" else env[id(value)]

    def run_body(body: Graph, args: Sequence[Any], step: Any = None) -> Counted:
        return _evaluate_graph(body, args, env, rules if step is None else rules.in_step(step))

    turns: Any = 0
    for node, finished in zip(graph.nodes, _values_read_last(graph), strict=True):
        inputs = [read(v) for v in node.inputs]
        control = rules.control.get(node.op)
        if control:
            results, node_turns = control(node, inputs, run_body, rules)
            turns = jnp.maximum(turns, node_turns)
        else:
            results = rules.apply(node, inputs, rules.sizes)
        env.update((id(v), r) for v, r in zip(node.outputs, results, strict=True))
        for value in finished:
            del env[id(value)]
    return [read(v) for v in graph.outputs], turns


def _values_read_last(graph: Graph) -> list[list[Value]]:
    """Return for each node the values that no later node reads.

    Only results of this graph's nodes that the node reads or computes are returned. Outputs of the
    graph are never among them.
    """
    live, last_reads = {id(v) for v in graph.outputs}, list[list[Value]]()
    own_ids = {id(v) for node in graph.nodes for v in node.outputs}
    for node in reversed(graph.nodes):
        node_values = {id(v): v for v in (*node.operands(), *node.outputs) if id(v) in own_ids}
        last_reads.append([v for key, v in node_values.items() if key not in live])
        live |= node_values.keys()
    return last_reads[::-1]


def peak_memory(graph: Graph, sizes: Sizes) -> int:
    """Return an upper estimate of the bytes that an evaluation takes, without parameters.

    ``sizes`` contains the size of each named dimension. At each step the estimate counts the inputs
    of the graph, the results that a later step reads, and ``COPIES`` copies of the operands and
    results of the step, because its rounding is varied (``converter.verify.noise``).
    """

    def bytes_of(values: Iterable[Value]) -> int:
        shapes = ((dims.substitute_sizes(v.shape, sizes), v) for v in values if v.kind != "param")
        return sum(math.prod(shape) * v.dtype.itemsize for shape, v in shapes)

    live_bytes = peak_bytes = bytes_of(graph.inputs)
    for node, finished in zip(graph.nodes, _values_read_last(graph), strict=True):
        bodies = max((peak_memory(body, sizes) for body in node.bodies.values()), default=0)
        peak_bytes = max(
            peak_bytes, live_bytes + COPIES * bytes_of((*node.inputs, *node.outputs)) + bodies
        )
        live_bytes += bytes_of(node.outputs) - bytes_of(finished)
    return peak_bytes


COPIES = 6
"""Number of copies of a step's arrays. Measured on attention over 4,000 positions: the peak was 0.7
GiB, the estimate is 0.8 GiB."""


def _evaluate_scan(node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules) -> Counted:
    """Evaluate a scan by ``lax.scan``. Return its results and the largest number of turns of a
    ``while`` loop in a step.

    ``run`` evaluates a body.
    """
    n, body = node.params["num_carry"], node.bodies["body"]

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        carried, turns, index = carry
        results, inner_turns = run(body, [*carried, *x], index)
        return (results[:n], jnp.maximum(turns, inner_turns), index + 1), results[n:]

    length, reverse = dims.evaluate_dim(node.params["length"], rules.sizes), node.params["reverse"]
    start = inputs[:n], jnp.int32(0), jnp.int32(0)
    (carry, turns, _), ys = lax.scan(step, start, inputs[n:], length=length, reverse=reverse)
    return [*carry, *ys], turns


def _evaluate_while(node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules) -> Counted:
    """Evaluate a while loop by ``lax.while_loop``, but end it after ``rules.max_iterations`` turns.

    Return its results and the largest number of turns of it or of a loop in its body.
    """
    cond, body = (partial(run, node.bodies[name]) for name in ("cond", "body"))

    def continues(state: Any) -> Any:
        carried, count, _ = state
        return cond(carried)[0][0] & (count < rules.max_iterations)

    def run_turn(state: Any) -> Any:
        carried, count, inner_turns = state
        results, body_turns = body(carried)
        return results, count + 1, jnp.maximum(inner_turns, body_turns)

    start = inputs, jnp.int32(0), jnp.int32(0)
    results, count, inner_turns = lax.while_loop(continues, run_turn, start)
    return results, jnp.maximum(count, inner_turns)


def _evaluate_cond(node: Node, inputs: list[Any], run: Bodies, _: EvaluationRules) -> Counted:
    """Evaluate a conditional by ``lax.switch``: the first input selects the branch.

    Return its results and the largest number of turns of a ``while`` loop in that branch.
    """

    def branch(body: Graph) -> Callable[[], Counted]:
        def run_branch() -> Counted:
            results, turns = run(body, [])
            return results, jnp.int32(turns)

        return run_branch

    return lax.switch(inputs[0].astype(jnp.int32), [*map(branch, node.bodies.values())])


def _evaluate_named_call(node: Node, inputs: list[Any], run: Bodies, _: EvaluationRules) -> Counted:
    """Evaluate the body of a named call. Return its results and its largest number of turns of a
    ``while`` loop."""
    return run(node.bodies["call"], inputs)


CONTROL_EVALUATIONS: Control = {
    ops.named_call: _evaluate_named_call,
    ops.scan: _evaluate_scan,
    ops.while_: _evaluate_while,
    ops.cond: _evaluate_cond,
}


def size_in_bytes(value: Value) -> float:
    """Return the number of bytes of a value, or infinity if a dimension is symbolic."""
    if not dims.all_static(value.shape):
        return math.inf
    return math.prod(value.shape) * value.dtype.itemsize


# --------------------------------------------------------------- constants and weight programs

# Constants are folded during conversion. A subgraph of parameters is a *weight program*, evaluated
# when the file is saved, tensor by tensor. Layout and plain arithmetic run in numpy, which needs no
# compilation; other operations run in JAX.

# A result of more bytes than this stays in the graph, unless it is at most as large as its sources.
MAX_GROWTH_BYTES = 1 << 20

Read = Callable[[Value], Any]


def compute_array(value: Value, read: Read, memo: dict[int, Any] | None = None) -> Any:
    """Return the array of a value, in numpy where possible.

    ``read`` returns the array of a parameter or constant. ``memo`` has computed arrays by value id,
    and gets the new ones. No node with bodies or with named dimensions may be among the nodes that
    compute the value.
    """
    return evaluate_value(value, read, partial(run_eagerly, sizes={}), {} if memo is None else memo)


def bound_array(value: Value, memo: dict[Any, Any] | None = None) -> np.ndarray | None:
    """Return the array of a value that is computed from constants and bound arrays of parameters.

    Return None if the value depends on anything else, or if a node on the way is not computable
    (`is_computable`). A conclusion from the array holds for these parameter values only. ``memo``
    has computed arrays by value id, and gets the new ones.
    """
    if not all_ancestors_pass(value, lambda leaf: leaf_array(leaf) is not None, is_computable):
        return None
    return np.asarray(compute_array(value, leaf_array, memo))


def leaf_array(leaf: Value) -> Any:
    """Return the array of a constant, or the bound array of a parameter. Return None for other
    values."""
    return leaf.bound if leaf.const is None else leaf.const


def is_computable(node: Node) -> bool:
    """Return True for a node that can be evaluated during conversion.

    It has no bodies and runs no user code, its operands and results have no named dimensions, and
    it is not the size of a named dimension.
    """
    is_pure = not node.bodies and node.op is not ops.dim_as_value and not node.op.calls
    return is_pure and all(dims.all_static(v.shape) for v in (*node.inputs, *node.outputs))
