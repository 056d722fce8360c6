"""Move the scales of outlier channels from a norm into the matrices that read it (SmoothQuant, Xiao
et al., arXiv:2211.10438)."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from zoo.export.quantise.products import Floats, change_parameter, is_parameter, parameter_values

SPREAD = 3.0
"""Assumed ratio of the largest value of a normalized channel to its standard deviation."""


def smooth_activations(model: ir.Model) -> dict[str, Floats]:
    """Make the channels of normalized activations equally large, in place, by moving their scales
    into the matrices that read them.

    A tensor of activations has one scale, so that a channel that is a hundred times larger leaves
    the other channels 1 % of the steps. Each output channel of a matrix has its own scale. Dividing
    a channel of the norm and multiplying the row of the matrix does not change the product
    (SmoothQuant, arXiv 2211.10438, with alpha = 1/2). A row that is multiplied by large channels is
    also rounded in finer steps (AWQ, arXiv 2306.00978). The sizes of the channels are estimated
    from the norm's parameters, so that no data are needed.

    **Returns** the divisor of each channel of the activations, by the name of the matrix that reads
    them.
    """
    factors: dict[str, Floats] = {}
    for node in model.graph:
        parameters = _affine_parameters(node)
        matrices = list(_find_matrices(node.outputs[0])) if parameters else []
        if matrices:
            factor = _channel_divisors(parameters, matrices)
            for parameter in parameters:
                change_parameter(parameter, partial(np.multiply, 1 / factor))
            for matrix in matrices:
                change_parameter(matrix, partial(np.multiply, factor[:, None]))
                factors[str(matrix.name)] = factor
    return factors


def _channel_divisors(parameters: Sequence[ir.Value], matrices: Sequence[ir.Value]) -> Floats:
    """Return a divisor for each channel: it makes the channel and its row in the matrices equally
    large.

    `parameters` are the scale and shift of a norm, and `matrices` are those that read its result.
    The geometric mean of the divisors is 1.
    """
    sizes = SPREAD * abs(parameter_values(parameters[0])) + sum(
        abs(parameter_values(p)) for p in parameters[1:]
    )
    rows = np.max([abs(parameter_values(matrix)).max(1) for matrix in matrices], axis=0)
    usable = (sizes > 0) & (rows > 0)
    factor = np.sqrt(np.where(usable, sizes, 1) / np.where(usable, rows, 1))
    return (factor / np.exp(np.log(factor).mean())).astype(np.float32)


def _affine_parameters(node: ir.Node) -> list[ir.Value]:
    """Return the scale, or scale and shift, of the norm whose last node is `node`.

    A norm is a `LayerNormalization` or `RMSNormalization`, or a decomposed one, which ends in
    `x * scale` or `x * scale + shift`. The computation of `x` is not examined, so that any such
    `Mul` or `Add` counts. Return an empty list for other nodes, and if other nodes read the
    parameters too.
    """
    if node.op_type in ("LayerNormalization", "RMSNormalization"):
        parameters = list(node.inputs[1:])
    elif node.op_type in ("Mul", "Add"):
        parameters = [value for value in node.inputs if is_parameter(value, 1)]
    else:
        return []
    if node.op_type == "Add":
        scaled = next((v.producer() for v in node.inputs if v is not None and v.producer()), None)
        scale = (
            _affine_parameters(scaled)
            if parameters and scaled is not None and _is_read_once(scaled)
            else []
        )
        parameters = [*scale, *parameters] if scale else []
    vectors = [value for value in parameters if value is not None and is_parameter(value, 1)]
    return vectors if len(vectors) == len(parameters) else []


def _is_read_once(node: ir.Node) -> bool:
    """Return whether a node is a `Mul` with exactly one reader, and its result is no output of the
    graph."""
    (value,) = node.outputs
    return node.op_type == "Mul" and len(value.uses()) == 1 and not value.is_graph_output()


def _find_matrices(value: ir.Value) -> Iterator[ir.Value]:
    """Yield the parameter matrices that a value is multiplied by from the right.

    Nothing is yielded if the value is an output of the graph, or if a node reads it that is not
    such a product.
    """
    if value.is_graph_output():
        return
    uses = value.uses()
    matrices = [node.inputs[1] for node, i in uses if node.op_type == "MatMul" and i == 0]
    if len(matrices) == len(uses) and all(is_parameter(matrix, 2) for matrix in matrices):
        yield from (matrix for matrix in matrices if matrix is not None)
