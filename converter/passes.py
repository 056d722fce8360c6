"""The way from a trace to a graph that can be written: passes in a row, each of them provable.

After every pass the graph is one that JAX can evaluate, so whoever doubts a number evaluates it
after each (``converter.bisect`` does). The order is checked against what the passes say of
themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from converter.arrange import (
    activation,
    arithmetic,
    bounds,
    broadcast,
    contraction,
    conv_bias,
    convolution,
    exact,
    heads,
    kernels,
    layout,
    pooling,
    resize,
    siblings,
    take,
)
from converter.fuse import (
    affine,
    attention,
    gelu,
    layer_norm,
    pairs,
    prefix,
    rms_norm,
    rotary,
    softmax,
)
from converter.fuse import resize as resampling
from converter.fuse.match import Recogniser, rules
from converter.graph import Graph
from converter.graph.rewrite import Rule, drop_dead, sweep
from converter.programs.hoist import hoist, weights
from converter.settings import Settings
from converter.simplify import FORMS, simplify


@dataclass(frozen=True)
class Pass:
    """One step from graph to graph, in place.

    ``run`` says whether it changed anything. ``after`` names passes that must have run before it;
    ``gone`` names operations of which none is left once it has run, nor after any later pass;
    ``settles`` says that what it leaves is simplified at once; ``since`` is the opset that brought
    what it writes.
    """

    name: str
    purpose: str
    run: Callable[[Graph, Settings], bool]
    after: tuple[str, ...] = ()
    gone: frozenset[str] = frozenset()
    settles: bool = True
    since: int = 17


def run(
    graph: Graph, settings: Settings, watch: Callable[[str, Graph], None] = lambda name, graph: None
) -> None:
    """All passes that the opset allows, in place; ``watch`` is called after each."""
    for step in PASSES:
        if settings.opset < step.since:
            continue
        if step.run(graph, settings) and step.settles:
            simplify(graph)
        watch(step.name, graph)


def _sweep(*tables: dict[str, Rule]) -> Callable[[Graph, Settings], bool]:
    """A pass that applies rules once, in topological order."""
    joined = {op: rule for table in tables for op, rule in table.items()}

    def run(graph: Graph, _: Settings) -> bool:
        changed = sweep(graph, joined).changed
        drop_dead(graph)
        return changed

    return run


def _recognise(*recognisers: Recogniser) -> Callable[[Graph, Settings], bool]:
    """A pass that tries recognisers, the first to match having the node."""

    def run(graph: Graph, settings: Settings) -> bool:
        return sweep(graph, rules(recognisers, settings.notes)).changed

    return run


def _simplify(graph: Graph, _: Settings) -> bool:
    simplify(graph)
    return False


def _resample(graph: Graph, settings: Settings) -> bool:
    return _recognise(resampling.recogniser(settings.opset))(graph, settings)


def _operands(graph: Graph, settings: Settings) -> bool:
    turned = {"rotary": heads.rotary_rule(settings.opset)}
    return _sweep(turned, convolution.RULES, resize.RULES)(graph, settings)


def _windows(graph: Graph, settings: Settings) -> bool:
    return _sweep(pooling.rules(settings.opset, settings.strict), bounds.RULES)(graph, settings)


def _attention_3d(graph: Graph, settings: Settings) -> bool:
    if settings.attention_layout != "3d":
        return False
    return sweep(graph, {"attention": heads.attention_3d}).changed


def _take(graph: Graph, settings: Settings) -> bool:
    taken = _sweep(take.RULES)(graph, settings)
    return _sweep(layout.RULES)(graph, settings) or taken


def _contract(graph: Graph, settings: Settings) -> bool:
    return sweep(graph, {"einsum": contraction.rule(weights(graph))}).changed


def _share(graph: Graph, _: Settings) -> bool:
    return siblings.share_transposes(graph)


def _split(graph: Graph, _: Settings) -> bool:
    layout.merge_splits(graph)
    return False


def _exact(graph: Graph, settings: Settings) -> bool:
    rules = exact.rules(settings.strict, settings.deviations)
    return sweep(graph, rules).changed


def _hoist(graph: Graph, _: Settings) -> bool:
    hoist(graph)
    return False


PASSES: tuple[Pass, ...] = (
    Pass(
        "simplify",
        "One spelling where JAX has several; nothing dead, known or twice.",
        _simplify,
        gone=FORMS,
    ),
    Pass(
        "resample",
        "Products with interpolation matrices become one resize.",
        _resample,
        after=("simplify",),
    ),
    Pass(
        "pair",
        "Neighbours that are turned alike are seen as pairs, as rotary embeddings write them.",
        _recognise(pairs.PAIRS),
        after=("simplify",),
    ),
    Pass(
        "recognise",
        "Layer norms, GELU, softmax and rotary embeddings get their names.",
        _recognise(layer_norm.CORE, gelu.GELU, softmax.SOFTMAX, softmax.LOG_SOFTMAX, rotary.ROTARY),
        after=("pair",),
    ),
    Pass(
        "recognise rms norm",
        "Root mean square norms get their name.",
        _recognise(rms_norm.RMS_NORM),
        after=("recognise",),
        since=23,
    ),
    Pass(
        "complete",
        "Norms take in their scale and bias, rotary embeddings the tokens that they leave alone.",
        _recognise(affine.AFFINE, prefix.PREFIX),
        after=("recognise", "recognise rms norm"),
    ),
    Pass(
        "attend",
        "A softmax between two products becomes attention.",
        _recognise(attention.ATTENTION),
        after=("recognise", "complete"),
        since=23,
    ),
    Pass(
        "operands",
        "Rotary embeddings, convolutions and resizes take ONNX's order of axes.",
        _operands,
        after=("recognise", "attend"),
        gone=frozenset({"conv_general_dilated", "rotary"}),
        settles=False,
    ),
    Pass(
        "windows",
        "Pooling takes ONNX's order of axes; indices are brought within bounds as JAX does.",
        _windows,
        after=("operands",),
        settles=False,
    ),
    Pass(
        "attention 3d",
        "Attention takes its heads side by side where that was asked for.",
        _attention_3d,
        after=("attend", "operands"),
        settles=False,
    ),
    Pass("settle", "What was rearranged is simplified.", _simplify, after=("attention 3d",)),
    Pass(
        "take",
        "Gathers along one axis, and chains of reshapes, transposes and slices in their shortest.",
        _take,
        after=("settle",),
    ),
    Pass(
        "contract",
        "Contractions become matrix products.",
        _contract,
        after=("attend", "take"),
        gone=frozenset({"einsum"}),
    ),
    Pass(
        "share transposes",
        "The equal parts of a value are transposed as one.",
        _share,
        after=("contract",),
    ),
    Pass(
        "absorb",
        "A bias goes into its convolution, a mean into its pool; relu gets its name.",
        _sweep(conv_bias.RULES, pooling.MEAN, activation.RULES),
        after=("operands", "windows"),
        settles=False,
    ),
    Pass(
        "select",
        "One entry of an axis is one gather.",
        _sweep(layout.SELECT),
        after=("share transposes",),
        settles=False,
    ),
    Pass(
        "split",
        "Slices that cover an axis together are one split.",
        _split,
        after=("share transposes", "select"),
        settles=False,
    ),
    Pass(
        "broadcast",
        "What the next operation broadcasts by itself is not written.",
        _sweep(broadcast.RULES),
        after=("contract",),
        settles=False,
    ),
    Pass(
        "exact",
        "Where the runtime's operators may differ from JAX, that is noted, or mended if strict.",
        _exact,
        after=("split", "broadcast"),
        settles=False,
    ),
    Pass(
        "arithmetic",
        "Divisions by zero and floats beyond the range of integers give what they give in JAX.",
        _sweep(arithmetic.RULES),
        after=("exact",),
        settles=False,
    ),
    Pass(
        "kernels",
        "What the runtime has no kernel for is computed in a dtype that it has one for.",
        _sweep(kernels.RULES),
        after=("arithmetic",),
        settles=False,
    ),
    Pass(
        "hoist",
        "What depends on parameters alone becomes a parameter, computed when the file is saved.",
        _hoist,
        after=("kernels",),
        settles=False,
    ),
)
"""Between the trace and the lowering."""
