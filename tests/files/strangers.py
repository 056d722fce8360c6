"""ONNX files and manifests of strangers: sound ones of the zoo's small networks, changed."""

import random
from collections.abc import Callable

import onnx
from onnx import TensorProto, helper

Change = Callable[[random.Random, onnx.GraphProto, onnx.ValueInfoProto], None]

OTHER_TYPES = (TensorProto.INT64, TensorProto.BOOL, TensorProto.DOUBLE, TensorProto.STRING)


def renamed(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """An output has another name."""
    _rename(graph, output.name, "renamed")
    output.name = "renamed"


def missing(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """An output is not given, if there is another."""
    if len(graph.output) > 1:
        graph.output.remove(output)


def flat(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """An output has one axis."""
    _append(graph, output, "Reshape", [_whole(graph, [-1])])


def nested(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """An output has one axis more."""
    _append(graph, output, "Unsqueeze", [_whole(graph, [0])])


def averaged(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """An output has one axis less."""
    _append(graph, output, "ReduceMean", [_whole(graph, [rng.choice((0, 1, -1))])], keepdims=0)


def summed(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """An output is one number."""
    _append(graph, output, "ReduceSum", [], keepdims=0)


def cut(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """An output has few rows along an axis, or none."""
    ends, axes = [rng.randrange(4)], [rng.randrange(2)]
    places = [_whole(graph, values) for values in ([0], ends, axes)]
    _append(graph, output, "Slice", places)


def doubled(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """An output has twice as many rows along an axis."""
    _append(graph, output, "Concat", [f"{output.name}_before"], axis=rng.choice((0, 1, -1)))


def cast(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """An output has another type."""
    kind = rng.choice(OTHER_TYPES)
    _append(graph, output, "Cast", [], to=kind)
    graph.output[-1].type.tensor_type.elem_type = kind


def no_number(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """An output is not a number anywhere."""
    graph.initializer.append(helper.make_tensor("nan", TensorProto.FLOAT, [1], [float("nan")]))
    _append(graph, output, "Mul", ["nan"])


def a_list(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """An output is a list of arrays."""
    _append(graph, output, "SequenceConstruct", [])
    own = helper.make_tensor_sequence_value_info(graph.output[-1].name, TensorProto.FLOAT, None)
    graph.output[-1].CopyFrom(own)


def turned(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """An output has its axes the other way round."""
    _append(graph, output, "Transpose", [])


CHANGES: tuple[Change, ...] = (
    *(renamed, missing, flat, nested, averaged, summed, cut, doubled, cast, no_number, a_list),
    turned,
)


def changed(rng: random.Random, data: bytes, change: Change) -> bytes:
    """A file of which one output is another."""
    model = onnx.load_from_string(data)
    change(rng, model.graph, rng.choice(list(model.graph.output)))
    return model.SerializeToString()


def _rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    for node in graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name == old:
                    names[place] = new


def _append(
    graph: onnx.GraphProto, output: onnx.ValueInfoProto, op: str, more: list[str], **how: object
) -> None:
    """Put a node behind an output, whose shape is not declared then."""
    name, kind = output.name, output.type.tensor_type.elem_type
    _rename(graph, name, f"{name}_before")
    graph.node.append(helper.make_node(op, [f"{name}_before", *more], [name], **how))
    graph.output.remove(output)
    graph.output.append(helper.make_tensor_value_info(name, kind, None))


def _whole(graph: onnx.GraphProto, values: list[int]) -> str:
    """A constant of whole numbers."""
    name = f"constant_{len(graph.initializer)}"
    graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
    return name
