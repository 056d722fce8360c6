"""Convert a float32 model to one that computes in float16 or bfloat16.

The following values stay in float32:

- inputs and outputs, so that callers need no change;
- values that depend only on shapes (coordinates, rotary tables, interpolated positions), because
  rounding these few numbers would shift every patch;
- sums, means and powers, because their intermediate values would overflow or underflow in half
  precision;
- values that the caller names, because large numbers were measured there.

A norm or softmax that is a single node accumulates in float32 by definition.
"""

from collections.abc import Collection, Iterator
from typing import Literal

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from converter.errors import SpecError
from converter.opsets import DEFAULT_TARGET
from converter.targets import find_target
from converter.targets.schemas import BFLOAT16_SINCE

Precision = Literal["float16", "bfloat16"]

FLOAT32 = ir.DataType.FLOAT
HALVES = {"float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16}

IN_FLOAT32 = frozenset(
    {
        # Operators that compute powers, sums or coordinates.
        *("CumSum", "Exp", "Log", "LpNormalization", "Pow", "Reciprocal", "Sqrt", "ReduceL1"),
        *("ReduceL2", "ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum"),
        *("ReduceSumSquare", "Cos", "Det", "GridSample", "Resize", "Sin"),
        # Operators whose dtype is determined by an attribute or by one of several operands.
        *("Cast", "CastLike", "Constant", "ConstantOfShape", "EyeLike", "OneHot"),
        *("DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"),
        *("RandomNormalLike", "RandomUniformLike"),
        *("If", "Loop", "Scan"),  # operators with bodies
    }
)
"""Operators that are never converted."""

ELEMENTWISE = frozenset({"Abs", "Add", "Div", "Max", "Min", "Mul", "Neg", "Sub"})
"""Operators that stay in float32 if all their readers do. In a mean of squares, `x * x` is as large
as the mean, which is computed in float32."""


def lower_precision(
    model: ir.Model,
    precision: Precision,
    float32: Collection[str] = (),
    target: str = DEFAULT_TARGET,
) -> ir.Model:
    """Convert a model with float32 values to half precision, in place, and return it.

    Inputs and outputs stay float32. Initializers are cast one at a time when they are written.

    Arguments:
        model: the model to convert.
        precision: "float16" or "bfloat16".
        float32: names of values that stay in float32, together with the nodes that compute or read
            them. Unknown names are ignored.
        target: the target that the model was converted for. Its quirks are avoided again.

    Raises:
        SpecError: the precision is another one, or the model has functions.
    """
    if precision not in HALVES:
        raise SpecError(f"precision must be {' or '.join(HALVES)}, received {precision!r}")
    if model.functions:
        raise SpecError(
            "the nodes of a model's own functions have no precision: inline the functions first"
        )
    # Some intermediate values have no type before shape inference.
    common.ShapeInferencePass()(model)
    nodes = _select_nodes(model, precision, frozenset(float32))
    half = HALVES[precision]
    for node in nodes:
        # The other outputs of a norm are statistics, which have a separate type.
        for value in node.outputs[: 1 if "Normalization" in node.op_type else None]:
            if value.dtype == FLOAT32:
                value.dtype = half
    for value in model.graph.initializers.values():
        users = [node for node, _ in value.uses()]
        if value.dtype == FLOAT32 and users and all(node in nodes for node in users):
            _cast_initializer(value, half)
    _insert_casts(model.graph, nodes, half)
    find_target(target).remove_quirks(model)
    return model


def _select_nodes(model: ir.Model, precision: Precision, float32: frozenset[str]) -> set[ir.Node]:
    """Return the nodes that compute in half precision.

    All others stay in float32: those in bodies, those that depend on shapes only, those of
    operators in ``IN_FLOAT32`` or of other domains, those that read or compute a value named in
    ``float32``, and those of operators in ``ELEMENTWISE`` whose results only nodes in float32 read.
    With bfloat16, operators that do not support it at the model's opset also stay in float32.
    """
    opset = model.opset_imports[""]
    kept_ops = set(IN_FLOAT32)
    if precision == "bfloat16":
        kept_ops |= {op for op, since in BFLOAT16_SINCE.items() if opset < since}
    data_nodes = _data_dependent_nodes(model.graph)
    half_nodes: set[ir.Node] = set()
    # The nodes are visited in reverse order, because a node that only feeds float32 nodes is
    # decided after these.
    for node in reversed(model.graph):
        users = [user for value in node.outputs for user, _ in value.uses()]
        feeds_only_float32 = bool(users) and not any(user in half_nodes for user in users)
        if (
            node in data_nodes
            and node.op_type not in kept_ops
            and not node.domain
            and not any(v is not None and v.name in float32 for v in (*node.inputs, *node.outputs))
            and not (node.op_type in ELEMENTWISE and feeds_only_float32)
            and any(value.dtype == FLOAT32 for value in node.outputs)
        ):
            half_nodes.add(node)
    return half_nodes


def _data_dependent_nodes(graph: ir.Graph) -> set[ir.Node]:
    """Return the nodes that depend on the values of an input, not only on its shape."""
    values, nodes = set(graph.inputs), set[ir.Node]()
    for node in graph:
        if node.op_type not in ("Shape", "Size") and any(v in values for v in _read_values(node)):
            nodes.add(node)
            values.update(node.outputs)
    return nodes


def _read_values(node: ir.Node) -> Iterator[ir.Value | None]:
    """Yield the inputs of a node and all values that are read in its bodies; a missing input is
    None."""
    yield from node.inputs
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            for inner in attribute.as_graph():
                yield from _read_values(inner)


def _insert_casts(graph: ir.Graph, half_nodes: Collection[ir.Node], half: ir.DataType) -> None:
    """Insert casts so that each node reads float values in its own precision, in place; each value
    is cast once.

    Outputs of the graph become float32 and keep their names.

    Arguments:
        graph: the graph.
        half_nodes: the nodes that compute in half precision. All others compute in float32.
        half: the dtype of half precision.
    """
    casts: dict[ir.Value, ir.Value] = {}

    def cast(value: ir.Value) -> ir.Value:
        if value not in casts:
            casts[value] = _insert_cast(graph, value, FLOAT32 if value.dtype == half else half)
        return casts[value]

    for node in list(graph.all_nodes()):
        dtype = half if node in half_nodes else FLOAT32
        for index, value in enumerate(node.inputs):
            if value is not None and value.dtype in (FLOAT32, half) and value.dtype != dtype:
                node.replace_input_with(index, cast(value))
    for index, value in enumerate(graph.outputs):
        if value.dtype == half:
            name = value.name
            value.name = f"{name}_{half.name.lower()}"
            graph.outputs[index] = cast(value)
            graph.outputs[index].name = name


def _insert_cast(graph: ir.Graph, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Insert a cast directly after the producer of a value, or first in the graph if it has none.
    Return the result."""
    node = _cast(value, dtype, f"{value.name}_{dtype.name.lower()}")
    (result,) = node.outputs
    producer = value.producer()
    if producer is None or producer.graph is None:
        graph.insert_before(graph[0], node)
    else:
        producer.graph.insert_after(producer, node)
    return result


def _cast(value: ir.Value, dtype: ir.DataType, name: str) -> ir.Node:
    """Return a new node, in no graph yet, that casts a value and has a result of this name."""
    result = ir.val(name, dtype, value.shape)
    return ir.node("Cast", [value], {"to": dtype.value}, outputs=[result])


def _cast_initializer(value: ir.Value, dtype: ir.DataType) -> None:
    """Change the dtype of an initializer, in place. Its tensor is read and cast when it is
    needed."""
    tensor = value.const_value
    assert tensor is not None

    def load() -> ir.TensorProtocol:
        array = narrow_array(tensor.numpy(), dtype.numpy())
        return ir.tensor(array, dtype=dtype, name=tensor.name)

    shape = ir.Shape(tensor.shape.numpy())
    value.dtype = dtype
    value.const_value = ir.LazyTensor(load, dtype=dtype, shape=shape, name=tensor.name)


def narrow_array(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return an array in a narrower float dtype, with finite numbers kept finite.

    Finite numbers that are out of range become the largest or the lowest finite number. This is
    needed for attention scores such as -1e9, because the result for a row of infinities would be
    NaN. Infinities and NaN are kept. If the array is a single number that is not zero, its
    magnitude becomes at least the smallest normal number, because a number such as 1e-8 may be
    added to a divisor to avoid a division by zero.
    """
    limits = jnp.finfo(dtype)
    largest, smallest = float(limits.max), float(limits.smallest_normal)
    clipped = np.where(np.isinf(array), array, np.clip(array, -largest, largest))
    if array.size == 1:
        tiny = (array != 0) & (np.abs(array) < smallest)
        clipped = np.where(tiny, np.copysign(smallest, array), clipped)
    return np.asarray(clipped).astype(dtype)


def emulate_bfloat16(model: ir.Model, target: str = DEFAULT_TARGET) -> ir.Model:
    """Make a bfloat16 model compute in float32 and round every result to bfloat16, in place, and
    return it.

    Hardware that multiplies in bfloat16 and accumulates in float32 computes the same results. On
    CPUs, runtimes have few kernels for bfloat16 other than casts. Tensors in a separate file are
    not changed; they are cast before they are used.

    Arguments:
        model: the model.
        target: the target that the model was converted for. Its quirks are avoided again.
    """
    half = HALVES["bfloat16"]
    for value in list(model.graph.initializers.values()):
        if value.dtype == half:
            if isinstance(value.const_value, ir.ExternalTensor):
                _cast_for_readers(value)
            else:
                _cast_initializer(value, FLOAT32)
    for node in list(model.graph):
        for value in node.outputs:
            if value.dtype == half:
                _round_result(model.graph, node, value, half)
    find_target(target).remove_quirks(model)
    return model


def _cast_for_readers(value: ir.Value) -> None:
    """Insert a cast of a value to float32 directly before each node that reads it, in place.

    Each use of the value gets its own cast.
    """
    for number, (user, index) in enumerate(tuple(value.uses())):
        node = _cast(value, FLOAT32, f"{value.name}_float_{number}")
        assert user.graph is not None
        user.graph.insert_before(user, node)
        user.replace_input_with(index, node.outputs[0])


def _round_result(graph: ir.Graph, node: ir.Node, value: ir.Value, half: ir.DataType) -> None:
    """Insert casts so that the readers of a node's result get it rounded to half precision, but in
    float32; in place.

    Arguments:
        graph: the graph.
        node: the node that computes the value. A cast is not changed; other nodes compute in
            float32 from now on.
        value: the result.
        half: the dtype to round to.
    """
    uses = tuple(value.uses())
    if node.op_type != "Cast":
        value.dtype = FLOAT32
        value = _insert_cast(graph, value, half)
    rounded = _insert_cast(graph, value, FLOAT32)
    for user, index in uses:
        user.replace_input_with(index, rounded)
