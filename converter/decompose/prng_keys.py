"""What is drawn from PRNG keys, and how they are moved, as operations on the numbers they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from converter import decompositions
from converter.decompose.expansion import inlined
from converter.frontend.array_forms import COMPLEX, DRAWS, WRITTEN, OfHeld, is_key
from converter.ir import Graph, Node, Value
from converter.ir.rewrite import Editor, sweep

COMPARED = {"eq": jnp.all, "ne": jnp.any}
"""What comparing keys makes of comparing their numbers."""


def represent(graph: Graph) -> bool:
    """Write out all that has to do with keys, in place; whether there was anything.

    What is written may have to do with keys again.
    """
    changed = False
    while found := {node.op for node in graph.walk() if _stands_for_more(node)}:
        changed |= sweep(graph, dict.fromkeys(found, _prng_keys_written)).changed
    return changed


def _prng_keys_written(node: Node, editor: Editor) -> Sequence[Value]:
    types = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in node.inputs]
    return inlined(jax.make_jaxpr(_on_numbers(node))(*types), node, editor.nodes)


def _stands_for_more(node: Node) -> bool:
    """Whether a node does something to keys that can be said of their numbers."""
    meaning = node.meaning
    if not isinstance(meaning, OfHeld) or meaning.kind == COMPLEX:
        return False
    return meaning.primitive.name not in DRAWS or meaning.kind == WRITTEN


def _on_numbers(node: Node) -> Callable[..., Any]:
    """What such a node does to the numbers that its keys hold."""
    assert isinstance(node.meaning, OfHeld)
    meaning, primitive = node.meaning, node.meaning.primitive
    if primitive.name not in DRAWS:
        return partial(_prng_keys_moved, meaning, node.params)
    expansion = decompositions.find_decomposition(primitive.name)
    if expansion is None:  # JAX's own function, all elements side by side as in its compiled form
        whole = partial(primitive.impl, use_vmap=True, **node.params)
        return lambda *xs: whole(*meaning.given(xs))
    return expansion.called(node.params)


def _prng_keys_moved(meaning: OfHeld, params: Mapping[str, Any], *xs: jax.Array) -> Any:
    """Each of the keys' numbers goes the same way."""
    name = meaning.primitive.name
    axes = [-1 if is_key(aval) else None for aval in meaning.types]
    apply = jax.vmap(lambda *xs: meaning.own(xs, params), in_axes=axes, out_axes=-1)
    return [COMPARED[name](x, -1) if name in COMPARED else x for x in apply(*xs)]
