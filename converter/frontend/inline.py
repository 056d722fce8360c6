"""Convert jaxprs to lists of nodes, with calls inlined.

Later steps do not depend on the JAX version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend import core as jex

from converter import decompositions
from converter.errors import UnsupportedError
from converter.frontend.array_forms import (
    IDENTITY_PRIMITIVES,
    Constants,
    GraphFormFunction,
    graph_type,
    new_input,
    new_literal,
    node_appender,
    special_kind,
)
from converter.frontend.calls import (
    branch_without_checks,
    is_user_primitive,
    replacement_jaxpr,
    user_primitive_jaxpr,
)
from converter.frontend.diagnostics import check_reshape_sizes, translate_errors
from converter.frontend.refused import REFUSAL_REASONS, REFUSED_WHILE_TRACING
from converter.frontend.source_lines import line_of
from converter.ir import Graph, Node, Value, const, make_node, ops
from converter.ir.dims import as_shape
from converter.ir.nodes import Meaning
from converter.jax_versions import bind_primitive, named_params

# The dimension numbers of a primitive are a named tuple of axes.
DIMENSION_NUMBERS = (
    lax.ConvDimensionNumbers,
    lax.GatherDimensionNumbers,
    lax.ScatterDimensionNumbers,
)

# Parameters that affect how or where an operation is computed, but not its result. They are not
# passed to nodes. The function of a scatter is not needed, because the name of the primitive says
# how updates are combined; a scatter that applies a user's function is decomposed.
HINTS = frozenset(
    {
        *("accuracy", "sharding", "out_sharding", "weak_type", "unroll"),
        "out_dtype",  # operations with this parameter are replaced before this step
        *("indices_are_sorted", "unique_indices", "update_jaxpr", "update_consts"),
        *("recall_target", "reduction_input_size_override"),
        "is_stable",  # this parameter is ignored because all sorting operators of ONNX are stable
    }
)

DROPPED_PRIMITIVES = {
    "check": "jax.experimental.checkify.check: a file raises nothing",
    "dce_sink": "jax.lax.dce_sink: a file computes what it gives",
    "debug_callback": "jax.debug.callback: a file calls no Python",
    "debug_print": "jax.debug.print: a file prints nothing",
    "error_if": "equinox.error_if: a file raises nothing",
    "inspect_sharding": "jax.debug.inspect_array_sharding: a file calls no Python",
    "layout_constraint": "jax.experimental.layout.with_layout_constraint: a runtime lays out",
    "optimization_barrier": "jax.lax.optimization_barrier: a runtime optimises as it likes",
    "relayout": "a change of layout: a runtime lays out",
    "reshard": "jax.sharding.reshard: a file is for one device",
    "sharding_constraint": "jax.lax.with_sharding_constraint: a file is for one device",
}
"""Primitives that return their operands, if they have results, and the warning about each.
Conditionals that only check something count as ``error_if``."""


@dataclass(eq=False)
class Inliner:
    """Converter of jaxprs to lists of nodes, with calls inlined.

    Arguments:
        constants: converts captured arrays to values, each array once.
        sources: source locations of the enclosing calls, innermost first. They are needed because
            the jaxpr of a ``jit`` contains only the locations inside of its own function.
        dropped: collects the names of primitives that were dropped (`DROPPED_PRIMITIVES`).
        enclosing_primitives: the users' primitives whose implementations are currently being
            converted, outermost first.
        kept_calls: names of functions under ``jax.jit`` whose calls become nodes with a body and
            are not inlined.
    """

    constants: Constants
    sources: tuple[Any, ...] = ()
    dropped: set[str] = field(default_factory=set)
    enclosing_primitives: tuple[Any, ...] = ()
    kept_calls: frozenset[str] = frozenset()

    def inline(self, closed: Any, args: Sequence[Value], nodes: list[Node]) -> list[Value]:
        """Append the equations of a closed jaxpr as nodes, and return the values of its outputs.

        Arguments:
            closed: a closed jaxpr. Its constants are also converted to values.
            args: the values of its inputs.
            nodes: the list that is appended to.
        """
        jaxpr = closed.jaxpr
        constants = [self.constants.value(c) for c in closed.consts]
        env: dict[Any, Value] = dict(zip(jaxpr.constvars, constants, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Any) -> Value:
            return new_literal(atom) if isinstance(atom, jex.Literal) else env[atom]

        for eqn in jaxpr.eqns:
            inputs = [read(a) for a in eqn.invars]
            env.update(zip(eqn.outvars, self._inline_equation(eqn, inputs, nodes), strict=True))
        return [read(a) for a in jaxpr.outvars]

    def _inline_equation(self, eqn: Any, inputs: list[Value], nodes: list[Node]) -> list[Value]:
        """Append the nodes of an equation of a jaxpr, and return the values of its outputs.

        The equation is inlined if it is a call, or if it is replaced by another jaxpr. A
        conditional with a constant index is replaced by its branch. If a primitive has no effect in
        a file, its operands are returned.

        Arguments:
            inputs: the values of the equation's operands.
            nodes: the list that is appended to.

        Raises:
            UnsupportedError: the primitive has an effect but no result, or is never converted.
        """
        inner = self.at_source(eqn.source_info)
        if is_user_primitive(eqn.primitive):
            return inner.inline_user_primitive(eqn, inputs, nodes)
        name = eqn.primitive.name
        if name == "cond" and (unchecked_branch := branch_without_checks(eqn)) is not None:
            self.dropped.add("error_if")
            return inner.inline(unchecked_branch, inputs[1:], nodes)
        if name in DROPPED_PRIMITIVES:
            self.dropped.add(name)
            return inputs[: len(eqn.outvars)]
        if all(v.aval.dtype == jax.dtypes.float0 for v in eqn.outvars) and eqn.outvars:
            return _float0_tangents(eqn, nodes)
        if name == "cond" and inputs[0].kind == "const":
            # The constant is usually the index of the platform.
            # An index that is out of range is clamped.
            branches = eqn.params["branches"]
            branch = branches[int(np.clip(int(inputs[0].const), 0, len(branches) - 1))]
            return inner.inline(branch, inputs[1:], nodes)
        if name in IDENTITY_PRIMITIVES:
            return inputs
        if name == "reshape":
            check_reshape_sizes(
                (eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape), inner.sources
            )
        with translate_errors(name, inputs, inner.sources):
            replaced = replacement_jaxpr(eqn, HINTS)
        is_kept = name == "jit" and eqn.params["name"] in self.kept_calls and bool(eqn.outvars)
        if replaced is not None and is_kept:
            node = inner.call_node(eqn, replaced, inputs)
            return inner.append(node, nodes)
        if replaced is not None:
            return inner.inline(replaced, inputs, nodes)
        is_lost = name in REFUSED_WHILE_TRACING or not (eqn.outvars or name in CONTROL_FLOW)
        if is_lost and decompositions.find_decomposition(name) is None:
            raise _effect_error(name, inner.sources)
        control = CONTROL_FLOW.get(name)
        node = control(inner, eqn, inputs, nodes) if control else _plain_node(eqn, inputs)
        node.source = inner.sources
        return inner.append(node, nodes)[: len(eqn.outvars)]

    def at_source(self, source: Any) -> Inliner:
        """Return a copy of this inliner for the jaxpr of an equation.

        The source location of the equation is added to the locations of the enclosing calls.
        """
        return replace(self, sources=(source, *self.sources))

    def append(self, node: Node, nodes: list[Node]) -> list[Value]:
        """Append a node to ``nodes``, and return its outputs. Subclasses may append others in its
        place."""
        nodes.append(node)
        return node.outputs

    def inline_user_primitive(
        self, eqn: Any, inputs: list[Value], nodes: list[Node]
    ) -> list[Value]:
        """Append the nodes for a user's primitive, and return the values of its outputs.

        The implementation of the primitive is inlined. If a rule is registered for the primitive,
        or the implementation cannot be traced, the primitive becomes a node; in the second case the
        node has the reason as its ``refusal_reason``.

        Raises:
            UnsupportedError: the primitive has no result.
        """
        primitive = eqn.primitive
        if not eqn.outvars:
            raise _effect_error(primitive.name, self.sources)
        closed, refusal = user_primitive_jaxpr(eqn, self.enclosing_primitives)
        if closed is not None:
            inner = replace(self, enclosing_primitives=(*self.enclosing_primitives, primitive))
            return inner.inline(closed, inputs, nodes)
        op, meaning = ops.user_op(primitive), _meaning(primitive, {})
        params = {k: _plain_ints(v) for k, v in eqn.params.items()}
        node = make_node(op, inputs, _types(eqn.outvars), params, meaning=meaning)
        node.source, node.refusal_reason = self.sources, refusal
        return self.append(node, nodes)

    def call_node(self, eqn: Any, closed: Any, inputs: list[Value]) -> Node:
        """Return the node of a call that is not inlined. Calls inside its body are inlined.

        Arguments:
            eqn: the equation of the call; its function's name becomes a parameter of the node.
            closed: the closed jaxpr of the function, which becomes the body of the node.
            inputs: the values of the operands.
        """
        name = eqn.params["name"]
        node = make_node(ops.named_call, inputs, _types(eqn.outvars), {"name": name})
        node.bodies = {"call": replace(self, kept_calls=frozenset()).nested_graph(closed, ())}
        node.source = self.sources
        return node

    def nested_graph(self, closed: Any, captured: Sequence[Value]) -> Graph:
        """Return the nested graph of a closed jaxpr.

        The first inputs of the jaxpr are the ``captured`` values of the graph around it. The other
        inputs become inputs of the nested graph.
        """
        inner = [new_input(v.aval) for v in closed.jaxpr.invars[len(captured) :]]
        nodes: list[Node] = []
        outputs = self.inline(closed, [*captured, *inner], nodes)
        return Graph(inner, outputs, nodes)


def _effect_error(name: str, sources: tuple[Any, ...]) -> UnsupportedError:
    """Return the error for a primitive with an effect but no result, or one that is never
    converted.

    It would otherwise be dropped silently, or its value would become a constant.

    Arguments:
        name: the name of the primitive.
        sources: JAX's source locations of the primitive, innermost first.
    """
    reason = REFUSAL_REASONS.get(
        name, "it has an effect and no result, and a file has results only"
    )
    return UnsupportedError(f"primitive '{name}' cannot be written: {reason}", line_of(sources))


def _types(variables: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Return the shapes and dtypes that variables of a jaxpr have in the graph."""
    return [graph_type(v.aval) for v in variables]


