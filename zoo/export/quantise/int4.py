"""Four bits: a scale for every 32 numbers of a column of a matrix; activations stay floats."""

import numpy as np
import onnx_ir as ir

from zoo.export.quantise.products import FloatProduct, Floats, Integers

BITS, BLOCK_SIZE = 4, 32
LOWEST, HIGHEST = -(2 ** (BITS - 1)), 2 ** (BITS - 1) - 1

TRIED = np.linspace(0.75, 1.05, 7, dtype=np.float32)
"""Scales that are tried, in parts of the one that just reaches a block's largest number: clipping
that one a little makes the steps of all others finer."""

ACCURACY = 4
"""Lets ONNX Runtime multiply in integers of 8 bits on a CPU, with a scale for each block of
activations, which is faster than floats and changes less than four bits do. Not in float16: there
ONNX Runtime 1.19 to 1.32 widens a node's scales to float32 while its kernel takes them for
constants, and multiplies by memory that nobody has set, unless its whole optimiser runs."""


class Blocks:
    """`MatMulNBits` of ONNX Runtime, and of its build for browsers."""

    domain = "com.microsoft"
    operator = "MatMulNBits"
    dtype = ir.DataType.UINT8

    def stored(self, inputs: int, outputs: int) -> tuple[int, ...]:
        """Bytes by columns, two numbers in a byte; the last block is filled up."""
        return outputs, -(-inputs // BLOCK_SIZE), BLOCK_SIZE * BITS // 8

    def scales(self, matrix: Floats) -> Floats:
        """Scales of the least squared error. The number that is largest is the lowest integer, of
        which there is one more than on the other side."""
        blocks = _blocks(matrix)
        largest = np.take_along_axis(blocks, abs(blocks).argmax(-1)[..., None], -1)
        reaching = np.where(largest == 0, 1, largest / np.float32(LOWEST))
        best, least = reaching, np.full(reaching.shape, np.inf, np.float32)
        for part in TRIED:
            error = np.square(_nearest(blocks, part * reaching) * (part * reaching) - blocks)
            error = error.sum(-1, keepdims=True)
            best = np.where(error < least, part * reaching, best)
            least = np.minimum(error, least)
        return best[..., 0]

    def integers(self, matrix: Floats, scales: Floats) -> Integers:
        """The earlier of two numbers in the lower four bits; 8 stands for zero."""
        levels = (_nearest(_blocks(matrix), scales[..., None]) - LOWEST).astype(np.uint8)
        return levels[..., ::2] | levels[..., 1::2] << BITS

    def rounded(self, matrix: Floats, scales: Floats) -> Floats:
        """Rounded matrix in floats, without what the last block was filled up with."""
        values = _nearest(_blocks(matrix), scales[..., None]) * scales[..., None]
        return values.reshape(len(values), -1).T[: len(matrix)]

    def nodes(self, product: FloatProduct, integers: ir.Value, scales: ir.Value) -> list[ir.Node]:
        inputs, outputs = product.shape
        sizes = {"K": inputs, "N": outputs, "bits": BITS, "block_size": BLOCK_SIZE}
        in_float32 = product.type == np.float32
        settings = sizes | ({"accuracy_level": ACCURACY} if in_float32 else {})
        operands = [product.left, integers, scales]
        return [ir.node(self.operator, operands, settings, domain=self.domain)]


def _blocks(matrix: Floats) -> Floats:
    """`[outputs, blocks, 32]`, the last block filled up with zeros."""
    filled = np.pad(matrix, ((0, -len(matrix) % BLOCK_SIZE), (0, 0)))
    return np.ascontiguousarray(filled.T).reshape(matrix.shape[1], -1, BLOCK_SIZE)


def _nearest(blocks: Floats, scales: Floats) -> Floats:
    nearest: Floats = np.clip(np.rint(blocks / scales), LOWEST, HIGHEST)
    return nearest
