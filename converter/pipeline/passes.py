"""The way from a trace to a graph that can be written: passes in a row, each of them provable.

After every pass the graph is one that JAX can evaluate, so whoever doubts a number evaluates it
after each (``converter.bisect`` does). The order is checked against what the passes say of
themselves.
"""

from collections.abc import Callable
from dataclasses import dataclass

from converter.canonicalize import FORMS, canonicalize
from converter.decompose.expansion import decompose, represent
from converter.decompose.joint_draws import join_draws
from converter.fuse import affine, layer_norm, rotary
from converter.ir import Graph, ops
from converter.ir.op import Op
from converter.layout import broadcast, chains, channels, siblings
from converter.legalize import deviations
from converter.loops import batch_loops
from converter.pipeline import steps
from converter.pipeline.settings import Settings
from converter.weight_folding.weight_programs import hoist_weight_programs


@dataclass(frozen=True)
class Pass:
    """One step from graph to graph, in place.

    ``run`` says whether what it leaves is to be canonicalized at once. ``after`` names passes that
    must have run before it; ``eliminates`` names operations of which none is left after it, nor
    after any later pass; ``since`` is the opset that brought what it ``writes``: how often a newer
    one would be there is noted.
    """

    name: str
    purpose: str
    run: Callable[[Graph, Settings], bool | None]
    after: tuple[str, ...] = ()
    eliminates: frozenset[Op] = frozenset()
    since: int = 17
    writes: Op | None = None


def run_passes(graph: Graph, settings: Settings, *watches: Callable[[str, Graph], None]) -> None:
    """All passes that the opset allows, in place; each of ``watches`` is called after each."""
    for step in PASSES:
        if settings.opset < step.since:
            _note_newer(graph, settings, step)
            continue
        if step.run(graph, settings):
            canonicalize(graph)
        for watch in watches:
            watch(step.name, graph)


def _note_newer(graph: Graph, settings: Settings, step: Pass) -> None:
    """What a pass would write whose opset is a newer one, by what it makes of a copy."""
    trial = graph.clone()
    if step.run(trial, settings.trial(step.since)) and step.writes is not None:
        settings.note_newer(step.since, step.writes.operator, trial.count(step.writes))


