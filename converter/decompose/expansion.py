"""Trace a JAX function in place of a node that ONNX has no operator or type for.

The operations of the traced function are decomposed at once, because the new operands show whether
a complex number is real. Operations that draw from PRNG keys or move them become operations on the
numbers of the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from converter import decompositions
from converter.decompositions.complex.complex_rules import is_known_real, rule_on_real_parts
from converter.decompositions.registered import BUILTIN_EXPANSIONS, DecompositionFunction, Expansion
from converter.errors import UnsupportedError
from converter.frontend.array_forms import (
    COMPLEX,
    DRAWING_PRIMITIVES,
    THREEFRY,
    Constants,
    GraphFormFunction,
    is_key,
)
from converter.frontend.diagnostics import translate_errors
from converter.frontend.inline import Inliner
from converter.ir import Graph, Node, Value
from converter.ir.complex_pairs import is_complex
from converter.ir.names import Names
from converter.ir.op import Op
from converter.ir.rewrite import Editor, drop_dead, sweep


def decompose(graph: Graph, should_replace: Callable[[Op], bool] = lambda op: True) -> bool:
    """Replace all nodes that have a decomposition by the operations of its JAX function, in place.

    Bodies are included, and dead nodes are removed first. A node is not changed if none of its
    results has elements. A node whose decomposition raises `UnsupportedError` is kept and gets a
    ``refusal_reason``. Return True if any node was replaced.

    Arguments:
        should_replace: returns True for the operations to replace; by default for all.
    """
    drop_dead(graph)
    constants, user_op_names = Constants([], Names()), graph.user_op_names()

    def expand(node: Node, editor: Editor) -> Sequence[Value] | None:
        closed = _expanded_jaxpr(node, user_op_names)
        if closed is None:
            return None
        decomposer = Decomposer(constants, node.source, user_op_names=user_op_names)
        return decomposer.inline(closed, node.inputs, editor.nodes)

    expandable = {node.op for node in graph.walk() if _is_expandable(node, user_op_names)}
    expandable = set(filter(should_replace, expandable))
    return bool(expandable) and sweep(graph, dict.fromkeys(expandable, expand))


@dataclass(eq=False)
class Decomposer(Inliner):
    """Inliner of the jaxpr of a decomposition.

    All new nodes get the source line of the node that is replaced. New nodes that have a
    decomposition are replaced too. ``user_op_names`` are the names of users' primitives in the
    graph.
    """

    user_op_names: frozenset[str] = frozenset()

    def at_source(self, source: Any) -> Decomposer:
        """Return this inliner unchanged: nodes keep the source line of the replaced node."""
        return self

    def append(self, node: Node, nodes: list[Node]) -> list[Value]:
        """Append a node to ``nodes``, or the nodes of its decomposition if it has one, and return
        the values of the node's outputs."""
        closed = _expanded_jaxpr(node, self.user_op_names)
        if closed is None:
            return super().append(node, nodes)
        return self.inline(closed, node.inputs, nodes)


def _is_expandable(node: Node, user_op_names: Collection[str]) -> bool:
    """Return True if a node has a decomposition or computes with complex numbers.

    A complex operation is included even if it turns out to have no decomposition. Nodes on PRNG
    keys are not included; see `expand_key_operations`. ``user_op_names`` are the names of users'
    primitives in the graph.
    """
    if isinstance(node.meaning, GraphFormFunction):
        return node.meaning.kind == COMPLEX
    return decompositions.find_decomposition(node.op, user_op_names) is not None


def _expanded_jaxpr(node: Node, user_op_names: Collection[str]) -> Any:
    """Return the closed jaxpr that replaces a node, or None if the node is kept.

    It is kept if there is no decomposition, or none for its parameters and operands, or if none of
    its outputs has elements. It is also kept if the decomposition raises `UnsupportedError`. The
    node then gets the reason as its ``refusal_reason``, which the lowering reports together with
    all others.
    """
    if not _is_expandable(node, user_op_names) or all(0 in v.shape for v in node.outputs):
        return None
    with translate_errors(node.op.name, node.inputs, node.source):
        try:
            if isinstance(node.meaning, GraphFormFunction):
                return _complex_jaxpr(node, node.meaning)
            return _apply_expansion(
                decompositions.find_decomposition(node.op, user_op_names), node, node.inputs
            )
        except UnsupportedError as error:
            # The lowering reports this error together with all others.
            node.refusal_reason = error.reason
            return None


def _apply_expansion(expansion: Expansion | None, node: Node, types: Sequence[Any]) -> Any:
    """Return the closed jaxpr of an expansion for a node, or None if it does not apply.

    It does not apply if the node has a parameter that the expansion does not declare, or if its
    predicate ``applies`` returns False.

    Arguments:
        expansion: the expansion of the node's operation; None returns None.
        types: the shapes and dtypes of the operands.
    """
    if expansion is None or expansion.unknown(node.params):
        return None
    if not expansion.applies(types, node.params):
        return None
    return trace_expansion(expansion.bind(node.params), types)


