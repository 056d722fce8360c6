"""Fold scales and shifts of linear operations into their weights and biases.

    conv(x, w) * s + t  =  conv(x, w * s) + t             (x @ w + b) * s  =  x @ (w * s) + b * s

A batch norm at inference, LayerScale and the scale of attention are such factors. A factor is moved
up through linear operations: transposes, sums, products with other weights. If all values that it
reaches are parameters or constants, these are multiplied when the file is saved and keep their
names, and the operation is removed. A shift moves into the bias before it in the same way.

The weights of a product or convolution change only if no other node reads them, so that the file
never has them twice. Vectors and tables of up to 1 MiB may be duplicated. An infinite factor would
give NaN in products with zeros, and a huge one in sums that cancel; such factors stay. So do
divisors without values that are not protected from zero by a sum with a positive number. Values
that are given when saving are checked then, and refused if they do not fit.
"""

from collections.abc import Sequence

from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.dtypes import is_float
from converter.ir.evaluation import CEILING, size_in_bytes
from converter.ir.moves import shortened_axis
from converter.ir.op import Op
from converter.ir.origins import sources
from converter.ir.rewrite import Editor, Rule
from converter.ir.scalars import scalar
from converter.weight_folding import linearity
from converter.weight_folding.linearity import CONVOLUTIONS, SCALING_RULES, LinearPart

MAX_FOLD_DEPTH = 12
"""Number of operations through which a factor is moved."""

VIEW_OPS = (ops.transpose, ops.reshape)

OPPOSITE = {ops.add: ops.sub, ops.sub: ops.add}


def folding_rules(graph: Graph, weights: set[int], fold: bool) -> dict[Op, Rule]:
    """Return the rules for a graph.

    ``weights`` are the ids of values that depend only on parameters. They change only with
    ``fold``.
    """
    affine = WeightAffine(graph, weights, fold)
    shifts, scales = (ops.add, ops.sub), (ops.mul, ops.div)
    return {**dict.fromkeys(shifts, affine.shift), **dict.fromkeys(scales, affine.scale)}


