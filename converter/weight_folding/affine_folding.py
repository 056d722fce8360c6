"""Fold scales and shifts of linear operations into their weights and biases.

    conv(x, w) * s + t  =  conv(x, w * s) + t             (x @ w + b) * s  =  x @ (w * s) + b * s

Such factors are, for example, a batch norm at inference, LayerScale, and the scale of attention. A
factor is moved towards the inputs through linear operations: transposes, sums, and products with
other weights. The operation is removed if all values that the factor reaches in this way are
parameters or constants. These values are multiplied by the factor when the file is saved, and keep
their names. A shift is moved into the preceding bias in the same way.

The weights of a product or convolution are changed only if no other node reads them, so that the
file never contains them twice. Vectors and tables of up to 1 MiB may be duplicated. Infinite and
very large factors are not folded: the product of an infinite factor and a zero is NaN, and so is
the sum of two overflows of opposite sign. A divisor whose values are not known is folded only if it
is a sum or maximum with a positive number, such as ``variance + epsilon``. Values that are passed
when the file is saved are checked at that time, and an error is raised if they are out of range.
"""

from collections.abc import Sequence

from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.dtypes import is_float
from converter.ir.evaluation import MAX_GROWTH_BYTES, size_in_bytes
from converter.ir.moves import shortened_axis
from converter.ir.op import Op
from converter.ir.origins import sources
from converter.ir.rewrite import Editor, Rule
from converter.ir.scalars import scalar
from converter.weight_folding import linearity
from converter.weight_folding.linearity import CONVOLUTIONS, SCALING_RULES, ScaledOperand

MAX_FOLD_DEPTH = 12
"""Number of operations through which a factor is moved."""

VIEW_OPS = (ops.transpose, ops.reshape)
"""Operations whose result has the same elements in another shape."""

OPPOSITE = {ops.add: ops.sub, ops.sub: ops.add}
"""The operation that changes a bias which is subtracted, by the operation on the result."""


def folding_rules(graph: Graph, weights: set[int], may_change_weights: bool) -> dict[Op, Rule]:
    """Return the rules, by operation, that fold scales and shifts into the weights of a graph.

        (x @ w) * s  =  x @ (w * s)

    Arguments:
        graph: the graph.
        weights: ids of the values that depend only on parameters and constants. Those of new values
            are added.
        may_change_weights: whether weights may be changed. Otherwise a convolution without a bias
            may still get one.
    """
    affine = FoldingRules(graph, weights, may_change_weights)
    shifts, scales = (ops.add, ops.sub), (ops.mul, ops.div)
    return {**dict.fromkeys(shifts, affine.shift), **dict.fromkeys(scales, affine.scale)}