def _complex_jaxpr(node: Node, meaning: GraphFormFunction) -> Any:
    """Return the closed jaxpr of an operation on complex numbers, as a function of pairs of real
    numbers.

    It is the definition of the primitive on real and imaginary parts (`rule_on_real_parts`). If
    there is none, it is the decomposition of the primitive, if that holds for complex numbers or no
    operand is complex. Otherwise return None.

    Arguments:
        meaning: the primitive, and the JAX types of its operands.
    """
    primitive, types = meaning.primitive, meaning.types
    pairs = zip(types, node.inputs, strict=True)
    real = [is_complex(aval.dtype) and is_known_real(value) for aval, value in pairs]
    all_params = {**node.params, **meaning.hints}
    function = rule_on_real_parts(primitive, types, real, all_params, node.params)
    if function is not None:
        return trace_expansion(function, node.inputs)
    builtin = BUILTIN_EXPANSIONS.get(primitive.name)
    if (builtin and builtin.of_complex) or not any(is_complex(aval.dtype) for aval in types):
        return _apply_expansion(decompositions.find_decomposition(primitive.name), node, types)
    return None


def trace_expansion(function: DecompositionFunction, types: Sequence[Any]) -> Any:
    """Return the closed jaxpr of a function of arrays, for operands with the shapes and dtypes of
    ``types``."""
    return jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(t.shape, t.dtype) for t in types))


KEY_COMPARISONS = {"eq": jnp.all, "ne": jnp.any}
"""Functions that combine the comparisons of the numbers of a key."""


def expand_key_operations(graph: Graph) -> bool:
    """Replace operations on PRNG keys by operations on the numbers of the keys, in place.

    The graph is processed again until there are no such operations, since an operation may be
    replaced by others on keys. Drawing from keys of another generator than threefry is not
    replaced. Return True if any node was replaced.
    """
    changed = False
    while operations := {node.op for node in graph.walk() if _is_expandable_key_operation(node)}:
        changed |= sweep(graph, dict.fromkeys(operations, _expand_key_node))
    return changed


def _expand_key_node(node: Node, editor: Editor) -> Sequence[Value]:
    """Append the nodes that compute an operation on keys from the keys' numbers, and return the
    values of the operation's outputs."""
    closed = trace_expansion(function_on_numbers(node), node.inputs)
    return Decomposer(Constants([], Names()), node.source).inline(closed, node.inputs, editor.nodes)


def _is_expandable_key_operation(node: Node) -> bool:
    """Return True if `expand_key_operations` replaces a node: it moves or compares PRNG keys, or
    draws from threefry keys."""
    meaning = node.meaning
    if not isinstance(meaning, GraphFormFunction) or meaning.kind == COMPLEX:
        return False
    return meaning.primitive.name not in DRAWING_PRIMITIVES or meaning.kind == THREEFRY


def function_on_numbers(node: Node) -> Callable[..., Any]:
    """Return a JAX function that computes the outputs of a node on PRNG keys from the keys'
    numbers.

    The function takes and returns arrays in the form of the graph: a key is uint32 numbers on a
    last axis. A primitive that draws from keys is computed by its expansion, or else by JAX's
    implementation. The node must be one for which `_is_expandable_key_operation` is True.
    """
    assert isinstance(node.meaning, GraphFormFunction)
    meaning, primitive = node.meaning, node.meaning.primitive
    if primitive.name not in DRAWING_PRIMITIVES:
        return partial(_apply_to_numbers, meaning, node.params)
    expansion = decompositions.find_decomposition(primitive.name)
    if expansion is None:
        # Use JAX's implementation, vectorized over all elements.
        function = partial(primitive.impl, use_vmap=True, **node.params)
        return lambda *xs: function(*meaning.to_jax_arrays(xs))
    return expansion.bind(node.params)


def _apply_to_numbers(meaning: GraphFormFunction, params: Mapping[str, Any], *xs: jax.Array) -> Any:
    """Return the list of results of an operation that moves or compares keys, for arrays of the
    keys' numbers.

    The operation is applied to each number of the keys separately: first to the first number of all
    keys, then to the second, and so on. Two keys are equal if all their numbers are equal.
    """
    name = meaning.primitive.name
    axes = [-1 if is_key(aval) else None for aval in meaning.types]
    apply = jax.vmap(lambda *xs: meaning.jax_meaning(xs, params), in_axes=axes, out_axes=-1)
    return [KEY_COMPARISONS[name](x, -1) if name in KEY_COMPARISONS else x for x in apply(*xs)]
