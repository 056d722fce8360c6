"""The functions that the passes run."""

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
    named_calls,
    recurrent,
    resampling,
    resize,
    rotary,
    softmax,
    spelling,
    user_recognisers,
)
from converter.fuse.attention import shifts
from converter.fuse.match import NearMiss, Recogniser, recogniser_rules, report_look_alikes
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
from converter.targets.schemas import SINCE, operator_name
from converter.weight_folding import affine_folding
from converter.weight_folding.weight_programs import move_weights_first, weight_values


def graph_pass(step: Callable[[Graph], object]) -> Callable[[Graph, PassSettings], object]:
    """Return a pass, a function of a graph and the settings, that calls ``step`` with the graph
    alone."""
    return lambda graph, _: step(graph)


def rule_pass(*tables: Mapping[Op, Rule]) -> Callable[[Graph, PassSettings], object]:
    """Return a pass that applies rewrite rules once to each node, operands first.

    Each table has a rule for some operations. If several tables have a rule for an operation, the
    first one that applies is used. The pass also drops dead nodes after a change. It returns True
    if a rule applied.
    """
    return graph_pass(partial(_sweep_and_prune, rules=_merge_tables(*tables)))


def _sweep_and_prune(graph: Graph, rules: Mapping[Op, Rule]) -> bool:
    """Apply rewrite rules once to each node of a graph, in place. Return True if a rule applied.

    Dead nodes are dropped if a rule applied.
    """
    changed = sweep(graph, rules)
    if changed:
        drop_dead(graph)
    return changed


def _merge_tables(*tables: Mapping[Op, Rule]) -> dict[Op, Rule]:
    """Return a table that combines the rules of all tables. For each operation, the rules are tried
    in order until one of them applies."""

    def rule(node: Node, editor: Editor) -> Sequence[Value] | Value | None:
        replacements = (table[node.op](node, editor) for table in tables if node.op in table)
        return next((values for values in replacements if values is not None), None)

    return dict.fromkeys((op for table in tables for op in table), rule)


def recogniser_pass(
    *always: Recogniser, **named: Recogniser
) -> Callable[[Graph, PassSettings], bool]:
    """Return a pass that fuses the structures that recognisers match, and adds those that nearly
    match to ``PassSettings.near_misses``.

    If several recognisers match a node, the first one is used. The pass returns True if anything
    was fused.

    Arguments:
        always: recognisers that are always used.
        named: recognisers by the name of a structure. They are used if the settings fuse structures
            of this name (``PassSettings.fuses``).
    """

    def run(graph: Graph, settings: PassSettings) -> bool:
        selected = [*always, *(r for name, r in named.items() if settings.fuses(name))]
        rules = recogniser_rules(selected, settings.near_misses)
        has_operator = cache(settings.has_operator)
        changed = bool(selected) and sweep(graph, rules, has_operator)
        if changed:
            drop_dead(graph)
        report_look_alikes(graph, selected, settings.near_misses, has_operator)
        return changed

    return run


fuse_blocks = recogniser_pass(
    layer_norm=layer_norm.LAYER_NORM,
    gelu=gelu.GELU,
    softmax=softmax.SOFTMAX,
    log_softmax=softmax.LOG_SOFTMAX,
    rotary=rotary.ROTARY,
)


def complete_fusions(graph: Graph, settings: PassSettings) -> bool:
    """Fuse further operations into norms, rotary embeddings and softmax.

    Scales and biases are fused into norms, and unrotated tokens into rotary embeddings. Shifts that
    do not change the result of a softmax are removed.

    The fused embedding also multiplies unrotated tokens by zero, which is NaN for infinities. A
    strict conversion therefore does not fuse unrotated tokens. The graph is changed in place.

    Returns:
        True if anything changed.
    """
    prefix = () if settings.strict else (rotary.PREFIX,)
    inexact_shifts: list[Node] = []
    shift = shifts.shift_recogniser(settings.strict, inexact_shifts)
    changed = recogniser_pass(affine.AFFINE, *prefix, softmax=shift)(graph, settings)
    if inexact_shifts:
        settings.deviations.setdefault(shifts.DEVIATION, []).extend(inexact_shifts)
    return changed


