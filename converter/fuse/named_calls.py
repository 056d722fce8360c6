"""Calls of JAX's functions that are kept as nodes with a name.

``jax.image.resize`` is traced as a call of a compiled function with the name ``_resize``, also
under ``vmap`` and with symbolic sizes. Such a call is kept as a node while the other calls are
inlined. A recogniser traces the function again with arguments that the call may have had, and
compares the two bodies step by step. Equality is the proof. If another version of JAX changes the
function or its name, the call is inlined: that costs a fusion, but no number changes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar

import jax

from converter.frontend.diagnostics import DIMENSION_ERRORS
from converter.frontend.trace import trace
from converter.fuse.match import peeled_view
from converter.ir import Node, Value, dims, ops
from converter.ir.dims import Shape
from converter.ir.equality import is_same_program
from converter.ir.rewrite import Editor

T = TypeVar("T")

CALLS = {"_resize": "resize", "_map_coordinates": "grid_sample"}
"""Structures, by the name of JAX's function whose calls they replace."""


def call_order(node: Node, function: Callable[..., Any]) -> tuple[int, ...] | None:
    """Return the order of the result's axes if a call of a named function computes ``function``.

    ``node`` is the call. ``function`` is traced for the shapes and dtypes of the call's operands.
    The trace must contain one call of a function of the same name, with the arguments of
    ``function`` as its operands, and may transpose its result. Axis i of the result of ``function``
    is axis ``order[i]`` of the first result of ``node``. Return None if the two calls are not the
    same program, or if JAX cannot trace ``function``.
    """
    specs = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in node.inputs]
    try:
        graph = trace(function, specs, kept_calls=frozenset({node.params["name"]}))
    except DIMENSION_ERRORS:
        # JAX raises an error for some arguments. The call cannot have had such arguments.
        return None
    calls = [n for n in graph.nodes if n.op is ops.named_call]
    if len(calls) != 1 or not _is_equal(node, calls[0]):
        return None
    if any(
        operand is not graph_input
        for operand, graph_input in zip(calls[0].inputs, graph.inputs, strict=True)
    ):
        return None
    view = peeled_view(graph.outputs[0])
    ones = iter(i for i in range(view.base.rank) if i not in view.axes)
    order = tuple(next(ones, None) if axis is None else axis for axis in view.axes)
    is_ordered = view.base is calls[0].out and view.has_full_axes and None not in order
    return tuple(axis for axis in order if axis is not None) if is_ordered else None


def _is_equal(call: Node, traced: Node) -> bool:
    """Return True if two calls compute their first results by the same program from their
    operands. Further results are not compared."""
    body, traced_body = call.bodies["call"], traced.bodies["call"]
    if not dims.is_same_shape(call.out.shape, traced.out.shape) or len(body.inputs) != len(
        traced_body.inputs
    ):
        return False
    return is_same_program(
        body.outputs[0], traced_body.outputs[0], zip(body.inputs, traced_body.inputs, strict=True)
    )


def call_results(node: Node, first: Value, editor: Editor) -> list[Value]:
    """Return all results of a call that a recogniser replaces.

    ``first`` replaces the first result. The other results are computed by the inlined body of the
    call.
    """
    other_results = editor.inline(node.bodies["call"], node.inputs)[1:] if node.outputs[1:] else []
    return [first, *other_results]


def inline_call(node: Node, editor: Editor) -> Sequence[Value]:
    """Emit the nodes of a call's body on the operands of the call, and return the body's results.

    This is the rule that inlines a call: the results replace those of the call.
    """
    return editor.inline(node.bodies["call"], node.inputs)


def vmap_axes(function: Callable[..., Any], axes: Sequence[Any]) -> Callable[..., Any]:
    """Return ``function`` under one ``vmap`` for each element of ``axes``, the outermost first.

    An element is the ``in_axes`` of one ``vmap``. If it is an integer, the result is batched along
    that axis too, otherwise along axis 0.
    """
    for axis in reversed(axes):
        function = jax.vmap(function, in_axes=axis, out_axes=axis if isinstance(axis, int) else 0)
    return function


