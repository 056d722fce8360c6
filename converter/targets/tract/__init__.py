"""tract, a runtime in Rust for every opset and precision, examined in 0.23.9."""

from dataclasses import replace

import onnx_ir as ir

from converter.targets.openvino import TARGET as OPENVINO
from converter.targets.target import Quirk, lacks_operators

# When tract loads a file, it decomposes Attention into products that take a third longer than the
# converter's decomposition. If there is more than one image, 4-bit products after an Attention are
# wrong.
LACKS = (*OPENVINO.lacks, lacks_operators("Attention"))


def remove_value_types(model: ir.Model) -> None:
    """Remove the dtypes and shapes of all results of nodes that are not outputs of the model, in
    place.

    tract cannot load some files in which these shapes have named dimensions.
    """
    outputs = set(model.graph.outputs)
    for node in model.graph.all_nodes():
        for value in node.outputs:
            if value not in outputs:
                value.type = value.shape = None


NAMED_SIZES = Quirk(
    "Named sizes of values between nodes",
    "",
    "g (float[B,2] x) => (float[1,2] y) <float[N,2] z> "
    "{ z = Relu (x) s = Constant <value_ints=[1,2]> () y = Reshape (z, s) }",
    model=remove_value_types,
)

TARGET = replace(OPENVINO, name="tract", oldest="0.23", lacks=LACKS, quirks=(NAMED_SIZES,))