def _float0_tangents(eqn: Any, nodes: list[Node]) -> list[Value]:
    """Return False, broadcast to its shape, for each output of an equation. All outputs have the
    dtype float0.

    The tangent of an integer has this dtype. It has no values, and ONNX has no such dtype. The
    nodes of the broadcasts are appended to ``nodes``.
    """
    shapes = [as_shape(v.aval.shape) for v in eqn.outvars]
    return [node_appender(nodes).broadcast(const(False), shape, ()) for shape in shapes]


def _plain_node(eqn: Any, inputs: list[Value]) -> Node:
    """Return the node of an equation without nested jaxprs.

    Its parameters are the parameters of the equation without `HINTS`. If an operand or result is a
    key or a complex number, the node's meaning is the primitive on keys or complex numbers, and its
    operation is a separate variant (`ops.op_variant`).

    Arguments:
        eqn: an equation of a jaxpr.
        inputs: the values of its operands.
    """
    all_params = named_params(eqn)
    hints = {k: v for k, v in all_params.items() if k in HINTS}
    params = {k: _plain_ints(v) for k, v in all_params.items() if k not in HINTS}
    op, meaning = ops.op_by_name(eqn.primitive.name), _meaning(eqn.primitive, hints)
    if kind := special_kind(v.aval for v in (*eqn.invars, *eqn.outvars)):
        types = tuple(v.aval for v in eqn.invars)
        meaning = GraphFormFunction(eqn.primitive, kind, types, hints, meaning)
        if special_kind(types) or op.name not in REFUSAL_REASONS:
            op = ops.op_variant(op.name, kind)
    return make_node(op, inputs, _types(eqn.outvars), params, meaning=meaning)


