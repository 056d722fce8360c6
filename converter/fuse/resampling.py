"""Which of ONNX's ``Resize`` a matrix of weights [in, out] is, or a gather of neighbours.

Known numbers are compared with the operator's. Where a size is symbolic, the computation of the
numbers is compared, node by node, with what the same JAX traces for the resize of one axis between
the same sizes, in each spelling.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from converter.fuse.dependence import is_weight, known
from converter.fuse.patterns import pattern_graph
from converter.ir import Graph, Node, Value, const, dims, formulas, ops
from converter.ir.dims import Dim
from converter.ir.equality import same_program
from converter.ir.formulas import ALIGNED, ResizeKind
from converter.ir.rewrite import Editor, Takes
from converter.jax_versions import MISSING_RESIZES

Kinds: TypeAlias = tuple[ResizeKind, ...]
# Resizes one axis to a size.
Spelling: TypeAlias = Callable[[jax.Array, Dim], jax.Array]


@dataclass(frozen=True)
class Row:
    """Forms of ``Resize`` from an opset on; some of them are only worth it for enlarging."""

    kind: ResizeKind
    since: int
    up_only: bool = False


# The first that fits is taken. Cubic always antialiases, which changes nothing when enlarging:
# without, it was measured to take 10 to 100 times as long, longer than products.
ROWS = (
    Row(("linear", False), 17),
    Row(("linear", True), 18),
    Row(ALIGNED, 17),
    Row(("cubic", True), 18),
    Row(("cubic-pytorch", False), 18, up_only=True),
)
SLOW = (("cubic", False), ("cubic-pytorch", False))
RESAMPLED_DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Matrix:
    """Weights [in, out], or [out, in] where they are ``turned``."""

    value: Value
    turned: bool

    @property
    def sizes(self) -> tuple[Dim, Dim]:
        rows, columns = self.value.shape
        return (columns, rows) if self.turned else (rows, columns)

    def oriented(self, editor: Editor, turned: bool) -> Value:
        if turned == self.turned:
            return self.value
        if self.value.kind == "const":
            return const(np.transpose(self.value.const))
        return editor.transpose(self.value, (1, 0))


def contracted(node: Node, side: int) -> tuple[int, Matrix, list[int]] | None:
    """The axis of one operand that an einsum replaces by the matrix on ``side``, the matrix, and
    the labels of the operand afterwards."""
    own, other = (list(node.params[k]) for k in (("lhs", "rhs"), ("rhs", "lhs"))[side])
    out = node.params["out"]
    summed = [a for a in own if a in other and a not in out]
    made = [a for a in own if a in out and a not in other]
    if len(own) != 2 or len(summed) != 1 or len(made) != 1 or len(out) != len(other):
        return None
    labels = [made[0] if a == summed[0] else a for a in other]
    return other.index(summed[0]), Matrix(node.inputs[side], own[0] == made[0]), labels


def normalised(matrix: np.ndarray, axis: int) -> bool:
    """The weights of every result sum to one, or are all zero: a resampling."""
    if matrix.size == 0 or matrix.dtype.name not in RESAMPLED_DTYPES:
        return False
    total = matrix.astype(np.float64).sum(axis)
    off = np.minimum(np.abs(total - 1), np.abs(total))
    return bool(off.max() <= 8 * float(jnp.finfo(matrix.dtype).eps))


def known_kinds(matrix: np.ndarray, opset: int) -> Kinds | str:
    """The kinds of ``Resize`` whose weights [in, out] these are, or why none can be used.

    Up to rounding: the positions they were computed from are float32, of the size of the image.
    """
    size, count = matrix.shape
    wide = matrix.astype(np.float64)
    slack = float(jnp.finfo(matrix.dtype).eps) + 4 * size * float(np.finfo(np.float32).eps)

    def off(kind: ResizeKind) -> float:
        return float(np.abs(wide - resampling_weights(size, count, *kind)).max())

    errors = {row.kind: off(row.kind) for row in ROWS if count >= size or not row.up_only}
    # Between large sizes that are nearly the same, even aligned corners are within rounding.
    slack = min(slack, min(errors.values()) + float(np.finfo(np.float32).eps))
    rows = [row for row in ROWS if errors.get(row.kind, math.inf) <= slack]
    allowed = tuple(row.kind for row in rows if row.since <= opset)
    if allowed or size == count:
        return allowed
    slow = any(off(kind) <= slack for kind in SLOW)
    return _reason(f"{size} to {count}", rows, slow)


def _reason(what: str, rows: list[Row], slow: bool) -> str:
    if rows:
        return f"{what}: antialias needs opset {min(row.since for row in rows)}"
    if slow:
        return f"{what}: the operator's cubic without antialias is slower than products"
    return f"{what}: the weights are not those of a kernel that ONNX has"


SAMPLING_KERNELS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("linear", ALIGNED[0]), lambda x: np.maximum(0, 1 - x)),
    "cubic": lambda x: _cubic(x, -0.5),
    "cubic-pytorch": lambda x: _cubic(x, -0.75),
}


def _cubic(x: Any, a: float) -> Any:
    """Keys' cubic convolution kernel of x >= 0; ``a`` is ONNX's ``cubic_coeff_a``."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = a * (((x - 5) * x + 8) * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def resampling_weights(size: int, count: int, method: str, antialias: bool) -> np.ndarray:
    """The weights [size, count] of ONNX's ``Resize``, with half-pixel positions but ``ALIGNED``.

    What lies outside gets none and the rest is normalised (``exclude_outside``), but
    ``cubic-pytorch`` repeats the edge. Source: the ONNX operator's specification.
    """
    if (method, antialias) == ALIGNED:
        centre = np.arange(count) * ((size - 1) / max(count - 1, 1))
    else:
        centre = (np.arange(count) + 0.5) * (size / count) - 0.5
    stretch = max(size / count, 1) if antialias else 1
    beyond = 2 if method == "cubic-pytorch" else 0
    taps = np.arange(-beyond, size + beyond)
    raw = SAMPLING_KERNELS[method](np.abs(centre - taps[:, None]) / stretch)
    inside = np.zeros((size, count))
    np.add.at(inside, np.clip(taps, 0, size - 1), raw)
    return inside / inside.sum(0)


