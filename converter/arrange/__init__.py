"""From what a graph means to how ONNX wants it laid out; still a graph that JAX can evaluate.

Contractions become matrix products, rotary embeddings and attention take ONNX's operand layouts,
layout chains collapse, broadcasts that the next operation performs itself disappear, and everything
that depends on parameters alone becomes a weight program.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from converter.arrange import (
    activation,
    bounds,
    broadcast,
    contraction,
    conv_bias,
    convolution,
    heads,
    kernels,
    layout,
    pooling,
    resize,
    siblings,
    take,
)
from converter.arrange.hoist import hoist, weights
from converter.graph import Graph
from converter.rewrite import Rule, drop_dead, sweep
from converter.simplify import simplify

AttentionLayout: TypeAlias = Literal["4d", "3d"]

__all__ = ["AttentionLayout", "arrange"]


def arrange(graph: Graph, opset: int, attention_layout: AttentionLayout = "4d") -> Graph:
    """The graph in ONNX's layouts, its weight programs hoisted."""
    graph = graph.clone()
    sweep(graph, {"rotary": heads.rotary_rule(opset), **convolution.RULES, **resize.RULES})
    sweep(graph, {**pooling.rules(opset), **bounds.RULES})
    if attention_layout == "3d":
        sweep(graph, {"attention": heads.attention_3d})
    graph = simplify(graph)
    sweep(graph, take.RULES)
    sweep(graph, layout.RULES)
    graph = simplify(graph)
    fixed = weights(graph)
    sweep(graph, {"einsum": contraction.rule(fixed)})
    graph = simplify(graph)
    siblings.share_transposes(graph)
    graph = simplify(graph)
    _sweep(graph, {**conv_bias.RULES, **pooling.MEAN, **activation.RULES})
    _sweep(graph, layout.SELECT)
    layout.merge_splits(graph)
    _sweep(graph, broadcast.RULES)
    _sweep(graph, kernels.RULES)
    return hoist(graph)


def _sweep(graph: Graph, rules: dict[str, Rule]) -> None:
    sweep(graph, rules)
    drop_dead(graph)