def _plain_ints(param: Any) -> Any:
    """Return a parameter with Python integers in place of numpy integers, also within tuples and
    dimension numbers. JAX mixes both."""
    if isinstance(param, DIMENSION_NUMBERS):
        return type(param)(*(_plain_ints(x) for x in param))
    if type(param) is tuple:
        return tuple(_plain_ints(x) for x in param)
    return int(param) if isinstance(param, np.integer) else param


def _control_node(
    eqn: Any, inputs: Sequence[Value], params: Mapping[str, Any], **bodies: Graph
) -> Node:
    """Return the node of a ``scan``, ``while`` or ``cond``.

    Arguments:
        eqn: the equation of the jaxpr.
        inputs: the operands of the node, except values that its bodies capture.
        params: the parameters of the node.
        bodies: the nested graphs by name.
    """
    node = make_node(ops.op_by_name(eqn.primitive.name), inputs, _types(eqn.outvars), params)
    node.bodies = bodies
    return node


def _inline_scan(inliner: Inliner, eqn: Any, inputs: list[Value], _: list[Node]) -> Node:
    """Return the node of a ``scan``. Its body captures the loop-invariant operands, so that the
    node's operands are the initial state and the arrays to scan."""
    fixed, carried = _scan_counts(eqn.params)
    params = {"num_carry": carried, **{k: eqn.params[k] for k in ("length", "reverse")}}
    body = inliner.nested_graph(eqn.params["jaxpr"], inputs[:fixed])
    return _control_node(eqn, inputs[fixed:], params, body=body)