Candidate: TypeAlias = tuple[T, Callable[..., Any]]
"""A possible meaning of a call, such as a method of resizing, and the function that it computes."""


@dataclass(frozen=True)
class MatchedCall(Generic[T]):
    """A call of a function of one operand, and the candidate that it computes.

    ``shape`` is the shape of the candidate's result under ``vmap``: the batch axes have the same
    positions as in the operand. ``order`` is the permutation from there to the result of the call:
    axis i of the call's result is axis ``order[i]`` of ``shape``.
    """

    candidate: T
    shape: Shape
    order: tuple[int, ...]


def find_call(
    node: Node, candidates: Callable[[Shape, Shape], Iterable[Candidate[T]]]
) -> MatchedCall[T] | None:
    """Return the first candidate that a call computes, under up to `MAX_BATCHES` nested ``vmap``.

    ``candidates(shape, result)`` yields the functions that are tried for an operand and a result of
    these shapes, without batch axes. Return None if the call has several operands, or if no
    candidate is the same program as the call for the first `MAX_TRIES` choices of batch axes.
    """
    (x, *other_inputs), result = node.inputs, node.out.shape
    if other_inputs:
        return None
    for axes, shape, inner in islice(_unbatched_shapes(x.shape, result), MAX_TRIES):
        for candidate, function in candidates(shape, inner):
            order = call_order(node, vmap_axes(function, axes))
            if order is not None:
                inverse = tuple(order.index(axis) for axis in range(len(order)))
                return MatchedCall(candidate, _insert_batch_axes(inner, x.shape, axes), inverse)
    return None


MAX_TRIES = 24
"""Number of possible batchings of a call that are compared."""

MAX_BATCHES = 3
"""Number of nested ``vmap`` around a function that are tried."""


def _unbatched_shapes(
    shape: Shape, result: Shape
) -> Iterator[tuple[tuple[int, ...], Shape, Shape]]:
    """Yield the possible batch axes of an operand, and the shapes of operand and result without
    them.

    The axes are in the order of nested ``vmap`` calls, the outermost first. The number of an axis
    counts only the axes that remain inside the outer ``vmap`` calls. Results with fewer batch axes
    are yielded first; the first one has none.
    """
    for count in range(MAX_BATCHES + 1):
        yield from dict.fromkeys(_remove_batch_axes(shape, result, count))


def _remove_batch_axes(
    shape: Shape, result: Shape, count: int
) -> Iterator[tuple[tuple[int, ...], Shape, Shape]]:
    """Yield ordered choices of ``count`` batch axes of an operand, and the shapes of operand and
    result without them.

    For each batch axis, an axis of the same size is removed from the result. The number of a batch
    axis counts only the axes that remain after the removal of the ones before it, as for nested
    ``vmap`` calls. The same choice may be yielded several times.

    Arguments:
        shape: the shape of the operand.
        result: the shape of the result.
        count: the number of batch axes.
    """
    if not count:
        yield (), shape, result
        return
    for axis, size in enumerate(shape):
        for result_axis, result_size in enumerate(result):
            if dims.is_same_dim(size, result_size):
                smaller = _drop_axis(shape, axis), _drop_axis(result, result_axis)
                for axes, inner, inner_result in _remove_batch_axes(*smaller, count - 1):
                    yield (axis, *axes), inner, inner_result


def _drop_axis(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


def _insert_batch_axes(inner: Shape, shape: Shape, axes: Sequence[int]) -> Shape:
    """Return the shape of a result with the batch axes of the operand, at the same positions.

    Arguments:
        inner: the shape of the result without batch axes.
        shape: the shape of the operand.
        axes: the batch axes of the operand, the outermost ``vmap`` first. The number of an axis
            counts only the axes that remain inside the outer ``vmap`` calls.
    """
    if not axes:
        return inner
    axis, *inner_axes = axes
    result = _insert_batch_axes(inner, _drop_axis(shape, axis), inner_axes)
    return (*result[:axis], shape[axis], *result[axis:])
