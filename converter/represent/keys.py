"""What is drawn from PRNG keys, and how they are moved, as operations on the numbers they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from converter import expand
from converter.graph import Graph, Node, Value, ops
from converter.graph.names import Names
from converter.graph.rewrite import Editor, sweep
from converter.jaxprs.inline import Inliner
from converter.jaxprs.keys import DRAWS, GAMMA, WRITTEN, OfKeys
from converter.jaxprs.values import Constants

COMPARED = {ops.eq: jnp.all, ops.ne: jnp.any}
"""What comparing keys makes of comparing their numbers."""


def represent(graph: Graph) -> bool:
    """Write out all that has to do with keys, in place; whether there was anything.

    What is written may have to do with keys again.
    """
    changed = False
    while found := {node.op for node in graph.walk() if _stands_for_more(node)}:
        changed |= sweep(graph, dict.fromkeys(found, _written)).changed
    return changed


def write_gammas(graph: Graph) -> None:
    """Draws that compute with floats, so that each of their steps is seen."""
    sweep(graph, {ops.named(GAMMA): _written})


def _written(node: Node, editor: Editor) -> Sequence[Value]:
    types = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in node.inputs]
    closed = jax.make_jaxpr(_on_numbers(node))(*types)
    inliner = Inliner(Constants([], Names()), node.source)
    return inliner.inline(closed, node.inputs, editor.nodes)


def _stands_for_more(node: Node) -> bool:
    """Whether a node does something to keys that can be said of their numbers."""
    meaning = node.meaning
    if not isinstance(meaning, OfKeys):
        return False
    return meaning.primitive.name not in DRAWS or meaning.kind == WRITTEN


def _on_numbers(node: Node) -> Callable[..., Any]:
    """What such a node does to the numbers that its keys hold."""
    assert isinstance(node.meaning, OfKeys)
    meaning, primitive = node.meaning, node.meaning.primitive
    if primitive.name not in DRAWS:
        return partial(_moved, meaning, node.params)
    expansion = expand.find(primitive.name)
    if expansion is None:  # JAX's own function, all elements side by side as in its compiled form
        whole = partial(primitive.impl, use_vmap=True, **node.params)
        return lambda *xs: whole(*meaning.keys(xs))
    read = {k: v for k, v in node.params.items() if k in expansion.reads}
    return partial(expansion.function, **read)


def _moved(meaning: OfKeys, params: Mapping[str, Any], *xs: jax.Array) -> Any:
    """Each of the keys' numbers goes the same way."""
    name = meaning.primitive.name
    axes = [-1 if dtype is not None else None for dtype in meaning.dtypes]
    apply = jax.vmap(lambda *xs: meaning.on_keys(xs, params), in_axes=axes, out_axes=-1)
    return [COMPARED[name](x, -1) if name in COMPARED else x for x in apply(*xs)]