def _scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many operands of a scan are loop-invariant, and how many are its initial state.
    Since jax 0.12 they are in another parameter."""
    if "ft_in" in params:  # jax >= 0.12
        fixed, carried, _ = (len(part) for part in params["ft_in"].unpack())
        return fixed, carried
    return params["num_consts"], params["num_carry"]


def _inline_while(inliner: Inliner, eqn: Any, inputs: list[Value], nodes: list[Node]) -> Node:
    """Return the node of a ``while`` loop, whose condition and body capture their constants.

    Under ``vmap`` the condition has an element for each lane (entry of the batch); see
    `_batched_while`.
    """
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    cond = inliner.nested_graph(eqn.params["cond_jaxpr"], inputs[:n_cond])
    body = inliner.nested_graph(eqn.params["body_jaxpr"], inputs[n_cond : n_cond + n_body])
    if not cond.outputs[0].shape:
        return _control_node(eqn, inputs[n_cond + n_body :], {}, cond=cond, body=body)
    start = inputs[n_cond + n_body :]

    def lanes(state: Sequence[Value], nodes: list[Node]) -> Value:
        (is_live,) = inliner.inline(eqn.params["cond_jaxpr"], [*inputs[:n_cond], *state], nodes)
        return is_live

    return _batched_while(eqn, start, body, lanes, nodes)


Lanes = Callable[[Sequence[Value], list[Node]], Value]
"""Function that appends the nodes of a loop's condition for a state to a list of nodes. It returns
a Boolean for each lane (each entry of the batch): True while the lane is live."""


def _batched_while(
    eqn: Any, start: Sequence[Value], body: Graph, lanes: Lanes, nodes: list[Node]
) -> Node:
    """Return the node of a loop under ``vmap``, whose condition has an element for each lane.

    The loop runs while any lane is live. Lanes that are not live keep their state. The last part of
    the state is true for the lanes that are live, so that this is computed once per iteration.

    Arguments:
        eqn: the equation of the loop.
        start: the initial state.
        body: the graph of an iteration, from state to state; its nodes are reused.
        lanes: appends the condition of the lanes for a state.
        nodes: the list to which nodes before the loop are appended.
    """
    live_at_start = lanes(start, nodes)
    is_live, still_live = (
        Value(live_at_start.shape, live_at_start.dtype, "input") for _ in range(2)
    )
    axes = tuple(range(is_live.rank))
    editor = node_appender(body.nodes)
    next_states = [
        editor.where(editor.broadcast(is_live, previous.shape, axes), new, previous)
        for previous, new in zip(body.inputs, body.outputs, strict=True)
    ]
    next_states.append(lanes(next_states, body.nodes))
    state = [new_input(v.aval) for v in eqn.outvars]
    condition = list[Node]()
    params = {"axes": axes}
    any_live = node_appender(condition).add(
        ops.reduce_or, [still_live], (), still_live.dtype, params
    )
    types = [*_types(eqn.outvars), (live_at_start.shape, live_at_start.dtype)]
    node = make_node(ops.while_, [*start, live_at_start], types)
    node.bodies = {
        "cond": Graph([*state, still_live], [any_live], condition),
        "body": Graph([*body.inputs, is_live], next_states, body.nodes),
    }
    return node


def _inline_cond(inliner: Inliner, eqn: Any, inputs: list[Value], _: list[Node]) -> Node:
    """Return the node of a ``cond`` with the bodies ``branch_0``, ``branch_1`` …, which capture
    their operands."""
    branches = [inliner.nested_graph(b, inputs[1:]) for b in eqn.params["branches"]]
    return _control_node(eqn, inputs[:1], {}, **{f"branch_{i}": b for i, b in enumerate(branches)})


CONTROL_FLOW: dict[str, Callable[[Inliner, Any, list[Value], list[Node]], Node]] = {
    "scan": _inline_scan,
    "while": _inline_while,
    "cond": _inline_cond,
}


def _meaning(primitive: Any, hints: Mapping[str, Any]) -> Meaning:
    """Return a function that applies a primitive to concrete or traced arrays. It takes the arrays
    and the parameters of a node; ``hints`` are the parameters that nodes do not have."""

    def apply(args: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
        return bind_primitive(primitive, args, {**params, **hints})

    return apply
