"""OpenCV's new engine (``cv2.dnn.ENGINE_NEW``) for floats, examined in 5.0.0.

The classic engine supports only static sizes and opsets below 23, and it is half as fast.
"""

from dataclasses import replace

import onnx_ir as ir

from converter.targets.openvino import TARGET as OPENVINO
from converter.targets.target import Quirk, lacks_operators

LACKS = (*OPENVINO.lacks, lacks_operators("DynamicQuantizeLinear MatMulInteger MatMulNBits"))


def insert_table_identities(model: ir.Model) -> None:
    """Insert an ``Identity`` after each cosine and sine table of a rotary embedding that no node
    computes, in place.

    OpenCV raises an error if these tables are constants.
    """
    for node in list(model.graph.all_nodes()):
        for position in (1, 2) if node.op_type == "RotaryEmbedding" else ():
            table = node.inputs[position]
            if table is not None and table.producer() is None:
                name = f"{node.outputs[0].name}_{table.name}"
                copy = ir.val(name, type=table.type, shape=table.shape)
                node.prepend(ir.node("Identity", [table], outputs=[copy]))
                node.replace_input_with(position, copy)


CONSTANT_TABLES = Quirk(
    "Rotary embeddings by tables that are constants",
    "",
    "g (float[1,1,1,2] x) => (float[1,1,1,2] y) "
    "<float[1,1] c = {0.0}, float[1,1] s = {1.0}, int64[1,1] p = {0}> "
    "{ y = RotaryEmbedding (x, c, s, p) }",
    model=insert_table_identities,
)

TARGET = replace(OPENVINO, name="opencv", oldest="5", lacks=LACKS, quirks=(CONSTANT_TABLES,))
