"""Define the sides of operations: branches, numbers of loop iterations, and index bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import lax

from converter.ir import Graph, Node, Value, dims, named_sizes, ops
from converter.ir.dims import Dim
from converter.ir.op import Op
from converter.ir.ranges import Range, known_range
from converter.ir.windows import find_indexed_axes

Flags = list[Any]
"""One Boolean scalar for each side of a node."""

VECTOR_INDEXED_OPS = (ops.gather, *ops.SCATTERS)
"""Operations whose indices are vectors with an element for each axis."""

# ------------------------------------------------------------------------------------ data flow


class Flow:
    """Data flow of a graph, including the bodies of its loops and conditionals.

    ``indices`` contains the ids of all integer values that an index is computed from.
    """

    def __init__(self, graph: Graph) -> None:
        self._inputs = {id(v) for v in graph.inputs}
        self._body_sources: dict[int, list[Value]] = {}
        for node in graph.walk():
            for name, body in node.bodies.items():
                self._add_body_sources(node, name, body)
        self._from_input: dict[int, bool] = {}
        self.indices = self._index_values(graph)

    def _add_body_sources(self, node: Node, name: str, body: Graph) -> None:
        """Record the values that each input of a body gets.

        It gets an operand of the node. A loop state also gets the result of the previous iteration.

        Arguments:
            node: the node that has the body.
            name: the name of the body, such as "cond".
            body: the graph of the body.
        """
        states = {ops.scan: node.bodies.get("body"), ops.while_: node.bodies.get("body")}
        loop_body = states.get(node.op)
        carried = node.params.get("num_carry", len(body.inputs))
        for i, inner in enumerate(body.inputs):
            self._body_sources[id(inner)] = [node.inputs[i]] if i < len(node.inputs) else []
            if loop_body is not None and i < carried:
                self._body_sources[id(inner)].append(loop_body.outputs[i])

    def sources(self, value: Value) -> list[Value]:
        """Return the values that a value is directly computed from.

        For a result of a node without bodies, these are its operands. For an input of a body, they
        are the operand and the loop state that it gets. For a result of a loop, they are its
        initial value, the result of the body and the condition. For a result of a conditional, they
        are the index and the results of the branches. The list is empty for inputs of the graph,
        parameters and constants.
        """
        node = value.node
        if node is None:
            return self._body_sources.get(id(value), [])
        if not node.bodies:
            return node.inputs
        results = [body.outputs for name, body in node.bodies.items() if name != "cond"]
        inner = [outputs[value.index] for outputs in results]
        tests = [node.bodies["cond"].outputs[0]] if node.op is ops.while_ else []
        outer = (
            node.inputs[:1] if node.op is ops.cond else node.inputs[value.index : value.index + 1]
        )
        return [*outer, *inner, *tests]

    def closure(self, value: Value, follow: Callable[[Value], bool]) -> Iterator[Value]:
        """Yield a value and all values that it is computed from, each once.

        The search continues at the sources of a value only if ``follow`` returns True for the
        value.
        """
        visited, stack = set[int](), [value]
        while stack:
            current = stack.pop()
            if id(current) not in visited:
                visited.add(id(current))
                yield current
                stack += self.sources(current) if follow(current) else []

    def depends_on_input(self, value: Value) -> bool:
        """Return True if a value depends on an input of the graph, and not only on parameters and
        constants."""
        if id(value) not in self._from_input:
            is_dependent = any(id(v) in self._inputs for v in self.closure(value, lambda v: True))
            self._from_input[id(value)] = is_dependent
        return self._from_input[id(value)]

    def _index_values(self, graph: Graph) -> set[int]:
        """Return the ids of all index operands and of the integers that they are computed from.

        Only integer operations are followed.
        """
        index_values = set[int]()
        for node in graph.walk():
            for index in _index_operands(node):
                index_values |= {id(v) for v in self.closure(index, _is_integer) if _is_integer(v)}
        return index_values


def _is_integer(value: Value) -> bool:
    return value.dtype.kind in "iu"


def _index_operands(node: Node) -> Sequence[Value]:
    """Return the operands of a node that are indices into another operand or select a branch.

    Nodes of other operations have none.
    """
    if node.op in VECTOR_INDEXED_OPS:
        return node.inputs[1:2]
    if node.op is ops.cond:
        return node.inputs[:1]
    first = {ops.dynamic_slice: 1, ops.dynamic_update_slice: 2}.get(node.op)
    return node.inputs[first:] if first else ()


# -------------------------------------------------------------------------------- kinds of sides


@dataclass(frozen=True)
class SideKind:
    """Definition of the sides of an operation, such as the branches of a conditional.

    Arguments:
        texts: returns for each side the sentence that reports it as not taken, with ``{line}`` in
            place of the source line.
        possible: returns for each side whether the ranges of the operands allow it.
        taken: returns a Boolean for each side, from the node, the arrays of its operands, the
            number of loop iterations and the sizes of named dimensions.
        applies: returns whether a node of this operation is observed.
        min_sides: number of possible sides from which on a node is observed.
    """

    texts: Callable[[Node], Sequence[str]]
    possible: Callable[[Node], Sequence[bool]]
    taken: Callable[[Node, Sequence[Any], Any, named_sizes.Sizes], Flags]
    applies: Callable[[Node, Flow], bool]
    min_sides: int = 2


def _branch_texts(node: Node) -> list[str]:
    """Return for each branch of a conditional the sentence that no sample ran it.

    A conditional on a Boolean has a false and a true branch. The branches of others are numbered.
    ``{line}`` stands for the source line.
    """
    count = len(node.bodies)
    conversion = node.inputs[0].producer_if(ops.convert_element_type)
    if count == 2 and conversion is not None and conversion.inputs[0].dtype == np.bool_:
        return [
            f"the {truth} branch of the cond at {{line}} did not run" for truth in ("false", "true")
        ]
    return [
        f"branch {i + 1} of {count} of the switch at {{line}} did not run" for i in range(count)
    ]


def _possible_branches(node: Node) -> list[bool]:
    """Return for each branch of a conditional whether the range of the index allows it."""
    bounds, last = _index_range(node.inputs[0]), len(node.bodies) - 1
    low, high = (min(max(end, 0), last) for end in (bounds.low, bounds.high))
    return [low <= i <= high for i in range(last + 1)]


def _taken_branches(node: Node, inputs: Sequence[Any], _iterations: Any, _sizes: Any) -> Flags:
    """Return for each branch whether it is the one that runs; ``inputs[0]`` is the index."""
    index = np.clip(inputs[0], 0, len(node.bodies) - 1)
    return [index == i for i in range(len(node.bodies))]


LOOP_TEXTS = (
    "the loop at {line} was never left before its first turn",
    "the loop at {line} never took exactly one turn",
    "the loop at {line} never took more than one turn",
)


def _index_depends_on_input(node: Node, flow: Flow) -> bool:
    """Return True if the first operand of a node, such as the index of a conditional, depends on an
    input of the graph."""
    return flow.depends_on_input(node.inputs[0])


def _condition_depends_on_input(node: Node, flow: Flow) -> bool:
    """Return True if the condition of a while loop depends on an input of the graph."""
    return flow.depends_on_input(node.bodies["cond"].outputs[0])


def _is_index(node: Node, flow: Flow) -> bool:
    """Return True if an index is computed from the integer result of a node, and this result
    depends on an input of the graph."""
    return id(node.out) in flow.indices and flow.depends_on_input(node.out)


def _choice_texts(node: Node) -> list[str]:
    """Return for each operand of ``select_n`` the sentence that no sample selected it.

    ``{line}`` stands for the source line.
    """
    count = len(node.inputs) - 1
    return [
        f"choice {i + 1} of {count} of the index at {{line}} was not taken" for i in range(count)
    ]


def _possible_choices(node: Node) -> list[bool]:
    """Return for each operand of ``select_n`` whether the range of the selector allows it."""
    selector = node.inputs[0]
    count = len(node.inputs) - 1
    if selector.dtype != np.bool_:
        bounds = _index_range(selector)
        return [bounds.low <= i <= bounds.high for i in range(count)]
    truth = _known_truth(selector)
    return [truth in (None, False), truth in (None, True)]


def _index_range(value: Value) -> Range:
    """Return the known range of an index.

    The index is followed through operations that move, concatenate or sort numbers, and through
    selections whose condition has the same known result for all elements. The ranges of positions
    (``argmax``, ``argmin``, ``top_k``, ``iota``) are limited by the size of the axis. For all other
    values, the range is that of ``known_range``.
    """
    node = value.node
    if node is None:
        return known_range(value)
    if node.op.moves:
        return _index_range(node.inputs[0])
    if node.op is ops.concatenate:
        ranges = [_index_range(v) for v in node.inputs]
        return Range(min(r.low for r in ranges), max(r.high for r in ranges))
    if node.op in (ops.argmax, ops.argmin) or (node.op is ops.top_k and value.index == 1):
        return _position_range(node)
    if node.op is ops.sort:
        return _index_range(node.inputs[value.index])
    if node.op is ops.iota:
        return Range(0, known_range(value).high)
    if node.op is ops.select_n and len(node.inputs) == 3:
        truth = _known_truth(node.inputs[0])
        if truth is not None:
            return _index_range(node.inputs[1 + truth])
    return known_range(value)


def _position_range(node: Node) -> Range:
    """Return the range of the positions that ``argmax``, ``argmin`` or ``top_k`` can return.

    It has no upper limit if the axis has a named size.
    """
    axis = node.params["axis"] if node.op is ops.top_k else node.params["axes"][0]
    size = node.inputs[0].shape[axis]
    return Range(0, max(size - 1, 0) if dims.is_static(size) else math.inf)


def _known_truth(value: Value) -> bool | None:
    """Return the result that a comparison has for all elements.

    None if ``value`` is no comparison by order, if the ranges of the operands do not determine the
    result, or if an operand may be NaN.
    """
    node = value.producer_if(ops.lt, ops.le, ops.gt, ops.ge)
    if node is None:
        return None
    a, b = (_index_range(v) for v in node.inputs)
    if a.nan or b.nan:
        return None
    if node.op in (ops.gt, ops.ge):
        a, b = b, a
    strict = node.op in (ops.lt, ops.gt)
    if a.high < b.low or (not strict and a.high == b.low):
        return True
    return False if b.high < a.low or (strict and b.high == a.low) else None


def _taken_choices(node: Node, inputs: Sequence[Any], _iterations: Any, _sizes: Any) -> Flags:
    """Return for each operand of ``select_n`` whether it is selected for any element; ``inputs[0]``
    is the selector."""
    selector = inputs[0].astype(np.int32)
    return [(selector == i).any() for i in range(len(inputs) - 1)]


CLAMP_TEXTS = (
    "no index of the clamp at {line} was below its range",
    "no index of the clamp at {line} was within its range",
    "no index of the clamp at {line} was above its range",
)


def _possible_clamps(node: Node) -> list[bool]:
    """Return whether the operand of a clamp can be below, within and above its bounds."""
    low, x, high = (_index_range(v) for v in node.inputs)
    return [x.low < low.high, x.high >= low.low and x.low <= high.high, x.high > high.low]


def _taken_clamps(_node: Node, inputs: Sequence[Any], _iterations: Any, _sizes: Any) -> Flags:
    """Return whether any element of the operand of a clamp is below, within and above its
    bounds."""
    low, x, high = inputs
    return [(x < low).any(), ((low <= x) & (x <= high)).any(), (x > high).any()]


EXTREME_TEXTS = (
    "the first operand of the maximum or minimum of indices at {line} was never the larger",
    "the second operand of the maximum or minimum of indices at {line} was never the larger",
)


def _possible_extremes(node: Node) -> list[bool]:
    """Return whether the first, and whether the second operand of a maximum or minimum can be the
    larger one."""
    x, y = (_index_range(v) for v in node.inputs)
    return [x.high > y.low, y.high > x.low]


def _taken_extremes(_node: Node, inputs: Sequence[Any], _iterations: Any, _sizes: Any) -> Flags:
    """Return whether the first, and whether the second operand is the larger one for any
    element."""
    x, y = inputs
    return [(x > y).any(), (y > x).any()]


BOUND_TEXTS = (
    "no index at {line} was before the start of its axis",
    "no index at {line} was behind the end of its axis",
)


def _index_limits(node: Node) -> tuple[list[Value], list[Dim]]:
    """Return the index operands of a node, and the largest valid index along each indexed axis.

    Gathers and scatters have one index operand: vectors with an element for each indexed axis.
    Dynamic slices and their updates have one operand for each axis. The largest valid index leaves
    room for the slice.
    """
    if node.op in VECTOR_INDEXED_OPS:
        return [node.inputs[1]], find_indexed_axes(node).limits
    first = 1 if node.op is ops.dynamic_slice else 2
    window = node.params["slice_sizes"] if first == 1 else node.inputs[1].shape
    sizes = zip(node.inputs[0].shape, window, strict=True)
    return list(node.inputs[first:]), [dims.as_dim(size - n) for size, n in sizes]


def _possible_bounds(node: Node) -> list[bool]:
    """Return whether an index of a node can be negative, and whether one can be above its largest
    valid value."""
    indices, limits = _index_limits(node)
    if node.op in VECTOR_INDEXED_OPS:
        parts = indices[0].producer_if(ops.concatenate)
        is_split = parts is not None and len(parts.inputs) == len(limits)
        indices = parts.inputs if parts is not None and is_split else indices * len(limits)
    pairs = [(_index_range(v), limit) for v, limit in zip(indices, limits, strict=True)]
    below = any(bounds.low < 0 for bounds, _ in pairs)
    return [below, any(not dims.is_static(n) or bounds.high > n for bounds, n in pairs)]


def _index_pairs(
    node: Node, inputs: Sequence[Any], sizes: named_sizes.Sizes
) -> Iterator[tuple[Any, Any]]:
    """Yield arrays of indices of a node, with the largest valid index of their axis.

    For a gather or scatter it is one pair: the index vectors, and an array with the largest valid
    index of each element of a vector. For dynamic slices it is a pair for each axis.

    Arguments:
        node: a node that indexes an operand.
        inputs: the arrays of its operands.
        sizes: sizes of the named dimensions.
    """
    values, limits = _index_limits(node)
    largest = [int(n) for n in dims.substitute_sizes(tuple(limits), sizes)]
    if node.op in VECTOR_INDEXED_OPS:
        yield inputs[1], np.array(largest)
        return
    yield from zip(inputs[len(inputs) - len(values) :], largest, strict=True)


def _taken_bounds(
    node: Node, inputs: Sequence[Any], _iterations: Any, sizes: named_sizes.Sizes
) -> Flags:
    """Return whether any index of a node is negative, and whether any is above its largest valid
    value."""
    pairs = list(_index_pairs(node, inputs, sizes))
    below = any((index < 0).any() for index, _ in pairs)
    return [below, any((index > largest).any() for index, largest in pairs)]


def is_within_bounds(node: Node, inputs: Sequence[Any], sizes: named_sizes.Sizes) -> bool:
    """Return True if all indices of a node are valid.

    Arguments:
        node: a node that indexes an operand.
        inputs: the arrays of its operands.
        sizes: sizes of the named dimensions.
    """
    return not any(_taken_bounds(node, inputs, None, sizes))


def promises_in_bounds(node: Node) -> bool:
    """Return True if a node is a gather or scatter with the mode ``promise_in_bounds``.

    The mode declares that all indices are within bounds.
    """
    if node.op not in VECTOR_INDEXED_OPS:
        return False
    mode = lax.GatherScatterMode.from_any(node.params["mode"])
    return mode == lax.GatherScatterMode.PROMISE_IN_BOUNDS


def _may_leave_bounds(node: Node, flow: Flow) -> bool:
    """Return True if an index of a node depends on an input of the graph and may be out of bounds.

    It may not if the node has the mode ``promise_in_bounds``.
    """
    indices = _index_operands(node)
    return not promises_in_bounds(node) and any(map(flow.depends_on_input, indices))


_LOOP = SideKind(
    lambda node: LOOP_TEXTS,
    lambda node: (True, True, True),
    lambda node, inputs, iterations, sizes: [iterations == 0, iterations == 1, iterations > 1],
    _condition_depends_on_input,
)
_INDEX_BOUNDS = SideKind(
    lambda node: BOUND_TEXTS, _possible_bounds, _taken_bounds, _may_leave_bounds, min_sides=1
)
_EXTREME = SideKind(lambda node: EXTREME_TEXTS, _possible_extremes, _taken_extremes, _is_index)

SIDE_KINDS: Mapping[Op, SideKind] = {
    ops.cond: SideKind(_branch_texts, _possible_branches, _taken_branches, _index_depends_on_input),
    ops.while_: _LOOP,
    ops.select_n: SideKind(_choice_texts, _possible_choices, _taken_choices, _is_index),
    ops.clamp: SideKind(lambda node: CLAMP_TEXTS, _possible_clamps, _taken_clamps, _is_index),
    **dict.fromkeys((ops.max, ops.min), _EXTREME),
    **dict.fromkeys(
        (ops.gather, ops.dynamic_slice, ops.dynamic_update_slice, *ops.SCATTERS), _INDEX_BOUNDS
    ),
}
"""The operations that have several sides, with the definition of these."""


def may_have_sides(graph: Graph) -> bool:
    """Return True if a converted graph has branches, loops or indices that the verification
    observes.

    ``take`` is included, because gathers are lowered to it.
    """
    return any(node.op in SIDE_KINDS or node.op is ops.take for node in graph.walk())