class WeightAffine:
    """The folding rules, with the readers of each value of the graph."""

    def __init__(self, graph: Graph, weights: set[int], fold: bool) -> None:
        self._weights, self._fold = weights, fold
        self._readers: dict[int, list[Node | None]] = {}
        self._graphs: dict[int, Graph] = {}
        for one in (graph, *(body for node in graph.walk() for body in node.bodies.values())):
            self._graphs.update((id(node), one) for node in one.nodes)
            read = [(v, node) for node in one.nodes for v in node.inputs]
            for value, reader in (*read, *((v, None) for v in one.outputs)):
                self._readers.setdefault(id(value), []).append(reader)

    # ---------------------------------------------------------------------------------- the rules

    def scale(self, node: Node, editor: Editor) -> Value | None:
        """Fold a factor or divisor that depends only on weights."""
        is_wide = node.out.dtype.name in ("float32", "float64")  # float16 would lose small weights
        for index, other in self._operands(node) if is_wide else ():
            divides = node.op is ops.div
            if self._is_fixed(other) and linearity.has_moderate_size(other, divides):
                aligned = _broadcast_to_rank(other, node.out, editor)
                factor_sizes = linearity.sizes_of_factor(divides)
                factor = editor.add(
                    ops.factor, [aligned], aligned.shape, aligned.dtype, factor_sizes
                )
                parts = (
                    self._find_scaled_parts(LinearPart(node, index, factor), editor, MAX_FOLD_DEPTH)
                    or []
                )
                # Multiplying only constants gains little: (x * 2) * 3.
                is_useful = any(scalar(part.value) is None for part in parts)
                is_finite = is_useful and linearity.keeps_finite(other, divides)
                if is_finite and all(linearity.may_be_scaled(part.value) for part in parts):
                    return self._remove_node(node, index, node.op, parts, editor)
        return None

    def shift(self, node: Node, editor: Editor) -> Value | None:
        """Fold a term that depends only on weights."""
        for index, other in self._operands(node) if is_float(node.out.dtype) else ():
            if self._is_known(other):
                term = _broadcast_to_rank(other, node.out, editor)
                if change := self._find_shifted_part(
                    LinearPart(node, index, term), node.op, editor
                ):
                    part, op = change
                    return self._remove_node(node, index, op, [part], editor)
        return None

    # --------------------------------------------------------------------------------- the search

    def _find_scaled_parts(
        self, part: LinearPart, editor: Editor, depth: int
    ) -> list[LinearPart] | None:
        """Return the weights that have to be scaled in place of an operand, or None if others are
        needed."""
        if self._is_fixed(part.value):
            return [part] if self._may_change(part) else None
        inner = self._only_producer(part)
        if inner is None or not depth or inner.op not in SCALING_RULES:
            return None
        choices = SCALING_RULES[inner.op](inner, part.other, editor)
        for choice in sorted(choices, key=lambda choice: not self._is_fixed(choice[0].value)):
            operands = [self._find_scaled_parts(operand, editor, depth - 1) for operand in choice]
            if None not in operands:
                return [change for changes in operands for change in changes or ()]
        return None

    def _find_shifted_part(
        self, part: LinearPart, op: Op, editor: Editor
    ) -> tuple[LinearPart, Op] | None:
        """Return the bias that a shift can be folded into, and the operation to apply; None if
        there is none."""
        inner = self._only_producer(part)
        if inner is None:
            return None
        if inner.op in VIEW_OPS:
            choices = SCALING_RULES[inner.op](inner, part.other, editor)
            return self._find_shifted_part(choices[0][0], op, editor) if choices else None
        if inner.op in CONVOLUTIONS:
            vector = linearity.channel_vector(inner, part.other, editor)
            can_merge = len(inner.inputs) == 2 or self._may_merge(inner.inputs[2], part.other)
            return (LinearPart(inner, 2, vector), op) if vector is not None and can_merge else None
        for index, bias in enumerate(inner.inputs) if inner.op in OPPOSITE else ():
            if self._may_merge(bias, part.other) and _covers(bias, part.other):
                new_op = op if inner.op is ops.add or index == 0 else OPPOSITE[op]
                change = LinearPart(inner, index, part.other)
                return (change, new_op) if self._may_change(change) else None
        return None

    def _only_producer(self, part: LinearPart) -> Node | None:
        """Return the producer of an operand that no other node reads, in the same graph; otherwise
        None."""
        node, value = part.node, part.value
        inner = value.node
        if inner is None or self._graphs.get(id(inner)) is not self._graphs[id(node)]:
            return None
        readers = self._readers.get(id(value), [])
        keeps_shape = dims.same_shape(
            value.shape, dims.broadcast([value.shape, part.other.shape]) or ()
        )
        return (
            inner
            if keeps_shape and (len(readers) == 1 or _reads_disjoint_slices(node, readers))
            else None
        )

    def _operands(self, node: Node) -> list[tuple[int, Value]]:
        """Return operands that may replace the node, with the other operand that scales or
        shifts."""
        pairs = list(enumerate(reversed(node.inputs)))[: 2 if node.op.commutes else 1]
        return [(i, other) for i, other in pairs if not self._is_known(node.inputs[i])]

    def _is_known(self, value: Value) -> bool:
        return value.kind in ("const", "param") or id(value) in self._weights

    def _is_fixed(self, value: Value) -> bool:
        """Return True if a value is known when the file is saved and may change."""
        return self._fold and self._is_known(value)

    def _may_merge(self, bias: Value, term: Value) -> bool:
        """Return True if two terms may be added: neither is a number, because x + 2**23 - 2**23
        rounds x."""
        numbers = scalar(bias) is not None or scalar(term) is not None
        return self._is_fixed(bias) and not numbers

    def _may_change(self, part: LinearPart) -> bool:
        """Return True if the change leaves no second large copy of the part in the file."""
        readers = self._readers.get(id(part.value), [])
        if sum(reader is None or not self._is_known(reader.out) for reader in readers) <= 1:
            return True
        matrix = part.node.op in (ops.matmul, *CONVOLUTIONS)
        return not matrix and size_in_bytes(part.value) <= CEILING

    # -------------------------------------------------------------------------------- the changes

    def _remove_node(
        self, node: Node, index: int, op: Op, parts: Sequence[LinearPart], editor: Editor
    ) -> Value | None:
        """Return the operand that replaces the node, after changing the weights; None if types
        differ."""
        value = node.inputs[index]
        if not dims.same_shape(value.shape, node.out.shape) or value.dtype != node.out.dtype:
            return None
        for part in parts:
            self._apply(part, op, editor)
        self._readers[id(value)] = self._readers.get(id(node.out), [])
        editor.uses[id(value)] -= 1  # the removed node no longer reads it
        return value

    def _apply(self, part: LinearPart, op: Op, editor: Editor) -> None:
        if part.index == len(part.node.inputs):  # a bias may be missing
            bias = self._emit_weight(ops.neg, [part.other], editor) if op is ops.sub else part.other
            self._weights.add(id(bias))
            part.node.inputs.append(bias)
            return
        value, sizes = part.value, linearity.WEIGHT_SIZES
        if op in (ops.mul, ops.div):
            value = editor.add(ops.factor, [value], value.shape, value.dtype, sizes)
        changed = self._emit_weight(op, [value, part.other], editor)
        if _gives_rank(part):  # a bias keeps the shape of a vector
            first = next(
                (i for i, d in enumerate(changed.shape) if not dims.same(d, 1)), changed.rank
            )
            changed = editor.reshape(changed, changed.shape[first:])
            self._weights.add(id(changed))
        changed.name = _own_name(part.value)
        part.node.inputs[part.index] = changed

    def _emit_weight(self, op: Op, inputs: list[Value], editor: Editor) -> Value:
        shape = dims.broadcast([v.shape for v in inputs])
        assert shape is not None, inputs
        value = editor.add(op, inputs, shape, inputs[0].dtype)
        self._weights.add(id(value))
        return value


