"""SmoothQuant [Xiao et al., arXiv:2211.10438]: outlier channels of a norm lose their scale to the
matrices that read them."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from zoo.export.quantise.products import Floats, array, change, is_parameter

SPREAD = 3.0
"""Standard deviations of a normalised channel that are taken for its largest value."""


def even_out(model: ir.Model) -> dict[str, Floats]:
    """Move the scale of outlier channels from a norm into the matrices that read it, in place.

    **Returns** what the activations are divided by, by the matrix's name.

    One scale serves a whole tensor of activations, so a single channel that is a hundred times
    larger leaves the others 1 % of the steps, whereas each output channel of a matrix has a scale
    of its own. Dividing a channel of the norm and multiplying the row of the matrix changes
    nothing else (SmoothQuant, arXiv 2211.10438, with alpha = 1/2). A row that large channels meet
    is rounded in finer steps, too (AWQ, arXiv 2306.00978). The norm's parameters tell how large
    its channels get, so no data are needed.
    """
    factors: dict[str, Floats] = {}
    for node in model.graph:
        parameters = _affine(node)
        matrices = list(_matrices(node.outputs[0])) if parameters else []
        if matrices:
            factor = _factor(parameters, matrices)
            for parameter in parameters:
                change(parameter, partial(np.multiply, 1 / factor))
            for matrix in matrices:
                change(matrix, partial(np.multiply, factor[:, None]))
                factors[str(matrix.name)] = factor
    return factors


def _factor(parameters: Sequence[ir.Value], matrices: Sequence[ir.Value]) -> Floats:
    """What the channels are divided by, for which the rows are as large as they are."""
    sizes = SPREAD * abs(array(parameters[0])) + sum(abs(array(p)) for p in parameters[1:])
    rows = np.max([abs(array(matrix)).max(1) for matrix in matrices], axis=0)
    usable = (sizes > 0) & (rows > 0)
    factor = np.sqrt(np.where(usable, sizes, 1) / np.where(usable, rows, 1))
    return (factor / np.exp(np.log(factor).mean())).astype(np.float32)


def _affine(node: ir.Node) -> list[ir.Value]:
    """Scale and shift of a norm that nothing else reads; a decomposed norm ends in `x * scale`."""
    if node.op_type in ("LayerNormalization", "RMSNormalization"):
        parameters = list(node.inputs[1:])
    elif node.op_type in ("Mul", "Add"):
        parameters = [value for value in node.inputs if is_parameter(value, 1)]
    else:
        return []
    if node.op_type == "Add":
        scaled = next((v.producer() for v in node.inputs if v is not None and v.producer()), None)
        scale = _affine(scaled) if parameters and scaled is not None and _alone(scaled) else []
        parameters = [*scale, *parameters] if scale else []
    vectors = [value for value in parameters if value is not None and is_parameter(value, 1)]
    return vectors if len(vectors) == len(parameters) else []


def _alone(node: ir.Node) -> bool:
    """Whether a product is read by one node only."""
    (value,) = node.outputs
    return node.op_type == "Mul" and len(value.uses()) == 1 and not value.is_graph_output()


def _matrices(value: ir.Value) -> Iterator[ir.Value]:
    """The matrices that a value is multiplied by, if nothing else happens to it."""
    if value.is_graph_output():
        return
    uses = value.uses()
    matrices = [node.inputs[1] for node, i in uses if node.op_type == "MatMul" and i == 0]
    if len(matrices) == len(uses) and all(is_parameter(matrix, 2) for matrix in matrices):
        yield from (matrix for matrix in matrices if matrix is not None)
