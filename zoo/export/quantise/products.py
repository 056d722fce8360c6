"""Products with a matrix of parameters: find them in a graph, and replace the matrix."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

HELD_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)

Change = Callable[[NDArray[np.float32]], NDArray[Any]]


def is_parameter(value: ir.Value | None, rank: int) -> bool:
    """Whether this is a parameter of that rank which one node reads."""
    if value is None or not value.is_initializer() or value.dtype not in HELD_FLOATS:
        return False
    return value.shape is not None and len(value.shape) == rank and len(value.uses()) == 1


def sides(value: ir.Value) -> tuple[int, ...]:
    """The shape of a parameter."""
    assert value.const_value is not None
    return tuple(value.const_value.shape.numpy())


def array(value: ir.Value) -> NDArray[np.float32]:
    """The numbers of a parameter, read anew."""
    assert value.const_value is not None
    return value.const_value.numpy().astype(np.float32, copy=False)


def later(value: ir.Value, dtype: ir.DataType, shape: Sequence[int], change: Change) -> ir.Value:
    """Tensor that `change` makes of a parameter, under its name, whenever it is read."""
    before = value.const_value
    assert before is not None

    def load() -> ir.TensorProtocol:
        changed = change(before.numpy().astype(np.float32, copy=False))
        return ir.tensor(changed.astype(dtype.numpy()), name=value.name)

    tensor = ir.LazyTensor(load, dtype=dtype, shape=ir.Shape(shape), name=value.name)
    return ir.Value(
        name=value.name, shape=ir.Shape(shape), type=ir.TensorType(dtype), const_value=tensor
    )


def change(value: ir.Value, how: Change) -> None:
    """Let a parameter be what `how` makes of it, of the same type and shape."""
    assert value.dtype is not None
    value.const_value = later(value, value.dtype, sides(value), how).const_value


def added(graph: ir.Graph, name: str, numbers: NDArray[Any]) -> ir.Value:
    """A new parameter of a graph."""
    tensor = ir.tensor(numbers, name=name)
    kind = ir.TensorType(tensor.dtype)
    value = ir.Value(name=name, shape=ir.Shape(numbers.shape), type=kind, const_value=tensor)
    graph.initializers.add(value)
    return value


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


def quantise(model: ir.Model, codec: Codec, means: Mapping[str, Floats]) -> None:
    """Hold every matrix of parameters that activations are multiplied by in integers, in place.

    `means` are the activations', by the matrix's name. With a rounded matrix the products have
    another mean, which is most of the error where activations are much alike. What the mean has
    lost is added to the bias (Nagel et al. 2019, arXiv 1906.04721).
    """
    graph = model.graph
    for product in list(products(graph)):
        matrix = array(product.matrix)
        factors = codec.scales(matrix).astype(product.type)
        # A step that is too small for float16 becomes zero, and so do the numbers.
        scales = np.where(factors == 0, 1, factors).astype(np.float32)
        lost = means[product.name] @ (matrix - codec.rounded(matrix, scales))
        bias = _bias(product)
        if _is_padded(product.left):
            # A key of cosine attention that is nearly zero, in place of zero, has a direction.
            lost = np.where(0 if bias is None else array(bias), lost, 0)
        shape, how = codec.stored(*product.shape), partial(codec.integers, scales=scales)
        integers = later(product.matrix, codec.dtype, shape, how)
        del graph.initializers[product.name]
        graph.initializers.add(integers)
        steps = added(graph, f"{product.name}_scale", scales.astype(product.type))
        nodes = codec.nodes(product, integers, steps)
        if bias is None:
            shift = added(graph, f"{product.name}_shift", lost.astype(product.type))
            nodes.append(ir.node("Add", [nodes[-1].outputs[0], shift]))
        else:
            change(bias, partial(np.add, lost))
        replace(graph, product, nodes)
    if codec.domain:
        model.opset_imports[codec.domain] = 1


MOVING = frozenset(("Concat", "Gather", "Reshape", "Slice", "Split", "Squeeze", "Transpose"))
"""Operators that give the rows of what they are given in other places."""


def _is_padded(value: ir.Value) -> bool:
    """Whether there may be rows of zeros, of which no product has lost anything."""
    node = value.producer()
    if node is None or node.op_type not in MOVING:
        return node is not None and node.op_type == "Pad"
    return any(v is not None and _is_padded(v) for v in node.inputs)


def _bias(product: FloatProduct) -> ir.Value | None:
    """The parameter that is added to a product, and to nothing else."""
    result = product.result
    users = [user for user, _ in result.uses()]
    if len(users) != 1 or users[0].op_type != "Add" or result.is_graph_output():
        return None
    biases = [value for value in users[0].inputs if is_parameter(value, 1)]
    return biases[0] if biases else None