# ---------------------------------------------------------------------------------- symbolic sizes


def traced_kinds(matrix: Matrix, opset: int) -> Kinds | str:
    """The kinds of ``Resize`` whose weights these are, or why not, by how they are computed."""
    up = dims.divides(*matrix.sizes) is not None
    what = f"{matrix.sizes[0]} to {matrix.sizes[1]}"
    for method, antialias in (*(row.kind for row in ROWS), SLOW[0]):
        spelling = partial(_one_axis_resized, kind=(method, antialias))
        if method in MISSING_RESIZES or not _is_traced(matrix, spelling):
            continue
        rows = [
            row
            for row in ROWS
            if row.kind[0] == method and (up or (row.kind[1] == antialias and not row.up_only))
        ]
        allowed = tuple(row.kind for row in rows if row.since <= opset)
        return allowed or _reason(what, rows, slow=True)
    if not _is_traced(matrix, _one_axis_translated):
        return ()
    several = all(dims.is_at_least(size, 2) for size in matrix.sizes)
    return (ALIGNED,) if several else f"{what}: JAX gives zeros where a size is 1, which it may be"


def _is_traced(matrix: Matrix, spelling: Spelling) -> bool:
    """The weights are computed as those of a spelling."""
    graph = one_axis(*matrix.sizes, matrix.value.dtype, spelling)
    for node in graph.nodes:
        for side in (0, 1) if node.op is ops.einsum else ():
            contraction = contracted(node, side)
            if contraction is not None and node.inputs[1 - side] is graph.inputs[0]:
                own = contraction[1]
                return own.turned == matrix.turned and same_program(matrix.value, own.value)
    return False


def _one_axis_resized(x: jax.Array, count: Dim, kind: ResizeKind) -> jax.Array:
    """One axis as JAX itself resizes it, or the formula of ``ALIGNED``."""
    return formulas.resize(x, axes=(0,), sizes=(count,), kinds=(kind,))


def _one_axis_translated(x: jax.Array, count: Dim) -> jax.Array:
    """``ALIGNED`` as ``jax.image.scale_and_translate`` documents it."""
    scale = (count - 1) / (x.shape[0] - 1)
    how = jnp.asarray([scale]), jnp.asarray([0.5 * (1 - scale)])
    return jax.image.scale_and_translate(x, (count,), (0,), *how, "linear", antialias=False)


def one_axis(size: Dim, count: Dim, dtype: Any, spelling: Spelling) -> Graph:
    """Function that JAX traces for the resize of one axis."""
    return pattern_graph(lambda x: spelling(x, count), [jax.ShapeDtypeStruct((size,), dtype)])


# ------------------------------------------------------------------------------- nearest neighbours


NEAREST: ResizeKind = ("nearest", False)


def nearest(node: Node, takes: Takes) -> tuple[int, int] | str | None:
    """(axis, place): each place's nearest neighbour along an axis of the operand is gathered, and
    is axis ``place`` of the result; or why that is nearly so."""
    x, indices = node.inputs
    gathered = _gathered(node)
    if gathered is None or not takes("Resize", x.dtype):
        return None
    axis, place = gathered
    size, count = x.shape[axis], node.out.shape[place]
    if dims.all_static((size, count)):
        places = known(indices) if size > 1 and count > 1 and not is_weight(x) else None
        if places is None or not np.array_equal(places[:, 0], neighbours(size, count)):
            return None
    elif not _is_traced_gather(indices, size, count):
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
    other_axes = [i for i in range(x.rank) if i != axes[0]]
    whole = dims.same_shape([sizes[i] for i in other_axes], [x.shape[i] for i in other_axes])
    places = [i for i in range(node.out.rank) if i not in numbers.offset_dims]
    return (axes[0], places[0]) if whole and indices.rank == 2 and len(places) == 1 else None


def neighbours(size: int, count: int) -> np.ndarray:
    """``floor((i + 0.5) * size / count)`` for i < count, in integers: [count]."""
    return (2 * np.arange(count) + 1) * size // (2 * count)


def _is_traced_gather(indices: Value, size: Dim, count: Dim) -> bool:
    """The indices are computed as JAX's own."""
    graph = one_axis(size, count, np.float32, partial(_one_axis_resized, kind=NEAREST))
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