PASSES: tuple[Pass, ...] = (
    Pass(
        "decompose",
        "What ONNX has no operator or type for is written as the JAX function that it stands for.",
        steps.of_graph(decompose),
    ),
    Pass(
        "canonicalize",
        "One spelling where JAX has several; no dead code, constants folded, equal nodes merged.",
        steps.of_graph(canonicalize),
        after=("decompose",),
        eliminates=FORMS,
    ),
    Pass(
        "keys",
        "What is drawn from PRNG keys is arithmetic on the numbers that they hold.",
        lambda graph, _: any([join_draws(graph), represent(graph)]),
        after=("canonicalize",),
    ),
    Pass(
        "batch",
        "Loops whose steps do not depend on each other are one batch.",
        lambda graph, _: batch_loops(graph),
        after=("keys",),
    ),
    Pass(
        "registered",
        "What recognisers from outside find becomes their operations.",
        steps.registered,
        after=("canonicalize",),
    ),
    Pass(
        "resample",
        "Products with interpolation matrices become one resize.",
        steps.resample,
        after=("canonicalize",),
    ),
    Pass(
        "recognise",
        "Layer norms, GELU, softmax and rotary embeddings get their names.",
        steps.name_blocks,
        after=("canonicalize",),
    ),
    Pass(
        "activate",
        "Activations that ONNX has an operator for get their names.",
        steps.activate,
        after=("recognise",),
    ),
    Pass(
        "recur",
        "Loops over LSTM, GRU and plain recurrent cells become one operator.",
        steps.recur,
        after=("activate",),
    ),
    Pass(
        "loops",
        "Steps of loops do no more than what depends on the step before.",
        steps.shorten_steps,
        after=("recur",),
    ),
    Pass(
        "recognise rms norm",
        "Root mean square norms get their name.",
        steps.recognised(rms_norm=layer_norm.RMS_NORM),
        after=("recognise",),
        since=23,
        writes=ops.rms_norm,
    ),
    Pass(
        "complete",
        "Norms take in their scale and bias, rotary embeddings the tokens that they leave alone.",
        steps.recognised(affine.AFFINE, rotary.PREFIX),
        after=("recognise", "recognise rms norm"),
    ),
    Pass(
        "group",
        "Norms of channels, alone or in groups, get their name and take in what scales each.",
        steps.group,
        after=("complete",),
    ),
    Pass(
        "attend",
        "A softmax between two products becomes attention, repeated keys are taken once.",
        steps.attend,
        after=("recognise", "complete"),
        since=23,
        writes=ops.attention,
    ),
    Pass(
        "spell out",
        "What was recognised and the runtime has no operator for is spelled out again.",
        steps.spell_out,
        after=("group", "attend"),
    ),
    Pass(
        "operands",
        "Rotary embeddings, convolutions, resizes and norms of channels take ONNX's operands.",
        steps.take_onnx_operands,
        after=("recognise", "spell out"),
        eliminates=frozenset({ops.conv_general_dilated, ops.rotary}),
    ),
    Pass(
        "windows",
        "Pooling takes ONNX's order of axes; indices are brought within bounds as JAX does.",
        steps.windows,
        after=("operands",),
    ),
    Pass(
        "attention 3d",
        "Attention takes its heads side by side where that was asked for.",
        steps.lay_heads_side_by_side,
        after=("attend", "operands"),
    ),
    Pass(
        "canonicalize again",
        "What was rearranged is canonicalized.",
        steps.of_graph(canonicalize),
        after=("attention 3d",),
    ),
    Pass(
        "broadcast",
        "What the next operation broadcasts by itself is not written.",
        steps.swept(broadcast.RULES),
        after=("canonicalize again",),
    ),
    Pass(
        "channels",
        "What lies between convolutions takes their order of axes where that saves transposes.",
        lambda graph, _: channels.turn_channels(graph),
        after=("canonicalize again",),
    ),
    Pass(
        "take",
        "Gathers along one axis, and chains of reshapes, transposes and slices in their shortest.",
        steps.shorten,
        after=("canonicalize again", "channels"),
    ),
    Pass(
        "contract",
        "Contractions become matrix products.",
        steps.contract,
        after=("attend", "take"),
        eliminates=frozenset({ops.einsum}),
    ),
    Pass(
        "share transposes",
        "The equal parts of a value are transposed as one.",
        lambda graph, _: siblings.share_transposes(graph),
        after=("contract",),
    ),
    Pass(
        "weight folding",
        "Scales and shifts go into the weights before them, means into pools; relu gets its name.",
        steps.absorb,
        after=("operands", "windows", "contract"),
    ),
    Pass(
        "batch norm",
        "Batch norms that no convolution takes in get their name.",
        steps.batch_norms,
        after=("weight folding",),
    ),
    Pass(
        "select",
        "One entry of an axis is one gather.",
        steps.swept(chains.SELECT),
        after=("share transposes", "batch norm"),
    ),
    Pass(
        "split",
        "Slices that cover an axis together are one split.",
        steps.of_graph(chains.merge_splits),
        after=("share transposes", "select"),
    ),
    Pass(
        "deviations",
        "Where the runtime's operators may differ from JAX, that is noted, or mended if strict.",
        steps.be_exact,
        after=("split", "broadcast"),
    ),
    Pass(
        "arithmetic",
        "Divisions by zero and floats beyond the range of integers give what they give in JAX.",
        steps.swept(deviations.ARITHMETIC),
        after=("deviations",),
    ),
    Pass(
        "quirks",
        "What the runtime gets wrong is written in another way.",
        steps.avoid_quirks,
        after=("arithmetic",),
    ),
    Pass(
        "dtype fallback",
        "What the runtime has no kernel for is computed in a dtype that it has one for.",
        steps.use_kernels,
        after=("quirks",),
    ),
    Pass(
        "weight programs",
        "What depends on parameters alone becomes a parameter, computed when the file is saved.",
        steps.of_graph(hoist_weight_programs),
        after=("dtype fallback",),
    ),
)
"""Between the trace and the lowering."""