class FoldingRules:
    """Rules that fold scales and shifts into weights, with the readers of each value of a graph.

    Arguments:
        graph: the graph.
        weights: ids of the values that depend only on parameters and constants. Those of new values
            are added.
        may_change_weights: whether weights may be changed. Otherwise a convolution without a bias
            may still get one.
    """

    def __init__(self, graph: Graph, weights: set[int], may_change_weights: bool) -> None:
        self._weights, self._may_change_weights = weights, may_change_weights
        self._readers: dict[int, list[Node | None]] = {}
        self._graphs: dict[int, Graph] = {}
        for part in (graph, *(body for node in graph.walk() for body in node.bodies.values())):
            self._graphs.update((id(node), part) for node in part.nodes)
            reads = [(v, node) for node in part.nodes for v in node.inputs]
            for value, reader in (*reads, *((v, None) for v in part.outputs)):
                self._readers.setdefault(id(value), []).append(reader)

    # ---------------------------------------------------------------------------------- the rules

    def scale(self, node: Node, editor: Editor) -> Value | None:
        """Fold a factor or divisor that depends only on weights into the weights of the other
        operand.

            conv(x, w) * s  =  conv(x, w * s)

        Returns:
            The other operand, ``conv(x, w)``, which replaces the node; its weights are changed in
            place. None, so that the node stays, if the factor or a weight may be infinite or huge,
            or if the other operand is not linear in weights that may change. None also if all these
            weights are constant scalars, and for half precision, which would lose small weights.
        """
        # Small weights would be rounded to zero in float16.
        is_wide = node.out.dtype.name in ("float32", "float64")
        for index, other in self._operands(node) if is_wide else ():
            divides = node.op is ops.div
            if self._can_fold(other) and linearity.has_moderate_size(other, divides):
                aligned = _broadcast_to_rank(other, node.out, editor)
                factor_sizes = linearity.sizes_of_factor(divides)
                factor = editor.add(
                    ops.factor, [aligned], aligned.shape, aligned.dtype, factor_sizes
                )
                parts = (
                    self._find_scaled_parts(
                        ScaledOperand(node, index, factor), editor, MAX_FOLD_DEPTH
                    )
                    or []
                )
                # If all weights are constant scalars, as in (x * 2) * 3, there is little to gain.
                is_useful = any(scalar(part.value) is None for part in parts)
                is_finite = is_useful and linearity.is_safe_factor(other, divides)
                if is_finite and all(linearity.is_scalable_weight(part.value) for part in parts):
                    return self._remove_node(node, index, node.op, parts, editor)
        return None

    def shift(self, node: Node, editor: Editor) -> Value | None:
        """Fold a term that depends only on weights into the bias of the other operand.

            (x @ w + b) + t  =  x @ w + (b + t)

        A convolution without a bias gets one.

        Returns:
            The other operand, ``x @ w + b``, which replaces the node; its bias is changed in place.
            None, so that the node is kept, if the other operand has no bias that may be changed.
        """
        for index, other in self._operands(node) if is_float(node.out.dtype) else ():
            if self._is_known(other):
                term = _broadcast_to_rank(other, node.out, editor)
                if change := self._find_shifted_part(
                    ScaledOperand(node, index, term), node.op, editor
                ):
                    part, op = change
                    return self._remove_node(node, index, op, [part], editor)
        return None

    # --------------------------------------------------------------------------------- the search

    def _find_scaled_parts(
        self, part: ScaledOperand, editor: Editor, depth: int
    ) -> list[ScaledOperand] | None:
        """Return the weights that have to be multiplied in place of an operand, with their factors.

        Arguments:
            part: the operand, with the factor that it is multiplied with.
            editor: gets the nodes that compute the factors.
            depth: largest number of operations to go through.

        Returns:
            The weights. None if other values than weights would have to be multiplied, or weights
            that may not be changed, or if more than ``depth`` operations are in between.
        """
        if self._can_fold(part.value):
            return [part] if self._may_change(part) else None
        inner = self._only_producer(part)
        if inner is None or not depth or inner.op not in SCALING_RULES:
            return None
        choices = SCALING_RULES[inner.op](inner, part.other, editor)
        for choice in sorted(choices, key=lambda choice: not self._can_fold(choice[0].value)):
            operands = [self._find_scaled_parts(operand, editor, depth - 1) for operand in choice]
            if None not in operands:
                return [change for changes in operands for change in changes or ()]
        return None

    def _find_shifted_part(
        self, part: ScaledOperand, op: Op, editor: Editor
    ) -> tuple[ScaledOperand, Op] | None:
        """Return the bias that a term can be folded into, with the operation to apply to it.

        The operation is ``op``, or its opposite if the bias is subtracted. A convolution without a
        bias gets one.

        Arguments:
            part: the operand, with the term that is added to it.
            op: ``add``, or ``sub`` if the term is subtracted.
            editor: gets the nodes that bring the term into the shape of the bias.

        Returns:
            The bias, as an operand of the node that reads it, with the term, and the operation.
            None if there is no bias that may change.
        """
        inner = self._only_producer(part)
        if inner is None:
            return None
        if inner.op in VIEW_OPS:
            choices = SCALING_RULES[inner.op](inner, part.other, editor)
            return self._find_shifted_part(choices[0][0], op, editor) if choices else None
        if inner.op in CONVOLUTIONS:
            vector = linearity.channel_vector(inner, part.other, editor)
            can_merge = len(inner.inputs) == 2 or self._may_merge(inner.inputs[2], part.other)
            return (
                (ScaledOperand(inner, 2, vector), op) if vector is not None and can_merge else None
            )
        for index, bias in enumerate(inner.inputs) if inner.op in OPPOSITE else ():
            if self._may_merge(bias, part.other) and _covers(bias, part.other):
                new_op = op if inner.op is ops.add or index == 0 else OPPOSITE[op]
                change = ScaledOperand(inner, index, part.other)
                return (change, new_op) if self._may_change(change) else None
        return None

    def _only_producer(self, part: ScaledOperand) -> Node | None:
        """Return the node that computes an operand.

        None if other nodes also read the operand, unless all readers are slices that do not
        overlap. None also if it is computed in another graph, or if the factor or term would change
        its shape by broadcasting.
        """
        node, value = part.node, part.value
        inner = value.node
        if inner is None or self._graphs.get(id(inner)) is not self._graphs[id(node)]:
            return None
        readers = self._readers.get(id(value), [])
        keeps_shape = dims.is_same_shape(
            value.shape, dims.broadcast([value.shape, part.other.shape]) or ()
        )
        return (
            inner
            if keeps_shape and (len(readers) == 1 or _reads_disjoint_slices(node, readers))
            else None
        )

    def _operands(self, node: Node) -> list[tuple[int, Value]]:
        """Return the operands that may replace a node: the position of each, with the other
        operand, which scales or shifts it.

        Operands that depend only on weights are omitted. In a division or subtraction only the
        first operand may replace the node.
        """
        pairs = list(enumerate(reversed(node.inputs)))[: 2 if node.op.commutes else 1]
        return [(i, other) for i, other in pairs if not self._is_known(node.inputs[i])]

    def _is_known(self, value: Value) -> bool:
        """Return True if a value depends only on parameters and constants, so that it is known when
        the file is saved."""
        return value.kind in ("const", "param") or id(value) in self._weights

    def _can_fold(self, value: Value) -> bool:
        """Return True if a value is known when the file is saved and weights may be changed."""
        return self._may_change_weights and self._is_known(value)

    def _may_merge(self, bias: Value, term: Value) -> bool:
        """Return True if a term may be added to a bias: the bias is a weight that may be changed.

        Neither may be a single number, because x + 2**23 - 2**23 rounds x.
        """
        numbers = scalar(bias) is not None or scalar(term) is not None
        return self._can_fold(bias) and not numbers

    def _may_change(self, part: ScaledOperand) -> bool:
        """Return True if an operand may be changed without a second large copy of it in the file.

        It may if no other node reads it, apart from nodes that are evaluated when the file is
        saved. It also may if it is at most 1 MiB and not the weight of a product or convolution.
        """
        readers = self._readers.get(id(part.value), [])
        if sum(reader is None or not self._is_known(reader.out) for reader in readers) <= 1:
            return True
        matrix = part.node.op in (ops.matmul, *CONVOLUTIONS)
        return not matrix and size_in_bytes(part.value) <= MAX_GROWTH_BYTES

    # -------------------------------------------------------------------------------- the changes

    def _remove_node(
        self, node: Node, index: int, op: Op, parts: Sequence[ScaledOperand], editor: Editor
    ) -> Value | None:
        """Return the operand that replaces a node, after changing its weights.

        Arguments:
            node: the node that scales or shifts.
            index: position of the operand that replaces it.
            op: the operation to apply to each part.
            parts: weights or biases, with the factors or terms to apply to them.
            editor: gets the nodes that compute the new weights.

        Returns:
            None if the operand has another shape or dtype than the result of the node. Nothing is
            changed then.
        """
        value = node.inputs[index]
        if not dims.is_same_shape(value.shape, node.out.shape) or value.dtype != node.out.dtype:
            return None
        for part in parts:
            self._apply(part, op, editor)
        self._readers[id(value)] = self._readers.get(id(node.out), [])
        # The value is no longer read by the node that is removed.
        editor.uses[id(value)] -= 1
        return value

    def _apply(self, part: ScaledOperand, op: Op, editor: Editor) -> None:
        """Replace an operand of a node by the result of ``op`` on the operand and its factor or
        term, in place.

        A missing bias is added as the last operand.
        """
        if part.index == len(part.node.inputs):
            # The node may not have a bias.
            bias = self._emit_weight(ops.neg, [part.other], editor) if op is ops.sub else part.other
            self._weights.add(id(bias))
            part.node.inputs.append(bias)
            return
        value, sizes = part.value, linearity.WEIGHT_SIZES
        if op in (ops.mul, ops.div):
            value = editor.add(ops.factor, [value], value.shape, value.dtype, sizes)
        changed = self._emit_weight(op, [value, part.other], editor)
        if _result_keeps_rank(part):
            # A bias has to remain a vector.
            first = next(
                (i for i, d in enumerate(changed.shape) if not dims.is_same_dim(d, 1)), changed.rank
            )
            changed = editor.reshape(changed, changed.shape[first:])
            self._weights.add(id(changed))
        changed.name = _kept_name(part.value)
        part.node.inputs[part.index] = changed

    def _emit_weight(self, op: Op, inputs: list[Value], editor: Editor) -> Value:
        """Return the result of an elementwise operation on weights, which is also treated as a
        weight."""
        shape = dims.broadcast([v.shape for v in inputs])
        assert shape is not None, inputs
        value = editor.add(op, inputs, shape, inputs[0].dtype)
        self._weights.add(id(value))
        return value


