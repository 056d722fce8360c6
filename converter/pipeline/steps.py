"""What the passes run: rules that are swept over a graph, and what needs all of it at once."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

import jax
import numpy as np

from converter.frontend.trace import trace
from converter.fuse import (
    activations,
    affine,
    attention,
    batch_norm,
    gelu,
    grid_sample,
    group_norm,
    layer_norm,
    recurrent,
    rotary,
    softmax,
    spelling,
    user_recognisers,
)
from converter.fuse import resize as resampling
from converter.fuse.match import NearMiss, Recogniser, note_look_alikes, recogniser_rules
from converter.ir import Graph, Node, Value, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule, drop_dead, sweep
from converter.layout import (
    contraction,
    convolution,
    heads,
    norm_layout,
    pooling,
    resize_layout,
)
from converter.legalize import bounds, deviations, dtype_fallback, support
from converter.pipeline.settings import PassSettings
from converter.targets.schemas import SINCE, operator
from converter.weight_folding import affine_folding
from converter.weight_folding.weight_programs import weight_values, weights_first


def of_graph(step: Callable[[Graph], object]) -> Callable[[Graph, PassSettings], object]:
    """A pass that asks for no settings."""
    return lambda graph, _: step(graph)


def swept(*tables: Mapping[Op, Rule]) -> Callable[[Graph, PassSettings], object]:
    """A pass that applies rules once, in topological order; of several the first that can."""
    return of_graph(partial(_swept, rules=_joined(*tables)))


def _swept(graph: Graph, rules: Mapping[Op, Rule]) -> bool:
    changed = sweep(graph, rules)
    if changed:
        drop_dead(graph)
    return changed


def _joined(*tables: Mapping[Op, Rule]) -> dict[Op, Rule]:
    """Of several rules for an operation the first that can."""

    def rule(node: Node, editor: Editor) -> Sequence[Value] | Value | None:
        replacements = (table[node.op](node, editor) for table in tables if node.op in table)
        return next((values for values in replacements if values is not None), None)

    return dict.fromkeys((op for table in tables for op in table), rule)


def recognised(*always: Recogniser, **named: Recogniser) -> Callable[[Graph, PassSettings], bool]:
    """A pass that tries recognisers, the first to match having the node; those with a name only if
    it is to be fused."""

    def run(graph: Graph, settings: PassSettings) -> bool:
        chosen = [*always, *(r for name, r in named.items() if settings.fuses(name))]
        rules, takes = recogniser_rules(chosen, settings.notes), cache(settings.takes)
        changed = bool(chosen) and sweep(graph, rules, takes)
        if changed:
            drop_dead(graph)
        note_look_alikes(graph, chosen, settings.notes, takes)
        return changed

    return run


name_blocks = recognised(
    layer_norm=layer_norm.LAYER_NORM,
    gelu=gelu.GELU,
    softmax=softmax.SOFTMAX,
    log_softmax=softmax.LOG_SOFTMAX,
    rotary=rotary.ROTARY,
)


def complete(graph: Graph, settings: PassSettings) -> bool:
    """Tokens that are left alone are times zero besides, of which infinities make NaN."""
    prefix = () if settings.strict else (rotary.PREFIX,)
    return recognised(affine.AFFINE, *prefix)(graph, settings)


def resample(graph: Graph, settings: PassSettings) -> bool:
    resize = resampling.resize_recogniser(settings.version, settings.strict)
    # The operator gives a number at a place that is none.
    sampling = {} if settings.strict else {"grid_sample": grid_sample.GRID_SAMPLE}
    return recognised(resize=resize, **sampling)(graph, settings)


def registered(graph: Graph, settings: PassSettings) -> bool:
    """Apply what others have registered; a function sees what formulas have found."""
    chosen = [s for s in user_recognisers.REGISTERED_FORMULAS if settings.fuses(s.op.structure)]
    changed = spelling.recognise(graph, chosen, settings.version)
    for entry in user_recognisers.REGISTERED_FUNCTIONS:
        if entry.since <= settings.version:
            changed |= recognised(**{entry.name: entry.recogniser})(graph, settings)
    return changed


def activate(graph: Graph, settings: PassSettings) -> bool:
    avoided = activations.INEXACT if settings.strict else ()
    table = [
        spelling
        for spelling in activations.SPELLINGS_OF_ACTIVATIONS
        if spelling.op not in avoided and settings.fuses(spelling.op.structure)
    ]
    _note_newer_activations(graph, table, settings)
    renamed = spelling.recognise(graph, table, settings.version)
    plain = settings.fuses(ops.softplus.structure) and settings.takes("Softplus", np.float32)
    return (plain and _swept(graph, activations.SOFTPLUS_RULES)) or renamed


def _note_newer_activations(
    graph: Graph, table: Sequence[spelling.Spelling], settings: PassSettings
) -> None:
    """Those whose operator a newer opset brought, by what it would make of a copy."""
    for opset in sorted({s.since for s in table if s.since > settings.version}):
        newer = [s for s in table if s.since == opset]
        trial = graph.clone() if spelling.present(graph, newer) else graph
        if trial is not graph and spelling.recognise(trial, table, opset):
            for op in {s.op for s in newer}:
                settings.note_newer(opset, operator(op), trial.count(op))


def recur(graph: Graph, settings: PassSettings) -> bool:
    """A cell may be on top of another; the operators are less precise than what JAX does."""
    if settings.strict or not settings.fuses("recurrent"):
        return False
    changed, notes = False, list[NearMiss]()
    cells = recogniser_rules([recurrent.RECURRENT], notes)
    while sweep(graph, cells, settings.takes):
        changed = True
        notes.clear()
        drop_dead(graph)
    settings.notes.extend(notes)
    return changed


def group(graph: Graph, settings: PassSettings) -> bool:
    bare = (group_norm.is_bare(node, settings.takes) for node in graph.walk())
    if not (settings.fuses("group_norm") and any(bare)):
        return False
    return recognised(group_norm.GROUPS, group_norm.CHANNEL)(graph, settings)


def attend(graph: Graph, settings: PassSettings) -> bool:
    if not (settings.fuses("attention") and graph.count(ops.einsum)):
        return False
    changed = _swept(graph, {ops.select_n: attention.as_term})
    fused = attention.STRICT_ATTENTION if settings.strict else attention.ATTENTION
    changed = recognised(fused)(graph, settings) or changed
    return sweep(graph, {ops.attention: attention.share}) or changed


def batch_norms(graph: Graph, settings: PassSettings) -> bool:
    roots = graph.count(ops.rsqrt) or graph.count(ops.sqrt)
    return bool(roots) and recognised(batch_norm=batch_norm.BATCH_NORM)(graph, settings)


SPELLED_OUT = (ops.gelu, ops.rotary)
"""What has a name here before there is an operator for it."""


def spelled_out(node: Node, editor: Editor) -> Sequence[Value]:
    """Results of an operation by the formula that says what it means."""
    specs = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in node.inputs]
    assert node.op.formula is not None
    return editor.inline(trace(partial(node.op.formula, **node.params), specs), node.inputs)


ROUNDED_OTHERWISE = (ops.hard_sigmoid, ops.hard_swish)
"""Operations that are spelled out by ONNX's formula, which rounds otherwise than JAX's."""


def spell_out(graph: Graph, settings: PassSettings) -> bool:
    """Spell out what the target has no operators for."""

    noting = deviations.deviation_rules(settings.strict, settings.deviations, settings.runtime)

    def rule(node: Node, editor: Editor) -> Sequence[Value] | None:
        taken = settings.takes(operator(node.op), node.out.dtype)
        if taken:
            return None
        if node.op in ROUNDED_OTHERWISE:
            noting[node.op](node, editor)
        return spelled_out(node, editor)

    fused = [op for op in ops.stated() if op.structure and op not in SPELLED_OUT]
    return sweep(graph, dict.fromkeys(fused, rule))


def take_onnx_operands(graph: Graph, settings: PassSettings) -> None:
    """Deviations of rotary embeddings are noted here, after which none is left."""
    noting = deviations.deviation_rules(settings.strict, settings.deviations, settings.runtime)
    _swept(graph, {ops.rotary: noting[ops.rotary]})
    for op in SPELLED_OUT:
        settings.note_newer(SINCE[operator(op)], operator(op), graph.count(op))
    has = partial(settings.runtime.supports, opset=settings.version)
    rules: dict[Op, Rule] = {
        ops.rotary: partial(heads.emit_rotary, has=has),
        ops.conv_general_dilated: partial(convolution.emit_convolution, takes=settings.takes),
        ops.group_norm: partial(norm_layout.emit_group_norm, has=has),
        **resize_layout.RULES,
    }
    _swept(graph, rules)


def windows(graph: Graph, settings: PassSettings) -> None:
    pools = pooling.pooling_rules(settings.version, settings.strict, settings.runtime)
    swept(pools, bounds.bounds_rules(graph, settings.strict, settings.deviations))(graph, settings)


def lay_heads_side_by_side(graph: Graph, settings: PassSettings) -> None:
    if settings.layout == "3d":
        asked = settings.attention_layout is not None
        rule = heads.attention_3d if asked else heads.attention_3d_of_transposed
        sweep(graph, {ops.attention: rule})


def contract(graph: Graph, settings: PassSettings) -> bool:
    rule = partial(contraction.to_matrix_product, fixed=weight_values(graph))
    return sweep(graph, {ops.einsum: rule})


def absorb(graph: Graph, settings: PassSettings) -> bool:
    fold = settings.fold and not settings.strict  # what overflows on the way stays as it is
    changing = affine_folding.folding_rules(graph, weight_values(graph), fold)
    changed = sweep(
        graph, _joined(changing, {ops.div: pooling.match_average_pool}, activations.RELU_RULES)
    )
    weights_first(graph)
    drop_dead(graph)
    return changed


def be_exact(graph: Graph, settings: PassSettings) -> None:
    sweep(graph, deviations.deviation_rules(settings.strict, settings.deviations, settings.runtime))


def avoid_quirks(graph: Graph, settings: PassSettings) -> None:
    """One after the other, as one may write what the next is about."""
    for quirk in settings.runtime.quirks:
        _swept(graph, quirk.rules)


def use_kernels(graph: Graph, settings: PassSettings) -> None:
    _swept(graph, dtype_fallback.dtype_fallback_rules(graph, settings.version, settings.runtime))


def support_nodes(graph: Graph, settings: PassSettings) -> None:
    """What is written otherwise is looked at again."""
    _swept(graph, support.support_rules(settings.runtime, settings.version))
    support.refuse_misfits(graph, settings.runtime, settings.version)
