"""Find products with a matrix of parameters in a graph, and replace the matrix by integers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

FLOAT_TYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)

Change = Callable[[NDArray[np.float32]], NDArray[Any]]
"""Function from the values of a parameter to new values."""


def is_parameter(value: ir.Value | None, rank: int) -> bool:
    """Return whether a value is a float initializer with `rank` axes that exactly one node reads.

    Its dtype is float32 or float16. The result is False also for None, which stands for a missing
    input.
    """
    if value is None or not value.is_initializer() or value.dtype not in FLOAT_TYPES:
        return False
    return value.shape is not None and len(value.shape) == rank and len(value.uses()) == 1


def parameter_shape(value: ir.Value) -> tuple[int, ...]:
    """Return the shape of a parameter."""
    assert value.const_value is not None
    return tuple(value.const_value.shape.numpy())


def parameter_values(value: ir.Value) -> NDArray[np.float32]:
    """Return the values of a parameter as float32. They are read from the file at each call."""
    assert value.const_value is not None
    return value.const_value.numpy().astype(np.float32, copy=False)


def with_lazy_values(
    value: ir.Value, dtype: ir.DataType, shape: Sequence[int], change: Change
) -> ir.Value:
    """Return a new initializer with the name of `value`, whose tensor is computed when it is read.

    `change` computes it from the float32 values of `value`. `dtype` and `shape` are those of the
    result. Nothing is kept in memory between two reads.
    """
    original = value.const_value
    assert original is not None

    def load() -> ir.TensorProtocol:
        changed = change(original.numpy().astype(np.float32, copy=False))
        return ir.tensor(changed.astype(dtype.numpy()), name=value.name)

    tensor = ir.LazyTensor(load, dtype=dtype, shape=ir.Shape(shape), name=value.name)
    return ir.Value(
        name=value.name, shape=ir.Shape(shape), type=ir.TensorType(dtype), const_value=tensor
    )


def change_parameter(value: ir.Value, change: Change) -> None:
    """Replace the values of a parameter in place. `change` computes the new values, of the same
    type and shape, whenever they are read."""
    assert value.dtype is not None
    value.const_value = with_lazy_values(
        value, value.dtype, parameter_shape(value), change
    ).const_value


def add_parameter(graph: ir.Graph, name: str, numbers: NDArray[Any]) -> ir.Value:
    """Add an initializer with this name and these numbers to a graph, and return its value."""
    tensor = ir.tensor(numbers, name=name)
    kind = ir.TensorType(tensor.dtype)
    value = ir.Value(name=name, shape=ir.Shape(numbers.shape), type=kind, const_value=tensor)
    graph.initializers.add(value)
    return value


IntegerMatrix = NDArray[np.int8] | NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class FloatProduct:
    """A `MatMul` node that computes `left @ matrix`, where `matrix` is a parameter with the shape
    `[inputs, outputs]`."""

    node: ir.Node
    left: ir.Value
    matrix: ir.Value

    @property
    def name(self) -> str:
        """Name of the matrix."""
        return str(self.matrix.name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix: number of input channels, number of output channels."""
        return parameter_shape(self.matrix)

    @property
    def result(self) -> ir.Value:
        """Value of the product."""
        return self.node.outputs[0]

    @property
    def type(self) -> np.dtype[Any]:
        """Numpy dtype of the activations."""
        assert self.left.dtype is not None
        return self.left.dtype.numpy()


class Codec(Protocol):
    """Storage of a parameter matrix in integers, with the operators that multiply by it."""

    domain: str
    """Domain of the operators; empty for operators of ONNX."""

    operator: str
    """Operator that computes the product."""

    dtype: ir.DataType
    """Type of the stored integers."""

    def stored_shape(self, inputs: int, outputs: int) -> tuple[int, ...]:
        """Return the shape of the stored integers for a matrix `[inputs, outputs]`."""

    def scales(self, matrix: Floats) -> Floats:
        """Return the scales of a matrix: the number that one step of the integers stands for. They
        are never zero."""

    def to_integers(self, matrix: Floats, scales: Floats) -> IntegerMatrix:
        """Return the integers to store for a matrix with these scales."""

    def round_matrix(self, matrix: Floats, scales: Floats) -> Floats:
        """Return the matrix after rounding: the floating-point numbers that the stored integers
        stand for."""

    def emit_product(
        self, product: FloatProduct, integers: ir.Value, scales: ir.Value
    ) -> list[ir.Node]:
        """Return new nodes that multiply `product.left` by the stored matrix. The only output of
        the last node is the product.

        `integers` and `scales` are the initializers with the results of `to_integers` and `scales`.
        """


