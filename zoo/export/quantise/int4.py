"""Quantize matrices to four bits, with a scale for every 32 numbers of a column. Activations stay
floating-point numbers."""

import numpy as np
import onnx_ir as ir

from zoo.export.quantise.products import FloatProduct, Floats, IntegerMatrix

BITS, BLOCK_SIZE = 4, 32
LOWEST, HIGHEST = -(2 ** (BITS - 1)), 2 ** (BITS - 1) - 1

TRIED_SCALES = np.linspace(0.75, 1.05, 7, dtype=np.float32)
"""Factors of the scale that are tried. With factor 1 the largest number of a block is represented
exactly. A smaller scale clips that number a little and makes the steps of all others finer."""

ACCURACY_LEVEL = 4
"""Level at which ONNX Runtime multiplies integers of 8 bits on a CPU, with a scale for each block
of activations. That is faster than floats, and its error is smaller than that of four bits. It is
not used in float16: ONNX Runtime 1.19 to 1.32 then converts the scales of a node to float32 while
its kernel expects constants, and multiplies by uninitialized memory unless all optimizations
run."""


class Blocks:
    """Storage of a matrix for ONNX Runtime's `MatMulNBits`: four bits, with a scale for every 32
    numbers of a column. ONNX Runtime's build for browsers has the operator too."""

    domain = "com.microsoft"
    operator = "MatMulNBits"
    dtype = ir.DataType.UINT8

    def stored_shape(self, inputs: int, outputs: int) -> tuple[int, ...]:
        """Return the shape of the stored bytes, `[outputs, blocks, 16]`.

        A byte holds two numbers of a column of the matrix `[inputs, outputs]`. The last block of a
        column is padded.
        """
        return outputs, -(-inputs // BLOCK_SIZE), BLOCK_SIZE * BITS // 8

    def scales(self, matrix: Floats) -> Floats:
        """Return the scale of each block, `[outputs, blocks]`.

        The exact scale turns the number with the largest magnitude into the lowest integer, -8,
        because there is one more integer below zero than above. It is negative if that number is
        positive. The result is the product of the exact scale with the factor of `TRIED_SCALES`
        that leads to the smallest squared error of the block. It is never zero.
        """
        blocks = _split_into_blocks(matrix)
        largest = np.take_along_axis(blocks, abs(blocks).argmax(-1)[..., None], -1)
        exact_scales = np.where(largest == 0, 1, largest / np.float32(LOWEST))
        best, least_error = exact_scales, np.full(exact_scales.shape, np.inf, np.float32)
        for factor in TRIED_SCALES:
            error = np.square(
                _round_to_integers(blocks, factor * exact_scales) * (factor * exact_scales) - blocks
            )
            error = error.sum(-1, keepdims=True)
            best = np.where(error < least_error, factor * exact_scales, best)
            least_error = np.minimum(error, least_error)
        return best[..., 0]

    def to_integers(self, matrix: Floats, scales: Floats) -> IntegerMatrix:
        """Return the matrix as stored bytes, with two integers of four bits each.

        The first of two numbers is in the lower four bits. The integer 8 stands for zero.
        """
        levels = (
            _round_to_integers(_split_into_blocks(matrix), scales[..., None]) - LOWEST
        ).astype(np.uint8)
        return levels[..., ::2] | levels[..., 1::2] << BITS

    def round_matrix(self, matrix: Floats, scales: Floats) -> Floats:
        """Return the matrix after rounding, as float32 numbers, without the padding of the last
        block."""
        values = (
            _round_to_integers(_split_into_blocks(matrix), scales[..., None]) * scales[..., None]
        )
        return values.reshape(len(values), -1).T[: len(matrix)]

    def emit_product(
        self, product: FloatProduct, integers: ir.Value, scales: ir.Value
    ) -> list[ir.Node]:
        """Return the `MatMulNBits` node that computes the product from the stored integers and
        scales."""
        inputs, outputs = product.shape
        sizes = {"K": inputs, "N": outputs, "bits": BITS, "block_size": BLOCK_SIZE}
        in_float32 = product.type == np.float32
        settings = sizes | ({"accuracy_level": ACCURACY_LEVEL} if in_float32 else {})
        operands = [product.left, integers, scales]
        return [ir.node(self.operator, operands, settings, domain=self.domain)]


def _split_into_blocks(matrix: Floats) -> Floats:
    """Return a matrix `[inputs, outputs]` as `[outputs, blocks, 32]`. The last block of a column is
    padded with zeros."""
    padded = np.pad(matrix, ((0, -len(matrix) % BLOCK_SIZE), (0, 0)))
    return np.ascontiguousarray(padded.T).reshape(matrix.shape[1], -1, BLOCK_SIZE)


def _round_to_integers(blocks: Floats, scales: Floats) -> Floats:
    """Return the integers from -8 to 7 that are nearest to `blocks / scales`, as floating-point
    numbers."""
    nearest: Floats = np.clip(np.rint(blocks / scales), LOWEST, HIGHEST)
    return nearest
