"""Apply local rules to the nodes of a graph, and create new nodes."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from converter.ir import Graph, Node, Value, dims, make_node, ops
from converter.ir.dims import Dim, Shape
from converter.ir.op import Formula, Op

logger = logging.getLogger(__name__)

SupportsDtype: TypeAlias = Callable[[str, np.dtype], bool]
# A rule returns the values that replace a node's outputs, or None to keep the node.
Rule: TypeAlias = Callable[[Node, "Editor"], "Sequence[Value] | Value | None"]


def supports_all(operator: str, dtype: np.dtype) -> bool:
    """Return True, as for a runtime that supports every operator in every dtype."""
    return True


class Editor:
    """The state of one forward sweep over a graph: new nodes, replaced values, and the number of
    uses of each value.

    A rule sees the operands of a node as rewritten already. New nodes are inserted before the node.
    ``has_operator(operator, dtype)`` says whether the runtime supports an ONNX operator in a dtype.
    ``uses`` contains, by the value's id, how many times a value was read when the sweep started,
    plus the reads that were added since. Reads that have disappeared are still counted.
    """

    def __init__(self, graph: Graph, has_operator: SupportsDtype = supports_all) -> None:
        self.has_operator = has_operator
        self._replacements: dict[int, Value] = {}
        self._replaced: list[
            Value
        ] = []  # references to replaced values, so that no new value can get the same id
        self.uses = count_uses(graph)
        self.facts = graph.facts
        self.memo: dict[Any, Any] = {}
        self.nodes: list[Node] = []
        # The source lines of the current node, which new nodes get too.
        self.source: tuple[Any, ...] = ()
        self.changed = False

    def resolve(self, value: Value) -> Value:
        """Return the value that replaces this value, or this value if it is not replaced."""
        while id(value) in self._replacements:
            value = self._replacements[id(value)]
        return value

    def replace(self, value: Value, replacement: Value) -> None:
        """Let all nodes that the sweep has still to visit, and the outputs, read ``replacement`` in
        place of ``value``. The uses of ``value`` are added to those of ``replacement``."""
        if value is not replacement:
            self._replacements[id(value)] = replacement
            self._replaced.append(value)
            self.uses[id(replacement)] += self.uses[id(value)]
            self.changed = True

    def single_use(self, value: Value) -> bool:
        """Return True if a value is read exactly once, according to ``uses``."""
        return self.uses[id(value)] == 1

    # ------------------------------------------------------------------------------ new nodes

    def add(
        self,
        op: Op | str,
        inputs: Sequence[Value],
        shape: Shape,
        dtype: Any,
        params: Mapping[str, Any] | None = None,
        formula: Formula | None = None,
    ) -> Value:
        """Append a node with one output and return the output.

        ``op`` is an operation, or the name of one. With a ``formula`` and a name, the operation is
        that of a user's recogniser (`ops.external_op`).
        """
        operation = ops.external_op(op, formula) if isinstance(op, str) and formula else op
        (out,) = self.add_many(operation, inputs, [(shape, dtype)], params)
        return out

    def add_many(
        self,
        op: Op | str,
        inputs: Sequence[Value],
        types: Sequence[tuple[Shape, Any]],
        params: Mapping[str, Any] | None = None,
    ) -> list[Value]:
        """Append a node and return its outputs. ``types`` contains the shape and the dtype of each
        output."""
        node = make_node(ops.op_by_name(op), inputs, types, params, source=self.source)
        self.nodes.append(node)
        for value in inputs:
            self.uses[id(value)] += 1
        return node.outputs

    def copy_with_operands(
        self, node: Node, inputs: Sequence[Value], shape: Shape | None = None, **changes: Any
    ) -> Value:
        """Append a copy of a node with other operands and return its output.

        The node must have one output and no bodies. ``shape`` is the shape of the output, by
        default that of the node. ``changes`` are changed parameters.
        """
        types = [(node.out.shape if shape is None else shape, node.out.dtype)]
        params = {**node.params, **changes}
        copy = make_node(node.op, inputs, types, params, meaning=node.meaning, source=node.source)
        copy.out.name = node.out.name
        self.nodes.append(copy)
        return copy.out

    def inline(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Move the nodes of a graph here, and return its outputs.

        ``inputs`` take the place of the inputs of the graph. The nodes are changed in place, so
        that the graph cannot be used afterwards.
        """
        operands_by_input = {
            id(graph_input): operand
            for graph_input, operand in zip(graph.inputs, inputs, strict=True)
        }
        for node in graph.walk():
            node.inputs = [operands_by_input.get(id(v), v) for v in node.inputs]
            node.source = self.source
            self.uses.update(map(id, node.inputs))
            for body in node.bodies.values():
                body.outputs = [operands_by_input.get(id(v), v) for v in body.outputs]
        self.nodes.extend(graph.nodes)
        return [operands_by_input.get(id(v), v) for v in graph.outputs]

    def reshape(self, x: Value, shape: Shape) -> Value:
        """Return ``x`` in this shape.

        A reshape that computes ``x`` is skipped: the result is ``x``, the operand of that reshape,
        or one new reshape.
        """
        if dims.is_same_shape(x.shape, shape):
            return x
        if node := x.producer_if(ops.reshape):
            return self.reshape(node.inputs[0], shape)
        return self.add(ops.reshape, [x], shape, x.dtype, {"shape": shape})

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """Return ``x`` transposed: axis i of the result is axis ``permutation[i]`` of ``x``.

        The result is ``x`` itself if the permutation is the identity, and a reshape if only axes of
        size one move. A transposition that computes ``x`` is merged, so that the result may be its
        operand.
        """
        order = tuple(permutation)
        if order == tuple(range(x.rank)):
            return x
        shape = tuple(x.shape[i] for i in order)
        if moves_only_ones(x.shape, order):
            return self.reshape(x, shape)
        if node := x.producer_if(ops.transpose):
            first = node.params["permutation"]
            return self.transpose(node.inputs[0], [first[i] for i in order])
        return self.add(ops.transpose, [x], shape, x.dtype, {"permutation": order})

    def slice(self, x: Value, axis: int, start: Dim, stop: Dim, stride: int = 1) -> Value:
        """Return every ``stride``-th entry from ``start`` to ``stop`` (excluded) along one axis, or
        ``x`` if these are all entries."""
        if stride == 1 and dims.is_same_dim(start, 0) and dims.is_same_dim(stop, x.shape[axis]):
            return x
        size = dims.as_dim((stop - start + stride - 1) // stride)
        params = {
            "start_indices": tuple(start if i == axis else 0 for i in range(x.rank)),
            "limit_indices": tuple(stop if i == axis else d for i, d in enumerate(x.shape)),
            "strides": tuple(stride if i == axis else 1 for i in range(x.rank)),
        }
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        return self.add(ops.slice, [x], shape, x.dtype, params)

    def slice_region(self, x: Value, starts: Shape, shape: Shape) -> Value:
        """Return the region of ``x`` that has this shape and begins at the position ``starts``, or
        ``x`` if it has this shape."""
        if dims.is_same_shape(x.shape, shape):
            return x
        limits = tuple(dims.as_dim(start + size) for start, size in zip(starts, shape, strict=True))
        params = {"start_indices": starts, "limit_indices": limits, "strides": (1,) * x.rank}
        return self.add(ops.slice, [x], shape, x.dtype, params)

    def rev(self, x: Value, axes: Sequence[int]) -> Value:
        """Reverse ``x`` along these axes."""
        return self.add(ops.rev, [x], x.shape, x.dtype, {"dimensions": tuple(axes)})

    def concatenate(self, values: Sequence[Value], axis: int) -> Value:
        """Concatenate values along an axis."""
        first = values[0]
        size = dims.as_dim(sum(v.shape[axis] for v in values))
        shape = (*first.shape[:axis], size, *first.shape[axis + 1 :])
        return self.add(ops.concatenate, values, shape, first.dtype, {"dimension": axis})

    def broadcast(self, x: Value, shape: Shape, axes: Sequence[int]) -> Value:
        """Return ``x`` broadcast to a shape: axis i of ``x`` becomes axis ``axes[i]`` of the
        result.

        The result is ``x`` itself, or a reshape if nothing is repeated.
        """
        if tuple(axes) == tuple(range(len(shape))) and dims.is_same_shape(x.shape, shape):
            return x
        if dims.is_same_shape(dims.expand_with_ones(x.shape, axes, len(shape)), shape):
            return self.reshape(x, shape)
        params = {"shape": shape, "broadcast_dimensions": tuple(axes)}
        return self.add(ops.broadcast_in_dim, [x], shape, x.dtype, params)

    def convert(self, x: Value, dtype: Any) -> Value:
        """Convert ``x`` to a dtype, or return it if it has this dtype."""
        dtype = np.dtype(dtype)
        if x.dtype == dtype:
            return x
        return self.add(ops.convert_element_type, [x], x.shape, dtype, {"new_dtype": dtype})

    def compare(self, op: Op, x: Value, y: Value) -> Value:
        """Append a comparison of two values, which are broadcast. The result is Boolean."""
        return self._broadcasting(op, [x, y], np.bool_)

    def where(self, condition: Value, yes: Value, no: Value) -> Value:
        """Select ``yes`` where ``condition`` is true, else ``no``. All three are broadcast, and the
        result has the dtype of ``no``."""
        return self._broadcasting(ops.select_n, [condition, no, yes], no.dtype)

    def binary(self, op: Op, x: Value, y: Value) -> Value:
        """Append an operation on two values, which are broadcast. The result has the dtype of
        ``x``."""
        return self._broadcasting(op, [x, y], x.dtype)

    def _broadcasting(self, op: Op, operands: Sequence[Value], dtype: Any) -> Value:
        """Append an operation whose operands are broadcast as in numpy. ``dtype`` is that of the
        result."""
        shape = dims.broadcast([v.shape for v in operands])
        assert shape is not None, (op, operands)
        return self.add(op, operands, shape, dtype)


def inverse_order(permutation: Sequence[int]) -> tuple[int, ...]:
    """Return the inverse of a permutation."""
    return tuple(permutation.index(i) for i in range(len(permutation)))


def moves_only_ones(shape: Shape, permutation: Sequence[int]) -> bool:
    """Return True if a transposition moves only axes of size one, or no axis.

    Such a transposition does not change the order of elements.
    """
    moved = [i for i in permutation if not dims.is_same_dim(shape[i], 1)]
    return moved == sorted(moved)


def count_uses(graph: Graph) -> Counter[int]:
    """Return how many times each value is read, by its id: as an operand or as an output of a graph
    or body."""
    nodes = list(graph.walk())
    read = chain.from_iterable(node.inputs for node in nodes)
    bodies = (body for node in nodes for body in node.bodies.values())
    body_outputs = chain.from_iterable(body.outputs for body in bodies)
    return Counter(map(id, chain(graph.outputs, read, body_outputs)))


def sweep(
    graph: Graph, rules: Mapping[Op, Rule], has_operator: SupportsDtype = supports_all
) -> bool:
    """Apply to each node the rule for its operation, once, in topological order and in place.

    ``rules`` contains the rule of each operation. The nodes of bodies are visited before the node
    that has the bodies. Nodes that rules add are not visited. ``has_operator(operator, dtype)``
    says whether the runtime supports an ONNX operator in a dtype. Return True if any node was
    replaced. Nodes that nothing reads any more are left in the graph.
    """
    if rules.keys().isdisjoint([node.op for node in graph.walk()]):
        return False
    editor = Editor(graph, has_operator)
    _sweep(graph, rules, editor)
    return editor.changed


def _sweep(graph: Graph, rules: Mapping[Op, Rule], editor: Editor) -> None:
    """Apply the rules to the nodes of a graph and its bodies, in place."""
    outer, editor.nodes = editor.nodes, []
    for node in graph.nodes:
        if editor.changed:
            node.inputs = [editor.resolve(v) for v in node.inputs]
        for body in node.bodies.values():
            _sweep(body, rules, editor)
        rule, editor.source = rules.get(node.op), node.source
        replacement = rule(node, editor) if rule else None
        if replacement is None:
            editor.nodes.append(node)
            continue
        replacements = [replacement] if isinstance(replacement, Value) else list(replacement)
        for output, result in zip(node.outputs, replacements, strict=True):
            editor.replace(output, result)
    graph.nodes, editor.nodes = editor.nodes, outer
    graph.outputs = [editor.resolve(v) for v in graph.outputs]


def drop_dead(graph: Graph) -> None:
    """Remove nodes whose outputs nothing reads from a graph and its bodies, in place."""
    live: set[int] = {id(v) for v in graph.outputs}
    remaining: list[Node] = []
    for node in reversed(graph.nodes):
        if not live.isdisjoint(map(id, node.outputs)):
            if node.bodies:
                for body in node.bodies.values():
                    drop_dead(body)
            live.update(map(id, node.operands() if node.bodies else node.inputs))
            remaining.append(node)
    graph.nodes = remaining[::-1]
