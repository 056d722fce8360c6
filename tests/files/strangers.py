"""Changes of an output in the ONNX files of small networks of the zoo.

The names of the functions are parameter ids of tests.
"""

import random
from collections.abc import Callable

import onnx
from onnx import TensorProto, helper

Change = Callable[[random.Random, onnx.GraphProto, onnx.ValueInfoProto], None]

OTHER_TYPES = (TensorProto.INT64, TensorProto.BOOL, TensorProto.DOUBLE, TensorProto.STRING)


def renamed(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """Give an output another name."""
    _rename(graph, output.name, "renamed")
    output.name = "renamed"


def missing(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """Remove an output, if there is another."""
    if len(graph.output) > 1:
        graph.output.remove(output)


def flat(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """Reshape an output to one axis."""
    _append(graph, output, "Reshape", [_add_integers(graph, [-1])])


def nested(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """Add an axis to an output."""
    _append(graph, output, "Unsqueeze", [_add_integers(graph, [0])])


def averaged(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """Average an output over an axis, which is removed."""
    _append(
        graph, output, "ReduceMean", [_add_integers(graph, [rng.choice((0, 1, -1))])], keepdims=0
    )


def summed(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """Sum an output to one number."""
    _append(graph, output, "ReduceSum", [], keepdims=0)


def cut(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """Slice an output to at most three rows along an axis."""
    ends, axes = [rng.randrange(4)], [rng.randrange(2)]
    bounds = [_add_integers(graph, values) for values in ([0], ends, axes)]
    _append(graph, output, "Slice", bounds)


def doubled(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """Concatenate an output with itself along an axis."""
    _append(graph, output, "Concat", [f"{output.name}_before"], axis=rng.choice((0, 1, -1)))


def cast(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """Cast an output to another dtype."""
    dtype = rng.choice(OTHER_TYPES)
    _append(graph, output, "Cast", [], to=dtype)
    graph.output[-1].type.tensor_type.elem_type = dtype


def no_number(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """Replace all values of an output by NaN."""
    graph.initializer.append(helper.make_tensor("nan", TensorProto.FLOAT, [1], [float("nan")]))
    _append(graph, output, "Mul", ["nan"])


def a_list(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """Make an output a sequence of arrays."""
    _append(graph, output, "SequenceConstruct", [])
    sequence_info = helper.make_tensor_sequence_value_info(
        graph.output[-1].name, TensorProto.FLOAT, None
    )
    graph.output[-1].CopyFrom(sequence_info)


def turned(rng: random.Random, graph: onnx.GraphProto, output: onnx.ValueInfoProto) -> None:
    """Reverse the axes of an output."""
    _append(graph, output, "Transpose", [])


CHANGES: tuple[Change, ...] = (
    *(renamed, missing, flat, nested, averaged, summed, cut, doubled, cast, no_number, a_list),
    turned,
)


def change_file(rng: random.Random, data: bytes, change: Change) -> bytes:
    """Return the file with a change of a random output."""
    model = onnx.load_from_string(data)
    change(rng, model.graph, rng.choice(list(model.graph.output)))
    return model.SerializeToString()


def _rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    for node in graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name == old:
                    names[index] = new


def _append(
    graph: onnx.GraphProto,
    output: onnx.ValueInfoProto,
    op: str,
    inputs: list[str],
    **attributes: object,
) -> None:
    """Append a node to an output, whose shape is then not declared."""
    name, kind = output.name, output.type.tensor_type.elem_type
    _rename(graph, name, f"{name}_before")
    graph.node.append(helper.make_node(op, [f"{name}_before", *inputs], [name], **attributes))
    graph.output.remove(output)
    graph.output.append(helper.make_tensor_value_info(name, kind, None))


def _add_integers(graph: onnx.GraphProto, values: list[int]) -> str:
    """Add a constant of integers. Return its name."""
    name = f"constant_{len(graph.initializer)}"
    graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
    return name
