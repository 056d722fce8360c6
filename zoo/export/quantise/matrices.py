"""Quantisation of all matrices of a model, without a change of the mean of what they give."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import onnx_ir as ir

from zoo.export.quantise.parameters import added, array, change, is_parameter, later
from zoo.export.quantise.products import Codec, FloatProduct, Floats, products, replace


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
