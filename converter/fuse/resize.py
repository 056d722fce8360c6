"""``jax.image.resize``: products with matrices of resampling weights, and gathers of neighbours.

JAX resizes one axis at a time: it contracts the axis with a matrix [in, out] of weights, or gathers
the nearest neighbours along it. What these are has to be shown (``resampling``).

Parameters resized to a known size stay as they are: a weight program, computed as the file is
saved.
"""

from dataclasses import dataclass, replace

from converter.frontend.trace import source_line
from converter.fuse.dependence import is_sized, is_weight, known
from converter.fuse.match import NearMiss, Recogniser, Uses, permutation
from converter.fuse.resampling import (
    NEAREST,
    RESAMPLED_DTYPES,
    Kinds,
    Matrix,
    contracted,
    known_kinds,
    nearest,
    normalised,
    traced_kinds,
)
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import along
from converter.ir.dims import Dim, Shape
from converter.ir.formulas import ALIGNED
from converter.ir.moves import above
from converter.ir.rewrite import Editor

MOST_AXES = {"linear": 3, ALIGNED[0]: 3, "cubic": 2, "cubic-pytorch": 2, "nearest": 3}
# Fewer columns than these are worth a transpose.
NARROW_MATRIX = 16
# Larger matrices of known weights are left to be computed at run time, in bytes.
LARGEST_MATRIX = 1 << 26


@dataclass(frozen=True)
class ResizedAxes:
    """``base`` with these axes resized to ``shape``."""

    base: Value
    axes: tuple[int, ...]
    shape: Shape
    kinds: Kinds

    def write(self, editor: Editor) -> Value:
        sizes = tuple(self.shape[i] for i in self.axes)
        params = {"axes": self.axes, "sizes": sizes, "kinds": self.kinds}
        return editor.add(ops.resize, [self.base], self.shape, self.base.dtype, params)


@dataclass(frozen=True)
class MatrixOnAxis:
    """One axis of ``base`` contracted with a matrix."""

    base: Value
    axis: int
    matrix: Matrix

    def write(self, editor: Editor) -> Value:
        """The product from the left, which moves no axis, or from the right, on the last axis.

        Matrices of few columns are slow: 683 x 3 of them take four times as long from the left as
        transposed and from the right.
        """
        x, axis, matrix = self.base, self.axis, self.matrix
        shape = tuple(matrix.sizes[1] if i == axis else d for i, d in enumerate(x.shape))
        after = dims.size_product(x.shape[axis + 1 :])
        if dims.is_static(after) and after < NARROW_MATRIX:
            order = [*(i for i in range(x.rank) if i != axis), axis]
            inputs = [editor.transpose(x, order), matrix.oriented(editor, turned=False)]
            made = editor.add(ops.matmul, inputs, tuple(shape[i] for i in order), x.dtype)
            return editor.transpose(made, [order.index(i) for i in range(x.rank)])
        flat = editor.reshape(x, (*x.shape[: axis + 1], after))
        inputs = [matrix.oriented(editor, turned=True), flat]
        made = editor.add(ops.matmul, inputs, (*shape[: axis + 1], after), x.dtype)
        return editor.reshape(made, shape)


@dataclass(frozen=True)
class Resampling:
    """Resize in place of a node, and the order of its axes; why it is none, if it is none."""

    made: ResizedAxes | MatrixOnAxis
    order: tuple[int, ...]
    reason: str | None = None


def resize_recogniser(opset: int, strict: bool) -> Recogniser:
    """The recogniser for an opset: ``antialias`` came with 18.

    ``strict`` leaves products with weights as they are: zeros among those make NaN of infinities.
    """

    def match(node: Node, editor: Editor, notes: list[NearMiss]) -> Value | None:
        candidates = (
            _resize_gather(node, editor)
            if node.op is ops.gather
            else _resize_product(node, editor, opset)
        )
        reason = candidates.reason if isinstance(candidates, Resampling) else candidates
        if reason:
            notes.append(NearMiss("Resize", reason, source_line(node)))
        if not isinstance(candidates, Resampling):
            return None
        return editor.transpose(candidates.made.write(editor), candidates.order)

    return Recogniser((ops.gather,) if strict else (ops.einsum, ops.gather), match)


# ------------------------------------------------------------------------------------- the proof


def _resize_product(node: Node, uses: Uses, opset: int) -> Resampling | None:
    """A contraction of one axis with a matrix of weights that are known, or of named sizes."""
    for side in (0, 1):
        contraction = contracted(node, side)
        x = node.inputs[1 - side]
        alike = node.inputs[side].dtype == x.dtype == node.out.dtype
        if contraction is None or not alike or x.dtype.name not in RESAMPLED_DTYPES:
            continue
        axis, matrix, labels = contraction
        numbers = known(matrix.value) if dims.all_static(matrix.sizes) else None
        if numbers is not None:
            if is_weight(x) or not normalised(numbers, int(matrix.turned)):
                return None
            fit = known_kinds(numbers.T if matrix.turned else numbers, opset)
            if matrix.value.kind != "const" and numbers.nbytes <= LARGEST_MATRIX:
                matrix = replace(matrix, value=const(numbers))
        elif not dims.all_static(matrix.sizes) and is_sized(matrix.value):
            fit = traced_kinds(matrix, opset)
        else:
            continue
        source, order = _beneath(x, uses)
        axis = order[axis]
        turned = tuple(order[labels.index(a)] for a in node.params["out"])
        if isinstance(fit, str) or not fit:
            reason = fit if isinstance(fit, str) else None
            return Resampling(MatrixOnAxis(source, axis, matrix), turned, reason)
        return Resampling(_resized(source, axis, matrix.sizes[1], fit, uses), turned)
    return None


def _resize_gather(node: Node, uses: Uses) -> Resampling | str | None:
    """A gather of each place's nearest neighbour along one axis."""
    nearest_or_reason = nearest(node, uses.takes)
    if not isinstance(nearest_or_reason, tuple):
        return nearest_or_reason
    axis, place = nearest_or_reason
    source, order = _beneath(node.inputs[0], uses)
    made = _resized(source, order[axis], node.out.shape[place], (NEAREST,), uses)
    moved = [i for i in range(source.rank) if i != axis]
    moved.insert(place, axis)
    return Resampling(made, tuple(order[i] for i in moved))


def _resized(x: Value, axis: int, count: Dim, kinds: Kinds, uses: Uses) -> ResizedAxes:
    """``x`` with one axis resized, in one node with the axes before it where that can be."""
    shape = tuple(count if i == axis else d for i, d in enumerate(x.shape))
    inner = x.node
    if inner is not None and inner.op is ops.resize and uses.single_use(x):
        shared = tuple(k for k in inner.params["kinds"] if k in kinds)
        more = tuple(sorted((*inner.params["axes"], axis)))
        fresh = axis not in inner.params["axes"]
        if fresh and shared and len(more) <= MOST_AXES[shared[0][0]]:
            return ResizedAxes(inner.inputs[0], more, shape, shared)
    return ResizedAxes(x, (axis,), shape, kinds)


def _beneath(x: Value, uses: Uses) -> tuple[Value, list[int]]:
    """What ``x`` is a transpose of, and its order of axes; as far as nobody else reads it.

    A transpose is written as a reshape where only ones change places.
    """
    order = list(range(x.rank))
    while x.node is not None and x.node.op in (ops.transpose, ops.reshape) and uses.single_use(x):
        seen = above(along(x))
        turn = permutation(seen, x.shape) if seen is not None and seen.is_whole else None
        if seen is None or turn is None:
            break
        order, x = [turn[i] for i in order], seen.base
    return x, order