def _gives_rank(part: LinearPart) -> bool:
    """Return True if the result keeps its number of axes if the changed operand has fewer."""
    node = part.node
    other_operands = [v for i, v in enumerate(node.inputs) if i != part.index]
    return node.op.broadcasts and any(v.rank == node.out.rank for v in other_operands)


def _broadcast_to_rank(value: Value, out: Value, editor: Editor) -> Value:
    """Return ``value`` with as many axes as ``out``; axes along which it is constant have size
    one."""
    inner = value.made_by(ops.broadcast_in_dim)
    source = value if inner is None else inner.inputs[0]
    shape = range(value.rank) if inner is None else inner.params["broadcast_dimensions"]
    axes = [axis + out.rank - value.rank for axis in shape]
    return editor.reshape(source, dims.expand_with_ones(source.shape, axes, out.rank))


def _covers(bias: Value, term: Value) -> bool:
    """Return True if a bias keeps its size when a term is added."""
    shape = dims.broadcast([bias.shape, term.shape])
    sizes = [[d for d in s or () if not dims.same(d, 1)] for s in (bias.shape, shape)]
    return shape is not None and dims.same_shape(*sizes)


def _reads_disjoint_slices(node: Node, readers: Sequence[Node | None]) -> bool:
    """Return True if a slice does not overlap with the slices of the other readers of its
    source."""
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


def _own_name(weight: Value) -> str:
    """Return the name of the value that a weight is a view of, or of the only parameter it depends
    on."""
    names = [v.name for v in sources(weight).values() if v.kind == "param"]
    while weight.node is not None and not weight.name and weight.node.op in VIEW_OPS:
        (weight,) = weight.node.inputs
    return weight.name or (names[0] if len(names) == 1 else "")
