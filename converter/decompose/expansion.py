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
    PairFunction,
    is_key,
)
from converter.frontend.diagnostics import translate_errors
from converter.frontend.inline import Inliner
from converter.ir import Graph, Node, Value
from converter.ir.complex_pairs import is_complex
from converter.ir.names import Names
from converter.ir.op import Op
from converter.ir.rewrite import Editor, drop_dead, sweep


def decompose(graph: Graph, only: Callable[[Op], bool] = lambda op: True) -> bool:
    """Replace all nodes that have a decomposition by the operations of its JAX function, in place.

    Nodes whose results have no elements are not changed. Return True if any node was replaced.

    Arguments:
        only: returns True for the operations to replace; by default for all.
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
    expandable = set(filter(only, expandable))
    return bool(expandable) and sweep(graph, dict.fromkeys(expandable, expand))


@dataclass(eq=False)
class Decomposer(Inliner):
    """Inliner of the jaxpr of a decomposition.

    All new nodes get the source line of the node that is replaced. New nodes that have a
    decomposition are replaced too. ``user_op_names`` are the names of the graph's own primitives of
    users.
    """

    user_op_names: frozenset[str] = frozenset()

    def at_source(self, source: Any) -> Decomposer:
        """Return this inliner unchanged: nodes keep the source line of the replaced node."""
        return self

    def append(self, node: Node, nodes: list[Node]) -> list[Value]:
        """Append a node, or the nodes of its decomposition if it has one, and return the values of
        its outputs."""
        closed = _expanded_jaxpr(node, self.user_op_names)
        if closed is None:
            return super().append(node, nodes)
        return self.inline(closed, node.inputs, nodes)


def _is_expandable(node: Node, user_op_names: Collection[str]) -> bool:
    """Return True if there is a decomposition for the operation of a node.

    There always is one for a node on complex numbers. Nodes on PRNG keys are not included here; see
    `expand_key_operations`. ``user_op_names`` are the names of users' primitives in the graph.
    """
    if isinstance(node.meaning, PairFunction):
        return node.meaning.kind == COMPLEX
    return decompositions.find_decomposition(node.op, user_op_names) is not None


def _expanded_jaxpr(node: Node, user_op_names: Collection[str]) -> Any:
    """Return the closed jaxpr that replaces a node, or None if the node is not replaced.

    It stays if there is no decomposition, or none for its parameters and operands, or if its
    outputs have no elements. If the decomposition raises `UnsupportedError`, the node gets the
    reason as its ``refusal_reason``, which the lowering reports together with all others.
    """
    if not _is_expandable(node, user_op_names) or all(0 in v.shape for v in node.outputs):
        return None
    with translate_errors(node.op.name, node.inputs, node.source):
        try:
            if isinstance(node.meaning, PairFunction):
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

    Arguments:
        expansion: the expansion of the node's operation, or None.
        types: the shapes and dtypes of the operands.
    """
    if expansion is None or expansion.unknown(node.params):
        return None
    if not expansion.applies(types, node.params):
        return None
    return trace_expansion(expansion.bind(node.params), types)


def _complex_jaxpr(node: Node, meaning: PairFunction) -> Any:
    """Return the closed jaxpr of an operation on complex numbers, as a function of pairs of real
    numbers.

    It is the definition of the primitive on real and imaginary parts. If there is none, it is the
    decomposition of the primitive, if that holds for complex numbers. Otherwise return None.

    Arguments:
        meaning: the function of the node on complex numbers, with the JAX types of its operands.
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

    This is repeated until there are none, since an operation may be replaced by others on keys. If
    the generator of a key is not threefry, only operations that move or compare the key are
    replaced. Return True if any node was replaced.
    """
    changed = False
    while operations := {node.op for node in graph.walk() if _holds_keys(node)}:
        changed |= sweep(graph, dict.fromkeys(operations, _expand_key_node))
    return changed


def _expand_key_node(node: Node, editor: Editor) -> Sequence[Value]:
    """Append the nodes that compute an operation on keys from their numbers, and return the values
    of its outputs."""
    closed = trace_expansion(function_on_numbers(node), node.inputs)
    return Decomposer(Constants([], Names()), node.source).inline(closed, node.inputs, editor.nodes)


def _holds_keys(node: Node) -> bool:
    """Return True if a node moves or compares keys, or draws from threefry keys, so that it can be
    expressed on their numbers."""
    meaning = node.meaning
    if not isinstance(meaning, PairFunction) or meaning.kind == COMPLEX:
        return False
    return meaning.primitive.name not in DRAWING_PRIMITIVES or meaning.kind == THREEFRY


def function_on_numbers(node: Node) -> Callable[..., Any]:
    """Return a JAX function that computes the outputs of a node from the numbers of its keys.

    The function takes and returns arrays in the form of the graph: a key is uint32 numbers on a
    last axis.
    """
    assert isinstance(node.meaning, PairFunction)
    meaning, primitive = node.meaning, node.meaning.primitive
    if primitive.name not in DRAWING_PRIMITIVES:
        return partial(_apply_to_numbers, meaning, node.params)
    expansion = decompositions.find_decomposition(primitive.name)
    if expansion is None:
        # Use JAX's implementation, vectorized over all elements.
        function = partial(primitive.impl, use_vmap=True, **node.params)
        return lambda *xs: function(*meaning.to_jax_arrays(xs))
    return expansion.bind(node.params)


def _apply_to_numbers(meaning: PairFunction, params: Mapping[str, Any], *xs: jax.Array) -> Any:
    """Return the results of an operation that moves or compares keys, for arrays of their numbers.

    The operation is applied to the first number of all keys, then to the second. A comparison of
    keys combines the comparisons of both.
    """
    name = meaning.primitive.name
    axes = [-1 if is_key(aval) else None for aval in meaning.types]
    apply = jax.vmap(lambda *xs: meaning.jax_meaning(xs, params), in_axes=axes, out_axes=-1)
    return [KEY_COMPARISONS[name](x, -1) if name in KEY_COMPARISONS else x for x in apply(*xs)]