def name_calls(graph: Graph, settings: PassSettings) -> bool:
    """Replace calls of known functions by operations and inline all other calls, in place.

    The known functions are JAX's functions that resize or sample images, and the functions for
    which users have registered recognisers that the opset allows. Return True if anything changed.
    """
    known_calls = (resize.RESIZE_CALL, grid_sample.SAMPLE_CALL)
    registered = (
        entry.recogniser
        for entry in user_recognisers.REGISTERED_FUNCTIONS
        if entry.calls and entry.since <= settings.selected_opset
    )
    changed = recogniser_pass(*known_calls, *registered)(graph, settings)
    return _sweep_and_prune(graph, {ops.named_call: named_calls.inline_call}) or changed


def fuse_resampling(graph: Graph, settings: PassSettings) -> bool:
    """Replace calls that resize or sample images by operators, in place. Return True if anything
    changed.

    Matrix products that resize an image are also replaced, unless the conversion is strict. The
    product of a zero weight and an infinity is NaN, whereas the operator skips zero weights.
    """
    sampling = grid_sample.grid_sample_recogniser(settings.strict)
    # The product of a zero weight and an infinity is NaN, but the operator skips zero weights. A
    # strict conversion therefore keeps the products.
    products = {} if settings.strict else {"resize": resampling.RESAMPLING}
    return recogniser_pass(
        resize.resize_recogniser(settings.selected_opset, settings.strict), sampling, **products
    )(graph, settings)


def apply_user_recognisers(graph: Graph, settings: PassSettings) -> bool:
    """Fuse the structures that users' recognisers match, in place. Return True if anything changed.

    Recognisers that are formulas come first. Those that are functions see their results.
    Recognisers of calls are not used here (``name_calls``).
    """
    formulas = [s for s in user_recognisers.REGISTERED_FORMULAS if settings.fuses(s.op.structure)]
    near_misses = settings.near_misses
    changed = spelling.recognise_spellings(graph, formulas, settings.selected_opset, near_misses)
    spelling.report_other_dtypes(graph, formulas, settings.selected_opset, near_misses)
    for entry in user_recognisers.REGISTERED_FUNCTIONS:
        if entry.since <= settings.selected_opset and not entry.calls:
            changed |= recogniser_pass(**{entry.name: entry.recogniser})(graph, settings)
    return changed


def fuse_activations(graph: Graph, settings: PassSettings) -> bool:
    """Fuse activations that ONNX has an operator for, in place. Return True if anything changed.

    A strict conversion does not fuse activations if the operator is less precise than JAX.
    Activations whose operator exists only in a newer opset are counted.
    """
    table = [
        spelling
        for spelling in activations.SPELLINGS_OF_ACTIVATIONS
        if not (settings.strict and ops.ACTIVATIONS[spelling.op].is_inexact)
        and settings.fuses(spelling.op.structure)
    ]
    _count_newer_activations(graph, table, settings)
    near_misses = settings.near_misses
    renamed = spelling.recognise_spellings(graph, table, settings.selected_opset, near_misses)
    spelling.report_other_dtypes(graph, table, settings.selected_opset, near_misses)
    uses_softplus = settings.fuses(ops.softplus.structure) and settings.has_operator(
        "Softplus", np.float32
    )
    return (uses_softplus and _sweep_and_prune(graph, activations.SOFTPLUS_RULES)) or renamed


def _count_newer_activations(
    graph: Graph, table: Sequence[spelling.Spelling], settings: PassSettings
) -> None:
    """Add activations whose operator exists only in a newer opset to ``settings.newer``. They are
    counted by fusing them in a copy of the graph.

    ``table`` contains the spellings of the activations.
    """
    for opset in sorted({s.since for s in table if s.since > settings.selected_opset}):
        newer = [s for s in table if s.since == opset]
        trial = graph.clone() if spelling.spellings_in(graph, newer) else graph
        if trial is not graph and spelling.recognise_spellings(trial, table, opset, []):
            for op in {s.op for s in newer}:
                settings.count_newer(opset, operator_name(op), trial.count(op))


