"""Products that resample one axis: contractions with a matrix of weights, laid out for runtimes.

They are what ``jax.image.scale_and_translate`` traces to, and resizes by methods that ONNX has not.
"""

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from converter.fuse.dependence import is_sized, is_weight, known
from converter.fuse.match import NearMiss, Recogniser
from converter.ir import Node, Value, const, dims, ops
from converter.ir.dims import Dim
from converter.ir.rewrite import Editor

RESAMPLED_DTYPES = ("float32", "float16", "bfloat16")
# Fewer columns than these are worth a transpose.
NARROW_MATRIX = 16
# Larger matrices of known weights are left to be computed at run time, in bytes.
LARGEST_MATRIX = 1 << 26


@dataclass(frozen=True)
class Matrix:
    """Weights [in, out], or [out, in] where they are ``turned``, for an axis of an operand."""

    value: Value
    turned: bool
    axis: int

    @property
    def sizes(self) -> tuple[Dim, Dim]:
        rows, columns = self.value.shape
        return (columns, rows) if self.turned else (rows, columns)

    def numbers(self) -> np.ndarray | None:
        """The weights as they are written, if they are known."""
        return known(self.value) if dims.all_static(self.value.shape) else None

    def computed(self) -> "Matrix":
        """The same as a constant, if the weights are known and few."""
        numbers = self.numbers()
        is_small = numbers is not None and numbers.nbytes <= LARGEST_MATRIX
        return replace(self, value=const(numbers)) if is_small else self

    def oriented(self, editor: Editor, turned: bool) -> Value:
        if turned == self.turned:
            return self.value
        if self.value.kind == "const":
            return const(np.transpose(self.value.const))
        return editor.transpose(self.value, (1, 0))


def contracted(node: Node, side: int) -> tuple[Matrix, list[int]] | None:
    """The matrix on one side of an einsum that contracts an axis of the other operand, and the
    labels of that operand afterwards."""
    own, other = (list(node.params[k]) for k in (("lhs", "rhs"), ("rhs", "lhs"))[side])
    out = node.params["out"]
    summed = [a for a in own if a in other and a not in out]
    made = [a for a in own if a in out and a not in other]
    if len(own) != 2 or len(summed) != 1 or len(made) != 1 or len(out) != len(other):
        return None
    labels = [made[0] if a == summed[0] else a for a in other]
    return Matrix(node.inputs[side], own[0] == made[0], other.index(summed[0])), labels


def resampled(x: Value, axis: int, matrix: Matrix, editor: Editor) -> Value:
    """One axis contracted with a matrix.

    The product is from the left, which moves no axis, or from the right, on the last axis. Matrices
    of few columns are slow: 683 x 3 of them take four times as long from the left as transposed and
    from the right.
    """
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


def _match(node: Node, editor: Editor, notes: list[NearMiss]) -> Value | None:
    """A contraction of one axis with weights that are known, or made of named sizes."""
    for side in (0, 1):
        x, contraction = node.inputs[1 - side], contracted(node, side)
        alike = node.inputs[side].dtype == x.dtype == node.out.dtype
        if contraction is None or not alike or x.dtype.name not in RESAMPLED_DTYPES:
            continue
        matrix, labels = contraction
        numbers = matrix.numbers()
        if numbers is None:
            is_table = not dims.all_static(matrix.sizes) and is_sized(matrix.value)
        else:
            is_table = _is_normalised(numbers, int(matrix.turned)) and not is_weight(x)
        if is_table:
            made = resampled(x, matrix.axis, matrix.computed(), editor)
            return editor.transpose(made, [labels.index(a) for a in node.params["out"]])
    return None


def _is_normalised(matrix: np.ndarray, axis: int) -> bool:
    """Whether the weights of every result sum to one, or are all zero: a resampling."""
    if matrix.size == 0:
        return False
    total = matrix.astype(np.float64).sum(axis)
    off = np.minimum(np.abs(total - 1), np.abs(total))
    return bool(off.max() <= 8 * float(jnp.finfo(matrix.dtype).eps))


RESAMPLING = Recogniser((ops.einsum,), _match)
