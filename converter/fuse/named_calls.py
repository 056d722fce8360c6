"""Calls of functions that JAX hands over by name.

``jax.image.resize`` is a call of a compiled function with the name ``_resize`` in what JAX traces,
under ``vmap`` and with symbolic sizes too. Such a call stays a node while its jaxpr is inlined. A
recogniser traces the function again with arguments that the call may have had, and compares the
body of the call with what JAX gives, step by step. Equality is the proof. If another version of JAX
changes the function or its name, that costs a fusion and never a number: the call is inlined.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar

import jax

from converter.frontend.diagnostics import RAISED
from converter.frontend.trace import trace
from converter.fuse.match import whole
from converter.ir import Node, Value, dims, ops
from converter.ir.dims import Shape
from converter.ir.equality import is_same_program
from converter.ir.rewrite import Editor

T = TypeVar("T")

CALLS = {"_resize": "resize", "_map_coordinates": "grid_sample"}
"""Structures by the name of the function of JAX that they are calls of."""


def call_order(node: Node, function: Callable[..., Any]) -> tuple[int, ...] | None:
    """Return how a call is ordered that computes ``function`` of its operands, None if it does not.

    Axis i of what ``function`` gives is axis ``order[i]`` of the first result of the call.
    ``function`` has to call the named function once, with its own operands.
    """
    specs = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in node.inputs]
    try:
        graph = trace(function, specs, calls=frozenset({node.params["name"]}))
    except RAISED:  # JAX refuses some arguments that the call did not have
        return None
    calls = [n for n in graph.nodes if n.op is ops.named_call]
    if len(calls) != 1 or not _is_equal(node, calls[0]):
        return None
    if any(own is not given for own, given in zip(calls[0].inputs, graph.inputs, strict=True)):
        return None
    seen = whole(graph.outputs[0])
    ones = iter(i for i in range(seen.base.rank) if i not in seen.axes)
    order = tuple(next(ones, None) if axis is None else axis for axis in seen.axes)
    is_ordered = seen.base is calls[0].out and seen.is_whole and None not in order
    return tuple(axis for axis in order if axis is not None) if is_ordered else None


def _is_equal(call: Node, traced: Node) -> bool:
    """Whether the first results of two calls are computed alike from their operands."""
    own, other = call.bodies["call"], traced.bodies["call"]
    if not dims.same_shape(call.out.shape, traced.out.shape) or len(own.inputs) != len(
        other.inputs
    ):
        return False
    return is_same_program(
        own.outputs[0], other.outputs[0], zip(own.inputs, other.inputs, strict=True)
    )


def call_results(node: Node, first: Value, editor: Editor) -> list[Value]:
    """Return the results of a call of which the first is known; others are those of its body."""
    others = editor.inline(node.bodies["call"], node.inputs)[1:] if node.outputs[1:] else []
    return [first, *others]


def inlined(node: Node, editor: Editor) -> Sequence[Value]:
    """Replace a call by its body."""
    return editor.inline(node.bodies["call"], node.inputs)


def mapped(function: Callable[..., Any], axes: Sequence[Any]) -> Callable[..., Any]:
    """Return ``function`` under one ``vmap`` for each of ``axes``, the outermost first."""
    for axis in reversed(axes):
        function = jax.vmap(function, in_axes=axis, out_axes=axis if isinstance(axis, int) else 0)
    return function


Candidate: TypeAlias = tuple[T, Callable[..., Any]]
"""What a call may be, and the function that it then computes of its operand."""


@dataclass(frozen=True)
class FoundCall(Generic[T]):
    """A call of one operand that was found to be a candidate.

    ``shape`` is that of the result with its batched axes where the operand has them, and ``order``
    are these axes in the order of the call's own result.
    """

    found: T
    shape: Shape
    order: tuple[int, ...]


def find_call(
    node: Node, candidates: Callable[[Shape, Shape], Iterable[Candidate[T]]]
) -> FoundCall[T] | None:
    """Return which of the candidates a call is, under any ``vmap``, None if it is none.

    ``candidates`` are asked for the shape of the operand and of the result without their batches.
    """
    (x, *others), result = node.inputs, node.out.shape
    if others:
        return None
    for axes, shape, inner in islice(_unbatched_shapes(x.shape, result), MOST_TRIES):
        for found, function in candidates(shape, inner):
            order = call_order(node, mapped(function, axes))
            if order is not None:
                inverse = tuple(order.index(axis) for axis in range(len(order)))
                return FoundCall(found, _batched(inner, x.shape, axes), inverse)
    return None


MOST_TRIES = 24
"""Ways in which a call may have been batched that are compared with it."""

MOST_BATCHES = 3
"""Calls of ``vmap`` around a function that are looked for."""


def _unbatched_shapes(
    shape: Shape, result: Shape
) -> Iterator[tuple[tuple[int, ...], Shape, Shape]]:
    """Yield the axes of an operand that ``vmap`` may have batched, the outermost first, each among
    those that are left, and the shapes of operand and result without them; fewer axes first."""
    for count in range(MOST_BATCHES + 1):
        yield from dict.fromkeys(_unbatched(shape, result, count))


def _unbatched(
    shape: Shape, result: Shape, count: int
) -> Iterator[tuple[tuple[int, ...], Shape, Shape]]:
    if not count:
        yield (), shape, result
        return
    for axis, size in enumerate(shape):
        for place, made in enumerate(result):
            if dims.same(size, made):
                rest = _without(shape, axis), _without(result, place)
                for axes, inner, left in _unbatched(*rest, count - 1):
                    yield (axis, *axes), inner, left


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


def _batched(inner: Shape, shape: Shape, axes: Sequence[int]) -> Shape:
    """The shape of an unbatched result with the batched axes where the operand has them."""
    if not axes:
        return inner
    axis, *rest = axes
    result = _batched(inner, _without(shape, axis), rest)
    return (*result[:axis], shape[axis], *result[axis:])