def fuse_recurrent(graph: Graph, settings: PassSettings) -> bool:
    """Fuse loops over recurrent cells into LSTM, GRU and RNN operators, in place.

    A loop over several layers is fused into several operators.

    A strict conversion does not use these operators, because they are less precise than JAX. Return
    True if anything changed.
    """
    if settings.strict or not settings.fuses("recurrent"):
        return False
    changed, notes = False, list[NearMiss]()
    cells = recogniser_rules([recurrent.RECURRENT], notes)
    while sweep(graph, cells, settings.has_operator):
        changed = True
        notes.clear()
        drop_dead(graph)
    settings.near_misses.extend(notes)
    return changed


def fuse_group_norms(graph: Graph, settings: PassSettings) -> bool:
    """Fuse instance norms and group norms, in place. Return True if anything changed."""
    are_norms = (group_norm.has_no_affine(node, settings.has_operator) for node in graph.walk())
    if not (settings.fuses("group_norm") and any(are_norms)):
        return False
    return recogniser_pass(group_norm.GROUPED_CHANNELS, group_norm.SINGLE_CHANNELS)(graph, settings)


def fuse_attention(graph: Graph, settings: PassSettings) -> bool:
    """Fuse a softmax between two products into attention, in place. Return True if anything
    changed.

    Masks become terms that are added to the scores, and repeated keys are shared between heads.
    """
    if not (settings.fuses("attention") and graph.count(ops.einsum)):
        return False
    changed = _sweep_and_prune(graph, {ops.select_n: attention.rewrite_lowered_scores})
    fused = attention.STRICT_ATTENTION if settings.strict else attention.ATTENTION
    changed = recogniser_pass(fused)(graph, settings) or changed
    return sweep(graph, {ops.attention: attention.share_repeated_heads}) or changed


def fuse_batch_norms(graph: Graph, settings: PassSettings) -> bool:
    """Fuse batch norms, in place. Return True if anything changed."""
    roots = graph.count(ops.rsqrt) or graph.count(ops.sqrt)
    return bool(roots) and recogniser_pass(batch_norm=batch_norm.BATCH_NORM)(graph, settings)


EXPANDED_LATER = (ops.gelu, ops.rotary)
"""Operations that stay fused until a later pass, also without an operator for them."""


def expand_formula(node: Node, editor: Editor) -> Sequence[Value]:
    """Return the results of a node, computed by new nodes for the formula that defines its
    operation."""
    specs = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in node.inputs]
    assert node.op.formula is not None
    return editor.inline(trace(partial(node.op.formula, **node.params), specs), node.inputs)


ROUNDED_DIFFERENTLY = {op for op, row in ops.ACTIVATIONS.items() if row.fails_verification}
"""Operations that are expanded by ONNX's formula, which rounds differently from JAX's."""


def expand_unsupported(graph: Graph, settings: PassSettings) -> bool:
    """Expand fused operations that the target has no operator for, in place. Return True if there
    are any.

    The operations in ``EXPANDED_LATER`` are not expanded here but by a later pass. Those in
    ``ROUNDED_DIFFERENTLY`` are recorded as deviations when they are expanded.
    """

    noting = deviations.deviation_rules(settings.strict, settings.deviations, settings.runtime)

    def rule(node: Node, editor: Editor) -> Sequence[Value] | None:
        is_supported = settings.has_operator(operator_name(node.op), node.out.dtype)
        if is_supported:
            return None
        if node.op in ROUNDED_DIFFERENTLY:
            noting[node.op](node, editor)
        return expand_formula(node, editor)

    fused = [op for op in ops.defined_ops() if op.structure and op not in EXPANDED_LATER]
    return sweep(graph, dict.fromkeys(fused, rule))


def take_onnx_operands(graph: Graph, settings: PassSettings) -> None:
    """Rewrite rotary embeddings, convolutions, group norms and resizes with the operands of their
    ONNX operators, in place.

    The deviations of rotary embeddings are recorded or avoided here, because the original operation
    does not exist after this pass.
    """
    noting = deviations.deviation_rules(settings.strict, settings.deviations, settings.runtime)
    _sweep_and_prune(graph, {ops.rotary: noting[ops.rotary]})
    for op in EXPANDED_LATER:
        settings.count_newer(SINCE[operator_name(op)], operator_name(op), graph.count(op))
    supports = partial(settings.runtime.supports, opset=settings.selected_opset)
    rules: dict[Op, Rule] = {
        ops.rotary: partial(heads.emit_rotary, has_operator=supports),
        ops.conv_general_dilated: partial(
            convolution.emit_convolution, has_operator=settings.has_operator
        ),
        ops.group_norm: partial(norm_layout.emit_group_norm, has_operator=supports),
        **resize_layout.RULES,
    }
    _sweep_and_prune(graph, rules)


