"""Calls of ``jax.image.resize`` as ONNX's ``Resize``, axis by axis.

A call is named first (``RESIZE_CALL``, on the graph as it was traced): its method, axes and sizes.
``resize_recogniser`` then writes each axis as the operator where ONNX has the method and it is no
slower, else as a gather of neighbours or as a product with the matrix of resampling weights that
JAX itself computes.

Parameters resized to a known size stay what they are: a weight program, computed as the file is
saved.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import jax
import numpy as np

from converter.frontend.trace import source_line, trace
from converter.fuse.dependence import is_weight
from converter.fuse.match import NearMiss, Recogniser, Uses, base_permutation
from converter.fuse.named_calls import Candidate, call_results, find_call
from converter.fuse.patterns import pattern_graph
from converter.fuse.resampling import RESAMPLED_DTYPES, emit_resampling, match_resampling_matrix
from converter.ir import Graph, Node, Value, dims, formulas, ops
from converter.ir.axes import along
from converter.ir.dims import Dim, Shape
from converter.ir.formulas import ALIGNED, ResizeKind
from converter.ir.moves import above
from converter.ir.rewrite import Editor

Kinds: TypeAlias = tuple[ResizeKind, ...]

# -------------------------------------------------------------------------------------- the call


METHODS = tuple(
    (method.name.lower().replace("_", "-"), antialias)
    for method in sorted(jax.image.ResizeMethod, key=lambda m: "LANCZOS" in m.name)
    for antialias in (True, False)
)
"""All methods of the installed JAX, with and without antialiasing, the usual ones first."""


def _name_call(node: Node, editor: Editor, notes: list[NearMiss]) -> list[Value] | None:
    is_tried = node.params["name"] == "_resize" and _may_resize(node)
    call = find_call(node, _candidates) if is_tried else None
    if call is None:
        return None
    x, (method, antialias) = node.inputs[0], call.candidate
    axes = tuple(i for i in range(x.rank) if not dims.same(x.shape[i], call.shape[i]))
    sizes = tuple(call.shape[axis] for axis in axes)
    params = {"axes": axes, "sizes": sizes, "method": method, "antialias": antialias}
    made = editor.add(ops.image_resize, [x], call.shape, node.out.dtype, params)
    return call_results(node, editor.transpose(made, call.order), editor)


def _may_resize(node: Node) -> bool:
    """Whether a call only moves, contracts and gathers from its operand, as JAX's does: functions
    of users may have the name too."""
    body = node.bodies["call"]
    reading = {inner.op for inner in body.nodes if body.inputs[0] in inner.inputs}
    return reading <= {ops.convert_element_type, ops.transpose, ops.dot_general, ops.gather}


def _candidates(shape: Shape, result: Shape) -> Iterator[Candidate[ResizeKind]]:
    """Yield the methods with the functions that resize to this shape."""
    if not dims.same_shape(shape, result):
        for method, antialias in METHODS:
            function = partial(_resized, shape=result, method=method, antialias=antialias)
            yield (method, antialias), function


def _resized(x: jax.Array, *, shape: Shape, method: str, antialias: bool) -> jax.Array:
    return jax.image.resize(x, shape, method, antialias)


RESIZE_CALL = Recogniser((ops.named_call,), _name_call)

# ---------------------------------------------------------------------------------- the operator


@dataclass(frozen=True)
class ResizeSupport:
    """Forms of ``Resize`` from an opset on; some of them are only worth it for enlarging."""

    kind: ResizeKind
    since: int
    up_only: bool = False


# The first that fits is taken. Cubic always antialiases, which changes nothing when enlarging:
# without, it was measured to take 10 to 100 times as long, longer than products. With antialiasing
# JAX's ``cubic-pytorch`` is its ``cubic``.
RESIZE_SUPPORT = (
    ResizeSupport(("linear", False), 17),
    ResizeSupport(("linear", True), 18),
    ResizeSupport(ALIGNED, 17),
    ResizeSupport(("cubic", True), 18),
    ResizeSupport(("cubic-pytorch", False), 18, up_only=True),
)
NEAREST: ResizeKind = ("nearest", False)
MOST_AXES = {"linear": 3, ALIGNED[0]: 3, "cubic": 2, "cubic-pytorch": 2, "nearest": 3}


def resize_recogniser(opset: int, strict: bool) -> Recogniser:
    """The recogniser for an opset: ``antialias`` came with 18.

    ``strict`` leaves products with weights as they are: zeros among those make NaN of infinities.
    """

    def match(node: Node, editor: Editor, notes: list[NearMiss]) -> Value | None:
        known_size = dims.all_static((*node.inputs[0].shape, *node.out.shape))
        is_nearest = node.params["method"] == NEAREST[0]
        if (known_size and is_weight(node.inputs[0])) or (strict and not is_nearest):
            return _as_jax(node, node.inputs[0], editor)
        if is_nearest:
            fits = _nearest_fits(node, editor)
        elif node.out.dtype.name in RESAMPLED_DTYPES:
            fits = {axis: _fit(node, axis, opset) for axis in node.params["axes"]}
        else:
            return _as_jax(node, node.inputs[0], editor)
        line = source_line(node)
        notes += [NearMiss("Resize", fit, line) for fit in fits.values() if isinstance(fit, str)]
        return _write(node, fits, editor)

    return Recogniser((ops.image_resize,), match)


def _fit(node: Node, axis: int, opset: int) -> Kinds | str:
    """The kinds of ``Resize`` that do what JAX does along an axis, or why there is none."""
    size, count = node.inputs[0].shape[axis], node.out.shape[axis]
    method, antialias = node.params["method"], node.params["antialias"]
    if method == "cubic-pytorch" and antialias:
        method = "cubic"
    both_static = dims.all_static((size, count))
    up = count >= size if both_static else dims.exact_quotient(size, count) is not None
    rows = [
        row
        for row in RESIZE_SUPPORT
        if row.kind[0] == method and (up or (row.kind[1] == antialias and not row.up_only))
    ]
    allowed = tuple(row.kind for row in rows if row.since <= opset)
    return allowed or _reason(f"{size} to {count}", rows, method)


def _reason(sizes: str, rows: list[ResizeSupport], method: str) -> str:
    if rows:
        return f"{sizes}: antialias needs opset {min(row.since for row in rows)}"
    if method.startswith("cubic"):
        return f"{sizes}: the operator's cubic without antialias is slower than products"
    return f"{sizes}: the weights are not those of a kernel that ONNX has"


def _nearest_fits(node: Node, uses: Uses) -> dict[int, Kinds | str | None]:
    """For each axis the kind of ``Resize``, why it is none, or None for what is better gathered."""
    x = node.inputs[0]
    fits: dict[int, Kinds | str | None] = {}
    for axis in node.params["axes"]:
        size, count = x.shape[axis], node.out.shape[axis]
        fits[axis] = None
        if not uses.takes("Resize", x.dtype) or _is_slice(size, count):
            continue
        reason = f"{size} to {count}: the operator's rounding need not find the same neighbours"
        fits[axis] = (NEAREST,) if _is_exact(size, count) else reason
    return fits


def _is_slice(size: Dim, count: Dim) -> bool:
    """Whether the nearest neighbours are entries in equal steps, which a slice gives."""
    if not dims.all_static((size, count)):
        return False
    steps = np.diff((2 * np.arange(count) + 1) * size // (2 * count))
    return size == 1 or bool((steps == steps[:1]).all() and steps[:1].all())


def _is_exact(size: Dim, count: Dim) -> bool:
    """ONNX's position in ``float32`` rounds to the right neighbour, whoever computes it.

    It is ``(i + 0.5) / scale - 0.5``, halves rounded up. With size / count = p / q in lowest terms
    there are exact halves where p is even, and these are right where the scale q / p is exact, for
    powers of two. All others are at least 1 / (2 q) away from a half, to be compared with the
    rounding of a position of the image's size.
    """
    up, down = dims.exact_quotient(size, count), dims.exact_quotient(count, size)
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


def _write(node: Node, fits: dict[int, Kinds | str | None], editor: Editor) -> Value:
    """The axes that ``Resize`` has, in as few nodes as can be, and the others."""
    x, order = _beneath(editor.convert(node.inputs[0], node.out.dtype), editor)
    sizes = {order[axis]: node.out.shape[axis] for axis in node.params["axes"]}
    kinds = {order[axis]: fit for axis, fit in fits.items() if isinstance(fit, tuple)}
    for axes, shared in _groups(kinds):
        x = emit_resize(x, {axis: sizes[axis] for axis in axes}, shared, editor)
    for axis in sorted(sizes.keys() - kinds.keys()):
        if node.params["method"] == NEAREST[0]:
            x = _as_jax(node, x, editor, {axis: sizes[axis]})
        else:
            x = _product(node, x, axis, sizes[axis], editor)
    return editor.transpose(x, order)


def _groups(kinds: dict[int, Kinds]) -> Iterator[tuple[list[int], Kinds]]:
    """Axes that one node resizes, and the kinds that all of them have."""
    axes: list[int] = []
    shared: Kinds = ()
    for axis, own in sorted(kinds.items()):
        both = tuple(kind for kind in shared if kind in own)
        if axes and (not both or len(axes) == MOST_AXES[both[0][0]]):
            yield axes, shared
            axes, both = [], ()
        axes, shared = [*axes, axis], both or own
    if axes:
        yield axes, shared


def emit_resize(x: Value, sizes: dict[int, Dim], kinds: Kinds, editor: Editor) -> Value:
    """``Resize`` of some axes of a value."""
    axes = tuple(sorted(sizes))
    shape = tuple(sizes.get(i, d) for i, d in enumerate(x.shape))
    params = {"axes": axes, "sizes": tuple(sizes[axis] for axis in axes), "kinds": kinds}
    return editor.add(ops.resize, [x], shape, x.dtype, params)


def _as_jax(node: Node, x: Value, editor: Editor, sizes: dict[int, Dim] | None = None) -> Value:
    """``x`` resized as JAX does it: by default what the node does."""
    if sizes is None:
        sizes = {axis: node.out.shape[axis] for axis in node.params["axes"]}
    how = {**node.params, "axes": tuple(sizes), "sizes": tuple(sizes.values())}
    spec = jax.ShapeDtypeStruct(x.shape, x.dtype)
    (made,) = editor.inline(trace(partial(formulas.image_resize, **how), [spec]), [x])
    return made


def _product(node: Node, x: Value, axis: int, count: Dim, editor: Editor) -> Value:
    """One axis contracted with JAX's own matrix of resampling weights."""
    how = {"method": node.params["method"], "antialias": node.params["antialias"]}
    function = partial(_resized, shape=(count,), **how)
    graph = pattern_graph(function, [jax.ShapeDtypeStruct((x.shape[axis],), x.dtype)])
    (product,) = (n for n in graph.nodes if n.op is ops.einsum)
    side = int(product.inputs[0] is graph.inputs[0])
    table, _ = match_resampling_matrix(product, side) or (None, None)
    assert table is not None, product
    nodes = [n for n in graph.nodes if n is not product]
    (weights,) = editor.inline(Graph([], [table.value], nodes), [])
    return emit_resampling(x, axis, replace(table, value=weights).computed(), editor)


def _beneath(x: Value, uses: Uses) -> tuple[Value, list[int]]:
    """What ``x`` is a transpose of, and its order of axes; as far as nobody else reads it.

    A transpose is written as a reshape where only ones change places.
    """
    order = list(range(x.rank))
    while x.node is not None and x.node.op in (ops.transpose, ops.reshape) and uses.single_use(x):
        seen = above(along(x))
        turn = base_permutation(seen, x.shape) if seen is not None and seen.is_whole else None
        if seen is None or turn is None:
            break
        order, x = [turn[i] for i in order], seen.base
    return x, order