def find_products(graph: ir.Graph) -> Iterator[FloatProduct]:
    """Yield each `MatMul` of a graph whose right factor is a parameter matrix, in the order of the
    graph.

    A matrix that several nodes read is skipped.
    """
    for node in graph:
        if node.op_type == "MatMul" and not node.domain and is_parameter(node.inputs[1], 2):
            left, matrix = node.inputs
            assert left is not None and matrix is not None
            yield FloatProduct(node, left, matrix)


def replace_product(graph: ir.Graph, product: FloatProduct, nodes: list[ir.Node]) -> None:
    """Replace the `MatMul` node of a product by `nodes`, in place.

    The output of the last node takes over the name, the type and the readers of the product's
    result.
    """
    old_result, (new_result,) = product.result, nodes[-1].outputs
    new_result.name, old_result.name = old_result.name, f"{old_result.name}_float"
    new_result.type, new_result.shape = old_result.type, old_result.shape
    graph.insert_before(product.node, nodes)
    ir.convenience.replace_all_uses_with(old_result, new_result, replace_graph_outputs=True)
    graph.remove(product.node, safe=True)


def quantise(model: ir.Model, codec: Codec, means: Mapping[str, Floats]) -> None:
    """Store the parameter matrix of every product in integers, in place, in the format of `codec`.

    `means` are the channel means of the activations, by the name of the matrix. Every matrix must
    have them. Rounding a matrix changes the mean of the product, which is most of the error if the
    activations are similar to each other. The difference is added to the bias of the product, or to
    a new bias if it has none (Nagel et al. 2019, arXiv 1906.04721). If the activations may contain
    rows of padding, it is added only to the numbers of a bias that are not zero.
    """
    graph = model.graph
    for product in list(find_products(graph)):
        matrix = parameter_values(product.matrix)
        factors = codec.scales(matrix).astype(product.type)
        # A scale that is too small for float16 becomes zero. With 1 in its place the numbers do.
        scales = np.where(factors == 0, 1, factors).astype(np.float32)
        correction = means[product.name] @ (matrix - codec.round_matrix(matrix, scales))
        bias = _find_bias(product)
        if _is_padded(product.left):
            # Keys of cosine attention are normalized: a key that is nearly zero in place of zero
            # would get a direction.
            correction = np.where(0 if bias is None else parameter_values(bias), correction, 0)
        shape, to_integers = (
            codec.stored_shape(*product.shape),
            partial(codec.to_integers, scales=scales),
        )
        integers = with_lazy_values(product.matrix, codec.dtype, shape, to_integers)
        del graph.initializers[product.name]
        graph.initializers.add(integers)
        steps = add_parameter(graph, f"{product.name}_scale", scales.astype(product.type))
        nodes = codec.emit_product(product, integers, steps)
        if bias is None:
            shift = add_parameter(graph, f"{product.name}_shift", correction.astype(product.type))
            nodes.append(ir.node("Add", [nodes[-1].outputs[0], shift]))
        else:
            change_parameter(bias, partial(np.add, correction))
        replace_product(graph, product, nodes)
    if codec.domain:
        model.opset_imports[codec.domain] = 1


REORDERING_OPERATORS = frozenset(
    ("Concat", "Gather", "Reshape", "Slice", "Split", "Squeeze", "Transpose")
)
"""Operators that return rows of their input in another order or shape."""


def _is_padded(value: ir.Value) -> bool:
    """Return whether a value may contain rows of zeros from a `Pad` node.

    Nodes that only move rows (`REORDERING_OPERATORS`) are followed to their inputs.
    """
    node = value.producer()
    if node is None or node.op_type not in REORDERING_OPERATORS:
        return node is not None and node.op_type == "Pad"
    return any(v is not None and _is_padded(v) for v in node.inputs)


def _find_bias(product: FloatProduct) -> ir.Value | None:
    """Return the parameter that the only reader of a product adds to it, an `Add` node.

    Return None if there is no such node, or if the product has several readers or is an output of
    the graph.
    """
    result = product.result
    users = [user for user, _ in result.uses()]
    if len(users) != 1 or users[0].op_type != "Add" or result.is_graph_output():
        return None
    biases = [value for value in users[0].inputs if is_parameter(value, 1)]
    return biases[0] if biases else None
