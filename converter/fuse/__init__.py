"""Recognisers: each finds one macro structure in a simplified graph and names it.

They run in order, cheap and certain ones first; what one names, the next can build on. A structure
that looks right but cannot be proved is left alone, with a note.
"""

from __future__ import annotations

import logging

from converter.fuse import attention, gelu, layer_norm, pairs, resize, rms_norm, rotary, softmax
from converter.fuse.match import Match, NearMiss, Recogniser
from converter.graph import Graph, Node, Value
from converter.rewrite import Editor, Rule, sweep
from converter.simplify import simplify

logger = logging.getLogger(__name__)

__all__ = ["NearMiss", "fuse"]

# (recognisers of one sweep, the opset that brought what they write)
STAGES: tuple[tuple[tuple[Recogniser, ...], int], ...] = (
    ((pairs.PAIRS,), 17),
    ((layer_norm.CORE, gelu.GELU, softmax.SOFTMAX, softmax.LOG_SOFTMAX, rotary.ROTARY), 17),
    ((rms_norm.RMS_NORM,), 23),
    ((layer_norm.AFFINE, rotary.PREFIX), 17),
    ((attention.ATTENTION,), 23),
)


def fuse(graph: Graph, opset: int) -> tuple[Graph, list[NearMiss]]:
    """The graph with every recognised structure as one node, and what was nearly recognised."""
    notes: list[NearMiss] = []
    resizes = ((resize.recogniser(opset),), 17)
    for recognisers, since in (resizes, *STAGES):
        if opset < since:
            continue
        graph = graph.clone()
        rules: dict[str, list[Match]] = {}
        for recogniser in recognisers:
            for op in recogniser.roots:
                rules.setdefault(op, []).append(recogniser.match)
        sweep(graph, {op: _first(matches, notes) for op, matches in rules.items()})
        graph = simplify(graph)
    for note in notes:
        logger.info("%s not fused: %s", note.pattern, note.reason)
    return graph, notes


def _first(matches: list[Match], notes: list[NearMiss]) -> Rule:
    def rule(node: Node, editor: Editor) -> Value | None:
        for match in matches:
            result = match(node, editor, notes)
            if result is not None:
                return result
        return None

    return rule
