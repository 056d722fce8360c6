"""The way from a trace to a graph that can be written: passes in a row, each of them provable.

After every pass the graph is one that JAX can evaluate, so whoever doubts a number evaluates it
after each (``converter.bisect`` does). No pass runs another: what has to come again is a row again,
and what comes again until nothing changes is a ``PassGroup`` row. The order is checked against what
the passes say of themselves, and ``python -m tests.passes`` writes the page of it.
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
from converter.opsets import OLDEST
from converter.pipeline import steps
from converter.pipeline.settings import PassSettings
from converter.targets.schemas import SINCE
from converter.weight_folding.weight_programs import hoist_weight_programs


@dataclass(frozen=True)
class Pass:
    """One step from graph to graph, in place.

    ``run`` says whether it changed anything; what a ``canonical`` one has changed is canonicalized
    at once. ``after`` names passes that must have run before it; ``eliminates`` names operations of
    which none is left after it, nor after any later pass. Of a pass that ``writes`` an operator
    that the opset lacks is noted how often a newer one would have it.
    """

    name: str
    purpose: str
    run: Callable[[Graph, PassSettings], object]
    after: tuple[str, ...] = ()
    eliminates: frozenset[Op] = frozenset()
    canonical: bool = False
    writes: Op | None = None

    @property
    def since(self) -> int:
        """The opset that brought what it writes."""
        return OLDEST if self.writes is None else SINCE[self.writes.operator]


@dataclass(frozen=True)
class PassGroup:
    """Passes that come again, one after the other, as long as the first of them changes anything.

    ``most`` is how often at most.
    """

    passes: tuple[Pass, ...]
    most: int = 4


def run_passes(
    graph: Graph, settings: PassSettings, *watches: Callable[[str, Graph], None]
) -> None:
    """All passes that the opset allows, in place; each of ``watches`` is called after each.

    What comes again has nothing new to note; the watches are told of it as ``canonicalize (2)``.
    """
    silent_settings, run_counts = settings.trial(settings.version), Counter[str]()

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
        for _ in range(row.most):
            if not run_step(first):
                break
            for step in other_passes:
                run_step(step)


def _is_changed_by(step: Pass, graph: Graph, settings: PassSettings) -> bool:
    if settings.version < step.since:
        _note_newer(graph, settings, step)
        return False
    changed = bool(step.run(graph, settings))
    if changed and step.canonical:
        canonicalize(graph)
    return changed


def _note_newer(graph: Graph, settings: PassSettings, step: Pass) -> None:
    """What a pass would write whose opset is a newer one, by what it makes of a copy."""
    if step.since not in settings.runtime.opsets:
        return
    trial = graph.clone()
    if step.run(trial, settings.trial(step.since)) and step.writes is not None:
        settings.note_newer(step.since, step.writes.operator, trial.count(step.writes))


def distinct() -> Iterator[Pass]:
    """Each pass once, in the order of its first row."""
    rows = ((row,) if isinstance(row, Pass) else row.passes for row in PASSES)
    yield from dict.fromkeys(step for steps_of_row in rows for step in steps_of_row)


DECOMPOSE = Pass(
    "decompose",
    "What ONNX has no operator or type for is written as the JAX function that it stands for.",
    steps.graph_pass(decompose),
)
CANONICALIZE = Pass(
    "canonicalize",
    "One spelling where JAX has several; no dead code, constants folded, equal nodes merged.",
    steps.graph_pass(canonicalize),
    after=("decompose",),
    eliminates=ELIMINATED_OPS,
)
RECOGNISE = Pass(
    "recognise",
    "Layer norms, GELU, softmax and rotary embeddings get their names.",
    steps.fuse_blocks,
    after=("canonicalize",),
    canonical=True,
)
ACTIVATE = Pass(
    "activate",
    "Activations that ONNX has an operator for get their names.",
    steps.fuse_activations,
    after=("recognise",),
    canonical=True,
)
COMPLETE = Pass(
    "complete",
    "Norms take in their scale and bias, rotary embeddings the tokens that they leave alone.",
    steps.fuse_affine,
    after=("recognise", "recognise rms norm"),
    canonical=True,
)

PASSES: tuple[Pass | PassGroup, ...] = (
    DECOMPOSE,
    CANONICALIZE,
    Pass(
        "keys",
        "What is drawn from PRNG keys is arithmetic on the numbers that they hold.",
        steps.graph_pass(expand_key_operations),
        after=("canonicalize",),
        canonical=True,
    ),
    Pass(
        "batch",
        "Loops whose steps do not depend on each other are one batch.",
        steps.graph_pass(batch_loops),
        after=("keys",),
        canonical=True,
    ),
    Pass(
        "registered",
        "What recognisers from outside find becomes their operations.",
        steps.apply_user_recognisers,
        after=("canonicalize",),
        canonical=True,
    ),
    Pass(
        "resample",
        "Products with interpolation matrices become one resize, gathers of neighbours a sampling.",
        steps.fuse_resampling,
        after=("canonicalize",),
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
            "Steps of loops do no more than what depends on the step before.",
            steps.graph_pass(shorten_loops),
            after=("recur",),
            canonical=True,
        ),
        RECOGNISE,
        ACTIVATE,
    )),
    Pass(
        "recognise rms norm",
        "Root mean square norms get their name.",
        steps.recogniser_pass(rms_norm=layer_norm.RMS_NORM),
        after=("recognise",),
        canonical=True,
        writes=ops.rms_norm,
    ),
    COMPLETE,
    PassGroup((
        Pass(
            "group",
            "Norms of channels, alone or in groups, get their name.",
            steps.fuse_group_norms,
            after=("complete",),
            canonical=True,
        ),
        Pass(
            "scale groups",
            "What scales and shifts the parts of groups does so to the channels.",
            steps.recogniser_pass(group_norm.INSIDE),
            after=("group",),
            canonical=True,
        ),
        COMPLETE,
    )),
    Pass(
        "attend",
        "A softmax between two products becomes attention, repeated keys are taken once.",
        steps.fuse_attention,
        after=("recognise", "complete"),
        canonical=True,
        writes=ops.attention,
    ),
    PassGroup((
        Pass(
            "spell out",
            "What was recognised and the runtime has no operator for is spelled out again.",
            steps.expand_unsupported,
            after=("group", "attend"),
        ),
        DECOMPOSE,
        CANONICALIZE,
    )),
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
        steps.use_3d_attention,
        after=("attend", "operands"),
    ),
    CANONICALIZE,
    Pass(
        "broadcast",
        "What the next operation broadcasts by itself is not written.",
        steps.rule_pass(broadcast.RULES),
        after=("windows", "attention 3d"),
    ),
    Pass(
        "channels",
        "What lies between convolutions takes their order of axes where that saves transposes.",
        steps.graph_pass(channels.reorder_channels),
        after=("windows", "attention 3d"),
        canonical=True,
    ),
    Pass(
        "take",
        "Gathers of whole slices along one axis count negative indices from its end.",
        steps.rule_pass(take.RULES),
        after=("channels",),
        canonical=True,
    ),
    Pass(
        "chains",
        "Chains of reshapes, transposes and slices are the shortest that do the same.",
        steps.rule_pass(chains.RULES),
        after=("take",),
        canonical=True,
    ),
    Pass(
        "contract",
        "Contractions become matrix products.",
        steps.contract,
        after=("attend", "chains"),
        eliminates=frozenset({ops.einsum}),
        canonical=True,
    ),
    Pass(
        "share transposes",
        "The equal parts of a value are transposed as one.",
        steps.graph_pass(siblings.share_transposes),
        after=("contract",),
        canonical=True,
    ),
    Pass(
        "weight folding",
        "Scales and shifts go into the weights before them, means into pools; relu gets its name.",
        steps.fold_weights,
        after=("operands", "windows", "contract"),
        canonical=True,
    ),
    PassGroup((
        Pass(
            "batch norm",
            "Batch norms that no convolution takes in get their name.",
            steps.fuse_batch_norms,
            after=("weight folding",),
            canonical=True,
        ),
        COMPLETE,
        Pass(
            "batch norm operands",
            "Batch norms have the bias that ONNX's operator takes.",
            steps.rule_pass(norm_layout.BATCH_NORM_RULES),
            after=("batch norm",),
        ),
    )),
    Pass(
        "select",
        "One entry of an axis is one gather.",
        steps.rule_pass(chains.SELECT),
        after=("share transposes", "batch norm"),
    ),
    Pass(
        "split",
        "Slices that cover an axis together are one split.",
        steps.graph_pass(chains.merge_splits),
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
        steps.rule_pass(deviations.ARITHMETIC_RULES),
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
        steps.graph_pass(hoist_weight_programs),
        after=("dtype fallback",),
    ),
    Pass(
        "support",
        "What the target does not run in the form that it has is written otherwise, or refused.",
        steps.support_nodes,
        after=("weight programs",),
    ),
)  # fmt: skip