def arrange_pools_and_bounds(graph: Graph, settings: PassSettings) -> None:
    """Rewrite pools in ONNX's layout, and apply JAX's rules to indices out of bounds, in place.

    Indices are not changed if they are known to be within bounds. They are not changed either if
    the gather or scatter promises that they are, unless the conversion is strict or there is a
    reason to doubt the promise.
    """
    pools = pooling.pooling_rules(settings.selected_opset, settings.strict, settings.runtime)
    rule_pass(pools, bounds.bounds_rules(graph, settings.strict, settings.deviations))(
        graph, settings
    )


def use_3d_attention(graph: Graph, settings: PassSettings) -> None:
    """Give attention operands of three axes, [batch, positions, heads · width], in place.

    Nothing changes if the layout of the settings is 4-D. If 3-D was not requested but is the
    target's default, only attention whose operands are transposed to 4-D is changed.
    """
    if settings.layout == "3d":
        is_requested = settings.attention_layout is not None
        rule = heads.attention_3d if is_requested else heads.attention_3d_of_transposed
        sweep(graph, {ops.attention: rule})


def contract_to_matmul(graph: Graph, settings: PassSettings) -> bool:
    """Replace contractions (``einsum``) by matrix products, in place. Return True if any was
    replaced."""
    rule = partial(contraction.to_matrix_product, weight_ids=weight_values(graph))
    return sweep(graph, {ops.einsum: rule})


def fold_weights(graph: Graph, settings: PassSettings) -> bool:
    """Fold scales and shifts into weights, and fuse average pools and ReLU, in place.

    Return True if anything changed.

    Weights are not changed if ``settings.fold`` is False. They are not changed in a strict
    conversion either, because other weights may change which numbers overflow. Nodes that depend
    only on parameters are moved to the start of the graph.
    """
    # Folding is off in a strict conversion, because it may change which numbers overflow.
    may_change_weights = settings.fold and not settings.strict
    folding = affine_folding.folding_rules(graph, weight_values(graph), may_change_weights)
    changed = sweep(
        graph,
        _merge_tables(folding, {ops.div: pooling.match_average_pool}, activations.RELU_RULES),
    )
    move_weights_first(graph)
    drop_dead(graph)
    return changed


def handle_deviations(graph: Graph, settings: PassSettings) -> None:
    """Replace operators that may differ from JAX, or note them for the report, in place.

    A strict conversion replaces those for which there is an exact rule. All others are noted.
    """
    sweep(graph, deviations.deviation_rules(settings.strict, settings.deviations, settings.runtime))


def avoid_quirks(graph: Graph, settings: PassSettings) -> None:
    """Rewrite operations that the runtime computes wrongly, in place.

    The rules of the quirks are applied one quirk after the other, because a rule may emit an
    operation to which the rule of another quirk applies.
    """
    for quirk in settings.runtime.quirks:
        _sweep_and_prune(graph, quirk.rules)


def apply_dtype_fallback(graph: Graph, settings: PassSettings) -> None:
    """Rewrite operations without a kernel for their dtype to compute in another dtype, in place."""
    _sweep_and_prune(
        graph, dtype_fallback.dtype_fallback_rules(graph, settings.selected_opset, settings.runtime)
    )


def support_nodes(graph: Graph, settings: PassSettings) -> None:
    """Rewrite nodes in a form that the target does not run, in place.

    A node that no rule rewrites is marked with the reason (``Node.refusal_reason``), and lowering
    it raises an error.
    """
    _sweep_and_prune(graph, support.support_rules(settings.runtime, settings.selected_opset))
    support.refuse_misfits(graph, settings.runtime, settings.selected_opset)
