"""Lower a graph to an ONNX model: apply the rule of each node and set the types of its results."""

from collections.abc import Sequence
from itertools import accumulate

import onnx_ir as ir

from converter.errors import SpecError, UnsupportedError
from converter.ir import Graph, Node, ops
from converter.ir.named_sizes import find_origins
from converter.lower import (
    bitwise,
    composite,
    control,
    elementwise,
    indexing,
    reduce,
    shape,
    special,
)
from converter.lower.builder import Builder, ModelState, set_type
from converter.opsets import IR_VERSIONS, OPSETS
from converter.targets import Target


def lower(
    graph: Graph,
    opset: int,
    target: Target,
    *,
    refused: list[UnsupportedError] | None = None,
    lines: bool = False,
) -> ir.Model:
    """Return the ONNX model of a legalized graph. Its parameters are initializers without values.

    **Arguments**

    - `graph`: the graph after all passes.
    - `opset`: the ONNX opset to write.
    - `target`: the runtime that the model is for.
    - `refused`: a list that collects the errors for nodes that cannot be lowered. Without it the
      first error is raised. The model is not usable if the list is not empty afterwards.
    - `lines`: whether nodes get their source line as ``doc_string``.

    **Raises** `SpecError` for an opset that is not supported, and `UnsupportedError` for a node
    that cannot be lowered.
    """
    if opset not in OPSETS:
        raise SpecError(f"opset must be {OPSETS[0]} to {OPSETS[-1]}, received {opset}")
    main = ir.tape.Tape()
    names = [*(v.name for v in (*graph.inputs, *graph.params)), *graph.output_names]
    state = ModelState(
        opset,
        target,
        main,
        errors=refused,
        has_source_lines=lines,
        user_op_names=graph.user_op_names(),
        # of ``a_b_c``: ``a``, ``a_b``, ``a_b_c``
        reserved=frozenset(
            p for name in names for p in accumulate(name.split("_"), "{}_{}".format)
        ),
    )
    builder = Builder(state, main)
    inputs = [set_type(ir.Value(name=v.name), v.shape, v.dtype) for v in graph.inputs]
    initializers = [set_type(ir.Value(name=v.name), v.shape, v.dtype) for v in graph.params]
    graph_values = (*graph.inputs, *graph.params)
    state.values.update(zip(map(id, graph_values), (*inputs, *initializers), strict=True))
    name_origins = find_origins([v.shape for v in graph.inputs])
    state.origins = {name: (inputs[origin.index], origin) for name, origin in name_origins.items()}
    builder.lower(graph.nodes)
    outputs = _name_outputs(builder, graph, inputs)
    body = ir.Graph(
        inputs,
        outputs,
        nodes=main.nodes,
        initializers=[*initializers, *main.initializers],
        opset_imports={"": opset, **state.domains},
        name="main_graph",
    )
    metadata = {"dimension_constraints": "; ".join(graph.constraints)} if graph.constraints else {}
    return ir.Model(
        body, ir_version=IR_VERSIONS[opset], producer_name="jax-onnx-zoo", metadata_props=metadata
    )


def _name_outputs(builder: Builder, graph: Graph, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """Return the ONNX values of the graph's outputs, renamed to the names of the outputs.

    A value that no node computes, or that is an output twice, is copied first.
    """
    results: list[ir.Value] = []
    for value, name in zip(graph.outputs, graph.output_names, strict=True):
        builder.node = value.node or Node(ops.op_by_name("constant"), [], {})
        result = builder.value(value)
        if result.producer() is None or any(result is r for r in results):
            result = builder.op("Identity", result)
        set_type(result, value.shape, value.dtype)
        result.name = name
        results.append(result)
    return results
