"""Gathers that are ``Resize`` to the nearest neighbour."""

from __future__ import annotations

import math

import numpy as np

from converter.fuse.dependence import is_weight, known
from converter.fuse.resampling import one_axis
from converter.ir import Node, Value, dims, ops
from converter.ir.dims import Dim
from converter.ir.equality import same_program
from converter.ir.formulas import ResizeKind
from converter.ir.rewrite import Takes

NEAREST: ResizeKind = ("nearest", False)


def nearest(node: Node, takes: Takes) -> tuple[int, int] | str | None:
    """(axis, place): each place's nearest neighbour along an axis of the operand is gathered, and
    is axis ``place`` of the result; or why that is nearly so."""
    x, indices = node.inputs
    found = _gathered(node)
    if found is None or not takes("Resize", x.dtype):
        return None
    axis, place = found
    size, count = x.shape[axis], node.out.shape[place]
    if dims.all_static((size, count)):
        places = known(indices) if size > 1 and count > 1 and not is_weight(x) else None
        if places is None or not np.array_equal(places[:, 0], neighbours(size, count)):
            return None
    elif not _is_traced(indices, size, count):
        return None
    if not _exact(size, count):
        return f"{size} to {count}: the operator's rounding need not find the same neighbours"
    return axis, place


def _gathered(node: Node) -> tuple[int, int] | None:
    """(axis, place): slices of one axis are gathered, and are axis ``place`` of the result."""
    x, indices = node.inputs
    numbers, sizes = node.params["dimension_numbers"], node.params["slice_sizes"]
    axes = numbers.start_index_map
    if len(axes) != 1 or numbers.collapsed_slice_dims != axes or numbers.operand_batching_dims:
        return None
    rest = [i for i in range(x.rank) if i != axes[0]]
    whole = dims.same_shape([sizes[i] for i in rest], [x.shape[i] for i in rest])
    places = [i for i in range(node.out.rank) if i not in numbers.offset_dims]
    return (axes[0], places[0]) if whole and indices.rank == 2 and len(places) == 1 else None


def neighbours(size: int, count: int) -> np.ndarray:
    """``floor((i + 0.5) * size / count)`` for i < count, in integers: [count]."""
    return (2 * np.arange(count) + 1) * size // (2 * count)


def _is_traced(indices: Value, size: Dim, count: Dim) -> bool:
    """The indices are computed as JAX's own."""
    graph = one_axis(size, count, np.float32, *NEAREST)
    gathers = [node for node in graph.nodes if node.op is ops.gather]
    return len(gathers) == 1 and same_program(indices, gathers[0].inputs[1])


def _exact(size: Dim, count: Dim) -> bool:
    """ONNX's position in ``float32`` rounds to the right neighbour, whoever computes it.

    It is ``(i + 0.5) / scale - 0.5``, halves rounded up. With size / count = p / q in lowest terms
    there are exact halves where p is even, and these are right where the scale q / p is exact, for
    powers of two. All others are at least 1 / (2 q) away from a half, to be compared with the
    rounding of a position of the image's size.
    """
    up, down = dims.divides(size, count), dims.divides(count, size)
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
