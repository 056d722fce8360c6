"""ONNX's reference evaluator, with the forms of operators that it lacks and exported files use."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun


class Pad(OpRun):
    """Pad with negative `pads`, which remove elements.

    The standard allows them, but the reference evaluator refuses them.
    """

    op_domain = ""

    def _run(self, x, pads, value=None, axes=None, mode="constant"):  # type: ignore[no-untyped-def]
        all_pads = np.zeros((2, x.ndim), int)
        all_pads[:, slice(None) if axes is None else np.asarray(axes)] = np.reshape(pads, (2, -1))
        removed, added = np.maximum(-all_pads, 0), np.maximum(all_pads, 0)
        keep = tuple(slice(b, size - a) for b, a, size in zip(*removed, x.shape, strict=True))
        options = {"constant_values": 0 if value is None else value} if mode == "constant" else {}
        return (np.pad(x[keep], added.T, mode=mode, **options).astype(x.dtype),)


def evaluate(
    model: onnx.ModelProto, inputs: Sequence[np.ndarray], replaced: Sequence[type[OpRun]] = (Pad,)
) -> list[np.ndarray]:
    """Return the outputs of a model; ``replaced`` are operators in place of the evaluator's."""
    session = ReferenceEvaluator(model, new_ops=[*replaced])
    with np.errstate(all="ignore"):
        outputs = session.run(None, dict(zip(session.input_names, inputs, strict=True)))
    return [np.asarray(x) for x in outputs]
