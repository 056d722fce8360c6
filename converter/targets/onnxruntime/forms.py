"""Forms of operations for which ONNX Runtime's CPU provider has a kernel.

They were found by running a file for each form (`tests/runtimes/forms.py`; 1.32.0). If the runtime
has no kernel for float16, it computes in float32.
"""

from collections.abc import Mapping

from converter.ir import Node, ops
from converter.ir.op import Op
from converter.targets.onnxruntime.resizes import has_kernel, resize_mode, scaled_axes
from converter.targets.target import Form

FLOATS = frozenset({"float16", "float32"})
ALL_FLOATS = FLOATS | {"float64"}
IMAGES = range(3, 6)
"""Numbers of axes of a line, an image or a volume, with batch and channels."""


def _refuses_dilation(node: Node, opset: int) -> str:
    """Return the reason why a pool does not run at an opset, or "" if it runs.

    An average pool with a dilated window is supported from opset 19 on.
    """
    dilated = any(step != 1 for step in node.params["dilation"])
    return "an average over a dilated window came with opset 19" if dilated and opset < 19 else ""


def _refuses_axes(node: Node, opset: int) -> str:
    """Return the reason why a resize does not run, or "" if there is a kernel for the axes that it
    scales. The opset makes no difference."""
    axes, mode = scaled_axes(node), resize_mode(node)
    if has_kernel(mode, node.out.rank, axes):
        return ""
    return f"no kernel scales axes {axes} of {node.out.rank} in the mode '{mode}'"


def _refuses_sampling(node: Node, opset: int) -> str:
    """Return the reason why a grid sample does not run at an opset, or "" if it runs.

    A grid sample of float64 needs opset 20.
    """
    early = node.out.dtype.name == "float64" and opset < 20
    return "a grid sample of float64 came with opset 20" if early else ""


FORMS: Mapping[Op, Form] = {
    ops.max_pool: Form(ALL_FLOATS, IMAGES),
    ops.avg_pool: Form(FLOATS, IMAGES, _refuses_dilation),
    ops.sum_pool: Form(FLOATS, IMAGES, _refuses_dilation),
    **dict.fromkeys((ops.conv, ops.conv_transpose), Form(FLOATS)),
    ops.grid_sample: Form(ALL_FLOATS, range(4, 5), _refuses_sampling),
    **dict.fromkeys((ops.rms_norm, ops.batch_norm, ops.softmax, ops.log_softmax), Form(ALL_FLOATS)),
    ops.group_norm: Form(FLOATS, range(3, 64)),
    ops.resize: Form(FLOATS | {"int8", "uint8", "int32"}, refuses=_refuses_axes),
}
