"""The list of passes from a traced graph to one that can be lowered.

The graph can be evaluated in JAX after every pass; ``converter.bisect`` uses this to find the pass
that changes a number. No pass runs another one. A pass that has to run again has another row, and
passes that repeat until nothing changes are a ``PassGroup`` row. A test checks the order against
the declarations of the passes. ``python docs/build.py`` writes the page about them.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from converter.canonicalize import ELIMINATED_OPS, canonicalize
from converter.decompose.expansion import decompose, expand_key_operations
from converter.fuse import group_norm, layer_norm
from converter.ir import Graph, ops
from converter.ir.op import Op
from converter.layout import broadcast, chains, channels, norm_layout, siblings, take
from converter.legalize import deviations
from converter.loops import batch_loops, shorten_loops
from converter.opsets import OLDEST_OPSET
from converter.pipeline import steps
from converter.pipeline.settings import PassSettings
from converter.targets.schemas import SINCE
from converter.weight_folding.weight_programs import hoist_weight_programs


@dataclass(frozen=True)
class Pass:
    """Step of a conversion that changes a graph in place.

    Arguments:
        name: the name of the pass.
        purpose: a sentence that says what the pass does.
        run: runs the pass and returns a true value if it changed anything.
        after: names of passes that must have run before.
        eliminates: operations that no longer occur after this pass or any later one.
        canonical: whether the graph is canonicalized again after a change.
        emits: the operation that the pass emits, or None if the pass runs at every opset. If the
            operator of the operation does not exist at the opset of the conversion, the pass does
            not run. The report then contains the number of operators that it would emit at a newer
            opset.
    """

    name: str
    purpose: str
    run: Callable[[Graph, PassSettings], object]
    after: tuple[str, ...] = ()
    eliminates: frozenset[Op] = frozenset()
    canonical: bool = False
    emits: Op | None = None

    @property
    def since(self) -> int:
        """The oldest opset at which the pass runs: the one that added the operator of ``emits``, or
        the oldest supported opset."""
        return OLDEST_OPSET if self.emits is None else SINCE[self.emits.operator]


@dataclass(frozen=True)
class PassGroup:
    """Passes that are run repeatedly, in this order, until the first pass of the group changes
    nothing.

    Arguments:
        passes: the passes.
        max_repetitions: largest number of repetitions.
    """

    passes: tuple[Pass, ...]
    max_repetitions: int = 4


def run_passes(
    graph: Graph, settings: PassSettings, *watches: Callable[[str, Graph], None]
) -> None:
    """Run all passes that the opset allows on a graph, in place.

    If a pass runs again, it does not add to the records, so that no structure is counted twice.

    Arguments:
        graph: the traced graph.
        settings: the settings of the conversion, whose records are filled.
        watches: functions that are called with the name of a pass and the graph after each pass,
            also if the opset does not allow the pass. A repeated pass has a name such as
            ``canonicalize (2)``.
    """
    silent_settings, run_counts = settings.at_opset(settings.selected_opset), Counter[str]()

    def run_step(step: Pass) -> bool:
        run_counts[step.name] += 1
        is_repeated = run_counts[step.name] > 1
        changed = _is_changed_by(step, graph, silent_settings if is_repeated else settings)
        for watch in watches:
            watch(f"{step.name} ({run_counts[step.name]})" if is_repeated else step.name, graph)
        return changed

    for row in PASSES:
        if isinstance(row, Pass):
            run_step(row)
            continue
        first, *other_passes = row.passes
        for _ in range(row.max_repetitions):
            if not run_step(first):
                break
            for step in other_passes:
                run_step(step)


def _is_changed_by(step: Pass, graph: Graph, settings: PassSettings) -> bool:
    """Run a pass on a graph, in place, and return True if it changed anything.

    A pass that the opset does not allow is not run. Instead, the operators that it would emit at a
    newer opset are counted. The graph is canonicalized after a change if ``step.canonical`` is
    true.
    """
    if settings.selected_opset < step.since:
        _count_newer(graph, settings, step)
        return False
    changed = bool(step.run(graph, settings))
    if changed and step.canonical:
        canonicalize(graph)
    return changed


def _count_newer(graph: Graph, settings: PassSettings, step: Pass) -> None:
    """Count the operators that a pass would emit at a newer opset, by running it on a copy of the
    graph.

    Nothing is counted if the target does not load that opset.
    """
    if step.since not in settings.runtime.opsets:
        return
    trial = graph.clone()
    if step.run(trial, settings.at_opset(step.since)) and step.emits is not None:
        settings.count_newer(step.since, step.emits.operator, trial.count(step.emits))


def distinct_passes() -> Iterator[Pass]:
    """Yield each pass in ``PASSES`` once, in the order of first occurrence."""
    rows = ((row,) if isinstance(row, Pass) else row.passes for row in PASSES)
    yield from dict.fromkeys(step for steps_of_row in rows for step in steps_of_row)


DECOMPOSE = Pass(
    "decompose",
    "Primitives and types that ONNX lacks are traced as the JAX functions that define them.",
    steps.graph_pass(decompose),
)
CANONICALIZE = Pass(
    "canonicalize",
    "Equivalent operations get one form; constants are folded, equal nodes are merged.",
    steps.graph_pass(canonicalize),
    after=("decompose",),
    eliminates=ELIMINATED_OPS,
)
RECOGNISE = Pass(
    "recognise",
    "Layer norms, GELU, softmax and rotary embeddings are fused.",
    steps.fuse_blocks,
    after=("canonicalize",),
    canonical=True,
)
ACTIVATE = Pass(
    "activate",
    "Activations that ONNX has an operator for are fused.",
    steps.fuse_activations,
    after=("recognise",),
    canonical=True,
)
COMPLETE = Pass(
    "complete",
    "Scales and biases are fused into norms, unrotated tokens into rotary embeddings; shifts of a "
    "softmax are dropped.",
    steps.complete_fusions,
    after=("recognise", "recognise rms norm"),
    canonical=True,
)

PASSES: tuple[Pass | PassGroup, ...] = (
    Pass(
        "calls",
        "Calls of functions that JAX hands over by name become what they do, or are inlined.",
        steps.name_calls,
        eliminates=frozenset({ops.named_call}),
    ),
    DECOMPOSE,
    CANONICALIZE,
    Pass(
        "keys",
        "Operations on PRNG keys become arithmetic on the numbers of the keys.",
        steps.graph_pass(expand_key_operations),
        after=("canonicalize",),
        canonical=True,
    ),
    Pass(
        "batch",
        "Loops whose steps do not depend on each other become one batch.",
        steps.graph_pass(batch_loops),
        after=("keys",),
        canonical=True,
    ),
    Pass(
        "registered",
        "Structures that users' recognisers match are fused.",
        steps.apply_user_recognisers,
        after=("canonicalize",),
        canonical=True,
    ),
    Pass(
        "resample",
        "Calls that resize or sample become operators, products and gathers.",
        steps.fuse_resampling,
        after=("calls", "canonicalize"),
        eliminates=frozenset({ops.image_resize, ops.sample_at}),
        canonical=True,
    ),
    RECOGNISE,
    ACTIVATE,
    Pass(
        "recur",
        "Loops over LSTM, GRU and plain recurrent cells become one operator.",
        steps.fuse_recurrent,
        after=("activate",),
        canonical=True,
    ),
    PassGroup((
        Pass(
            "loops",
            "Operations that do not depend on the previous step move out of loops.",
            steps.graph_pass(shorten_loops),
            after=("recur",),
            canonical=True,
        ),
        RECOGNISE,
        ACTIVATE,
    )),
    Pass(
        "recognise rms norm",
        "Root mean square norms are fused.",
        steps.recogniser_pass(rms_norm=layer_norm.RMS_NORM),
        after=("recognise",),
        canonical=True,
        emits=ops.rms_norm,
    ),
    COMPLETE,
    PassGroup((
        Pass(
            "group",
            "Instance norms and group norms are fused.",
            steps.fuse_group_norms,
            after=("complete",),
            canonical=True,
        ),
        Pass(
            "scale groups",
            "Scales and shifts of channels inside of groups move behind the group norm.",
            steps.recogniser_pass(group_norm.SPLIT_CHANNELS),
            after=("group",),
            canonical=True,
        ),
        COMPLETE,
    )),
    Pass(
        "attend",
        "A softmax between two products becomes attention; repeated keys are shared between heads.",
        steps.fuse_attention,
        after=("recognise", "complete"),
        canonical=True,
        emits=ops.attention,
    ),
    PassGroup((
        Pass(
            "spell out",
            "Fused operations that the runtime has no operator for are expanded again.",
            steps.expand_unsupported,
            after=("group", "attend"),
        ),
        DECOMPOSE,
        CANONICALIZE,
    )),
    Pass(
        "operands",
        "Rotary embeddings, convolutions, resizes and group norms get ONNX operands.",
        steps.take_onnx_operands,
        after=("recognise", "spell out"),
        eliminates=frozenset({ops.conv_general_dilated, ops.rotary}),
    ),
    Pass(
        "windows",
        "Pooling gets ONNX's order of axes; out-of-bounds indices are handled as in JAX.",
        steps.arrange_pools_and_bounds,
        after=("operands",),
    ),
    Pass(
        "attention 3d",
        "Attention gets 3-D operands where this is requested or faster.",
        steps.use_3d_attention,
        after=("attend", "operands"),
    ),
    CANONICALIZE,
    Pass(
        "broadcast",
        "Explicit broadcasts before operations that broadcast implicitly are removed.",
        steps.rule_pass(broadcast.RULES),
        after=("windows", "attention 3d"),
    ),
    Pass(
        "channels",
        "Operations between convolutions get channels-first order where this saves transposes.",
        steps.graph_pass(channels.reorder_channels),
        after=("windows", "attention 3d"),
        canonical=True,
    ),
    Pass(
        "take",
        "Gathers of slices along one axis become Gather, which accepts negative indices.",
        steps.rule_pass(take.RULES),
        after=("channels",),
        canonical=True,
    ),
    Pass(
        "chains",
        "Chains of reshapes, transposes and slices are shortened.",
        steps.rule_pass(chains.RULES),
        after=("take",),
        canonical=True,
    ),
    Pass(
        "contract",
        "Contractions become matrix products.",
        steps.contract_to_matmul,
        after=("attend", "chains"),
        eliminates=frozenset({ops.einsum}),
        canonical=True,
    ),
    Pass(
        "share transposes",
        "Equal parts of a value are transposed together.",
        steps.graph_pass(siblings.share_transposes),
        after=("contract",),
        canonical=True,
    ),
    Pass(
        "weight folding",
        "Scales and shifts are folded into weights; average pools and relu are fused.",
        steps.fold_weights,
        after=("operands", "windows", "contract"),
        canonical=True,
    ),
    PassGroup((
        Pass(
            "batch norm",
            "Batch norms that are not folded into a convolution are fused.",
            steps.fuse_batch_norms,
            after=("weight folding",),
            canonical=True,
        ),
        COMPLETE,
        Pass(
            "batch norm operands",
            "Batch norms get the bias that ONNX's operator needs.",
            steps.rule_pass(norm_layout.BATCH_NORM_RULES),
            after=("batch norm",),
        ),
    )),
    Pass(
        "select",
        "A slice of one entry whose axis is dropped becomes a gather.",
        steps.rule_pass(chains.SELECT),
        after=("share transposes", "batch norm"),
    ),
    Pass(
        "split",
        "Slices that together cover an axis become one split.",
        steps.graph_pass(chains.merge_splits),
        after=("share transposes", "select"),
    ),
    Pass(
        "deviations",
        "Operators that may differ from JAX are noted, or replaced in a strict conversion.",
        steps.handle_deviations,
        after=("split", "broadcast"),
    ),
    Pass(
        "arithmetic",
        "Divisions by zero and out-of-range conversions to integers give JAX's results.",
        steps.rule_pass(deviations.ARITHMETIC_RULES),
        after=("deviations",),
    ),
    Pass(
        "quirks",
        "Operations that the runtime computes wrongly are rewritten.",
        steps.avoid_quirks,
        after=("arithmetic",),
    ),
    Pass(
        "dtype fallback",
        "Operations without a kernel for their dtype are computed in another dtype.",
        steps.apply_dtype_fallback,
        after=("quirks",),
    ),
    Pass(
        "weight programs",
        "Values that depend on parameters only become parameters, computed when the file is saved.",
        steps.graph_pass(hoist_weight_programs),
        after=("dtype fallback",),
    ),
    Pass(
        "support",
        "Nodes in a form that the target does not run are rewritten or refused.",
        steps.support_nodes,
        after=("weight programs",),
    ),
)  # fmt: skip
