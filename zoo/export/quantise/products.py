"""Products with a matrix of parameters: where they are, and another in the place of one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from zoo.export.quantise.parameters import is_parameter, sides

Integers = NDArray[np.int8] | NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class FloatProduct:
    """`left @ matrix`, where `matrix` is a parameter `[inputs, outputs]`."""

    node: ir.Node
    left: ir.Value
    matrix: ir.Value

    @property
    def name(self) -> str:
        """The parameter's."""
        return str(self.matrix.name)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many channels the activations have, and how many there are behind it."""
        return sides(self.matrix)

    @property
    def result(self) -> ir.Value:
        """Result of the product."""
        return self.node.outputs[0]

    @property
    def type(self) -> np.dtype[Any]:
        """Type of the activations."""
        assert self.left.dtype is not None
        return self.left.dtype.numpy()


class Codec(Protocol):
    """A way to hold a matrix in integers, and to multiply by it."""

    domain: str
    """Of the operators that ONNX itself has not."""

    operator: str
    """The product."""

    dtype: ir.DataType
    """Of the integers, as they are stored."""

    def stored(self, inputs: int, outputs: int) -> tuple[int, ...]:
        """The shape of the integers of a matrix."""

    def scales(self, matrix: Floats) -> Floats:
        """How large a step of the integers is; never zero."""

    def integers(self, matrix: Floats, scales: Floats) -> Integers:
        """The matrix in steps."""

    def rounded(self, matrix: Floats, scales: Floats) -> Floats:
        """The matrix that those integers stand for."""

    def nodes(self, product: FloatProduct, integers: ir.Value, scales: ir.Value) -> list[ir.Node]:
        """Nodes that multiply by it; the output of the last node is the product."""


def products(graph: ir.Graph) -> Iterator[FloatProduct]:
    """All products of a graph, in its order."""
    for node in graph:
        if node.op_type == "MatMul" and not node.domain and is_parameter(node.inputs[1], 2):
            left, matrix = node.inputs
            assert left is not None and matrix is not None
            yield FloatProduct(node, left, matrix)


def replace(graph: ir.Graph, product: FloatProduct, nodes: list[ir.Node]) -> None:
    """Put nodes in the place of a product's. The last one's output takes over its name."""
    old, (new,) = product.result, nodes[-1].outputs
    new.name, old.name = old.name, f"{old.name}_float"
    new.type, new.shape = old.type, old.shape
    graph.insert_before(product.node, nodes)
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    graph.remove(product.node, safe=True)
