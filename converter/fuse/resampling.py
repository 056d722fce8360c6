"""Products that resample one axis: contractions with a matrix of weights, in a fast layout.

``jax.image.scale_and_translate`` is traced to such products, and so are resizes by methods that
ONNX does not have.
"""

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from converter.fuse.dependence import (
    constant_array,
    depends_on_parameters_only,
    depends_on_sizes_only,
)
from converter.fuse.match import NearMiss, Recogniser
from converter.ir import Node, Value, const, dims, ops
from converter.ir.dims import Dim
from converter.ir.rewrite import Editor

RESAMPLED_DTYPES = ("float32", "float16", "bfloat16")
# If there are fewer columns than this, it is faster to transpose the operand first.
NARROW_MATRIX = 16
# The limit in bytes. Larger matrices are computed at run time, even if the weights are known.
LARGEST_MATRIX = 1 << 26


@dataclass(frozen=True)
class ResamplingMatrix:
    """A matrix of resampling weights, which is multiplied with one axis of an operand.

    ``value`` has the shape [in, out], or [out, in] if ``transposed``. ``axis`` is the contracted
    axis.
    """

    value: Value
    transposed: bool
    axis: int

    @property
    def sizes(self) -> tuple[Dim, Dim]:
        """Number of entries of the contracted axis before and after the contraction."""
        rows, columns = self.value.shape
        return (columns, rows) if self.transposed else (rows, columns)

    def numbers(self) -> np.ndarray | None:
        """Return the weights in the shape of ``value``.

        Return None if they depend on more than constants, or if the shape has a named size.
        """
        return constant_array(self.value) if dims.all_static(self.value.shape) else None

    def with_constant_weights(self) -> "ResamplingMatrix":
        """Return the matrix with its weights as a constant, if they are constant and at most 64
        MiB.

        Otherwise return the matrix itself, whose weights are computed at run time.
        """
        numbers = self.numbers()
        is_small = numbers is not None and numbers.nbytes <= LARGEST_MATRIX
        return replace(self, value=const(numbers)) if is_small else self

    def emit_weights(self, editor: Editor, transposed: bool) -> Value:
        """Return the weights as [in, out], or as [out, in] if ``transposed``. A transpose is
        emitted if needed."""
        if transposed == self.transposed:
            return self.value
        if self.value.kind == "const":
            return const(np.transpose(self.value.const))
        return editor.transpose(self.value, (1, 0))


def match_resampling_matrix(node: Node, side: int) -> tuple[ResamplingMatrix, list[int]] | None:
    """Match an einsum that contracts one axis of an operand with a matrix.

    ``side`` is the index of the matrix among the operands, 0 or 1. Return the matrix, and the
    labels of the other operand with the label of the new axis in place of that of the contracted
    axis. These are the labels of the contraction's result, in the order of the other operand.
    Return None if operand ``side`` is no matrix, or if the einsum does anything else.
    """
    matrix_labels, operand_labels = (
        list(node.params[k]) for k in (("lhs", "rhs"), ("rhs", "lhs"))[side]
    )
    out = node.params["out"]
    summed_labels = [a for a in matrix_labels if a in operand_labels and a not in out]
    result_labels = [a for a in matrix_labels if a in out and a not in operand_labels]
    if (
        len(matrix_labels) != 2
        or len(summed_labels) != 1
        or len(result_labels) != 1
        or len(out) != len(operand_labels)
    ):
        return None
    labels = [result_labels[0] if a == summed_labels[0] else a for a in operand_labels]
    return ResamplingMatrix(
        node.inputs[side],
        matrix_labels[0] == result_labels[0],
        operand_labels.index(summed_labels[0]),
    ), labels


def emit_resampling(x: Value, axis: int, matrix: ResamplingMatrix, editor: Editor) -> Value:
    """Emit the contraction of axis ``axis`` of ``x`` with a matrix, and return it in the order of
    x's axes.

    The matrix is the left operand of the product, which moves no axis. If the axes of ``x`` after
    ``axis`` have fewer than `NARROW_MATRIX` entries together, ``axis`` is moved last, and the
    matrix is the right operand. Few columns are slow from the left: a product with 683 x 3 columns
    takes four times as long as a transpose and a product from the right.
    """
    shape = tuple(matrix.sizes[1] if i == axis else d for i, d in enumerate(x.shape))
    following_size = dims.size_product(x.shape[axis + 1 :])
    if dims.is_static(following_size) and following_size < NARROW_MATRIX:
        order = [*(i for i in range(x.rank) if i != axis), axis]
        inputs = [editor.transpose(x, order), matrix.emit_weights(editor, transposed=False)]
        product = editor.add(ops.matmul, inputs, tuple(shape[i] for i in order), x.dtype)
        return editor.transpose(product, [order.index(i) for i in range(x.rank)])
    flat = editor.reshape(x, (*x.shape[: axis + 1], following_size))
    inputs = [matrix.emit_weights(editor, transposed=True), flat]
    product = editor.add(ops.matmul, inputs, (*shape[: axis + 1], following_size), x.dtype)
    return editor.reshape(product, shape)


def _match_resampling(node: Node, editor: Editor, near_misses: list[NearMiss]) -> Value | None:
    """Replace an einsum of an array and a matrix of resampling weights by a faster matrix product.

    `emit_resampling` chooses the order of its axes. The einsum must contract one axis of the array
    with one axis of the matrix, all dtypes must be the same, float32, float16 or bfloat16, and the
    matrix must be of one of these kinds:

    - Its numbers are constant, and the weights of each result sum to one or zero. The array must
      then depend on an input.
    - It has a named size, and its numbers depend on named sizes only.

    Return None for other einsums.
    """
    for side in (0, 1):
        x, contraction = node.inputs[1 - side], match_resampling_matrix(node, side)
        is_same_dtype = node.inputs[side].dtype == x.dtype == node.out.dtype
        if contraction is None or not is_same_dtype or x.dtype.name not in RESAMPLED_DTYPES:
            continue
        matrix, labels = contraction
        numbers = matrix.numbers()
        if numbers is None:
            is_table = not dims.all_static(matrix.sizes) and depends_on_sizes_only(matrix.value)
        else:
            is_table = _is_normalised(
                numbers, int(matrix.transposed)
            ) and not depends_on_parameters_only(x)
        if is_table:
            result = emit_resampling(x, matrix.axis, matrix.with_constant_weights(), editor)
            return editor.transpose(result, [labels.index(a) for a in node.params["out"]])
    return None


def _is_normalised(matrix: np.ndarray, axis: int) -> bool:
    """Return True if the weights of each result sum to one or to zero, as in a resampling.

    ``axis`` is the axis over which the weights of one result are summed.
    """
    if matrix.size == 0:
        return False
    total = matrix.astype(np.float64).sum(axis)
    errors = np.minimum(np.abs(total - 1), np.abs(total))
    return bool(errors.max() <= 8 * float(jnp.finfo(matrix.dtype).eps))


RESAMPLING = Recogniser((ops.einsum,), _match_resampling)