def _result_keeps_rank(part: ScaledOperand) -> bool:
    """Return True if the result of a node keeps its number of axes even if the operand has fewer.

    This is so for an elementwise node if another operand has all axes of the result. A changed bias
    can then stay a vector.
    """
    node = part.node
    other_operands = [v for i, v in enumerate(node.inputs) if i != part.index]
    return node.op.broadcasts and any(v.rank == node.out.rank for v in other_operands)


def _broadcast_to_rank(value: Value, out: Value, editor: Editor) -> Value:
    """Return ``value``, which may be broadcast to ``out``, with as many axes as ``out``.

    A broadcast that computes ``value`` is removed: axes along which it only repeats ``value`` have
    size one.
    """
    inner = value.producer_if(ops.broadcast_in_dim)
    source = value if inner is None else inner.inputs[0]
    shape = range(value.rank) if inner is None else inner.params["broadcast_dimensions"]
    axes = [axis + out.rank - value.rank for axis in shape]
    return editor.reshape(source, dims.expand_with_ones(source.shape, axes, out.rank))


def _covers(bias: Value, term: Value) -> bool:
    """Return True if the sum of a bias and a term has the shape of the bias, apart from axes of
    size one."""
    shape = dims.broadcast([bias.shape, term.shape])
    sizes = [[d for d in s or () if not dims.is_same_dim(d, 1)] for s in (bias.shape, shape)]
    return shape is not None and dims.is_same_shape(*sizes)


def _reads_disjoint_slices(node: Node, readers: Sequence[Node | None]) -> bool:
    """Return True if a node and all other readers of its operand are slices along the same axis
    that do not overlap.

    A reader is None if it is an output of the graph.
    """
    other_readers = [reader for reader in readers if reader is not None and reader is not node]
    axis = shortened_axis(node)
    if (
        axis is None
        or len(other_readers) < len(readers) - 1
        or any(shortened_axis(r) != axis for r in other_readers)
    ):
        return False
    (start, end), *ends = (
        (n.params["start_indices"][axis], n.params["limit_indices"][axis])
        for n in (node, *other_readers)
    )
    return all(max(start, low) >= min(end, high) for low, high in ends)


def _kept_name(weight: Value) -> str:
    """Return the name that a changed weight keeps.

    It is the name of the weight, or of the value that it is a transpose or reshape of, or else of
    the only parameter that it depends on. It is empty if there is no such name.
    """
    names = [v.name for v in sources(weight).values() if v.kind == "param"]
    while weight.node is not None and not weight.name and weight.node.op in VIEW_OPS:
        (weight,) = weight.node.inputs
    return weight.name or (names[0] if len(names) == 1 else "")
