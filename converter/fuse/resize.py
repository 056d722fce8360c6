"""Calls of ``jax.image.resize`` as ONNX's ``Resize``, axis by axis.

``RESIZE_CALL`` matches a call on the traced graph: its method, axes and sizes.
``resize_recogniser`` then emits ``Resize`` for each axis if ONNX has the method and is no slower.
Otherwise it emits a gather of neighbours, or a product with the matrix of resampling weights that
JAX computes.

Parameters that are resized to a known size are left alone: they are a weight program, which is
computed when the file is saved.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import jax
import numpy as np

from converter.frontend.trace import source_line, trace
from converter.fuse.dependence import depends_on_parameters_only
from converter.fuse.match import MatchContext, NearMiss, Recogniser, base_permutation
from converter.fuse.named_calls import Candidate, call_results, find_call
from converter.fuse.patterns import pattern_graph
from converter.fuse.resampling import RESAMPLED_DTYPES, emit_resampling, match_resampling_matrix
from converter.ir import Graph, Node, Value, dims, formulas, ops
from converter.ir.axes import view_of
from converter.ir.dims import Dim, Shape
from converter.ir.formulas import ALIGNED, ResizeKind
from converter.ir.moves import view_of_operand
from converter.ir.rewrite import Editor

Kinds: TypeAlias = tuple[ResizeKind, ...]

# -------------------------------------------------------------------------------------- the call


METHODS = tuple(
    (method.name.lower().replace("_", "-"), antialias)
    for method in sorted(jax.image.ResizeMethod, key=lambda m: "LANCZOS" in m.name)
    for antialias in (True, False)
)
"""All methods of the installed JAX, with and without antialiasing, the most usual ones first."""


def _match_call(node: Node, editor: Editor, near_misses: list[NearMiss]) -> list[Value] | None:
    """Replace a call of ``_resize`` by ``image_resize`` and return the results of the call.

    Return None if the call is another function, or no method of JAX gives the same program.
    """
    is_tried = node.params["name"] == "_resize" and _may_resize(node)
    call = find_call(node, _candidates) if is_tried else None
    if call is None:
        return None
    x, (method, antialias) = node.inputs[0], call.candidate
    axes = tuple(i for i in range(x.rank) if not dims.is_same_dim(x.shape[i], call.shape[i]))
    sizes = tuple(call.shape[axis] for axis in axes)
    params = {"axes": axes, "sizes": sizes, "method": method, "antialias": antialias}
    resized = editor.add(ops.image_resize, [x], call.shape, node.out.dtype, params)
    return call_results(node, editor.transpose(resized, call.order), editor)


def _may_resize(node: Node) -> bool:
    """Return True if a call may be JAX's resize: it has one operand, which its body reads as JAX's
    resize does.

    Only conversions, transposes, contractions and gathers may read the operand. A user's function
    may have the same name as JAX's resize. For most of these functions this check avoids tracing
    JAX's resize for a comparison.
    """
    if len(node.inputs) != 1:
        return False
    body = node.bodies["call"]
    readers = {inner.op for inner in body.nodes if body.inputs[0] in inner.inputs}
    return readers <= {ops.convert_element_type, ops.transpose, ops.dot_general, ops.gather}


def _candidates(shape: Shape, result: Shape) -> Iterator[Candidate[ResizeKind]]:
    """Yield each method with a function that resizes an array from ``shape`` to ``result`` by it.

    Nothing is yielded if the shapes are equal.
    """
    if not dims.is_same_shape(shape, result):
        for method, antialias in METHODS:
            function = partial(_resize, shape=result, method=method, antialias=antialias)
            yield (method, antialias), function


def _resize(x: jax.Array, *, shape: Shape, method: str, antialias: bool) -> jax.Array:
    return jax.image.resize(x, shape, method, antialias)


RESIZE_CALL = Recogniser((ops.named_call,), _match_call)

# ---------------------------------------------------------------------------------- the operator


@dataclass(frozen=True)
class ResizeSupport:
    """A method of ``Resize`` that equals JAX's and that ONNX has from opset ``since`` on.

    With ``up_only`` it is used only to enlarge.
    """

    kind: ResizeKind
    since: int
    up_only: bool = False


# The first method that matches is used. The cubic method always has antialiasing, which does not
# change the result when an image is enlarged. Without antialiasing it took 10 to 100 times as long
# in measurements, which is slower than matrix products. With antialiasing, JAX's ``cubic-pytorch``
# is the same as its ``cubic``.
RESIZE_SUPPORT = (
    ResizeSupport(("linear", False), 17),
    ResizeSupport(("linear", True), 18),
    ResizeSupport(ALIGNED, 17),
    ResizeSupport(("cubic", True), 18),
    ResizeSupport(("cubic-pytorch", False), 18, up_only=True),
)
NEAREST: ResizeKind = ("nearest", False)
MAX_AXES = {"linear": 3, ALIGNED[0]: 3, "cubic": 2, "cubic-pytorch": 2, "nearest": 3}


def resize_recogniser(opset: int, strict: bool) -> Recogniser:
    """Return the recogniser that lowers ``image_resize`` for an opset; antialiasing needs opset 18.

    Each ``image_resize`` is replaced. Axes that Resize cannot compute are gathered or multiplied,
    and the reason is added as a near miss. Parameters of known size are resized as JAX does.

    With ``strict``, Resize is used for nearest neighbours only. The zeros among the weights of
    other methods turn infinities to NaN in JAX's products, but not in Resize.
    """

    def match(node: Node, editor: Editor, near_misses: list[NearMiss]) -> Value | None:
        known_size = dims.all_static((*node.inputs[0].shape, *node.out.shape))
        is_nearest = node.params["method"] == NEAREST[0]
        if (known_size and depends_on_parameters_only(node.inputs[0])) or (
            strict and not is_nearest
        ):
            return _emit_jax_resize(node, node.inputs[0], editor)
        if is_nearest:
            kinds = _nearest_kinds(node, editor)
        elif node.out.dtype.name in RESAMPLED_DTYPES:
            kinds = {axis: _supported_kinds(node, axis, opset) for axis in node.params["axes"]}
        else:
            return _emit_jax_resize(node, node.inputs[0], editor)
        line = source_line(node)
        near_misses += [
            NearMiss("Resize", reason, line) for reason in kinds.values() if isinstance(reason, str)
        ]
        return _emit_resizes(node, kinds, editor)

    return Recogniser((ops.image_resize,), match)


def _supported_kinds(node: Node, axis: int, opset: int) -> Kinds | str:
    """Return the kinds of ``Resize`` that equal JAX's resize along one axis at this opset.

    A kind is a method with or without antialiasing. If there is none, return the reason for the
    report as a text.
    """
    size, count = node.inputs[0].shape[axis], node.out.shape[axis]
    method, antialias = node.params["method"], node.params["antialias"]
    if method == "cubic-pytorch" and antialias:
        method = "cubic"
    both_static = dims.all_static((size, count))
    up = count >= size if both_static else dims.divide_exactly(count, size) is not None
    rows = [
        row
        for row in RESIZE_SUPPORT
        if row.kind[0] == method and (up or (row.kind[1] == antialias and not row.up_only))
    ]
    allowed = tuple(row.kind for row in rows if row.since <= opset)
    return allowed or _explain_unsupported(f"{size} to {count}", rows, method)


def _explain_unsupported(sizes: str, rows: list[ResizeSupport], method: str) -> str:
    """Return the reason why no kind of ``Resize`` can be used, for the report.

    ``sizes`` contains the two sizes of the axis as text. ``rows`` are the kinds that could be used
    at a higher opset; the list may be empty.
    """
    if rows:
        return f"{sizes}: antialias needs opset {min(row.since for row in rows)}"
    if method.startswith("cubic"):
        return f"{sizes}: the operator's cubic without antialias is slower than products"
    return f"{sizes}: the weights are not those of a kernel that ONNX has"


def _nearest_kinds(node: Node, context: MatchContext) -> dict[int, Kinds | str | None]:
    """Return for each resized axis how a nearest-neighbour resize is emitted.

    - A tuple of kinds stands for ``Resize``.
    - A text stands for a gather. It is the reason, for the report, why ``Resize`` is not used.
    - None stands for a gather or slice that needs no reason: the entries are at equal steps, or the
      runtime has no Resize of this dtype.
    """
    x = node.inputs[0]
    kinds: dict[int, Kinds | str | None] = {}
    for axis in node.params["axes"]:
        size, count = x.shape[axis], node.out.shape[axis]
        kinds[axis] = None
        if not context.has_operator("Resize", x.dtype) or _is_slice(size, count):
            continue
        reason = f"{size} to {count}: the operator's rounding need not find the same neighbours"
        kinds[axis] = (NEAREST,) if _is_exact(size, count) else reason
    return kinds


def _is_slice(size: Dim, count: Dim) -> bool:
    """Return True if a nearest resize from ``size`` to ``count`` elements selects entries at equal
    steps, which a slice returns.

    Return True also if ``size`` is one. Return False for named sizes.
    """
    if not dims.all_static((size, count)):
        return False
    steps = np.diff((2 * np.arange(count) + 1) * size // (2 * count))
    return size == 1 or bool((steps == steps[:1]).all() and steps[:1].all())


def _is_exact(size: Dim, count: Dim) -> bool:
    """Return True if runtimes and JAX select the same entries in a nearest resize from ``size`` to
    ``count`` elements.

    Runtimes compute positions in ``float32``. The position is ``(i + 0.5) / scale - 0.5``, with
    halves rounded up. With size / count = p / q in lowest terms, there are exact halves if p is
    even. They are right if the scale q / p is exact, which it is for powers of two. All other
    positions are at least 1 / (2 q) away from a half. That has to exceed the rounding error of a
    position of the image's size.
    """
    up, down = dims.divide_exactly(count, size), dims.divide_exactly(size, count)
    if dims.all_static((size, count)):
        common = math.gcd(size, count)
        p, q = size // common, count // common
        if q * size >= 1 << 21:
            return False
    elif dims.is_static(up) or dims.is_static(down):
        p, q = (1, up) if dims.is_static(up) else (down, 1)
    else:
        return False
    return p % 2 == 1 or p & (p - 1) == 0


# ------------------------------------------------------------------------------------ the writing


def _emit_resizes(
    node: Node, kinds_by_axis: dict[int, Kinds | str | None], editor: Editor
) -> Value:
    """Emit ``Resize`` for the axes with a tuple of kinds, in as few nodes as possible.

    The other axes are resized by gathers or by products with JAX's weights. Transposes of the
    operand are moved after the resizes.
    """
    x, order = _skip_transposes(editor.convert(node.inputs[0], node.out.dtype), editor)
    sizes = {order[axis]: node.out.shape[axis] for axis in node.params["axes"]}
    kinds = {
        order[axis]: axis_kinds
        for axis, axis_kinds in kinds_by_axis.items()
        if isinstance(axis_kinds, tuple)
    }
    for axes, shared in _group_axes(kinds):
        x = emit_resize(x, {axis: sizes[axis] for axis in axes}, shared, editor)
    for axis in sorted(sizes.keys() - kinds.keys()):
        if node.params["method"] == NEAREST[0]:
            x = _emit_jax_resize(node, x, editor, {axis: sizes[axis]})
        else:
            x = _emit_product(node, x, axis, sizes[axis], editor)
    return editor.transpose(x, order)


def _group_axes(kinds: dict[int, Kinds]) -> Iterator[tuple[list[int], Kinds]]:
    """Yield groups of axes that one ``Resize`` can resize, with the kinds that all of them share.

    The axes are taken in ascending order. Other axes may lie between those of a group.
    """
    axes: list[int] = []
    shared: Kinds = ()
    for axis, axis_kinds in sorted(kinds.items()):
        common = tuple(kind for kind in shared if kind in axis_kinds)
        if axes and (not common or len(axes) == MAX_AXES[common[0][0]]):
            yield axes, shared
            axes, common = [], ()
        axes, shared = [*axes, axis], common or axis_kinds
    if axes:
        yield axes, shared


def emit_resize(x: Value, sizes: dict[int, Dim], kinds: Kinds, editor: Editor) -> Value:
    """Emit one ``Resize`` of a value. ``sizes`` contains the new size of each resized axis.

    ``kinds`` are the equivalent methods of which the target chooses one.
    """
    axes = tuple(sorted(sizes))
    shape = tuple(sizes.get(i, d) for i, d in enumerate(x.shape))
    params = {"axes": axes, "sizes": tuple(sizes[axis] for axis in axes), "kinds": kinds}
    return editor.add(ops.resize, [x], shape, x.dtype, params)


def _emit_jax_resize(
    node: Node, x: Value, editor: Editor, sizes: dict[int, Dim] | None = None
) -> Value:
    """Emit the nodes of JAX's own resize of ``x`` with the method of ``node``.

    ``sizes`` contains the new sizes by axis. By default they are the sizes of ``node``.
    """
    if sizes is None:
        sizes = {axis: node.out.shape[axis] for axis in node.params["axes"]}
    options = {**node.params, "axes": tuple(sizes), "sizes": tuple(sizes.values())}
    spec = jax.ShapeDtypeStruct(x.shape, x.dtype)
    (resized,) = editor.inline(trace(partial(formulas.image_resize, **options), [spec]), [x])
    return resized


def _emit_product(node: Node, x: Value, axis: int, count: Dim, editor: Editor) -> Value:
    """Emit the contraction of one axis with the matrix of weights that JAX computes for the method.

    ``count`` is the new size of the axis.
    """
    options = {"method": node.params["method"], "antialias": node.params["antialias"]}
    function = partial(_resize, shape=(count,), **options)
    graph = pattern_graph(function, [jax.ShapeDtypeStruct((x.shape[axis],), x.dtype)])
    (product,) = (n for n in graph.nodes if n.op is ops.einsum)
    side = int(product.inputs[0] is graph.inputs[0])
    matrix, _ = match_resampling_matrix(product, side) or (None, None)
    assert matrix is not None, product
    nodes = [n for n in graph.nodes if n is not product]
    (weights,) = editor.inline(Graph([], [matrix.value], nodes), [])
    return emit_resampling(x, axis, replace(matrix, value=weights).with_constant_weights(), editor)


def _skip_transposes(x: Value, context: MatchContext) -> tuple[Value, list[int]]:
    """Return the value before the transposes of ``x`` that nothing else reads, and a permutation.

    Axis i of ``x`` is axis ``permutation[i]`` of that value. Reshapes that only move axes of size
    one count as transposes.
    """
    order = list(range(x.rank))
    while (
        x.node is not None and x.node.op in (ops.transpose, ops.reshape) and context.single_use(x)
    ):
        view = view_of_operand(view_of(x))
        axis_order = (
            base_permutation(view, x.shape) if view is not None and view.has_full_axes else None
        )
        if view is None or axis_order is None:
            break
        order, x = [axis_order[i] for i in order], view.base
    return x, order
